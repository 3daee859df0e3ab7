"""The tables of the page: they show the data of the pictures as text, without a script."""

import re
from typing import Any

from zab_chaos.harness.report.chain import preceding_fault
from zab_chaos.harness.report.html.evidence import Finding, Mark
from zab_chaos.harness.report.html.markup import Html, element, join, table
from zab_chaos.harness.report.html.run_data import RunData
from zab_chaos.model.verdict import Judgement, Property

WORST_FIRST = [Judgement.VIOLATION, Judgement.UNKNOWN, Judgement.PASS, Judgement.NOT_APPLICABLE]
SIGNS = {"PASS": "✓", "VIOLATION": "✗", "UNKNOWN": "?", "NOT-APPLICABLE": "–"}


# What a verdict that is neither good nor bad means for whoever reads it.
MEANINGS = {
    "BEYOND-FAULT-MODEL": "A quorum of disks was lost. Zab promises nothing then: what was acknowledged may be gone with "
    "them, and the nodes did right not to form again and invent a history. No promise was broken, and none could be kept.",
    "UNKNOWN": "Too little happened, or too little is known of it, to say whether the promises were kept.",
}


def badge(word: str) -> Html:
    """A verdict as a sign, a colour and a word, each of which is enough."""
    style = re.sub(r"[^a-z]+", "-", word.lower())
    return element("span", f"{SIGNS.get(word, '!')} {word}", class_=f"badge {style}")


def link_to(story: RunData, begin: int, end: int, words: str) -> Html:
    """A button that shows this time in the pictures."""
    first, last = (begin - story.zero) // 1000, (end - story.zero) // 1000
    return element("button", words, type="button", class_="show", data_begin=first, data_end=last)


def _moment(story: RunData, t: int) -> Html:
    """A button that shows the time around `t`."""
    return link_to(story, t - 50_000_000, t + 50_000_000, f"{story.seconds(t):.3f} s")


def chain(story: RunData) -> Html | None:
    """How the violation came about: the fault before it, and the events that lead from there to it."""
    found = story.chain
    if found is None:
        return None
    events = (element("li", _moment(story, one.t), f" {one.words}") for one in found.events)
    button = element("button", "show it in the diagram", type="button", id="show-chain")
    return element(
        "section",
        element("h2", "How it came about"),
        element("p", preceding_fault(found, story.zero), ". ", button),
        element("ol", *events),
        id="chain",
    )


def violations(story: RunData) -> Html | None:
    """The violated property of the headline: its statement, what broke it in words, the numbered evidence. The others, which
    often follow from it, can be opened."""
    if not story.judged.findings:
        return None
    first, *others = (_violated(story, item, findings) for item, findings in story.judged.findings)
    violated = any(item.verdict is Judgement.VIOLATION for item, _ in story.judged.findings)
    names = ", ".join(item.name for item, _ in story.judged.findings[1:])
    also = f"Also {'not kept' if violated else 'uncertain'}: {names}"
    rest = element("details", element("summary", also), *others) if others else None
    title = "What was violated, and what shows it" if violated else "What is uncertain, and why"
    numbers = element("p", "The lines that show it are numbered; their numbers and red lines are in the pictures, too.")
    return element(
        "section", element("h2", title), numbers if story.judged.marks else None, first, rest, id="violations"
    )


def _violated(story: RunData, item: Property, findings: list[Finding]) -> Html:
    """The first violation is shown, the others can be opened: one bug often shows many times."""
    state = "is violated" if item.verdict is Judgement.VIOLATION else "is uncertain"
    first, *others = (_found(story, finding) for finding in findings)
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


def _found(story: RunData, finding: Finding) -> Html:
    return join(
        element(
            "p", finding.words, " ", _follow(finding.together) if " " in finding.together else None, class_="words"
        ),
        element("ol", *(_cited(story, mark, asked) for mark, asked in zip(finding.marks, finding.follow, strict=True))),
    )


def _follow(asked: str) -> Html:
    """A button that lights the way of transactions in the diagram."""
    return element(
        "button",
        f"follow {asked.replace(' ', ' and ') if ':' in asked else asked}",
        type="button",
        class_="follow",
        data_follow=asked,
    )


def _cited(story: RunData, mark: Mark, asked: str | None) -> Html:
    return element(
        "li",
        element("span", str(mark.number), class_="mark"),
        " ",
        _moment(story, mark.t) if mark.t is not None else None,
        f" {mark.words} ",
        _follow(asked) if asked else None,
        element("details", element("summary", f"{mark.file}:{mark.line}"), element("code", mark.text)),
    )


def properties(story: RunData) -> Html:
    """Every property's judgement, the worst first."""
    if story.judged.verdict is None:
        return element("p", "This run was not judged. ", element("code", f"zab verify {story.folder}"), " judges it.")
    items = sorted(story.judged.verdict.properties, key=lambda item: WORST_FIRST.index(item.verdict))
    rows = [(badge(item.verdict), item.name, item.statement, item.source, item.checked) for item in items]
    heads = ("verdict", "property", "statement", "source", "facts checked")
    return element("div", table("Properties", heads, rows, numbers=[4]), class_="stacked")


def faults(story: RunData) -> Html | None:
    """Every fault, with a button that shows its time in the pictures."""
    if not story.spans:
        return None
    rows = []
    for span in story.spans:
        healed = "" if span.end is None else f"{(span.end - span.at) / 1e9:.3f}"
        took = "yes" if span.confirmed else "NOT CONFIRMED"
        until = span.at + 1_000_000_000 if span.end is None else span.end
        show = link_to(story, span.at - 500_000_000, until + 500_000_000, f"{story.seconds(span.at):.3f}")
        rows.append((show, span.do, span.on, span.detail, healed, took))
    heads = ("at, s", "fault", "on", "how", "healed after, s", "took effect")
    return table("Faults", heads, rows, numbers=[0, 4])


def latencies(story: RunData) -> Html | None:
    """Latency quantiles, from the due time."""
    rows = [
        (name, count, *(_milliseconds(one) for one in values)) for name, count, values in story.operations.quantiles()
    ]
    heads = ("operations", "succeeded", "p50", "p90", "p99", "p99.9", "longest")
    caption = "Latency in ms, counted from the time at which an operation was due"
    return table(caption, heads, rows, range(1, 7)) if rows else None


def _milliseconds(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def outages(story: RunData) -> Html | None:
    """The times without a successful write, the longest first."""
    windows = sorted(story.windows, key=lambda one: one[0] - one[1])
    rows = [
        (
            link_to(story, begin - 200_000_000, end + 200_000_000, f"{story.seconds(begin):.3f}"),
            f"{story.seconds(end):.3f}",
            f"{(end - begin) / 1e9:.3f}",
        )
        for begin, end in windows[:20]
    ]
    more = f" (the longest 20 of {len(windows)})" if len(windows) > 20 else ""
    caption = f"Times of 0.1 s and more in which a write waited and none succeeded{more}"
    return table(caption, ("from, s", "to, s", "lasted, s"), rows, range(3)) if rows else None


def lives(story: RunData) -> Html | None:
    """Each process: its disk, when it began and ended, and why it ended."""
    rows = []
    for life in story.lives:
        boot = next((event for event in life.events if event.event == "boot"), None)
        end = "" if life.end is None else f"{story.seconds(life.end):.3f}"
        disk = boot.disk if boot else "?"
        rows.append((life.node, life.number, disk, f"{story.seconds(life.begin):.3f}", end, life.why))
    heads = ("node", "life", "disk", "from, s", "to, s", "why it ended")
    return table("Lives", heads, rows, [0, 1, 3, 4]) if rows else None


def damages(story: RunData) -> Html | None:
    """What could not be read."""
    if not story.source.damages:
        return None
    items = [
        element("li", element("code", one.file + (f":{one.line}" if one.line else "")), f" {one.why}")
        for one in story.source.damages
    ]
    more = element("li", f"and {story.source.more} more places") if story.source.more else None
    return element(
        "section",
        element("h2", "What could not be read, and is not in this report"),
        element("ul", *items, more),
        id="damages",
    )


def experiment(story: RunData) -> Html:
    """Seed, backend, machine, versions and the like."""
    facts = story.facts
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
        ("operations", ", ".join(f"{count} {name}" for name, count in story.operations.counts().items())),
        ("versions", ", ".join(f"{name} {value}" for name, value in versions.items() if value is not None)),
        ("machine", _machine(machine) if machine else None),
        ("commit", facts.get("commit")),
        ("dump", facts.get("dump")),
        ("folder", story.folder),
    ]
    known = [(name, value) for name, value in rows if value not in (None, "")]
    return element("dl", *(join(element("dt", name), element("dd", value)) for name, value in known))


def _machine(facts: dict[str, Any]) -> str:
    memory = facts.get("memory")
    size = f", {memory / 2**30:.0f} GiB" if isinstance(memory, int | float) else ""
    return f"{facts.get('cores', '?')} cores{size}, {facts.get('kernel', '?')}"


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
