"""Progress of an analysis: one changing line on a terminal, plain lines elsewhere, as in the log of a CI job."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from zab_chaos.harness.report.console import say

if TYPE_CHECKING:
    from pyspark import StatusTracker

Progress = Callable[[str], None]
EVERY = {True: 1.0, False: 10.0}  # seconds between two messages about the same step, on a terminal and elsewhere


class Steps:
    """The current step, and how many of Spark's tasks for it are done."""

    def __init__(self, tell: Progress, every: float) -> None:
        self._tell = tell
        self._every = every
        self._step = ""

    def step(self, words: str) -> None:
        """Announce the next step."""
        self._step = words
        self._tell(words)

    def remind(self, tracker: "StatusTracker") -> None:
        """Report how many tasks of the step are done, if Spark is running any."""
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        running = [stage for stage in stages if stage is not None]
        if running:
            done, tasks = sum(it.numCompletedTasks for it in running), sum(it.numTasks for it in running)
            self._tell(f"{self._step}: {done} of {tasks} tasks done")

    @contextmanager
    def watching(self, tracker: "StatusTracker") -> Iterator[None]:
        """Report the progress of long steps from a thread of its own."""
        from py4j.protocol import Py4JError

        over = threading.Event()

        def watch() -> None:
            try:
                while not over.wait(self._every):
                    self.remind(tracker)
            except (Py4JError, OSError):
                return  # Spark is gone; the thread that waits for its answer reports that

        thread = threading.Thread(target=watch, name="steps", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


@contextmanager
def steps(console: Console) -> Iterator[Steps]:
    """Report the steps of an analysis on this console."""
    every = EVERY[console.is_terminal]
    if console.is_terminal:
        with console.status("") as status:
            yield Steps(status.update, every)
    else:
        yield Steps(lambda words: say(console, words), every)
