"""A closed-loop load: keeps a number of writes outstanding until enough have succeeded."""

import time
from dataclasses import dataclass

from zab_chaos.harness.client.client import Client
from zab_chaos.harness.client.core import Operation
from zab_chaos.harness.errors import HarnessError
from zab_chaos.node.tree.outcomes import Ok, Outcome
from zab_chaos.node.tree.requests import ANY, Create, Request, Set


def path(number: int) -> str:
    return f"/k{number}"


def create_keys(client: Client, keys: int) -> None:
    """Create the znodes that are written to. Raises HarnessError."""
    ClosedLoop(client, keys).run([Create(path(i), b"", False) for i in range(keys)])


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of a round of writes."""

    seconds: float
    latencies_ms: list[float]

    @property
    def rate(self) -> float:
        return len(self.latencies_ms) / self.seconds


class ClosedLoop:
    """Drives one client. A write that fails ends the round, because it would be measured like one that succeeds."""

    def __init__(self, client: Client, outstanding: int) -> None:
        self._client = client
        self._outstanding = outstanding
        self._latencies: list[float] = []
        self._failure: Outcome | None = None

    def writes(self, count: int, keys: int, payload: int) -> LoadResult:
        """Make `count` writes of `payload` bytes to the keys in turn. Raises HarnessError."""
        data = b"x" * payload
        requests = [Set(path(i), data, ANY) for i in range(keys)]
        return self.run([requests[i % keys] for i in range(count)])

    def run(self, requests: list[Request]) -> LoadResult:
        """Send all requests in order, and wait for their answers. Raises HarnessError."""
        self._latencies, self._failure = [], None
        client, sent, begin = self._client, 0, time.perf_counter()
        while len(self._latencies) < len(requests):
            while sent < len(requests) and sent - len(self._latencies) < self._outstanding:
                client.submit(requests[sent], self._done)
                sent += 1
            client.poll(0.1)
            if self._failure is not None:
                raise HarnessError(f"a write was not acknowledged, so this measures nothing: {self._failure}")
        return LoadResult(time.perf_counter() - begin, self._latencies)

    def _done(self, operation: Operation, outcome: Outcome) -> None:
        if not isinstance(outcome, Ok):
            self._failure = outcome
        self._latencies.append((operation.completed_ns - operation.submitted_ns) / 1e6)
