"""Worker processes that do one thing for many items, and give the answers in the items' order.

They are forked: they share what is imported already, nobody kills them, and so their logs may go through
`multiprocessing-logging` to the parent's.
"""

import multiprocessing
import signal
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from types import TracebackType
from typing import Protocol, Self, TypeVar

from harness.exits import HarnessError

T = TypeVar("T")
R = TypeVar("R")


class Crew(Protocol):
    """Whoever does the work: worker processes, or a Spark cluster's executors (`sparkcrew`)."""

    def answers(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """What `work` says of each item, in the items' order. Raises HarnessError if nobody can do it."""


def in_order(submit: Callable[[T], Future[R]], items: Iterable[T], ahead: int) -> Iterator[R]:
    """The answers in the items' order, with at most `ahead` items handed out; they are dropped when nobody asks any more."""
    waiting: deque[Future[R]] = deque()
    try:
        for item in items:
            waiting.append(submit(item))
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


class Workers:
    """`jobs` processes; with one job everything is done here. `ahead`: items handed out per worker at a time."""

    def __init__(self, jobs: int, ahead: int = 1) -> None:
        self._pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("fork"), _prepare) if jobs > 1 else None
        self._ahead = jobs * ahead

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def answers(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """What `work` says of each item. Items are taken as they are needed, and those that were handed out when the
        caller stops asking are dropped. Raises HarnessError if a worker dies."""
        if self._pool is None:
            yield from map(work, items)
            return
        try:
            yield from in_order(partial(self._submit, work), items, self._ahead)
        except BrokenProcessPool:
            raise HarnessError("a worker process died; is there enough memory?") from None

    def _submit(self, work: Callable[[T], R], item: T) -> Future[R]:
        assert self._pool is not None
        with warnings.catch_warnings():
            # The parent's only other thread takes log records, and holds no lock that a child needs.
            warnings.simplefilter("ignore", DeprecationWarning)
            return self._pool.submit(work, item)


def _prepare() -> None:
    """A worker ends when its parent says so, not when the terminal's Ctrl-C does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
