"""A base class for background threads."""

import threading
from abc import ABC, abstractmethod
from typing import Self


class BackgroundThread(ABC):
    """A context manager that runs `_run` in a thread while it is entered. `_run` must return once `_stop` is set.

    `name`: the thread's name.
    """

    def __init__(self, name: str) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def _run(self) -> None: ...

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
