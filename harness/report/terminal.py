"""Shows a judged run on the terminal: faults, properties, violations, the verdict, and the command that repeats the run.

Everything is read from the run's folder, so that a stored run is shown exactly as a new one.
"""

import shlex
from typing import Any

from rich.console import Console
from rich.text import Text

from zab_chaos.harness.report import summary
from zab_chaos.harness.report.console import say, show_table, wrapping_table
from zab_chaos.harness.report.headline import capital, headline, remark, violated_or_uncertain
from zab_chaos.harness.report.html.operations import read_operations
from zab_chaos.harness.results.fault_spans import WAITS, read_spans
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.results.source import Source
from zab_chaos.model.verdict import Judgement, Outcome, Verdict

COLOURS = {
    "yes": "green",
    "not reached": "yellow",
    "NOT CONFIRMED": "bold red",
    "PASS": "green",
    "VIOLATION": "bold red",
    "UNKNOWN": "yellow",
    "NOT-APPLICABLE": "dim",
    "HARNESS-ERROR": "bold magenta",
    "BEYOND-FAULT-MODEL": "bold yellow",
}


def show(folder: RunFolder, console: Console, *, brief: bool = False, judged: Verdict | None = None) -> None:
    """Print the report. The command that repeats the run comes last.

    `brief` leaves out the tables. `judged` is shown instead of the verdict in verdict.json.
    """
    known = judged if judged is not None else folder.read_verdict()
    facts = folder.read_run()
    # Of a run in which the harness failed, only its reason and what is certain are shown.
    failed = known is not None and known.verdict is Outcome.HARNESS_ERROR
    if known is not None:
        console.print()
        say(console, capital(headline(known)), "bold")
        for line in summary.events_before(folder, known):
            say(console, line)
    if not brief and not failed:
        console.print()
        _faults(folder, known, console)
        if known is not None:
            _properties(known, console)
    if known is not None:
        _violations(known, console)
    if known is not None and known.verdict is Outcome.VIOLATION:
        _logs(folder, console)
    _end(folder, facts, known, console, summary.other_reasons(known) if known is not None and not failed else [])


def _faults(folder: RunFolder, known: Verdict | None, console: Console) -> None:
    spans = read_spans(Source(folder.path), known)
    if not spans:
        return
    zero, operations = folder.origin(), read_operations(Source(folder.path))
    pauses = iter(operations.pauses_of_writes([span.at for span in spans if span.do not in WAITS]))
    columns = ("at s", "fault", "on", "for s", "took effect", "writes paused")
    table = wrapping_table(*columns, right=("at s", "for s", "writes paused"), title="Faults")
    for span in spans:
        at, lasted = span.seconds(zero)
        table.add_row(
            f"{at:.2f}",
            span.do,
            span.on,
            "" if lasted is None else f"{lasted:.2f}",
            Text(span.effect, COLOURS[span.effect]),
            "" if span.do in WAITS else _pause_words(next(pauses)),
        )
    show_table(console, table)
    console.print()


def _pause_words(seconds: float | None) -> str:
    return "to the end" if seconds is None else f"{seconds * 1000:.0f} ms"


def _properties(verdict: Verdict, console: Console) -> None:
    table = wrapping_table(
        "property", "source", "checked", "verdict", right=["checked"], dim=["source"], title="Properties"
    )
    idle: list[str] = []
    unjudged: dict[str, str] = {}  # the reasons, by the names of the properties
    for item in verdict.properties:
        if isinstance(item.why, str):
            unjudged[item.name] = item.why
        elif item.verdict is Judgement.NOT_APPLICABLE:
            idle.append(item.name)
        else:
            table.add_row(item.name, item.source, str(item.checked), Text(item.verdict, COLOURS.get(item.verdict, "")))
    if table.row_count:
        show_table(console, table)
        if idle:
            say(console, f"nothing to check: {', '.join(idle)}", "dim")
        if unjudged:
            first, *others = {*unjudged.values()}
            say(console, f"not judged: {', '.join(unjudged)} ({'the report says why' if others else first})", "dim")
        console.print()


def _violations(verdict: Verdict, console: Console) -> None:
    """Print the headline's property with its evidence, and one line for each other property: they often follow from it.

    If the harness has failed, what is uncertain is left out: it would only hide the reason.
    """
    failed = verdict.verdict is Outcome.HARNESS_ERROR
    broken = [it for it in violated_or_uncertain(verdict) if it.verdict is Judgement.VIOLATION or not failed]
    if not broken:
        return
    title, *lines = summary.describe_property(broken[0])
    say(console, title, "bold")
    for line in lines:
        say(console, line, "dim" if line.startswith("    ") else "")
    for item in broken[1:]:
        count = len(item.violations) + item.more
        words = f": {item.violations[0].words}" if item.violations else ""  # else the reasons say why
        more = f" (and {count - 1} more)" if count > 1 else ""
        state = "violated" if item.verdict is Judgement.VIOLATION else "uncertain"
        say(console, f"also {state}: {item.name}{words}{more}")
    console.print()


def _logs(folder: RunFolder, console: Console) -> None:
    """Print what each server's log holds. Where one has a gap, the other logs show what is missing."""
    logs = summary.final_logs(folder)
    if logs:
        say(console, summary.LOGS_TITLE, "bold")
        for line in logs:
            say(console, line)
        console.print()


def _end(folder: RunFolder, facts: dict[str, Any], known: Verdict | None, console: Console, reasons: list[str]) -> None:
    outcome = known.verdict if known is not None else Outcome.HARNESS_ERROR
    line = Text(outcome, COLOURS.get(outcome, ""))
    line.append(f"  (exit {known.exit if known is not None else Outcome.HARNESS_ERROR.exit_code})", "dim")
    violated, uncertain = (known.violated, known.uncertain) if known is not None else ([], [])
    if more := remark(facts, outcome, violated, uncertain):
        line.append(f"  {more}")
    say(console, line)
    for reason in reasons:
        say(console, f"  {reason}")
    if facts.get("dump"):
        say(console, f"dump     {facts['dump']}")
    say(console, f"results  {folder.path}")
    say(console, f"report   zab report {shlex.quote(str(folder.path))}")
    if facts.get("command"):
        say(console, f"repeat   {facts['command']}")
