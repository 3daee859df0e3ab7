"""The metrics of a verdict, compared with values computed by hand."""

from pathlib import Path
from typing import Any

import pytest

from tests.corpus.story import STEP, ensemble
from zab_chaos.model.events import Complete, Heal, Inject, Invoke
from zab_chaos.model.oracle.facts import Facts
from zab_chaos.model.oracle.measures import (
    AFTERMATH_NS,
    IDLE_NS,
    longest_pause,
    pause_after,
    pauses,
    percentile,
    seconds,
)
from zab_chaos.model.oracle.oracle import judge


@pytest.mark.parametrize(
    ("value", "expected"), [(5, 5.0), (2.5, 2.5), ("5s", 5.0), ("800ms", 0.8), ("2 min", 120.0), ("1.5", 1.5)]
)
def test_times_as_scenarios_write_them(value: object, expected: float) -> None:
    assert seconds(value) == expected


@pytest.mark.parametrize("value", ["soon", "5 fortnights", "-1s", "", True, None])
def test_an_invalid_time_is_refused_with_an_example(value: object) -> None:
    with pytest.raises(ValueError, match="800ms"):
        seconds(value)


def test_nearest_rank() -> None:
    assert percentile([7], 0.5) == 7
    assert percentile([1, 2, 3, 4], 0.5) == 2
    assert percentile(list(range(1, 101)), 0.99) == 99
    assert percentile([1, 2], 0.99) == 2


@pytest.mark.parametrize(
    ("writes", "expected"),
    [
        ([], 0.0),
        ([(10, 11, "ok"), (20, 21, "ok"), (30, 31, "ok")], 1),
        ([(10, 11, "ok"), (20, 51, "ok"), (30, 52, "ok")], 31),  # due at 20, next success at 51
        ([(10, 11, "ok"), (100, 101, "ok")], 1),  # nothing was due in between
        ([(10, 11, "ok"), (20, None, ""), (60, None, "")], 40),  # no success any more: from 20 to the last due write
        ([(10, None, ""), (20, None, "")], 10),
        ([(10, 11, "bad version"), (100, 101, "ok")], 1),  # the refused one is served, too
        ([(10, 20, "bad version"), (30, 31, "no leader"), (35, 70, "overloaded"), (75, 80, "ok")], 50),
        ([(0, 5, "no leader"), (5 + IDLE_NS, 6 + IDLE_NS, "ok")], 6 + IDLE_NS),  # the next write comes soon enough ...
        ([(0, 5, "no leader"), (6 + IDLE_NS, 7 + IDLE_NS, "ok")], 5),  # ... and here nobody wants to write any more
        ([(0, 5, "unknown"), (6 + IDLE_NS, None, ""), (9 + IDLE_NS, None, "")], 5),
        # A client that asks for one thing at a time lags: at 50 the writes of 20 and 30 still wait.
        ([(10, 50, "ok"), (20, 120, "unknown"), (30, None, ""), (95, 100, "ok")], 50),
        ([(5, 30, "no leader"), (10, 20, "ok"), (60, 70, "ok")], 50),  # the refused one still waits at 20
        ([(5, 8, "no leader"), (10, 20, "ok"), (60, 70, "ok")], 15),  # at 20 nobody waits, a write succeeds at 20
    ],
)
def test_unavailability_counts_while_a_write_waits(writes: list[tuple[int, int | None, str]], expected: float) -> None:
    begin, end = longest_pause(facts_of(writes))
    assert end - begin == expected


def test_writes_after_the_end_are_not_counted() -> None:
    assert list(pauses([(10, 11), (20, 200), (150, 151)], [11, 151, 200], end=100)) == [(10, 11), (20, 100)]


def facts_of(writes: list[tuple[int, int | None, str]]) -> Facts:
    """Return the facts of writes, each given as (due, answered, outcome), or with the error of a failed one."""
    facts = Facts()
    for seq, (due, _, _) in enumerate(writes, 1):
        facts.invoke(Invoke(t=due, due=due, line=seq, client=1, seq=seq, node=1, op="set", path="/key-0", value=seq))
    for seq, (_, answered, outcome) in enumerate(writes, 1):
        if answered is not None:
            error = outcome if outcome not in ("ok", "unknown") else None
            known: Any = "failed" if error else outcome
            facts.complete(Complete(t=answered, line=0, client=1, seq=seq, outcome=known, error=error))
    return facts


@pytest.mark.parametrize(
    ("injects", "expected"),
    [
        ({}, None),
        ({"crash": 15}, "crash"),
        ({"wipe": 5, "crash": 15}, "crash"),
        ({"pause": 30}, "pause"),  # it began during the pause
        ({"crash": 60}, None),  # it began after the pause
    ],
)
def test_a_pause_is_explained_by_the_fault_before_it(injects: dict[str, int], expected: str | None) -> None:
    facts = paused()
    for number, (do, t) in enumerate(injects.items()):
        facts.inject(Inject(id=number, t=t, line=1, do=do, target="one", nodes=[1], confirmed=True))
    assert pause_after(facts, longest_pause(facts)) == expected


def test_a_fault_that_ended_long_before_does_not_explain_a_pause() -> None:
    facts = paused(late=AFTERMATH_NS + 100)
    facts.inject(Inject(id=1, t=5, line=1, do="partition", target="one", nodes=[1], confirmed=True))
    facts.heal(Heal(id=1, t=50, line=2, confirmed=True))
    assert pause_after(facts, longest_pause(facts)) is None


def paused(late: int = 0) -> Facts:
    """Return the facts of two writes that succeed at 11 and 51, the second one due at 20, all times plus `late`."""
    return facts_of([(late + 10, late + 11, "ok"), (late + 20, late + 51, "ok")])


@pytest.mark.parametrize("converged", [True, False])
def test_the_metrics_of_a_run_worked_out_by_hand(converged: bool, tmp_path: Path) -> None:
    story = ensemble(writes=2)
    story.invoke(2, "get")
    story.complete(3, story.invoke(3, "delete", "/b"), (1, 2), "failed", error="no node")
    story.commit()  # nobody gets its answer
    story.crash(3)
    story.members = [1, 2]
    story.write()
    story.crash(1)
    story.event(2, "role", role="LEADING", leader=2, why="elected")
    story.event(2, "role", role="LOOKING", leader=None, why="nobody follows")
    story.boot(3)
    story.elect(2, epoch=2, members=[2, 3])
    story.write()
    story.boot(1)
    story.join(1)
    story.settle(converged=converged, seconds=0.25)
    story.save(tmp_path / "run")
    step = STEP / 1e9
    assert judge(tmp_path / "run").metrics == {
        "acked": 4, "failed": 1, "unknown": 2,
        "writes_acked": 4, "writes_failed": 1, "writes_unknown": 1, "unknown_with_effect": 1,
        "delivered": 5, "elections": 3, "epochs": 2, "lives": 5,
        "latency_p50_ms": 7.0, "latency_p99_ms": 9.0,
        "faults": [
            {"do": "crash", "id": 1, "nodes": [3], "seconds": 6 * step},
            {"do": "crash", "id": 2, "nodes": [1], "seconds": 27 * step},
        ],
        "longest_unavailability_s": 30 * step, "longest_unavailability_fault": "crash",
        "converged_s": 0.25 if converged else None,
    }  # fmt: skip
