"""The page of one run: text, data and scripts in one file that loads nothing and runs nothing but its own scripts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from zab_chaos.harness.report.headline import capital, headline
from zab_chaos.harness.report.html import tables
from zab_chaos.harness.report.html.diagram import Diagram
from zab_chaos.harness.report.html.document import document
from zab_chaos.harness.report.html.markup import Html, element, join
from zab_chaos.harness.report.html.run_data import RunData

SCRIPTS = (
    "data.js", "view.js", "paint.js", "lanes.js", "exchange.js", "messages.js", "follow.js", "load.js", "pointer.js",
    "main.js",
)  # fmt: skip
Panel = tuple[str, str, str]
Legend = Sequence[tuple[str, str]]  # (style of the swatch, or "" without one; words)
PANELS: tuple[Panel, ...] = (
    (
        "faults",
        "Faults and links",
        "from inject to heal; the other pictures shade this time, between a dashed and a dotted line; a link is named from→to",
    ),
    ("lanes", "Nodes", "fill: phase; dark edge on top: LEADING; band below: epoch"),
    (
        "messages",
        "Messages",
        "an arrow from the line of who sent it to the line of who took it; point at one, click it",
    ),
    (
        "latency",
        "Latency",
        "of each operation from the time at which it was due; of the successful ones p50 (line) and p99 (dashed)",
    ),
    ("throughput", "Throughput", "operations answered a second; hatched: a write waited and none succeeded"),
    ("lag", "Commit lag", "transactions that some node has delivered and this one has not"),
)
LEGENDS: dict[str, Legend] = {
    "faults": (
        ("fault", "fault"),
        ("mends", "repair"),
        ("unconfirmed", "not confirmed"),
        ("cut", "link cut"),
        ("disturbed", "link disturbed"),
    ),
    "lanes": (
        ("election", "ELECTION"),
        ("discovery", "DISCOVERY"),
        ("synchronization", "SYNCHRONIZATION"),
        ("following", "BROADCAST, following"),
        ("leading", "BROADCAST, leading"),
        ("bare", "not known"),
        ("down", "down"),
        ("paused", "paused"),
        ("amnesiac", "amnesiac: counts in no quorum"),
        ("", "▲ established"),
        ("", "▼ truncated"),
        ("", "✕ stopped itself"),
        ("", "◆ snapshot, member again, crash point"),
    ),
    "latency": (("write", "write ●"), ("read", "read ○"), ("failed", "failed ×"), ("unknown", "unknown ▲")),
    "throughput": (("write", "succeeded"), ("failed", "failed"), ("unknown", "answered unknown")),
}
KEYS = (
    "Wheel or + and − zoom, a drag zooms to what it covers, Shift and drag moves, a double click or 0 shows everything. "
    "With a picture in focus the arrow keys move the pointer, Shift and an arrow key moves the picture."
)


def page(story: RunData) -> str:
    """The whole file."""
    title = f"{story.facts.get('scenario', story.folder.name)}: {_verdict(story)}"
    return document(title, _header(story), _main(story), data(story.as_json()), scripts=SCRIPTS)


def _verdict(story: RunData) -> str:
    return "NOT JUDGED" if story.judged.verdict is None else str(story.judged.verdict.verdict)


def _header(story: RunData) -> Html:
    facts, verdict = story.facts, story.judged.verdict
    expect = facts.get("expect")
    expected = expect.get("verdict") if isinstance(expect, dict) else None
    surprise = None
    if facts.get("defect"):
        surprise = element("p", f"The nodes were built with the defect {facts['defect']}, which is to be caught.")
    elif verdict is not None and expected not in (None, verdict.verdict):
        surprise = element("p", f"The scenario expects {expected}.")
    return element(
        "header",
        element("h1", facts.get("scenario", "a run without a name"), " ", tables.badge(_verdict(story))),
        surprise,
        element("p", tables.MEANINGS[_verdict(story)]) if _verdict(story) in tables.MEANINGS else None,
        element("p", f"{capital(headline(verdict))}.", class_="answer") if verdict else None,
        _reasons(verdict.reasons) if verdict else None,
        element("p", "Again: ", element("code", facts["command"])) if facts.get("command") else None,
    )


def _reasons(reasons: list[str]) -> Html | None:
    """All reasons, folded: the answer has the first."""
    if len(reasons) < 2:
        return None
    items = element("ul", *(element("li", reason) for reason in reasons))
    return element("details", element("summary", f"All {len(reasons)} reasons"), items)


def _main(story: RunData) -> Html:
    return element(
        "main",
        tables.damages(story),
        tables.chain(story),
        tables.violations(story),
        pictures("The run over time", *_panels(story), story.diagram),
        tables.latencies(story),
        tables.outages(story),
        tables.faults(story),
        tables.properties(story),
        tables.lives(story),
        element("section", element("h2", "About this run"), tables.experiment(story), id="about"),
    )


def _panels(story: RunData) -> tuple[Iterable[Panel], Mapping[str, Legend]]:
    """What there is to draw, and its legends; a backend of somebody else's may record nothing of its nodes."""
    if story.lanes:
        return PANELS, LEGENDS
    run = ("lanes", "Run", "its milestones; what its nodes did is not recorded")
    return [run if panel[0] == "lanes" else panel for panel in PANELS], {**LEGENDS, "lanes": ()}


def pictures(title: str, panels: Iterable[Panel], legends: Mapping[str, Legend], diagram: Diagram) -> Html:
    """The pictures, with what moves them. `panels`: canvas, name, explanation."""
    buttons = (("in", "+", "zoom in"), ("out", "−", "zoom out"), ("left", "◀", "earlier"), ("right", "▶", "later"))
    return element(
        "section",
        element("h2", title),
        element(
            "div",
            *(
                element("button", sign, type="button", id=f"zoom-{name}", title=words, aria_label=words)
                for name, sign, words in buttons
            ),
            element("button", "show all", type="button", id="zoom-all"),
            element("span", id="range", aria_live="polite"),
            element("small", KEYS),
            class_="tools",
        ),
        element("noscript", element("p", "The pictures need JavaScript; the tables do not.")),
        *(
            _picture(*panel, legends.get(panel[0], ()), _following(diagram) if panel[0] == "messages" else ())
            for panel in panels
        ),
        element("div", id="tip", role="status", aria_live="polite", hidden=True),
        id="pictures",
    )


def _picture(name: str, title: str, explanation: str, marks: Legend, more: Sequence[Html | None]) -> Html:
    """`more`: what stands above the picture, and then, as one, what stands below it."""
    legend = [
        element("li", element("span", class_=f"swatch {style}") if style else None, words) for style, words in marks
    ]
    return element(
        "figure",
        element("figcaption", element("b", title), f" {explanation}"),
        element("ul", *legend, class_="legend") if legend else None,
        *more[:-1],
        element("canvas", id=name, tabindex=0, role="img", aria_label=f"{title}: {explanation}"),
        *more[-1:],
    )


def _following(diagram: Diagram) -> tuple[Html | None, ...]:
    """What is missing, and the search; below the picture the way of what is followed, in words, and the legend."""
    gaps = [element("p", f"Messages are missing: {gap}.", class_="gaps") for gap in diagram.gaps]
    hint = "1:402, /key-3, client 3, node 2" if diagram.requests else "1:2, node 2"
    form = element(
        "div",
        element("label", "Follow ", element("input", id="wanted", type="search", placeholder=hint, autocomplete="off")),
        element("button", "follow", type="button", id="search"),
        element("label", element("input", id="pings", type="checkbox"), " PING", hidden=not diagram.requests),
        element("span", id="followed", role="status", aria_live="polite"),
        id="follow",
        class_="follow-tools",
        role="search",
    )
    way = element("details", element("summary", "Its way in words"), element("ol", id="way"), id="told", hidden=True)
    return (*gaps, form, join(way, element("ul", id="kinds", class_="legend")))


def data(shown: dict[str, Any]) -> Html:
    """The data as an inert script; no character in it can end the element."""
    text = msgspec.json.encode(shown).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return element("script", Html(text), type="application/json", id="data")
