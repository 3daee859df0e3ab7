"""`zab analyze`: the Spark pipeline over any number of stored runs."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zab_chaos.harness.cli.output import console_for, print_json
from zab_chaos.harness.errors import BadInput, Exit, Interrupted
from zab_chaos.harness.explore import spark_session
from zab_chaos.harness.machine.interrupt import Stopped
from zab_chaos.harness.report.html.campaign import from_verdict
from zab_chaos.harness.report.html.campaign_page import campaign_page
from zab_chaos.harness.results.run_folder import write_whole
from zab_chaos.harness.runs.judgement import judge
from zab_chaos.model.oracle import oracle
from zab_chaos.model.verdict import worst
from zab_chaos.pipeline.folders import Folder, NoRuns, find, matching

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zab_chaos.pipeline.analysis import Analysis

Said = Callable[[str], None]
SHOWN = 30  # runs in the table
COLOURS = {
    "PASS": "green",
    "VIOLATION": "bold red",
    "UNKNOWN": "yellow",
    "HARNESS-ERROR": "bold magenta",
    "BEYOND-FAULT-MODEL": "cyan",
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
    """Analyze, show, write. The exit code is the worst verdict's; of a comparison it is 0, or 1 if something got worse and
    `fail_if_worse`. Raises BadInput, HarnessError."""
    _check(places, compare, master, out, memory, fail_if_worse=fail_if_worse)
    console = console_for(json=json)
    groups = [[it] for it in compare] if compare else [places]
    words = Path(out).absolute() / "spark.log"
    try:
        with _progress(console) as said:
            said("looking for runs")
            found = [_find(group) for group in groups]
            said("starting Spark")
            with spark_session.spark(master, memory, words) as spark:
                analyses = [_analyze(spark, folders, out, said, replay=replay) for folders in found]
    except (Stopped, KeyboardInterrupt):
        raise Interrupted(
            f"interrupted; what was read is kept in {out}, and the next analysis goes on from there"
        ) from None
    if compare:
        worse = _compared(analyses, compare, console, json=json)
        return Exit.VIOLATION if worse and fail_if_worse else Exit.PASS
    show(analyses[0], out, console)
    report = write_report(analyses[0], places, out)
    console.print(Text(f"report   {report}"), soft_wrap=True)
    if json:
        print_json(analyses[0].summary)
    return worst(it.verdict for it in analyses).exit_code


def _check(
    places: Sequence[str],
    compare: tuple[str, str] | None,
    master: str,
    out: str,
    memory: str,
    *,
    fail_if_worse: bool,
) -> None:
    """What can be seen before Spark is started. Raises BadInput with all of it."""
    wrong = []
    if bool(places) == bool(compare):
        wrong.append("name the RESULTS to analyze, or two campaigns with --compare A B, not both")
    if fail_if_worse and not compare:
        wrong.append("--fail-if-worse goes with --compare A B")
    for place in [*places, *(compare or ())]:
        if "://" in place:
            wrong.append(
                f"{place}: a URI can't be analyzed; name a path under which this machine and all executors see it"
            )
        elif not matching(place):
            wrong.append(f"{place}: there is no such file or folder")
        elif Path(place).is_file():
            wrong.append(f"{place} is a file; name the folder of a run, or a folder with such folders")
    if not re.fullmatch(spark_session.MASTER, master):
        wrong.append(spark_session.NO_MASTER.format(master))
    if not re.fullmatch(r"[1-9]\d*[kmgKMG]", memory):
        wrong.append(f"--memory is {memory!r}; it needs a number and k, m or g, as in 4g")
    if "://" in out:
        wrong.append(f"--out is {out}; it needs a folder that this machine and all executors see under that path")
    if Path(out).exists() and not Path(out).is_dir():
        wrong.append(f"--out is {out}, which is a file; it needs a folder")
    if wrong:
        raise BadInput("\n".join([*wrong, "Try: zab analyze --help"]))


@contextmanager
def _progress(console: Console) -> Iterator[Said]:
    """What is being done: one changing line on a terminal, a line each elsewhere."""
    if console.is_terminal:
        with console.status("") as status:
            yield status.update
    else:
        yield lambda words: console.print(Text(words), soft_wrap=True)


def _find(places: Sequence[str]) -> list[Folder]:
    try:
        return find(places)
    except NoRuns as error:
        raise BadInput(str(error)) from error


def _analyze(spark: "SparkSession", found: Sequence[Folder], out: str, said: Said, *, replay: bool) -> "Analysis":
    from zab_chaos.pipeline.analysis import analyze

    return analyze(spark, found, Path(out), said, judge if replay else oracle.judge)


def show(analysis: "Analysis", out: str, console: Console) -> None:
    """The runs, worst first, then why, then where everything is."""
    runs = analysis.summary["runs"]
    table = Table(box=None, pad_edge=False)
    for name in ("verdict", "scenario", "run"):
        table.add_column(name)
    for name in ("nodes", "acked", "acked/s", "p50 ms", "p99 ms", "longest pause s"):
        table.add_column(name, justify="right")
    for run in runs[:SHOWN]:
        numbers = ("nodes", "acked", "acked_per_second", "latency_p50_ms", "latency_p99_ms", "longest_unavailability_s")
        verdict = Text(run["verdict"], COLOURS[run["verdict"]])
        told = (_number(run[name]) for name in numbers)
        table.add_row(verdict, run["scenario"] or "–", Path(run["path"]).name, *told)
    console.print(table)
    if len(runs) > SHOWN:
        console.print(f"... and {len(runs) - SHOWN} more, none of them worse", style="dim")
    for run in [run for run in runs if run["reasons"]][:SHOWN]:
        console.print(Text(f"\n{run['path']}: {run['verdict']}"), soft_wrap=True)
        for reason in run["reasons"][:3]:
            console.print(Text(f"  {reason}"), soft_wrap=True)
    counted: dict[str, int] = {}
    for run in runs:
        counted[run["verdict"]] = counted.get(run["verdict"], 0) + 1
    told_ = ", ".join(f"{number} {name}" for name, number in counted.items())
    copies = sum(len(run["copies"]) for run in runs)
    also = f"; {copies} copies of these were left out" if copies else ""
    console.print(f"\n{len(runs)} runs: {told_}{also}; {analysis.read} were read anew", highlight=False)
    console.print(Text(f"tables, metrics, verdicts.jsonl and summary.json are in {out}"), soft_wrap=True)


def write_report(analysis: "Analysis", places: Sequence[str], out: str) -> Path:
    """The campaign's page beside the tables."""
    file = Path(out).absolute() / "report.html"
    runs = [from_verdict(it.path, it.facts, it.json) for it in analysis.verdicts]
    write_whole(file, campaign_page(runs, ", ".join(places), analysis.summary))
    return file


def _compared(analyses: Sequence["Analysis"], names: Sequence[str], console: Console, *, json: bool) -> bool:
    """Show what got worse, then what got better; whether anything got worse."""
    from zab_chaos.pipeline.comparison import compare

    found = compare(analyses[0].verdicts, analyses[1].verdicts)
    table = Table(box=None, pad_edge=False)
    for name in ("", "scenario", "what", f"{names[0]}, then {names[1]}"):
        table.add_column(name)
    colours = {"worse": "bold red", "better": "green", "only": "dim"}
    for row in found.differences:
        table.add_row(Text(row["change"], colours[row["change"]]), row["scenario"], row["what"], row["words"])
        for shown in row["evidence"].get("runs", ()):
            table.add_row("", "", "", Text(f"{shown['path']}: {shown['why']}", "dim"))
    if found.differences:
        console.print(table)
    else:
        console.print("nothing differs by more than chance")
    console.print(
        f"{found.compared} numbers were compared at 95 %: by chance alone {found.compared * 0.05:.1f} of them would differ",
        highlight=False,
    )
    if json:
        told = {"before": names[0], "after": names[1], "compared": found.compared, "differences": found.differences}
        print_json(told)
    return found.worse


def _number(value: float | None) -> str:
    """Three digits that count."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
