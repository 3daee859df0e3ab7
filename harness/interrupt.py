"""Ctrl-C and SIGTERM: the first asks the run to end properly, the second ends it at once."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Forced(BaseException):
    """The second interruption: nothing is healed, collected or judged any more, processes are killed."""


class Interrupt:
    """While it is entered, signals set `asked` instead of raising. Enter it from the main thread only."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.forced = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked.is_set():
            self.forced = True
            raise Forced
        self.asked.set()
