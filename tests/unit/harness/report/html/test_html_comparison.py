"""The page that compares two campaigns."""

from typing import Any

from tests.unit.harness.report.html.analysed import analysed
from zab_chaos.harness.report.html.comparison_page import comparison_page
from zab_chaos.pipeline.comparison import compare


def page(before: float, after: float, **facts: Any) -> str:
    """Return the page for five and seven runs, with the given numbers of operations per second."""
    old, new = (
        [analysed("outage", seed, acked_per_second=value + seed) for seed in range(1, runs + 1)]
        for value, runs in ((before, 5), (after, 7))
    )
    for run in new:
        run.facts.update(facts)
    return comparison_page(compare(old, new), ("before", "after"))


def test_a_difference_is_told_in_words_with_its_interval_and_the_run_that_shows_it() -> None:
    told = page(200, 100)
    assert "1 worse in 3 comparisons" in told
    assert told.index("What differs") < told.index("✗ worse") < told.index("What got neither worse nor better")
    assert "203 1/s, then 104 1/s: -99 1/s (-48.8 %)" in told
    assert "-101 to -96.6 1/s" in told
    assert "/results/outage/1: acked_per_second was 101 1/s" in told
    assert "zab run outage --seed 1" in told
    assert "5 and 7" in told
    assert "first: <code>before</code><br>second: <code>after</code>" in told


def test_latencies_come_with_the_share_of_operations_that_they_do_not_count() -> None:
    old, new = (
        [
            analysed("hang", seed, latency_p99_ms=900.0 + seed, unknown_share=share * (1 + seed / 10))
            for seed in range(1, 6)
        ]
        for share in (0.2, 0.3)
    )
    told = comparison_page(compare(old, new), ("before", "after"))
    row = told[: told.index("unknown_share<br>")].rpartition("<tr>")[2]
    assert "✗ worse" in row
    assert "0.26, then 0.39: +0.13 (+50 %)" in told
    assert told.index("unknown_share<br>") < told.index("latency_p99_ms<br>")


def test_the_page_says_that_there_is_no_difference() -> None:
    told = page(200, 200)
    assert "no difference in 3 comparisons" in told
    assert "Nothing that was compared got worse or better." in told
    assert "✗ worse" not in told
    assert "– below 5%" not in told[: told.index("How to read this")]


def test_a_certain_difference_that_is_small_is_not_called_no_difference() -> None:
    told = page(2000, 1960)
    assert "Nothing that was compared got worse or better." in told
    row = told[: told.index("acked_per_second<br>")].rpartition("<tr>")[2]
    assert "– below 5%" in row
    assert "no difference" not in row


def test_the_comparison_page_escapes_all_texts() -> None:
    told = page(200, 100, command="<script>alert(1)</script>")
    assert "<script>alert" not in told
    assert "&lt;script&gt;alert" in told


def test_a_violation_is_listed_whether_or_not_it_is_a_difference() -> None:
    old, new = ([analysed("outage", seed) for seed in range(1, 6)] for _ in range(2))
    new[3].json.update(verdict="VIOLATION", reasons=["it broke"])
    told = comparison_page(compare(old, new), ("before", "after"))
    listed = told[told.index("violated in the second") : told.index("</table>")]
    assert "/results/outage/4: it broke<br><code>zab run outage --seed 4</code>" in listed
    assert "Nothing that was compared got worse or better." in told


def test_what_got_better_is_not_listed_as_no_difference() -> None:
    told = page(100, 200)
    assert told.count("acked_per_second<br>") == told.count("✓ better") == 1
