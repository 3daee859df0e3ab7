"""The session that a program uses: the operations of the tree, with three outcomes.

An operation that was executed returns `Done`. One that certainly had no effect raises `Failed`, and one whose outcome is not
known raises `Unknown`. The two have no common base but Exception, so that no `except` catches both by accident.
`submit(...).outcome()` returns one of the three instead of raising.

The same session works over ZeroMQ and in the simulated world: a `Line` carries its requests.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, Self, TypeVar

import msgspec

from zab_chaos.harness.client.core import shortened, unencodable
from zab_chaos.harness.client.hidden_frames import hidden_for
from zab_chaos.node.clients.protocol import encode
from zab_chaos.node.core.zxid import Zxid, pair
from zab_chaos.node.tree import outcomes
from zab_chaos.node.tree.requests import ANY, Check, Children, Create, Delete, Exists, Get, Multi, Request, Set, Step

R = TypeVar("R")
TYPES = (
    "A path is str, data is bytes, a version is int, sequential is bool, and the steps of a multi are a list of Create, Set, "
    "Delete and Check."
)
STEP = 0.05  # seconds between two calls of `while_waiting`

__all__ = ["ANY", "Done", "Failed", "Line", "Pending", "Session", "Unknown", "Verbs"]


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an operation that was executed.

    `zxid` (epoch, counter): for a write that of its transaction, for a read the last one that the answering node had
    delivered. `version`: the znode's version afterwards; None if there is none (deleted, or `exists` of a missing one).
    `path`: the complete path of a created znode. `value`, `children`: the result of a read. `steps`: (path, version) of
    each step of a multi.
    """

    zxid: tuple[int, int]
    version: int | None = None
    path: str | None = None
    value: bytes | None = None
    children: list[str] | None = None
    steps: list[tuple[str, int | None]] | None = None


class Failed(Exception):
    """The operation certainly had no effect. `error` is one of `zab_chaos.node.tree.refusal.ERRORS`; `words` explains it."""

    def __init__(self, error: str, words: str) -> None:
        super().__init__(f"{error}: {words}" if words else error)
        self.error = error
        self.words = words


class Unknown(Exception):
    """The operation may have taken effect, may still do so, or never will. `why`: the reason why that is not known."""

    def __init__(self, why: str) -> None:
        super().__init__(f"it is not known whether it took effect: {why}")
        self.why = why


Outcome = Done | Failed | Unknown

__tracebackhide__ = hidden_for(Failed, Unknown, TypeError)

_decode = msgspec.msgpack.Decoder(Request).decode


class Line(Protocol):
    """Carries the requests of one session to the ensemble, and the outcomes back."""

    @property
    def number(self) -> int:
        """The session's number."""

    @property
    def node(self) -> int:
        """The node that the line is connected to, or tries to reach."""

    def submit(self, request: Request, then: Callable[[outcomes.Outcome], None]) -> None:
        """Send a request as soon as possible; `then` is called when its outcome is known. Raises ValueError if closed."""

    def wait(self, known: Callable[[], bool], seconds: float) -> None:
        """Let time pass: at most `seconds`, and not much longer than until `known` returns True."""

    def close(self) -> None:
        """Close the line. Outstanding operations become unknown."""


class Pending:
    """A submitted request. Its outcome is known at the latest after the session's timeout, and then is Unknown."""

    def __init__(self, request: Request, session: "Session") -> None:
        self.request = request
        self._session = session
        self._outcome: Outcome | None = None

    @property
    def done(self) -> bool:
        """Whether the outcome is known. This does not wait; `outcome` and `result` do."""
        return self._outcome is not None

    def outcome(self) -> Outcome:
        """Wait for the outcome and return it; none of the three is raised."""
        while self._outcome is None:
            self._session.wait(lambda: self.done, STEP)
        return self._outcome

    def result(self) -> Done:
        """Wait for the outcome and return it if it is Done. Raises Failed or Unknown."""
        outcome = self.outcome()
        if isinstance(outcome, Done):
            return outcome
        raise outcome

    def resolve(self, outcome: outcomes.Outcome) -> None:
        """Set the outcome. Called by the session's line."""
        self._outcome = read_outcome(outcome)


class Verbs(ABC, Generic[R]):
    """The operations of the tree as methods. Each builds a request and returns what `ask` returns for it."""

    @abstractmethod
    def ask(self, request: Request) -> R:
        """Execute one request."""

    def create(self, path: str, data: bytes = b"", sequential: bool = False) -> R:
        """Create a znode. `sequential`: append ten digits, counted by the parent; `.path` is then the complete path."""
        return self.ask(Create(path, data, sequential))

    def set(self, path: str, data: bytes, version: int = ANY) -> R:
        """Replace a znode's data, if the znode has that version."""
        return self.ask(Set(path, data, version))

    def delete(self, path: str, version: int = ANY) -> R:
        """Delete a znode without children, if it has that version."""
        return self.ask(Delete(path, version))

    def check(self, path: str, version: int = ANY) -> R:
        """Change nothing, but fail unless the znode exists and has that version."""
        return self.ask(Check(path, version))

    def multi(self, steps: Sequence[Step]) -> R:
        """Execute several writes; all of them take effect, or none."""
        return self.ask(Multi(list(steps)))

    def get(self, path: str) -> R:
        """Read a znode's `.value` and `.version` from the node that this session is connected to."""
        return self.ask(Get(path))


class Session(Verbs[Done]):
    """A session whose methods wait for the outcome, and raise Failed or Unknown. `submit` does not wait.

    A session belongs to one thread. `while_waiting` is called regularly while it waits.
    """

    def __init__(self, line: Line, while_waiting: Callable[[], object] = lambda: None) -> None:
        self._line = line
        self._while_waiting = while_waiting

    @property
    def number(self) -> int:
        """The session's number, its `client` in ops.jsonl."""
        return self._line.number

    @property
    def node(self) -> int:
        """The node that it is connected to, or tries to reach."""
        return self._line.node

    def submit(self, request: Request) -> Pending:
        """Send a request (`zab_chaos.node.tree.requests`) without waiting. Several may be outstanding; they are answered in
        order. Raises TypeError for a value of a wrong type."""
        pending = Pending(request, self)
        refusal = refusal_of(request)
        if refusal is None:
            self._line.submit(request, pending.resolve)
        else:
            pending.resolve(refusal)
        return pending

    def ask(self, request: Request) -> Done:
        return self.submit(request).result()

    def exists(self, path: str) -> bool:
        """Return whether the znode exists."""
        return self.ask(Exists(path)).version is not None

    def children(self, path: str) -> list[str]:
        """Return the names of a znode's children."""
        return self.ask(Children(path)).children or []

    def wait(self, known: Callable[[], bool], seconds: float) -> None:
        """Let time pass; see `Line.wait`."""
        self._line.wait(known, seconds)
        self._while_waiting()

    def close(self) -> None:
        """Close the session. Outstanding operations become unknown."""
        self._line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def refusal_of(request: Request) -> outcomes.Failed | None:
    """Return the outcome of a request that can't be encoded, and so neither recorded nor sent; None if it can.

    Raises TypeError if a value in it has a wrong type: a node would disconnect the client.
    """
    try:
        _decode(encode(request))
    except (TypeError, msgspec.ValidationError) as error:
        why, _, _ = str(error).partition(" - at ")
        raise TypeError(f"{shortened(request)} can't be sent: {why}. {TYPES}") from None
    except (ValueError, OverflowError):
        return unencodable(request)
    return None


def read_outcome(outcome: outcomes.Outcome) -> Outcome:
    """Convert a node's answer to one of the three outcomes."""
    if type(outcome) is outcomes.Failed:
        return Failed(outcome.error, outcome.words)
    if type(outcome) is outcomes.Unknown:
        return Unknown(outcome.why)
    steps = [(step.path, step.version) for step in outcome.steps] if outcome.steps is not None else None
    return Done(
        zxid=_pair(outcome.zxid), version=outcome.version, path=outcome.path, value=outcome.data,
        children=outcome.children, steps=steps,
    )  # fmt: skip


def _pair(zxid: Zxid) -> tuple[int, int]:
    epoch, counter = pair(zxid)
    return epoch, counter
