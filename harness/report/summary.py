"""A judged run as plain text, for a failed test, a JUnit file or a CI summary: violations with evidence, and faults.

`zab_chaos.harness.report.terminal` is for a terminal, `zab_chaos.harness.report.html` for a browser.
"""

from zab_chaos.harness.report.chain import chain_of, preceding_fault
from zab_chaos.harness.report.headline import headline, violated_or_uncertain
from zab_chaos.harness.report.html.diagram import read_diagram
from zab_chaos.harness.report.html.sentences import describe_line, transactions
from zab_chaos.harness.results import fault_timeline
from zab_chaos.harness.results.fault_spans import read_spans
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.results.source import Source
from zab_chaos.model.events import Left
from zab_chaos.model.verdict import Judgement, Outcome, Property, Verdict

VIOLATIONS_SHOWN = 3  # of one property
EVIDENCE_SHOWN = 8  # lines under one violation
EVENTS_SHOWN = 8  # events before a violation, the last ones
LOGS_TITLE = "Logs in the end"


def events_before(folder: RunFolder, verdict: Verdict) -> list[str]:
    """The fault before a violation and the events that led to it, a line each, without the messages between the nodes: to
    find those, the run is re-executed for the report."""
    if verdict.verdict is not Outcome.VIOLATION:
        return []
    diagram = read_diagram(folder.path, "not read", own_clocks=False)
    chain = chain_of(verdict, diagram, read_spans(Source(folder.path)))
    if chain is None:
        return []
    zero = fault_timeline.origin(folder)
    links = [f"{(event.t - zero) / 1e9:9.3f} s  {event.words}" for event in chain.events[-EVENTS_SHOWN:]]
    return [f"{preceding_fault(chain, zero)}.", *links]


def describe_property(item: Property) -> list[str]:
    """A property that was not kept: its statement, what happened, and the events that show it, in words."""
    state = "is violated" if item.verdict is Judgement.VIOLATION else "is uncertain"
    lines = [f"{item.name} ({item.source}) {state}: {item.statement}"]
    for violation in item.violations[:VIOLATIONS_SHOWN]:
        lines.append(f"  {violation.words}")
        lines += [
            f"    {event.file}:{event.line}  {describe_line(event.file, event.event)}"
            for event in violation.evidence[:EVIDENCE_SHOWN]
        ]
    more = max(0, len(item.violations) - VIOLATIONS_SHOWN) + item.more
    return [*lines, f"  and {more} more (verdict.json)"] if more else lines


def other_reasons(verdict: Verdict) -> list[str]:
    """The verdict's reasons that neither its answer nor a finding tells."""
    named = tuple(f"{item.name} is " for item in violated_or_uncertain(verdict))
    return [reason for reason in verdict.reasons if reason != headline(verdict) and not reason.startswith(named)]


def describe_properties(verdict: Verdict) -> list[str]:
    """Lines for each property that was not kept, and the other reasons for the verdict."""
    return [
        *(line for item in violated_or_uncertain(verdict) for line in describe_property(item)),
        *other_reasons(verdict),
    ]


def final_logs(folder: RunFolder) -> list[str]:
    """What the log of each server holds in the end, a line each; nothing of nodes whose disks nobody has read."""
    left = (
        found for path in folder.file("trace").glob("*.jsonl") for found in folder.lines(f"trace/{path.name}", Left)
    )
    last = {one.node: one for one in sorted(left, key=lambda one: (one.node, one.life))}
    return [f"  node {node}: {_held(one)}" for node, one in last.items() if one.log or one.snapshots or one.damage]


def _held(left: Left) -> str:
    taken = ", ".join(f"{epoch}:{counter}" for epoch, counter in left.snapshots) or "none"
    epochs = f"f.p = {left.accepted_epoch}, f.a = {left.current_epoch}"
    return "; ".join([transactions(left.log) or "nothing", f"snapshots {taken}", epochs, *left.damage])


def describe_faults(folder: RunFolder) -> list[str]:
    """One line per fault: when (in seconds since the workload began), what, on which nodes, for how long."""
    lines, zero = [], fault_timeline.origin(folder)
    for span in read_spans(Source(folder.path)):
        nodes = ", ".join(map(str, span.nodes))
        target = span.target if not nodes or span.target == f"node-{nodes}" else f"{span.target} = {nodes}"
        at, lasted = span.seconds(zero)
        words = "" if lasted is None else f", for {lasted:.3f} s"
        lines.append(f"{at:9.3f} s  {span.do} of {target}{words}{'' if span.confirmed else '  NOT CONFIRMED'}")
    return lines


def full_text(folder: RunFolder, verdict: Verdict, again: str | None) -> str:
    """The whole text, with the run's folder and the command that repeats the run."""
    parts = [f"verdict {verdict.verdict}: {headline(verdict)}"]
    parts += ["\n".join(lines) for lines in (events_before(folder, verdict), describe_properties(verdict)) if lines]
    held = final_logs(folder) if verdict.verdict is Outcome.VIOLATION else []
    parts += ["\n".join([LOGS_TITLE, *held])] if held else []
    broken = describe_faults(folder)
    parts += ["\n".join(["Faults", *broken])] if broken else []
    parts.append("\n".join([f"results  {folder.path}", *([f"again    {again}"] if again else [])]))
    return "\n\n".join(parts)
