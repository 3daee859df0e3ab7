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
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any, Protocol, Self, TypeVar

from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine.die_with_parent import die_with_parent
from zab_chaos.harness.machine.interrupt import GRACE, SIGNALS, deferred_signals, stoppable

# How long interrupted work may take. A real run has one period of grace to end, and one to be judged.
END_SECONDS = 2 * GRACE + 0.2
AHEAD = 4  # items submitted per worker: enough that no worker is idle, few enough that a failure is reported soon

T = TypeVar("T")
R = TypeVar("R")


class WorkerPool(Protocol):
    """A pool of workers: local processes, or the executors of a Spark cluster (`spark_workers`)."""

    def results(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield the result of `work` for each item, in order. Raises HarnessError if the workers fail."""


def in_order(submit: Callable[[T], Future[R]], items: Iterable[T], ahead: int, busy: int | None = None) -> Iterator[R]:
    """Yield the results in the order of the items, with at most `ahead` items submitted, and at most `busy` of them unfinished.

    If the caller stops early, the submitted items are not cancelled here; they are dropped when the pool ends. A pool whose
    processes are killed sets an exception on every future that it holds, and that is impossible for a cancelled one.
    """
    waiting: deque[Future[R]] = deque()
    for item in items:
        waiting.append(submit(item))
        while len(unfinished := _unfinished(waiting)) >= (busy or ahead) or len(waiting) >= ahead:
            wait([waiting[0]] if len(waiting) >= ahead else unfinished, return_when=FIRST_COMPLETED)
            while waiting and waiting[0].done():
                yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _unfinished(futures: Iterable[Future[R]]) -> list[Future[R]]:
    return [one for one in futures if not one.done()]


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

    `ahead`: items submitted per worker at a time. `interrupts`: at the end of the pool, work in progress is interrupted as by
    Ctrl-C and ends in order, because it has processes and files of its own. Otherwise it is dropped.

    Use it from the main thread: the processes end with the thread that forked them.
    """

    def __init__(self, jobs: int, ahead: int = 1, *, interrupts: bool = False) -> None:
        self._forks = _Forks()
        started = _initialize_worker, (os.getpid(), interrupts)
        self._pool = ProcessPoolExecutor(jobs, self._forks, *started) if jobs > 1 else None
        self._ahead = jobs * ahead
        self._busy = jobs if interrupts else None  # work that waits in a worker would begin when it is to end
        self._interrupts = interrupts
        self._submitted: deque[Future[Any]] = deque(maxlen=self._ahead)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the workers: nobody needs their results any more."""
        if self._pool is None:
            return
        try:
            if self._interrupts:
                self._interrupt_work()
        finally:
            for process in self._forks.processes:
                process.kill()
            self._pool.shutdown(cancel_futures=True)

    def _interrupt_work(self) -> None:
        """Interrupt the work in progress, and wait until it has ended, for END_SECONDS at most."""
        for process in self._forks.processes:
            process.terminate()
        wait(self._submitted, END_SECONDS)

    def results(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield the result of `work` for each item, in order.

        Items are read only as needed. Raises HarnessError if a worker dies.

        The few items that were submitted when the caller stops are dropped at the end.
        """
        if self._pool is None:
            yield from map(work, items)
            return
        begun = partial(_stoppable_work, work) if self._interrupts else work
        try:
            yield from in_order(partial(self._submit, begun), items, self._ahead, self._busy)
        except BrokenProcessPool:
            raise HarnessError("a worker process died; perhaps there is too little memory") from None

    def _submit(self, work: Callable[[T], R], item: T) -> Future[R]:
        assert self._pool is not None
        with warnings.catch_warnings(), deferred_signals():  # a pool that is half started can't be shut down
            # Python warns about forking with threads. The only other thread receives log records; it holds no lock that a child
            # needs.
            warnings.simplefilter("ignore", DeprecationWarning)
            future = self._pool.submit(work, item)
        self._submitted.append(future)
        return future


def run_workers(jobs: int) -> LocalWorkers:
    """Return a pool for runs on real nodes, `jobs` at a time."""
    return LocalWorkers(jobs, AHEAD, interrupts=True)


def _initialize_worker(parent: int, interrupted: bool) -> None:
    """Make this worker process end with its parent or when the parent ends it, but not on Ctrl-C in the terminal.

    `interrupted`: SIGTERM of the parent interrupts work in progress, and nothing else.
    """
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if interrupted:
        os.setpgrp()  # work in progress does not ignore Ctrl-C, and the terminal sends that to a whole group
    else:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent(parent)


def _stoppable_work(work: Callable[[T], R], item: T) -> R:
    """Do work that a signal interrupts."""
    with stoppable():
        return work(item)
