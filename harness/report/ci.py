"""Reports judged runs to CI: as a JUnit file, and as a Markdown summary in the file that GITHUB_STEP_SUMMARY names.

A case fails if it did not end as its scenario expects. So a scenario that demonstrates the loss of a quorum of
disks can be part of a test suite. The exit code of `zab run` and `zab verify` does not depend on the expectation.
A command that was interrupted, or that failed itself, adds a case with an error, so that its report is never green.
"""

import os
import re
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from junitparser import Error, Failure, JUnitXml, Properties, Property, TestCase, TestSuite

from zab_chaos.harness.machine.files import writing
from zab_chaos.harness.report import summary
from zab_chaos.harness.report.headline import capital, headline, violated_or_uncertain
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.verdict import Outcome, Verdict, expected_ending

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"  # the environment variable with the path of the Markdown file
NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
SHOWN = 20  # failures, and also passed runs, in the Markdown summary; the JUnit file has all


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One judged run as a test case.

    `seconds`: its wall-clock time, 0 if not known. `headline`: what happened, in one sentence. `details`: the text that is
    reported for a failure. `repeat_command`: the command that repeats the run.
    """

    scenario: str
    seed: int
    on: str
    verdict: str
    expected: str = Outcome.PASS
    seconds: float = 0.0
    folder: str | None = None
    violated: list[str] = field(default_factory=list)
    headline: str = ""
    details: str = ""
    repeat_command: str | None = None

    @property
    def failed(self) -> bool:
        return self.verdict != self.expected

    @property
    def words(self) -> str:
        """The verdict with its headline: `VIOLATION: durability violated: ...`."""
        said = self.headline or ", ".join(self.violated)
        expected = "" if self.expected == Outcome.PASS else f" (expected: {self.expected})"
        return f"{self.verdict}{expected}" + (f": {said}" if said else "")


@dataclass(frozen=True, slots=True)
class CommandError:
    """What a command says besides the verdicts of its runs: UNKNOWN if it was interrupted, VIOLATION if a comparison found a
    difference, else HARNESS-ERROR; and a message."""

    outcome: Outcome
    message: str


@dataclass(slots=True)
class Report:
    """What a command reports: a case for each run, and what it says besides their verdicts (None if nothing).

    `junit`: the JUnit file, if the user wants one.
    """

    command: str
    cases: list[Case] = field(default_factory=list)
    error: CommandError | None = None
    junit: Path | None = None

    @property
    def wanted(self) -> bool:
        """Whether a report is wanted. If not, cases need not be made: for a failed run that re-executes its recording."""
        return self.junit is not None or bool(os.environ.get(SUMMARY_VARIABLE))

    def interrupted(self, message: str) -> None:
        """Report that the user has interrupted the command."""
        self.error = CommandError(Outcome.UNKNOWN, message)


def case_of(folder: RunFolder, verdict: Verdict, seconds: float | None = None) -> Case:
    """Return the case of a stored run. `seconds`: None means from its start to its end, as run.json has them."""
    facts = folder.read_run()
    repeat_command = facts.get("command")
    return Case(
        scenario=str(facts.get("scenario", folder.name)),
        seed=int(facts.get("seed", 0)),
        on=str(facts.get("backend", "processes")),
        verdict=str(verdict.verdict),
        expected=expected_ending(facts.get("expect") or {}, verdict.verdict, verdict.violated),
        seconds=_duration(facts) if seconds is None else seconds,
        folder=str(folder.path),
        violated=[item.name for item in violated_or_uncertain(verdict)],
        headline=headline(verdict),
        details=summary.full_text(folder, verdict, repeat_command),
        repeat_command=repeat_command,
    )


def _duration(facts: dict[str, Any]) -> float:
    """Return the seconds from the start to the end of a run; 0 if run.json does not have both, as for a simulated one."""
    try:
        begin, end = (datetime.fromisoformat(facts[name]) for name in ("started", "ended"))
        return max(0.0, (end - begin).total_seconds())
    except (KeyError, TypeError, ValueError):
        return 0.0


def check_writable(junit: Path | None) -> None:
    """Check that the JUnit file can be written, before anything runs. A file that did not exist is not left behind: if nothing
    runs after all, an empty one would be a report that CI can't read. Raises HarnessError."""
    if junit is not None:
        existed = junit.exists()
        _write(junit, "", "ab")
        if not existed:
            junit.unlink()


def write_reports(report: Report) -> None:
    """Write the JUnit file and the Markdown summary, each if it is wanted. Raises HarnessError."""
    if report.junit is not None:
        _write(report.junit, xml(report), "wb")
    path = os.environ.get(SUMMARY_VARIABLE)
    if path:
        _write(Path(path), markdown(report), "ab")


def xml(report: Report) -> str:
    """Format as JUnit: one suite for the command, one case per run, with seed, backend, verdict and folder as properties. An
    error of the command is a case with the command's name."""
    suite = TestSuite(_clean(report.command))
    for case in report.cases:
        suite.add_testcase(_test_case(case))
    if report.error is not None:
        test_case = TestCase(_clean(report.command), "zab", 0.0)
        test_case.result = [Error(_clean(report.error.message), str(report.error.outcome))]
        suite.add_testcase(test_case)
    root = JUnitXml("zab-chaos")
    root.add_testsuite(suite)
    root.update_statistics()
    text: bytes = root.tostring()
    return text.decode("utf-8") + "\n"


def _test_case(case: Case) -> TestCase:
    name, group = _clean(f"seed {case.seed} on {case.on}"), _clean(f"zab.{case.scenario}")
    test_case = TestCase(name, group, round(case.seconds, 3))
    properties = Properties()
    known = {"zab-seed": str(case.seed), "zab-on": case.on, "zab-verdict": case.verdict, "zab-results": case.folder}
    for key, value in known.items():
        if value is not None:
            properties.add_property(Property(key, _clean(value)))
    test_case.append(properties)
    if case.failed:
        trouble = (Error if case.verdict == Outcome.HARNESS_ERROR else Failure)(_clean(case.words), str(case.verdict))
        trouble.text = _clean(case.details)
        test_case.result = [trouble]
    elif case.headline:
        test_case.system_out = _clean(f"{capital(case.headline)}.")
    return test_case


def markdown(report: Report) -> str:
    """Format as Markdown: a heading with the counts, the command's error, each failure with its details folded, and the
    headlines of the others."""
    cases, error = report.cases, report.error
    failed = [case for case in cases if case.failed]
    verdicts = {case.verdict: sum(one.verdict == case.verdict for one in cases) for case in cases}
    counted = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    lines = [f"### {'❌' if failed or error else '✅'} {report.command}: {counted or 'nothing was run'}", ""]
    lines += ["```text", _fenced(f"{error.outcome}: {error.message}"), "```", ""] if error else []
    for case in failed[:SHOWN]:
        title = f"{case.scenario}, seed {case.seed}, on {case.on}: {case.words}"
        lines += [
            "<details><summary>" + _escaped(title) + "</summary>",
            "",
            "```text",
            _fenced(case.details),
            "```",
            "",
        ]
        lines += ["</details>", "", *([f"Repeat: `{case.repeat_command}`", ""] if case.repeat_command else [])]
    if len(failed) > SHOWN:
        lines += [f"and {len(failed) - SHOWN} more", ""]
    others = [case for case in cases if case.headline and not case.failed]
    lines += [f"- {_escaped(f'{case.scenario}, seed {case.seed}: {case.headline}')}" for case in others[:SHOWN]]
    return "\n".join(lines) + "\n"


def _clean(text: str) -> str:
    """Replace the characters that XML can't contain even escaped."""
    return NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _fenced(text: str) -> str:
    """Replace backticks that would end a fenced code block."""
    return text.replace("```", "'''")


def _write(path: Path, text: str, mode: str) -> None:
    with writing(path, f"--junit or {SUMMARY_VARIABLE}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode) as file:
            file.write(text.encode("utf-8", "replace"))
