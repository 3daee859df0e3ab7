"""The simulated clients' port: whom it drops, and whose end it notices, as the real one does."""

from typing import Any

import pytest

from zab_chaos.faults.scenario import Limits, Scenario
from zab_chaos.harness.backends.simulator.backend import SimGround
from zab_chaos.model.world.clients import SimClient, SimOperation
from zab_chaos.node.clients.sessions import SHARE
from zab_chaos.node.core.zxid import ZERO, Zxid, zxid
from zab_chaos.node.tree.outcomes import Ok, Outcome, Unknown
from zab_chaos.node.tree.requests import Create, Get

SECOND = 1_000_000_000
ME, YOU = 6666, 7777
WAITING = 40


class Ensemble:
    """Three nodes that have a leader, and their clients."""

    def __init__(self) -> None:
        scenario = Scenario(name="three", about="three nodes are up", limits=Limits(waiting=WAITING))
        self.ground = SimGround(scenario, 1, None, None, False)
        self.world = self.ground.world
        self.machines = [self.ground.machines[node] for node in sorted(self.ground.machines)]
        for machine in self.machines:
            machine.spawn()
        self.known: dict[int, list[Outcome]] = {ME: [], YOU: []}
        assert self.world.until(lambda: self.ground.cluster.leader() is not None, 20 * SECOND)

    def client(self, number: int, seen: Zxid = ZERO) -> SimClient:
        """At node 1, which it says HELLO to with what it has `seen`."""

        def done(operation: SimOperation, outcome: Outcome) -> None:
            self.known[number].append(outcome)

        client = SimClient(self.world, self.machines[:1], 0, number, 100 * SECOND, done, lambda: None)
        assert self.world.until(lambda: client.connected, 10 * SECOND)
        if seen:
            client.seen = seen
            client._move_on("it begins again")
            assert self.world.until(lambda: client.connected, 10 * SECOND)
        return client

    def sessions(self) -> Any:
        server: Any = self.machines[0].server
        return server.replica.application.sessions


@pytest.fixture
def ensemble() -> Ensemble:
    return Ensemble()


def test_a_connection_that_is_gone_is_noticed_although_there_is_nothing_to_tell(ensemble: Ensemble) -> None:
    client = ensemble.client(ME)
    ensemble.world.pass_time(3 * SECOND)
    assert ME in ensemble.sessions()._sessions
    client.attempt += 1  # its machine is gone: no BYE
    assert ensemble.world.until(lambda: ME not in ensemble.sessions()._sessions, 2 * SECOND)


def test_a_client_with_a_false_claim_is_told_and_the_others_are_served_meanwhile(ensemble: Ensemble) -> None:
    liar, other = ensemble.client(ME, seen=zxid(2**30, 9)), ensemble.client(YOU)
    for _ in range(WAITING // SHARE + 5):
        liar.submit(Get("/"), 0)
    liar.flush()
    ensemble.world.pass_time(SECOND // 10)
    assert ensemble.sessions().waiting == WAITING // SHARE + 5
    for number in range(WAITING // SHARE):
        other.submit(Create(f"/{number}"), 0)
    other.flush()
    assert ensemble.world.until(lambda: len(ensemble.known[YOU]) == WAITING // SHARE, SECOND // 2)
    assert {type(outcome) for outcome in ensemble.known[YOU]} == {Ok}
    assert not ensemble.known[ME]
    assert ensemble.world.until(lambda: bool(ensemble.known[ME]), 5 * SECOND)
    assert isinstance(ensemble.known[ME][0], Unknown)
    assert "has seen 1073741824:9" in ensemble.known[ME][0].why
    assert ensemble.sessions().waiting == 0
