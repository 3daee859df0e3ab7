"""Writes the page of one run: text, data and scripts in one file, which loads nothing and runs only its own scripts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from zab_chaos.harness.report.headline import capital, headline, remark
from zab_chaos.harness.report.html import tables
from zab_chaos.harness.report.html.diagram import Diagram
from zab_chaos.harness.report.html.document import document
from zab_chaos.harness.report.html.markup import Html, element, join
from zab_chaos.harness.report.html.run_data import RunData

SCRIPTS = (
    "data.js", "view.js", "paint.js", "lanes.js", "exchange.js", "messages.js", "follow.js", "load.js", "pointer.js",
    "main.js",
)  # fmt: skip
Panel = tuple[str, str, str]  # id of the canvas, title, explanation
Legend = Sequence[tuple[str, str]]  # (style of the swatch, or "" without one; words)
PANELS: tuple[Panel, ...] = (
    (
        "faults",
        "Faults and links",
        "from injection to healing; the other pictures shade its time, from a dashed to a dotted line; links are named from→to",
    ),
    ("lanes", "Nodes", "fill: phase; dark edge on top: LEADING; band below: epoch (f.p) when the phase began"),
    (
        "messages",
        "Messages",
        "an arrow from the sender's line to the receiver's; point at one to see it, click it to follow its transaction",
    ),
    (
        "latency",
        "Latency",
        "of each operation, from the time at which it was due; lines: p50 (solid) and p99 (dashed) of the successful ones",
    ),
    ("throughput", "Throughput", "operations answered per second; hatched: a write was waiting and none was served"),
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
        ("", "◆ snapshot, member again after a lost disk, crash point"),
    ),
    "latency": (("write", "write ●"), ("read", "read ○"), ("failed", "failed ×"), ("unknown", "unknown ▲")),
    "throughput": (("write", "succeeded"), ("failed", "failed"), ("unknown", "outcome unknown")),
}
OPENED = "At first the pictures show only the time in which the violation came about; “show all” shows the whole run."
KEYS = (
    "Zoom: wheel, + and −, or drag over a range. Move: Shift and drag, or Shift and an arrow key. Show everything: double "
    "click, or 0. In a picture that has the focus, the arrow keys move the pointer."
)


def page(run: RunData) -> str:
    """Return the page of a run as a whole HTML file."""
    title = f"{run.facts.get('scenario', run.folder.name)}: {_verdict(run)}"
    return document(title, _header(run), _main(run), data_script(run.as_json()), scripts=SCRIPTS)


def _verdict(run: RunData) -> str:
    return "NOT JUDGED" if run.judged.verdict is None else str(run.judged.verdict.verdict)


def _header(run: RunData) -> Html:
    facts, verdict = run.facts, run.judged.verdict
    more = (
        remark(facts, verdict.verdict, verdict.violated, verdict.uncertain) if verdict else remark(facts, None, (), ())
    )
    return element(
        "header",
        element("h1", facts.get("scenario", "a run without a name"), " ", tables.badge(_verdict(run))),
        element("p", f"{capital(more)}.") if more else None,
        element("p", tables.MEANINGS[_verdict(run)]) if _verdict(run) in tables.MEANINGS else None,
        element("p", f"{capital(headline(verdict))}.", class_="answer") if verdict else None,
        _reasons(verdict.reasons) if verdict else None,
        element("p", "Repeat this run: ", element("code", facts["command"])) if facts.get("command") else None,
    )


def _reasons(reasons: list[str]) -> Html | None:
    """List all reasons, folded, if there are several: the headline has only the first."""
    if len(reasons) < 2:
        return None
    items = element("ul", *(element("li", reason) for reason in reasons))
    return element("details", element("summary", f"All {len(reasons)} reasons"), items)


def _main(run: RunData) -> Html:
    return element(
        "main",
        tables.damages(run),
        tables.chain(run),
        tables.violations(run),
        pictures("The run over time", *_panels(run), run.diagram, OPENED if run.opening else ""),
        tables.latencies(run),
        tables.outages(run),
        tables.faults(run),
        tables.properties(run),
        tables.lives(run),
        element("section", element("h2", "About this run"), tables.experiment(run), id="about"),
    )


def _panels(run: RunData) -> tuple[Iterable[Panel], Mapping[str, Legend]]:
    """Return the panels and their legends. A backend for another system may record nothing of its nodes: no lanes, no lag."""
    if run.lanes:
        return PANELS, LEGENDS
    milestones = ("lanes", "Run", "its milestones; what its nodes did is not recorded")
    shown = [milestones if panel[0] == "lanes" else panel for panel in PANELS if panel[0] != "lag"]
    return shown, {**LEGENDS, "lanes": ()}


def pictures(
    title: str, panels: Iterable[Panel], legends: Mapping[str, Legend], diagram: Diagram, note: str = ""
) -> Html:
    """Return the section of the pictures, with the buttons that zoom and move them. `note`: what they show first."""
    buttons = (("in", "+", "zoom in"), ("out", "−", "zoom out"), ("left", "◀", "earlier"), ("right", "▶", "later"))
    return element(
        "section",
        element("h2", title),
        element("p", note) if note else None,
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
    """Return the figure of one panel. `more`: elements above the canvas; the last one goes below it."""
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
    """Return the extra elements of the message panel: gaps and search above it; the followed path and the legend below."""
    gaps = [element("p", f"Messages between nodes are missing: {gap}.", class_="gaps") for gap in diagram.gaps]
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
    path = element("details", element("summary", "Its path in words"), element("ol", id="way"), id="told", hidden=True)
    return (*gaps, form, join(path, element("ul", id="kinds", class_="legend")))


def data_script(shown: dict[str, Any]) -> Html:
    """Return the data as a script element that is not executed. No character in it can end the element."""
    text = msgspec.json.encode(shown).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return element("script", Html(text), type="application/json", id="data")
