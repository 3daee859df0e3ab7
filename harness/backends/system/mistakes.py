"""The mistakes in a backend's own methods: an exception, or a call that does not return. They are named with their place."""

import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from reprlib import Repr
from typing import TypeVar

from zab_chaos.harness.client.transaction import Committed, Outcome
from zab_chaos.harness.errors import HarnessError
from zab_chaos.node.tree.outcomes import Failed, Ok
from zab_chaos.node.tree.refusal import STATE_ERRORS

CALL_SECONDS = 20.0  # limit for a method that must return at once

ADVICE = (
    "This is a mistake in the backend's client, not in the system. If an answer may come later, return Unknown(...), or raise "
    "OSError"
)

_T = TypeVar("_T")
_repr = Repr()
_repr.maxstring = _repr.maxother = 100  # characters of a wrong value that are shown


class BackendMistake(HarnessError):
    """A mistake in the backend of a foreign system, not in the system. The text names the method, and the place in its code."""


class Unreachable(ConnectionError):
    """A node can't be reached, because `client` of its backend has raised the exception that is the cause, and no OSError."""


class TimedCalls:
    """Calls methods of a backend that must return at once. After the first that did not, every call fails with its mistake."""

    def __init__(self) -> None:
        self._mistake: BackendMistake | None = None

    def call(self, name: str, method: Callable[[], _T], seconds: float | None = None, within: str = "at once") -> _T:
        """Return what the method returns. Raises OSError as it does, and BackendMistake for any other exception, or if it does
        not return within `seconds`, by default CALL_SECONDS. `within`: the time in which it must return, in words."""
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
        limit = CALL_SECONDS if seconds is None else seconds
        try:
            return future.result(limit)
        except Exception as error:
            if future.done():  # the method has raised it
                if isinstance(error, OSError):
                    raise
                raise BackendMistake(f"`{name}` of the backend has raised {describe(error)}") from error
            self._mistake = BackendMistake(
                f"`{name}` of the backend has not returned within {limit:g} s{place_of_thread(thread)}. It must return {within}"
            )
            raise self._mistake from None


class ClientAnswers:
    """What a backend's clients have answered in a run, to tell what the system does from the backend's own mistakes.

    An exception is a mistake if it is one of Python's own that the backend's code itself has raised. If no request of this
    kind was ever answered, any exception is one. But an OSError never is: the node may be down.
    """

    def __init__(self) -> None:
        self.unversioned = False  # a write was answered without a version
        self._answered: set[str] = set()  # kinds of requests
        self.begin_look()

    def begin_look(self) -> None:
        """Forget what was not served: the nodes are asked once more."""
        self._mistake: str | None = None
        self._others = False  # something was not served, and that is no mistake

    @property
    def mistake(self) -> str | None:
        """What the backend's code has done, in words, if requests of this look were not served for this reason only."""
        return None if self._others else self._mistake

    def add(self, kind: str, outcome: Outcome, raised: Exception | None) -> None:
        """Take the outcome of a request, or the exception of `ask` that there was instead."""
        if raised is None:
            self._answered.add(kind)
            self.unversioned |= kind in ("set", "cas") and isinstance(outcome, Ok) and outcome.version is None
            state = isinstance(outcome, Failed) and outcome.error in STATE_ERRORS
            self._others |= not (state or isinstance(outcome, Ok | Committed))
        elif _is_own(raised) or not (kind in self._answered or isinstance(raised, OSError)):
            self._mistake = f"`ask` of the backend has raised {_with_place(raised)} when it was asked for {kind}"
        else:
            self._others = True

    def add_unreachable(self, why: BaseException) -> None:
        """Take the exception of `client`, for which a node counts as one that can't be reached."""
        if _is_own(why):
            self._mistake = f"`client` of the backend has raised {_with_place(why)}"
        else:
            self._others = True

    def add_none(self) -> None:
        """A request was not answered in time."""
        self._others = True


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


def describe(error: BaseException) -> str:
    """Return an exception in words. An OSError is what a connection may end with; others also get the place in the code."""
    return f"{type(error).__name__}: {error}" if isinstance(error, OSError) else _with_place(error)


def _with_place(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" + _place(traceback.extract_tb(error.__traceback__), "raised in")


def place_of_thread(thread: threading.Thread, verb: str = "it waits in") -> str:
    """Return in words where in the backend's code a thread is; empty if that is not known."""
    frame = sys._current_frames().get(thread.ident or 0)
    return _place(traceback.extract_stack(frame), verb) if frame is not None else ""


def place_of_type(value: object, method: str) -> str:
    """Return in words where the method of this object is defined; empty if that is not known."""
    code = getattr(getattr(type(value), method, None), "__code__", None)
    return "" if code is None else f" ({Path(code.co_filename).name}, line {code.co_firstlineno})"


def shown(value: object) -> str:
    """Return a value that a method has returned as text, without its middle if it is long."""
    return _repr.repr(value)


def _is_own(error: BaseException) -> bool:
    """Return whether one of Python's own exceptions was raised in the backend's code itself, and not in a library."""
    frames = _called(traceback.extract_tb(error.__traceback__))
    return (
        type(error).__module__ == "builtins"
        and not isinstance(error, OSError)
        and bool(frames)
        and Path(frames[0].filename).parent == Path(frames[-1].filename).parent
    )


def _called(frames: Sequence[traceback.FrameSummary]) -> Sequence[traceback.FrameSummary]:
    """Return the frames of what this package has called."""
    ours = [number for number, frame in enumerate(frames) if Path(frame.filename).parent == Path(__file__).parent]
    return frames[max(ours, default=-1) + 1 :]


def _place(frames: Sequence[traceback.FrameSummary], verb: str) -> str:
    """Return the innermost place in the file that this package has called, in brackets; empty if there is none."""
    called = _called(frames)
    if not called:
        return ""
    inside = [frame for frame in called if frame.filename == called[0].filename][-1]
    return f" ({verb} {Path(inside.filename).name}, line {inside.lineno})"
