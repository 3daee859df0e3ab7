"""Small pictures in a table's cell: a distribution as strokes, a mean with its interval as a whisker."""

from collections.abc import Iterable
from math import log10

from zab_chaos.harness.report.html.markup import Html, element

SCALE = (0.001, 100.0)  # seconds, from the left to the right of a distribution; what is beyond lies on its edge
WIDTH, HEIGHT = 420, 22
WHISKER, EDGE = 90, 4


def strip(values: Iterable[tuple[float, str]]) -> Html:
    """Seconds on a logarithmic line, each with what it says when pointed at: nothing is smoothed away."""
    low, high = map(log10, SCALE)

    def stroke(seconds: float, top: int, **attributes: object) -> Html:
        place = (log10(min(max(seconds, SCALE[0]), SCALE[1])) - low) / (high - low)
        x = f"{EDGE + place * (WIDTH - 2 * EDGE):.1f}"
        return element("line", x1=x, x2=x, y1=top, y2=HEIGHT - 2, **attributes)

    decades = [stroke(10.0**power, 0, class_="decade") for power in range(-3, 3)]
    strokes = [stroke(value, 4, class_="stroke", data_tip=words) for value, words in values]
    return element("svg", *decades, *strokes, width=WIDTH, height=HEIGHT, role="img", aria_label="distribution")


def whisker(mean: float, within: float | None, low: float, high: float) -> Html:
    """A dot with its interval, on a line from `low` to `high` that all of a column share."""
    span = (high - low) or 1.0

    def x(value: float) -> str:
        return f"{EDGE + (min(max(value, low), high) - low) / span * (WHISKER - 2 * EDGE):.1f}"

    line = None
    if within is not None:
        line = element("line", x1=x(mean - within), x2=x(mean + within), y1=6, y2=6, class_="whisker")
    dot = element("circle", cx=x(mean), cy=6, r=3, class_="dot")
    return element("svg", line, dot, width=WHISKER, height=12, aria_hidden="true", class_="small")
