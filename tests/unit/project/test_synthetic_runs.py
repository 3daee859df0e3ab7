"""The events that the pipeline is measured on: good runs, of the length and number that were asked for."""

import json
from pathlib import Path

import pytest

from benchmarks.pipeline import shape
from benchmarks.synthetic import EVENTS, SyntheticRun, campaign
from zab_chaos.harness.runs.judgement import judge


@pytest.mark.parametrize(("transactions", "batch"), [(1, 1), (7, 3), (250, 100)])
def test_the_oracle_finds_nothing_wrong(transactions: int, batch: int, tmp_path: Path) -> None:
    SyntheticRun(transactions, batch).save(tmp_path / "run")
    verdict = judge(tmp_path / "run")
    assert (verdict.verdict, verdict.reasons) == ("PASS", [])
    assert verdict.metrics["delivered"] == verdict.metrics["acked"] == transactions


def test_a_transaction_has_as_many_events_as_are_counted(tmp_path: Path) -> None:
    SyntheticRun(10, 1).save(tmp_path / "run")
    names = ("broadcast", "accept", "deliver")
    lines = [json.loads(line) for path in tmp_path.rglob("*.jsonl") for line in path.read_text().splitlines()]
    counted = sum(line.get("event") in names or line.get("type") in ("invoke", "complete") for line in lines)
    assert counted == 10 * EVENTS


def test_runs_differ_so_that_none_is_a_copy(tmp_path: Path) -> None:
    assert campaign(tmp_path, 3, 5, 2) == 3 * 5 * EVENTS
    assert len({path.read_text() for path in tmp_path.rglob("run.json")}) == 3


def test_a_broken_one_is_noticed(tmp_path: Path) -> None:
    """So the PASS above says something."""
    run = SyntheticRun(20, 5)
    run.traces[1] = [
        line.replace(b'"event":"deliver","epoch":2', b'"event":"deliver","epoch":3') for line in run.traces[1]
    ]
    run.save(tmp_path / "run")
    assert judge(tmp_path / "run").verdict == "VIOLATION"


@pytest.mark.parametrize(("events", "runs"), [(1_000_000, 1), (10_000_000, 10), (2000, 1)])
def test_the_shape_of_so_many_events(events: int, runs: int) -> None:
    made, transactions = shape(events)
    assert made == runs
    assert 0.99 * events <= made * transactions * EVENTS <= events
