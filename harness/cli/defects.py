"""`zab defects`: list the known bugs, or check that each is caught (see `harness/explore/kill_matrix.py`)."""

from pathlib import Path

from rich.text import Text

from zab_chaos.faults.defects import DEFECTS, Defect
from zab_chaos.harness.cli.checks import Cells, Checks, marked
from zab_chaos.harness.cli.explore import log_to
from zab_chaos.harness.cli.output import console_for, indented, print_json
from zab_chaos.harness.errors import BadInput, Exit, check_names, did_you_mean
from zab_chaos.harness.explore.kill_matrix import SWARM, DefectResult, DefectRuns, Effort, try_defect
from zab_chaos.harness.machine.files import check_output_file
from zab_chaos.harness.report.console import say

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
    check_output_file(out)
    effort = Effort(
        seeds=seeds if on != "processes" else 0,
        times=times if on != "sim" else 0,
        swarm=swarm,
        jobs=jobs,
        results=results,
    )
    with log_to(results, "defects"):
        tried = (try_defect(defect, effort) for defect in defects)
        checks = Checks(tried, lambda row: "caught" if row.holds else "SURVIVES", console_for(json=json))
    rows = checks.done
    checks.write(list(map(_cells, rows)), {"defects": [row.facts() for row in rows]}, out, json=json)
    return checks.exit


def _cells(row: DefectResult) -> Cells:
    """Return the row of the kill matrix, without the parts that were not tried."""
    cells: Cells = {"defect": Text(row.name, "" if row.holds else "bold red"), "must break": row.defect.property}
    if row.sim:
        cells |= {"caught in sim": _caught(row.sim), "after seeds": str(row.sim.broken.first or "never")}
    if row.processes:
        cells["caught on processes"] = _caught(row.processes)
    honest = [one.honest for one in row.tried]
    passed, runs = sum(one.good for one in honest), sum(one.runs for one in honest)
    cells["without it"] = marked(f"{passed}/{runs} PASS", passed == runs)
    if row.swarm:
        found = row.swarm.first
        cells[f"swarm ({SWARM})"] = f"not in {row.swarm.seeds}" if found is None else f"after {found}"
    return cells


def _caught(tried: DefectRuns) -> Text:
    return marked(f"{tried.broken.good}/{tried.broken.runs}", tried.broken.holds)
