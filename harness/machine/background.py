"""A base class for background threads."""

import threading
from abc import ABC, abstractmethod
from typing import Self

from zab_chaos.harness.errors import HarnessError


class BackgroundThread(ABC):
    """A context manager that runs `_run` in a thread while it is entered. `_run` must return once `_stop` is set.

    `name`: the thread's name. `error`: the exception that has ended `_run`, if any. `check` raises it in another thread.
    """

    in_words = "a background thread"  # in the message of `check`

    def __init__(self, name: str) -> None:
        self.error: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run_to_end, name=name, daemon=True)

    @abstractmethod
    def _run(self) -> None: ...

    def _run_to_end(self) -> None:
        try:
            self._run()
        except Exception as error:
            self.error = error

    def check(self) -> None:
        """Raise HarnessError if `_run` has failed."""
        if self.error is not None:
            raise HarnessError(f"{self.in_words} failed: {self.error!r}") from self.error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
