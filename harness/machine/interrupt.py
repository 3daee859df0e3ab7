"""Ctrl-C, SIGTERM and SIGHUP (a terminal that was closed): the first ends the command properly, the second at once.

`stoppable` is around every command: the first signal raises `Stopped` wherever the main thread is, and the command shows
what it has. Where processes have to be ended first, `Interrupt` is around that: the first signal only sets `asked`.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE = 0.8  # seconds that whoever was asked to end gets: a command is to be over 2 s after the first Ctrl-C


class Stopped(BaseException):
    """The first interruption: what goes on is dropped where it is."""


class Forced(BaseException):
    """The second interruption: nothing is healed, collected or judged any more, processes are killed."""


class _Handlers:
    """While it is entered, the signals are handled here; in another thread than the main one nothing changes. Whom `nohup`
    has told to ignore SIGHUP goes on ignoring it."""

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        self._interrupted()

    def _interrupted(self) -> None:
        raise NotImplementedError


class _Stoppable(_Handlers):
    def __init__(self) -> None:
        super().__init__()
        self.stopped = False

    def _interrupted(self) -> None:
        if self.stopped:
            raise Forced
        self.stopped = True
        raise Stopped


@contextmanager
def stoppable() -> Iterator[None]:
    """The first signal raises Stopped, the second Forced, in the main thread."""
    with _Stoppable():
        yield


class _HeldBack(_Handlers):
    def __init__(self) -> None:
        super().__init__()
        self.came: list[int] = []

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.came.append(number)


@contextmanager
def deferred_signals() -> Iterator[None]:
    """The signals wait until this is over. (Blocking them would not do: another thread would get them.)"""
    with _HeldBack() as waiting:
        yield
    for number in waiting.came:
        signal.raise_signal(number)


class Interrupt(_Handlers):
    """While it is entered, the first signal sets `asked` instead of raising; the second raises Forced.

    `grace`: after so many seconds Stopped is raised all the same, for whoever waits for something that does not come;
    None: never.
    """

    def __init__(self, grace: float | None = None) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.forced = False
        self._grace = grace
        self._timer: tuple[Any, tuple[float, float]] | None = None  # the handler and the timer that were there before

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel_grace()
        super().__exit__(kind, error, trace)
        around = getattr(self._before.get(signal.SIGINT), "__self__", None)
        if self.asked.is_set() and isinstance(around, _Stoppable):
            around.stopped = True  # the next signal is the second one for the command, too

    def restart_grace(self) -> None:
        """From now on the grace counts anew, if the first signal has come."""
        if self.asked.is_set() and self._grace is not None:
            before = signal.signal(signal.SIGALRM, self._late)
            timer = signal.setitimer(signal.ITIMER_REAL, self._grace)
            if self._timer is None:
                self._timer = before, timer

    def cancel_grace(self) -> None:
        """No Stopped is raised any more."""
        if self._timer is not None:
            handler, timer = self._timer
            self._timer = None
            signal.setitimer(signal.ITIMER_REAL, *timer)
            signal.signal(signal.SIGALRM, handler)

    def _interrupted(self) -> None:
        if self.asked.is_set():
            self.forced = True
            raise Forced
        self.asked.set()
        self.restart_grace()

    def _late(self, _number: int, _frame: FrameType | None) -> None:
        raise Stopped


def _leave_terminal() -> None:
    """What is still said must not fail because the terminal is gone."""
    for descriptor in (1, 2):
        try:
            os.write(descriptor, b"")
        except OSError:
            with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123
                os.dup2(nowhere.fileno(), descriptor)
