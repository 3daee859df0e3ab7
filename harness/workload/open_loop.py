"""The open-loop workload, sans-I/O: an operation is due at its time, whether or not the last one was answered.

The k-th operation of client c of n is due at start + (k * n + c) / rate. While a client has `max_outstanding` operations in
flight or no node, its due operations are not dropped: when it can go on, it submits them at once, each recorded with
the time at which it was due. So a stall shows in the latencies of all operations that it delayed (no coordinated omission).
The operations are drawn from the seed, and due by the clock; or both are written in the scenario.

A thread drives it against real nodes (`zab_chaos.harness.workload.thread`), the world against simulated ones
(`zab_chaos.harness.backends.simulator.workload`), and a thread for each client against a foreign system
(`zab_chaos.harness.backends.system.workload`). Times are nanoseconds of the clients' clock.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from zab_chaos.harness.client.core import Operation, RecordedClient, Then
from zab_chaos.harness.client.transaction import Committed
from zab_chaos.harness.workload.operations import Agenda, Draw, LoadParameters, key_path
from zab_chaos.node.tree.outcomes import Failed, Ok, Outcome, Unknown
from zab_chaos.node.tree.paths import ROOT
from zab_chaos.node.tree.refusal import NO_LEADER, NODE_EXISTS
from zab_chaos.node.tree.requests import Create, Get, Request

WINDOW_NS = 1_000_000_000  # the rate and the latencies are those of the last second
SETUP_WINDOW = 1000  # creations in flight while the keys are created; halved each time that is too much for a node
RECREATE_NS = 50_000_000  # pause after a failed creation of a key: a node without a leader refuses at once
ASK_AGAIN_NS = 50_000_000  # pause after a last question that was not answered


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The state of a workload: operations by outcome, and `owed`, those that are due but not sent yet.

    `rate` (answers per second) and the latencies are those of the last second. A latency counts from the time at which the
    operation was due; None if no operation succeeded. `trouble`: why the last key that could not be created was not, in words.
    """

    invoked: int = 0
    ok: int = 0
    failed: int = 0
    unknown: int = 0
    owed: int = 0
    rate: float = 0.0
    p50_ms: float | None = None
    p99_ms: float | None = None
    trouble: str = ""


def reason(outcome: Failed | Unknown) -> str:
    """Return in words why an operation was not done."""
    if isinstance(outcome, Unknown):
        return outcome.why
    return f"{outcome.error}: {outcome.words}" if outcome.words else outcome.error


class RecentAnswers:
    """The successful answers of the last second."""

    def __init__(self) -> None:
        self._latencies: deque[tuple[int, float]] = deque()  # (time of the answer, milliseconds)

    def add(self, at: int, due: int) -> None:
        """Add an answer that came at the time `at`, to an operation that was due at the time `due`."""
        self._latencies.append((at, (at - due) / 1e6))

    def add_to(self, counters: Counters, now: int) -> Counters:
        """Return the counters with the rate and the latencies at the time `now`."""
        while self._latencies and self._latencies[0][0] < now - WINDOW_NS:
            self._latencies.popleft()
        recent = sorted(latency for _, latency in self._latencies)
        return replace(
            counters,
            rate=len(recent) / (WINDOW_NS / 1e9),
            p50_ms=recent[len(recent) // 2] if recent else None,
            p99_ms=recent[len(recent) * 99 // 100] if recent else None,
        )


class OperationLog(Protocol):
    """Takes the record of every operation (ops.jsonl)."""

    def invoke(self, client: RecordedClient, operation: Operation, due: int) -> None:
        """Record that an operation was submitted. `due`: when it was due."""

    def complete(self, client: RecordedClient, operation: Operation, outcome: Outcome) -> str:
        """Record an operation's outcome, and return its name: ok, failed or unknown."""


class LoadClient(RecordedClient, Protocol):
    """A client that the open loop uses, such as `zab_chaos.harness.client.core.ClientCore`, whose methods these are."""

    @property
    def connected(self) -> bool: ...
    @property
    def outstanding(self) -> int: ...
    def submit(self, request: Request, *, now: int, then: Then) -> Operation: ...
    def move(self, node: int, now: int) -> None: ...
    def begin_new_session(self, number: int, now: int) -> None: ...


class Lane:
    """One client of the load, with its agenda."""

    def __init__(self, client: LoadClient, agenda: Agenda) -> None:
        self.client = client
        self.agenda = agenda
        self.delayed_by_fault = False  # the next operation was due, but has to wait for a fault
        # When to ask its last question; None while it is outstanding, and once it was answered.
        self.ask_ns: int | None = 0
        self.served = False  # whether its last question was answered

    def has_room(self, window: int) -> bool:
        """Return whether another operation can be sent now, with at most `window` in flight."""
        return self.client.connected and self.client.outstanding < window


class OpenLoop:
    """Submits the operations of all clients when they are due. The driver calls `submit_due` for each client.

    First client 1 creates the keys' znodes, which is recorded, too; then the load begins (`begun`). The driver sets
    `effective_faults`, the faults that have taken effect with the nodes that they hit, for operations that await a fault. It
    reads `answered`, the names of the operations that were answered, for faults that await one. While `asking_last` is set,
    each client submits nothing but its last question: a read of the root, again and again until it succeeds. While
    `stopping` is set, nothing is submitted.
    """

    def __init__(
        self, load: LoadParameters, seed: int, log: OperationLog, clients: Sequence[LoadClient],
        agenda: Callable[[LoadParameters, int, int], Agenda] = Agenda,
        first_write: Callable[[int, bytes], Request] | None = None,
    ) -> None:  # fmt: skip
        """`agenda`: makes the agenda of each client. `first_write`: returns the request that creates a key, given its
        number and the data."""
        self.lanes = [Lane(client, agenda(load, seed, number)) for number, client in enumerate(clients, 1)]
        self.begun = self.asking_last = self.stopping = False
        self.effective_faults: Mapping[str, Sequence[int]] = {}
        self.answered: frozenset[str] = frozenset()
        self._load = load
        self._log = log
        self._counts = {"invoked": 0, "ok": 0, "failed": 0, "unknown": 0}
        self._recent = RecentAnswers()
        self._trouble = ""
        self._start_ns = 0
        self._keys_to_create = deque(range(load.keys))
        self._recreate_ns = 0  # no key is created before this time
        self._first_write = first_write or (lambda key, data: Create(key_path(key), data))
        self._window = SETUP_WINDOW
        self._draw = Draw(load, seed, client=0)

    def submit_due(self, lane: Lane, now: int) -> int | None:
        """Submit the client's due operations as far as it has room. Return when its next one is due, if that is known."""
        if self.stopping:
            return None
        if self.asking_last:
            return self._ask_last(lane, now)
        if not self.begun:
            return self._create_keys(lane, now)
        agenda, elapsed = lane.agenda, now - self._start_ns
        while (due := agenda.due_ns) is not None and due <= elapsed:
            if agenda.waits_for_fault(self.effective_faults):
                lane.delayed_by_fault = True
                return None  # until the fault is in `effective_faults`
            self._move_to_named_node(lane, now)
            if not lane.has_room(self._load.max_outstanding):
                return None  # until it has
            self._submit(lane, now, now if lane.delayed_by_fault else self._start_ns + due)
        return None if due is None else self._start_ns + due

    def _move_to_named_node(self, lane: Lane, now: int) -> None:
        """Move the client if its next operation goes to a node that is named by a fault, and it is at another node."""
        operation = lane.agenda.next_written
        if operation is None or not isinstance(operation.node, str):
            return
        nodes = self.effective_faults.get(operation.node, ())
        if nodes and lane.client.node not in nodes:
            lane.client.move(nodes[0], now)

    def counters(self, now: int) -> Counters:
        """Return the counters at the time `now`."""
        return self._recent.add_to(Counters(**self._counts, owed=self._owed(now), trouble=self._trouble), now)

    def _owed(self, now: int) -> int:
        if not self.begun:
            return 0
        return max(0, self._load.due_by(now - self._start_ns) - sum(lane.agenda.sent for lane in self.lanes))

    def _create_keys(self, lane: Lane, now: int) -> int | None:
        """Create every key's znode, again and again if it fails or is unknown. Return when to call again, if known."""
        if lane is not self.lanes[0]:
            return None
        if self._keys_to_create and now < self._recreate_ns:
            return self._recreate_ns
        while self._keys_to_create and lane.has_room(self._window):
            self._create_key(lane, self._keys_to_create.popleft(), now)
        if self._keys_to_create or lane.client.outstanding:
            return None
        self.begun, self._start_ns = True, now
        return self.submit_due(lane, now)

    def _create_key(self, lane: Lane, key: int, now: int) -> None:
        def known(operation: Operation, outcome: Outcome) -> None:
            self._complete(lane, operation, outcome, operation.submitted_ns)
            if not (
                isinstance(outcome, Ok | Committed) or (isinstance(outcome, Failed) and outcome.error == NODE_EXISTS)
            ):
                self._keys_to_create.append(key)
                self._trouble = reason(outcome)
                overloaded = not (isinstance(outcome, Failed) and outcome.error == NO_LEADER)
                if overloaded and operation.completed_ns >= self._recreate_ns:  # only once for those that fail together
                    self._window = max(1, self._window // 2)
                self._recreate_ns = operation.completed_ns + RECREATE_NS

        self._invoke(lane, self._first_write(key, self._draw.payload()), now, now, known)

    def _ask_last(self, lane: Lane, now: int) -> int | None:
        """Ask the client's last question, unless it is outstanding or answered. Return when to call again, if known."""

        def known(operation: Operation, outcome: Outcome) -> None:
            lane.served = isinstance(outcome, Ok)
            lane.ask_ns = None if lane.served else operation.completed_ns + ASK_AGAIN_NS
            self._complete(lane, operation, outcome, operation.submitted_ns)

        if lane.ask_ns is None or now < lane.ask_ns:
            return lane.ask_ns
        lane.ask_ns = None
        self._invoke(lane, Get(ROOT), now, now, known)
        return None

    def _submit(self, lane: Lane, now: int, due: int) -> None:
        request, planned = lane.agenda.next_operation()
        if planned.anew:
            lane.client.begin_new_session(lane.client.number + len(self.lanes), now)
        if type(planned.node) is int and planned.node != lane.client.node:
            lane.client.move(planned.node, now)
        lane.delayed_by_fault = False

        def known(operation: Operation, outcome: Outcome) -> None:
            lane.agenda.learn(request, outcome)
            if planned.name is not None and not isinstance(outcome, Unknown):
                self.answered |= {planned.name}
            self._complete(lane, operation, outcome, due)

        self._invoke(lane, request, now, due, known)

    def _invoke(self, lane: Lane, request: Request, now: int, due: int, then: Then) -> None:
        operation = lane.client.submit(request, now=now, then=then)
        self._counts["invoked"] += 1
        self._log.invoke(lane.client, operation, due)

    def _complete(self, lane: Lane, operation: Operation, outcome: Outcome, due: int) -> None:
        kind = self._log.complete(lane.client, operation, outcome)
        self._counts[kind] += 1
        if kind == "ok":
            self._recent.add(operation.completed_ns, due)
