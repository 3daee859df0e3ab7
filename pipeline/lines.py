"""Reads a run on an executor: its run.json, and every line of its files with the table that the line belongs to.

The judge's own decoders say whether a line has its documented form, so the tables hold exactly the lines that are judged.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from zab_chaos.model import events as ev
from zab_chaos.model import runfiles
from zab_chaos.pipeline import columns as c
from zab_chaos.pipeline.folders import Folder

LINE_SCHEMA = "run bigint, table string, file string, line int, reason string, torn boolean, text string"
_FILES = {"ops.jsonl": c.OPERATIONS, "faults.jsonl": c.FAULTS, "harness.jsonl": c.MILESTONES}
_EVENTS: dict[Any, c.Table] = {
    ev.Broadcast: c.BROADCASTS,
    ev.Accept: c.ACCEPTS,
    ev.Deliver: c.DELIVERIES,
    ev.Channel: c.LINKS,
    ev.Link: c.LINKS,
}
_TEXTS = ("run", "scenario", "backend", "defect", "disk", "commit", "command", "started", "ended")


class LinesFile(NamedTuple):
    """One file of lines."""

    run: int
    folder: str
    name: str


def lines_files(folder: Folder) -> list[LinesFile]:
    return [LinesFile(folder.run, folder.path, name) for name in sorted(folder.files) if name.endswith(".jsonl")]


def read_lines(source: LinesFile) -> Iterator[tuple[int, str, str, int, str | None, bool, str]]:
    """Every line, with the columns of `LINE_SCHEMA`. One without its documented form belongs to the quarantine, with the reason.
    `torn`: the last line of the file, without an end."""
    decode = runfiles.decoder(source.name)
    with Path(source.folder, source.name).open("rb") as file:
        for number, text in enumerate(file, 1):
            try:
                table, reason = _place(decode(text), source.name)
            except ev.UNREADABLE as error:
                table, reason = c.QUARANTINE, f"is not readable: {error}"
            torn = not text.endswith(b"\n")
            yield source.run, table.name, source.name, number, reason, torn, text.decode(errors="replace").rstrip("\n")


def _place(record: Any, name: str) -> tuple[c.Table, str | None]:
    """The table of a line of the file `name`, and what is wrong with the line, if anything."""
    if name in _FILES:
        return _FILES[name], None
    if ev.trace_name(record.node, record.life) != name:
        return c.QUARANTINE, f"is of node {record.node}, life {record.life}"
    return _EVENTS.get(type(record), c.EVENTS), None


def run_row(folder: Folder) -> dict[str, Any]:
    """A run's row in `runs`, without the load."""
    path = Path(folder.path)
    said: dict[str, Any] = {}
    error = None
    try:
        runfiles.read_run(path)
        said = json.loads((path / "run.json").read_bytes())
    except runfiles.NotARun as no_run:
        error = str(no_run)
    facts = {name: None if said.get(name) is None else str(said[name]) for name in _TEXTS}
    facts["name"] = facts["run"]
    numbers = {name: said[name] if isinstance(said.get(name), int) else None for name in ("seed", "nodes")}
    return {
        **facts, **numbers, "run": folder.run, "path": folder.path, "stamp": folder.stamp, "fingerprint": folder.fingerprint(), "error": error,
        "outcome": said.get("outcome", "finished"), "expect": json.dumps(said.get("expect", {})),
        "files": sorted(folder.files), "record": bool(said.get("record")),
    }  # fmt: skip
