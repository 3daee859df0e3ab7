"""One body, every world: what an ensemble does in the hands of a test is the same wherever it stands."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.standing import WORLDS, Ensemble, Failed, Unknown
from model.verdict import Outcome

pytestmark = [pytest.mark.processes, pytest.mark.toxiproxy]


@pytest.fixture(params=sorted(WORLDS))
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ensemble]:
    """A standing ensemble, which must pass in the end."""
    with Ensemble(on=request.param, results=tmp_path) as ensemble:
        yield ensemble
        verdict = ensemble.finish()
    assert verdict.verdict is Outcome.PASS, verdict.reasons


def test_a_power_outage(cluster: Ensemble) -> None:
    with cluster.client() as client:
        client.create("/a", b"1")
        cluster.power_cut("all")
        assert not any(cluster.alive(node) for node in cluster.nodes)
        cluster.restart("all")
        assert client.get("/a").value == b"1"


def test_a_leader_that_is_cut_off_is_replaced_and_comes_back(cluster: Ensemble) -> None:
    with cluster.client() as client:
        client.create("/a", b"1")
        old = cluster.until_established()
        with cluster.partitioned("leader"):
            cluster.until(lambda: cluster.leader not in (old, None))
            with cluster.client(node=cluster.until_established()) as other:
                other.set("/a", b"2", version=0)
        cluster.until_converged()
        assert client.get("/a").value == b"2"


def test_a_leader_that_sleeps_wakes_up_as_a_follower(cluster: Ensemble) -> None:
    old = cluster.until_established()
    with cluster.client(node=old % 3 + 1) as client:
        client.create("/a")
        with cluster.paused(old):
            cluster.until(lambda: cluster.leader not in (old, None))
        cluster.until_converged()
        assert cluster.leader != old


def test_a_wiped_node_learns_everything_again(cluster: Ensemble) -> None:
    with cluster.client() as client:
        client.create("/a", b"1")
        lost = cluster.wipe("follower")
        lost.heal()
        cluster.until_converged()
        with cluster.client(node=lost.nodes[0]) as reader:
            assert reader.get("/a").value == b"1"


def test_outcomes(cluster: Ensemble) -> None:
    with cluster.client(timeout=1.0) as client:
        client.create("/a")
        with pytest.raises(Failed) as refused:
            client.create("/a")
        assert refused.value.error == "node exists"
        with cluster.paused("all"), pytest.raises(Unknown):
            client.set("/a", b"")
