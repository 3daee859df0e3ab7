"""The search of shrinking with a rule instead of runs: whatever the budget, the result fails as the original did."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

import pytest

from zab_chaos.faults.scenario import Scenario, parse
from zab_chaos.harness.explore.exploration import SeedResult
from zab_chaos.harness.explore.workers import LocalWorkers
from zab_chaos.harness.shrink.candidates import fewer_operations, shrink
from zab_chaos.harness.shrink.search import Budget, Failure, Search, failure_of, witness_seeds
from zab_chaos.model.verdict import Judgement, Outcome, Property, Verdict

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
    return Search(InOrder(), fails, Budget(tries, None), lambda search: None)


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
    for tries in range(1, whole.tries, 5):
        search = search_with(fails, tries)
        assert fails(shrink(search, FAILING, lambda step: None))
        assert search.best is None or fails(search.best)
        assert search.tries == tries


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
    assert search.tries == 2
    assert search.first_failing([passing, failing, replace(FAILING, nodes=4)]) == 1
    assert search.tries == 2


@pytest.mark.parametrize(("written", "listed", "left"), [(20, 2, 2), (20, 1, 0), (19, 2, 0)])
def test_a_load_of_which_many_operations_are_needed_stays_a_rate(
    written: int, listed: int, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the 20 operations of the load two are needed. `written`, `listed`: as many may be tried, and be in the result."""
    monkeypatch.setattr("zab_chaos.harness.shrink.candidates.WRITTEN_OUT_MAX", written)
    monkeypatch.setattr("zab_chaos.harness.shrink.candidates.LISTED_MAX", listed)
    assert len(fewer_operations(search_with(fails), FAILING).operations) == left


def test_a_load_that_is_not_needed_is_not_written_out() -> None:
    assert fewer_operations(search_with(lambda scenario: True), FAILING) == FAILING


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


def test_a_candidate_has_to_fail_with_the_seed_and_the_next_two_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the four seeds after 2, which are tried with the original scenario, three fail."""

    def fails_with(defect: str | None, failure: Failure, scenario: Scenario) -> bool:
        return scenario.seed in {3, 5, 6}

    monkeypatch.setattr("zab_chaos.harness.shrink.search._fails_with_its_seed", fails_with)
    kept, told = Failure(verdict="VIOLATION", property="agreement"), list[str]()
    assert witness_seeds(LocalWorkers(1), None, kept, FAILING, 2, told.append) == [2, 3, 5]
    assert told[-1] == "4 of 4 other seeds tried, 3 fail as well"
