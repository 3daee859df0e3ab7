"""The mistakes in a backend's own methods: an exception, or a call that does not return. They are named with their place."""

import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from zab_chaos.harness.errors import HarnessError

CALL_SECONDS = 20.0  # limit for a method that must return at once

_T = TypeVar("_T")


class BackendMistake(HarnessError):
    """A mistake in the backend of a foreign system, not in the system. The text names the method, and the place in its code."""


class TimedCalls:
    """Calls methods of a backend that must return at once. After the first that did not, every call fails with its mistake."""

    def __init__(self) -> None:
        self._mistake: BackendMistake | None = None

    def call(self, name: str, method: Callable[[], _T]) -> _T:
        """Return what the method returns. Raises OSError as it does, and BackendMistake for any other exception, or if it does
        not return within CALL_SECONDS."""
        if self._mistake is not None:
            raise self._mistake
        future: Future[_T] = Future()

        def call() -> None:
            try:
                future.set_result(method())
            except BaseException as error:
                future.set_exception(error)

        thread = threading.Thread(target=call, name=name, daemon=True)
        thread.start()
        try:
            return future.result(CALL_SECONDS)
        except Exception as error:
            if future.done():  # the method has raised it
                if isinstance(error, OSError):
                    raise
                raise BackendMistake(f"`{name}` of the backend has raised {describe(error)}") from error
            self._mistake = BackendMistake(
                f"`{name}` of the backend has not returned within {CALL_SECONDS:g} s{place_of_thread(thread)}. It must return "
                "at once, or raise OSError"
            )
            raise self._mistake from None


def called(name: str, method: Callable[[], _T], *, os_errors: bool = False) -> _T:
    """Return what a method of a backend returns. Raises BackendMistake for an exception; `os_errors`: but OSErrors as such."""
    try:
        return method()
    except HarnessError:
        raise
    except Exception as error:
        if os_errors and isinstance(error, OSError):
            raise
        raise BackendMistake(f"`{name}` of the backend has raised {_with_place(error)}") from error


def describe(error: Exception) -> str:
    """Return an exception in words. An OSError is what a connection may end with; others also get the place in the code."""
    return f"{type(error).__name__}: {error}" if isinstance(error, OSError) else _with_place(error)


def _with_place(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" + _place(traceback.extract_tb(error.__traceback__), "raised in")


def place_of_thread(thread: threading.Thread) -> str:
    """Return in words where in the backend's code a thread is; empty if that is not known."""
    frame = sys._current_frames().get(thread.ident or 0)
    return _place(traceback.extract_stack(frame), "it waits in") if frame is not None else ""


def _place(frames: Sequence[traceback.FrameSummary], verb: str) -> str:
    """Return the innermost place in the file that this package has called, in brackets; empty if there is none."""
    ours = [number for number, frame in enumerate(frames) if Path(frame.filename).parent == Path(__file__).parent]
    called = frames[max(ours, default=-1) + 1 :]
    if not called:
        return ""
    inside = [frame for frame in called if frame.filename == called[0].filename][-1]
    return f" ({verb} {Path(inside.filename).name}, line {inside.lineno})"
