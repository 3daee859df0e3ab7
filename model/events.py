"""Typed records for the lines of a run's folder, and their decoders. results/README.md documents the formats.

Only the fields that some property needs are decoded. An event that no property needs becomes an `UnjudgedEvent`, so that the
events of a life can still be counted. The decoders reject every line without the documented form.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, final, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from zab_chaos.node.core import digest as dg

U32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
ZxidPair = tuple[U32, U32]  # a zxid: (epoch, counter)
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)  # raised by lines that were edited or cut off
Digest = Annotated[str, Meta(min_length=dg.DIGITS, max_length=dg.DIGITS)]
Hex64 = Annotated[Digest, Meta(pattern="^[0-9a-f]*$")]


def packed(pair: ZxidPair) -> int:
    """Return a zxid as one integer. Integers compare as the paper orders zxids: by epoch, then by counter."""
    return pair[0] << 32 | pair[1]


class Line(Struct, kw_only=True, gc=False):
    """A line of a file in the run's folder. `t` is in nanoseconds. `line` counts from 1 and is set by the reader of the
    file."""

    t: int
    line: int = 0

    @property
    def file(self) -> str:
        """Return the name of the line's file, relative to the run's folder."""
        raise NotImplementedError


class TracedLine(Line, kw_only=True):
    """A line of a node's trace. `n` numbers the lines of a life from 1 on."""

    node: int
    life: Annotated[int, Meta(ge=1)]
    n: Annotated[int, Meta(ge=1)]

    @property
    def file(self) -> str:
        return trace_name(self.node, self.life)


class TraceEvent(TracedLine, kw_only=True, tag_field="event"):
    """An event that some property needs."""


class Boot(TraceEvent, kw_only=True, tag="boot"):
    """A node's start, with what it found on its disk. `as_left`: whether that is what the harness had read there after the
    life before; None if it had not. `release`: of the node's program, if it says so."""

    disk: Literal["fresh", "recovered", "torn", "amnesiac"]
    accepted_epoch: U32
    current_epoch: U32
    last_zxid: ZxidPair
    snapshot_zxid: ZxidPair = (0, 0)
    digest: Hex64 | None = None  # running digest at `snapshot_zxid`
    faithful: bool | None = None
    nodes: int | None = None
    defect: str | None = None
    pid: int | None = None
    as_left: bool | None = None
    release: str | None = None

    @property
    def starts_empty(self) -> bool:
        """Return whether the node has no memory of earlier promises: its disk is new or was lost."""
        return self.disk in ("fresh", "amnesiac")

    @property
    def found_nothing(self) -> bool:
        """Return whether nothing at all was found on the disk."""
        return not (self.accepted_epoch or self.current_epoch or any(self.last_zxid))


class DiskAfterLife(TraceEvent, kw_only=True, tag="left"):
    """The content of a server's disk after one of its lives, as the harness read it.

    `log` has the first and last zxid of each range of consecutive transactions. `damage` describes what could not be read; the
    judge treats it as missing. `disorder` are the first two transactions that are in the wrong order, the greater one first.
    """

    accepted_epoch: U32
    current_epoch: U32
    last_zxid: ZxidPair
    log: list[tuple[ZxidPair, ZxidPair]] = []
    snapshots: list[ZxidPair] = []
    damage: list[str] = []
    disorder: tuple[ZxidPair, ZxidPair] | None = None


class Role(TraceEvent, kw_only=True, tag="role"):
    role: Literal["LOOKING", "FOLLOWING", "LEADING", "OBSERVING"]
    leader: int | None = None
    why: str = ""


class Vote(TraceEvent, kw_only=True, tag="vote"):
    """For whom a node votes now. `leader` is None for nobody."""

    leader: int | None = None
    round: int | None = None


class Phase(TraceEvent, kw_only=True, tag="phase"):
    phase: Literal["ELECTION", "DISCOVERY", "SYNCHRONIZATION", "BROADCAST"]
    epoch: int = 0


class AcceptedEpoch(TraceEvent, kw_only=True, tag="accepted_epoch"):
    epoch: int
    leader: int


class CurrentEpoch(TraceEvent, kw_only=True, tag="current_epoch"):
    epoch: int
    last_zxid: ZxidPair


class Established(TraceEvent, kw_only=True, tag="established"):
    epoch: int
    last_zxid: ZxidPair
    quorum: list[int] = []


class Batch(TraceEvent, kw_only=True):
    """Transactions of one epoch with consecutive counters: `first`, `first + 1`, ...

    `digests` has 16 hexadecimal digits for each transaction. Most events of a trace are batches, so `_with_valid_digests`
    checks the digits: a pattern in the type takes five times as long.
    """

    epoch: U32
    first: Annotated[int, Meta(ge=1, le=2**32 - 1)]
    digests: str
    data: str | None = None  # what a foreign system calls the transaction, if it is one

    @property
    def zxid(self) -> int:
        """Return the zxid of the first transaction."""
        return self.epoch << 32 | self.first

    @property
    def count(self) -> int:
        """Return the number of transactions."""
        return dg.count(self.digests)

    @property
    def all_digests(self) -> str:
        """Return all digests of the event as one text, to be checked together."""
        return self.digests


EffectOp = Literal["create", "set", "delete", "check", "fence"]
Effect = tuple[EffectOp, str, int | None, int | None]  # op, path, resulting version, CRC-32 of the value
TxnSummary = tuple[int, int, tuple[Effect, ...]]  # client, seq, and the effects of the transaction's steps


class Broadcast(Batch, kw_only=True, tag="broadcast"):
    delivered: ZxidPair
    txns: list[TxnSummary] = []  # one for each digest; empty in older traces


class Accept(Batch, kw_only=True, tag="accept"):
    in_epoch: int


class Deliver(Batch, kw_only=True, tag="deliver"):
    digest: Digest
    tree: Digest

    @property
    def all_digests(self) -> str:
        return self.digests + self.digest + self.tree


class Truncate(TraceEvent, kw_only=True, tag="truncate"):
    keep: ZxidPair
    last: ZxidPair
    followed_by: ZxidPair | None = None


class Snapshot(TraceEvent, kw_only=True, tag="snapshot"):
    kind: Literal["taken", "installed", "restored"]
    zxid: ZxidPair
    digest: Hex64 | None = None
    tree: Hex64 | None = None


class TreeDiffers(TraceEvent, kw_only=True, tag="differs"):
    """A server found that its tree differs from the tree that its leader had after `zxid`."""

    zxid: ZxidPair


class Misanswered(TraceEvent, kw_only=True, tag="misanswered"):
    """A server sent a session an answer that cannot be right whatever the state of the tree. `what` it was, in words."""

    session: int
    what: str


class Link(TraceEvent, kw_only=True, tag="link"):
    """The link to a peer was opened or closed, as one of its two nodes sees it."""

    peer: int
    state: Literal["opened", "closed"]
    session: int = 0
    why: str = ""


class Channel(TraceEvent, kw_only=True, tag="channel"):
    """The frames `first` to `last` that a node accepted from a peer, without a gap, in one session with one life of the peer
    (`incarnation`)."""

    peer: int
    incarnation: int
    session: int
    first: int
    last: int
    ended: Literal["closed", "gap", "session", "exit"]


class Member(TraceEvent, kw_only=True, tag="member"):
    """A node that had lost its disk is a member again and counts in quorums. `quorum` lists the members that confirmed this."""

    epoch: int
    quorum: list[int] = []


class Confirmed(TraceEvent, kw_only=True, tag="confirmed"):
    """A node confirmed that it still follows this leader in this epoch."""

    epoch: int
    leader: int


class Client(TraceEvent, kw_only=True, tag="client"):
    """A client connected to this node or disconnected from it, with the reason (`why`)."""

    state: Literal["connected", "gone"]
    client: int
    why: str | None = None


class NodeFault(TraceEvent, kw_only=True, tag="fault"):
    """A fault inside the node's process, as the node itself saw it. `detail`: of a crash point, the point."""

    do: str
    state: Literal["armed", "fired", "lifted"]
    detail: str = ""


class Abort(TraceEvent, kw_only=True, tag="abort"):
    why: str = ""


class Exit(TraceEvent, kw_only=True, tag="exit"):
    code: int
    why: str = ""


class Work(TraceEvent, kw_only=True, tag="work"):
    """What a node has counted since its life began: `messages`, the number of each kind that it gave to its links, and `syncs`
    of its log."""

    messages: dict[str, int]
    syncs: int


class UnjudgedEvent(TracedLine, kw_only=True):
    """An event that no property needs. It is decoded only to count the events of its life."""

    event: str


JudgedEvent = (
    Boot
    | DiskAfterLife
    | Role
    | Vote
    | Phase
    | AcceptedEpoch
    | CurrentEpoch
    | Established
    | Broadcast
    | Accept
    | Deliver
    | Truncate
    | Snapshot
    | TreeDiffers
    | Misanswered
    | Link
    | Channel
    | Member
    | Confirmed
    | Client
    | NodeFault
    | Abort
    | Exit
    | Work
)
Event = JudgedEvent | UnjudgedEvent
JUDGED_EVENTS: dict[str, type[JudgedEvent]] = {str(kind.__struct_config__.tag): kind for kind in get_args(JudgedEvent)}


class Operation(Line, kw_only=True, tag_field="type"):
    """A line of ops.jsonl. Each client is one session; `seq` numbers its requests in the order in which it sent them."""

    file: ClassVar[str] = "ops.jsonl"
    client: int
    seq: int
    node: int | None = None

    @property
    def id(self) -> tuple[int, int]:
        """What a request and its answer, and the steps of a transaction, have in common: client and seq."""
        return self.client, self.seq


class RequestStep(Struct, kw_only=True, omit_defaults=True, gc=False):
    """One step of a multi or a transaction, as the client requested it. `value` is the CRC-32 of the data, and of an append the
    element itself. `version` is the expected version, if any."""

    op: str
    path: str = ""
    value: int | None = None
    version: int | None = None
    sequential: bool | None = None


TRANSACTIONS = frozenset({"transaction", "multi-get"})  # of several keys, of foreign systems
LISTS = frozenset({"list-append", "list-read"})  # transactions on lists, of foreign systems; the second one only reads
FINAL_CLIENTS = 1_000_000  # higher numbers have the harness's own clients, at the end of a run of a foreign system
STEPPED = TRANSACTIONS | LISTS | {"multi"}  # operations with steps
LARGE_BYTES = 1000  # the least size of a request that is recorded


@final
class Invoke(Operation, kw_only=True, tag="invoke"):
    """A client sent a request. `steps` are those of a multi or of a transaction, whose `path`, `value` and so on are those of
    its last step. The steps of transactions on lists are "read" and "append".

    `size`: the bytes of a large request, which the nodes' limit applies to.
    """

    op: Literal[
        "create", "set", "delete", "check", "multi", "get", "exists", "children", "transaction", "multi-get", "list-append",
        "list-read",
    ]  # fmt: skip
    due: int
    path: str = ""
    value: int | None = None
    version: int | None = None
    sequential: bool | None = None
    steps: list[RequestStep] | None = None
    size: int | None = None

    @property
    def requested_steps(self) -> "Sequence[Invoke | RequestStep]":
        """Return the steps of a multi or a transaction; any other request is its own single step."""
        return (self.steps or ()) if self.op in STEPPED else (self,)


@final
class Complete(Operation, kw_only=True, tag="complete"):
    """A client received the answer to a request, or gave up waiting (`outcome` unknown).

    For a refusal, `zxid` is that of the last transaction that it can be based on. `steps` has (path, version) for each step
    of a multi, `values` the CRC-32 of what each `get` of a transaction has found, None if there is no such key. `lists` has the
    elements that each `read` of a transaction on lists has found, none if there is no such list.
    """

    outcome: Literal["ok", "failed", "unknown"]
    error: str | None = None
    zxid: ZxidPair | None = None
    version: int | None = None
    value: int | None = None
    path: str | None = None
    children: list[str] | None = None
    steps: list[tuple[str, int | None]] | None = None
    values: list[int | None] | None = None
    lists: list[list[int]] | None = None


class SessionLine(Line, kw_only=True, tag_field="type"):
    """A line of sessions.jsonl. A client has one session and one connection at a time. Its lines are in the order in which its
    connection carried them."""

    file: ClassVar[str] = "sessions.jsonl"
    client: int


class SessionBegan(SessionLine, kw_only=True, tag="began"):
    """The client opened a session with this number. `timeout`: as the server has decided, in milliseconds; old runs lack it."""

    session: int
    timeout: int = 0


class ConnectionLost(SessionLine, kw_only=True, tag="lost"):
    """The client lost its connection, and its watches with it. The session may continue at another server, where the client can
    set the watches again."""


class SessionOver(SessionLine, kw_only=True, tag="over"):
    """The session is over from its client's view: the client closed it (`closed`), fell silent for good (`left`), or was
    told that it expired (`expired`)."""

    session: int
    why: Literal["closed", "left", "expired"]


class WriteSent(SessionLine, kw_only=True, tag="write"):
    """The client sent a create of an ephemeral znode, a set of another znode, or a delete. `value` is the CRC-32 of the data,
    None of a delete. `sequential`: the server ends the path with a number. No client sends the same write twice."""

    op: Literal["create", "set", "delete"]
    path: str
    value: int | None = None
    sequential: bool = False


class EphemeralCreated(SessionLine, kw_only=True, tag="made"):
    """The creation of an ephemeral znode was acknowledged to the session. Each path is created once. That of a sequential znode
    has its number."""

    session: int
    path: str
    zxid: ZxidPair


class SetAcknowledged(SessionLine, kw_only=True, tag="wrote"):
    """The set of a znode was acknowledged to the session. `value` is the CRC-32 of data that no other set of the session has.
    `changed` is the zxid of the znode's last change according to the answer."""

    session: int
    path: str
    value: int
    version: int
    zxid: ZxidPair
    changed: ZxidPair | None = None


class DeleteAcknowledged(SessionLine, kw_only=True, tag="removed"):
    """The delete of a znode was acknowledged to the session."""

    session: int
    path: str
    zxid: ZxidPair


class RequestRefused(SessionLine, kw_only=True, tag="refused"):
    """A server refused a request for `path`, which therefore had no effect. `error` is its reason, `zxid` that of the
    answer. `watch`: it was a read that would have set a watch."""

    path: str
    error: str
    node: int
    zxid: ZxidPair
    watch: bool = False


class WatchReadSent(SessionLine, kw_only=True, tag="ask"):
    """The client sent a read that sets a watch."""

    path: str


class ReadAnswered(SessionLine, kw_only=True, tag="look"):
    """`node` answered a read at `zxid`.

    `changed` is the zxid of the znode's last change, None if there is no such znode; `created` that of its creation; `version`
    the number of changes since then; `owner` the session of an ephemeral znode. `value` is the CRC-32 of the data, where they
    were read. `children` are the names, where the children were listed. `watch`: the read set a watch. `last`: the read
    belongs to the final reads, after everything else and a sync.
    """

    path: str
    node: int
    zxid: ZxidPair
    changed: ZxidPair | None = None
    created: ZxidPair | None = None
    version: int | None = None
    owner: int | None = None
    value: int | None = None
    children: list[str] | None = None
    watch: bool = False
    last: bool = False


class SyncAnswered(SessionLine, kw_only=True, tag="synced"):
    """`node` answered a sync that the client sent at the time `sent` or later."""

    sent: int
    node: int
    zxid: ZxidPair


class WatchFired(SessionLine, kw_only=True, tag="fired"):
    """The client received a watch event: `path` was created, changed or deleted (`what`)."""

    path: str
    what: str


class SubtreeWatched(SessionLine, kw_only=True, tag="watching"):
    """From this answer of `node` at `zxid` on, and as long as the connection lasts, the client is told of each change of `path`
    and below (a persistent recursive watch)."""

    path: str
    node: int
    zxid: ZxidPair


class SubtreeChanged(SessionLine, kw_only=True, tag="told"):
    """The client with such a watch was told that `path` was created, changed or deleted (`what`)."""

    path: str
    what: str


class AnswerHeard(SessionLine, kw_only=True, tag="heard"):
    """`node` answered another request of that client at `zxid`."""

    node: int
    zxid: ZxidPair


class SetWatchesSent(SessionLine, kw_only=True, tag="again"):
    """The client asked its next server to set again the watches that it lost with its connection (ZooKeeper's setWatches)."""

    paths: list[str]


class SetWatchesAnswered(SessionLine, kw_only=True, tag="stand"):
    """The server answered: it has set again those watches that have not fired since then."""

    node: int
    zxid: ZxidPair


class SessionEndLogged(SessionLine, kw_only=True, tag="ended"):
    """The end of a session in the servers' logs. `client` is 0. `asked`: a request closed the session."""

    session: int
    zxid: ZxidPair
    asked: bool = False


class FinalZnode(Line, kw_only=True):
    """A line of tree.jsonl: a znode as all servers that served showed it at the end of the run, after the transaction `zxid`.

    `value` is the CRC-32 of its data. `created`, `changed` and `children_changed` are the zxids of its creation, of its
    last set, and of the last creation or deletion of a child; `children_version` counts those. `owner` is the session of an
    ephemeral znode.
    """

    file: ClassVar[str] = "tree.jsonl"
    zxid: ZxidPair
    path: str
    value: int
    version: int
    created: ZxidPair
    changed: ZxidPair
    children_version: int
    children_changed: ZxidPair
    owner: int = 0


class Fault(Line, kw_only=True, tag_field="type"):
    """A line of faults.jsonl. `evidence` is what the processes showed of the fault; its form depends on the kind of fault."""

    file: ClassVar[str] = "faults.jsonl"
    id: int | str
    confirmed: bool
    evidence: Any = None


class Inject(Fault, kw_only=True, tag="inject"):
    do: str
    target: Any = None
    nodes: list[int] = []
    params: dict[str, Any] = {}  # as in the scenario
    pairs: list[tuple[int, int]] | None = None  # the links that a fault of links cuts or disturbs


class Heal(Fault, kw_only=True, tag="heal"):
    pass


BEFORE_START = 0  # the node of broadcasts before the run


class Milestone(Line, kw_only=True):
    """A line of harness.jsonl. Each comment names the milestones that have the field."""

    file: ClassVar[str] = "harness.jsonl"
    event: str
    seconds: float | None = None
    invoked: int | None = None  # of `workload-stopped`, like the outcomes below: the workload's own count
    told: int | None = None  # of `sessions-stopped`: the number of lines in sessions.jsonl by then
    ok: int | None = None
    failed: int | None = None
    unknown: int | None = None
    seed: int | None = None  # of `started`
    leader: int | None = None  # of `established`, with `epoch`
    epoch: int | None = None
    zxid: ZxidPair | None = None  # of `converged`
    node: int | None = None  # of `ended`, with `life`, `code` and `armed`; of `release`, with `life`
    release: str | None = None  # with which this life was started
    life: int | None = None
    code: int | None = None
    armed: bool | None = None
    why: str | None = None  # of `not-converged`, and of `left-alone` if the nodes were not at rest
    held: dict[int, dict[str, str | None]] | None = None  # of `state`: by node and path, the data; None: no such znode
    runs: list[tuple[int, int, str, list[TxnSummary]]] | None = None  # of `disk`: epoch, first, digests, txns
    accepted_epoch: int | None = None  # of `disk`, like `current_epoch`
    current_epoch: int | None = None

    @property
    def last_zxid(self) -> ZxidPair:
        """Return the last transaction that was on the disk before the run."""
        before = self.broadcasts_before_start()[-1:]
        return (before[0].epoch, before[0].first + before[0].count - 1) if before else (0, 0)

    def broadcasts_before_start(self) -> list[Broadcast]:
        """Return the transactions that were on the disks before the run, as broadcasts of primaries outside the run (node
        BEFORE_START)."""
        found: list[Broadcast] = []
        delivered: ZxidPair = (0, 0)
        for epoch, first, digests, txns in self.runs or ():
            found.append(
                Broadcast(
                    t=self.t,
                    node=BEFORE_START,
                    life=1,
                    n=1,
                    epoch=epoch,
                    first=first,
                    digests=digests,
                    delivered=delivered,
                    txns=txns,
                )
            )
            delivered = (epoch, first + found[-1].count - 1)
        return found


TRACES: Literal["traces"] = "traces"
LOGS: Literal["logs"] = "logs"
HISTORY: Literal["history"] = "history"
ZAB_RECORDS: Literal["history+zab"] = "history+zab"
RAFT_RECORDS: Literal["history+raft"] = "history+raft"
RECORDS_OF = {"zab": ZAB_RECORDS, "raft": RAFT_RECORDS}  # by the order that the nodes of a foreign system record
FOREIGN = frozenset({HISTORY, *RECORDS_OF.values()})


class PlannedFault(Struct, kw_only=True):
    """A fault of a written schedule. `at`: seconds after the start of the load; `name`: that by which others refer to it."""

    at: float
    do: str
    target: Any = None  # as in the scenario, and as in `Inject`
    name: str | None = msgspec.field(default=None, name="as")

    def __str__(self) -> str:
        named = f" as {self.name}" if self.name is not None else ""
        return f"`{self.do}`{named}, planned for {self.at:g} s"


class Run(Struct, kw_only=True):
    """The part of run.json that the judge needs.

    `evidence` is what the run can be judged by: the nodes' own traces, traces made from servers' logs, or, for a foreign
    system, the clients' history, alone or with what the nodes have recorded. `dump` is the SHA-256 of dump.bin.
    """

    nodes: Annotated[int, Meta(ge=1, le=1000)]  # far more than any ensemble has; the judge looks for each node
    observers: Annotated[int, Meta(ge=0)] = 0  # so many of the nodes, the last ones, do not vote
    outcome: str = "finished"
    expect: dict[str, Any] = {}
    evidence: Literal["traces", "logs", "history", "history+zab", "history+raft"] = TRACES
    seed: int | UnsetType = UNSET  # unset if it is not known, like the fields below
    defect: str | UnsetType | None = UNSET
    disk: str | UnsetType = UNSET
    backend: str | UnsetType = UNSET
    dump: str | None = None
    schedule: list[PlannedFault] = []  # empty if it was drawn, of older runs, and of ensembles that were used by hand

    @property
    def foreign(self) -> bool:
        """Whether the nodes are of a system that is neither ours nor ZooKeeper."""
        return self.evidence in FOREIGN


TRACE_FOLDER = "trace"
TRACE_FILE = re.compile(TRACE_FOLDER + r"/node-(\d+)-(\d+)\.jsonl")  # `trace_name`: the node and the life


def trace_name(node: int, life: int) -> str:
    """Return the name of a life's trace, relative to the run's folder."""
    return f"{TRACE_FOLDER}/node-{node}-{life}.jsonl"


SessionEvent = (
    SessionBegan
    | ConnectionLost
    | SessionOver
    | WriteSent
    | EphemeralCreated
    | SetAcknowledged
    | DeleteAcknowledged
    | RequestRefused
    | WatchReadSent
    | ReadAnswered
    | SyncAnswered
    | WatchFired
    | SubtreeWatched
    | SubtreeChanged
    | AnswerHeard
    | SetWatchesSent
    | SetWatchesAnswered
    | SessionEndLogged
)
_json_event: "msgspec.json.Decoder[JudgedEvent]" = msgspec.json.Decoder(JudgedEvent)
_json_other = msgspec.json.Decoder(UnjudgedEvent)
_json_operation: "msgspec.json.Decoder[Invoke | Complete]" = msgspec.json.Decoder(Invoke | Complete)


def event_from_json(line: bytes) -> Event:
    """Decode one line of a trace. Raises msgspec.ValidationError or DecodeError."""
    try:
        return _with_valid_digests(_json_event.decode(line))
    except msgspec.ValidationError:
        other = _json_other.decode(line)
        if other.event in JUDGED_EVENTS:
            raise  # a judged event without its documented form
        return other


def operation_from_json(line: bytes) -> Invoke | Complete:
    """Decode one line of ops.jsonl. Raises msgspec.ValidationError or DecodeError."""
    return _json_operation.decode(line)


def event_from_dict(event: Mapping[str, Any]) -> Event:
    """Convert an event that a node's tracer has in memory. Raises msgspec.ValidationError."""
    kind = JUDGED_EVENTS.get(event.get("event", ""))
    if kind is None:
        return msgspec.convert(event, UnjudgedEvent)
    return _with_valid_digests(msgspec.convert(event, kind))  # faster than converting to the union


def _with_valid_digests(event: JudgedEvent) -> JudgedEvent:
    """Return the event. Raises msgspec.ValidationError if it is a batch whose digests are not hexadecimal digits."""
    if isinstance(event, Batch) and not dg.is_shown(event.all_digests):
        raise msgspec.ValidationError(f"the digests must be {dg.DIGITS} hexadecimal digits each")
    return event
