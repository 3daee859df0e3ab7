"""The clients of a run stay known to the nodes that they are connected to, and all of them are served in the end."""

from dataclasses import replace

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.simulator.backend import plan_of
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.node.clients.protocol import FORGOTTEN
from zab_chaos.node.clients.session import ClientSession, PendingRequest
from zab_chaos.node.clients.sessions import ClientSessions
from zab_chaos.node.components import Components
from zab_chaos.node.tree.outcomes import Failed, Outcome
from zab_chaos.node.tree.refusal import OVERLOADED
from zab_chaos.node.tree.requests import Get, Request

SCENARIO = Scenario(name="clients served", duration=0.5)


class ForgetsAClient(ClientSessions):
    """A client is forgotten once it has sent ten requests."""

    def receive(self, client: int, batch: list[tuple[int, Request]]) -> str | None:
        return FORGOTTEN if batch[-1][0] == 10 else super().receive(client, batch)


class RefusesAClient(ClientSessions):
    """Client 2 is told at once, whenever it reads the root, that this node is overloaded."""

    def _resolve(self, session: ClientSession, entry: PendingRequest) -> Outcome | None:
        if session.client == 2 and entry.request == Get("/"):
            return Failed(OVERLOADED, "too many requests are waiting")
        return super()._resolve(session, entry)


def test_a_node_that_forgets_a_connected_client_violates_the_client_order() -> None:
    plan = replace(plan_of(SCENARIO, None), parts=Components(sessions=ForgetsAClient))
    verdict = simulate(SCENARIO, 1, None, plan).verdict
    assert list(verdict.violated) == ["client order"], verdict.reasons
    assert "did not know client" in verdict.reasons[0]


def test_a_client_that_is_not_served_in_the_end_violates_client_order_and_progress() -> None:
    plan = replace(plan_of(SCENARIO, None), parts=Components(sessions=RefusesAClient))
    verdict = simulate(SCENARIO, 1, None, plan).verdict
    assert list(verdict.violated) == ["client order", "progress"], verdict.reasons
    assert "client 2 had asked for little, and was not served" in verdict.reasons[0]
    assert "client 2 was not served in the 8 s after everything was healed" in verdict.reasons[1]
    served, missed, refused, *_ = (line.event for line in verdict.property("progress").violations[0].evidence)
    assert (served["type"], served["client"]) == ("complete", 2)
    assert served.get("error") != OVERLOADED
    assert (missed["type"], missed["seq"], refused["seq"]) == ("invoke", served["seq"] + 1, served["seq"] + 1)
    assert refused["error"] == OVERLOADED
