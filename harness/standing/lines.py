"""What carries the requests of an ensemble's clients, and writes each down before it leaves: ops.jsonl."""

import threading
from collections.abc import Callable
from pathlib import Path

from harness.client import Client, Operation
from harness.ops import OpsFile
from harness.simrecords import Records
from harness.workload import Counters
from model.simclients import SimClient, SimOperation
from model.simnode import SimNode
from model.world import World
from node.net.keys import Keys
from node.tree.outcomes import Outcome
from node.tree.requests import Request

CLOSED = "this client is closed, or its ensemble is over"
Then = Callable[[Outcome], None]


class Tally:
    """How many operations there were, by outcome, over all clients."""

    def __init__(self) -> None:
        self._counts = {"invoked": 0, "ok": 0, "failed": 0, "unknown": 0}

    def add(self, name: str) -> None:
        self._counts[name] += 1

    @property
    def counters(self) -> Counters:
        return Counters(**self._counts)


class Book:
    """ops.jsonl, shared by the clients of all threads."""

    def __init__(self, path: Path, tally: Tally) -> None:
        self._file = OpsFile(path)
        self._tally = tally
        self._lock = threading.Lock()

    def invoke(self, client: Client, operation: Operation) -> None:
        with self._lock:
            self._tally.add("invoked")
            self._file.invoke(client, operation, operation.submitted_ns)
            self._file.flush()

    def complete(self, client: Client, operation: Operation, outcome: Outcome) -> None:
        with self._lock:
            self._tally.add(self._file.complete(client, operation, outcome))
            self._file.flush()

    def close(self) -> None:
        with self._lock:
            self._file.close()


class SocketLine:
    """A client over ZeroMQ. Implements `harness.session.Line`."""

    def __init__(
        self, addresses: dict[int, str], keys: Keys, book: Book, number: int, node: int, timeout: float
    ) -> None:
        self._client = Client(addresses, keys, node, number=number, timeout=timeout)
        self._book = book
        self._closed = False

    @property
    def number(self) -> int:
        return self._client.number

    @property
    def node(self) -> int:
        return self._client.node

    def submit(self, request: Request, then: Then) -> None:
        def known(operation: Operation, outcome: Outcome) -> None:
            self._book.complete(self._client, operation, outcome)
            then(outcome)

        if self._closed:
            raise ValueError(CLOSED)
        self._book.invoke(self._client, self._client.submit(request, known))
        self._client.flush()

    def wait(self, known: Callable[[], bool], seconds: float) -> None:
        self._client.poll(seconds)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._client.close()


class SimLine:
    """A simulated client: whoever waits lets the world go on. Implements `harness.session.Line`."""

    def __init__(
        self, world: World, machines: list[SimNode], records: Records, tally: Tally, number: int, node: int,
        timeout: float,
    ) -> None:  # fmt: skip
        self._world = world
        self._records = records
        self._tally = tally
        self._thens: dict[int, Then] = {}
        self._closed = False
        first = [machine.id for machine in machines].index(node)
        self._client = SimClient(world, machines, first, number, int(timeout * 1e9), self._known, self._ready)

    @property
    def number(self) -> int:
        return self._client.number

    @property
    def node(self) -> int:
        return self._client.node

    def submit(self, request: Request, then: Then) -> None:
        if self._closed:
            raise ValueError(CLOSED)
        operation = self._client.submit(request, self._world.now)
        self._thens[operation.seq] = then
        self._tally.add("invoked")
        self._records.invoke(self.number, self.node, operation)
        self._client.flush()

    def wait(self, known: Callable[[], bool], seconds: float) -> None:
        self._world.until(known, int(seconds * 1e9))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._client.close()

    def _known(self, operation: SimOperation, outcome: Outcome) -> None:
        name, _ = self._records.complete(self.number, self.node, operation, outcome)
        self._tally.add(name)
        self._thens.pop(operation.seq)(outcome)

    def _ready(self) -> None:
        self._client.flush()
