"""`zab verify`: judge stored runs again."""

from pathlib import Path

import msgspec
from rich.console import Console

from zab_chaos.harness.backends import registry
from zab_chaos.harness.cli.ci_report import ci_report
from zab_chaos.harness.cli.output import console_for, print_json
from zab_chaos.harness.machine.interrupt import Stopped
from zab_chaos.harness.report import ci, terminal
from zab_chaos.harness.report.console import say
from zab_chaos.harness.report.progress import Steps, display
from zab_chaos.harness.results import run_folder as stored
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs.judgement import judge
from zab_chaos.harness.runs.phases import FINISHED
from zab_chaos.model.manifest import write_verdict
from zab_chaos.model.verdict import Outcome, Verdict, worst


def verify_command(runs: list[str], *, results: Path, junit: Path | None, json: bool, quiet: bool) -> int:
    """Judge each run, rewrite its verdict.json and show it. The exit code is that of the worst verdict. Raises BadInput."""
    ci.check_writable(junit)
    with ci_report("zab verify", junit) as report:
        return _verify(runs, results, report, json=json, quiet=quiet)


def _verify(runs: list[str], results: Path, report: ci.Report, *, json: bool, quiet: bool) -> int:
    folders = [stored.find(results, name) for name in runs]  # reports a wrong name before anything is judged
    console = console_for(json=json)
    verdicts = []
    try:
        for folder in folders:
            salvaged = _salvage(folder)
            if salvaged is not None:
                say(console, salvaged, "yellow")
            with display(console, quiet=quiet) as screen:
                verdict = judge(folder.path, steps=Steps(screen))
            _write_verdict(folder, verdict, console)
            terminal.show(folder, console, brief=quiet, judged=verdict)
            verdicts.append(verdict)
            if report.wanted:
                report.cases.append(ci.case_of(folder, verdict))
    except Stopped:
        interruption = f"interrupted: {len(verdicts)} of {len(folders)} runs were judged"
        report.interrupted(interruption)
        say(console, interruption)
    judged = [verdict.verdict for verdict in verdicts]
    overall = worst(judged if len(verdicts) == len(folders) else [*judged, Outcome.UNKNOWN])
    if len(folders) > 1:
        say(console, f"\n{len(verdicts)} runs: {overall}")
    if json:
        answers = [
            {"folder": str(folder.path), **msgspec.to_builtins(verdict)}
            for folder, verdict in zip(folders, verdicts, strict=False)
        ]
        print_json({"verdict": overall, "exit": overall.exit_code, "runs": answers})
    return overall.exit_code


def _salvage(folder: RunFolder) -> str | None:
    """Complete the records of a run that ended before it was complete, as far as its backend can.

    Return what was done, in words; None if nothing was. Raises BadInput.
    """
    facts = folder.read_run()
    name = facts.get("backend")
    if facts.get("outcome") == FINISHED or name not in registry.names():
        return None
    return registry.find(name).salvage(folder)


def _write_verdict(folder: RunFolder, verdict: Verdict, console: Console) -> None:
    """Rewrite verdict.json. If it can't be written, print a warning and go on, because the verdict is valid all the same."""
    try:
        write_verdict(folder.path, verdict.to_json())
    except OSError as error:
        warning = f"verdict.json of {folder.path} could not be written ({error.strerror}); the verdict is below"
        say(console, warning, "yellow")
