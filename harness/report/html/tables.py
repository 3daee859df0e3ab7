"""Writes the tables and text sections of a run's page. They show the data of the pictures without a script."""

import re
from typing import Any

from zab_chaos.harness.report.chain import moments, preceding_fault
from zab_chaos.harness.report.html.evidence import Mark, ShownViolation
from zab_chaos.harness.report.html.history import history
from zab_chaos.harness.report.html.markup import Html, element, join, table
from zab_chaos.harness.report.html.run_data import RunData
from zab_chaos.harness.report.html.terms import explained
from zab_chaos.harness.report.recording import how_to_record
from zab_chaos.model.verdict import Judgement, Property

WORST_FIRST = [Judgement.VIOLATION, Judgement.UNKNOWN, Judgement.PASS, Judgement.NOT_APPLICABLE]
SIGNS = {"PASS": "✓", "VIOLATION": "✗", "UNKNOWN": "?", "NOT-APPLICABLE": "–"}
# Explanations of the verdicts that are neither good nor bad.
MEANINGS = {
    "BEYOND-FAULT-MODEL": "A quorum of disks was lost. Zab promises nothing in this case: acknowledged writes may be lost with "
    "the disks, and the nodes were right not to form an ensemble again with an invented history. No promise was broken, and "
    "none could be kept.",
    "UNKNOWN": "Too little happened, or too little of it is known, to say whether the promises were kept.",
}


def badge(word: str) -> Html:
    """Return a verdict as a sign, a colour and a word, each of which suffices."""
    style = re.sub(r"[^a-z]+", "-", word.lower())
    return element("span", f"{SIGNS.get(word, '!')} {word}", class_=f"badge {style}")


def link_to(run: RunData, begin: int, end: int, words: str) -> Html:
    """Return a button that shows the time from `begin` to `end` in the pictures."""
    first, last = (begin - run.zero) // 1000, (end - run.zero) // 1000
    return element("button", words, type="button", class_="show", data_begin=first, data_end=last)


def _moment(run: RunData, t: int, words: str = "") -> Html:
    """Return a button that shows the time around `t` in the pictures. `words`: the time, if it needs more digits than usual."""
    return link_to(run, t - 50_000_000, t + 50_000_000, words or f"{run.seconds(t):.3f} s")


def chain(run: RunData) -> Html | None:
    """Return the section on how the violation came about: the fault before it, and the events that led to it."""
    found = run.chain
    if found is None:
        return None
    events = (
        element("li", _moment(run, one.t, when), " ", explained(one.words))
        for when, one in zip(moments(found.events, run.zero), found.events, strict=True)
    )
    button = element("button", "show it in the diagram", type="button", id="show-chain")
    how = how_to_record(run.facts)
    return element(
        "section",
        element("h2", "How the violation came about"),
        element("p", preceding_fault(found, run.zero), ". ", button),
        element("p", "The messages between the nodes are missing. ", how, ".") if how is not None else None,
        element("ol", *events),
        id="chain",
    )


def violations(run: RunData) -> Html | None:
    """Return the section of the properties that are not fulfilled: statement, violation in words, numbered evidence.

    The property of the headline comes first. The others often follow from it; they are folded.
    """
    if not run.judged.violations:
        return None
    first, *others = (_violated(run, item, violations) for item, violations in run.judged.violations)
    violated = any(item.verdict is Judgement.VIOLATION for item, _ in run.judged.violations)
    names = ", ".join(item.name for item, _ in run.judged.violations[1:])
    also = f"Also {'not fulfilled' if violated else 'uncertain'}: {names}"
    rest = element("details", element("summary", also), *others) if others else None
    title = "What was violated, and the evidence" if violated else "What is uncertain, and why"
    numbers = element("p", "The lines of evidence are numbered. The pictures show the same numbers, with red lines.")
    return element("section", element("h2", title), numbers if run.judged.marks else None, first, rest, id="violations")


def _violated(run: RunData, item: Property, violations: list[ShownViolation]) -> Html:
    """Return one property with its first violation; the others are folded, since one bug often causes many."""
    state = "is violated" if item.verdict is Judgement.VIOLATION else "is uncertain"
    first, *others = (_found(run, violation) for violation in violations)
    rest = element("details", element("summary", f"{len(others)} more like this"), *others) if others else None
    unlisted = element("p", f"and {item.more} more, which the verdict does not list") if item.more else None
    return element(
        "article",
        element("h3", f"{item.name} {state}"),
        element("p", f"{item.statement} ({item.source})", class_="statement"),
        first,
        rest,
        unlisted,
        class_="violated",
    )


def _found(run: RunData, shown: ShownViolation) -> Html:
    follow = _follow(shown.query) if " " in shown.query else None
    cited = (_cited(run, mark, asked) for mark, asked in zip(shown.marks, shown.queries, strict=True))
    return join(
        element("p", explained(shown.violation.words), " ", follow, class_="words"),
        history(shown.violation, run.zero),
        element("ol", *cited),
    )


def _follow(asked: str) -> Html:
    """Return a button that highlights the path of transactions in the diagram."""
    return element(
        "button",
        f"follow {asked.replace(' ', ' and ') if ':' in asked else asked}",
        type="button",
        class_="follow",
        data_follow=asked,
    )


def _cited(run: RunData, mark: Mark, asked: str | None) -> Html:
    return element(
        "li",
        element("span", str(mark.number), class_="mark"),
        " ",
        _moment(run, mark.t) if mark.t is not None else None,
        " ",
        explained(mark.words),
        " ",
        _follow(asked) if asked else None,
        element("details", element("summary", f"{mark.file}:{mark.line}"), element("code", mark.text)),
    )


def properties(run: RunData) -> Html:
    """Return the table of the properties and their judgements, the worst first, and of those that are not judged."""
    if run.judged.verdict is None:
        return element("p", "This run was not judged. ", element("code", f"zab verify {run.folder}"), " judges it.")
    items = sorted(run.judged.verdict.properties, key=lambda item: WORST_FIRST.index(item.verdict))
    rows = [
        (badge(item.verdict), item.name, item.statement, item.source, f"{item.checked:,}")
        for item in items
        if not item.why
    ]
    heads = ("verdict", "property", "statement", "source", "facts checked")
    judged = element("div", table("Properties", heads, rows, numbers=[4]), class_="stacked")
    others = [(item.name, item.statement, item.source, item.why) for item in items if item.why]
    if not others:
        return judged
    summary = element("summary", f"{len(others)} more properties that are not judged")
    unjudged = table("Not judged", ("property", "statement", "source", "why it is not judged"), others)
    return element("div", judged, element("details", summary, unjudged))


def faults(run: RunData) -> Html | None:
    """Return the table of the faults, each with a button that shows its time in the pictures."""
    if not run.spans:
        return None
    rows = []
    for span in run.spans:
        healed = "" if span.end is None else f"{(span.end - span.at) / 1e9:.3f}"
        until = span.at + 1_000_000_000 if span.end is None else span.end
        show = link_to(run, span.at - 500_000_000, until + 500_000_000, f"{run.seconds(span.at):.3f}")
        rows.append((show, span.do, span.on, span.detail, healed, span.effect))
    heads = ("at, s", "fault", "on", "how", "healed after, s", "took effect")
    return table("Faults", heads, rows, numbers=[0, 4])


def latencies(run: RunData) -> Html | None:
    """Return the table of latency quantiles, counted from the due times."""
    rows = [
        (name, f"{count:,}", *(_milliseconds(one) for one in values))
        for name, count, values in run.operations.quantiles()
    ]
    heads = ("operations", "succeeded", "p50", "p90", "p99", "p99.9", "longest")
    caption = "Latency in ms, counted from the time at which an operation was due"
    return table(caption, heads, rows, range(1, 7)) if rows else None


def _milliseconds(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def outages(run: RunData) -> Html | None:
    """Return the table of the times without a successful write, the longest first."""
    longest = sorted(run.outages, key=lambda one: one[0] - one[1])
    rows = [
        (
            link_to(run, begin - 200_000_000, end + 200_000_000, f"{run.seconds(begin):.3f}"),
            f"{run.seconds(end):.3f}",
            f"{(end - begin) / 1e9:.3f}",
        )
        for begin, end in longest[:20]
    ]
    more = f" (the longest 20 of {len(longest)})" if len(longest) > 20 else ""
    caption = f"Outages: times of at least 0.1 s in which a write was waiting and none was served{more}"
    return table(caption, ("from, s", "to, s", "lasted, s"), rows, range(3)) if rows else None


def lives(run: RunData) -> Html | None:
    """Return the table of the lives (process incarnations): disk, begin, end, and why each ended."""
    rows, released = [], any(life.release for life in run.lives)
    for life in run.lives:
        boot = next((event for event in life.events if event.event == "boot"), None)
        end = "" if life.end is None else f"{run.seconds(life.end):.3f}"
        disk = boot.disk if boot else "?"
        release = [life.release] if released else []
        rows.append((life.node, life.number, disk, f"{run.seconds(life.begin):.3f}", end, *release, life.why))
    heads = ("node", "life", "disk", "from, s", "to, s", *(["release"] if released else []), "why it ended")
    return table("Lives (process incarnations) of the nodes", heads, rows, [0, 1, 3, 4]) if rows else None


def damages(run: RunData) -> Html | None:
    """Return the section on files and lines that could not be read; None if there are none."""
    if not run.source.damages:
        return None
    items = [
        element("li", element("code", one.file + (f":{one.line}" if one.line else "")), f" {one.why}")
        for one in run.source.damages
    ]
    more = element("li", f"and {run.source.more} more places") if run.source.more else None
    return element(
        "section",
        element("h2", "Files and lines that could not be read, and are missing in this report"),
        element("ul", *items, more),
        id="damages",
    )


def experiment(run: RunData) -> Html:
    """Return the list of the run's parameters: seed, backend, machine, versions and so on."""
    facts = run.facts
    versions, machine = _dict(facts.get("versions")), _dict(facts.get("machine"))
    rows = [
        ("seed", facts.get("seed")),
        ("nodes", facts.get("nodes")),
        ("backend", facts.get("backend")),
        ("defect", facts.get("defect") or "none"),
        ("disk", facts.get("disk")),
        ("started", facts.get("started")),
        ("ended", facts.get("ended")),
        ("outcome", facts.get("outcome")),
        ("operations", ", ".join(f"{count} {name}" for name, count in run.operations.counts().items())),
        ("versions", ", ".join(f"{name} {value}" for name, value in versions.items() if value is not None)),
        ("machine", _machine(machine) if machine else None),
        ("commit", facts.get("commit")),
        ("dump", facts.get("dump")),
        ("folder", run.folder),
    ]
    known = [(name, value) for name, value in rows if value not in (None, "")]
    return element("dl", *(join(element("dt", name), element("dd", value)) for name, value in known))


def _machine(facts: dict[str, Any]) -> str:
    memory = facts.get("memory")
    size = f", {memory / 2**30:.0f} GiB" if isinstance(memory, int | float) else ""
    return f"{facts.get('cores', '?')} cores{size}, {facts.get('kernel', '?')}"


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
