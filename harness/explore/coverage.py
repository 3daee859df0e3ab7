"""The coverage report of an exploration: which combinations it reached and which it never reached, as tables and as JSON."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.machine.files import writing
from zab_chaos.harness.report.console import show_table, wrapping_table
from zab_chaos.model.coverage import MESSAGE_STATES, NO_FAULT, POINTS_TO_REACH, Combination, unreached


def show_coverage(scenario: Scenario, reached: set[Combination], results: Path, console: Console) -> dict[str, Any]:
    """Print coverage tables and write every combination to coverage-NAME.json in `results`. Return the summary for --json.

    Raises HarnessError if the file can't be written.
    """
    missing = unreached(reached, sorted(scenario.kinds))
    console.print(
        f"\n{len(reached)} combinations of role, phase, message or crash point, and fault were reached", highlight=False
    )
    tables = (
        _message_table(missing["messages"]),
        _point_table(missing["points"]),
        _fault_table(reached, missing["faults"]),
    )
    for table in tables:
        console.print()
        show_table(console, table)
    path = results / f"coverage-{scenario.name.replace('/', '-')}.json"
    _write(path, reached, missing)
    console.print(Text(f"\ncoverage {path}, fault by fault"), soft_wrap=True)
    return {"file": str(path), "reached": len(reached), "never": missing}


def _message_table(missing: list[str]) -> Table:
    """Return a table with a row for each role and phase: which of the expected messages were received there."""
    table = wrapping_table(
        "role", "phase", "received", "never received", title="Messages where the protocol expects them"
    )
    for role, phase in sorted({state[:2] for state in MESSAGE_STATES}):
        expected = [what for *place, what in MESSAGE_STATES if place == [role, phase]]
        absent = [what for what in expected if f"{role} {phase} {what}" in missing]
        table.add_row(role, phase, f"{len(expected) - len(absent)} of {len(expected)}", _words(absent))
    return table


def _point_table(missing: list[str]) -> Table:
    """Return a table with a row for each record or message, and a column for each step of a crash point."""
    steps = list(dict.fromkeys(point.split(":")[0] for point in POINTS_TO_REACH))
    table = wrapping_table(
        "record or message",
        *(step.replace("-", "\n") for step in steps),
        title=f"Crash points: {len(POINTS_TO_REACH) - len(missing)} of {len(POINTS_TO_REACH)} reached",
    )
    for what in dict.fromkeys(point.split(":")[1] for point in POINTS_TO_REACH):
        points = [f"{step}:{what}" for step in steps]
        table.add_row(what, *(_point_cell(point, missing) for point in points))
    return table


def _point_cell(point: str, missing: list[str]) -> Text:
    if point not in POINTS_TO_REACH:
        return Text("")
    return Text("never", "yellow") if point in missing else Text("yes", "green")


def _fault_table(reached: set[Combination], missing: list[str]) -> Table:
    """Return a table with a row for each kind of fault: how many of the reached combinations were reached under it."""
    everything = {combination[:3] for combination in reached}
    table = wrapping_table(
        "fault", "messages and points by role and phase", "crash points", title="Reached while a fault was active"
    )
    for fault in sorted({combination[3] for combination in reached}):
        under = {combination[:3] for combination in reached if combination[3] == fault}
        points = {what for _, _, what in under} & set(POINTS_TO_REACH)
        table.add_row(
            "none" if fault == NO_FAULT else fault,
            f"{len(under)} of {len(everything)}",
            f"{len(points)} of {len(POINTS_TO_REACH)}",
        )
    for fault in missing:
        table.add_row(fault, Text("never happened", "yellow"), "")
    return table


def _words(names: Iterable[str]) -> Text:
    joined = ", ".join(names)
    return Text(joined, "yellow") if joined else Text("–", "dim")


def _write(path: Path, reached: set[Combination], missing: dict[str, list[str]]) -> None:
    everything = {combination[:3] for combination in reached}
    faults = sorted({combination[3] for combination in reached})
    under = {fault: {combination[:3] for combination in reached if combination[3] == fault} for fault in faults}
    content = {
        "reached": sorted(reached),
        "never": missing,
        "never_under_fault": {fault: sorted(everything - combinations) for fault, combinations in under.items()},
    }
    with writing(path, "--results"):
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
