"""Nodes that have converged stay so without faults, and no requests or transactions are left in flight."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.simulator.backend import plan_of
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.node.clients.connections import Connections
from zab_chaos.node.clients.session import ClientSession
from zab_chaos.node.clients.sessions import ClientSessions
from zab_chaos.node.components import Components
from zab_chaos.node.core.following import Following
from zab_chaos.node.core.looking import Looking
from zab_chaos.node.core.messages import CommitLeader
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.tree.primary import Primary
from zab_chaos.node.tree.seqs import NO_SEQ

SCENARIO = Scenario(name="left alone", duration=0.5)


class NeverArrives(Following):
    """The deadline for an established leader is not cleared when the node has one."""

    def on_commit_leader(self, source: int, message: CommitLeader) -> None:
        deadline = self.deadline
        super().on_commit_leader(source, message)
        self.deadline = deadline


class Leaves(Peer):
    following_type = NeverArrives


class NobodyStands(Looking):
    """No node is a candidate."""

    is_candidate = property(lambda self: False)  # type: ignore[assignment]


class Waits(Peer):
    looking_type = NobodyStands


def test_a_run_in_which_no_leader_is_elected_violates_progress() -> None:
    verdict = simulate(SCENARIO, 1, None, replace(plan_of(SCENARIO, None), parts=Components(peer=Waits))).verdict
    assert list(verdict.violated) == ["progress"], verdict.reasons


@pytest.mark.parametrize(("peer", "violated"), [(Peer, []), (Leaves, ["recovery"])])
def test_a_follower_keeps_its_leader(peer: type[Peer], violated: list[str]) -> None:
    verdict = simulate(SCENARIO, 1, None, replace(plan_of(SCENARIO, None), parts=Components(peer=peer))).verdict
    assert list(verdict.violated) == violated, verdict.reasons


def test_the_time_in_which_nodes_are_left_alone_does_not_count_as_speed() -> None:
    assert simulate(SCENARIO, 1, None).seconds < SCENARIO.timing.sync_timeout_ms / 1000


class CountsWhoHasGone(ClientSessions):
    """The requests of a client that leaves stay in the count."""

    def gone(self, client: int) -> None:
        count = self._count
        super().gone(client)
        self._count = count


class CountsWhatIsLost(Primary):
    """The bytes that a leader had in flight when it was deposed stay in the count."""

    def reset(self) -> None:
        flight = self.outstanding_bytes
        super().reset()
        self.outstanding_bytes = flight


class CountsTooLittle(Primary):
    """A node that begins or ends to lead counts from -1 byte."""

    def reset(self) -> None:
        super().reset()
        self.outstanding_bytes = -1


class CountsWhatWasAnswered(ClientSessions):
    """The bytes of an answered request stay in its session's count."""

    def _advance(self, session: ClientSession, before: int = NO_SEQ) -> None:
        size = session.bytes
        super()._advance(session, before)
        session.bytes = size


class WatchesWhoHasGone(ClientSessions):
    """A session that waits for a delivery is still watched when its client has left."""

    def gone(self, client: int) -> None:
        watched = self._watched.copy()
        super().gone(client)
        self._watched |= watched


class RemembersOldZnodes(Primary):
    """What is known about the future of a znode is kept when that has become the present."""

    def delivered(self, data: bytes) -> None:
        futures = self._futures.copy()
        super().delivered(data)
        self._futures |= futures


@pytest.mark.parametrize(
    ("parts", "violated"),
    [
        (Components(), []),
        (Components(sessions=CountsWhoHasGone), ["recovery"]),
        (Components(primary=CountsWhatIsLost), ["recovery"]),
        (Components(primary=CountsTooLittle), ["recovery"]),
        (Components(sessions=CountsWhatWasAnswered), ["recovery"]),
        (Components(sessions=WatchesWhoHasGone), ["recovery"]),
        (Components(primary=RemembersOldZnodes), ["recovery"]),
    ],
)
def test_nothing_is_in_flight_at_the_end(
    parts: Components, violated: list[str], shipped: Callable[[str], Scenario]
) -> None:
    """Clients moved to other nodes, and a leader was deposed, while requests were outstanding."""
    given = shipped("isolate-leader")
    scenario = replace(given, workload=replace(given.workload, moves=5.0))
    verdict = simulate(scenario, 1, None, replace(plan_of(scenario, None), parts=parts)).verdict
    assert list(verdict.violated) == violated, verdict.reasons


def test_a_client_that_left_without_a_word_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clients move without BYE: a node that does not look for them keeps them."""
    scenario = replace(SCENARIO, workload=replace(SCENARIO.workload, moves=10.0))
    assert not simulate(scenario, 1, None).verdict.violated
    monkeypatch.setattr(Connections, "_sweep", lambda self: None)
    verdict = simulate(scenario, 1, None).verdict
    assert list(verdict.violated) == ["recovery"]
    assert "connections" in verdict.reasons[0]
