"""Draws the requests that a violation cites: a row for each, from its call to its answer, with what each must come before.

The horizontal axis has the order of the calls and answers, not their times: requests of milliseconds may be seconds apart.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from zab_chaos.harness.report.html.markup import Html, element, join
from zab_chaos.harness.report.html.terms import explained
from zab_chaos.harness.report.sentences import Line, describe_request
from zab_chaos.model.verdict import Dependency, Violation

MOST = 12  # requests that are drawn
LEFT, RIGHT = 190, 760  # pixels, between which the calls are
ROW, LANE = 46, 30  # the height of a row, and the width that an arrow needs beside the rows
SHOWN = 88  # characters of a request
END, ARROW = 5, 6  # half the height of a call's ends, and of an arrow's head


@dataclass(frozen=True, slots=True)
class _Request:
    id: tuple[int, int]  # client and seq
    invoke: Line
    complete: Line | None

    @property
    def times(self) -> list[int]:
        """When it was called and, if its outcome is known, answered."""
        known = [one for one in (self.complete,) if one is not None and one.get("outcome") != "unknown"]
        return [line["t"] for line in (self.invoke, *known)]


def history(violation: Violation, zero: int) -> Html | None:
    """Return the picture of the cited requests, None if there are not several. `zero`: the time from which others are counted,
    in nanoseconds."""
    requests = _cited(violation)
    if not 2 <= len(requests) <= MOST:
        return None
    rows = {one.id: ROW * place + ROW // 2 for place, one in enumerate(requests)}
    cycle = [one for one in violation.dependencies if {one.before, one.after} <= rows.keys()]
    width = RIGHT + LANE * (len(cycle) + 1)
    picture = element(
        "svg",
        *_rows(requests, zero, width),
        *(_arrow(number, rows[one.before], rows[one.after]) for number, one in enumerate(cycle, 1)),
        viewBox=f"0 0 {width} {ROW * len(requests)}",
        width=width,
        role="img",
        aria_label="the requests, from call to answer",
    )
    about = "From top to bottom: the requests, by their calls. From left to right: the order of all calls and answers."
    return element(
        "figure", element("figcaption", about), element("div", picture, class_="scroll"), _told(cycle), class_="history"
    )


def _cited(violation: Violation) -> list[_Request]:
    """Return the requests of which a violation cites the call, in the order of the calls."""
    found: dict[str, dict[tuple[int, int], Line]] = {"invoke": {}, "complete": {}}
    for one in violation.evidence:
        match one.event:
            case {"type": "invoke" | "complete" as kind, "client": int(client), "seq": int(seq), "t": int()}:
                found[kind][client, seq] = one.event
    requests = (_Request(name, call, found["complete"].get(name)) for name, call in found["invoke"].items())
    return sorted(requests, key=lambda one: one.invoke["t"])


def _rows(requests: Sequence[_Request], zero: int, width: int) -> Iterator[Html]:
    times = sorted({t for one in requests for t in one.times})
    space = (RIGHT - LEFT) / len(times)
    places = {t: LEFT + round(space * (place + 0.5)) for place, t in enumerate(times)}
    for number, one in enumerate(requests):
        y = ROW * number + ROW // 2
        ends = [places[t] for t in one.times]
        yield _line(LEFT, y, width, y, "guide")
        yield _text(0, y - 4, f"client {one.id[0]}, seq {one.id[1]}")
        yield _text(0, y + 11, f"{' to '.join(f'{(t - zero) / 1e9:.3f}' for t in one.times)} s", class_="faint")
        yield _line(ends[0], y, *((ends[1], y, "call") if len(ends) > 1 else (RIGHT, y, "call open")))
        yield from (_line(x, y - END, x, y + END, "call") for x in ends)
        words = describe_request(one.invoke, one.complete)
        shown = words if len(words) <= SHOWN else f"{words[: SHOWN - 1]}…"
        yield _text(LEFT, y + 17, shown, element("title", words))


def _line(x1: int, y1: int, x2: int, y2: int, style: str) -> Html:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=style)


def _text(x: int, y: int, *content: object, **attributes: object) -> Html:
    return element("text", *content, x=x, y=y, **attributes)


def _arrow(number: int, begin: int, end: int) -> Html:
    """Draw an arrow from a row to another one, right of the rows, with its number. It begins below the middle of its row and
    ends above that of the other one, where another arrow begins."""
    x = RIGHT + LANE * number
    begin, end = begin + ARROW, end - ARROW
    head = f"M{RIGHT + ARROW},{end - ARROW} L{RIGHT},{end} L{RIGHT + ARROW},{end + ARROW}"
    return join(
        element("path", d=f"M{RIGHT},{begin} H{x} V{end} H{RIGHT} {head}", class_="arrow"),
        element("circle", cx=x, cy=(begin + end) // 2, r=9),
        _text(x, (begin + end) // 2 + 4, number, text_anchor="middle"),
    )


def _told(cycle: Iterable[Dependency]) -> Html | None:
    """List why each arrow is there."""
    items = [element("li", explained(one.words), f" ({one.kind})") for one in cycle]
    about = element(
        "p", "Each arrow leads to a transaction that must come later. They form a cycle, so no order of them is right:"
    )
    return join(about, element("ol", *items, class_="numbered")) if items else None
