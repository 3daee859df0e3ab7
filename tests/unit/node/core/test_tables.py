"""The protocol's tables are complete: every (state, message) pair is handled, and they name nothing that does not exist."""

import gc
import weakref

import msgspec
import pytest
from ensemble import Ensemble

from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import tables
from zab_chaos.node.core.broadcast import Broadcasting
from zab_chaos.node.core.discovery import Choosing, Elected
from zab_chaos.node.core.errors import SanityCheckFailed
from zab_chaos.node.core.following import Following
from zab_chaos.node.core.looking import Looking
from zab_chaos.node.core.messages import (
    NAMES,
    Ack,
    AckEpoch,
    AckLeader,
    Cepoch,
    Commit,
    CommitLeader,
    Confirm,
    Confirmed,
    Fetch,
    History,
    Member,
    Message,
    NewEpoch,
    NewLeader,
    Phase,
    Ping,
    Propose,
    Role,
    Shape,
    Sync,
    TxnRun,
    Vote,
)
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.role import RoleState
from zab_chaos.node.core.synchronization import Synchronizing
from zab_chaos.node.core.zxid import ZERO, zxid

SHAPE = Shape(ZERO, [(0, 0)])
SAMPLES: dict[type, Message] = {
    Vote: Vote(1, 2, ZERO, 0, Role.LOOKING, False),
    Cepoch: Cepoch(0, False),
    NewEpoch: NewEpoch(7),
    AckEpoch: AckEpoch(1, 0, ZERO, SHAPE, True, False),
    Fetch: Fetch(1, SHAPE),
    History: History(1, 0, Sync(ZERO, None, [])),
    NewLeader: NewLeader(1, Sync(ZERO, None, [])),
    AckLeader: AckLeader(1, ZERO, False),
    CommitLeader: CommitLeader(1, ZERO, 0),
    Confirm: Confirm(1, 2),
    Confirmed: Confirmed(1, 2),
    Member: Member(1, [1, 2]),
    Propose: Propose(1, TxnRun(zxid(1, 1), [b"x"]), ZERO, 0),
    Ack: Ack(1, zxid(1, 1)),
    Commit: Commit(1, zxid(1, 1), 0),
    Ping: Ping(Role.LOOKING, 0, ZERO, dg.EMPTY),
}


def test_every_message_has_a_name_expected_states_and_a_handler() -> None:
    kinds = {t.cls for t in msgspec.inspect.type_info(Message).types}  # type: ignore[attr-defined]
    assert kinds == set(NAMES) == set(tables.EXPECTED) == set(tables.HANDLERS) == set(SAMPLES)


def test_every_phase_leads_to_election_and_to_the_next_phase() -> None:
    for phase in Phase:
        assert (phase, Phase.ELECTION) in tables.EDGES
    forward = {(a, b) for a, b in tables.EDGES if b != Phase.ELECTION}
    assert forward == {(a, b) for a in Phase for b in Phase if b == a + 1}


def in_state(role: Role, phase: Phase) -> Peer | None:
    """A peer that a real run has brought into this state, or None if there is no such state."""
    world = Ensemble(3, seed=1)
    world.start()
    for _ in range(2000):
        for server in world.servers.values():
            peer = server.peer
            if peer and (peer.role, peer.phase) == (role, phase) and peer.links - {peer.leader}:
                return peer
        if not world.heap:
            break
        world.turn()
    return None


STATES = [
    (Role.LOOKING, Phase.ELECTION),
    *((role, phase) for role in (Role.FOLLOWING, Role.LEADING) for phase in list(Phase)[1:]),
]


OUT_OF_PLACE = [
    pytest.param(role, phase, kind, id=f"{role.name}-{phase.name}-{NAMES[kind]}")
    for role, phase in STATES
    for kind in SAMPLES
    if (role, phase) not in tables.EXPECTED[kind] or (kind in tables.FROM_LEADER and role == Role.FOLLOWING)
]


@pytest.mark.parametrize(("role", "phase", "kind"), OUT_OF_PLACE)
def test_an_unexpected_message_changes_nothing(role: Role, phase: Phase, kind: type) -> None:
    """A message that is not expected is dropped: no promise, no record, no answer, no abort."""
    peer = in_state(role, phase)
    assert peer is not None
    source = next(i for i in peer.links if i != peer.leader)
    peer.ready()
    peer.step(source, SAMPLES[kind])
    assert peer.ready() is None
    assert (peer.role, peer.phase) == (role, phase)


@pytest.mark.parametrize("message", SAMPLES.values(), ids=lambda m: NAMES[type(m)])
def test_messages_decode_to_what_was_encoded(message: Message) -> None:
    decoder = msgspec.msgpack.Decoder(list[Message])
    assert decoder.decode(msgspec.msgpack.encode([message])) == [message]


@pytest.mark.parametrize(
    ("state", "phases"),
    [
        (Looking, [Phase.ELECTION]),
        (Following, [Phase.DISCOVERY, Phase.SYNCHRONIZATION, Phase.BROADCAST]),
        (Elected, [Phase.DISCOVERY]),
        (Choosing, [Phase.DISCOVERY]),
        (Synchronizing, [Phase.SYNCHRONIZATION]),
        (Broadcasting, [Phase.BROADCAST]),
    ],
)
def test_every_role_has_the_handlers_of_its_expected_messages(state: type[RoleState], phases: list[Phase]) -> None:
    expected = [name for phase in phases for name in tables.HANDLERS_IN[state.role, phase].values()]
    assert [name for name in expected if not callable(getattr(state, name, None))] == []


def test_an_edge_that_the_protocol_does_not_have_is_refused() -> None:
    peer = in_state(Role.FOLLOWING, Phase.DISCOVERY)
    assert peer is not None
    with pytest.raises(SanityCheckFailed, match="no edge leads from DISCOVERY to BROADCAST"):
        peer.enter(peer.state, Phase.BROADCAST)
    assert peer.phase is Phase.DISCOVERY


def test_no_state_of_a_role_outlives_it() -> None:
    """When a follower's or leader's object is gone after a return to the election, the next role starts afresh."""
    for role in (Role.FOLLOWING, Role.LEADING):
        peer = in_state(role, Phase.BROADCAST)
        assert peer is not None
        gone = weakref.ref(peer.state)
        peer.start_election("a test")
        peer.ready()
        gc.collect()
        assert gone() is None
