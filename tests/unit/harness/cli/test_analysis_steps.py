"""The progress of an analysis without a terminal: a plain line for each step, and more for long steps."""

import threading
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from rich.console import Console

from zab_chaos.harness.cli.analysis_steps import StepProgress, step_progress


class Tracker:
    """A fake of Spark's StatusTracker: one stage that has just ended, and two that are running."""

    def __init__(self) -> None:
        self.stages: dict[int, Any] = {
            1: None,
            2: SimpleNamespace(numTasks=8, numCompletedTasks=3),
            3: SimpleNamespace(numTasks=4, numCompletedTasks=0),
        }

    def getActiveStageIds(self) -> list[int]:  # noqa: N802
        return list(self.stages)

    def getStageInfo(self, stage: int) -> Any:  # noqa: N802
        return self.stages[stage]


def test_every_step_is_a_line() -> None:
    console = Console(file=StringIO(), width=20)
    with step_progress(console) as now:
        now.step("reading runs 1 to 500 of 1000")
        now.step("[judging] runs")
    assert console.file.getvalue() == "reading runs 1 to 500 of 1000\n[judging] runs\n"  # type: ignore[attr-defined]


def test_a_long_step_is_repeated_with_its_tasks() -> None:
    told: list[str] = []
    now = StepProgress(told.append, 60)
    now.step("measuring")
    now.report_tasks(Tracker())  # type: ignore[arg-type]
    assert told == ["measuring", "measuring: 3 of 12 tasks done"]


def test_nothing_is_printed_while_spark_runs_no_task() -> None:
    told: list[str] = []
    tracker = Tracker()
    tracker.stages = {1: None}
    StepProgress(told.append, 60).report_tasks(tracker)  # type: ignore[arg-type]
    assert told == []


def test_progress_is_reported_periodically_until_the_work_ends() -> None:
    twice, told = threading.Event(), list[str]()

    def tell(words: str) -> None:
        told.append(words)
        if len(told) >= 2:
            twice.set()

    with StepProgress(tell, 0.001).reporting(Tracker()):  # type: ignore[arg-type]
        assert twice.wait(60)
    assert "steps" not in {thread.name for thread in threading.enumerate()}
    assert set(told) == {": 3 of 12 tasks done"}


@pytest.mark.parametrize("error", [Py4JNetworkError, ConnectionRefusedError])
def test_the_progress_thread_ends_silently_when_spark_is_gone(error: type[Exception]) -> None:
    """pytest would fail this test if the thread raised."""
    asked = threading.Event()

    class Gone(Tracker):
        def getActiveStageIds(self) -> list[int]:  # noqa: N802
            asked.set()
            raise error("gone")

    with StepProgress(lambda _: None, 0.001).reporting(Gone()):  # type: ignore[arg-type]
        assert asked.wait(60)
