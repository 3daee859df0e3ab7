"""A call that can be stopped in its middle and go on later: what SIGSTOP does to a process that runs.

It runs in a thread of its own, and exactly one of the two threads runs at any time: so all stays in one order.
"""

import threading
from collections.abc import Callable


class Abandoned(BaseException):
    """Raised inside a stopped call that will never go on: its process was killed."""


class Stoppable:
    """Runs `call`; `stop`, from within it, hands control back to whoever called `go`."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._mine = threading.Semaphore(0)
        self._theirs = threading.Semaphore(0)
        self._abandoned = False
        self._error: BaseException | None = None
        self.finished = False
        self.stopped = False  # in its middle
        self._thread = threading.Thread(target=self._run, name="stoppable", daemon=True)
        self._thread.start()

    def go(self) -> bool:
        """Run until it stops (False) or is finished (True). Raises what the call raises."""
        self._mine.release()
        self._theirs.acquire()
        if self.finished:
            self._thread.join()
            if self._error is not None:
                raise self._error
        return self.finished

    def stop(self) -> None:
        """Called from within: stop here. Returns when it is to go on."""
        self.stopped = True
        self._theirs.release()
        self._mine.acquire()
        self.stopped = False
        if self._abandoned:
            raise Abandoned

    def abandon(self) -> None:
        """It will not go on."""
        self._abandoned = True
        self._mine.release()
        self._thread.join()

    def _run(self) -> None:
        self._mine.acquire()
        try:
            if not self._abandoned:
                self._call()
        except Abandoned:
            pass
        except BaseException as error:
            self._error = error
        self.finished = True
        self._theirs.release()
