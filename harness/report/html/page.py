"""The page of one run: text, data and scripts in one file that loads nothing and runs nothing but its own scripts."""

import msgspec

from zab_chaos.harness.report.answer import answer
from zab_chaos.harness.report.html import tables
from zab_chaos.harness.report.html.document import document
from zab_chaos.harness.report.html.markup import Html, element
from zab_chaos.harness.report.html.run_data import RunData

SCRIPTS = ("data.js", "view.js", "paint.js", "lanes.js", "load.js", "pointer.js", "main.js")
PANELS = (
    ("faults", "Faults and cut links", "from inject to heal; a link is named from→to"),
    ("lanes", "Nodes", "fill: phase; dark edge on top: LEADING; band below: epoch"),
    (
        "latency",
        "Latency",
        "of each operation from the time at which it was due; lines: p50 and p99 of the successful ones",
    ),
    ("throughput", "Throughput", "operations answered a second; hatched: a write was due and none succeeded"),
    ("lag", "Commit lag", "transactions that some node has delivered and this one has not"),
)
LEGENDS = {
    "lanes": (
        ("election", "ELECTION"),
        ("discovery", "DISCOVERY"),
        ("synchronization", "SYNCHRONIZATION"),
        ("following", "BROADCAST, following"),
        ("leading", "BROADCAST, leading"),
        ("down", "down"),
        ("paused", "paused"),
        ("amnesiac", "amnesiac: counts in no quorum"),
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
    return document(title, _header(story), _main(story), _data(story), scripts=SCRIPTS)


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
        element("p", f"{answer(verdict)}.", class_="answer") if verdict else None,
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
        tables.violations(story),
        _pictures(),
        tables.latencies(story),
        tables.outages(story),
        tables.faults(story),
        tables.properties(story),
        tables.lives(story),
        element("section", element("h2", "About this run"), tables.experiment(story), id="about"),
    )


def _pictures() -> Html:
    buttons = (("in", "+", "zoom in"), ("out", "−", "zoom out"), ("left", "◀", "earlier"), ("right", "▶", "later"))
    return element(
        "section",
        element("h2", "The run over time"),
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
        *(_picture(*panel) for panel in PANELS),
        element("div", id="tip", role="status", aria_live="polite", hidden=True),
        id="pictures",
    )


def _picture(name: str, title: str, explanation: str) -> Html:
    legend = [element("li", element("span", class_=f"swatch {style}"), words) for style, words in LEGENDS.get(name, ())]
    return element(
        "figure",
        element("figcaption", element("b", title), f" {explanation}"),
        element("ul", *legend, class_="legend") if legend else None,
        element("canvas", id=name, tabindex=0, role="img", aria_label=f"{title}: {explanation}"),
    )


def _data(story: RunData) -> Html:
    """The data as an inert script; no character in it can end the element."""
    text = msgspec.json.encode(story.as_json()).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return element("script", Html(text), type="application/json", id="data")
