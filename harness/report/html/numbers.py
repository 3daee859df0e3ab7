"""Writes the pipeline's numbers as tables: means over runs with confidence intervals, by scenario and by ensemble size."""

from collections.abc import Iterator
from typing import Any

from zab_chaos.harness.report.html.markup import Html, element, table_by_campaign
from zab_chaos.harness.report.html.sparkline import whisker
from zab_chaos.pipeline.naming import format_number

Group = dict[str, Any]
NOTE = "Mean over runs ± half of its 95 % confidence interval (Student's t). A single run has no interval."


def number_tables(summary: dict[str, Any]) -> Iterator[Html]:
    """Yield a table by scenario, and one by ensemble size if there are several sizes."""
    yield _table("Numbers by scenario", "scenario", summary["scenarios"], summary["numbers"])
    if len({group["name"] for group in summary["sizes"]}) > 1:
        yield _table("Numbers by ensemble size", "ensemble", summary["sizes"], summary["numbers"])


def _table(caption: str, by: str, groups: list[Group], known: list[dict[str, str]]) -> Html:
    shown = [it for it in known if any(group["numbers"][it["name"]]["n"] for group in groups)]
    ranges = {it["name"]: _range(groups, it["name"]) for it in shown}
    rows = [
        (group["name"], group["campaign"], group["runs"], *(_cell(group, it, *ranges[it["name"]]) for it in shown))
        for group in groups
    ]
    heads = (by, "campaign", "runs", *(element("span", _head(it), data_tip=it["about"], tabindex=0) for it in shown))
    numbers = range(2, len(shown) + 3)
    return element("div", table_by_campaign(caption, heads, rows, numbers), element("p", NOTE), class_="numbers")


def _head(number: dict[str, str]) -> str:
    """Return the head of a column: for `latency_p50_ms` it is `latency p50, ms`."""
    name, unit = number["name"], number["unit"]
    short = name.removesuffix(f"_{unit}") if unit else name
    return short.replace("_", " ") + (f", {unit}" if unit and unit != "1/s" else "")


def _range(groups: list[Group], name: str) -> tuple[float, float]:
    """Return the scale of a column: from 0 to the highest end of a confidence interval."""
    found = [group["numbers"][name] for group in groups if group["numbers"][name]["n"]]
    return 0.0, max(it["mean"] + (it["within"] or 0.0) for it in found)


def _cell(group: Group, number: dict[str, str], low: float, high: float) -> Html | str:
    it = group["numbers"][number["name"]]
    if not it["n"]:
        return ""
    words = format_number(it["mean"]) + ("" if it["within"] is None else f" ± {format_number(it['within'])}")
    where = ", ".join(filter(None, (group["name"], group["campaign"])))
    tooltip = f"{where}, {number['name']}: {words} {number['unit']}".rstrip() + f", {it['n']} runs"
    return element("span", words, element("br"), whisker(it["mean"], it["within"], low, high), data_tip=tooltip)


def catch_up_table(summary: dict[str, Any]) -> Html | None:
    """Return a table of how nodes got the history that they lacked, and how much of it; None if none lacked any."""
    rows = [
        (row["kind"], row["campaign"], row["times"], row["transactions"], row["cut"], f"{row['bytes'] / 2**20:.3f}")
        for row in summary["catching_up"]
    ]
    heads = ("how", "campaign", "how often", "transactions added", "transactions cut off", "snapshots, MiB")
    return table_by_campaign("How nodes caught up", heads, rows, range(2, 6)) if rows else None
