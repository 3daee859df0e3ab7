"""`zab analyze`: judge, measure and compare any number of stored runs with Spark."""

import json as json_module
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zab_chaos.harness.cli.analysis_steps import step_progress
from zab_chaos.harness.cli.differences import show_comparison
from zab_chaos.harness.cli.output import console_for, print_json
from zab_chaos.harness.errors import BadInput, Exit, Interrupted
from zab_chaos.harness.explore import spark_session
from zab_chaos.harness.extras import extra
from zab_chaos.harness.machine.interrupt import Stopped
from zab_chaos.harness.report.console import say, show_table, wrapping_table
from zab_chaos.harness.report.html.campaign import campaign_csv, run_from_verdict
from zab_chaos.harness.report.html.campaign_page import campaign_page, csv_path
from zab_chaos.harness.report.terminal import COLOURS
from zab_chaos.harness.results.run_folder import write_atomically
from zab_chaos.harness.runs.judgement import judge
from zab_chaos.model.oracle import oracle
from zab_chaos.pipeline.folders import NoRuns, SourceFolder, find, matching
from zab_chaos.pipeline.naming import plural

if TYPE_CHECKING:
    from zab_chaos.pipeline.analysis import Analysis
    from zab_chaos.pipeline.comparison import Comparison

SHOWN_MAX = 30  # runs in the table
COLUMNS = {  # of the table: the metric and its heading
    "nodes": "nodes",
    "acked": "ok",
    "acked_per_second": "ok/s",
    "latency_p50_ms": "p50 ms",
    "latency_p99_ms": "p99 ms",
    "longest_unavailability_s": "longest pause s",
}


def analyze_command(
    places: list[str],
    *,
    compare: tuple[str, str] | None,
    fail_if_worse: bool,
    master: str,
    out: str,
    memory: str,
    replay: bool,
    json: bool,
) -> int:
    """Analyze the runs, show the result and write the report. Raises BadInput, HarnessError.

    The exit code is that of the worst verdict, or `exit_code_of` the comparison.
    """
    _check(places, compare, master, out, memory, fail_if_worse=fail_if_worse)
    with extra("pipeline", "the pipeline"):
        from zab_chaos.pipeline.analysis import analyze
    console = console_for(json=json)
    log = Path(out).absolute() / "spark.log"
    try:
        with step_progress(console) as progress:
            progress.step("looking for runs")
            campaigns = {place: _find([place]) for place in compare} if compare else {"": _find(places)}
            log.parent.mkdir(parents=True, exist_ok=True)
            log.touch()  # fails before Spark has started
            progress.step("starting Spark")
            with (
                spark_session.spark(master, memory, log) as spark,
                progress.reporting(spark.sparkContext.statusTracker()),
            ):
                judge_run = judge if replay else oracle.judge
                analysis = analyze(spark, campaigns, Path(out), progress.step, judge_run)
    except (Stopped, KeyboardInterrupt):
        raise Interrupted(
            f"interrupted; the tables so far are in {out}, and the next analysis continues from them"
        ) from None
    report = write_report(analysis, compare or places, out)
    if compare:
        comparison = _compare(analysis, compare, out, console, json=json)
        say(console, f"all runs {report}")
        return exit_code_of(comparison, fail_if_worse=fail_if_worse)
    show(analysis, out, console)
    say(console, f"report   {report}")
    if json:
        print_json(analysis.summary)
    return analysis.verdict.exit_code


def _check(
    places: Sequence[str],
    compare: tuple[str, str] | None,
    master: str,
    out: str,
    memory: str,
    *,
    fail_if_worse: bool,
) -> None:
    """Check the arguments before Spark is started. Raises BadInput with all mistakes."""
    mistakes = []
    if bool(places) == bool(compare):
        mistakes.append("give the RESULTS to analyze, or two campaigns with --compare A B, not both")
    if fail_if_worse and not compare:
        mistakes.append("--fail-if-worse needs --compare A B")
    mistakes += filter(None, map(_place_mistake, [*places, *(compare or ())]))
    if not re.fullmatch(spark_session.MASTER, master):
        mistakes.append(spark_session.BAD_MASTER.format(master))
    if not re.fullmatch(r"[1-9]\d*[kmgKMG]", memory):
        mistakes.append(f"--memory is {memory!r}; it needs a number and k, m or g, as in 4g")
    if "://" in out:
        mistakes.append(
            f"--out is {out}; it needs a folder that this machine and all executors see under the same path"
        )
    if Path(out).exists() and not Path(out).is_dir():
        mistakes.append(f"--out is {out}, which is a file; it needs a folder")
    if mistakes:
        raise BadInput("\n".join([*mistakes, "Try: zab analyze --help"]))


def _place_mistake(place: str) -> str | None:
    """Return why a place can't be analyzed; None if it can."""
    if "://" in place:
        return f"{place}: a URI can't be analyzed; give a path that this machine and all executors can read"
    if not matching(place):
        return f"{place}: there is no such file or folder"
    return f"{place} is a file; give a run folder, or a folder of runs" if Path(place).is_file() else None


def _find(places: Sequence[str]) -> list[SourceFolder]:
    try:
        return find(places)
    except NoRuns as error:
        raise BadInput(str(error)) from error


def show(analysis: "Analysis", out: str, console: Console) -> None:
    """Print the runs, worst first, the reasons for their verdicts, and the paths of the results."""
    runs = analysis.summary["runs"]
    show_table(console, _table(runs[:SHOWN_MAX]))
    if len(runs) > SHOWN_MAX:
        say(console, f"... and {len(runs) - SHOWN_MAX} more, none of them worse", "dim")
    for run in [run for run in runs if run["reasons"]][:SHOWN_MAX]:
        _show_reasons(run, console)
    console.print(f"\n{_totals(runs)}; new or changed: {analysis.newly_read}", highlight=False)
    say(console, f"tables, metrics, verdicts.jsonl and summary.json are in {out}")


def _table(runs: Sequence[dict[str, Any]]) -> Table:
    table = wrapping_table("verdict", "scenario", "run", *COLUMNS.values(), right=COLUMNS.values())
    for run in runs:
        verdict = Text(run["verdict"], COLOURS[run["verdict"]])
        table.add_row(
            verdict, run["scenario"] or "–", Path(run["path"]).name, *(_number(run[name]) for name in COLUMNS)
        )
    return table


def _show_reasons(run: dict[str, Any], console: Console) -> None:
    say(console, f"\n{run['path']}: {run['verdict']}")
    for reason in run["reasons"][:3]:
        say(console, f"  {reason}")


def _totals(runs: Sequence[dict[str, Any]]) -> str:
    """Format the number of runs, the number for each verdict, and the number of copies that were left out."""
    verdicts = ", ".join(f"{number} {name}" for name, number in Counter(run["verdict"] for run in runs).items())
    copies = sum(len(run["copies"]) for run in runs)
    return f"{plural(len(runs), 'run')}: {verdicts}" + (f"; copies left out: {copies}" if copies else "")


def write_report(analysis: "Analysis", places: Sequence[str], out: str) -> Path:
    """Write the campaign's report.html and report.csv beside the tables. Return the path of the page."""
    file = Path(out).absolute() / "report.html"
    runs = [run_from_verdict(it.path, it.facts, it.json, it.campaign) for it in analysis.verdicts]
    write_atomically(file, campaign_page(runs, ", ".join(places), file, analysis.summary))
    write_atomically(csv_path(file), campaign_csv(runs))
    return file


def _compare(analysis: "Analysis", names: Sequence[str], out: str, console: Console, *, json: bool) -> "Comparison":
    """Show, store and return the differences between two campaigns, given by their names."""
    from zab_chaos.harness.report.html.comparison_page import comparison_page
    from zab_chaos.pipeline.comparison import compare

    before, after = ([it for it in analysis.verdicts if it.campaign == name] for name in names)
    found = compare(before, after)
    show_comparison(found, names, console)
    folder = Path(out).absolute()
    answer = {"before": names[0], "after": names[1], **found.as_json()}
    write_atomically(folder / "comparison.json", json_module.dumps(answer, indent=2, ensure_ascii=False) + "\n")
    write_atomically(folder / "comparison.html", comparison_page(found, names))
    say(console, f"report   {folder / 'comparison.html'}")
    if json:
        print_json(answer)
    return found


def exit_code_of(found: "Comparison", *, fail_if_worse: bool) -> Exit:
    """Return the exit code of a comparison: PASS unless `fail_if_worse`; then UNKNOWN if nothing could be compared."""
    if not fail_if_worse:
        return Exit.PASS
    if not found.compared:
        return Exit.UNKNOWN
    return Exit.VIOLATION if found.worse else Exit.PASS


def _number(value: float | None) -> str:
    """Format a number with three significant digits."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
