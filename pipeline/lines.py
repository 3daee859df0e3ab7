"""Reads a run on an executor: its run.json, and every line of its files with the name of the table that the line belongs to.

The judge's own decoders decide whether a line has its documented form. So the tables hold exactly the lines that are judged.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from zab_chaos.model import events as ev
from zab_chaos.model import runfiles
from zab_chaos.pipeline import columns as c
from zab_chaos.pipeline.folders import SourceFolder

LINE_SCHEMA = "run bigint, table string, file string, line int, reason string, torn boolean, text string"
_TABLE_OF_FILE = {"ops.jsonl": c.OPERATIONS, "faults.jsonl": c.FAULTS, "harness.jsonl": c.MILESTONES}
_TABLE_OF_EVENT: dict[Any, c.Table] = {
    ev.Broadcast: c.BROADCASTS,
    ev.Accept: c.ACCEPTS,
    ev.Deliver: c.DELIVERIES,
    ev.Channel: c.LINKS,
    ev.Link: c.LINKS,
}
_TEXT_FIELDS = ("run", "scenario", "backend", "defect", "disk", "commit", "command", "started", "ended")


class LinesFile(NamedTuple):
    """A file of a run that consists of JSON lines. `run` is the run's number, `folder` its path."""

    run: int
    folder: str
    name: str


def lines_files(folder: SourceFolder) -> list[LinesFile]:
    """Return the files in a run's folder whose lines have a table."""
    names = [name for name in sorted(folder.files) if name in _TABLE_OF_FILE or ev.TRACE_FILE.fullmatch(name)]
    return [LinesFile(folder.run, folder.path, name) for name in names]


def read_lines(source: LinesFile) -> Iterator[tuple[int, str, str, int, str | None, bool, str]]:
    """Yield every line of a file with the columns of `LINE_SCHEMA`. A line that does not have its documented form belongs to the
    table `quarantine`, with the reason. `torn`: it is the last line of the file and has no newline. None if the run is gone."""
    decode = runfiles.decoder(source.name)
    with suppress(FileNotFoundError), Path(source.folder, source.name).open("rb") as file:
        for number, text in enumerate(file, 1):
            try:
                table, reason = _table_of(decode(text), source.name)
            except ev.UNREADABLE as error:
                table, reason = c.QUARANTINE, f"is not readable: {error}"
            torn = not text.endswith(b"\n")
            yield source.run, table.name, source.name, number, reason, torn, text.decode(errors="replace").rstrip("\n")


def _table_of(record: Any, name: str) -> tuple[c.Table, str | None]:
    """Return the table of a decoded line of the file `name`, and what is wrong with the line, if anything."""
    if name in _TABLE_OF_FILE:
        return _TABLE_OF_FILE[name], None
    if ev.trace_name(record.node, record.life) != name:
        return c.QUARANTINE, f"is of node {record.node}, life {record.life}"
    return _TABLE_OF_EVENT.get(type(record), c.EVENTS), None


def run_row(folder: SourceFolder) -> dict[str, Any]:
    """Return the run's row in the table `runs`, without the load."""
    path = Path(folder.path)
    content: dict[str, Any] = {}
    error = None
    try:
        runfiles.read_run(path)
        content = json.loads((path / "run.json").read_bytes())
    except (runfiles.NotARun, *ev.UNREADABLE) as no_run:  # the judge may be able to read as much as it needs
        error = str(no_run)
    facts = {name: None if content.get(name) is None else str(content[name]) for name in _TEXT_FIELDS}
    given = ((name, content.get(name)) for name in ("seed", "nodes"))
    numbers = {name: it if isinstance(it, int) and abs(it) < 2**63 else None for name, it in given}
    return {
        **facts, **numbers, "name": facts["run"], "run": folder.run, "path": folder.path, "stamp": folder.stamp, "fingerprint": folder.fingerprint(), "error": error,
        "outcome": content.get("outcome", "finished"), "expect": json.dumps(content.get("expect", {})),
        "files": sorted(folder.files), "record": bool(content.get("record")),
    }  # fmt: skip
