"""Defines the columns of the metrics that `zab analyze` writes to `metrics/<name>/`: types, units and meanings.

A test compares them with the results of the queries. docs/tables.md is generated from here.
"""

from zab_chaos.pipeline.columns import NUMBER, RUN, TEXT, Column, Table

SECONDS = "double"
EPOCH = Column("epoch", NUMBER, "", "the epoch")
NODE = Column("node", "int", "", "id of the node")


def _ms(name: str, about: str) -> Column:
    return Column(name, "double", "ms", about)


def _share(name: str, share: str) -> Column:
    return Column(name, NUMBER, "transactions", f"{share} of the batches are at most this large (nearest rank)")


METRICS = (
    Table(
        "latency",
        "Latency of successful operations, from the time at which each was due (no coordinated omission), by nearest rank.",
        "`operations`",
        (
            RUN,
            Column("of", TEXT, "", "all, writes or reads"),
            _ms("p50_ms", "median"),
            _ms("p90_ms", "90th percentile"),
            _ms("p99_ms", "99th percentile"),
            _ms("p999_ms", "99.9th percentile"),
            _ms("max_ms", "longest"),
            Column("number", NUMBER, "operations", "number of these operations"),
        ),
    ),
    Table(
        "throughput",
        "Operations answered in each second up to the last answer, so the last one is incomplete. Seconds without answers are included.",
        "`operations`",
        (
            RUN,
            Column("second", "int", "s", "time since the first operation was due"),
            Column("ok", NUMBER, "operations", "successful operations"),
            Column("failed", NUMBER, "operations", "failed operations, certainly without effect"),
            Column("unknown", NUMBER, "operations", "operations of unknown outcome"),
        ),
    ),
    Table(
        "unavailability",
        "Times of at least 0.1 s in which a write was waiting and none was served.",
        "`operations`",
        (
            RUN,
            Column("begin", SECONDS, "s", "time since the first operation was due"),
            Column("seconds", SECONDS, "s", "duration"),
        ),
    ),
    Table(
        "recovery",
        "The effect of each fault on commits and writes.",
        "`faults`, `deliveries`, `operations`",
        (
            RUN,
            Column("id", TEXT, "", "number of the fault"),
            Column("do", TEXT, "", "kind of the fault"),
            Column("role", TEXT, "", "leader, follower, looking, or several; null if it hit no node with a role"),
            Column("nodes", "array<int>", "", "ids of the nodes that were hit"),
            Column("seconds", SECONDS, "s", "time to the next new commit on any node; null if there was none"),
            Column("stood_still", SECONDS, "s", "longest wait of a write while none was served, until the next fault"),
        ),
    ),
    Table(
        "hits",
        "The state of each node when a fault hit it.",
        "`faults`, `events`",
        (
            RUN,
            Column("id", TEXT, "", "number of the fault"),
            Column("do", TEXT, "", "kind of the fault"),
            NODE,
            Column("was", TEXT, "", "role and phase, `starting`, or `down`"),
        ),
    ),
    Table(
        "elections",
        "One row for each established epoch, at its leader.",
        "`events`",
        (
            RUN,
            NODE,
            EPOCH,
            Column("seconds", SECONDS, "s", "from the leader's LOOKING to `established`"),
            Column("looking", SECONDS, "s", "part of `seconds`: until it was LEADING"),
            Column("rounds", NUMBER, "", "election rounds in which the leader voted"),
            Column("messages", NUMBER, "votes", "votes that all nodes sent in that time; null if not counted"),
        ),
    ),
    Table(
        "catching_up",
        "How each node got an epoch's initial history: one row for each `current_epoch`.",
        "`events`, `accepts`",
        (
            RUN,
            NODE,
            Column("life", "int", "", "number of the process incarnation, from 1"),
            EPOCH,
            Column("kind", TEXT, "", "snapshot, truncation (with what followed it), difference, or nothing"),
            Column("transactions", NUMBER, "transactions", "transactions added to its log in SYNCHRONIZATION"),
            Column("cut", NUMBER, "transactions", "transactions truncated before that"),
            Column("bytes", NUMBER, "bytes", "size of the snapshot"),
            Column("seconds", SECONDS, "s", "time since it began to follow"),
        ),
    ),
    Table(
        "messages",
        "The messages that all nodes sent, including heartbeats. A killed life lacks at most its last second.",
        "`events`, `work`",
        (
            RUN,
            Column("kind", TEXT, "", "kind of the message"),
            Column("number", NUMBER, "messages", "number of messages of this kind"),
            Column("per_write", "double", "messages", "messages per committed write"),
        ),
    ),
    Table(
        "batches",
        "The transactions that became durable with one sync, over all nodes.",
        "`accepts`",
        (
            RUN,
            Column("number", NUMBER, "batches", "number of batches"),
            Column("transactions", NUMBER, "transactions", "transactions in all batches"),
            _share("p50", "half"),
            _share("p90", "90 %"),
            _share("p99", "99 %"),
            Column("max", NUMBER, "transactions", "size of the largest batch"),
        ),
    ),
)
