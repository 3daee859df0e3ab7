"""Known Zab bugs that a node can be built with. They test the oracle: a checker that never fails proves nothing.

Each defect replaces parts of the node (a role of the core, its journal, the store, the channels, the application) by
subclasses that override the methods with the bug; the docstrings of those in the core say how many methods. A scenario in
scenarios/defects/ leads a real ensemble into the situation in which the bug shows, and passes without the bug. Where
another part of the node would mask the bug, the defect replaces that part too, and its docstring says so.
"""

import builtins
from collections.abc import Callable
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
    """One known bug. `property`: the property that its scenario must find violated."""

    name: str
    about: str
    ticket: str | None
    property: str
    scenario: str
    replace: Callable[[Components], None]
    probabilistic: str | None = None  # why a run may miss it, or None

    @builtins.property
    def path(self) -> str:
        """The value of `NodeConfig.defect` that selects this bug."""
        return f"{__name__}:{self.name}"

    def build(self, parts: Components) -> None:
        """Replace the parts of a node that have the bug."""
        self.replace(parts)


def _parts(**kinds: type) -> Callable[[Components], None]:
    """Return a function that replaces components of a node. `kinds`: the classes by the names of the components."""

    def build(parts: Components) -> None:
        for name, kind in kinds.items():
            setattr(parts, name, kind)

    return build


DEFECTS: dict[str, Defect] = {
    defect.name: defect
    for defect in (
        Defect(
            name="ack-before-sync",
            about="a follower acknowledges a proposal when it is queued, not when it is durable",
            ticket=None,
            property="committed stays",
            scenario="ack-before-sync",
            replace=_parts(peer=AckBeforeSync),
            probabilistic="the ACK must have left the process, by a thread of ZeroMQ, when it dies before its sync",
        ),
        Defect(
            name="ack-ld-before-sync",
            about="a follower sends ACK-LD before the initial history is durable",
            ticket="ZOOKEEPER-3911, 4646",
            property="committed stays",
            scenario="ack-ld-before-sync",
            replace=_parts(peer=AckLeaderBeforeSync),
        ),
        Defect(
            name="epoch-before-history",
            about="current_epoch is durable before the history that belongs to it",
            ticket="ZOOKEEPER-4643, 4785",
            property="committed stays",
            scenario="epoch-before-history",
            replace=_parts(store=EpochBeforeHistory),
        ),
        Defect(
            name="promise-not-durable",
            about="a follower's promise (accepted_epoch) does not survive a crash",
            ticket="ZOOKEEPER-335, 1082",
            property="one leader an epoch",
            scenario="promise-not-durable",
            replace=_parts(peer=PromiseNotDurable),
        ),
        Defect(
            name="commit-without-quorum",
            about="the leader commits at n/2 acknowledgements",
            ticket=None,
            property="agreement",
            scenario="commit-without-quorum",
            replace=_parts(peer=CommitWithoutQuorum),
        ),
        Defect(
            name="no-truncate",
            about="the leader sends a suffix where a truncation is needed",
            ticket="ZOOKEEPER-1154",
            property="agreement",
            scenario="no-truncate",
            replace=_parts(peer=NoTruncate),
        ),
        Defect(
            name="gap-accepted",
            about="a follower accepts any zxid above its last one; sessions are off, because they would close at the gap",
            ticket=None,
            property="local primary order",
            scenario="gap-accepted",
            replace=_parts(peer=GapAccepted, channels=RawChannels),
        ),
        Defect(
            name="raw-zmq",
            about="links have no sessions: ZeroMQ silently loses frames around a reconnect",
            ticket=None,
            property="channels",
            scenario="raw-zmq",
            replace=_parts(channels=RawChannels),
        ),
        Defect(
            name="amnesiac-votes",
            about="a node that lost its disk votes and counts in quorums",
            ticket="ZOOKEEPER-261, 2325",
            property="committed stays",
            scenario="amnesiac-votes",
            replace=_parts(peer=AmnesiacVotes),
        ),
        Defect(
            name="stale-epoch-accepted",
            about="a follower accepts proposals of an older epoch's leader; sessions are off, because they would drop them",
            ticket=None,
            property="global primary order",
            scenario="stale-epoch-accepted",
            replace=_parts(peer=StaleEpochAccepted, channels=RawChannels),
        ),
        Defect(
            name="leader-promise-not-durable",
            about="the leader proposes an epoch that it has not stored itself",
            ticket="ZOOKEEPER-1291",
            property="epochs",
            scenario="leader-promise-not-durable",
            replace=_parts(peer=LeaderPromiseNotDurable),
        ),
        Defect(
            name="count-own-ack-early",
            about="the leader counts its own ACK before its own disk has the proposal",
            ticket=None,
            property="committed stays",
            scenario="count-own-ack-early",
            replace=_parts(peer=CountOwnAckEarly),
        ),
        Defect(
            name="truncate-too-far",
            about="the leader truncates a follower below the common point",
            ticket="ZOOKEEPER-1156",
            property="committed stays",
            scenario="truncate-too-far",
            replace=_parts(peer=TruncateTooFar),
        ),
        Defect(
            name="memory-not-log",
            about="an election without a restart uses the delivered state instead of the log",
            ticket="ZOOKEEPER-2845",
            property="agreement",
            scenario="memory-not-log",
            replace=_parts(peer=MemoryNotLog),
        ),
        Defect(
            name="join-race",
            about="a joiner's difference is computed before it joins the broadcast list; gaps are accepted, because refusing "
            "them would mask the bug",
            ticket="ZOOKEEPER-962, 1264",
            property="local primary order",
            scenario="join-race",
            replace=_parts(peer=JoinRace),
            probabilistic="a write must be proposed in the few milliseconds of one of three joins",
        ),
        Defect(
            name="early-ready",
            about="the primary broadcasts before a quorum has acknowledged its initial history; it does not wait for its "
            "delivery either, because that would mask the bug",
            ticket=None,
            property="primary integrity",
            scenario="early-ready",
            replace=_parts(peer=EarlyReady, application=StalePrimary),
        ),
        Defect(
            name="dirty-snapshot",
            about="a snapshot holds uncommitted transactions, and is restored although a truncation came after it",
            ticket="ZOOKEEPER-1549, 4837",
            property="state equality",
            scenario="dirty-snapshot",
            replace=_parts(store=DirtySnapshot),
        ),
        Defect(
            name="stale-handle",
            about="after a truncation the log is written at a stale offset, and zeros count as its end",
            ticket="ZOOKEEPER-1489",
            property="committed stays",
            scenario="stale-handle",
            replace=_parts(store=StaleHandle),
        ),
        Defect(
            name="truncate-error-ignored",
            about="a node goes on after a truncation that failed on its disk",
            ticket="ZOOKEEPER-3701",
            property="agreement",
            scenario="truncate-error-ignored",
            replace=_parts(store=TruncateErrorIgnored),
        ),
        Defect(
            name="best-history-ignored",
            about="the leader pushes its own history although a follower's is better, and votes ignore the epoch; each bug "
            "alone is masked",
            ticket=None,
            property="committed stays",
            scenario="best-history-ignored",
            replace=_parts(peer=BestHistoryIgnored),
        ),
        Defect(
            name="premature-zxid",
            about="the last zxid is raised to the new epoch at the election, not when the epoch is established",
            ticket="ZOOKEEPER-790",
            property="committed stays",
            scenario="premature-zxid",
            replace=_parts(peer=PrematureZxid),
        ),
        Defect(
            name="torn-tail-kept",
            about="a torn record at the end of the log is read as a valid one",
            ticket=None,
            property="integrity",
            scenario="torn-tail-kept",
            replace=_parts(store=TornTailKept),
        ),
        Defect(
            name="stale-admission",
            about="a deposed leader readmits a node that lost its disk, without asking any other member",
            ticket=None,
            property="committed stays",
            scenario="stale-admission",
            probabilistic="node 5 must be elected among nodes that start together, and nodes 2 to 4 go on within half a second",
            replace=_parts(peer=StaleAdmission),
        ),
        Defect(
            name="votes-out-of-reach",
            about="a node gets votes from nodes that can't reach it, and is a candidate although it reaches no quorum",
            ticket=None,
            property="progress",
            scenario="votes-out-of-reach",
            replace=_parts(peer=VotesOutOfReach),
        ),
        Defect(
            name="recovered-not-synced",
            about="what a killed process left in the page cache counts as durable once the next process has read it",
            ticket=None,
            property="recovery",
            scenario="recovered-not-synced",
            replace=_parts(store=RecoveredNotSynced),
        ),
        Defect(
            name="sync-error-ignored",
            about="a node goes on after a sync that failed",
            ticket=None,
            property="committed stays",
            scenario="sync-error-ignored",
            replace=_parts(store=SyncErrorIgnored),
        ),
        Defect(
            name="stale-primary",
            about="a new primary judges waiting writes before its tree has the initial history",
            ticket=None,
            property="primary integrity",
            scenario="stale-primary",
            replace=_parts(application=StalePrimary),
        ),
        Defect(
            name="no-fence",
            about="a client's sequence numbers are not checked: an unknown write takes effect after later ones of its session",
            ticket=None,
            property="client order",
            scenario="no-fence",
            replace=_parts(sessions=UnfencedSessions, primary=ForgetfulPrimary),
        ),
        Defect(
            name="wrong-value-read",
            about="a read shows the value before the last set, with the version after it",
            ticket=None,
            property="values and versions",
            scenario="wrong-value-read",
            replace=_parts(tree=WrongValueRead),
        ),
        Defect(
            name="dirty-read",
            about="a read at the leader shows an uncommitted write",
            ticket=None,
            property="values and versions",
            scenario="dirty-read",
            replace=_parts(tree=DirtyTree, primary=DirtyPrimary),
        ),
        Defect(
            name="executed-twice",
            about="the leader executes a node's writes twice; sequence numbers are not checked, since that would mask the bug",
            ticket=None,
            property="exactly once",
            scenario="executed-twice",
            replace=_parts(application=ExecutedTwice, primary=ForgetfulPrimary),
        ),
        Defect(
            name="failed-takes-effect",
            about="a write that was refused for lack of a leader is forwarded to the next leader",
            ticket=None,
            property="exactly once",
            scenario="failed-takes-effect",
            replace=_parts(sessions=FailedTakesEffect),
        ),
        Defect(
            name="condition-ignored",
            about="the primary does not compare the version that a set or a check asks for",
            ticket=None,
            property="values and versions",
            scenario="condition-ignored",
            replace=_parts(primary=ConditionIgnored),
        ),
        Defect(
            name="unordered-refusal",
            about="the primary refuses a write without a transaction: a deposed leader refuses by a state that is out of date",
            ticket=None,
            property="values and versions",
            scenario="unordered-refusal",
            replace=_parts(application=UnorderedRefusals),
        ),
        Defect(
            name="late-refusal",
            about="refusals are told after their batch, behind reads of a later state; unordered, as order would mask the bug",
            ticket=None,
            property="client order",
            scenario="late-refusal",
            replace=_parts(sessions=LateRefusals, application=UnorderedRefusals),
        ),
        Defect(
            name="wrong-version-told",
            about="the client of a set is told the version before it",
            ticket=None,
            property="exactly once",
            scenario="wrong-version-told",
            replace=_parts(sessions=WrongVersionTold),
        ),
        Defect(
            name="answer-before-delivery",
            about="the leader acknowledges writes of its own clients when they are prepared, not when they are committed",
            ticket=None,
            property="exactly once",
            scenario="answer-before-delivery",
            replace=_parts(application=AnswerBeforeDelivery),
        ),
        Defect(
            name="stale-children",
            about="the list of a znode's children is cached at the first read and never updated",
            ticket=None,
            property="values and versions",
            scenario="stale-children",
            replace=_parts(tree=StaleChildren),
        ),
    )
}
