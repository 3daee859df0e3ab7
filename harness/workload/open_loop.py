"""The open-loop workload: an operation is due at its time, whether or not the last one came back.

Client c of n owes its k-th operation at start + (k * n + c) / rate. While it is full (`max_outstanding`) or has no
node, what it owes is not dropped: when it can go on it sends the overdue operations at once, each recorded with the
time at which it was due, so that a stall shows in the latencies of all that it delayed (no coordinated omission).
Which operations a client asks for is drawn from the seed; when, from the clock. Or both are written down.
"""

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import zmq

from zab_chaos.harness.client.core import Client, Operation, Then
from zab_chaos.harness.client.log import OpsFile
from zab_chaos.harness.results.final_state import Held, text_of
from zab_chaos.harness.workload.operations import Agenda, Draw, Load, key_path
from zab_chaos.node.net.keys import Keys
from zab_chaos.node.tree.outcomes import Failed, Ok, Outcome
from zab_chaos.node.tree.refusal import NODE_EXISTS
from zab_chaos.node.tree.requests import Create, Request

PUBLISH_NS = 200_000_000
WINDOW_NS = 1_000_000_000
SETUP_WINDOW = 1000  # creations in flight while the keys are made
AGAIN_NS = 50_000_000  # after a creation that failed, until the next one: a node without a leader refuses at once
NAP_S = 0.05  # longest sleep: a stop is noticed after it


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


class WorkloadError(Exception):
    """The workload could not go on; its words say why."""


class _Lane:
    """One client: what it has been sent and owes."""

    def __init__(self, client: Client, agenda: Agenda) -> None:
        self.client = client
        self.agenda = agenda
        self.held = False  # the next operation was due and had to wait for a fault

    def due_ns(self, start: int) -> int | None:
        """When the client's next operation is due; None if it owes none any more."""
        due = self.agenda.due_ns
        return None if due is None else start + due

    def has_room(self, window: int) -> bool:
        """Whether another operation could leave now, with so many in flight at most."""
        return self.client.connected and self.client.outstanding < window


class Workload:
    """Runs `load` against the nodes at `addresses` in a thread of its own and writes the file `ops`.

    First the keys' znodes are created (recorded like everything else), then the load begins. `timeout`: seconds after
    which an operation is unknown.
    """

    def __init__(
        self, addresses: dict[int, str], keys: Keys, ops: Path, load: Load, seed: int, timeout: float = 10.0
    ) -> None:
        if not addresses:
            raise ValueError("a workload needs the address of at least one node")
        self.counters = Counters()
        self._addresses = addresses
        self._keys = keys
        self._ops = OpsFile(ops)
        self._load = load
        self._seed = seed
        self._timeout = timeout
        self._counts = {"invoked": 0, "ok": 0, "failed": 0, "unknown": 0}
        self._latencies: deque[tuple[int, float]] = deque()  # (completed, milliseconds) of the last second
        self._start_ns = 0
        self._publish_ns = 0
        self._grace_s = 0.0
        self._taken: frozenset[str] = frozenset()
        self._begun = threading.Event()
        self._stopping = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="workload", daemon=True)

    def start(self) -> None:
        """Begin, with the setup."""
        self._thread.start()

    def wait_begun(self, timeout: float) -> bool:
        """Wait until the keys are there and the load runs. Raises WorkloadError if it came to grief."""
        self._begun.wait(timeout)
        self._raise()
        return self._begun.is_set()

    def took_effect(self, faults: frozenset[str]) -> None:
        """These faults have taken effect, and what awaits them may go."""
        self._taken = faults

    def held(self, paths: Sequence[str]) -> Held:
        """What each node holds now, asked by a client of its own. When the load has stopped."""
        found: Held = {}
        for node, address in sorted(self._addresses.items()):
            with Client({node: address}, self._keys, timeout=self._timeout) as client:
                answers = {path: text_of(client.get(path)) for path in paths}
            found[node] = {path: value for path, (known, value) in answers.items() if known}
        return found

    def stop(self, grace: float = 5.0) -> Counters:
        """Ask for no more operations, wait at most `grace` seconds for the outstanding ones (the rest are unknown),
        and end. Returns the final counters. Raises WorkloadError if the workload had come to grief before."""
        self._grace_s = grace
        self._stopping.set()
        if self._thread.ident is None:
            self._ops.close()
        else:
            self._thread.join()
        self._raise()
        return self.counters

    def _raise(self) -> None:
        if self._error is not None:
            raise WorkloadError(f"the workload broke off: {self._error!r}") from self._error

    def _run(self) -> None:
        context: zmq.Context[Any] = zmq.Context()
        poller = zmq.Poller()
        lanes = [self._lane(number, context, poller) for number in range(self._load.clients)]
        try:
            self._make_keys(lanes[0], poller)
            self._start_ns = time.monotonic_ns()
            self._begun.set()
            while not self._stopping.is_set():
                self._round(lanes, poller)
            self._finish(lanes, poller)
        except Exception as error:  # a thread's error must reach whoever started it
            self._error = error
            self._begun.set()
        finally:
            self._end(lanes, context)

    def _end(self, lanes: list[_Lane], context: zmq.Context[Any]) -> None:
        """Whatever is outstanding becomes unknown, on record too."""
        for lane in lanes:
            lane.client.close()
        try:
            self._ops.close()
        except OSError as error:
            self._error = self._error or error
        self._publish(lanes, time.monotonic_ns())
        context.term()

    def _lane(self, number: int, context: zmq.Context[Any], poller: zmq.Poller) -> _Lane:
        nodes = sorted(self._addresses)
        client = Client(
            self._addresses,
            self._keys,
            nodes[number % len(nodes)],
            number=number + 1,
            timeout=self._timeout,
            context=context,
            poller=poller,
        )
        return _Lane(client, Agenda(self._load, self._seed, number + 1))

    def _make_keys(self, lane: _Lane, poller: zmq.Poller) -> None:
        """Create every key's znode; whatever fails or is unknown is asked for again, until it is there."""
        draw = Draw(self._load, self._seed, client=0)
        missing = deque(range(self._load.keys))
        again_ns = 0  # nothing is asked for before

        def ask(key: int) -> None:
            def known(operation: Operation, outcome: Outcome) -> None:
                nonlocal again_ns
                self._complete(lane, operation, outcome, operation.submitted_ns)
                if not (isinstance(outcome, Ok) or (isinstance(outcome, Failed) and outcome.error == NODE_EXISTS)):
                    missing.append(key)
                    again_ns = time.monotonic_ns() + AGAIN_NS

            self._invoke(lane, Create(key_path(key), draw.payload()), time.monotonic_ns(), known)

        while (missing or lane.client.outstanding) and not self._stopping.is_set():
            while missing and time.monotonic_ns() >= again_ns and lane.has_room(SETUP_WINDOW):
                ask(missing.popleft())
            self._turn([lane])
            poller.poll(int(NAP_S * 1000))

    def _round(self, lanes: list[_Lane], poller: zmq.Poller) -> None:
        """Send what is due, take what came, sleep until something is due or comes."""
        now = time.monotonic_ns()
        next_due = now + int(NAP_S * 1e9)
        for lane in lanes:
            due = lane.due_ns(self._start_ns)
            while due is not None and due <= now and lane.has_room(self._load.max_outstanding):
                held = lane.agenda.held_ns(self._taken)
                if held is not None and now < self._start_ns + held:
                    lane.held = True
                    break
                self._send(lane, now if lane.held else due)
                due = lane.due_ns(self._start_ns)
            if due is not None and due > now:
                next_due = min(next_due, due)
        self._turn(lanes)
        if now >= self._publish_ns:
            self._publish(lanes, now)
        poller.poll(max(1, (next_due - time.monotonic_ns()) // 1_000_000))

    def _send(self, lane: _Lane, due: int) -> None:
        request, node = lane.agenda.take()
        if node is not None and node != lane.client.node:
            lane.client.move(node)
        lane.held = False

        def known(operation: Operation, outcome: Outcome) -> None:
            lane.agenda.learn(request, outcome)
            self._complete(lane, operation, outcome, due)

        self._invoke(lane, request, due, known)

    def _turn(self, lanes: list[_Lane]) -> None:
        """What was invoked is on record before it can leave; then it leaves, and answers come in."""
        self._ops.flush()
        for lane in lanes:
            lane.client.poll()

    def _finish(self, lanes: list[_Lane], poller: zmq.Poller) -> None:
        end = time.monotonic() + self._grace_s
        while any(lane.client.outstanding for lane in lanes) and time.monotonic() < end:
            self._turn(lanes)
            poller.poll(10)

    def _invoke(self, lane: _Lane, request: Request, due: int, then: Then) -> None:
        operation = lane.client.submit(request, then)
        self._counts["invoked"] += 1
        self._ops.invoke(lane.client, operation, due)

    def _complete(self, lane: _Lane, operation: Operation, outcome: Outcome, due: int) -> None:
        kind = self._ops.complete(lane.client, operation, outcome)
        self._counts[kind] += 1
        if kind == "ok":
            self._latencies.append((operation.completed_ns, (operation.completed_ns - due) / 1e6))

    def _publish(self, lanes: list[_Lane], now: int) -> None:
        self._publish_ns = now + PUBLISH_NS
        while self._latencies and self._latencies[0][0] < now - WINDOW_NS:
            self._latencies.popleft()
        recent = sorted(latency for _, latency in self._latencies)
        counters = Counters(**self._counts, owed=self._owed(lanes, now), rate=len(recent) / (WINDOW_NS / 1e9))
        if recent:
            p50, p99 = recent[len(recent) // 2], recent[len(recent) * 99 // 100]
            counters = replace(counters, p50_ms=p50, p99_ms=p99)
        self.counters = counters

    def _owed(self, lanes: list[_Lane], now: int) -> int:
        if not self._begun.is_set() or not self._start_ns:
            return 0
        return max(0, self._load.due_by(now - self._start_ns) - sum(lane.agenda.sent for lane in lanes))
