"""`zab defects`: list the known bugs, or check that each is caught (see `harness/explore/kill_matrix.py`)."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zab_chaos.faults.defects import DEFECTS, Defect
from zab_chaos.harness.cli.explore import log_to
from zab_chaos.harness.cli.output import console_for, header, indented, print_json, write_answer
from zab_chaos.harness.errors import BadInput, Exit, Interrupted, check_names, did_you_mean
from zab_chaos.harness.explore.kill_matrix import SWARM, DefectResult, DefectRuns, Effort, try_defect
from zab_chaos.harness.machine import environment
from zab_chaos.harness.machine.interrupt import Stopped
from zab_chaos.harness.report.console import say, show_table, wrapping_table

BACKENDS = ("both", "sim", "processes")


def chosen_defects(only: list[str]) -> list[Defect]:
    """Return the named defects, or all of them. Raises BadInput."""
    check_names("defect", only, DEFECTS)
    return [DEFECTS[name] for name in only or DEFECTS]


def show(only: list[str], *, json: bool) -> int:
    """List the named defects, or all of them. Raises BadInput."""
    defects = chosen_defects(only)
    if json:
        names = ("name", "about", "ticket", "property", "scenario", "probabilistic")
        print_json([{name: getattr(defect, name) for name in names} for defect in defects])
        return Exit.PASS
    console = console_for(json=json)
    for defect in defects:
        ticket = f"  {defect.ticket}" if defect.ticket else ""
        title = Text(defect.name, "bold").append(f"{ticket}  breaks: {defect.property}", "dim")
        console.print(title, highlight=False)
        console.print(indented(defect.about), highlight=False)
    say(console, "\nRun one with: zab run defects/NAME --defect NAME")
    return Exit.PASS


def check(
    only: list[str], *, on: str, seeds: int, times: int, swarm: int, jobs: int | None, results: Path, out: Path | None,
    json: bool,
) -> int:  # fmt: skip
    """Run each defect's scenario with and without the defect, and print the kill matrix. Raises BadInput, HarnessError.

    Exit codes: 0 every defect is caught; 1 one survives; 2 the user stopped the check.
    """
    defects = chosen_defects(only)
    if on not in BACKENDS:
        raise BadInput(f"--on {on}: there is no such backend. {did_you_mean(on, BACKENDS)}")
    effort = Effort(
        seeds=seeds if on != "processes" else 0,
        times=times if on != "sim" else 0,
        swarm=swarm,
        jobs=jobs or environment.cores(),
        results=results,
    )
    console = console_for(json=json)
    rows: list[DefectResult] = []
    started = datetime.now(UTC)
    with log_to(results, "defects"):
        try:
            for defect in defects:
                rows.append(try_defect(defect, effort))
                _print_row(rows[-1], console)
        except (Stopped, Interrupted):
            say(console, f"interrupted at {defects[len(rows)].name}; the matrix is incomplete")
    console.print()
    show_table(console, matrix(rows))
    answer = {
        **header(_repeat_command(only, on, effort), started),
        "versions": environment.versions(),
        "complete": len(rows) == len(defects),
        "defects": [row.facts() for row in rows],
    }
    write_answer(answer, out, json=json)
    if any(row.survives for row in rows):
        return Exit.VIOLATION
    return Exit.PASS if len(rows) == len(defects) else Exit.UNKNOWN


def _repeat_command(only: list[str], on: str, effort: Effort) -> str:
    """Return the command that repeats the check."""
    command = ["zab", "defects", "--check", "--on", on]
    command += [word for name in only for word in ("--only", name)]
    for name, value in (("--seeds", effort.seeds), ("--times", effort.times), ("--swarm", effort.swarm)):
        command += [name, str(value)] if value else []
    return shlex.join(command)


def _print_row(row: DefectResult, console: Console) -> None:
    """Print one line for a defect that is done, and its unexpected runs, or the commands that repeat them."""
    word = Text("SURVIVES", "bold red") if row.survives else Text("caught", "green")
    say(console, Text(f"{row.defect.name}: ").append_text(word))
    for where in [where for tried in row.tried() for where in tried.unexpected]:
        say(console, f"  {where}")


def matrix(rows: Sequence[DefectResult]) -> Table:
    """Return the kill matrix as a table for the terminal. Columns of parts that were not tried are left out."""
    columns = {
        "defect": True,
        "must break": True,
        "caught in sim": any(row.sim for row in rows),
        "after seeds": any(row.sim for row in rows),
        "caught on processes": any(row.processes for row in rows),
        "without it": True,
        f"swarm ({SWARM})": any(row.swarm for row in rows),
    }
    table = wrapping_table(*(name for name, wanted in columns.items() if wanted))
    for row in rows:
        probabilistic = row.defect.probabilistic is not None
        passed = sum(tried.passed for tried in row.tried())
        honest = sum(len(tried.honest) for tried in row.tried())
        cells: tuple[str | Text, ...] = (
            Text(row.defect.name, "bold red" if row.survives else ""),
            row.defect.property,
            _caught_cell(row.sim, probabilistic),
            str(row.sim.first or "never") if row.sim else "",
            _caught_cell(row.processes, probabilistic),
            Text(f"{passed}/{honest} PASS", "green" if passed == honest else "bold red"),
            _swarm_cell(row),
        )
        table.add_row(*(cell for cell, wanted in zip(cells, columns.values(), strict=True) if wanted))
    return table


def _caught_cell(tried: DefectRuns | None, probabilistic: bool) -> Text:
    if tried is None:
        return Text("")
    return Text(f"{tried.caught}/{tried.runs}", "green" if tried.holds(probabilistic) else "bold red")


def _swarm_cell(row: DefectResult) -> str:
    if row.swarm is None:
        return ""
    return f"after {row.swarm.first}" if row.swarm.first is not None else f"not in {row.swarm.seeds}"
