"""The coverage of an exploration: what it reached and what it never reached, as tables and as a JSON file."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.report.console import wrapping_table
from zab_chaos.model.coverage import MESSAGE_STATES, NO_FAULT, POINTS, Combination, never


def show_coverage(scenario: Scenario, reached: set[Combination], results: Path, console: Console) -> dict[str, Any]:
    """Print the coverage, grouped, and write all of it to a file. Return a summary for JSON. Raises HarnessError."""
    kinds = scenario.nemesis.faults if scenario.nemesis is not None else [step.do for step in scenario.faults]
    missing = never(reached, sorted(set(kinds)))
    console.print(f"\n{len(reached)} combinations of role, phase, message or crash point, and fault", highlight=False)
    for table in (_messages(missing["messages"]), _points(missing["points"]), _faults(reached, missing["faults"])):
        console.print()
        console.print(table)
    path = results / f"coverage-{scenario.name.replace('/', '-')}.json"
    _write(path, reached, missing)
    console.print(Text(f"\ncoverage {path}, fault by fault"), soft_wrap=True)
    return {"file": str(path), "reached": len(reached), "never": missing}


def _messages(missing: list[str]) -> Table:
    """A row for each role and phase: how many of the expected messages arrived."""
    table = wrapping_table("role", "phase", "came", "never came", title="Messages where the protocol expects them")
    for role, phase in sorted({state[:2] for state in MESSAGE_STATES}):
        expected = [what for *place, what in MESSAGE_STATES if place == [role, phase]]
        absent = [what for what in expected if f"{role} {phase} {what}" in missing]
        table.add_row(role, phase, f"{len(expected) - len(absent)} of {len(expected)}", _words(absent))
    return table


def _points(missing: list[str]) -> Table:
    """A row for each record and message, a column for each step."""
    steps = list(dict.fromkeys(point.split(":")[0] for point in POINTS))
    table = wrapping_table(
        "of",
        *(step.replace("-", "-\n") for step in steps),
        title=f"Crash points: {len(POINTS) - len(missing)} of {len(POINTS)} reached",
    )
    for what in dict.fromkeys(point.split(":")[1] for point in POINTS):
        points = [f"{step}:{what}" for step in steps]
        table.add_row(what, *(_mark(point, missing) for point in points))
    return table


def _mark(point: str, missing: list[str]) -> Text:
    if point not in POINTS:
        return Text("")
    return Text("never", "yellow") if point in missing else Text("reached", "green")


def _faults(reached: set[Combination], missing: list[str]) -> Table:
    """A row for each kind of fault: how much of all that was reached was reached under it."""
    everything = {place[:3] for place in reached}
    table = wrapping_table(
        "fault", "messages and points by role and phase", "crash points", title="Reached while a fault was there"
    )
    for fault in sorted({place[3] for place in reached}):
        under = {place[:3] for place in reached if place[3] == fault}
        points = {what for _, _, what in under} & set(POINTS)
        table.add_row(
            "none" if fault == NO_FAULT else fault,
            f"{len(under)} of {len(everything)}",
            f"{len(points)} of {len(POINTS)}",
        )
    for fault in missing:
        table.add_row(fault, Text("never happened", "yellow"), "")
    return table


def _words(names: Iterable[str]) -> Text:
    joined = ", ".join(names)
    return Text(joined, "yellow") if joined else Text("–", "dim")


def _write(path: Path, reached: set[Combination], missing: dict[str, list[str]]) -> None:
    everything = {place[:3] for place in reached}
    struck = sorted({place[3] for place in reached})
    under = {fault: {place[:3] for place in reached if place[3] == fault} for fault in struck}
    content = {
        "reached": sorted(reached),
        "never": missing,
        "never_under_fault": {fault: sorted(everything - met) for fault, met in under.items()},
    }
    try:
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise HarnessError(f"{path} cannot be written: {error.strerror}. Choose another with --results.") from error
