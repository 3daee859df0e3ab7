"""`zab results`: list the stored runs, the newest first, or print the path of one run's report."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from zab_chaos.harness.cli.output import console_for, print_json, print_text
from zab_chaos.harness.cli.report import write_report
from zab_chaos.harness.errors import BadInput, Exit
from zab_chaos.harness.report.console import say, show_table, wrapping_table
from zab_chaos.harness.report.terminal import COLOURS
from zab_chaos.harness.results import run_folder as stored
from zab_chaos.harness.results.index import NOT_JUDGED, StoredRun, matching, read_index
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.verdict import Outcome

DIGITS_MAX = 9  # of a number in the list
VERDICTS = (*map(str, Outcome), NOT_JUDGED)


def results_command(
    run: str | None, *, scenario: str | None, verdict: str | None, last: int, results: Path, json: bool
) -> int:
    """List the runs or, if `run` is given, print the path of its report. Raises BadInput.

    `run`: a number of the list, or a run folder.
    """
    if verdict is not None and verdict.upper() not in VERDICTS:
        raise BadInput(f"--verdict is {verdict}; it needs one of {', '.join(VERDICTS)}")
    entries = list(matching(read_index(results), scenario=scenario, verdict=verdict))
    if run is not None:
        return _print_report(_chosen_run(run, entries, results), json=json)
    if json:
        print_json([_facts(number, one) for number, one in enumerate(entries[:last], 1)])
    else:
        _show_list(entries, last, results, console_for(json=json), filtered=scenario is not None or verdict is not None)
    return Exit.PASS


def _chosen_run(run: str, entries: list[StoredRun], results: Path) -> RunFolder:
    if not run.isdecimal():
        return stored.find(results, run)
    if len(run) > DIGITS_MAX or not 1 <= int(run) <= len(entries):
        many = f"there are {len(entries)} runs" if len(entries) != 1 else "there is one run"
        raise BadInput(f"there is no run {run}: {many} in the list of {results}.")
    return entries[int(run) - 1].folder


def _print_report(folder: RunFolder, *, json: bool) -> int:
    """Print the path of the report. Write it first if it is missing or older than the verdict."""
    page, verdict = folder.file("report.html"), folder.file("verdict.json")
    judged = verdict.stat().st_mtime if verdict.exists() else 0.0
    if not page.exists() or page.stat().st_mtime < judged:
        write_report(folder, page)
    if json:
        print_json({"folder": str(folder.path), "report": str(page)})
    else:
        print_text(f"{page}\n")
    return Exit.PASS


def _show_list(entries: list[StoredRun], last: int, results: Path, console: Console, *, filtered: bool) -> None:
    if not entries:
        say(console, f"there is {'no such' if filtered else 'no'} run in {results}")
        return
    table = wrapping_table("", "made (UTC)", "verdict", "scenario", "run", right=[""])
    for number, one in enumerate(entries[:last], 1):
        verdict = Text(one.verdict, COLOURS.get(one.verdict, "dim"))
        table.add_row(str(number), f"{one.made:%Y-%m-%d %H:%M:%S}", verdict, one.scenario, one.folder.name)
    show_table(console, table)
    hidden = len(entries) - last
    if hidden > 0:
        say(console, f"and {hidden:,} older; --last {len(entries)} lists all")
    say(console, "\nTo print the path of a run's report, add its number to this command.")


def _facts(number: int, one: StoredRun) -> dict[str, Any]:
    return {
        "number": number,
        "made": one.made.isoformat(),
        "verdict": one.verdict,
        "scenario": one.scenario,
        "seed": one.seed,
        "backend": one.backend,
        "folder": str(one.folder.path),
        "report": str(one.page) if one.page.exists() else None,
    }
