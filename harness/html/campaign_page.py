"""The page of a campaign: what held where, how fast it recovered, what was hit when, which runs to look at."""

from collections import Counter
from collections.abc import Iterable
from math import log10

from harness.html.campaign import NOT_JUDGED, Run
from harness.html.markup import Html, element, join, table
from harness.html.shell import document
from harness.html.tables import SIGNS, badge
from model.measures import percentile

WORST = ("VIOLATION", "UNKNOWN", "PASS", "NOT-APPLICABLE")
SLOWEST = 10
SCALE = (0.001, 100.0)  # seconds, from the left to the right of a distribution; what is beyond lies on its edge
WIDTH, HEIGHT = 420, 22


def campaign_page(runs: list[Run], title: str) -> str:
    """The whole file."""
    verdicts = Counter(run.verdict for run in runs)
    counts = [join(badge(word), f" {count} ") for word, count in sorted(verdicts.items())]
    header = element("header", element("h1", f"{len(runs)} runs"), element("p", *counts), element("p", title))
    main = element("main", _surprises(runs), _matrix(runs), _recovery(runs), _coverage(runs), _slowest(runs))
    return document(f"{len(runs)} runs", header, main)


def _surprises(runs: list[Run]) -> Html:
    """Runs that did not end as their scenario expects, and defects that were not caught."""
    surprising = [run for run in runs if not run.as_expected]
    rows = [
        (badge(run.verdict), run.name, "VIOLATION" if run.defect else run.expected, *_where(run)) for run in surprising
    ]
    if not rows:
        return element("p", "Every run ended as its scenario expects, and every defect was caught.")
    return table("Runs that did not end as expected", ("verdict", "scenario", "expected", "again", "folder"), rows)


def _where(run: Run) -> tuple[Html, Html]:
    return element("code", run.command), element("code", run.folder)


def _matrix(runs: list[Run]) -> Html:
    """Scenarios and properties: the worst judgement, and how many of the runs had it."""
    names = list(dict.fromkeys(name for run in runs for name in run.properties))
    rows = []
    for scenario, group in _grouped(runs):
        cells = [_cell([run.properties[name] for run in group if name in run.properties]) for name in names]
        unjudged = sum(run.verdict == NOT_JUDGED for run in group)
        rows.append((scenario, f"{len(group)}" + (f" ({unjudged} not judged)" if unjudged else ""), *cells))
    return element("div", table("Scenarios and properties", ("scenario", "runs", *names), rows), class_="matrix")


def _grouped(runs: list[Run]) -> list[tuple[str, list[Run]]]:
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.name, []).append(run)
    return sorted(groups.items())


def _cell(judgements: list[str]) -> Html | str:
    worst = next((word for word in WORST if word in judgements), None)
    if worst is None:
        return ""
    count = judgements.count(worst)
    words = SIGNS[worst] + (f" {count}/{len(judgements)}" if worst in WORST[:2] else "")
    return element("span", words, class_=f"cell {worst.lower()}", title=worst)


def _recovery(runs: list[Run]) -> Html | None:
    """By kind of fault, the times from its injection to the next commit."""
    times: dict[str, list[float | None]] = {}
    for run in runs:
        for do, seconds in run.recoveries:
            times.setdefault(do, []).append(seconds)
    rows = []
    for do, all_of in sorted(times.items()):
        known = sorted(one for one in all_of if one is not None)
        micros = [round(one * 1e6) for one in known]
        shares = [f"{percentile(micros, share) / 1e6:.3f}" if micros else "" for share in (0.5, 0.9, 1.0)]
        rows.append((do, len(all_of), *shares, len(all_of) - len(known), _strip(known)))
    heads = ("fault", "times", "p50, s", "p90, s", "longest, s", "never", "1 ms to 100 s, logarithmic; one stroke each")
    return table("From a fault to the next commit", heads, rows, range(1, 6)) if rows else None


def _strip(values: Iterable[float]) -> Html:
    """A distribution as strokes on a line: nothing is smoothed away."""
    low, high = map(log10, SCALE)

    def x(seconds: float) -> str:
        place = (log10(min(max(seconds, SCALE[0]), SCALE[1])) - low) / (high - low)
        return f"{4 + place * (WIDTH - 8):.1f}"

    def stroke(seconds: float, top: int, kind: str) -> Html:
        return element("line", x1=x(seconds), x2=x(seconds), y1=top, y2=HEIGHT - 2, class_=kind)

    decades = [stroke(10.0**power, 0, "decade") for power in range(-3, 3)]
    strokes = [stroke(value, 4, "stroke") for value in values]
    return element("svg", *decades, *strokes, width=WIDTH, height=HEIGHT, role="img", aria_label="distribution")


def _coverage(runs: list[Run]) -> Html | None:
    """How often each kind of fault hit a node in each role and phase."""
    hits = Counter(hit for run in runs for hit in run.hits)
    places = sorted({place for _, place in hits})
    rows = [(do, *(hits[do, place] or "" for place in places)) for do in sorted({do for do, _ in hits})]
    caption = "What a node was when a fault hit it, and how often"
    return table(caption, ("fault", *places), rows, range(1, len(places) + 1)) if rows else None


def _slowest(runs: list[Run]) -> Html | None:
    """The runs in which writes stood still for the longest time."""
    slow = sorted((run for run in runs if run.unavailable), key=lambda run: -run.unavailable)[:SLOWEST]
    rows = [(run.name, badge(run.verdict), f"{run.unavailable:.3f}", *_where(run)) for run in slow]
    heads = ("scenario", "verdict", "longest without a write, s", "again", "folder")
    return table(f"The {len(rows)} runs in which writes stood still longest", heads, rows, [2]) if rows else None
