"""A judged run as plain text: the violations with their evidence, and the faults.

It is used for failed tests, JUnit files and CI summaries. `zab_chaos.harness.report.terminal` writes for a terminal,
`zab_chaos.harness.report.html` for a browser.
"""

from zab_chaos.harness.report.chain import chain_of, moments, preceding_fault
from zab_chaos.harness.report.headline import headline, violated_or_uncertain
from zab_chaos.harness.report.html.diagram import read_diagram
from zab_chaos.harness.report.html.run_data import have_own_clocks
from zab_chaos.harness.report.sentences import describe_line, describe_log
from zab_chaos.harness.results.fault_spans import read_spans
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.results.source import Source
from zab_chaos.model.events import DiskAfterLife
from zab_chaos.model.verdict import Judgement, Outcome, Property, Verdict

VIOLATIONS_SHOWN = 3  # of one property
EVIDENCE_SHOWN = 8  # lines under one violation
EVENTS_SHOWN = 16  # the last events before a violation
RECORDING_MAX = 8_000_000  # bytes; a second of CPU time re-executes 5 MB
LOGS_TITLE = "Logs at the end"


def events_before(folder: RunFolder, verdict: Verdict) -> list[str]:
    """Return the faults before a violation and the events that led to the violation, a line each.

    The messages between the nodes are among them if the run was recorded and can be re-executed in a second or two.
    """
    if verdict.verdict is not Outcome.VIOLATION:
        return []
    from zab_chaos.harness.report.recording import core_or_reason  # all of the node's code, which few reports need

    facts, spans = folder.read_run(), read_spans(Source(folder.path))
    recorded = sum(path.stat().st_size for path in folder.file("record").glob("*.bin"))
    core = core_or_reason(facts) if recorded <= RECORDING_MAX else "that takes too long"
    diagram = read_diagram(folder.path, core, own_clocks=have_own_clocks(facts, spans))
    chain = chain_of(verdict, diagram, spans)
    if chain is None:
        return []
    zero = folder.origin()
    shown = chain.events[-EVENTS_SHOWN:]
    events = [f"{when:>11}  {event.words}" for when, event in zip(moments(shown, zero), shown, strict=True)]
    return [f"{preceding_fault(chain, zero)}.", *events]


def describe_property(item: Property) -> list[str]:
    """Describe a property that is not fulfilled: its statement, what happened, and the events that show it. A line each."""
    state = "is violated" if item.verdict is Judgement.VIOLATION else "is uncertain"
    lines = [f"{item.name} ({item.source}) {state}: {item.statement}"]
    for violation in item.violations[:VIOLATIONS_SHOWN]:
        lines.append(f"  {violation.words}")
        lines += [
            f"    {event.file}:{event.line}  {describe_line(event.file, event.event)}"
            for event in violation.evidence[:EVIDENCE_SHOWN]
        ]
    hidden = len(item.violations) - VIOLATIONS_SHOWN
    lines += [f"  and {hidden} more (verdict.json)"] if hidden > 0 else []
    return [*lines, f"  and {item.more} more, which the verdict does not list"] if item.more else lines


def other_reasons(verdict: Verdict) -> list[str]:
    """Return the verdict's reasons that neither the headline nor the description of a property contains."""
    named = tuple(f"{item.name} is " for item in violated_or_uncertain(verdict))
    return [reason for reason in verdict.reasons if reason != headline(verdict) and not reason.startswith(named)]


def describe_properties(verdict: Verdict) -> list[str]:
    """Describe each property that is not fulfilled, and add the other reasons for the verdict. A line each."""
    return [
        *(line for item in violated_or_uncertain(verdict) for line in describe_property(item)),
        *other_reasons(verdict),
    ]


def final_logs(folder: RunFolder) -> list[str]:
    """Describe what each server's log holds at the end of the run, a line each. Empty if the disks were not read."""
    left = (
        found
        for path in folder.file("trace").glob("*.jsonl")
        for found in folder.lines(f"trace/{path.name}", DiskAfterLife)
    )
    last = {one.node: one for one in sorted(left, key=lambda one: (one.node, one.life))}
    return [f"  node {node}: {_log_words(one)}" for node, one in last.items() if one.log or one.snapshots or one.damage]


def _log_words(left: DiskAfterLife) -> str:
    snapshots = ", ".join(f"{epoch}:{counter}" for epoch, counter in left.snapshots) or "none"
    epochs = f"f.p = {left.accepted_epoch}, f.a = {left.current_epoch}"
    return "; ".join([describe_log(left.log) or "nothing", f"snapshots {snapshots}", epochs, *left.damage])


def describe_faults(folder: RunFolder, verdict: Verdict | None = None) -> list[str]:
    """Describe each fault in a line: when (in seconds since the workload began), what, on which nodes, for how long."""
    lines, zero = [], folder.origin()
    for span in read_spans(Source(folder.path), verdict):
        at, lasted = span.seconds(zero)
        words = "" if lasted is None else f", for {lasted:.3f} s"
        lines.append(f"{at:9.3f} s  {span.do} of {span.on}{words}{'' if span.confirmed else '  NOT CONFIRMED'}")
    return lines


def full_text(folder: RunFolder, verdict: Verdict, repeat_command: str | None) -> str:
    """Return the whole text, with the run's folder and `repeat_command`, the command that repeats the run."""
    parts = [f"verdict {verdict.verdict}: {headline(verdict)}"]
    parts += ["\n".join(lines) for lines in (events_before(folder, verdict), describe_properties(verdict)) if lines]
    logs = final_logs(folder) if verdict.verdict is Outcome.VIOLATION else []
    parts += ["\n".join([LOGS_TITLE, *logs])] if logs else []
    faults = describe_faults(folder, verdict)
    parts += ["\n".join(["Faults", *faults])] if faults else []
    parts.append("\n".join([f"results  {folder.path}", *([f"repeat   {repeat_command}"] if repeat_command else [])]))
    return "\n\n".join(parts)
