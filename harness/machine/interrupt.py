"""Handles Ctrl-C, SIGTERM and SIGHUP (a closed terminal): the first signal ends the command in order, the second at once.

timeout(1), and programs that pass Ctrl-C on to a command that the terminal has sent it to as well, send one signal twice at
once. That counts as one signal.

Every command runs inside `stoppable`: the first signal raises `Stopped` wherever the main thread is, and the command shows
the results so far. A part that has processes to end runs inside `Interrupt`: there the first signal only sets `requested`.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, ClassVar, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE = 0.8  # seconds between `requested` and `Stopped`: a command shall have ended 2 s after the first Ctrl-C
AGAIN = 0.1  # seconds between two attempts to raise `Stopped` while that is deferred
SAME_SECONDS = 0.1  # a signal that comes again so soon after the first one is the same one


class Stopped(BaseException):
    """The first interruption: the work in progress is dropped."""


class Forced(BaseException):
    """The second interruption: nothing is healed, collected or judged any more, and processes are killed."""


class _Handlers:
    """Handles the signals while it is entered. In another thread than the main one it does nothing.

    A process that `nohup` has made ignore SIGHUP goes on ignoring it.
    """

    signals: ClassVar[tuple[signal.Signals, ...]] = SIGNALS

    def __init__(self) -> None:
        self._former_handlers: dict[signal.Signals, Any] = {}
        self.first: tuple[int, float] | None = None  # the first signal, and when it came

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in self.signals:
                if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                    self._former_handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former_handlers.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        now = time.monotonic()
        if self.first is None:
            self.first = number, now
            self._interrupted()
        elif number != self.first[0] or now >= self.first[1] + SAME_SECONDS:
            self._forced()

    def _interrupted(self) -> None:
        raise NotImplementedError

    def _forced(self) -> None:
        raise Forced


class _Stoppable(_Handlers):
    def _interrupted(self) -> None:
        raise Stopped


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise Stopped in the main thread at the first signal, Forced at the second."""
    with _Stoppable():
        yield


class _Deferring(_Handlers):
    signals = (*SIGNALS, signal.SIGALRM)  # with the last one a grace period ends

    def __init__(self) -> None:
        super().__init__()
        self.received: list[int] = []

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.received.append(number)


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Defer signals, and the end of a grace period, until the end of the block. (Blocking signals is not enough: another thread
    would get them.)"""
    with _Deferring() as deferred:
        yield
    for number in deferred.received:
        signal.raise_signal(number)


class Interrupt(_Handlers):
    """While it is entered, the first signal sets `requested` instead of raising; the second sets `forced` and raises Forced.

    `grace`: so many seconds after the first signal Stopped is raised nevertheless, in case the code waits for something else
    than `requested`; None: never.
    """

    _grace_deferred: ClassVar[bool] = False

    def __init__(self, grace: float | None = None) -> None:
        super().__init__()
        self.requested = threading.Event()
        self.forced = False
        self._grace = grace
        self._timer: tuple[Any, tuple[float, float]] | None = None  # the former SIGALRM handler and timer

    def __exit__(self, *_: object) -> None:
        self.cancel_grace()
        super().__exit__()
        around = getattr(self._former_handlers.get(signal.SIGINT), "__self__", None)
        if self.first is not None and isinstance(around, _Stoppable):
            around.first = self.first  # for the enclosing command, too, the next signal is the second one

    def restart_grace(self) -> None:
        """Start the grace period again, if the first signal has come. Another thread than the main one has none."""
        in_main_thread = threading.current_thread() is threading.main_thread()
        if self.requested.is_set() and self._grace is not None and in_main_thread:
            before = signal.signal(signal.SIGALRM, self._grace_over)
            timer = signal.setitimer(signal.ITIMER_REAL, self._grace)
            if self._timer is None:
                self._timer = before, timer

    def cancel_grace(self) -> None:
        """End the grace period: Stopped is not raised any more."""
        if self._timer is not None:
            handler, timer = self._timer
            self._timer = None
            signal.setitimer(signal.ITIMER_REAL, *timer)
            signal.signal(signal.SIGALRM, handler)

    def _interrupted(self) -> None:
        self.requested.set()
        self.restart_grace()

    def _forced(self) -> None:
        self.forced = True
        self.cancel_grace()  # Stopped, while processes are being killed, would take the place of Forced
        raise Forced

    def _grace_over(self, _number: int, _frame: FrameType | None) -> None:
        if not Interrupt._grace_deferred:
            raise Stopped
        signal.setitimer(signal.ITIMER_REAL, AGAIN)

    @staticmethod
    @contextmanager
    def deferred_grace() -> Iterator[None]:
        """Do not raise Stopped before the end of the block. Only a second signal ends it earlier."""
        before, Interrupt._grace_deferred = Interrupt._grace_deferred, True
        try:
            yield
        finally:
            Interrupt._grace_deferred = before


def _leave_terminal() -> None:
    """Redirect stdout and stderr to /dev/null if the terminal is gone, so that output does not fail."""
    for descriptor in (1, 2):
        try:
            os.write(descriptor, b"")
        except OSError:
            with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123
                os.dup2(nowhere.fileno(), descriptor)
