"""Writes the frame of every page: head, style sheet, script, and a content security policy that allows nothing else."""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

from zab_chaos.harness.report.html.markup import Html, element

STYLE = "report.css"


def document(title: str, *body: Html | None, scripts: tuple[str, ...] = ()) -> str:
    """Return a whole HTML file. `scripts`: the assets that run at its end, as one script in a scope of its own.

    The content security policy allows the style sheet and the script by their hashes. A browser refuses everything else, also
    content that a manipulated trace might inject.
    """
    style = asset(STYLE)
    script = "\n".join(["(() => {", '"use strict";', *map(asset, scripts), "})();"]) if scripts else None
    allowed = f"style-src {_hash(style)}" + (f"; script-src {_hash(script)}" if script else "")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element(
            "meta",
            http_equiv="Content-Security-Policy",
            content=f"default-src 'none'; base-uri 'none'; form-action 'none'; {allowed}",
        ),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} – zab-chaos"),
        element("style", Html(style)),
    )
    end = element("script", Html(script)) if script else None
    return f"<!doctype html>\n{element('html', head, element('body', *body, end), lang='en')}\n"


@cache
def asset(name: str) -> str:
    """Return the text of a file in harness/report/html/assets."""
    return files("zab_chaos.harness.report.html").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"
