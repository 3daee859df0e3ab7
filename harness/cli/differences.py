"""Print the comparison of two campaigns (`zab analyze --compare`) on the terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from zab_chaos.harness.report.console import say

if TYPE_CHECKING:
    from zab_chaos.pipeline.comparison import ComparedValue, Comparison

STYLES = {"worse": "bold red", "better": "green"}


def show_comparison(found: "Comparison", names: Sequence[str], console: Console) -> None:
    """Print the verdicts of both campaigns, each difference with the runs that show it, and the statistical criterion."""
    from zab_chaos.pipeline.comparison import LEAST_EFFECT, SIGNIFICANCE_LEVEL

    say(console, f"first    {names[0]}\nsecond   {names[1]}\n")
    for scenario in found.counts:
        say(console, f"{scenario.scenario}: {scenario.words}")
        shown = {run["path"] for difference in found.differences for run in difference.examples}
        for run in (run for run in scenario.violations if run["path"] not in shown):
            say(console, f"  violated in {run['path']}: {run['why']}", "red")
    for difference in found.differences:
        _show_difference(difference, console)
    say(console, f"\n{found.words}", "bold")
    if found.compared:
        say(
            console,
            f"A difference is reported if it is at least {LEAST_EFFECT:.0%} of the first campaign's value and statistically "
            f"significant: p < {SIGNIFICANCE_LEVEL:g} after Holm's correction for {len(found.compared)} comparisons. "
            "Each run counts once. "
            "Smaller differences may exist that so few runs cannot show.",
        )


def _show_difference(difference: "ComparedValue", console: Console) -> None:
    text = Text(f"\n{difference.change.upper():7}", STYLES[difference.change])
    text.append(f" {difference.scenario}: {difference.what}", "bold")
    text.append(f" ({difference.about})", "dim")
    text.append(f"\n        {difference.effect}", "")
    text.append(
        f"\n        95 % confidence interval of the difference: {difference.interval}; {difference.p_words}, corrected; "
        f"{difference.runs[0]} and {difference.runs[1]} runs"
    )
    for run in difference.examples:
        text.append(f"\n        see {run['path']}: {run['why']}", "dim")
    say(console, text)
