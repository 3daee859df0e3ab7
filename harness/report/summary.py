"""A judged run as plain text, for a failed test, a JUnit file or a CI summary: violations with evidence, and faults.

`zab_chaos.harness.report.terminal` is for a terminal, `zab_chaos.harness.report.html` for a browser.
"""

from zab_chaos.harness.report.answer import answer
from zab_chaos.harness.report.html.sentences import in_words
from zab_chaos.harness.results import fault_timeline
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.verdict import Judgement, Property, Verdict

VIOLATIONS_SHOWN = 3  # of one property
EVIDENCE_SHOWN = 8  # lines under one violation
PASSED = (Judgement.PASS, Judgement.NOT_APPLICABLE)


def violated(verdict: Verdict) -> list[Property]:
    """The properties that are violated or UNKNOWN."""
    return [item for item in verdict.properties if item.verdict not in PASSED]


def findings(verdict: Verdict) -> list[str]:
    """Lines for each violated property: its statement, what happened, and the events that show it, in words."""
    lines: list[str] = []
    for item in violated(verdict):
        state = "is violated" if item.verdict is Judgement.VIOLATION else "is uncertain"
        lines.append(f"{item.name} ({item.source}) {state}: {item.statement}")
        for violation in item.violations[:VIOLATIONS_SHOWN]:
            lines.append(f"  {violation.words}")
            lines += [
                f"    {event.file}:{event.line}  {in_words(event.file, event.event)}"
                for event in violation.evidence[:EVIDENCE_SHOWN]
            ]
        more = max(0, len(item.violations) - VIOLATIONS_SHOWN) + item.more
        lines += [f"  and {more} more (verdict.json)"] if more else []
    named = {item.name for item in violated(verdict)}
    lines += [reason for reason in verdict.reasons if not any(reason.startswith(name) for name in named)]
    return lines


def faults(folder: RunFolder) -> list[str]:
    """One line per fault: when (in seconds since the workload began), what, on which nodes, for how long."""
    lines = []
    for span in fault_timeline.spans(folder):
        nodes = ", ".join(map(str, span.nodes))
        target = span.target if not nodes or span.target == f"node-{nodes}" else f"{span.target} = {nodes}"
        lasted = "" if span.healed is None else f", for {span.healed - span.at:.3f} s"
        lines.append(f"{span.at:9.3f} s  {span.do} of {target}{lasted}{'' if span.confirmed else '  NOT CONFIRMED'}")
    return lines


def story(folder: RunFolder, verdict: Verdict, again: str | None) -> str:
    """The whole text, with the run's folder and the command that repeats the run."""
    parts = ["\n".join([f"verdict {verdict.verdict}: {answer(verdict)}", *findings(verdict)])]
    broken = faults(folder)
    parts += ["\n".join(["Faults", *broken])] if broken else []
    parts.append("\n".join([f"results  {folder.path}", *([f"again    {again}"] if again else [])]))
    return "\n\n".join(parts)
