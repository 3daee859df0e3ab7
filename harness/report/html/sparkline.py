"""Draws small pictures for table cells: a distribution as strokes, a mean with its confidence interval as a whisker."""

from collections.abc import Iterable
from math import log10

from zab_chaos.harness.report.html.markup import Html, element

SCALE = (0.001, 100.0)  # seconds, at the left and the right edge of a distribution; values beyond are drawn on the edge
WIDTH, HEIGHT = 420, 22
WHISKER, EDGE = 90, 4


def strip(values: Iterable[tuple[float, str]]) -> Html:
    """Draw each value (seconds, tooltip) as a stroke on a logarithmic axis. Nothing is smoothed away."""
    low, high = map(log10, SCALE)

    def stroke(seconds: float, top: int, **attributes: object) -> Html:
        place = (log10(min(max(seconds, SCALE[0]), SCALE[1])) - low) / (high - low)
        x = f"{EDGE + place * (WIDTH - 2 * EDGE):.1f}"
        return element("line", x1=x, x2=x, y1=top, y2=HEIGHT - 2, **attributes)

    decades = [stroke(10.0**power, 0, class_="decade") for power in range(-3, 3)]
    strokes = [stroke(value, 4, class_="stroke", data_tip=words) for value, words in values]
    return element("svg", *decades, *strokes, width=WIDTH, height=HEIGHT, role="img", aria_label="distribution")


def whisker(mean: float, within: float | None, low: float, high: float) -> Html:
    """Draw a mean as a dot with its interval, on the scale from `low` to `high` that a column shares."""
    span = (high - low) or 1.0

    def x(value: float) -> str:
        return f"{EDGE + (min(max(value, low), high) - low) / span * (WHISKER - 2 * EDGE):.1f}"

    line = None
    if within is not None:
        line = element("line", x1=x(mean - within), x2=x(mean + within), y1=6, y2=6, class_="whisker")
    dot = element("circle", cx=x(mean), cy=6, r=3, class_="dot")
    return element("svg", line, dot, width=WHISKER, height=12, aria_hidden="true", class_="small")
