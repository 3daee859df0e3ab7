"""A call that can be stopped in the middle and resumed later, as SIGSTOP and SIGCONT do to a process.

The call has a thread of its own. Only one of the two threads runs at any time, so everything stays in one order.
"""

import threading
from collections.abc import Callable


class Abandoned(BaseException):
    """Raised inside a stopped call that is never resumed, because its process was killed."""


class SuspendableCall:
    """Runs `call` until it ends or calls `stop`, which returns control to the caller of `go`."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._may_run = threading.Semaphore(0)
        self._caller_may_run = threading.Semaphore(0)
        self._abandoned = False
        self._error: BaseException | None = None
        self.finished = False
        self.stopped = False  # in the middle of the call
        self._thread = threading.Thread(target=self._run, name="stoppable", daemon=True)
        self._thread.start()

    def go(self) -> bool:
        """Start or resume the call. Return True when it has finished, False when it has stopped. Raises what it raises."""
        self._may_run.release()
        self._caller_may_run.acquire()
        if self.finished:
            self._thread.join()
            if self._error is not None:
                raise self._error
        return self.finished

    def stop(self) -> None:
        """Stop here. Called by the call itself; returns when it is resumed."""
        self.stopped = True
        self._caller_may_run.release()
        self._may_run.acquire()
        self.stopped = False
        if self._abandoned:
            raise Abandoned

    def abandon(self) -> None:
        """End a stopped call, which is not to be resumed."""
        self._abandoned = True
        self._may_run.release()
        self._thread.join()

    def _run(self) -> None:
        self._may_run.acquire()
        try:
            if not self._abandoned:
                self._call()
        except Abandoned:
            pass
        except BaseException as error:
            self._error = error
        self.finished = True
        self._caller_may_run.release()
