"""What a line must have to be what it says it is: the documented form of every event, as Spark conditions.

The same lines are refused as the oracle refuses, so that both judge the same facts. A line that is refused goes to the
quarantine with the reason; an event that nobody judges may have any form.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline import columns as c
from pipeline.types import struct_of

HIGH = 2**32 - 1
_OPTIONS = {"columnNameOfCorruptRecord": "_bad", "allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}


def pair(name: str) -> str:
    """A zxid: two numbers of 32 bits."""
    return f"(size({name}) = 2 AND {name}[0] BETWEEN 0 AND {HIGH} AND {name}[1] BETWEEN 0 AND {HIGH})"


def hex64(name: str) -> str:
    return f"{name} RLIKE '^[0-9a-f]{{16}}$'"


def optional(name: str, condition: str) -> str:
    return f"({name} IS NULL OR {condition})"


def present(*names: str) -> str:
    return " AND ".join(f"{name} IS NOT NULL" for name in names)


BATCH = (
    f"epoch BETWEEN 0 AND {HIGH} AND first BETWEEN 1 AND {HIGH} AND digests IS NOT NULL "
    f"AND coalesce(array_min(digests), 0) >= 0 AND coalesce(array_max(digests), 0) <= {HIGH}"
)
LAST = "from_json(last, 'array<bigint>')"
EVENTS = {
    "boot": f"{present('disk', 'accepted_epoch', 'current_epoch')} AND {pair('last_zxid')} "
    f"AND {optional('snapshot_zxid', pair('snapshot_zxid'))} AND {optional('digest', hex64('digest'))}",
    "role": present("role"),
    "phase": present("phase"),
    "accepted_epoch": present("epoch"),
    "current_epoch": f"{present('epoch')} AND {pair('last_zxid')}",
    "established": f"{present('epoch')} AND {pair('last_zxid')}",
    "broadcast": f"{BATCH} AND {pair('delivered')}",
    "accept": f"{BATCH} AND in_epoch IS NOT NULL",
    "deliver": f"{BATCH} AND {hex64('digest')} AND {hex64('tree')}",
    "truncate": f"{pair('keep')} AND {pair(LAST)}",
    "snapshot": f"kind IS NOT NULL AND {pair('zxid')} AND {optional('digest', hex64('digest'))} "
    f"AND {optional('tree', hex64('tree'))}",
    "channel": f"{present('peer', 'incarnation', 'session', 'first', 'ended')} AND cast(last AS bigint) IS NOT NULL",
    "member": "true",
    "abort": "true",
    "exit": present("code"),
}
UNJUDGED = ("vote", "link", "refused", "recovery", "work", "fault", "client")
OPERATIONS = {
    "invoke": present("client", "seq", "op", "due"),
    "complete": f"{present('client', 'seq')} AND outcome IN ('ok', 'failed', 'unknown') AND {optional('zxid', pair('zxid'))}",
}
FAULTS = {"inject": present("id", "do", "confirmed"), "heal": present("id", "confirmed")}


def trace(lines: DataFrame) -> DataFrame:
    """Lines of traces with the fields of their events, and `reason`, which is null for those that can be used."""
    number = F.regexp_extract("file", r"node-(\d+)-(\d+)", 1).cast("int")
    life = F.regexp_extract("file", r"node-(\d+)-(\d+)", 2).cast("int")
    read = _read(lines, c.trace_fields())
    common = "t IS NULL OR node IS NULL OR life < 1 OR life IS NULL OR n < 1 OR n IS NULL OR event IS NULL"
    judged = ", ".join(f"'{name}'" for name in EVENTS)
    unknown = ", ".join(f"'{name}'" for name in (*EVENTS, *UNJUDGED))
    broken = F.expr(f"{common} OR {_TWO} OR (_bad IS NOT NULL AND event IN ({judged}))")
    stranger = (F.col("node") != number) | (F.col("life") != life)
    return read.select(
        "*",
        F.expr(f"CASE WHEN event NOT IN ({unknown}) OR _bad IS NOT NULL THEN text END").alias("raw"),
        F.when(F.col("torn") & (broken | ~_formed("event", EVENTS)), F.lit(_TORN))
        .when(broken, F.lit("is not readable: no JSON object with the fields of an event"))
        .when(
            ~_formed("event", EVENTS),
            F.concat(F.lit("is not readable: it has not the form of a `"), "event", F.lit("`")),
        )
        .when(stranger, F.concat(F.lit("is of node "), "node", F.lit(", life "), "life"))
        .alias("reason"),
        (F.col("torn") & ~F.coalesce(stranger, F.lit(False))).alias("excusable"),
    )


def operations(lines: DataFrame) -> DataFrame:
    """Lines of ops.jsonl, likewise."""
    loose = {"node": c.TEXT, "value": c.TEXT, "version": c.TEXT}  # nobody judges these
    return _judged(lines, c.file_fields(c.OPERATIONS), "type", OPERATIONS, loose)


def faults(lines: DataFrame) -> DataFrame:
    """Lines of faults.jsonl, likewise."""
    return _judged(lines, c.file_fields(c.FAULTS), "type", FAULTS, {"pairs": c.TEXT})


def milestones(lines: DataFrame) -> DataFrame:
    """Lines of harness.jsonl, likewise."""
    read = _read(lines, c.file_fields(c.MILESTONES))
    return _refused(read, F.expr(f"t IS NULL OR event IS NULL OR _bad IS NOT NULL OR {_TWO}")).withColumn(
        "raw", F.col("text")
    )


_TORN = "is incomplete, and nothing says that it was killed"
_TWO = r"(contains(text, '}{') OR NOT rtrim(text) LIKE '%}')"  # the parser stops after the first object


def _read(lines: DataFrame, schema: str) -> DataFrame:
    parsed = lines.withColumn("_j", F.from_json("text", struct_of(schema), _OPTIONS))
    return parsed.select("run", "file", "line", "text", "torn", "_j.*")


def _formed(by: str, forms: dict[str, str]) -> Column:
    """Whether a line has the form that its event's name asks for; true for names without a form."""
    cases = " ".join(f"WHEN '{name}' THEN {condition}" for name, condition in forms.items())
    return F.coalesce(F.expr(f"CASE {by} {cases} ELSE true END"), F.lit(False))


def _judged(lines: DataFrame, schema: str, by: str, forms: dict[str, str], loose: dict[str, str]) -> DataFrame:
    fields = []
    for part in schema.split(", `"):
        name = part.strip("`").split("`")[0]
        fields.append(f"`{name}` {loose[name]}" if name in loose else "`" + part.lstrip("`"))
    read = _read(lines, ", ".join(fields))
    names = ", ".join(f"'{name}'" for name in forms)
    known = f"t IS NOT NULL AND {by} IN ({names}) AND _bad IS NULL AND NOT {_TWO}"
    return _refused(read, ~F.coalesce(F.expr(known), F.lit(False)) | ~_formed(by, forms))


def _refused(read: DataFrame, broken: Column) -> DataFrame:
    reason = F.when(broken & F.col("torn"), F.lit(_TORN)).when(
        broken, F.lit("is not readable: it has not the form that results/README.md describes")
    )
    return read.withColumn("reason", reason).withColumn("excusable", F.col("torn"))
