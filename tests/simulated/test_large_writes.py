"""Many large writes at once, by clients that keep to their limits: no frame on a link exceeds its limit."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.client import Check, Create, Done, Failed, Multi, Set
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.harness.live import Ensemble
from zab_chaos.model.verdict import Outcome
from zab_chaos.node.config import Limits

LIMITS = {"request_bytes": 1_000, "frame_bytes": 64_000}
PATIENT = {"timeout_ms": 4_000}  # so long a node lets writes wait for a leader


def test_queued_writes_do_not_leave_in_one_frame(tmp_path: Path) -> None:
    """The leader's disk is slow, so that enough writes of all clients queue up to fill three frames."""
    with Ensemble(on="sim", results=tmp_path, limits=LIMITS) as cluster:
        leader = cluster.until_established()
        clients = [cluster.client(node) for node in (1, 2, 3, 1)]
        for number, client in enumerate(clients):
            client.create(f"/{number}")
        cluster.slow_disk(leader, ms=20)
        sets = [
            client.submit(Set(f"/{number}", bytes(900))) for number, client in enumerate(clients) for _ in range(60)
        ]
        outcomes = [each.outcome() for each in sets]
        assert all(isinstance(outcome, Done) for outcome in outcomes), outcomes
        verdict = cluster.finish()
    assert verdict.verdict is Outcome.PASS, verdict.reasons


def test_writes_that_waited_for_a_leader_do_not_reach_it_in_one_frame(tmp_path: Path) -> None:
    """Two clients write to a follower that was cut off and will soon find its leader again."""
    with Ensemble(on="sim", results=tmp_path, limits=LIMITS, timing=PATIENT) as cluster:
        leader = cluster.until_established()
        follower = next(node for node in (1, 2, 3) if node != leader)
        clients = [cluster.client(follower) for _ in range(2)]
        for number, client in enumerate(clients):
            client.create(f"/{number}")
        with cluster.partitioned(follower, shape="isolate"):
            cluster.until(lambda: cluster.status()[follower].role == "LOOKING")
            sets = [client.submit(Set(f"/{n}", bytes(900))) for n, client in enumerate(clients) for _ in range(60)]
        outcomes = [each.outcome() for each in sets]
        assert all(isinstance(outcome, Done) for outcome in outcomes), outcomes
        verdict = cluster.finish()
    assert verdict.verdict is Outcome.PASS, verdict.reasons


def test_a_burst_of_small_writes_leaves_in_one_frame_that_each_node_accepts(shipped: Callable[[str], Scenario]) -> None:
    """However small its limit is: a client does not know it."""
    scenario = shipped("steady-state")
    load = replace(scenario.workload, mix={"set": 1.0}, burst=20, payload_bytes=500)
    limits = Limits(request_bytes=LIMITS["request_bytes"])
    done = simulate(replace(scenario, duration=3.0, workload=load, limits=limits), 1, None)
    assert done.verdict.exit == 0, done.verdict.reasons
    assert (done.verdict.metrics["acked"], done.verdict.metrics["unknown"]) == (done.invoked, 0)


def test_a_follower_that_lacks_more_than_a_frame_joins(tmp_path: Path) -> None:
    """It missed 200 writes of 900 bytes. By `snapshot_bytes` alone, no snapshot would have been taken by then."""
    with Ensemble(on="sim", results=tmp_path, limits=LIMITS) as cluster:
        leader = cluster.until_established()
        behind = next(node for node in (1, 2, 3) if node != leader)
        client = cluster.client(leader)
        client.create("/a")
        with cluster.crash(behind):
            sets = [client.submit(Set("/a", bytes(900))) for _ in range(200)]
            assert all(isinstance(each.outcome(), Done) for each in sets)
        cluster.until(lambda: cluster.status()[behind].established, timeout=10)
        verdict = cluster.finish()
    assert verdict.verdict is Outcome.PASS, verdict.reasons


LONG_PATHS = {
    "of an invalid path": Create("\U000e0001" * 990),  # shown with ten characters for each
    "of a path that does not exist": Set("/" + "x" * 990, b""),
}


@pytest.mark.parametrize("request_", LONG_PATHS.values(), ids=LONG_PATHS)
def test_many_refusals_fit_into_one_frame(tmp_path: Path, request_: Create | Set) -> None:
    """The leader refuses all requests that have waited for it in one round, and each refusal shows a path."""
    with Ensemble(on="sim", results=tmp_path, limits=LIMITS) as cluster:
        leader = cluster.until_established()
        follower = next(node for node in (1, 2, 3) if node != leader)
        client = cluster.client(follower)
        client.create("/a")
        with cluster.pause(leader):
            pending = [client.submit(request_) for _ in range(100)]
            cluster.sleep(0.3)
        outcomes = [each.outcome() for each in pending]
        assert all(isinstance(outcome, Failed) for outcome in outcomes), outcomes
        verdict = cluster.finish()
    assert verdict.verdict is Outcome.PASS, verdict.reasons


def test_multis_of_many_small_steps_do_not_leave_in_one_frame(tmp_path: Path) -> None:
    """A step with the shortest path needs ten times as many bytes in a frame as its path has."""
    with Ensemble(on="sim", results=tmp_path, limits=LIMITS) as cluster:
        leader = cluster.until_established()
        follower = next(node for node in (1, 2, 3) if node != leader)
        client = cluster.client(follower)
        client.create("/a")
        sets = [client.submit(Multi([Check("/", 2**62)] * 90)) for _ in range(80)]
        outcomes = [each.outcome() for each in sets]
        assert {type(outcome) for outcome in outcomes} == {Failed}, outcomes
        verdict = cluster.finish()
    assert verdict.verdict is Outcome.PASS, verdict.reasons


def test_a_link_that_takes_long_for_a_message_does_not_depose_the_leader(tmp_path: Path) -> None:
    """The links need a second for one write, which is longer than the timeout."""
    with Ensemble(on="sim", results=tmp_path) as cluster:
        leader = cluster.until_established()
        client = cluster.client(leader)
        client.create("/a")
        with cluster.bandwidth([1, 2, 3], kb_per_s=1000):
            client.set("/a", bytes(1_000_000))
            assert cluster.until_established() == leader
        verdict = cluster.finish()
    assert verdict.verdict is Outcome.PASS, verdict.reasons


def test_a_leader_is_established_over_links_that_take_long_for_its_history(tmp_path: Path) -> None:
    """A follower needs what it lacks, 1.5 s of the link's time, before there is a quorum again."""
    with Ensemble(on="sim", results=tmp_path) as cluster:
        leader = cluster.until_established()
        behind, other = (node for node in (1, 2, 3) if node != leader)
        client = cluster.client(leader)
        client.create("/a")
        with cluster.crash(behind):
            for _ in range(15):
                client.set("/a", bytes(100_000))
            cluster.bandwidth([1, 2, 3], kb_per_s=1000)
        with cluster.crash(other):
            cluster.until(lambda: cluster.status()[behind].established, timeout=10)
            client.set("/a", b"served")
        verdict = cluster.finish()
    assert verdict.verdict is Outcome.PASS, verdict.reasons


@pytest.mark.parametrize("at_leader", [True, False], ids=["the leader", "a follower"])
def test_a_write_that_fits_into_no_frame_is_refused_and_no_session_ends(tmp_path: Path, *, at_leader: bool) -> None:
    """A leader that logged it could pass its history on to no node, and two nodes would have no leader for ever."""
    with Ensemble(on="sim", nodes=2, results=tmp_path, limits={"frame_bytes": 64_000}) as cluster:
        leader = cluster.until_established()
        client = cluster.client(leader if at_leader else 3 - leader)
        client.create("/a")
        epoch = cluster.status()[leader].epoch
        with pytest.raises(
            Failed, match="too large: the request has 70002 bytes of paths, data and steps; at most 4000"
        ):
            client.set("/a", bytes(70_000))
        client.set("/a", bytes(3_900))
        assert cluster.status()[leader].epoch == epoch
        verdict = cluster.finish()
    assert verdict.verdict is Outcome.PASS, verdict.reasons


@pytest.mark.parametrize("path", ["/a", "a"], ids=["valid", "invalid"])
def test_many_small_writes_fit_into_frames_and_so_do_their_refusals(tmp_path: Path, path: str) -> None:
    """They wait until their node has its leader again, or the leader goes on, and are then forwarded or refused at once."""
    with Ensemble(on="sim", results=tmp_path, limits=LIMITS, timing=PATIENT) as cluster:
        leader = cluster.until_established()
        follower = next(node for node in (1, 2, 3) if node != leader)
        client = cluster.client(follower)
        client.create("/a")
        if path == "/a":
            with cluster.partitioned(follower, shape="isolate"):
                cluster.until(lambda: cluster.status()[follower].role == "LOOKING")
                pending = [client.submit(Set(path, b"")) for _ in range(4500)]
                cluster.sleep(0.3)
        else:
            with cluster.pause(leader):
                pending = [client.submit(Set(path, b"")) for _ in range(4500)]
                cluster.sleep(0.3)
        outcomes = {type(each.outcome()) for each in pending}
        assert outcomes == {Done if path == "/a" else Failed}
        verdict = cluster.finish()
    assert verdict.verdict is Outcome.PASS, verdict.reasons
