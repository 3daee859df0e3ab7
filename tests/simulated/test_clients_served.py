"""The clients of a run stay known to the nodes that they are connected to."""

from dataclasses import replace

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.simulator.backend import plan_of
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.node.clients.application import Layers
from zab_chaos.node.clients.protocol import FORGOTTEN
from zab_chaos.node.clients.sessions import ClientSessions
from zab_chaos.node.tree.requests import Request

SCENARIO = Scenario(name="clients served", duration=0.5)


class ForgetsAClient(ClientSessions):
    """A client is forgotten once it has sent ten requests."""

    def receive(self, client: int, batch: list[tuple[int, Request]]) -> str | None:
        return FORGOTTEN if batch[-1][0] == 10 else super().receive(client, batch)


def test_a_node_that_forgets_a_connected_client_violates_the_client_order() -> None:
    plan = replace(plan_of(SCENARIO, None), layers=Layers(sessions=ForgetsAClient))
    verdict = simulate(SCENARIO, 1, None, plan).verdict
    assert list(verdict.violated) == ["client order"], verdict.reasons
    assert "did not know client" in verdict.reasons[0]
