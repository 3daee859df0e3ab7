"""What the workload asks for: its parameters, and each client's operations, drawn from the seed or written down."""

import dataclasses
import random
from collections import deque
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from msgspec import structs

from zab_chaos.faults.scenario import BAD_PATH, OPERATIONS, Operation, Scenario
from zab_chaos.node.tree.outcomes import Ok, Outcome
from zab_chaos.node.tree.requests import ANY, Check, Children, Create, Delete, Exists, Get, Multi, Request, Set, Step

CREATED_MAX = 10_000  # names of own children remembered for deletion
STALE = 0.2  # how often a condition names a version that the client knows to be over
REFUSED = 0.3  # how often a multi holds a step that must be refused
ABSENT = 0.1  # how often a read asks for a znode that is not there
READS = ("get", "exists", "children")
CONDITIONAL = 0.5  # how often the deletion of a child asks for its version
NAMELESS = 0.3  # how often a sequential child has nothing but its number for a name
COMPOSED = 0.4  # how often a multi is made of any steps, in any order
MOST_STEPS = 5  # of such a multi
ONCE_MORE = 0.2  # how often the child that was deleted last is created or deleted, instead of another one


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadParameters:
    """`rate`: operations a second, of all clients together, of which each has `burst` at once. `mix`: weights of
    `OPERATIONS`. `keys`: znodes that are set and read. `payload_bytes`: bytes of each write's data (more where the mark
    that makes it unique needs it). `max_outstanding`: of one client. `moves`, `visits`: how often a second some client goes
    to another of the `nodes`, or ends its session and begins another one. `timeout`: seconds after which an operation is
    unknown. `sessions`: clients beside these that live in sessions, with ephemeral znodes and watches, where there are any.
    `operations`: by time; if there are any, nothing is drawn. Raises ValueError, naming every mistake."""

    clients: int = 6
    rate: float = 200.0
    keys: int = 20
    payload_bytes: int = 128
    mix: dict[str, float] = field(default_factory=lambda: {"set": 1.0})
    max_outstanding: int = 100
    burst: int = 1
    moves: float = 0.0
    visits: float = 0.0
    timeout: float = 10.0
    sessions: int = 0
    nodes: int = 1
    operations: tuple[Operation, ...] = ()

    def __post_init__(self) -> None:
        wrong = [
            f"{name} is {getattr(self, name)}; it must be at least 1"
            for name in ("clients", "keys", "max_outstanding", "burst", "nodes")
            if getattr(self, name) < 1
        ]
        wrong.extend(
            f"{name} is {getattr(self, name)}; it must be more than 0"
            for name in ("rate", "timeout")
            if getattr(self, name) <= 0
        )
        wrong.extend(
            f"{name} is {getattr(self, name)}; it must not be negative"
            for name in ("payload_bytes", "moves", "visits")
            if getattr(self, name) < 0
        )
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


def load_parameters(scenario: Scenario) -> LoadParameters:
    """What a scenario's workload asks for."""
    return LoadParameters(**dataclasses.asdict(scenario.workload), nodes=scenario.nodes, operations=scenario.operations)


def key_path(key: int) -> str:
    """The path of a key's znode."""
    return f"/key-{key}"


class Draw:
    """One client's operations, in their order.

    Creations and deletions work on children of the keys that the client names itself, so that no client's set fails
    for want of a znode. Conditions ask for the version that the client saw last, or now and then for one before: others'
    writes make them fail, as they should.

    What is asked for, and how (`_details`, `_forms`), are drawn apart: an operation that is written down is done the same
    way.
    """

    def __init__(self, load: LoadParameters, seed: int, client: int) -> None:
        self._client = client
        self._keys = load.keys
        self._nodes = load.nodes
        self._moves = min(1.0, load.moves / load.rate)
        self._visits = min(1.0, load.visits / load.rate)
        self._random = random.Random(f"{seed}/{client}")
        self._details = random.Random(f"{seed}/{client}/details")
        self._forms = random.Random(f"{seed}/{client}/forms")
        self._filler = self._random.randbytes(load.payload_bytes)
        # Sorted, so that the order in which a mix is written down changes nothing.
        self._kinds, weights = zip(*sorted(load.mix.items()), strict=True)
        self._weights = list(accumulate(weights))
        self._count = 0
        self._created: deque[str] = deque(maxlen=CREATED_MAX)
        self._deleted: str | None = None  # the last child that it has asked to delete
        self._versions: dict[str, int] = {}

    def payload(self) -> bytes:
        """Data that no other write of the run has: client, number, padding."""
        self._count += 1
        mark = f"{self._client}.{self._count}.".encode()
        return mark + self._filler[len(mark) :]

    def choose(self) -> Operation:
        """What the client asks for next; when is not said."""
        (kind,) = self._random.choices(self._kinds, cum_weights=self._weights)
        key = self._random.randrange(self._keys)
        if kind in READS and self._random.random() < ABSENT:
            key = self._keys
        moves = self._moves > 0 and self._random.random() < self._moves
        anew = self._visits > 0 and self._random.random() < self._visits
        node = self._random.randrange(self._nodes) + 1 if moves or anew else None
        return Operation(at=0.0, do=kind, client=self._client, key=key, node=node, anew=anew)

    def request(self, asked: Operation) -> Request:
        """The operation, as a request."""
        path, kind = key_path(asked.key), asked.do
        data = self.payload() if asked.value is None else asked.value.encode()
        version = ANY if asked.version is None else asked.version
        if kind == "create":
            return self._create(path, data)
        if kind == "sequential":
            return self._sequential(path, data)
        if kind == "delete":
            return self._delete(path, data, asked.version)
        if kind == "set":
            return Set(path, data, version)
        if kind == "cas":
            return Set(path, data, self._condition(path) if asked.version is None else version)
        if kind == "multi":
            composed = self._forms.random() < COMPOSED and asked.version is None
            return self._composed(data) if composed else self._multi(path, data, version)
        if kind == "check":
            return Check(path, self._versions.get(path, ANY) if asked.version is None else version)
        if kind == BAD_PATH:
            return self._astray(path, data)
        if kind == "get":
            return Get(path)
        return Exists(path) if kind == "exists" else Children(path)

    def learn(self, request: Request, outcome: Outcome) -> None:
        """Remember what an answer showed: versions, and the names of sequential children."""
        if type(outcome) is not Ok:
            return
        if type(request) is Multi:
            seen = [(step.path, step.version) for step in outcome.steps or ()]
        else:
            seen = [(request.path, outcome.version)]
        self._versions.update((path, version) for path, version in seen if version is not None)
        if type(request) is Create and request.sequential and outcome.path is not None:
            self._created.append(outcome.path)

    def _condition(self, path: str) -> int:
        """The version seen last, or one that is over."""
        seen = self._versions.get(path, 0)
        return max(0, seen - 1) if self._details.random() < STALE else seen

    def _create(self, parent: str, data: bytes) -> Create:
        path = self._once_more() or f"{parent}/{self._client}-{self._count}"
        self._created.append(path)
        return Create(path, data)

    def _once_more(self) -> str | None:
        """Now and then the child that was deleted last, or is just being deleted."""
        return self._deleted if self._deleted is not None and self._forms.random() < ONCE_MORE else None

    def _sequential(self, parent: str, data: bytes) -> Create:
        name = "" if self._forms.random() < NAMELESS else f"{self._client}-"
        return Create(f"{parent}/{name}", data, sequential=True)

    def _delete(self, parent: str, data: bytes, version: int | None) -> Delete | Create:
        """A child that this client has made, now and then the one that it has deleted; if there is none, one is made."""
        gone = self._once_more()
        if gone is not None:
            return Delete(gone, ANY)
        if not self._created:
            return self._create(parent, data)
        if version is None:
            conditional = self._details.random() < CONDITIONAL
            version = int(self._details.random() < STALE) if conditional else ANY  # a child's version stays 0
        self._deleted = self._created.popleft()
        return Delete(self._deleted, version)

    def _composed(self, data: bytes) -> Multi:
        """Steps on any keys. Whether all of them can be done, and which can't, depends on what others do meanwhile."""
        return Multi([self._step(data + b"%d" % n) for n in range(self._forms.randint(1, MOST_STEPS))])

    def _step(self, data: bytes) -> Step:
        path = key_path(self._forms.randrange(self._keys))
        kind = self._forms.choice(("set", "cas", "check", "create", "sequential", "delete"))
        if kind == "create":
            return self._create(path, data)
        if kind == "sequential":
            return self._sequential(path, data)
        if kind == "delete":
            return self._delete(path, data, None)
        version = ANY if kind == "set" else self._condition(path)
        return Check(path, version) if kind == "check" else Set(path, data, version)

    def _astray(self, parent: str, data: bytes) -> Request:
        """Any request for a path that no znode can have."""
        path = self._forms.choice(
            (parent[1:], f"{parent}/", f"/{parent}", f"{parent}//x", f"{parent}/./x", f"{parent}/..")
        )
        return self._forms.choice(
            (
                *(Get(path), Exists(path), Children(path)),
                *(Set(path, data), Create(path, data), Delete(path), Check(path)),
                Multi([Set(parent, data), Create(path, data)]),
            )
        )

    def _multi(self, path: str, data: bytes, version: int) -> Multi:
        """Two to nine steps. Now and then one must be refused: then nothing of those before it may be seen. Some of those
        that are done leave nothing behind but the counter of the key's children."""
        child = f"{path}/{self._client}-{self._count}"
        steps: list[Step] = [Set(path, data, version)]
        if self._details.random() < REFUSED:
            refused: tuple[tuple[Step, ...], ...] = (
                (Check(path, 0),),
                (Set(f"{child}/none", data),),
                (Create(path, data),),
                (Create(f"{child}.", data), Delete(path)),  # it has a child now
                (Create(f"{child}./none/none", data),),
                (Create(f"{child}.", data), Set(f"{child}.", data + b","), Delete(f"{child}.", 0)),
                (Create(f"{child}.", data), Create(f"{child}./1", data), Set(f"{child}.", data), Delete(f"{child}.")),
            )
            steps.extend(self._details.choice(refused))
        shape = self._details.randrange(5)
        if shape == 0:
            steps.insert(0, Check(path, ANY))
        elif shape == 1:
            steps.append(self._create(path, data))
        elif shape == 2 and self._created:
            steps.append(Delete(self._created.popleft()))
        elif shape == 3:
            steps += [Create(f"{child}.", data + b"."), Create(f"{child}./1", data + b",")]
            steps += [Delete(f"{child}./1"), Delete(f"{child}.", 0)]
        else:
            steps.append(Set(path, data + b"."))
        return Multi(steps)


def nodes_named(named: int | str | None, hit: Mapping[str, Sequence[int]]) -> Sequence[int]:
    """The nodes to one of which an operation goes that names a node, or a fault that has `hit` some; none: to any."""
    if isinstance(named, str):
        return hit.get(named, ())
    return () if named is None else (named,)


class Agenda:
    """What one client owes, and when. `number` counts from 1."""

    def __init__(self, load: LoadParameters, seed: int, number: int) -> None:
        self.sent = 0
        self._load = load
        self._number = number
        self._draw = Draw(load, seed, number)
        self._written = [one for one in load.operations if one.client == number]

    @property
    def due_ns(self) -> int | None:
        """When the next operation is due, in nanoseconds after the load has begun; None if there is none."""
        load = self._load
        if load.operations:
            return int(self._written[self.sent].at * 1e9) if self.sent < len(self._written) else None
        first = self.sent - self.sent % load.burst  # of those that come at once
        return int((first * load.clients + self._number - 1) * 1e9 / load.rate)

    @property
    def upcoming(self) -> Operation | None:
        """The next operation, if it is written down."""
        return self._written[self.sent] if self.sent < len(self._written) else None

    def waits_for_fault(self, taken: Container[str]) -> bool:
        """Whether the next operation is put off, although it is due: a fault that it needs is not one of those that have
        `taken` effect."""
        return self.upcoming is not None and any(name not in taken for name in self.upcoming.needs)

    def next_operation(self) -> tuple[Request, Operation]:
        """The operation that is next, which is thereby sent: the request, and what else is to be done for it."""
        asked = self._written[self.sent] if self._load.operations else self._draw.choose()
        self.sent += 1
        return self._draw.request(asked), asked

    def learn(self, request: Request, outcome: Outcome) -> None:
        """See `Draw.learn`."""
        self._draw.learn(request, outcome)


def written_operations(load: LoadParameters, seed: int, seconds: float) -> tuple[Operation, ...]:
    """What a drawn load asks for within so long, as operations to write down; its times to a microsecond."""
    found = []
    for number in range(1, load.clients + 1):
        agenda, draw = Agenda(load, seed, number), Draw(load, seed, number)
        while (due := agenda.due_ns) is not None and due < seconds * 1e9:
            found.append(structs.replace(draw.choose(), at=round(due / 1e9, 6)))
            agenda.sent += 1
    return tuple(sorted(found, key=lambda one: one.at))
