"""Worker processes that apply one function to many items and return the results in order.

The processes are forked, so they share the modules that are imported already, and `multiprocessing-logging` can pass their log
messages to the parent. They die with the process that forked them, even if that is killed.
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
from typing import Any, Protocol, Self, TypeVar

from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine.die_with_parent import die_with_parent
from zab_chaos.harness.machine.interrupt import SIGNALS, deferred_signals

T = TypeVar("T")
R = TypeVar("R")


class WorkerPool(Protocol):
    """A pool of workers: local processes, or the executors of a Spark cluster (`spark_workers`)."""

    def results(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield the result of `work` for each item, in order. Raises HarnessError if the workers fail."""


def in_order(submit: Callable[[T], Future[R]], items: Iterable[T], ahead: int) -> Iterator[R]:
    """Yield the results in the order of the items, with at most `ahead` items submitted.

    If the caller stops early, the submitted items are not cancelled here; they are dropped when the pool ends. A pool whose
    processes are killed sets an exception on every future that it holds, and that is impossible for a cancelled one.
    """
    waiting: deque[Future[R]] = deque()
    for item in items:
        waiting.append(submit(item))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


class _Forks(multiprocessing.context.ForkContext):
    """A fork context that keeps a list of the processes it has started."""

    def __init__(self) -> None:
        super().__init__()
        self.processes: list[multiprocessing.context.ForkProcess] = []

    def Process(self, *arguments: Any, **keywords: Any) -> multiprocessing.context.ForkProcess:  # type: ignore[override] # noqa: N802
        self.processes.append(multiprocessing.context.ForkProcess(*arguments, **keywords))
        return self.processes[-1]


class LocalWorkers:
    """A pool of `jobs` worker processes; with one job, this process does the work.

    `ahead`: items submitted per worker at a time.

    Use it from the main thread: the processes end with the thread that forked them.
    """

    def __init__(self, jobs: int, ahead: int = 1) -> None:
        self._forks = _Forks()
        self._pool = ProcessPoolExecutor(jobs, self._forks, _initialize_worker, (os.getpid(),)) if jobs > 1 else None
        self._ahead = jobs * ahead

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the workers: nobody needs their results any more."""
        if self._pool is not None:
            for process in self._forks.processes:
                process.kill()
            self._pool.shutdown(cancel_futures=True)

    def results(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield the result of `work` for each item, in order.

        Items are read only as needed. Raises HarnessError if a worker dies.

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
            # Python warns about forking with threads. The only other thread receives log records; it holds no lock that a child
            # needs.
            warnings.simplefilter("ignore", DeprecationWarning)
            return self._pool.submit(work, item)


def _initialize_worker(parent: int) -> None:
    """Make this worker process end with its parent or when the parent ends it, but not on Ctrl-C in the terminal."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent(parent)
