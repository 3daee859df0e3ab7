"""Defines the tables that `zab analyze` writes: names, types, units and meanings of their columns.

All readers and writers take their Spark schema from here, and docs/tables.md is generated from here (`make docs`), so the
three cannot differ. A column has the name of the field in the run's file (results/README.md). Zxids are pairs
`[epoch, counter]`, as there.
"""

from collections.abc import Iterable
from dataclasses import dataclass

ZXID = "array<bigint>"
NUMBER = "bigint"
TEXT = "string"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its name, Spark type (DDL), unit ("" if it has none), and meaning."""

    name: str
    type: str
    unit: str
    about: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table: a directory of Parquet files in the analysis' folder, partitioned by `load`."""

    name: str
    about: str
    source: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def ddl(self) -> str:
        return ddl(self.columns)


def ddl(columns: Iterable[Column]) -> str:
    """Return the Spark schema of the columns in DDL."""
    return ", ".join(f"`{column.name}` {column.type}" for column in columns)


RUN = Column("run", NUMBER, "", "the run: a hash of its folder's path; `runs` has the path")
LINE = Column("line", "int", "", "line number in the file, from 1")
LOAD = Column("load", "int", "", "number of the ingest call that wrote the row; partition column")

COMMON_FIELDS = (
    Column("t", NUMBER, "ns", "the host's monotonic clock, one for all processes of a run"),
    Column("node", "int", "", "id of the node, from 1"),
    Column("life", "int", "", "number of the process incarnation of the node, from 1"),
    Column("n", NUMBER, "", "event number in this life, from 1, without gaps"),
    Column("event", TEXT, "", "the event's name"),
)
BATCH_FIELDS = (
    Column("epoch", NUMBER, "", "epoch of the transactions"),
    Column("first", NUMBER, "", "counter of the first transaction; the others follow without gaps"),
    Column("digests", TEXT, "hex", "digest of each transaction's bytes (results/README.md), 16 digits each"),
)
EVENT_FIELDS = (
    Column("disk", TEXT, "", "boot: state of the disk: fresh, recovered, torn, amnesiac"),
    Column("accepted_epoch", NUMBER, "", "boot, left: f.p on the disk"),
    Column("current_epoch", NUMBER, "", "boot, left: f.a on the disk"),
    Column("last_zxid", ZXID, "", "boot, left, current_epoch, established: last zxid of the history"),
    Column("snapshot_zxid", ZXID, "", "boot: zxid of the snapshot that the life begins with"),
    Column("torn_bytes", NUMBER, "bytes", "boot: length of the incomplete tail that was cut off"),
    Column("faithful", "boolean", "", "boot: whether unsynced bytes are lost with the process"),
    Column("nodes", "int", "", "boot: size of the ensemble"),
    Column("defect", TEXT, "", "boot: the known bug that the node was built with"),
    Column("pid", NUMBER, "", "boot: process id"),
    Column("role", TEXT, "", "role: LOOKING, FOLLOWING, LEADING"),
    Column("leader", "int", "", "role, vote, accepted_epoch: id of the leader"),
    Column("phase", TEXT, "", "phase: ELECTION, DISCOVERY, SYNCHRONIZATION, BROADCAST"),
    Column("epoch", NUMBER, "", "phase, vote, accepted_epoch, current_epoch, established, member: the epoch"),
    Column("round", NUMBER, "", "vote: the election's round (logical clock)"),
    Column("quorum", "array<int>", "", "established: nodes whose ACK-LD counted; member: nodes that confirmed it"),
    Column("keep", ZXID, "", "truncate: last zxid that was kept"),
    Column("last", ZXID, "", "truncate: last zxid before the truncation"),
    Column("kind", TEXT, "", "snapshot: taken, installed, restored"),
    Column("zxid", ZXID, "", "vote, snapshot: the zxid"),
    Column("digest", TEXT, "hex", "boot, snapshot: running digest of the history up to the snapshot's zxid"),
    Column("tree", TEXT, "hex", "snapshot: digest of the tree"),
    Column("what", TEXT, "", "refused: frame, stranger, client, request"),
    Column("peer", "int", "", "refused: id of the peer"),
    Column("count", NUMBER, "", "refused: number of refusals"),
    Column("records", NUMBER, "", "recovery: log records read"),
    Column("bytes", NUMBER, "bytes", "recovery: bytes read; snapshot: length of an installed state"),
    Column("micros", NUMBER, "µs", "recovery: duration"),
    Column("frames", NUMBER, "", "work: frames given to links since the life began"),
    Column("messages", "map<string,bigint>", "", "work: messages in these frames, by kind"),
    Column("syncs", NUMBER, "", "work: syncs of the log since the life began"),
    Column("do", TEXT, "", "fault: the kind"),
    Column("state", TEXT, "", "fault: armed, fired, lifted; client: connected, gone"),
    Column("detail", TEXT, "", "fault: details"),
    Column("client", NUMBER, "", "client: session number"),
    Column("code", "int", "", "exit: exit code"),
    Column("why", TEXT, "", "role, refused, abort, exit: the reason"),
    Column("raw", TEXT, "", "the whole line, for events that results/README.md does not name"),
)

RUNS = Table(
    "runs",
    "One row per run and load. Only the row with the highest `load` of a run is valid.",
    "run.json",
    (
        RUN,
        Column("path", TEXT, "", "the run's folder"),
        Column("rows_in", "int", "", "the load that holds the run's rows in the other tables"),
        Column("stamp", TEXT, "", "hash of the names, sizes and modification times of its files"),
        Column("fingerprint", TEXT, "sha-256", "hash of the contents of all its files"),
        Column("error", TEXT, "", "why run.json can't be used; null if it can be"),
        Column("name", TEXT, "", "the run folder's name when it was created (`run` in run.json)"),
        Column("scenario", TEXT, "", "the scenario's name"),
        Column("seed", NUMBER, "", "the seed"),
        Column("nodes", "int", "", "size of the ensemble"),
        Column("backend", TEXT, "", "the backend that it ran on"),
        Column("defect", TEXT, "", "the known bug that the nodes were built with"),
        Column("disk", TEXT, "", "faithful, ordinary or fuse"),
        Column("record", "boolean", "", "whether the nodes recorded their inputs, so that the run can be replayed"),
        Column("commit", TEXT, "", "the commit of the code"),
        Column("command", TEXT, "", "the command that repeats the run"),
        Column("started", TEXT, "UTC, ISO 8601", "start of the run"),
        Column("ended", TEXT, "UTC, ISO 8601", "end of the run"),
        Column("outcome", TEXT, "", "finished, interrupted, harness-error: ..., unfinished, or why it could not go on"),
        Column("expect", TEXT, "JSON", "the scenario's [expect]"),
        Column("files", "array<string>", "", "the run's files, relative to its folder"),
    ),
)
EVENTS = Table(
    "events",
    "The events of each life of each node, without transactions and links. Columns that an event does not have are null.",
    "trace/*.jsonl",
    (RUN, *COMMON_FIELDS, *EVENT_FIELDS, LINE),
)
BROADCASTS = Table(
    "broadcasts",
    "Transactions that a primary broadcast, one row per batch.",
    "trace/*.jsonl, `broadcast`",
    (
        RUN,
        *COMMON_FIELDS,
        *BATCH_FIELDS,
        Column("delivered", ZXID, "", "zxid of the last transaction that the node had delivered by then"),
        Column("txns", TEXT, "JSON", "what each transaction does: [client, seq, [[op, path, version, value], ...]]"),
        LINE,
    ),
)
ACCEPTS = Table(
    "accepts",
    "Transactions that became durable in a node's log, one row per batch.",
    "trace/*.jsonl, `accept`",
    (RUN, *COMMON_FIELDS, *BATCH_FIELDS, Column("in_epoch", NUMBER, "", "f.a under which it was accepted"), LINE),
)
DELIVERIES = Table(
    "deliveries",
    "Transactions that a node delivered, one row per batch.",
    "trace/*.jsonl, `deliver`",
    (
        RUN,
        *COMMON_FIELDS,
        *BATCH_FIELDS,
        Column("digest", TEXT, "hex", "running digest of the history after the batch's last transaction"),
        Column("tree", TEXT, "hex", "digest of the tree after that transaction"),
        LINE,
    ),
)
LINKS = Table(
    "links",
    "Links that were opened and closed, and the unbroken runs of frames that were accepted from a peer.",
    "trace/*.jsonl, `link` and `channel`",
    (
        RUN,
        *COMMON_FIELDS,
        Column("peer", "int", "", "id of the other node"),
        Column("state", TEXT, "", "link: opened or closed"),
        Column("session", NUMBER, "", "session number"),
        Column("why", TEXT, "", "link: the reason"),
        Column("incarnation", NUMBER, "", "channel: the peer's incarnation"),
        Column("first", NUMBER, "", "channel: sequence number of the first accepted frame"),
        Column("last", NUMBER, "", "channel: sequence number of the last accepted frame"),
        Column("ended", TEXT, "", "channel: closed, gap, session or exit"),
        LINE,
    ),
)
OPERATIONS = Table(
    "operations",
    "The operations of the clients. Each row is an invocation or its completion.",
    "ops.jsonl",
    (
        RUN,
        Column("type", TEXT, "", "invoke or complete"),
        Column("t", NUMBER, "ns", "time at which it was sent or answered"),
        Column("due", NUMBER, "ns", "invoke: time at which the open loop scheduled it"),
        Column("client", NUMBER, "", "session number"),
        Column("seq", NUMBER, "", "number of the request within the session"),
        Column("node", "int", "", "id of the node that it was meant for; what is not sent yet may go to another"),
        Column("op", TEXT, "", "invoke: create, set, delete, check, multi, get, exists, ... (results/README.md)"),
        Column("path", TEXT, "", "invoke: the znode; complete: of a create, the complete path"),
        Column("value", NUMBER, "CRC-32", "digest of the value that was written or read"),
        Column("version", NUMBER, "", "invoke: the required version; complete: the resulting version"),
        Column("sequential", "boolean", "", "invoke: whether the create appends a number to the path"),
        Column("steps", TEXT, "JSON", "multi: [{op, path, value, version}, ...]; when complete [[path, version], ...]"),
        Column("values", "array<bigint>", "CRC-32", "complete: what each read of a transaction has found"),
        Column("lists", "array<array<bigint>>", "", "complete: the elements that each read of a list has found"),
        Column("children", "array<string>", "", "complete: the result of a children read"),
        Column("outcome", TEXT, "", "complete: ok, failed (certainly without effect) or unknown"),
        Column("error", TEXT, "", "complete: why it failed"),
        Column("zxid", ZXID, "", "complete: the write's transaction; else the last one that the node had delivered"),
        LINE,
    ),
)
FAULTS = Table(
    "faults",
    "Faults. Each row is an injection or a healing.",
    "faults.jsonl",
    (
        RUN,
        Column("type", TEXT, "", "inject or heal"),
        Column("t", NUMBER, "ns", "time"),
        Column("id", TEXT, "", "number of the fault"),
        Column("do", TEXT, "", "inject: the kind"),
        Column("target", TEXT, "", "inject: the target as in the scenario"),
        Column("nodes", "array<int>", "", "inject: ids of the nodes that were hit"),
        Column("params", TEXT, "JSON", "inject: the fault's own keys"),
        Column("pairs", "array<array<int>>", "", "inject: the links that were cut or disturbed, [from, to]"),
        Column("confirmed", "boolean", "", "whether the processes themselves showed the effect"),
        Column("evidence", TEXT, "JSON", "the evidence"),
        LINE,
    ),
)
MILESTONES = Table(
    "milestones",
    "The milestones of the run, one row per line.",
    "harness.jsonl",
    (
        RUN,
        Column("t", NUMBER, "ns", "time"),
        Column("event", TEXT, "", "started, established, workload-started, safety-ended, converged, ..."),
        Column("seconds", "double", "s", "converged: time until then; last-question: time limit; left-alone: duration"),
        Column("raw", TEXT, "JSON", "the whole line"),
        LINE,
    ),
)
QUARANTINE = Table(
    "quarantine",
    "Lines that do not have their documented form. They make a run UNKNOWN at best, unless a kill explains an incomplete last line.",
    "all files",
    (
        RUN,
        Column("file", TEXT, "", "relative to the run's folder"),
        LINE,
        Column("reason", TEXT, "", "what is wrong with the line"),
        Column("torn", "boolean", "", "whether it is the last line of its file and incomplete"),
        Column("text", TEXT, "", "the first 1000 characters of the line"),
    ),
)
_ALL = (RUNS, EVENTS, BROADCASTS, ACCEPTS, DELIVERIES, OPERATIONS, FAULTS, LINKS, MILESTONES, QUARANTINE)
TABLES = {table.name: table for table in _ALL}
