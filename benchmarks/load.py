"""Loads that keep a number of writes outstanding: until enough have succeeded, or through a fail-over."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from benchmarks.figures import Scale
from zab_chaos.harness.client.client import Client
from zab_chaos.harness.client.core import Operation
from zab_chaos.harness.errors import HarnessError
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.tree.outcomes import Ok, Outcome
from zab_chaos.node.tree.requests import ANY, Create, Request, Set

SETTLE_SECONDS = 60.0  # for a leader, or for a restarted node to be synchronized, on a busy machine
OUTSTANDING = 100  # of a steady load
WRITES_BEFORE_KILL = 2000  # acknowledged ones


def path(number: int) -> str:
    return f"/k{number}"


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of a round of writes."""

    seconds: float
    latencies_ms: list[float]

    @property
    def rate(self) -> float:
        return len(self.latencies_ms) / self.seconds


class Writer(Protocol):
    """A client that writes. `steady_load` returns a load through the same client."""

    def create_keys(self, keys: int) -> None: ...
    def writes(self, count: int, keys: int, payload: int) -> LoadResult: ...
    def steady_load(self, scale: Scale) -> "SteadyLoad": ...


class ClosedLoop:
    """Drives one client. A write that fails ends the round, because it would be measured like one that succeeds."""

    def __init__(self, client: Client, outstanding: int) -> None:
        self._client = client
        self._outstanding = outstanding
        self._latencies: list[float] = []
        self._failure: Outcome | None = None

    def create_keys(self, keys: int) -> None:
        """Create the znodes that are written to. Raises HarnessError."""
        self.run([Create(path(i), b"", False) for i in range(keys)])

    def steady_load(self, scale: Scale) -> "SteadyLoad":
        return _OurSteadyLoad(self._client, scale)

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


class SteadyLoad(ABC):
    """Keeps writes outstanding, whatever their outcome: when the leader is killed, some have an unknown outcome."""

    def __init__(self, scale: Scale) -> None:
        self._keys = scale.keys
        self._data = b"x" * scale.payload
        self._sent = 0
        self.answered = 0
        self.epoch = 0  # of the last acknowledged write
        self.reached_ns = 0  # when the first write of this epoch was acknowledged

    @abstractmethod
    def _turn(self) -> None:
        """Send what there is room for, and take answers; wait a moment if there is nothing to do."""

    def _next_path(self) -> str:
        self._sent += 1
        return path((self._sent - 1) % self._keys)

    def _acknowledged(self, epoch: int, at_ns: int) -> None:
        if epoch > self.epoch:
            self.epoch, self.reached_ns = epoch, at_ns

    def until(self, over: Callable[[], bool]) -> None:
        """Write until `over` returns true. Raises HarnessError if it does not in time."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while not over():
            if time.monotonic() > deadline:
                raise HarnessError(f"no write was acknowledged in a new epoch within {SETTLE_SECONDS:.0f} s")
            self._turn()

    def fail_over(self, kill: Callable[[], int]) -> tuple[int, int]:
        """Kill the leader under this load, and go on to the first acknowledged write of a later epoch.

        Return the epoch before, and when (in monotonic nanoseconds) the leader was killed.
        """
        self.until(lambda: self.answered >= WRITES_BEFORE_KILL)
        epoch, killed = self.epoch, time.monotonic_ns()
        kill()
        self.until(lambda: self.epoch > epoch)
        return epoch, killed


class _OurSteadyLoad(SteadyLoad):
    def __init__(self, client: Client, scale: Scale) -> None:
        super().__init__(scale)
        self._client = client

    def _turn(self) -> None:
        while self._client.outstanding < OUTSTANDING:
            self._client.submit(Set(self._next_path(), self._data, ANY), self._done)
        self._client.poll(0.01)

    def _done(self, operation: Operation, outcome: Outcome) -> None:
        self.answered += 1
        if isinstance(outcome, Ok):
            self._acknowledged(zx.epoch_of(outcome.zxid), operation.completed_ns)
