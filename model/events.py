"""The lines of a run's folder as typed records, as far as they are judged. Formats: results/README.md.

Fields that no property looks at are not kept; events that no property looks at become `Other`, which keeps their place
in the life's count. A line that does not have the documented form does not come out of a decoder.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, final, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from zab_chaos.node.core import digest as dg

U32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Pair = tuple[U32, U32]  # a zxid: (epoch, counter)
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)  # of what somebody has edited, or that was cut
Digest = Annotated[str, Meta(min_length=dg.DIGITS, max_length=dg.DIGITS)]
Hex64 = Annotated[Digest, Meta(pattern="^[0-9a-f]*$")]


def packed(pair: Pair) -> int:
    """A zxid as one int, ordered as the paper orders zxids."""
    return pair[0] << 32 | pair[1]


class Line(Struct, kw_only=True, gc=False):
    """A line of some file of the folder. `line` counts from 1; it is set by whoever reads the file."""

    t: int
    line: int = 0

    @property
    def file(self) -> str:
        """The file's name, relative to the run's folder."""
        raise NotImplementedError


class TraceEvent(Line, kw_only=True, tag_field="event"):
    """An event of a node's life."""

    node: int
    life: Annotated[int, Meta(ge=1)]
    n: Annotated[int, Meta(ge=1)]

    @property
    def file(self) -> str:
        return trace_name(self.node, self.life)


class Boot(TraceEvent, kw_only=True, tag="boot"):
    disk: Literal["fresh", "recovered", "torn", "amnesiac"]
    accepted_epoch: U32
    current_epoch: U32
    last_zxid: Pair
    snapshot_zxid: Pair = (0, 0)
    digest: Hex64 | None = None  # running digest at `snapshot_zxid`
    faithful: bool | None = None
    nodes: int | None = None
    defect: str | None = None
    pid: int | None = None

    @property
    def empty(self) -> bool:
        """Whether the node starts without anything that it once promised."""
        return self.disk in ("fresh", "amnesiac")

    @property
    def blank(self) -> bool:
        """Whether nothing at all was found on the disk."""
        return not (self.accepted_epoch or self.current_epoch or any(self.last_zxid))


class Left(TraceEvent, kw_only=True, tag="left"):
    """What a life left on its disk, as others have read it there. `log`: the first and the last of consecutive zxids; `damage`:
    what could not be read of it, and so counts as missing."""

    accepted_epoch: U32
    current_epoch: U32
    last_zxid: Pair
    log: list[tuple[Pair, Pair]] = []
    snapshots: list[Pair] = []
    damage: list[str] = []


class Role(TraceEvent, kw_only=True, tag="role"):
    role: Literal["LOOKING", "FOLLOWING", "LEADING"]
    leader: int | None = None


class Phase(TraceEvent, kw_only=True, tag="phase"):
    phase: Literal["ELECTION", "DISCOVERY", "SYNCHRONIZATION", "BROADCAST"]
    epoch: int = 0


class AcceptedEpoch(TraceEvent, kw_only=True, tag="accepted_epoch"):
    epoch: int
    leader: int


class CurrentEpoch(TraceEvent, kw_only=True, tag="current_epoch"):
    epoch: int
    last_zxid: Pair


class Established(TraceEvent, kw_only=True, tag="established"):
    epoch: int
    last_zxid: Pair
    quorum: list[int] = []


class Batch(TraceEvent, kw_only=True):
    """Transactions with consecutive zxids of one epoch: `first`, `first + 1`, ... `digests`: 16 hexadecimal digits each.

    Most of a trace are batches, so their digests are checked by `_digests_checked`: a pattern takes five times as long.
    """

    epoch: U32
    first: Annotated[int, Meta(ge=1, le=2**32 - 1)]
    digests: str

    @property
    def zxid(self) -> int:
        """The first one's zxid."""
        return self.epoch << 32 | self.first

    @property
    def count(self) -> int:
        """How many transactions it has."""
        return dg.count(self.digests)

    @property
    def hexadecimal(self) -> str:
        """All that must be digests."""
        return self.digests


Did = Literal["create", "set", "delete", "check", "fence"]
Effect = tuple[Did, str, int | None, int | None]  # op, path, resulting version, CRC-32 of the value
Summary = tuple[int, int, tuple[Effect, ...]]  # client, seq, and what the transaction does: a multi has several steps


class Broadcast(Batch, kw_only=True, tag="broadcast"):
    delivered: Pair
    txns: list[Summary] = []  # as many as digests; none: an older trace, which does not say


class Accept(Batch, kw_only=True, tag="accept"):
    in_epoch: int


class Deliver(Batch, kw_only=True, tag="deliver"):
    digest: Digest
    tree: Digest

    @property
    def hexadecimal(self) -> str:
        return self.digests + self.digest + self.tree


class Truncate(TraceEvent, kw_only=True, tag="truncate"):
    keep: Pair
    last: Pair


class Snapshot(TraceEvent, kw_only=True, tag="snapshot"):
    kind: Literal["taken", "installed", "restored"]
    zxid: Pair
    digest: Hex64 | None = None
    tree: Hex64 | None = None


class Differs(TraceEvent, kw_only=True, tag="differs"):
    """A server has found that its tree is another one than its leader had after `zxid`."""

    zxid: Pair


class Link(TraceEvent, kw_only=True, tag="link"):
    """A node's side of the link to a peer."""

    peer: int
    state: Literal["opened", "closed"]
    session: int = 0


class Channel(TraceEvent, kw_only=True, tag="channel"):
    peer: int
    incarnation: int
    session: int
    first: int
    last: int
    ended: Literal["closed", "gap", "session", "exit"]


class Member(TraceEvent, kw_only=True, tag="member"):
    """A node that had lost its disk counts in quorums again. `quorum`: the members that confirmed that it may."""

    epoch: int
    quorum: list[int] = []


class Confirmed(TraceEvent, kw_only=True, tag="confirmed"):
    """A node still follows this leader in this epoch, and says so."""

    epoch: int
    leader: int


class Client(TraceEvent, kw_only=True, tag="client"):
    """A client came to this node, or left it."""

    state: Literal["connected", "gone"]
    client: int


class Abort(TraceEvent, kw_only=True, tag="abort"):
    why: str = ""


class Exit(TraceEvent, kw_only=True, tag="exit"):
    code: int
    why: str = ""


class Other(Line, kw_only=True):
    """An event that no property looks at."""

    node: int
    life: Annotated[int, Meta(ge=1)]
    n: Annotated[int, Meta(ge=1)]
    event: str

    @property
    def file(self) -> str:
        return trace_name(self.node, self.life)


Judged = (
    Boot
    | Left
    | Role
    | Phase
    | AcceptedEpoch
    | CurrentEpoch
    | Established
    | Broadcast
    | Accept
    | Deliver
    | Truncate
    | Snapshot
    | Differs
    | Link
    | Channel
    | Member
    | Confirmed
    | Client
    | Abort
    | Exit
)
Event = Judged | Other
JUDGED: dict[str, type[Judged]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Judged)}


class Operation(Line, kw_only=True, tag_field="type"):
    """A line of ops.jsonl. A client is a session; `seq` is the order in which it sent."""

    client: int
    seq: int
    node: int | None = None

    @property
    def file(self) -> str:
        return "ops.jsonl"


class Step(Struct, kw_only=True, omit_defaults=True, gc=False):
    """One write as it was asked for. `value`: the CRC-32 of the data; `version`: the condition, if there is one."""

    op: str
    path: str = ""
    value: int | None = None
    version: int | None = None
    sequential: bool | None = None


@final
class Invoke(Operation, kw_only=True, tag="invoke"):
    """`steps`: a multi's; its `path` and so on are those of the last step."""

    op: Literal["create", "set", "delete", "check", "multi", "get", "exists", "children"]
    due: int
    path: str = ""
    value: int | None = None
    version: int | None = None
    sequential: bool | None = None
    steps: list[Step] | None = None

    @property
    def asked(self) -> "Sequence[Invoke | Step]":
        """The steps that it asks for: those of a multi, else itself."""
        return (self.steps or ()) if self.op == "multi" else (self,)


@final
class Complete(Operation, kw_only=True, tag="complete"):
    """`zxid` of a refusal: the last transaction that it may rest on. `steps`: a multi's, (path, version)."""

    outcome: Literal["ok", "failed", "unknown"]
    error: str | None = None
    zxid: Pair | None = None
    version: int | None = None
    value: int | None = None
    path: str | None = None
    children: list[str] | None = None
    steps: list[tuple[str, int | None]] | None = None


class SessionLine(Line, kw_only=True, tag_field="type"):
    """A line of sessions.jsonl. A client has one session at a time, and one connection; its lines are in the order in which
    its connection carried them."""

    client: int

    @property
    def file(self) -> str:
        return "sessions.jsonl"


class Began(SessionLine, kw_only=True, tag="began"):
    """The client has a new session, of this number."""

    session: int


class Lost(SessionLine, kw_only=True, tag="lost"):
    """The connection is gone, and with it the watches; the session may go on at another server, and set them again."""


class Over(SessionLine, kw_only=True, tag="over"):
    """The session is over for its client: it has closed it, has gone silent for good, or was told that it has expired."""

    session: int
    why: Literal["closed", "left", "expired"]


class Write(SessionLine, kw_only=True, tag="write"):
    """The creation of an ephemeral znode or a set of another one is on its way. `value`: the CRC-32 of its data. No client
    asks for the same a second time."""

    op: Literal["create", "set"]
    path: str
    value: int


class Made(SessionLine, kw_only=True, tag="made"):
    """The session's creation of an ephemeral znode was acknowledged. A path is used once."""

    session: int
    path: str
    zxid: Pair


class Wrote(SessionLine, kw_only=True, tag="wrote"):
    """The session's set of a znode was acknowledged. `value`: the CRC-32 of data that no other set of the session has;
    `changed`: the zxid of the znode's last change, as it was told."""

    session: int
    path: str
    value: int
    version: int
    zxid: Pair
    changed: Pair | None = None


class Refused(SessionLine, kw_only=True, tag="refused"):
    """What was asked of `path` was certainly not done; `error` says why, at `zxid`."""

    path: str
    error: str
    node: int
    zxid: Pair


class Ask(SessionLine, kw_only=True, tag="ask"):
    """A read that sets a watch is on its way."""

    path: str


class Look(SessionLine, kw_only=True, tag="look"):
    """A read was answered by `node`, at `zxid`. `changed`: the zxid of the znode's last change, None if there is none such
    znode; `created`: that of its creation; `version`: the number of changes since; `owner`: the session of an ephemeral one.
    `children`: the names in a list of them. `watch`: it has set a watch. `last`: after everything else, and a sync."""

    path: str
    node: int
    zxid: Pair
    changed: Pair | None = None
    created: Pair | None = None
    version: int | None = None
    owner: int | None = None
    children: list[str] | None = None
    watch: bool = False
    last: bool = False


class Synced(SessionLine, kw_only=True, tag="synced"):
    """A sync that was sent at `sent` or later was answered."""

    sent: int
    node: int
    zxid: Pair


class Fired(SessionLine, kw_only=True, tag="fired"):
    """A server told of a change of a znode."""

    path: str
    what: str


class Again(SessionLine, kw_only=True, tag="again"):
    """After its connection was lost, the client asks a server to watch for it again what it has watched."""

    paths: list[str]


class Stand(SessionLine, kw_only=True, tag="stand"):
    """That was answered: the watches are set again that have not fired since."""

    node: int
    zxid: Pair


class Ended(SessionLine, kw_only=True, tag="ended"):
    """The servers' logs have the end of a session at this zxid. `client`: 0. `asked`: somebody has asked for it."""

    session: int
    zxid: Pair
    asked: bool = False


class Kept(Line, kw_only=True):
    """A line of tree.jsonl: a znode that all servers showed alike in the end, when the last transaction was `zxid`. `value`:
    the CRC-32 of its data; `created`, `changed`, `children_changed`: the zxids of its creation, of its last set, and of the
    last creation or deletion of a child, of which there were `children_version`; `owner`: the session of an ephemeral one."""

    zxid: Pair
    path: str
    value: int
    version: int
    created: Pair
    changed: Pair
    children_version: int
    children_changed: Pair
    owner: int = 0

    @property
    def file(self) -> str:
        return "tree.jsonl"


class Fault(Line, kw_only=True, tag_field="type"):
    """A line of faults.jsonl. `evidence` is free in form: what the processes themselves showed."""

    id: int | str
    confirmed: bool
    evidence: Any = None

    @property
    def file(self) -> str:
        return "faults.jsonl"


class Inject(Fault, kw_only=True, tag="inject"):
    do: str
    target: Any = None
    nodes: list[int] = []
    pairs: list[tuple[int, int]] | None = None  # the links that it cuts or disturbs, if it is a fault of links


class Heal(Fault, kw_only=True, tag="heal"):
    pass


class Milestone(Line, kw_only=True):
    """A line of harness.jsonl."""

    event: str
    seconds: float | None = None
    invoked: int | None = None  # of `workload-stopped`, with `ok`: the operations that the workload counted
    told: int | None = None  # of `sessions-stopped`: the lines of sessions.jsonl up to then
    ok: int | None = None
    failed: int | None = None
    unknown: int | None = None
    seed: int | None = None  # of `started`
    leader: int | None = None  # of `established`, with `epoch`
    epoch: int | None = None
    zxid: Pair | None = None  # of `converged`
    node: int | None = None  # of `ended`, with `life` and `code`
    life: int | None = None
    code: int | None = None
    why: str | None = None  # of `not-converged`
    runs: list[tuple[int, int, str, list[Summary]]] | None = None  # of `disk`: epoch, first, digests, txns

    @property
    def file(self) -> str:
        return "harness.jsonl"

    def before_the_start(self) -> list[Broadcast]:
        """What lay on the disk, as if primaries that are no processes of this run had broadcast it."""
        found: list[Broadcast] = []
        delivered: Pair = (0, 0)
        for epoch, first, digests, txns in self.runs or ():
            found.append(
                Broadcast(
                    t=self.t,
                    node=0,
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
HISTORY: Literal["history"] = "history"
LOGS: Literal["logs"] = "logs"


class Run(Struct, kw_only=True):
    """What the judge wants to know of run.json. `evidence`: what there is to judge by, the nodes' own traces, traces made of
    servers' logs, or only the clients' history. `dump`: the sha256 of dump.bin."""

    nodes: Annotated[int, Meta(ge=1, le=1000)]  # far more than any ensemble has; each is looked for
    outcome: str = "finished"
    expect: dict[str, Any] = {}
    evidence: Literal["traces", "history", "logs"] = TRACES
    seed: int | UnsetType = UNSET  # as far as it is known, like the following
    defect: str | UnsetType | None = UNSET
    disk: str | UnsetType = UNSET
    backend: str | UnsetType = UNSET
    dump: str | None = None


def trace_name(node: int, life: int) -> str:
    return f"trace/node-{node}-{life}.jsonl"


OfSession = Began | Lost | Over | Write | Made | Wrote | Refused | Ask | Look | Synced | Fired | Again | Stand | Ended
_json_event: "msgspec.json.Decoder[Judged]" = msgspec.json.Decoder(Judged)
_json_other = msgspec.json.Decoder(Other)
_json_operation: "msgspec.json.Decoder[Invoke | Complete]" = msgspec.json.Decoder(Invoke | Complete)


def event_from_json(line: bytes) -> Event:
    """One line of a trace. Raises msgspec.ValidationError or DecodeError."""
    try:
        return _digests_checked(_json_event.decode(line))
    except msgspec.ValidationError:
        other = _json_other.decode(line)
        if other.event in JUDGED:
            raise  # the line claims to be an event that is judged, and does not have its form
        return other


def operation_from_json(line: bytes) -> Invoke | Complete:
    """One line of ops.jsonl. Raises msgspec.ValidationError or DecodeError."""
    return _json_operation.decode(line)


def event_from_dict(event: Mapping[str, Any]) -> Event:
    """An event as a node's tracer has it in memory. Raises msgspec.ValidationError."""
    kind = JUDGED.get(event.get("event", ""))
    if kind is None:
        return msgspec.convert(event, Other)
    return _digests_checked(msgspec.convert(event, kind))  # a union would be looked through anew each time


def _digests_checked(event: Judged) -> Judged:
    """The event. Raises msgspec.ValidationError if it is a batch whose digests are none."""
    if isinstance(event, Batch) and not dg.is_shown(event.hexadecimal):
        raise msgspec.ValidationError(f"the digests must be {dg.DIGITS} hexadecimal digits each")
    return event
