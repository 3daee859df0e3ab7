"""The protocol's tables: which phase may follow which, and in which role and phase each message is expected."""

import re

from zab_chaos.node.core import messages as m
from zab_chaos.node.core.messages import Phase, Role

# The edges of the phase diagram. Every phase may return to ELECTION.
EDGES: frozenset[tuple[Phase, Phase]] = frozenset(
    {
        (Phase.ELECTION, Phase.DISCOVERY),
        (Phase.DISCOVERY, Phase.SYNCHRONIZATION),
        (Phase.SYNCHRONIZATION, Phase.BROADCAST),
        *((phase, Phase.ELECTION) for phase in Phase),
    }
)

# Where a message is expected. Elsewhere it is a stray of an iteration that has ended, and is dropped. Sessions make that
# rare, and safety does not depend on it.
_LEADING = Role.LEADING
_FOLLOWING = Role.FOLLOWING
EXPECTED: dict[type, frozenset[tuple[Role, Phase]]] = {
    m.Vote: frozenset((role, phase) for role in Role for phase in Phase),
    m.Ping: frozenset((role, phase) for role in Role for phase in Phase),
    m.Cepoch: frozenset((role, phase) for role in Role for phase in Phase),
    m.NewEpoch: frozenset({(_FOLLOWING, Phase.DISCOVERY)}),
    m.AckEpoch: frozenset((_LEADING, phase) for phase in (Phase.DISCOVERY, Phase.SYNCHRONIZATION, Phase.BROADCAST)),
    m.Fetch: frozenset({(_FOLLOWING, Phase.SYNCHRONIZATION)}),
    m.History: frozenset({(_LEADING, Phase.DISCOVERY)}),
    m.NewLeader: frozenset({(_FOLLOWING, Phase.SYNCHRONIZATION)}),
    m.AckLeader: frozenset({(_LEADING, Phase.SYNCHRONIZATION), (_LEADING, Phase.BROADCAST)}),
    m.CommitLeader: frozenset({(_FOLLOWING, Phase.SYNCHRONIZATION), (_FOLLOWING, Phase.BROADCAST)}),
    m.Confirm: frozenset({(_FOLLOWING, Phase.SYNCHRONIZATION), (_FOLLOWING, Phase.BROADCAST)}),
    m.Confirmed: frozenset(
        {(_LEADING, Phase.DISCOVERY), (_LEADING, Phase.SYNCHRONIZATION), (_LEADING, Phase.BROADCAST)}
    ),
    m.Member: frozenset({(_FOLLOWING, Phase.BROADCAST)}),
    m.Propose: frozenset({(_FOLLOWING, Phase.SYNCHRONIZATION), (_FOLLOWING, Phase.BROADCAST)}),
    m.Ack: frozenset({(_LEADING, Phase.SYNCHRONIZATION), (_LEADING, Phase.BROADCAST)}),
    m.Commit: frozenset({(_FOLLOWING, Phase.BROADCAST)}),
}
FROM_LEADER = frozenset({m.NewEpoch, m.Fetch, m.NewLeader, m.CommitLeader, m.Confirm, m.Member, m.Propose, m.Commit})

# The method of a role object that handles a message: `on_ack_epoch` for `AckEpoch`.
HANDLERS: dict[type, str] = {kind: "on" + re.sub("([A-Z])", r"_\1", kind.__name__).lower() for kind in m.NAMES}

# By (role, phase): the messages that are expected there, and their methods.
HANDLERS_IN: dict[tuple[Role, Phase], dict[type, str]] = {
    (role, phase): {kind: HANDLERS[kind] for kind, places in EXPECTED.items() if (role, phase) in places}
    for role in Role
    for phase in Phase
}
