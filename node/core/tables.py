"""The protocol's tables: which phase may follow which, and where each message is expected."""

from node.core.messages import (
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
    NewEpoch,
    NewLeader,
    Phase,
    Ping,
    Propose,
    Role,
    Vote,
)

# The edges of the phase diagram; everything may return to ELECTION.
EDGES: frozenset[tuple[Phase, Phase]] = frozenset(
    {
        (Phase.ELECTION, Phase.DISCOVERY),
        (Phase.DISCOVERY, Phase.SYNCHRONIZATION),
        (Phase.SYNCHRONIZATION, Phase.BROADCAST),
        *((phase, Phase.ELECTION) for phase in Phase),
    }
)

# Where a message is expected. Anything else is a stray of an iteration that is over, and is dropped: sessions make
# that rare, and no promise rests on it.
_LEADING = Role.LEADING
_FOLLOWING = Role.FOLLOWING
EXPECTED: dict[type, frozenset[tuple[Role, Phase]]] = {
    Vote: frozenset((role, phase) for role in Role for phase in Phase),
    Ping: frozenset((role, phase) for role in Role for phase in Phase),
    Cepoch: frozenset((role, phase) for role in Role for phase in Phase),
    NewEpoch: frozenset({(_FOLLOWING, Phase.DISCOVERY)}),
    AckEpoch: frozenset((_LEADING, phase) for phase in (Phase.DISCOVERY, Phase.SYNCHRONIZATION, Phase.BROADCAST)),
    Fetch: frozenset({(_FOLLOWING, Phase.SYNCHRONIZATION)}),
    History: frozenset({(_LEADING, Phase.DISCOVERY)}),
    NewLeader: frozenset({(_FOLLOWING, Phase.SYNCHRONIZATION)}),
    AckLeader: frozenset({(_LEADING, Phase.SYNCHRONIZATION), (_LEADING, Phase.BROADCAST)}),
    CommitLeader: frozenset({(_FOLLOWING, Phase.SYNCHRONIZATION), (_FOLLOWING, Phase.BROADCAST)}),
    Confirm: frozenset({(_FOLLOWING, Phase.SYNCHRONIZATION), (_FOLLOWING, Phase.BROADCAST)}),
    Confirmed: frozenset({(_LEADING, Phase.DISCOVERY), (_LEADING, Phase.SYNCHRONIZATION), (_LEADING, Phase.BROADCAST)}),
    Member: frozenset({(_FOLLOWING, Phase.BROADCAST)}),
    Propose: frozenset({(_FOLLOWING, Phase.SYNCHRONIZATION), (_FOLLOWING, Phase.BROADCAST)}),
    Ack: frozenset({(_LEADING, Phase.SYNCHRONIZATION), (_LEADING, Phase.BROADCAST)}),
    Commit: frozenset({(_FOLLOWING, Phase.BROADCAST)}),
}
FROM_LEADER = frozenset({NewEpoch, Fetch, NewLeader, CommitLeader, Confirm, Member, Propose, Commit})

# The method of a role's object that takes it.
HANDLERS: dict[type, str] = {
    Vote: "on_vote",
    Ping: "on_ping",
    Cepoch: "on_cepoch",
    NewEpoch: "on_new_epoch",
    AckEpoch: "on_ack_epoch",
    Fetch: "on_fetch",
    History: "on_history",
    NewLeader: "on_new_leader",
    AckLeader: "on_ack_leader",
    CommitLeader: "on_commit_leader",
    Confirm: "on_confirm",
    Confirmed: "on_confirmed",
    Member: "on_member",
    Propose: "on_propose",
    Ack: "on_ack",
    Commit: "on_commit",
}

# The same by (role, phase): what is expected there, and its method.
HANDLERS_IN: dict[tuple[Role, Phase], dict[type, str]] = {
    (role, phase): {kind: HANDLERS[kind] for kind, places in EXPECTED.items() if (role, phase) in places}
    for role in Role
    for phase in Phase
}
