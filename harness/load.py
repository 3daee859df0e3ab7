"""What the workload asks for: its parameters, and each client's operations, drawn from the seed or written down."""

import dataclasses
import random
from collections import deque
from dataclasses import dataclass, field
from itertools import accumulate

from faults.scenario import Operation, Scenario
from node.tree.outcomes import Ok, Outcome
from node.tree.requests import ANY, Check, Children, Create, Delete, Exists, Get, Multi, Request, Set

OPERATIONS = ("create", "set", "delete", "check", "multi", "get", "exists", "children")
CREATED_MAX = 10_000  # names of own children remembered for deletion


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`rate`: operations a second, of all clients together. `mix`: weights of `OPERATIONS`. `keys`: znodes that are set
    and read. `payload_bytes`: bytes of each write's data (more where the mark that makes it unique needs it).
    `max_outstanding`: of one client. `operations`: by time; if there are any, nothing is drawn. Raises ValueError, naming
    every mistake."""

    clients: int = 6
    rate: float = 200.0
    keys: int = 20
    payload_bytes: int = 128
    mix: dict[str, float] = field(default_factory=lambda: {"set": 1.0})
    max_outstanding: int = 100
    operations: tuple[Operation, ...] = ()

    def __post_init__(self) -> None:
        wrong = [
            f"{name} is {getattr(self, name)}; it must be at least 1"
            for name in ("clients", "keys", "max_outstanding")
            if getattr(self, name) < 1
        ]
        if self.rate <= 0:
            wrong.append(f"rate is {self.rate}; it must be more than 0")
        if self.payload_bytes < 0:
            wrong.append(f"payload_bytes is {self.payload_bytes}; it must not be negative")
        wrong.extend(
            f"mix has {name!r}; allowed are {', '.join(OPERATIONS)}" for name in self.mix if name not in OPERATIONS
        )
        if not self.mix or min(self.mix.values()) < 0 or sum(self.mix.values()) <= 0:
            wrong.append("mix needs weights that are not negative, and one above 0")
        if wrong:
            raise ValueError("; ".join(wrong))

    def due_by(self, elapsed_ns: int) -> int:
        """How many operations are due so long after the load has begun."""
        if self.operations:
            return sum(int(one.at * 1e9) <= elapsed_ns for one in self.operations)
        return int(elapsed_ns / 1e9 * self.rate)


def load_of(scenario: Scenario) -> Load:
    """What a scenario's workload asks for."""
    return Load(**dataclasses.asdict(scenario.workload), operations=scenario.operations)


def key_path(key: int) -> str:
    """The path of a key's znode."""
    return f"/key-{key}"


class Draw:
    """One client's operations, in their order.

    Creations and deletions work on children of the keys that the client names itself, so that no client's set fails
    for want of a znode. `check` asks for the version that the client saw last: others' sets make it fail, as it should.
    """

    def __init__(self, load: Load, seed: int, client: int) -> None:
        self._client = client
        self._keys = load.keys
        self._bytes = load.payload_bytes
        self._random = random.Random(f"{seed}/{client}")
        self._filler = self._random.randbytes(load.payload_bytes)
        # Sorted, so that the order in which a mix is written down changes nothing.
        self._kinds, weights = zip(*sorted(load.mix.items()), strict=True)
        self._weights = list(accumulate(weights))
        self._count = 0
        self._created: deque[str] = deque(maxlen=CREATED_MAX)
        self._versions: dict[str, int] = {}

    def payload(self) -> bytes:
        """Data that no other write of the run has: client, number, padding."""
        self._count += 1
        mark = f"{self._client}.{self._count}.".encode()
        return mark + self._filler[len(mark) :]

    def choose(self) -> tuple[str, int]:
        """What the client asks for next, and which key it is about."""
        (kind,) = self._random.choices(self._kinds, cum_weights=self._weights)
        return kind, self._random.randrange(self._keys)

    def request(self, kind: str, key: int) -> Request:
        """The operation of that kind on that key."""
        path = key_path(key)
        if kind == "delete" and self._created:
            return Delete(self._created.popleft())
        if kind in ("create", "delete"):
            return self._create(path)
        if kind == "set":
            return Set(path, self.payload())
        if kind == "multi":
            return Multi([Check(path, ANY), Set(path, self.payload())])
        if kind == "check":
            return Check(path, self._versions.get(path, ANY))
        if kind == "get":
            return Get(path)
        return Exists(path) if kind == "exists" else Children(path)

    def learn(self, request: Request, outcome: Outcome) -> None:
        """Remember the version that an answer showed."""
        if isinstance(outcome, Ok) and outcome.version is not None and not isinstance(request, Multi):
            self._versions[request.path] = outcome.version

    def _create(self, parent: str) -> Create:
        data = self.payload()
        path = f"{parent}/{self._client}-{self._count}"
        self._created.append(path)
        return Create(path, data)


class Agenda:
    """What one client owes, and when. `number` counts from 1."""

    def __init__(self, load: Load, seed: int, number: int) -> None:
        self.sent = 0
        self._load = load
        self._number = number
        self._draw = Draw(load, seed, number)
        self._written = [one for one in load.operations if one.client == number]

    @property
    def due_ns(self) -> int | None:
        """When the next operation is due, in nanoseconds after the load has begun; None if there is none."""
        if self._load.operations:
            return int(self._written[self.sent].at * 1e9) if self.sent < len(self._written) else None
        return int((self.sent * self._load.clients + self._number - 1) * 1e9 / self._load.rate)

    def take(self) -> Request:
        """The operation that is next, which is thereby sent."""
        if self._load.operations:
            written = self._written[self.sent]
            kind, key = written.do, written.key
        else:
            kind, key = self._draw.choose()
        self.sent += 1
        return self._draw.request(kind, key)

    def learn(self, request: Request, outcome: Outcome) -> None:
        """See `Draw.learn`."""
        self._draw.learn(request, outcome)


def written_out(load: Load, seed: int, seconds: float) -> tuple[Operation, ...]:
    """What a drawn load asks for within so long, as operations to write down; its times to a microsecond."""
    found = []
    for number in range(1, load.clients + 1):
        agenda, draw = Agenda(load, seed, number), Draw(load, seed, number)
        while (due := agenda.due_ns) is not None and due < seconds * 1e9:
            kind, key = draw.choose()
            found.append(Operation(at=round(due / 1e9, 6), do=kind, client=number, key=key))
            agenda.sent += 1
    return tuple(sorted(found, key=lambda one: one.at))
