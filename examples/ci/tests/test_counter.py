"""The counter under faults: in the simulator by default, on real nodes with `--zab-on processes` or `containers`."""

import pytest
from counter import Counter


def test_counts(zab_cluster):
    with zab_cluster.client() as client:
        counter = Counter(client, "/counter", "a")
        for _ in range(5):
            counter.increment()
        assert counter.value() == 5


@pytest.mark.zab(seeds=range(10))
def test_nothing_is_counted_twice_or_lost_in_a_power_outage(zab_cluster):
    with zab_cluster.client(timeout=2.0) as client:
        counter = Counter(client, "/counter", "a")
        counter.increment()
        zab_cluster.power_cut("all")
        zab_cluster.restart("all")
        zab_cluster.until_established()
        counter.increment()
        assert counter.value() == 2


@pytest.mark.zab(seeds=range(10))
def test_an_increment_whose_answer_was_lost_is_not_repeated(zab_cluster):
    leader = zab_cluster.until_established()
    with zab_cluster.client(leader, timeout=2.0) as client:
        counter = Counter(client, "/counter", "a")
        with zab_cluster.crash_at(leader, point="after-send:COMMIT"):
            counter.increment()
        zab_cluster.until_converged()
        assert counter.value() == 1


@pytest.mark.zab(seeds=range(10))
def test_counts_while_the_leader_is_cut_off(zab_cluster):
    leader = zab_cluster.until_established()
    one, other = (zab_cluster.client(node, timeout=2.0) for node in zab_cluster.nodes if node != leader)
    with one, other:
        counters = [Counter(one, "/counter", "one"), Counter(other, "/counter", "other")]
        with zab_cluster.partitioned(leader):
            for counter in counters:
                counter.increment()
        zab_cluster.until_converged()
        for counter in counters:
            counter.increment()
        assert counters[1].value() == 4


@pytest.mark.zab(nodes=5)
def test_counts_while_two_of_five_nodes_are_down(zab_cluster):
    with zab_cluster.client(timeout=2.0) as client:
        counter = Counter(client, "/counter", "a")
        zab_cluster.crash("minority")
        counter.increment()
        zab_cluster.heal()
        zab_cluster.until_converged()
        assert counter.value() == 1
