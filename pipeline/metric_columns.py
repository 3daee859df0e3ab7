"""The columns of the metrics that `zab analyze` writes below `metrics/<name>/part=<number>`: types, units, meanings.

A test holds them against what the queries give; docs/tables.md shows them.
"""

from zab_chaos.pipeline.columns import NUMBER, RUN, TEXT, Column, Table

SECONDS = "double"
EPOCH = Column("epoch", NUMBER, "", "the epoch")
NODE = Column("node", "int", "", "id of the node")


def _ms(name: str, about: str) -> Column:
    return Column(name, "double", "ms", about)


def _share(name: str, share: str) -> Column:
    return Column(name, NUMBER, "transactions", f"{share} of the batches are not larger (nearest rank)")


METRICS = (
    Table(
        "latency",
        "Of successful operations, from the time at which each was due (no coordinated omission), by nearest rank.",
        "`operations`",
        (
            RUN,
            Column("of", TEXT, "", "all, writes or reads"),
            _ms("p50_ms", "median"),
            _ms("p90_ms", "90th percentile"),
            _ms("p99_ms", "99th percentile"),
            _ms("p999_ms", "99.9th percentile"),
            _ms("max_ms", "longest"),
            Column("number", NUMBER, "operations", "how many"),
        ),
    ),
    Table(
        "throughput",
        "Operations answered in each second, without gaps.",
        "`operations`",
        (
            RUN,
            Column("second", "int", "s", "since the first operation was due"),
            Column("ok", NUMBER, "operations", "that succeeded"),
            Column("failed", NUMBER, "operations", "certainly without effect"),
            Column("unknown", NUMBER, "operations", "answered unknown"),
        ),
    ),
    Table(
        "unavailability",
        "Times of 0.1 s and more in which a write was due and none succeeded.",
        "`operations`",
        (
            RUN,
            Column("begin", SECONDS, "s", "since the first operation was due"),
            Column("seconds", SECONDS, "s", "how long"),
        ),
    ),
    Table(
        "recovery",
        "What followed on each fault.",
        "`faults`, `deliveries`, `operations`",
        (
            RUN,
            Column("id", TEXT, "", "number of the fault"),
            Column("do", TEXT, "", "its kind"),
            Column("role", TEXT, "", "leader, follower, looking, several; null if it hit no node"),
            Column("nodes", "array<int>", "", "ids of those that it hit"),
            Column("seconds", SECONDS, "s", "to the next new commit anywhere; null if there was none"),
            Column(
                "stood_still",
                SECONDS,
                "s",
                "longest time until the next fault in which writes were due and none succeeded",
            ),
        ),
    ),
    Table(
        "hits",
        "What each node was when a fault hit it.",
        "`faults`, `events`",
        (
            RUN,
            Column("id", TEXT, "", "number of the fault"),
            Column("do", TEXT, "", "its kind"),
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
            Column("looking", SECONDS, "s", "of these, until it was LEADING"),
            Column("rounds", NUMBER, "", "rounds that the leader voted in"),
            Column("messages", NUMBER, "votes", "sent by all nodes meanwhile; null if the traces do not count"),
        ),
    ),
    Table(
        "catching_up",
        "How each node got an epoch's initial history: one row for each `current_epoch`.",
        "`events`, `accepts`",
        (
            RUN,
            NODE,
            Column("life", "int", "", "its life"),
            EPOCH,
            Column("kind", TEXT, "", "snapshot, truncation (and what it then took), difference, or nothing"),
            Column("transactions", NUMBER, "transactions", "taken into its log in SYNCHRONIZATION"),
            Column("cut", NUMBER, "transactions", "cut off its log before"),
            Column("bytes", NUMBER, "bytes", "of the snapshot"),
            Column("seconds", SECONDS, "s", "since it followed"),
        ),
    ),
    Table(
        "messages",
        "What all nodes sent, heartbeats included. A killed life lacks at most its last second.",
        "`events`, `work`",
        (
            RUN,
            Column("kind", TEXT, "", "the message"),
            Column("number", NUMBER, "messages", "how many"),
            Column("per_write", "double", "messages", "for each committed write"),
        ),
    ),
    Table(
        "batches",
        "What became durable with one sync, over all nodes.",
        "`accepts`",
        (
            RUN,
            Column("number", NUMBER, "batches", "how many"),
            Column("transactions", NUMBER, "transactions", "in them"),
            _share("p50", "half"),
            _share("p90", "90 %"),
            _share("p99", "99 %"),
            Column("max", NUMBER, "transactions", "the largest"),
        ),
    ),
)
