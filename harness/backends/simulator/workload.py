"""The workload in the simulated world: the world drives the open loop, with its clients over simulated connections."""

from collections.abc import Mapping, Sequence
from functools import partial

from zab_chaos.harness.backends.simulator.client import SimClient
from zab_chaos.harness.backends.simulator.records import SimRecords
from zab_chaos.harness.results.final_state import StateByNode, text_of
from zab_chaos.harness.workload.open_loop import Counters, OpenLoop
from zab_chaos.harness.workload.operations import LoadParameters
from zab_chaos.model.world.machine import SimNode
from zab_chaos.model.world.world import World
from zab_chaos.node.tree.requests import Get

TIMEOUT_NS = 10_000_000_000  # of a reader
READERS = 2**40  # the numbers of the clients that read the state at the end begin here


class SimLoad:
    """Implements `zab_chaos.harness.backends.backend.Load`."""

    def __init__(
        self, world: World, machines: Sequence[SimNode], records: SimRecords, load: LoadParameters, seed: int
    ) -> None:
        self._world = world
        self._machines = machines
        self._load = load
        self._open_loop = partial(OpenLoop, load, seed, records)
        self._clients: list[SimClient] = []
        self._loop = self._open_loop([])

    @property
    def counters(self) -> Counters:
        return self._loop.counters(self._world.now)

    def start(self) -> None:
        self._clients = [self._client(number) for number in range(self._load.clients)]
        self._loop = self._open_loop([client.core for client in self._clients])

    def _client(self, number: int) -> SimClient:
        node = self._machines[number % len(self._machines)].id
        timeout_ns = int(self._load.timeout * 1e9)
        return SimClient(self._world, self._machines, node, number + 1, timeout_ns, partial(self._submit_due, number))

    def _submit_due(self, number: int) -> int | None:
        loop, begun = self._loop, self._loop.begun
        due = loop.submit_due(loop.lanes[number], self._world.stamp())
        if loop.begun and not begun:
            self._turn()
        return due

    def _turn(self) -> None:
        for client in self._clients:
            client.turn()

    def wait_begun(self, timeout: float) -> bool:
        return self._loop.begun

    @property
    def answered(self) -> frozenset[str]:
        """The names of operations that are."""
        return self._loop.answered

    def took_effect(self, faults: Mapping[str, Sequence[int]]) -> None:
        """These faults have taken effect, on these nodes, and what awaits them may go."""
        self._loop.effective_faults = faults
        self._turn()

    def read_state(self, paths: Sequence[str]) -> StateByNode:
        """What each node holds now, asked by a client of its own. When the load has stopped."""
        return {
            machine.id: self._held_at(machine, number, paths) for number, machine in enumerate(self._machines, READERS)
        }

    def _held_at(self, machine: SimNode, number: int, paths: Sequence[str]) -> dict[str, str | None]:
        client = SimClient(self._world, [machine], machine.id, number, TIMEOUT_NS)
        asked = {path: client.submit(Get(path)) for path in paths}
        self._world.run_until(lambda: not client.core.outstanding, 2 * TIMEOUT_NS)
        client.close()
        texts = {path: text_of(operation.outcome) for path, operation in asked.items() if operation.outcome is not None}
        return {path: value for path, (known, value) in texts.items() if known}

    def stop(self, grace: float = 5.0) -> Counters:
        """Ask for no more, let the outstanding ones be answered for at most `grace` seconds."""
        self._loop.stopping = True
        self._world.run_until(lambda: not any(one.core.outstanding for one in self._clients), int(grace * 1e9))
        for client in self._clients:
            client.close()
        return self.counters
