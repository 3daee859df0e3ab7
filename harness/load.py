"""What the workload asks for: its parameters, and each client's operations, drawn from the seed."""

import random
from collections import deque
from dataclasses import dataclass, field

from node.tree.outcomes import Ok, Outcome
from node.tree.requests import ANY, Check, Children, Create, Delete, Exists, Get, Multi, Request, Set

OPERATIONS = ("create", "set", "delete", "check", "multi", "get", "exists", "children")
CREATED_MAX = 10_000  # names of own children remembered for deletion


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`rate`: operations a second, of all clients together. `mix`: weights of `OPERATIONS`. `keys`: znodes that are set
    and read. `payload_bytes`: bytes of each write's data (more where the mark that makes it unique needs it).
    `max_outstanding`: of one client. Raises ValueError, naming every mistake."""

    clients: int = 6
    rate: float = 200.0
    keys: int = 20
    payload_bytes: int = 128
    mix: dict[str, float] = field(default_factory=lambda: {"set": 1.0})
    max_outstanding: int = 100

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
        self._kinds, self._weights = zip(*sorted(load.mix.items()), strict=True)
        self._count = 0
        self._created: deque[str] = deque(maxlen=CREATED_MAX)
        self._versions: dict[str, int] = {}

    def payload(self) -> bytes:
        """Data that no other write of the run has: client, number, padding."""
        self._count += 1
        mark = f"{self._client}.{self._count}.".encode()
        return mark + self._filler[len(mark) :]

    def request(self) -> Request:
        """The client's next operation."""
        (kind,) = self._random.choices(self._kinds, self._weights)
        path = key_path(self._random.randrange(self._keys))
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
