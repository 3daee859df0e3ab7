"""The open-loop workload, sans-I/O: an operation is due at its time, whether or not the last one came back.

Client c of n owes its k-th operation at start + (k * n + c) / rate. While it is full (`max_outstanding`) or has no
node, what it owes is not dropped: when it can go on it submits the overdue operations at once, each recorded with the
time at which it was due, so that a stall shows in the latencies of all that it delayed (no coordinated omission).
Which operations a client asks for is drawn from the seed; when, from the clock. Or both are written down.

A thread drives it against real nodes (`zab_chaos.harness.workload.thread`), the world against simulated ones
(`zab_chaos.harness.backends.simulator.workload`). Times are nanoseconds of the clients' clock.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from zab_chaos.harness.client.core import ClientCore, Operation, Then
from zab_chaos.harness.workload.operations import Agenda, Draw, LoadParameters, key_path, nodes_named
from zab_chaos.node.tree.outcomes import Failed, Ok, Outcome, Unknown
from zab_chaos.node.tree.refusal import NO_LEADER, NODE_EXISTS
from zab_chaos.node.tree.requests import Create, Request

WINDOW_NS = 1_000_000_000
SETUP_WINDOW = 1000  # creations in flight while the keys are made; half as many each time that is too much for a node
AGAIN_NS = 50_000_000  # after a creation that failed, until the next one: a node without a leader refuses at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The workload at one moment. `owed`: due, but not sent yet. `rate` and the latencies (from the time at which an
    operation was due; None if nothing was ok) are of the last second."""

    invoked: int = 0
    ok: int = 0
    failed: int = 0
    unknown: int = 0
    owed: int = 0
    rate: float = 0.0
    p50_ms: float | None = None
    p99_ms: float | None = None


class OperationLog(Protocol):
    """Where operations are put on record."""

    def invoke(self, client: ClientCore, operation: Operation, due: int) -> None:
        """`due`: when the open loop owed it."""

    def complete(self, client: ClientCore, operation: Operation, outcome: Outcome) -> str:
        """The outcome's name: ok, failed or unknown."""


class Lane:
    """One client, and what it owes."""

    def __init__(self, client: ClientCore, agenda: Agenda) -> None:
        self.client = client
        self.agenda = agenda
        self.delayed_by_fault = False  # the next operation was due and had to wait for a fault

    def has_room(self, window: int) -> bool:
        """Whether another operation could leave now, with so many in flight at most."""
        return self.client.connected and self.client.outstanding < window


class OpenLoop:
    """First the first client creates the keys' znodes (recorded like everything else), then the load begins.

    `taken`: the faults that have taken effect, with the nodes that they hit, for operations that await one. `answered`: the
    names of operations that are, for faults that await one. Once it is `stopping`, nothing is asked for.
    """

    def __init__(self, load: LoadParameters, seed: int, ledger: OperationLog, clients: Sequence[ClientCore]) -> None:
        self.lanes = [Lane(client, Agenda(load, seed, number)) for number, client in enumerate(clients, 1)]
        self.begun = self.stopping = False
        self.effective_faults: Mapping[str, Sequence[int]] = {}
        self.answered: frozenset[str] = frozenset()
        self._load = load
        self._ledger = ledger
        self._counts = {"invoked": 0, "ok": 0, "failed": 0, "unknown": 0}
        self._latencies: deque[tuple[int, float]] = deque()  # (completed, milliseconds) of the last second
        self._start_ns = 0
        self._missing = deque(range(load.keys))
        self._again_ns = 0  # no key is asked for before
        self._window = SETUP_WINDOW
        self._draw = Draw(load, seed, client=0)

    def submit_due(self, lane: Lane, now: int) -> int | None:
        """Submit what the client owes and has room for; when it will owe more, if that is known."""
        if self.stopping:
            return None
        if not self.begun:
            return self._make_keys(lane, now)
        due = self._next_due(lane)
        while due is not None and due <= now:
            if lane.agenda.waits_for_fault(self.effective_faults):
                lane.delayed_by_fault = True
                return None  # until it hears of the fault
            self._head(lane, now)
            if not lane.has_room(self._load.max_outstanding):
                break
            self._submit(lane, now, now if lane.delayed_by_fault else due)
            due = self._next_due(lane)
        return due if due is not None and due > now else None

    def _head(self, lane: Lane, now: int) -> None:
        """An operation for a node that a fault has named is sent there and nowhere else."""
        asked = lane.agenda.upcoming
        if asked is None or not isinstance(asked.node, str):
            return
        nodes = nodes_named(asked.node, self.effective_faults)
        if nodes and lane.client.node not in nodes:
            lane.client.move(nodes[0], now)

    def counters(self, now: int) -> Counters:
        """The workload now."""
        while self._latencies and self._latencies[0][0] < now - WINDOW_NS:
            self._latencies.popleft()
        recent = sorted(latency for _, latency in self._latencies)
        return Counters(
            **self._counts,
            owed=self._owed(now),
            rate=len(recent) / (WINDOW_NS / 1e9),
            p50_ms=recent[len(recent) // 2] if recent else None,
            p99_ms=recent[len(recent) * 99 // 100] if recent else None,
        )

    def _owed(self, now: int) -> int:
        if not self.begun:
            return 0
        return max(0, self._load.due_by(now - self._start_ns) - sum(lane.agenda.sent for lane in self.lanes))

    def _next_due(self, lane: Lane) -> int | None:
        due = lane.agenda.due_ns
        return None if due is None else self._start_ns + due

    def _make_keys(self, lane: Lane, now: int) -> int | None:
        """Create every key's znode; whatever fails or is unknown is asked for again, until it is there."""
        if lane is not self.lanes[0]:
            return None
        if self._missing and now < self._again_ns:
            return self._again_ns
        while self._missing and lane.has_room(self._window):
            self._make_key(lane, self._missing.popleft(), now)
        if self._missing or lane.client.outstanding:
            return None
        self.begun, self._start_ns = True, now
        return self.submit_due(lane, now)

    def _make_key(self, lane: Lane, key: int, now: int) -> None:
        def known(operation: Operation, outcome: Outcome) -> None:
            self._complete(lane, operation, outcome, operation.submitted_ns)
            if not (isinstance(outcome, Ok) or (isinstance(outcome, Failed) and outcome.error == NODE_EXISTS)):
                self._missing.append(key)
                full = not (isinstance(outcome, Failed) and outcome.error == NO_LEADER)
                if full and operation.completed_ns >= self._again_ns:  # the first one of those that failed together
                    self._window = max(1, self._window // 2)
                self._again_ns = operation.completed_ns + AGAIN_NS

        self._invoke(lane, Create(key_path(key), self._draw.payload()), now, now, known)

    def _submit(self, lane: Lane, now: int, due: int) -> None:
        request, asked = lane.agenda.next_operation()
        if asked.anew:
            lane.client.begin_new_session(lane.client.number + len(self.lanes), now)
        if isinstance(asked.node, int) and asked.node != lane.client.node:
            lane.client.move(asked.node, now)
        lane.delayed_by_fault = False

        def known(operation: Operation, outcome: Outcome) -> None:
            lane.agenda.learn(request, outcome)
            if asked.name is not None and not isinstance(outcome, Unknown):
                self.answered |= {asked.name}
            self._complete(lane, operation, outcome, due)

        self._invoke(lane, request, now, due, known)

    def _invoke(self, lane: Lane, request: Request, now: int, due: int, then: Then) -> None:
        operation = lane.client.submit(request, now, then)
        self._counts["invoked"] += 1
        self._ledger.invoke(lane.client, operation, due)

    def _complete(self, lane: Lane, operation: Operation, outcome: Outcome, due: int) -> None:
        kind = self._ledger.complete(lane.client, operation, outcome)
        self._counts[kind] += 1
        if kind == "ok":
            self._latencies.append((operation.completed_ns, (operation.completed_ns - due) / 1e6))
