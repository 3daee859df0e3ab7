"""The workload in the simulated world: the world drives the open loop, with clients over simulated connections."""

from collections.abc import Mapping, Sequence
from functools import partial

from zab_chaos.harness.backends.simulator.client import SimClient, Stalls
from zab_chaos.harness.backends.simulator.records import SimRecords
from zab_chaos.harness.results.final_state import StateByNode, data_of
from zab_chaos.harness.workload.open_loop import Counters, OpenLoop
from zab_chaos.harness.workload.operations import LoadParameters
from zab_chaos.model.world.machine import SimNode
from zab_chaos.model.world.world import World
from zab_chaos.node.tree.requests import Get

TIMEOUT_NS = 10_000_000_000  # of a client that reads the final state
READERS = 2**40  # the first number of the clients that read the final state


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
        self._stalls = Stalls(seed, load.stalls, load.clients) if load.stalls else None

    @property
    def counters(self) -> Counters:
        return self._loop.counters(self._world.now)

    def start(self) -> None:
        self._clients = [self._client(number) for number in range(self._load.clients)]
        self._loop = self._open_loop([client.core for client in self._clients])

    def _client(self, number: int) -> SimClient:
        node = self._machines[number % len(self._machines)].id
        timeout_ns = int(self._load.timeout * 1e9)
        due = partial(self._submit_due, number)
        return SimClient(self._world, self._machines, node, number + 1, timeout_ns, due, self._stalls)

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
        """The names of the operations that were answered."""
        return self._loop.answered

    def took_effect(self, faults: Mapping[str, Sequence[int]]) -> None:
        """Take note of all faults that have taken effect, with their nodes: operations that await them may be sent."""
        self._loop.effective_faults = faults
        self._turn()

    def read_state(self, paths: Sequence[str]) -> StateByNode:
        """Read these znodes on each node, with a client of its own. Call it when the load has stopped."""
        return {
            machine.id: self._read_state_of(machine, number, paths)
            for number, machine in enumerate(self._machines, READERS)
        }

    def _read_state_of(self, machine: SimNode, number: int, paths: Sequence[str]) -> dict[str, str | None]:
        client = SimClient(self._world, [machine], machine.id, number, TIMEOUT_NS)
        operations = {path: client.submit(Get(path)) for path in paths}
        self._world.run_until(lambda: not client.core.outstanding, 2 * TIMEOUT_NS)
        client.close()
        return data_of({path: one.outcome for path, one in operations.items() if one.outcome is not None})

    def end_stalls(self) -> None:
        """From now on no client stands still any more."""
        if self._stalls is not None:
            self._stalls.over = True

    def ask_last(self, seconds: float) -> None:
        """Submit no more operations but a last question of each client. Wait at most `seconds` for all to be answered."""
        self._loop.asking_last = True
        self._turn()
        self._world.run_until(lambda: all(lane.served for lane in self._loop.lanes), int(seconds * 1e9))

    def stop(self, grace: float = 5.0) -> Counters:
        """Submit no more operations, wait at most `grace` seconds for the outstanding ones, and close the clients."""
        self._loop.stopping = True
        self._world.run_until(lambda: not any(one.core.outstanding for one in self._clients), int(grace * 1e9))
        for client in self._clients:
            client.close()
        return self.counters
