"""Known Zab bugs that a node can be built with. They test the oracle: a checker that never fails proves nothing.

Each defect replaces parts of the node (a role of the core, its journal, the store, the channels, the application) by
subclasses that override the methods with the bug; the docstrings of those in the core say how many methods. A scenario in
scenarios/defects/ leads a real ensemble into the situation in which the bug shows, and passes without the bug. Where
another part of the node would mask the bug, the defect replaces that part too, and its docstring says so.
"""

import builtins
from collections.abc import Mapping
from dataclasses import dataclass

from zab_chaos.faults.defects.channels import RawChannels
from zab_chaos.faults.defects.clients import (
    AnswerBeforeDelivery,
    ConditionIgnored,
    DirtyPrimary,
    DirtyTree,
    ExecutedTwice,
    FailedTakesEffect,
    ForgetfulPrimary,
    LateRefusals,
    StaleChildren,
    StalePrimary,
    TrustingPrimary,
    UnfencedSessions,
    UnorderedRefusals,
    WrongValueRead,
    WrongVersionTold,
)
from zab_chaos.faults.defects.durability import (
    AckBeforeSync,
    AckLeaderBeforeSync,
    CountOwnAckEarly,
    EpochBeforeHistory,
    LeaderPromiseNotDurable,
    PromiseNotDurable,
)
from zab_chaos.faults.defects.election import BestHistoryIgnored, PrematureZxid, VotesOutOfReach
from zab_chaos.faults.defects.history import (
    GapAccepted,
    JoinRace,
    MemoryNotLog,
    NoTruncate,
    StaleEpochAccepted,
    TruncateTooFar,
)
from zab_chaos.faults.defects.quorums import AmnesiacVotes, CommitWithoutQuorum, EarlyReady, StaleAdmission
from zab_chaos.faults.defects.storage import (
    DirtySnapshot,
    RecoveredNotSynced,
    StaleHandle,
    SyncErrorIgnored,
    TornTailKept,
    TruncateErrorIgnored,
)
from zab_chaos.node.components import Components


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """One known bug. `property`: the property that its scenario must find violated. `parts`: the classes with the bug, by the
    names of the components that they replace."""

    name: str
    about: str
    property: str
    parts: Mapping[str, type]
    ticket: str | None = None
    probabilistic: str | None = None  # why a run may miss it, or None

    @builtins.property
    def path(self) -> str:
        """The value of `NodeConfig.defect` that selects this bug."""
        return f"{__name__}:{self.name}"

    @builtins.property
    def scenario(self) -> str:
        return f"defects/{self.name}"

    def build(self, components: Components) -> None:
        """Replace the components of a node that have the bug."""
        for name, kind in self.parts.items():
            setattr(components, name, kind)


DEFECTS: dict[str, Defect] = {
    defect.name: defect
    for defect in (
        Defect(
            name="ack-before-sync",
            about="a follower acknowledges a proposal when it is queued, not when it is durable",
            property="committed stays",
            parts={"peer": AckBeforeSync},
            probabilistic="the ACK must have left the process, by a thread of ZeroMQ, when it dies before its sync",
        ),
        Defect(
            name="ack-ld-before-sync",
            about="a follower sends ACK-LD before the initial history is durable",
            ticket="ZOOKEEPER-3911, 4646",
            property="committed stays",
            parts={"peer": AckLeaderBeforeSync},
        ),
        Defect(
            name="epoch-before-history",
            about="current_epoch is durable before the history that belongs to it",
            ticket="ZOOKEEPER-4643, 4785",
            property="committed stays",
            parts={"store": EpochBeforeHistory},
        ),
        Defect(
            name="promise-not-durable",
            about="a follower's promise (accepted_epoch) does not survive a crash",
            ticket="ZOOKEEPER-335, 1082",
            property="one leader an epoch",
            parts={"peer": PromiseNotDurable},
        ),
        Defect(
            name="commit-without-quorum",
            about="the leader commits at n/2 acknowledgements",
            property="agreement",
            parts={"peer": CommitWithoutQuorum},
        ),
        Defect(
            name="no-truncate",
            about="the leader sends a suffix where a truncation is needed",
            ticket="ZOOKEEPER-1154",
            property="agreement",
            parts={"peer": NoTruncate},
        ),
        Defect(
            name="gap-accepted",
            about="a follower accepts any zxid above its last one; sessions are off, because they would close at the gap",
            property="local primary order",
            parts={"peer": GapAccepted, "channels": RawChannels},
        ),
        Defect(
            name="raw-zmq",
            about="links have no sessions: ZeroMQ silently loses frames around a reconnect",
            property="channels",
            parts={"channels": RawChannels},
        ),
        Defect(
            name="amnesiac-votes",
            about="a node that lost its disk votes and counts in quorums",
            ticket="ZOOKEEPER-261, 2325",
            property="committed stays",
            parts={"peer": AmnesiacVotes},
        ),
        Defect(
            name="stale-epoch-accepted",
            about="a follower accepts proposals of an older epoch's leader; sessions are off, because they would drop them",
            property="global primary order",
            parts={"peer": StaleEpochAccepted, "channels": RawChannels},
        ),
        Defect(
            name="leader-promise-not-durable",
            about="the leader proposes an epoch that it has not stored itself",
            ticket="ZOOKEEPER-1291",
            property="epochs",
            parts={"peer": LeaderPromiseNotDurable},
        ),
        Defect(
            name="count-own-ack-early",
            about="the leader counts its own ACK before its own disk has the proposal",
            property="committed stays",
            parts={"peer": CountOwnAckEarly},
        ),
        Defect(
            name="truncate-too-far",
            about="the leader truncates a follower below the common point",
            ticket="ZOOKEEPER-1156",
            property="committed stays",
            parts={"peer": TruncateTooFar},
        ),
        Defect(
            name="memory-not-log",
            about="an election without a restart uses the delivered state instead of the log",
            ticket="ZOOKEEPER-2845",
            property="agreement",
            parts={"peer": MemoryNotLog},
        ),
        Defect(
            name="join-race",
            about="a joiner's difference is computed before it joins the broadcast list; gaps are accepted, because refusing "
            "them would mask the bug",
            ticket="ZOOKEEPER-962, 1264",
            property="local primary order",
            parts={"peer": JoinRace},
            probabilistic="a write must be proposed in the few milliseconds of one of three joins",
        ),
        Defect(
            name="early-ready",
            about="the primary broadcasts before a quorum has acknowledged its initial history; it does not wait for its "
            "delivery either, because that would mask the bug",
            property="primary integrity",
            parts={"peer": EarlyReady, "application": StalePrimary},
        ),
        Defect(
            name="dirty-snapshot",
            about="a snapshot holds uncommitted transactions, and is restored although a truncation came after it",
            ticket="ZOOKEEPER-1549, 4837",
            property="state equality",
            parts={"store": DirtySnapshot},
        ),
        Defect(
            name="stale-handle",
            about="after a truncation the log is written at a stale offset, and zeros count as its end",
            ticket="ZOOKEEPER-1489",
            property="committed stays",
            parts={"store": StaleHandle},
        ),
        Defect(
            name="truncate-error-ignored",
            about="a node goes on after a truncation that failed on its disk",
            ticket="ZOOKEEPER-3701",
            property="agreement",
            parts={"store": TruncateErrorIgnored},
        ),
        Defect(
            name="best-history-ignored",
            about="the leader pushes its own history although a follower's is better, and votes ignore the epoch; each bug "
            "alone is masked",
            property="committed stays",
            parts={"peer": BestHistoryIgnored},
        ),
        Defect(
            name="premature-zxid",
            about="the last zxid is raised to the new epoch at the election, not when the epoch is established",
            ticket="ZOOKEEPER-790",
            property="committed stays",
            parts={"peer": PrematureZxid},
        ),
        Defect(
            name="torn-tail-kept",
            about="a torn record at the end of the log is read as a valid one",
            property="integrity",
            parts={"store": TornTailKept},
        ),
        Defect(
            name="stale-admission",
            about="a deposed leader readmits a node that lost its disk, without asking any other member",
            property="committed stays",
            probabilistic="node 5 must be elected among nodes that start together, and nodes 2 to 4 go on within half a second",
            parts={"peer": StaleAdmission},
        ),
        Defect(
            name="votes-out-of-reach",
            about="a node gets votes from nodes that can't reach it, and is a candidate although it reaches no quorum",
            property="progress",
            parts={"peer": VotesOutOfReach},
        ),
        Defect(
            name="recovered-not-synced",
            about="what a killed process left in the page cache counts as durable once the next process has read it",
            property="recovery",
            parts={"store": RecoveredNotSynced},
        ),
        Defect(
            name="sync-error-ignored",
            about="a node goes on after a sync that failed",
            property="committed stays",
            parts={"store": SyncErrorIgnored},
        ),
        Defect(
            name="stale-primary",
            about="a new primary judges waiting writes before its tree has the initial history",
            property="primary integrity",
            parts={"application": StalePrimary},
        ),
        Defect(
            name="no-fence",
            about="a client's sequence numbers are not checked: an unknown write takes effect after later ones of its session",
            property="client order",
            parts={"sessions": UnfencedSessions, "primary": ForgetfulPrimary},
        ),
        Defect(
            name="forgotten-client",
            about="a leader takes a client that it has forgotten for a new one, and executes a write from before a fence",
            property="client order",
            parts={"primary": TrustingPrimary},
        ),
        Defect(
            name="wrong-value-read",
            about="a read shows the value before the last set, with the version after it",
            property="values and versions",
            parts={"tree": WrongValueRead},
        ),
        Defect(
            name="dirty-read",
            about="a read at the leader shows an uncommitted write",
            property="values and versions",
            parts={"tree": DirtyTree, "primary": DirtyPrimary},
        ),
        Defect(
            name="executed-twice",
            about="the leader executes a node's writes twice; sequence numbers are not checked, since that would mask the bug",
            property="exactly once",
            parts={"application": ExecutedTwice, "primary": ForgetfulPrimary},
        ),
        Defect(
            name="failed-takes-effect",
            about="a write that was refused for lack of a leader is forwarded to the next leader",
            property="exactly once",
            parts={"sessions": FailedTakesEffect},
        ),
        Defect(
            name="condition-ignored",
            about="the primary does not compare the version that a set or a check asks for",
            property="values and versions",
            parts={"primary": ConditionIgnored},
        ),
        Defect(
            name="unordered-refusal",
            about="the primary refuses a write without a transaction: a deposed leader refuses by a state that is out of date",
            property="values and versions",
            parts={"application": UnorderedRefusals},
        ),
        Defect(
            name="late-refusal",
            about="refusals are told after their batch, behind reads of a later state; unordered, as order would mask the bug",
            property="client order",
            parts={"sessions": LateRefusals, "application": UnorderedRefusals},
        ),
        Defect(
            name="wrong-version-told",
            about="the client of a set is told the version before it",
            property="exactly once",
            parts={"sessions": WrongVersionTold},
        ),
        Defect(
            name="answer-before-delivery",
            about="the leader acknowledges writes of its own clients when they are prepared, not when they are committed",
            property="exactly once",
            parts={"application": AnswerBeforeDelivery},
        ),
        Defect(
            name="stale-children",
            about="the list of a znode's children is cached at the first read and never updated",
            property="values and versions",
            parts={"tree": StaleChildren},
        ),
    )
}
