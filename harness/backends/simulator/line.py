"""The line of a session in the simulated world."""

from collections.abc import Callable

from zab_chaos.harness.backends.outcome_counts import OutcomeCounts
from zab_chaos.harness.backends.simulator.client import SimClient
from zab_chaos.harness.backends.simulator.records import SimRecords
from zab_chaos.harness.client.core import Operation, nanoseconds
from zab_chaos.harness.client.transport import CLOSED, Then
from zab_chaos.model.world.machine import SimNode
from zab_chaos.model.world.world import World
from zab_chaos.node.tree.outcomes import Outcome
from zab_chaos.node.tree.requests import Request


class SimLine:
    """Implements `zab_chaos.harness.client.session.Line` with a simulated client: to wait lets virtual time pass."""

    def __init__(
        self, world: World, machines: list[SimNode], records: SimRecords, outcomes: OutcomeCounts, number: int, node: int,
        timeout: float,
    ) -> None:  # fmt: skip
        self._world = world
        self._records = records
        self._outcomes = outcomes
        self._closed = False
        self._client = SimClient(world, machines, node, number, nanoseconds(timeout))

    @property
    def number(self) -> int:
        return self._client.core.number

    @property
    def node(self) -> int:
        return self._client.core.node

    def submit(self, request: Request, then: Then) -> None:
        def known(operation: Operation, outcome: Outcome) -> None:
            self._outcomes.add(self._records.complete(self._client.core, operation, outcome))
            then(outcome)

        if self._closed:
            raise ValueError(CLOSED)
        operation = self._client.submit(request, known)
        self._outcomes.add("invoked")
        self._records.invoke(self._client.core, operation, self._world.now)
        self._client.turn()

    def wait(self, known: Callable[[], bool], seconds: float) -> None:
        self._world.run_until(known, int(seconds * 1e9))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._client.close()
