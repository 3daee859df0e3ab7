"""Writes the page that compares two campaigns: what got worse or better, and how certain that is."""

from collections.abc import Iterable, Sequence

from zab_chaos.harness.report.html.document import document
from zab_chaos.harness.report.html.markup import Html, element, join, table
from zab_chaos.pipeline.comparison import LEAST_EFFECT, SIGNIFICANCE_LEVEL, ComparedValue, Comparison, VerdictCounts

BADGES = {
    "worse": ("✗ worse", "violation"),
    "better": ("✓ better", "pass"),
    "same": ("– no difference", "not-applicable"),
}
# Of a difference that is certain, but smaller than the least effect.
SMALL = (f"– below {LEAST_EFFECT:.0%}", "not-applicable")
HEADS = (
    "",
    "scenario",
    "what",
    "first, then second",
    "95 % confidence interval of the difference",
    "corrected p",
    "runs",
)
READING = (
    "The unit is the run. Every run gives one value of each number, however many operations it had, because operations of "
    "one run share its faults. Values are means over runs.",
    "Latencies are those of successful operations. Read them together with unknown_share, the share of the operations whose "
    "outcome is unknown: nobody knows how long these would have taken.",
    "The confidence interval shows how large the true difference may be. A narrow one around 0 means that there is "
    "hardly any difference; a wide one means that there were too few runs, or that they vary much.",
    "p is the probability that chance alone makes a difference as large (for numbers the paired t-test if both campaigns "
    "have the same seeds, else Welch's t-test; for verdicts Fisher's exact test). Of many comparisons some look different "
    "by chance, so all p-values are corrected together by Holm's method: if nothing has changed, only one page in twenty "
    "shows any difference.",
    f"worse and better mean: corrected p below {SIGNIFICANCE_LEVEL:g}, and a difference of at least {LEAST_EFFECT:.0%} of "
    f"the first campaign's value; below {LEAST_EFFECT:.0%} means that the difference is certain, but smaller than that. No "
    "difference means that none was shown, not that there is none.",
    "A violation counts, however rare it is: the verdicts of every scenario are listed, even if their numbers differ by no "
    "more than chance.",
)


def comparison_page(found: Comparison, names: Sequence[str]) -> str:
    """Return the page as a whole HTML file. `names`: where the first and the second campaign are."""
    header = element(
        "header",
        element("h1", "Two campaigns compared"),
        element("p", element("b", found.words)),
        element("p", "first: ", element("code", names[0]), element("br"), "second: ", element("code", names[1])),
    )
    same = [it for it in found.compared if it.change == "same"]
    main = element(
        "main",
        _verdicts(found.counts),
        _differences("What differs", found.differences) if found.differences else None,
        element("p", "Nothing that was compared got worse or better.") if not found.differences else None,
        _differences("What got neither worse nor better", same) if same else None,
        element("section", element("h2", "How to read this"), *(element("p", words) for words in READING)),
    )
    return document("Two campaigns compared", header, main)


def _verdicts(counts: Iterable[VerdictCounts]) -> Html:
    rows = [(it.scenario, it.words, join(*(_example(run) for run in it.violations))) for it in counts]
    return table("Verdicts", ("scenario", "runs and verdicts, first, then second", "violated in the second"), rows)


def _differences(caption: str, rows: Iterable[ComparedValue]) -> Html:
    return element("div", table(caption, HEADS, [_row(it) for it in rows]), class_="compared")


def _row(it: ComparedValue) -> tuple[object, ...]:
    words, style = SMALL if it.change == "same" and it.p < SIGNIFICANCE_LEVEL else BADGES[it.change]
    shown = [_example(run) for run in it.examples] if it.change != "same" else []
    return (
        element("span", words, class_=f"badge {style}"),
        it.scenario,
        join(it.what, element("br"), element("small", it.about)),
        join(it.effect, *shown),
        it.interval,
        it.p_words.removeprefix("p = ").removeprefix("p "),
        f"{it.runs[0]} and {it.runs[1]}",
    )


def _example(run: dict[str, str]) -> Html:
    """Return an example: the path of a run, why it is one, and the command that repeats it."""
    command = (element("br"), element("code", run["command"])) if run["command"] else ()
    return element("p", element("small", f"{run['path']}: {run['why']}", *command))
