"""From the place of a line to what it says."""

import contextlib
import json
from typing import Any

from pyspark.sql import functions as F

from pipeline import columns as c
from pipeline.facts import Facts
from pipeline.frames import of_rows, together

Place = tuple[int, str, int]  # run, file relative to its folder, line


def cite(facts: Facts, places: list[Place]) -> dict[Place, dict[str, Any]]:
    """What these lines say, with the fields that the tables keep, less those that are null."""
    if not places:
        return {}
    wanted = F.broadcast(of_rows(facts.spark, places, "run bigint, file string, line int"))
    node = F.concat(F.lit("trace/node-"), "node", F.lit("-"), "life", F.lit(".jsonl"))
    files = [
        (c.EVENTS, node), (c.BROADCASTS, node), (c.ACCEPTS, node), (c.DELIVERIES, node), (c.LINKS, node),
        (c.OPERATIONS, F.lit("ops.jsonl")), (c.FAULTS, F.lit("faults.jsonl")), (c.MILESTONES, F.lit("harness.jsonl")),
    ]  # fmt: skip
    parts = []
    for table, file in files:
        kept = [name for name in table.names if name not in ("run", "line", "raw")]
        rows = facts.rows(table).withColumn("file", file).join(wanted, ["run", "file", "line"])
        parts.append(rows.select("run", "file", "line", F.to_json(F.struct(*kept)).alias("event")))
    return {
        (row["run"], row["file"], row["line"]): _whole(json.loads(row["event"])) for row in together(parts).collect()
    }


def _whole(event: dict[str, Any]) -> dict[str, Any]:
    """Fields that the tables keep as JSON text, as what they are."""
    for name in ("evidence", "params", "target", "last"):
        if isinstance(event.get(name), str):
            with contextlib.suppress(ValueError):
                event[name] = json.loads(event[name])
    if "id" in event and str(event["id"]).isdigit():
        event["id"] = int(event["id"])
    return event
