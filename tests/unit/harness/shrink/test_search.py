"""The search of shrinking with a rule instead of runs: whatever the budget, the result fails as the original did."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

import pytest

from zab_chaos.faults.scenario import Scenario, parse
from zab_chaos.harness.explore.exploration import SeedResult, Shown, violations_in
from zab_chaos.harness.explore.workers import LocalWorkers
from zab_chaos.harness.shrink.candidates import SLOWEST, fewer_operations, shrink, smallest, until_failed
from zab_chaos.harness.shrink.search import (
    Budget,
    Failed,
    Failure,
    OtherSeeds,
    Search,
    fails_with_all,
    failure_of,
    try_seeds,
    witness_seeds,
)
from zab_chaos.model.verdict import Evidence, Judgement, Outcome, Property, Verdict, Violation

T = TypeVar("T")
R = TypeVar("R")

FAILING = parse("""
[scenario]
name = "failing"
nodes = 5
duration = 2
seed = 1
[workload]
rate = 10
clients = 3
keys = 2
[[fault]]
at = 0.5
do = "latency"
target = "leader"
ms = 2
for = 1
[[fault]]
at = 1
do = "crash"
target = "node-4"
as = "First"
for = 1
[[fault]]
at = 1.5
do = "pause"
target = "First"
for = 0.5
[[fault]]
at = 1.8
do = "slow-disk"
target = "follower"
ms = 5
for = 1
""")


class InOrder:
    """Workers that do everything in this process."""

    def results(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        return map(work, items)


def fails(scenario: Scenario) -> bool:
    """The rule: a pause of the nodes that crashed, and two operations of client 2 (or a drawn load that has them).

    With more than one node latency is needed, too. So it can be left out only in the second round, after the nodes.
    """
    kinds = [step.do for step in scenario.faults]
    if scenario.operations:
        enough = sum(one.client == 2 for one in scenario.operations) > 1
    else:
        enough = scenario.workload.clients > 1 and scenario.workload.rate >= 10
    return enough and "crash" in kinds and "pause" in kinds and ("latency" in kinds or scenario.nodes == 1)


def search_with(fails: Callable[[Scenario], bool], tries: int = 10_000) -> Search:
    return timed_search(lambda scenario: math.inf if fails(scenario) else None, tries)


def timed_search(fails_at: Callable[[Scenario], float | None], tries: int = 10_000) -> Search:
    def try_candidate(scenario: Scenario) -> Failed | None:
        at = fails_at(scenario)
        return Failed(at, result("agreement")) if at is not None else None

    return Search(InOrder(), try_candidate, Budget(tries, None), lambda search: None)


def test_the_result_fails_and_nothing_more_can_be_left_out() -> None:
    search = search_with(fails)
    small = shrink(search, FAILING, lambda step: None)
    assert fails(small)
    assert [(step.do, step.target) for step in small.faults] == [("crash", "node-1"), ("pause", "First")]
    assert [one.client for one in small.operations] == [2, 2]
    assert small.nodes == 1
    assert search.best == small


@pytest.mark.slow
def test_any_budget_leaves_a_result_that_fails() -> None:
    whole = search_with(fails)
    shrink(whole, FAILING, lambda step: None)
    for tries in range(1, whole.budget.used, 5):
        search = search_with(fails, tries)
        assert fails(shrink(search, FAILING, lambda step: None))
        assert search.best is None or fails(search.best)
        assert search.budget.used == tries


def test_nothing_is_tried_twice() -> None:
    tried: list[str] = []

    def noted(scenario: Scenario) -> bool:
        tried.append(scenario.to_toml())
        return fails(scenario)

    shrink(search_with(noted), FAILING, lambda step: None)
    assert len(tried) == len(set(tried))


def test_a_candidate_that_is_known_to_fail_is_found_without_a_try() -> None:
    search = search_with(fails)
    passing, failing = replace(FAILING, faults=()), replace(FAILING, duration=1.9)
    assert search.first_failing([passing, failing]) == 1
    assert search.budget.used == 2
    assert search.first_failing([passing, failing, replace(FAILING, nodes=4)]) == 1
    assert search.budget.used == 2


def test_a_candidate_that_is_proposed_twice_is_submitted_once() -> None:
    """Otherwise the number of tries would depend on how many candidates are submitted before the first result."""
    submitted: list[Scenario] = []

    class Ahead:
        def results(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
            submitted.extend(found := list(items))  # type: ignore[arg-type]
            return map(work, found)

    search = Search(Ahead(), lambda scenario: None, Budget(None, None), lambda search: None)
    search.first_failing([FAILING, FAILING])
    assert len(submitted) == 1


def test_what_passed_is_not_tried_again_when_more_is_required() -> None:
    search = search_with(lambda scenario: len(scenario.faults) > 0)
    passing, failing = replace(FAILING, faults=()), replace(FAILING, nodes=4)
    assert search.first_failing([passing, failing]) == 1
    search.require(lambda scenario: None)
    assert search.first_failing([passing, failing]) is None
    assert search.budget.used == 3


def test_the_load_ends_when_the_scenario_has_failed_and_again_when_that_was_earlier() -> None:
    ends: list[float] = []

    def fails_at(scenario: Scenario) -> float:
        ends.append(scenario.duration)
        return 0.95 if scenario.duration < 1.4 else 1.2

    search = timed_search(fails_at)
    search.remember(FAILING, 1.32)
    small = until_failed(search, FAILING)
    assert ends == [1.4, 1.3, 1.0]
    assert small.duration == 1.0
    assert [step.at for step in small.faults] == [0.5, 1]


@pytest.mark.parametrize("at", [1.99, 2.3, math.inf])
def test_the_load_does_not_end_later_than_before(at: float) -> None:
    search = timed_search(lambda scenario: at)
    search.remember(FAILING, at)
    assert until_failed(search, FAILING) == FAILING
    assert search.budget.used == 0


def test_what_fails_before_the_load_is_found_with_the_first_try() -> None:
    """The first candidate is the cheapest one: no faults, half a second of the slowest load, and one client."""
    search = timed_search(lambda scenario: -0.02)
    search.remember(FAILING, -0.02)
    small = smallest(search, FAILING)
    assert search.budget.used == 1
    assert (small.faults, small.duration, small.workload.clients) == ((), 0.5, 1)
    assert {name: getattr(small.workload, name) for name in SLOWEST} == SLOWEST


def test_the_smallest_scenarios_are_tried_from_short_to_long() -> None:
    tried: list[tuple[float, float, int]] = []

    def fails_at(scenario: Scenario) -> None:
        tried.append((scenario.duration, scenario.workload.rate, len(scenario.faults)))

    search = timed_search(fails_at)
    search.remember(FAILING, 1.32)
    assert smallest(search, FAILING) == FAILING
    assert tried == [(0.5, 0.1, 0), (0.5, 10, 0), (1.4, 0.1, 0), (1.4, 10, 0), (2, 0.1, 0), (2, 10, 0)]


@pytest.mark.parametrize(("written", "listed", "left"), [(20, 2, 2), (20, 1, 0), (19, 2, 0)])
def test_a_load_of_which_many_operations_are_needed_stays_a_rate(
    written: int, listed: int, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the 20 operations of the load two are needed. `written`, `listed`: as many may be tried, and be in the result."""
    monkeypatch.setattr("zab_chaos.harness.shrink.candidates.WRITTEN_OUT_MAX", written)
    monkeypatch.setattr("zab_chaos.harness.shrink.candidates.LISTED_MAX", listed)
    assert len(fewer_operations(search_with(fails), FAILING).operations) == left


def test_a_load_that_is_not_needed_becomes_the_slowest() -> None:
    search = search_with(lambda scenario: True)
    small = fewer_operations(search, replace(FAILING, workload=replace(FAILING.workload, burst=5)))
    assert small.operations == ()
    assert {name: getattr(small.workload, name) for name in SLOWEST} == SLOWEST
    assert fewer_operations(search, small) == small


def test_the_operations_of_a_slow_load_that_come_at_once_are_reduced_too() -> None:
    many = replace(FAILING, workload=replace(FAILING.workload, rate=0.1, burst=10, clients=1))
    search = search_with(lambda scenario: len(scenario.operations) > 1 or scenario.workload.burst > 1)
    assert len(fewer_operations(search, many).operations) == 2


@pytest.mark.parametrize(
    ("verdict", "violated", "failure"),
    [
        ("VIOLATION", ["agreement", "durability"], Failure(verdict="VIOLATION", property="durability")),
        ("VIOLATION", ["agreement", "prefix"], Failure(verdict="VIOLATION", property="agreement")),
        ("HARNESS-ERROR", [], Failure(verdict="HARNESS-ERROR", property=None)),
    ],
)
def test_the_failure_that_is_kept(verdict: str, violated: list[str], failure: Failure) -> None:
    judged = Verdict(
        verdict=Outcome(verdict),
        exit=Outcome(verdict).exit_code,
        reasons=[],
        metrics={},
        properties=[
            Property(name=name, source="", verdict=Judgement.VIOLATION, statement="", checked=1) for name in violated
        ],
    )
    found = SeedResult.judged(FAILING, 1, judged, seconds=1.0, faults=Counter(), operations={})
    assert failure_of(found, ["durability", "promises"]) == failure
    assert failure.shows_in(found)
    assert not failure.shows_in(replace(found, verdict="PASS", violated=[]))
    assert failure_of(replace(found, met=True), []) is None


AGREEMENT = Failure(verdict="VIOLATION", property="agreement")


@pytest.fixture
def odd_seeds_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that all scenarios fail with odd seeds, at the second of the seed."""

    def fails_with(defect: str | None, failure: Failure, scenario: Scenario) -> Failed | None:
        return Failed(float(scenario.seed), result("agreement")) if scenario.seed % 2 else None

    monkeypatch.setattr("zab_chaos.harness.shrink.search._fails_with_its_seed", fails_with)


@pytest.mark.usefixtures("odd_seeds_fail")
def test_a_candidate_has_to_fail_with_the_next_two_seeds_that_fail() -> None:
    """Of the four seeds after 2, which are tried first, 3 and 5 fail."""
    told: list[str] = []
    scenario, budget = replace(FAILING, seed=2), Budget(None, None)
    assert witness_seeds(LocalWorkers(1), None, AGREEMENT, scenario, budget, told.append) == {3: 3.0, 5: 5.0}
    assert told[-1] == "3 of 4 other seeds tried, 2 fail as well"  # two are enough
    assert budget.used == 3


@pytest.mark.usefixtures("odd_seeds_fail")
def test_other_seeds_are_tried_only_within_the_budget() -> None:
    budget = Budget(tries=10, seconds=None, used=7)
    found = try_seeds(LocalWorkers(1), None, AGREEMENT, FAILING, range(1, 21), budget, lambda words: None)
    assert found == OtherSeeds(3, {1: 1.0, 3: 3.0})
    assert budget.used_up
    rest = try_seeds(LocalWorkers(1), None, AGREEMENT, FAILING, range(1, 21), budget, lambda words: None)
    assert rest == OtherSeeds(0, {})


def test_a_try_ends_between_two_seeds_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    now = 0.0

    def simulated(task: object, seed: int) -> SeedResult:
        nonlocal now
        now += 4.0
        seeds.append(seed)
        shown = (Shown(property="agreement", words="", at=float(seed), milestones=frozenset()),)
        return replace(result("agreement"), shown=shown)

    monkeypatch.setattr("zab_chaos.harness.shrink.search.simulate_seed", simulated)
    monkeypatch.setattr("zab_chaos.harness.shrink.search.time.monotonic", lambda: now)
    latest = fails_with_all(None, AGREEMENT, [3, 2, 1], 100.0, FAILING)
    assert latest is not None
    assert latest.at == 3.0
    assert fails_with_all(None, AGREEMENT, [3, 2, 1], 17.0, FAILING) is None
    assert seeds == [3, 2, 1, 3, 2]


# ---- which violation is kept ----


def broken(name: str, *lines: tuple[str, dict[str, object]]) -> Property:
    """Return a violated property, with a violation for each line of evidence."""
    violations = [Violation(f"{file} is wrong", [Evidence(file, 1, event)]) for file, event in lines]
    return Property(name=name, source="", verdict=Judgement.VIOLATION, statement="", checked=1, violations=violations)


def result(*violated: str) -> SeedResult:
    properties = [broken(name) for name in violated]
    judged = Verdict(verdict=Outcome.VIOLATION, exit=1, reasons=[], metrics={}, properties=properties)
    return SeedResult.judged(FAILING, 1, judged, seconds=1.0, faults=Counter(), operations={})


JUDGED = Verdict(
    verdict=Outcome.VIOLATION,
    exit=1,
    reasons=[],
    metrics={},
    properties=[
        broken("recovery", ("harness.jsonl", {"event": "not-converged", "t": 9_000_000_000})),
        broken(
            "progress",
            ("ops.jsonl", {"t": 8_000_000_000}),
            ("harness.jsonl", {"event": "safety-ended", "t": 6_000_000_000}),
        ),
        broken("channels", ("trace/node-1.jsonl", {"t": 4_000_000_000}), ("trace/node-2.jsonl", {"t": 2_500_000_000})),
    ],
)


def test_violations_have_the_order_of_the_headline_and_times_since_the_load_began() -> None:
    shown = violations_in(JUDGED, 1_000_000_000)
    assert [(one.property, one.at, sorted(one.milestones)) for one in shown] == [
        ("channels", 1.5, []),
        ("channels", 3.0, []),
        ("progress", 5.0, ["safety-ended"]),
        ("progress", 7.0, []),
        ("recovery", 8.0, ["not-converged"]),
    ]


def test_the_property_of_the_headline_is_kept() -> None:
    found = replace(result("recovery", "progress", "channels"), shown=violations_in(JUDGED, 0))
    kept = failure_of(found, [])
    assert kept == Failure(verdict="VIOLATION", property="channels", milestones=frozenset())
    assert kept.seen_at(found) == 2.5
    assert kept.words_in(found) == "trace/node-2.jsonl is wrong"


def test_another_violation_of_the_property_does_not_count() -> None:
    found = replace(result("recovery", "progress", "channels"), shown=violations_in(JUDGED, 0))
    late = Failure(verdict="VIOLATION", property="progress", milestones=frozenset())
    assert late.seen_at(found) == 8.0
    other = replace(found, shown=tuple(one for one in found.shown if one.property != "progress" or one.milestones))
    assert late.seen_at(other) is None
    assert replace(late, milestones=None).seen_at(other) == 6.0
