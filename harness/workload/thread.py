"""The workload against real nodes: a thread drives the open loop, with clients over ZeroMQ or others."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import zmq

from zab_chaos.harness.client.client import Client, PolledClient
from zab_chaos.harness.client.log import OpsFile
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.results.final_state import StateByNode, data_of
from zab_chaos.harness.workload.open_loop import Counters, OpenLoop
from zab_chaos.harness.workload.operations import LoadParameters
from zab_chaos.node.net.keys import Keys

PUBLISH_NS = 200_000_000  # between two updates of the counters
SLEEP_NS_MAX = 50_000_000  # a stop is noticed after this time
END_SECONDS = 15.0  # limit for the end of the thread, and for that of each client


class WorkloadError(Exception):
    """The workload could not go on, for the reason in the text."""


class ThreadedLoad:
    """The common part of loads that run in threads of their own and are controlled from another one."""

    def __init__(self) -> None:
        self.answered: frozenset[str] = frozenset()  # the names of the operations that were answered
        self._effective_faults: Mapping[str, Sequence[int]] = {}
        self._begun = threading.Event()
        self._stopping = threading.Event()
        self._error: Exception | None = None

    def wait_begun(self, timeout: float) -> bool:
        """Wait until the keys are created and the load runs; return whether it does. Raises WorkloadError if it failed."""
        self._begun.wait(timeout)
        self._raise()
        return self._begun.is_set()

    def took_effect(self, faults: Mapping[str, Sequence[int]]) -> None:
        """Take note of all faults that have taken effect, with their nodes: operations that await them may be sent."""
        self._effective_faults = faults

    def _raise(self) -> None:
        if isinstance(self._error, HarnessError):
            raise self._error
        if self._error is not None:
            raise WorkloadError(f"the workload failed: {self._error!r}") from self._error


class LoadThread(ThreadedLoad, ABC):
    """Runs `load` against the nodes at `addresses` in a thread of its own, and records it in the file `ops`."""

    def __init__(self, addresses: dict[int, str], ops: Path, load: LoadParameters, seed: int) -> None:
        if not addresses:
            raise ValueError("a workload needs the address of at least one node")
        super().__init__()
        self.counters = Counters()
        self._addresses = addresses
        self._ops = OpsFile(ops)
        self._load = load
        self._seed = seed
        self._publish_ns = 0
        self._grace_s = 0.0
        self._thread = threading.Thread(target=self._run, name="workload", daemon=True)

    @abstractmethod
    def _client(
        self, addresses: dict[int, str], node: int, number: int | None = None, poller: zmq.Poller | None = None
    ) -> PolledClient:
        """Return a new client, which connects to `node` first."""

    def start(self) -> None:
        """Begin, first with the creation of the keys."""
        self._thread.start()

    def read_state(self, paths: Sequence[str]) -> StateByNode:
        """Read these znodes on each node, with a client of its own. Call it when the load has stopped."""
        found: StateByNode = {}
        for node, address in sorted(self._addresses.items()):
            with self._client({node: address}, node) as client:
                found[node] = data_of({path: client.get(path) for path in paths})
        return found

    def stop(self, grace: float = 5.0) -> Counters:
        """Submit no more operations, wait at most `grace` seconds for the outstanding ones (the rest become unknown), and end.

        Returns the final counters. Raises WorkloadError if the workload had failed before, and HarnessError if its thread does
        not end.
        """
        self._grace_s = grace
        self._stopping.set()
        if self._thread.ident is None:
            self._ops.close()
        else:
            seconds = grace + END_SECONDS * (1 + self._load.clients)
            self._thread.join(seconds)
            if self._thread.is_alive():
                raise HarnessError(
                    f"the workload has not ended within {seconds:g} s: a client hangs. This is a mistake in the harness or "
                    "in the library of the client, not in the system"
                )
        self._raise()
        return self.counters

    def _run(self) -> None:
        poller, nodes = zmq.Poller(), sorted(self._addresses)
        clients = [
            self._client(self._addresses, nodes[(number - 1) % len(nodes)], number, poller)
            for number in range(1, self._load.clients + 1)
        ]
        loop = OpenLoop(self._load, self._seed, self._ops, [client.core for client in clients])
        try:
            while not self._stopping.is_set():
                self._round(loop, clients, poller)
            self._finish(clients, poller)
        except Exception as error:  # raised again in the thread that controls the load
            self._error = error
        finally:
            self._begun.set()
            self._end(loop, clients)

    def _round(self, loop: OpenLoop, clients: list[PolledClient], poller: zmq.Poller) -> None:
        """Send what is due, receive what has arrived, and sleep until something is due or arrives."""
        loop.effective_faults = self._effective_faults
        now = time.monotonic_ns()
        dues = [loop.submit_due(lane, now) for lane in loop.lanes]
        self.answered = loop.answered
        if loop.begun:
            self._begun.set()
        self._turn(clients)
        if now >= self._publish_ns:
            self._publish_ns = now + PUBLISH_NS
            self.counters = loop.counters(now)
        next_due = min([now + SLEEP_NS_MAX, *(due for due in dues if due is not None)])
        poller.poll(max(1, (next_due - time.monotonic_ns()) // 1_000_000))

    def _turn(self, clients: list[PolledClient]) -> None:
        """Write the records of what was submitted before it can be sent; then send it, and receive answers."""
        self._ops.flush()
        for client in clients:
            client.poll()

    def _finish(self, clients: list[PolledClient], poller: zmq.Poller) -> None:
        end = time.monotonic() + self._grace_s
        while any(client.outstanding for client in clients) and time.monotonic() < end:
            self._turn(clients)
            poller.poll(10)

    def _end(self, loop: OpenLoop, clients: list[PolledClient]) -> None:
        """Close the clients, which makes outstanding operations unknown, and then the record."""
        try:
            for client in clients:
                client.close()
            self._ops.close()
        except (OSError, HarnessError) as error:
            self._error = self._error or error
        self.counters = loop.counters(time.monotonic_ns())


class ZabLoad(LoadThread):
    """The load for our own nodes, over ZeroMQ."""

    def __init__(self, addresses: dict[int, str], keys: Keys, ops: Path, load: LoadParameters, seed: int) -> None:
        super().__init__(addresses, ops, load, seed)
        self._keys = keys
        self._context: zmq.Context[Any] | None = None  # shared by the load's clients while it runs

    def _client(
        self, addresses: dict[int, str], node: int, number: int | None = None, poller: zmq.Poller | None = None
    ) -> Client:
        return Client(
            addresses, self._keys, node, number=number, timeout=self._load.timeout, context=self._context, poller=poller
        )

    def _run(self) -> None:
        with zmq.Context() as self._context:
            super()._run()
        self._context = None
