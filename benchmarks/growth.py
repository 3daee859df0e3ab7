"""Draws the time of the pipeline against the number of events, with fitted lines."""

import re
from collections.abc import Iterator, Mapping
from itertools import count
from statistics import linear_regression
from typing import Any

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 320, 64, 44, 16, 16
MOST_LINES = 7  # across the picture, one for each round number of seconds
INK, GRID, BLUE, RED = "#767e88", "#767e8855", "#3d9ad6", "#d55e00"  # visible on white and on black


def points(report: Mapping[str, Any], what: str = "processor") -> list[tuple[int, float]]:
    """Return (events, seconds) from a report of `zab bench`, ascending. `what`: "processor" seconds, or "" for elapsed ones."""
    ending = f": {what}" if what else ""
    found = []
    for figure in report["measurements"].get("pipeline", {"figures": []})["figures"]:
        match = re.fullmatch(rf"([\d,]+) events{ending}", figure["name"])
        if match:
            found.append((int(match[1].replace(",", "")), float(figure["value"])))
    return sorted(found)


def picture(report: Mapping[str, Any]) -> str | None:
    """Return an SVG: elapsed seconds as dots, processor seconds as squares, fitted lines. None for fewer than two points."""
    clock, processor = points(report, ""), points(report)
    if min(len(clock), len(processor)) < 2:
        return None
    x_max = max(x for x, _ in clock) * 1.05
    y_max = max(y for _, y in clock + processor) * 1.1

    def place(x: float, y: float) -> tuple[float, float]:
        across, up = (WIDTH - LEFT - RIGHT) * x / x_max, (HEIGHT - TOP - BOTTOM) * y / y_max
        return round(LEFT + across, 1), round(HEIGHT - BOTTOM - up, 1)

    parts = []
    step = next(step for step in _round_numbers() if y_max / step <= MOST_LINES)
    for seconds in range(0, int(y_max) + 1, step):
        x, y = place(0, seconds)
        parts += [_line(x, y, WIDTH - RIGHT, y, GRID), _text(x - 6, y + 4, f"{seconds} s", "end")]
    for events, _ in clock:
        x, y = place(events, 0)
        parts.append(_text(x, y + 18, f"{events / 1e6:g} M"))
    parts.append(_text(WIDTH / 2, HEIGHT - 6, "events"))
    for name, measured, colour, at in (("by the clock", clock, BLUE, 0), ("of processors", processor, RED, 1)):
        slope, start = linear_regression(*zip(*measured, strict=True))  # seconds for each event, and for none
        begin, end = place(0, max(start, 0)), place(x_max, start + slope * x_max)
        parts.append(_line(*begin, *end, colour))
        for x, y in (place(*point) for point in measured):
            dot = (
                f'<circle cx="{x}" cy="{y}" r="5"'
                if at == 0
                else f'<rect x="{x - 4.5}" y="{y - 4.5}" width="9" height="9"'
            )
            parts.append(f'{dot} fill="{colour}"/>')
        words = f"{'●' if at == 0 else '■'} seconds {name}: {max(start, 0):.0f} + {slope * 1e6:.1f} for each million"
        parts.append(_text(LEFT + 12, TOP + 14 + 18 * at, words, "start"))
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="seconds against events" font-family="sans-serif" font-size="13">\n{body}\n</svg>\n'
    )


def _round_numbers() -> Iterator[int]:
    """Yield 1, 2, 5, 10, 20, 50, 100 and so on."""
    return (factor * 10**power for power in count() for factor in (1, 2, 5))


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-width="1.5"/>'


def _text(x: float, y: float, words: str, anchor: str = "middle") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{INK}">{words}</text>'
