"""Writes the page of a campaign: verdicts, recovery times, what the faults hit, and which runs to look at."""

import os
import shlex
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from zab_chaos.harness.report.html.campaign import CampaignRun
from zab_chaos.harness.report.html.document import document
from zab_chaos.harness.report.html.markup import Html, element, join, table, table_by_campaign
from zab_chaos.harness.report.html.numbers import catch_up_table, number_tables
from zab_chaos.harness.report.html.sparkline import strip
from zab_chaos.harness.report.html.tables import MEANINGS, SIGNS, badge
from zab_chaos.harness.results.index import NOT_JUDGED
from zab_chaos.model.oracle.measures import percentile
from zab_chaos.pipeline.naming import plural

WORST = ("VIOLATION", "UNKNOWN", "PASS", "NOT-APPLICABLE")
SLOWEST = 10
MAX_RUNS = 2000  # rows; a browser still sorts so many at once
MAX_UNEXPECTED = 100  # rows; more of them show nothing new
MAX_REASON = 200  # characters; the rest is mostly digests


def campaign_page(runs: list[CampaignRun], title: str, place: Path, summary: dict[str, Any] | None = None) -> str:
    """Return the page as a whole HTML file.

    `place`: the path at which the page will be stored, next to its CSV file (`csv_path`). `title`: where the runs are.
    `summary`: the content of the pipeline's summary.json, if there is one.
    """
    verdicts = Counter(run.verdict for run in runs)
    counts = [join(badge(word), f" {count} ") for word, count in sorted(verdicts.items())]
    meanings = [element("p", badge(word), f" {MEANINGS[word]}") for word in sorted(verdicts) if word in MEANINGS]
    header = element(
        "header",
        element("h1", plural(len(runs), "run")),
        element("p", *counts),
        *meanings,
        element("p", title),
        _data(place, title, parquet=summary is not None),
    )
    main = element(
        "main",
        _unexpected(runs, place),
        _matrix(runs),
        *(number_tables(summary) if summary else ()),
        _recovery(runs),
        _coverage(runs),
        catch_up_table(summary) if summary else None,
        _slowest(runs, place),
        _all(runs, place),
        element("div", id="tip", role="status", aria_live="polite", hidden=True),
    )
    return document(plural(len(runs), "run"), header, main, scripts=("tips.js", "tables.js"))


def _unexpected(runs: list[CampaignRun], place: Path) -> Html:
    """Return a table of the runs that did not end as their scenario expects, and of defects that were not caught."""
    unexpected = [run for run in runs if not run.as_expected]
    rows = [
        (
            _lines(badge(run.verdict), f"expected {run.expected}"),
            run.name,
            run.campaign,
            _lines(_reason(run), *_where(run, place)),
        )
        for run in unexpected[:MAX_UNEXPECTED]
    ]
    if not rows:
        caught = ", and every defect was caught" if any(run.defect for run in runs) else ""
        return element("p", f"Every run ended as its scenario expects{caught}.")
    more = f" (the first {MAX_UNEXPECTED} of {len(unexpected)})" if len(unexpected) > MAX_UNEXPECTED else ""
    heads = ("verdict", "scenario", "campaign", "why, the command that repeats it, and its report")
    return element("div", table_by_campaign(f"Runs that did not end as expected{more}", heads, rows), class_="stacked")


def _lines(*lines: object) -> Html:
    """Return the content of a cell in lines. Commands and paths are long: side by side each would be broken many times."""
    return join(*(element("div", one) for one in lines))


def _reason(run: CampaignRun) -> str:
    if run.verdict == NOT_JUDGED:
        verify = element("code", f"zab verify {shlex.quote(str(run.folder))}")
        return join("it has no verdict that can be read; ", verify, " judges it")
    if run.verdict == "PASS":
        return "no property is violated" + (f", so the defect {run.defect} was not caught" if run.defect else "")
    first = run.reasons[0] if run.reasons else ""
    return first if len(first) <= MAX_REASON else first[:MAX_REASON] + " ..."


def _where(run: CampaignRun, place: Path) -> tuple[Html, Html]:
    return element("code", run.command), _page(run, place)


def _page(run: CampaignRun, place: Path) -> Html:
    """Return a link to the run's own page, or the command that creates the page if there is none."""
    page = run.folder / "report.html"
    if page.is_file():
        return element("a", run.folder.name, href=quote(os.path.relpath(page, place.parent)))
    return element("code", f"zab report {shlex.quote(str(run.folder))}")


def csv_path(place: Path) -> Path:
    """Return the path of the CSV file that belongs to a page."""
    return place.with_suffix(".csv")


def _data(place: Path, title: str, *, parquet: bool) -> Html:
    """Return links to the data for other tools."""
    csv = element("a", csv_path(place).name, href=quote(csv_path(place).name))
    if not parquet:
        return element("p", "Data: ", csv, "; Parquet tables: ", element("code", f"zab analyze {title}"))
    folders = [element("a", f"{name}/", href=f"{name}/") for name in ("tables", "metrics")]
    return element("p", "Data: ", csv, "; Parquet tables: ", folders[0], " ", folders[1])


def _all(runs: list[CampaignRun], place: Path) -> Html:
    """Return the table of all runs. Those that did not end as expected come first."""
    ranked = sorted(runs, key=lambda run: (run.as_expected, run.name, run.seed or 0))
    rows = [
        (
            badge(run.verdict), run.name, run.campaign, "" if run.seed is None else run.seed, ", ".join(run.violated),
            run.numbers.get("writes_acked", ""), f"{run.unavailable:.3f}", _page(run, place),
        )
        for run in ranked[:MAX_RUNS]
    ]  # fmt: skip
    more = f" (the first {MAX_RUNS:,} of {len(runs):,}; {csv_path(place).name} has all)" if len(runs) > MAX_RUNS else ""
    heads = ("verdict", "scenario", "campaign", "seed", "violated", "writes acknowledged", "longest pause, s", "report")
    return element("div", table_by_campaign(f"All runs{more}", heads, rows, [3, 5, 6]), id="runs")


def _matrix(runs: list[CampaignRun]) -> Html:
    """Return the table of scenarios and properties: the worst judgement, and how many of the runs had it.

    Properties that were judged in no run have no column.
    """
    known = dict.fromkeys(name for run in runs for name in run.properties)
    names = [name for name in known if {run.properties.get(name, WORST[-1]) for run in runs} != {WORST[-1]}]
    left_out = [name for name in known if name not in names]
    rows = []
    for scenario, group in _grouped(runs):
        cells = [
            _cell(scenario, name, [run.properties[name] for run in group if name in run.properties]) for name in names
        ]
        unjudged = sum(run.verdict == NOT_JUDGED for run in group)
        rows.append((scenario, f"{len(group)}" + (f" ({unjudged} not judged)" if unjudged else ""), *cells))
    matrix = element("div", table("Scenarios and properties", ("scenario", "runs", *names), rows), class_="matrix")
    return element("div", matrix, element("p", f"Judged in no run: {', '.join(left_out)}") if left_out else "")


def _grouped(runs: list[CampaignRun]) -> list[tuple[str, list[CampaignRun]]]:
    """Return the runs of each scenario, or of each scenario in each campaign."""
    groups: dict[str, list[CampaignRun]] = {}
    for run in sorted(runs, key=lambda run: run.name):
        groups.setdefault(", ".join(filter(None, (run.name, run.campaign))), []).append(run)
    return list(groups.items())


def _cell(scenario: str, name: str, judgements: list[str]) -> Html | str:
    worst = next((word for word in WORST if word in judgements), None)
    if worst is None:
        return ""
    counts = Counter(judgements)
    words = SIGNS[worst] + (f" {counts[worst]}/{len(judgements)}" if worst in WORST[:2] else "")
    counted = ", ".join(f"{counts[word]} {word}" for word in WORST if counts[word])
    return element("span", words, class_=f"cell {worst.lower()}", data_tip=f"{scenario}, {name}: {counted}", tabindex=0)


def _recovery(runs: list[CampaignRun]) -> Html | None:
    """Return the table of the times from a fault to the next commit, by kind of fault and role of the node that it hit.

    Only the pipeline determines roles.
    """
    times: dict[tuple[str, str, str], list[tuple[float | None, CampaignRun]]] = {}
    for run in runs:
        for it in run.recoveries:
            times.setdefault((it.do, it.role, run.campaign), []).append((it.seconds, run))
    rows = []
    for (do, role, campaign), all_of in sorted(times.items(), key=lambda it: it[0][:2]):
        known = sorted(((one, run) for one, run in all_of if one is not None), key=lambda it: it[0])
        micros = [round(one * 1e6) for one, _ in known]
        shares = [f"{percentile(micros, share) / 1e6:.3f}" if micros else "" for share in (0.5, 0.9, 1.0)]
        strokes = strip((one, f"{do}: {one:.3f} s, {run.name}, {run.folder.name}") for one, run in known)
        rows.append((do, role, campaign, len(all_of), *shares, len(all_of) - len(known), strokes))
    heads = [
        "fault",
        "role hit",
        "campaign",
        "how often",
        "p50, s",
        "p90, s",
        "longest, s",
        "never",
        "distribution from 1 ms to 100 s, logarithmic; one stroke for each",
    ]
    optional = ("campaign", "role hit")
    return table_by_campaign("From a fault to the next commit", heads, rows, range(3, 8), optional) if rows else None


def _coverage(runs: list[CampaignRun]) -> Html | None:
    """Return the table of how often each kind of fault hit a node in each role and phase. An empty cell was never tested."""
    hits = Counter((do, run.campaign, place) for run in runs for do, place in run.hits)
    places = sorted({place for _, _, place in hits})
    most = max(hits.values(), default=1)
    kinds = sorted(dict.fromkeys((do, campaign) for do, campaign, _ in hits), key=lambda kind: kind[0])
    rows = [
        (do, campaign, *(_hit(do, place, hits[do, campaign, place], most) for place in places))
        for do, campaign in kinds
    ]
    caption = "Role and phase of the nodes that faults hit, and how often"
    numbers = range(2, len(places) + 2)
    return table_by_campaign(caption, ("fault", "campaign", *places), rows, numbers) if rows else None


def _hit(do: str, place: str, count: int, most: int) -> Html | str:
    """Return a cell with the number, in one of five shades."""
    if not count:
        return ""
    shade = min(4, int(5 * count / most))
    return element("span", count, class_=f"hit hit-{shade}", data_tip=f"{do} hit a node that was {place}: {count}")


def _slowest(runs: Iterable[CampaignRun], place: Path) -> Html | None:
    """Return the table of the runs with the longest times without a successful write."""
    slow = sorted((run for run in runs if run.unavailable), key=lambda run: -run.unavailable)[:SLOWEST]
    rows = [(run.name, run.campaign, badge(run.verdict), f"{run.unavailable:.3f}", *_where(run, place)) for run in slow]
    heads = ("scenario", "campaign", "verdict", "longest pause, s", "command that repeats it", "report")
    return table_by_campaign("The runs with the longest pauses of writes", heads, rows, [3]) if rows else None
