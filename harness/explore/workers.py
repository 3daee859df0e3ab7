"""Worker processes that apply one function to many items and return the results in order.

They are forked: they share what is imported already, and their logs may go through `multiprocessing-logging` to the
parent's. They die with the process that forked them, whatever ends that.
"""

import multiprocessing.context
import os
import signal
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine.die_with_parent import die_with_parent
from zab_chaos.harness.machine.interrupt import SIGNALS, deferred_signals

T = TypeVar("T")
R = TypeVar("R")


class Crew(Protocol):
    """A pool of workers: local processes, or the executors of a Spark cluster (`spark_workers`)."""

    def answers(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield the result of `work` for each item, in order. Raises HarnessError if the workers fail."""


def in_order(submit: Callable[[T], Future[R]], items: Iterable[T], ahead: int) -> Iterator[R]:
    """Yield the results in the order of the items, with at most `ahead` items submitted.

    What nobody asks for any more is not cancelled here, but dropped when the pool ends: a pool whose processes are killed
    fails every future that it holds, and a cancelled one can't be failed.
    """
    waiting: deque[Future[R]] = deque()
    for item in items:
        waiting.append(submit(item))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


class _Forks(multiprocessing.context.ForkContext):
    """Forks processes and remembers them."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[multiprocessing.context.ForkProcess] = []

    def Process(self, *arguments: Any, **keywords: Any) -> multiprocessing.context.ForkProcess:  # type: ignore[override] # noqa: N802
        self.made.append(multiprocessing.context.ForkProcess(*arguments, **keywords))
        return self.made[-1]


class Workers:
    """A pool of `jobs` processes; with one job, this process does the work. `ahead`: items submitted per worker at a time.

    Use it from the main thread: the processes end with the thread that forked them.
    """

    def __init__(self, jobs: int, ahead: int = 1) -> None:
        self._forks = _Forks()
        self._pool = ProcessPoolExecutor(jobs, self._forks, _prepare, (os.getpid(),)) if jobs > 1 else None
        self._ahead = jobs * ahead

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill the workers whose results are no longer needed."""
        if self._pool is not None:
            for process in self._forks.made:
                process.kill()
            self._pool.shutdown(cancel_futures=True)

    def answers(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield the result of `work` for each item. Items are taken as needed. Raises HarnessError if a worker dies.

        The few items that were submitted when the caller stops are dropped at the end.
        """
        if self._pool is None:
            yield from map(work, items)
            return
        try:
            yield from in_order(partial(self._submit, work), items, self._ahead)
        except BrokenProcessPool:
            raise HarnessError("a worker process died; perhaps there is too little memory") from None

    def _submit(self, work: Callable[[T], R], item: T) -> Future[R]:
        assert self._pool is not None
        with warnings.catch_warnings(), deferred_signals():  # a pool that is half started can't be shut down
            # The parent's only other thread takes log records, and holds no lock that a child needs.
            warnings.simplefilter("ignore", DeprecationWarning)
            return self._pool.submit(work, item)


def _prepare(parent: int) -> None:
    """Prepare a worker: it ends with its parent or on its order, not on Ctrl-C in the terminal."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent(parent)
