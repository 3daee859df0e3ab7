"""A client that a program holds in its hands: the verbs of the tree, and three outcomes that nobody can mix up.

What was done comes back as `Done`. What certainly had no effect is raised as `Failed`, and what nobody can tell about is
raised as `Unknown`; the two have nothing in common but being exceptions, so that no `except` takes both by accident.
A caller that would rather look at an outcome than catch it takes `submit(...).outcome()`, one of the three.

The same session works over ZeroMQ and in the simulated world: what carries its requests is a `Line`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from zab_chaos.harness.client.hidden_frames import hidden_for
from zab_chaos.node.core.zxid import Zxid, pair
from zab_chaos.node.tree import outcomes
from zab_chaos.node.tree.requests import ANY, Check, Children, Create, Delete, Exists, Get, Multi, Request, Set, Step

R = TypeVar("R")
STEP = 0.05  # seconds between two looks at what goes on beside the waiting

__all__ = ["ANY", "Done", "Failed", "Line", "Pending", "Session", "Unknown", "Verbs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """It was done.

    `zxid` (epoch, counter): of a write its transaction's, of a read the last one that the answering node had delivered.
    `version`: the znode's afterwards; None where there is none (deleted, or `exists` of a missing one).
    `path`: of a create the complete path. `value`, `children`: what a read asked for. `steps`: a multi's (path, version).
    """

    zxid: tuple[int, int]
    version: int | None = None
    path: str | None = None
    value: bytes | None = None
    children: list[str] | None = None
    steps: list[tuple[str, int | None]] | None = None


class Failed(Exception):
    """Certainly without effect. `error` is one of `zab_chaos.node.tree.refusal.ERRORS`, `words` explain it."""

    def __init__(self, error: str, words: str) -> None:
        super().__init__(f"{error}: {words}" if words else error)
        self.error = error
        self.words = words


class Unknown(Exception):
    """It may have taken effect, may yet, or never will; `why` nobody can tell."""

    def __init__(self, why: str) -> None:
        super().__init__(f"it is not known whether it took effect: {why}")
        self.why = why


Outcome = Done | Failed | Unknown

__tracebackhide__ = hidden_for(Failed, Unknown)


class Line(Protocol):
    """What carries a session's requests to an ensemble and its outcomes back."""

    @property
    def number(self) -> int:
        """The session's."""

    @property
    def node(self) -> int:
        """The node that it is connected to, or tries to reach."""

    def submit(self, request: Request, then: Callable[[outcomes.Outcome], None]) -> None:
        """Take a request, and send it as soon as it can be sent; `then` is called when its outcome is known."""

    def wait(self, known: Callable[[], bool], seconds: float) -> None:
        """Let time pass, but not beyond `seconds` and not much longer than until `known`."""

    def close(self) -> None:
        """Whatever is outstanding becomes unknown."""


class Pending:
    """A request on its way. Its outcome comes at the latest when the session's timeout is over, then as Unknown."""

    def __init__(self, request: Request, session: "Session") -> None:
        self.request = request
        self._session = session
        self._outcome: Outcome | None = None

    @property
    def done(self) -> bool:
        """Whether the outcome is known. Asking lets no time pass: wait with `outcome` or `result`."""
        return self._outcome is not None

    def outcome(self) -> Outcome:
        """Wait for it: one of the three, none of them raised."""
        while self._outcome is None:
            self._session.wait(lambda: self.done, STEP)
        return self._outcome

    def result(self) -> Done:
        """Wait for it. Raises Failed or Unknown."""
        outcome = self.outcome()
        if isinstance(outcome, Done):
            return outcome
        raise outcome

    def known(self, outcome: outcomes.Outcome) -> None:
        """For the session: this became of it."""
        self._outcome = read_outcome(outcome)


class Verbs(ABC, Generic[R]):
    """The verbs of the tree. Each makes a request, and gives what `ask` makes of that."""

    @abstractmethod
    def ask(self, request: Request) -> R:
        """Do one request."""

    def create(self, path: str, data: bytes = b"", sequential: bool = False) -> R:
        """A new znode. `sequential`: ten digits, counted by the parent, are appended; `.path` tells the whole."""
        return self.ask(Create(path, data, sequential))

    def set(self, path: str, data: bytes, version: int = ANY) -> R:
        """Replace a znode's data, if it has that version."""
        return self.ask(Set(path, data, version))

    def delete(self, path: str, version: int = ANY) -> R:
        """Remove a znode without children, if it has that version."""
        return self.ask(Delete(path, version))

    def check(self, path: str, version: int = ANY) -> R:
        """Change nothing, but fail unless the znode is there and has that version."""
        return self.ask(Check(path, version))

    def multi(self, steps: Sequence[Step]) -> R:
        """Several writes, of which all take effect or none."""
        return self.ask(Multi(list(steps)))

    def get(self, path: str) -> R:
        """A znode's `.value` and `.version`, as the node has them that this session is connected to."""
        return self.ask(Get(path))


class Session(Verbs[Done]):
    """One client. Every verb waits for its outcome and raises Failed or Unknown; `submit` does not wait.

    A session belongs to one thread. `beside` is called every now and then while it waits.
    """

    def __init__(self, line: Line, beside: Callable[[], object] = lambda: None) -> None:
        self._line = line
        self._beside = beside

    @property
    def number(self) -> int:
        """What the session is called in ops.jsonl."""
        return self._line.number

    @property
    def node(self) -> int:
        """The node that it is connected to, or tries to reach."""
        return self._line.node

    def submit(self, request: Request) -> Pending:
        """Send a request (`zab_chaos.node.tree.requests`) and go on; several may be outstanding, and are answered in order."""
        pending = Pending(request, self)
        self._line.submit(request, pending.known)
        return pending

    def ask(self, request: Request) -> Done:
        return self.submit(request).result()

    def exists(self, path: str) -> bool:
        """Whether there is such a znode."""
        return self.ask(Exists(path)).version is not None

    def children(self, path: str) -> list[str]:
        """The names of a znode's children."""
        return self.ask(Children(path)).children or []

    def wait(self, known: Callable[[], bool], seconds: float) -> None:
        """Let time pass; see `Line.wait`."""
        self._line.wait(known, seconds)
        self._beside()

    def close(self) -> None:
        """Say goodbye. Whatever is outstanding becomes unknown."""
        self._line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def read_outcome(outcome: outcomes.Outcome) -> Outcome:
    """What the node answered, as one of the three."""
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
