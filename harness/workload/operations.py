"""The parameters of a workload, and each client's operations: drawn from the seed, or written in the scenario."""

import dataclasses
import random
from bisect import bisect
from collections import deque
from collections.abc import Container
from dataclasses import dataclass
from itertools import accumulate
from math import trunc

from msgspec import structs

from zab_chaos.faults.scenario import AT_ROOT, BAD_PATH, NUMBERED, REFUSED, REPLACE, Operation, Scenario, Workload
from zab_chaos.node.tree.outcomes import Ok, Outcome
from zab_chaos.node.tree.paths import parent_of
from zab_chaos.node.tree.primary import NAME_BYTES
from zab_chaos.node.tree.refusal import BAD_VERSION, NO_NODE, NO_PARENT, NODE_EXISTS, NOT_EMPTY
from zab_chaos.node.tree.requests import ANY, Check, Children, Create, Delete, Exists, Get, Multi, Request, Set, Step

CREATED_MAX = 10_000  # paths of its own children that a client remembers for deletion
VERSION_MAX = 2**31 - 1  # which no znode reaches
STALE_RATIO = 0.2  # of the conditions: they name a version that the client knows to be replaced
REFUSED_RATIO = 0.3  # of the multis: they contain a step that must be refused
ABSENT_RATIO = 0.1  # of the reads: they ask for the shared znode, which often does not exist
READS = ("get", "exists", "children")
CREATING = ("create", "sequential", "delete")
CONDITIONAL_RATIO = 0.5  # of the deletions of a child: they have a condition on its version
NAMELESS_RATIO = 0.3  # of the sequential children: their name is only the number
AHEAD_MAX = 4  # how far a number that is taken as a name is above the last one that the client knows
COMPOSED_RATIO = 0.4  # of the multis: they consist of any steps in any order
STEPS_MAX = 5  # of such a multi
CHILD_RATIO = 0.5  # of the replacements: they concern a child, not a key
SHARED_RATIO = 0.4  # of the creations and deletions, if the mix has all of CREATING: they concern the shared znode
REPEATED_RATIO = 0.2  # of the creations and deletions: they concern the child that was deleted last


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadParameters(Workload):
    """A scenario's workload, with what else decides about its operations. Raises ValueError for a mix without weights.

    `nodes`: how many nodes there are. `operations`: operations with their times; if there are any, nothing is drawn.
    """

    nodes: int = 1
    operations: tuple[Operation, ...] = ()

    def __post_init__(self) -> None:
        if sum(self.mix.values()) <= 0:  # of a default mix a backend may support nothing
            raise ValueError("mix needs weights that are not negative, and one above 0")

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of operations that it may send, as a mix names them."""
        return frozenset({one.do for one in self.operations} or {kind for kind, weight in self.mix.items() if weight})

    def due_by(self, elapsed_ns: int) -> int:
        """Return how many operations are due so long after the load has begun."""
        if self.operations:
            return sum(int(one.at * 1e9) <= elapsed_ns for one in self.operations)
        return int(elapsed_ns / 1e9 * self.rate)


def load_parameters(scenario: Scenario) -> LoadParameters:
    """Return the parameters of a scenario's workload."""
    return LoadParameters(**dataclasses.asdict(scenario.workload), nodes=scenario.nodes, operations=scenario.operations)


def key_path(key: int) -> str:
    """Return the path of a key's znode."""
    return f"/key-{key}"


class Draw:
    """Draws one client's operations in their order, and turns operations into requests.

    Most creations and deletions concern children of the keys with names of the client's own, so that no client's set fails
    because its znode was deleted. The others concern the shared znode, whose number is that of the last key plus one: all
    clients create it, create sequential children of it, and delete them and it. Conditions name the version that the client
    saw last, or sometimes an earlier one; writes of other clients make them fail, as they should.

    The operation itself is drawn from another random stream than the details of its request (`_details`, `_forms`), so that
    a written operation results in the same request as a drawn one.
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
        self._shared = random.Random(f"{seed}/{client}/shared")
        self._numbering = random.Random(f"{seed}/{client}/numbers")
        self._numbers: dict[str, int] = {}  # by parent: the number of the sequential child that the client created last
        self._shares = load.mix.keys() >= set(CREATING)
        self._filler = self._random.randbytes(load.payload_bytes)
        # Sorted, so that the order in which a mix is written down changes nothing.
        self._kinds, weights = zip(*sorted(load.mix.items()), strict=True)
        self._weights = list(accumulate(weights))
        self._count = 0
        self._created: deque[str] = deque(maxlen=CREATED_MAX)
        self._leaves: list[str] = []  # its children of the shared znode
        self._deleted: str | None = None  # the last child whose deletion it has requested
        self._versions: dict[str, int] = {}

    def payload(self) -> bytes:
        """Return data that no other write of the run has: client, number, padding."""
        self._count += 1
        mark = f"{self._client}.{self._count}.".encode()
        return mark + self._filler[len(mark) :]

    def choose(self) -> Operation:
        """Draw the client's next operation, without its time."""
        # As `choices` draws one with weights, without what it does for any number of them.
        kind = self._kinds[bisect(self._weights, self._random.random() * self._weights[-1], 0, len(self._kinds) - 1)]
        key = self._random.randrange(self._keys)
        if kind in READS and self._random.random() < ABSENT_RATIO:
            key = self._keys
        if kind in CREATING and self._shares and self._shared.random() < SHARED_RATIO:
            kind, key = self._shared.choice((*CREATING, "delete")), self._keys
        moves = self._moves > 0 and self._random.random() < self._moves
        anew = self._visits > 0 and self._random.random() < self._visits
        node = self._random.randrange(self._nodes) + 1 if moves or anew else None
        return Operation(at=0.0, do=kind, client=self._client, key=key, node=node, anew=anew)

    def request(self, operation: Operation) -> Request:
        """Return the request for an operation."""
        path, kind = key_path(operation.key), operation.do
        data = self.payload() if operation.value is None else operation.value.encode()
        version = ANY if operation.version is None else operation.version
        shared = operation.key == self._keys
        if kind == "create":
            return Create(path, data) if shared else self._create(path, data)
        if kind == "sequential":
            return self._sequential(path, data)
        if kind == AT_ROOT:
            return self._sequential("", data)
        if kind == NUMBERED:
            return Create(f"{path}/{self._next_number(path):0{NAME_BYTES}d}", data)
        if kind == "delete" and shared:
            return Delete(self._leaves.pop() if self._leaves else path, version)
        if kind == "delete":
            return self._delete(path, data, operation.version)
        if kind == "set":
            return Set(path, data, version)
        if kind == "cas":
            return Set(path, data, self._condition(path) if operation.version is None else version)
        if kind == "multi":
            composed = self._forms.random() < COMPOSED_RATIO and operation.version is None
            return self._composed(data) if composed else self._multi(path, data, version)
        if kind == REPLACE:
            return self._replace(path, data, operation.version)
        if kind == REFUSED:
            return self._refused(path, data)
        if kind == "check":
            return Check(path, self._versions.get(path, ANY) if operation.version is None else version)
        if kind == BAD_PATH:
            return self._bad_path(path, data)
        if kind == "get":
            return Get(path)
        return Exists(path) if kind == "exists" else Children(path)

    def learn(self, request: Request, outcome: Outcome) -> None:
        """Remember the versions and the names of sequential children from an answer."""
        if type(outcome) is not Ok:
            return
        if type(request) is Multi:
            seen = [(step.path, step.version) for step in outcome.steps or ()]
            self._versions.update((path, version) for path, version in seen if version is not None)
        elif outcome.version is not None:
            self._versions[request.path] = outcome.version
        if type(request) is Create and request.sequential and outcome.path is not None:
            shared = request.path.startswith(f"{key_path(self._keys)}/")
            (self._leaves if shared else self._created).append(outcome.path)
            if (number := outcome.path[-NAME_BYTES:]).isdigit():  # else the answer is wrong, and the judge says so
                self._numbers[parent_of(outcome.path)] = int(number)

    def has_seen_version(self, path: str) -> bool:
        """Return whether an answer named a version of the key."""
        return path in self._versions

    def _condition(self, path: str) -> int:
        """Return the version that was seen last, or sometimes the one before."""
        seen = self._versions.get(path, 0)
        return max(0, seen - 1) if self._details.random() < STALE_RATIO else seen

    def _create(self, parent: str, data: bytes) -> Create:
        path = self._repeated_path() or f"{parent}/{self._client}-{self._count}"
        self._created.append(path)
        return Create(path, data)

    def _repeated_path(self) -> str | None:
        """Return sometimes the path of the child whose deletion was requested last, else None."""
        return self._deleted if self._deleted is not None and self._forms.random() < REPEATED_RATIO else None

    def _next_number(self, parent: str) -> int:
        """Return a number that a sequential child will soon have."""
        return self._numbers.get(parent, -1) + self._numbering.randint(1, AHEAD_MAX)

    def _sequential(self, parent: str, data: bytes) -> Create:
        name = "" if self._forms.random() < NAMELESS_RATIO else f"{self._client}-"
        return Create(f"{parent}/{name}", data, sequential=True)

    def _delete(self, parent: str, data: bytes, version: int | None) -> Delete | Create:
        """Delete a child that this client has created, or sometimes the last deleted one. Create one if there is none."""
        gone = self._repeated_path()
        if gone is not None:
            return Delete(gone, ANY)
        if not self._created:
            return self._create(parent, data)
        if version is None:
            conditional = self._details.random() < CONDITIONAL_RATIO
            version = int(self._details.random() < STALE_RATIO) if conditional else ANY  # a child's version stays 0
        self._deleted = self._created.popleft()
        return Delete(self._deleted, version)

    def _replace(self, key: str, data: bytes, version: int | None) -> Multi:
        """Return a multi that deletes a znode, sometimes on condition of a version, and creates it again: a child that this
        client has created, or the key, which may have children. No other request comes in between. With a given version it is
        the key."""
        if version is not None:
            path = key
        elif self._created and self._forms.random() < CHILD_RATIO:
            path, version = self._created[-1], self._forms.choice((ANY, 0, 1))  # a child's version stays 0
        else:
            path, version = key, self._forms.choice((ANY, self._condition(key)))
        return Multi([Delete(path, version), Create(path, data)])

    def _composed(self, data: bytes) -> Multi:
        """Return a multi of steps on any keys. Whether it is refused, and by which step, depends on the other clients."""
        return Multi([self._step(data + b"%d" % n) for n in range(self._forms.randint(1, STEPS_MAX))])

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

    def _refused(self, key: str, data: bytes) -> Request:
        """Return a write that any state refuses in which the key exists, each with one of these errors."""
        missing = f"{key}/none"
        by_error: dict[str, tuple[Request, ...]] = {
            NODE_EXISTS: (Create(key, data),),
            NO_PARENT: (Create(f"{missing}/none", data),),
            BAD_VERSION: (Set(key, data, VERSION_MAX),),
            NOT_EMPTY: (Multi([Create(missing, data), Delete(key)]),),
            NO_NODE: (Set(missing, data), Delete(missing), Check(missing), Multi([Set(key, data), Check(missing)])),
        }
        return self._forms.choice(by_error[self._forms.choice(list(by_error))])

    def _bad_path(self, parent: str, data: bytes) -> Request:
        """Return a request of any kind with a path that is not valid."""
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
        """Return a multi of two to nine steps. Sometimes one must be refused; then none of the steps before it may show.

        Some of the others leave nothing behind but the counter of the key's children.
        """
        child = f"{path}/{self._client}-{self._count}"
        steps: list[Step] = [Set(path, data, version)]
        if self._details.random() < REFUSED_RATIO:
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


class Agenda:
    """The operations of one client, with their times. `number`: the client's, from 1.

    `next_written`: the next operation, if it is written in the scenario; None if it is drawn or there is none. `due_ns`: when
    the next operation is due, in nanoseconds after the load began; None if there is none.
    """

    def __init__(self, load: LoadParameters, seed: int, number: int) -> None:
        self.sent = 0
        self._load = load
        self._number = number
        self._draw = Draw(load, seed, number)
        self._operations = [one for one in load.operations if one.client == number]
        self._look_ahead()

    def count_sent(self) -> None:
        """Count the next operation as sent."""
        self.sent += 1
        self._look_ahead()

    def _look_ahead(self) -> None:
        load = self._load
        self.next_written = self._operations[self.sent] if self.sent < len(self._operations) else None
        if load.operations:
            self.due_ns = int(self.next_written.at * 1e9) if self.next_written is not None else None
        else:
            first = self.sent - self.sent % load.burst  # of the burst that the operation belongs to
            self.due_ns = trunc((first * load.clients + self._number - 1) * 1e9 / load.rate)

    def waits_for_fault(self, effective: Container[str]) -> bool:
        """Return whether the next operation needs a fault that is not in `effective`, those that have taken effect."""
        return self.next_written is not None and any(name not in effective for name in self.next_written.needs)

    def next_operation(self) -> tuple[Request, Operation]:
        """Take the next operation: its request, and the operation itself. It counts as sent."""
        operation = self.next_written or self._draw.choose()
        self.count_sent()
        return self.request(operation), operation

    def request(self, operation: Operation) -> Request:
        """See `Draw.request`."""
        return self._draw.request(operation)

    def learn(self, request: Request, outcome: Outcome) -> None:
        """See `Draw.learn`."""
        self._draw.learn(request, outcome)

    def has_seen_version(self, path: str) -> bool:
        """See `Draw.has_seen_version`."""
        return self._draw.has_seen_version(path)


def written_operations(load: LoadParameters, seed: int, seconds: float) -> tuple[Operation, ...]:
    """Return the operations that a load draws within so many seconds, as a scenario writes them; times to a microsecond."""
    found = []
    for number in range(1, load.clients + 1):
        agenda, draw = Agenda(load, seed, number), Draw(load, seed, number)
        while (due := agenda.due_ns) is not None and due < seconds * 1e9:
            found.append(structs.replace(draw.choose(), at=round(due / 1e9, 6)))
            agenda.count_sent()
    return tuple(sorted(found, key=lambda one: one.at))
