"""The simulated client port: it drops clients and notices their end as the real one does."""

from typing import Any

import pytest

from zab_chaos.faults.scenario import Limits, Scenario
from zab_chaos.harness.backends.simulator.backend import SimDeployment
from zab_chaos.harness.backends.simulator.client import SimClient, Stalls
from zab_chaos.harness.client.core import Operation
from zab_chaos.node.clients.protocol import FORGOTTEN
from zab_chaos.node.clients.sessions import SHARE
from zab_chaos.node.core.zxid import ZERO, Zxid, zxid
from zab_chaos.node.tree.outcomes import Ok, Outcome, Unknown
from zab_chaos.node.tree.requests import Create, Get, Request

SECOND = 1_000_000_000
ME, YOU = 6666, 7777
WAITING = 40


class Ensemble:
    """Three nodes with a leader, and their clients."""

    def __init__(self) -> None:
        scenario = Scenario(name="three", about="three nodes are up", limits=Limits(waiting=WAITING))
        self.deployment = SimDeployment(scenario, 1, None, None, False)
        self.world = self.deployment.world
        self.machines = [self.deployment.machines[node] for node in sorted(self.deployment.machines)]
        for machine in self.machines:
            machine.spawn()
        self.known: dict[int, list[Outcome]] = {ME: [], YOU: []}
        assert self.world.run_until(lambda: self.deployment.cluster.leader() is not None, 20 * SECOND)

    def client(self, number: int, seen: Zxid = ZERO, nodes: int = 1, stalls: Stalls | None = None) -> SimClient:
        """Connect a client to node 1. `seen`: the zxid in its HELLO. `nodes`: how many nodes it knows."""
        client = SimClient(self.world, self.machines[:nodes], 1, number, 100 * SECOND, stalls=stalls)
        client.core.seen = seen
        assert self.world.run_until(lambda: client.core.connected, 10 * SECOND)
        return client

    def submit(self, client: SimClient, request: Request) -> None:
        def known(operation: Operation, outcome: Outcome) -> None:
            self.known[client.core.number].append(outcome)

        client.submit(request, known)

    def sessions(self) -> Any:
        server: Any = self.machines[0].server
        return server.replica.application.sessions


@pytest.fixture
def ensemble() -> Ensemble:
    return Ensemble()


def test_a_lost_connection_is_noticed_although_there_is_nothing_to_send(ensemble: Ensemble) -> None:
    client = ensemble.client(ME)
    ensemble.world.run_for(3 * SECOND)
    assert ME in ensemble.sessions()._sessions
    assert client.core.connection is not None
    client.core.connection.close()  # as if its machine had crashed: without BYE
    assert ensemble.world.run_until(lambda: ME not in ensemble.sessions()._sessions, 2 * SECOND)


def test_what_came_over_an_older_connection_does_not_drop_the_newer_one(ensemble: Ensemble) -> None:
    """The node was paused, and reads the older connection's requests and the newer one's HELLO at once."""
    client, world = ensemble.client(ME), ensemble.world
    ensemble.deployment.cluster.pause(1)
    for number in range(2 * WAITING // SHARE + 1):
        ensemble.submit(client, Create(f"/{number}"))
    client.turn()
    world.run_for(SECOND // 100)
    client.core.move(1, world.now)
    client.turn()
    newer = client.core.connection
    assert newer is not None
    world.run_for(SECOND // 100)
    ensemble.deployment.cluster.resume(1)
    assert world.run_until(lambda: client.core.connected, SECOND)
    ensemble.known[ME].clear()
    ensemble.submit(client, Get("/"))
    client.turn()
    assert world.run_until(lambda: bool(ensemble.known[ME]), SECOND)
    assert isinstance(ensemble.known[ME][0], Ok)
    assert client.core.connection is newer


def test_a_client_with_a_false_claim_is_refused_while_the_others_are_served(ensemble: Ensemble) -> None:
    liar, other = ensemble.client(ME, seen=zxid(2**30, 9)), ensemble.client(YOU)
    for _ in range(WAITING // SHARE + 5):
        ensemble.submit(liar, Get("/"))
    liar.turn()
    ensemble.world.run_for(SECOND // 10)
    assert ensemble.sessions().waiting == WAITING // SHARE + 5
    for number in range(WAITING // SHARE):
        ensemble.submit(other, Create(f"/{number}"))
    other.turn()
    assert ensemble.world.run_until(lambda: len(ensemble.known[YOU]) == WAITING // SHARE, SECOND // 2)
    assert {type(outcome) for outcome in ensemble.known[YOU]} == {Ok}
    assert not ensemble.known[ME]
    assert ensemble.world.run_until(lambda: bool(ensemble.known[ME]), 5 * SECOND)
    assert isinstance(ensemble.known[ME][0], Unknown)
    assert "has seen 1073741824:9" in ensemble.known[ME][0].why
    assert ensemble.sessions().waiting == 0


def test_a_frame_over_the_limit_makes_the_node_reject_the_client(ensemble: Ensemble) -> None:
    client = ensemble.client(ME)
    ensemble.submit(client, Create("/huge", bytes(5 * 2**20)))
    client.turn()
    assert ensemble.world.run_until(lambda: bool(ensemble.known[ME]), SECOND)
    (outcome,) = ensemble.known[ME]
    assert isinstance(outcome, Unknown)
    assert "at most 4456448 are allowed" in outcome.why
    assert ensemble.world.run_until(lambda: client.core.connected, SECOND)


def test_a_frame_over_the_hard_limit_breaks_the_connection(ensemble: Ensemble) -> None:
    client = ensemble.client(ME)
    ensemble.submit(client, Create("/huger", bytes(17 * 2**20)))
    client.turn()
    assert ensemble.world.run_until(lambda: bool(ensemble.known[ME]), SECOND)
    assert ensemble.known[ME] == [Unknown("the connection broke")]


def test_a_client_leaves_a_node_that_stays_without_a_leader(ensemble: Ensemble) -> None:
    client = ensemble.client(ME, nodes=3)
    ensemble.deployment.network.cut([(1, 2), (1, 3), (2, 1), (3, 1)], "disable")
    for _ in range(50):
        ensemble.submit(client, Create("/a"))
        client.turn()
        ensemble.world.run_for(SECOND // 10)
    assert client.core.node != 1
    assert client.core.last_trouble == "node 1 has no leader"
    assert client.core.last_trouble == "node 1 has no leader"


def test_a_second_connection_with_the_same_number_ends_the_first(ensemble: Ensemble) -> None:
    older = ensemble.client(ME)
    newer = ensemble.client(ME)
    assert ensemble.world.run_until(lambda: not older.core.connected, SECOND)
    assert "connected again" in older.core.last_trouble
    assert newer.core.connected


class AlwaysStalled(Stalls):
    """Clients stand still from the first second on, for ten seconds."""

    def __init__(self) -> None:
        super().__init__(1, 1.0, 1)
        self.capacity = 2

    def next_in(self) -> int:
        return SECOND

    def length(self) -> int:
        return 10 * SECOND


def test_a_node_forgets_a_client_that_stands_still_and_serves_it_when_it_goes_on(ensemble: Ensemble) -> None:
    """The probe that the node sends once a second fills the room for two frames."""
    client, world = ensemble.client(ME, stalls=AlwaysStalled()), ensemble.world
    world.run_for(2 * SECOND)
    assert ME in ensemble.sessions()._sessions
    world.run_for(3 * SECOND)
    assert ME not in ensemble.sessions()._sessions
    ensemble.submit(client, Get("/"))
    client.turn()
    world.run_for(SECOND)
    assert ensemble.known[ME] == []  # it stands still
    assert world.run_until(lambda: bool(ensemble.known[ME]), 10 * SECOND)
    (outcome,) = ensemble.known[ME]
    assert isinstance(outcome, Unknown)
    assert FORGOTTEN in outcome.why
    ensemble.submit(client, Get("/"))
    assert world.run_until(lambda: isinstance(ensemble.known[ME][-1], Ok), 10 * SECOND)


def test_what_a_node_does_not_read_fills_the_connection_and_is_sent_when_there_is_room(ensemble: Ensemble) -> None:
    client, world = ensemble.client(ME, stalls=AlwaysStalled()), ensemble.world
    ensemble.deployment.cluster.pause(1)
    for number in range(6):
        ensemble.submit(client, Create(f"/{number}"))
        client.turn()  # so that each has a frame of its own
    world.run_for(SECOND // 2)
    assert len(client.core._unsent) == 4
    ensemble.deployment.cluster.resume(1)
    assert world.run_until(lambda: len(ensemble.known[ME]) == 6, 30 * SECOND)
    assert all(isinstance(outcome, Ok) for outcome in ensemble.known[ME])
