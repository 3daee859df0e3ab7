"""The progress of `zab analyze`: one changing line on a terminal, plain lines elsewhere, for example in the log of a CI job."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from zab_chaos.harness.report.console import say

if TYPE_CHECKING:
    from pyspark import StatusTracker

Progress = Callable[[str], None]
REPEAT_SECONDS = {True: 1.0, False: 10.0}  # between two messages about the same step, on a terminal and elsewhere


class StepProgress:
    """Reports the current step, and how many of Spark's tasks for it are done.

    `write` prints a message. `every`: seconds between two messages about the same step.
    """

    def __init__(self, write: Progress, every: float) -> None:
        self._write = write
        self._every = every
        self._step = ""

    def step(self, name: str) -> None:
        """Report that the next step begins."""
        self._step = name
        self._write(name)

    def report_tasks(self, tracker: "StatusTracker") -> None:
        """Report how many of the step's tasks are done, if Spark is running any."""
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        running = [stage for stage in stages if stage is not None]
        if running:
            done, tasks = sum(stage.numCompletedTasks for stage in running), sum(stage.numTasks for stage in running)
            self._write(f"{self._step}: {done} of {tasks} tasks done")

    @contextmanager
    def reporting(self, tracker: "StatusTracker") -> Iterator[None]:
        """Report the tasks of long steps from a background thread."""
        from py4j.protocol import Py4JError

        ended = threading.Event()

        def watch() -> None:
            try:
                while not ended.wait(self._every):
                    self.report_tasks(tracker)
            except (Py4JError, OSError):
                return  # Spark is gone, which the thread that waits for its result reports

        thread = threading.Thread(target=watch, name="steps", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


@contextmanager
def step_progress(console: Console) -> Iterator[StepProgress]:
    """Yield the object that reports the steps of an analysis on this console."""
    every = REPEAT_SECONDS[console.is_terminal]
    if console.is_terminal:
        with console.status("") as status:
            yield StepProgress(status.update, every)
    else:
        yield StepProgress(lambda message: say(console, message), every)
