"""What carries the requests of a hand-held client in the simulated world."""

from collections.abc import Callable

from zab_chaos.harness.backends.outcome_counts import OutcomeCounts
from zab_chaos.harness.backends.simulator.records import Records
from zab_chaos.harness.client.transport import CLOSED, Then
from zab_chaos.model.world.clients import SimClient, SimOperation
from zab_chaos.model.world.machine import SimNode
from zab_chaos.model.world.world import World
from zab_chaos.node.tree.outcomes import Outcome
from zab_chaos.node.tree.requests import Request


class SimLine:
    """A simulated client: whoever waits lets the world go on. Implements `zab_chaos.harness.client.session.Line`."""

    def __init__(
        self, world: World, machines: list[SimNode], records: Records, tally: OutcomeCounts, number: int, node: int,
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
