"""Many large writes at once, by clients that keep to their limits: no frame on a link exceeds its limit."""

from pathlib import Path

from zab_chaos.harness.client import Done, Set
from zab_chaos.harness.live import Ensemble
from zab_chaos.model.verdict import Outcome

LIMITS = {"request_bytes": 1_000, "frame_bytes": 64_000}
PATIENT = {"timeout_ms": 4_000}  # so long a node lets writes wait for a leader


def test_queued_writes_do_not_leave_in_one_frame(tmp_path: Path) -> None:
    """The leader's disk is slow, so that enough writes of all clients queue up to fill three frames."""
    with Ensemble(on="sim", results=tmp_path, limits=LIMITS) as cluster:
        leader = cluster.until_established()
        clients = [cluster.client(node) for node in (1, 2, 3, 1)]
        for number, client in enumerate(clients):
            client.create(f"/{number}")
        cluster.slow_disk(leader, ms=100)
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
