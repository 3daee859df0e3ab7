"""The page: text, data and scripts in one file that loads nothing and runs nothing but its own scripts.

The content security policy in its head names the one style sheet and the one script by their hashes, so that a browser
refuses everything else, also what a trace might smuggle in.
"""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

import msgspec

from harness.html import tables
from harness.html.markup import Html, element
from harness.html.story import Story

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


def page(story: Story) -> str:
    """The whole file."""
    style, script = _asset("report.css"), _script()
    policy = (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src {_hash(style)}; script-src {_hash(script)}"
    )
    title = f"{story.facts.get('scenario', story.folder.name)}: {_verdict(story)}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} – zab-chaos"),
        element("style", Html(style)),
    )
    body = element("body", _header(story), _main(story), _data(story), element("script", Html(script)))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _verdict(story: Story) -> str:
    return "NOT JUDGED" if story.judged.verdict is None else str(story.judged.verdict.verdict)


def _header(story: Story) -> Html:
    facts, verdict = story.facts, story.judged.verdict
    expect = facts.get("expect")
    expected = expect.get("verdict") if isinstance(expect, dict) else None
    surprise = None
    if verdict is not None and expected not in (None, verdict.verdict):
        surprise = element("p", f"The scenario expects {expected}.")
    return element(
        "header",
        element("h1", facts.get("scenario", "a run without a name"), " ", tables.badge(_verdict(story))),
        surprise,
        element("ul", *(element("li", reason) for reason in verdict.reasons)) if verdict and verdict.reasons else None,
        element("p", "Again: ", element("code", facts["command"])) if facts.get("command") else None,
        element("details", element("summary", "About this run"), tables.experiment(story), open=True),
    )


def _main(story: Story) -> Html:
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


def _data(story: Story) -> Html:
    """The data as an inert script; no character in it can end the element."""
    text = msgspec.json.encode(story.as_json()).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return element("script", Html(text), type="application/json", id="data")


def _script() -> str:
    """All scripts as one, in a scope of its own: nothing of it is to be found on `window`."""
    return "\n".join(["(() => {", '"use strict";', *map(_asset, SCRIPTS), "})();"])


@cache
def _asset(name: str) -> str:
    return files("harness.html").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"
