"""A random load on real ZooKeeper servers under faults: the oracle finds no violation."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.zookeeper import RecordedClient, await_leader, deployed, eventually, judge, start_ensemble
from zab_chaos.harness.backends.zookeeper.deployment import ZooKeeperDeployment
from zab_chaos.harness.workload.operations import Agenda, LoadParameters, key_path
from zab_chaos.node.tree.requests import Create

pytestmark = [pytest.mark.zookeeper, pytest.mark.toxiproxy]

LOAD = LoadParameters(
    clients=3,
    rate=150,
    keys=4,
    moves=0.5,
    nodes=3,
    mix={"get": 2, "exists": 1, "set": 4, "cas": 2, "create": 2, "sequential": 1, "delete": 1, "multi": 2},
)


class ThreeClients:
    """Three recorded clients that send random operations when they are due."""

    def __init__(self, deployment: ZooKeeperDeployment, folder: Path) -> None:
        self.clients = [RecordedClient(deployment, folder / f"ops-{number}", number, number) for number in (1, 2, 3)]
        self._agendas = [Agenda(LOAD, 7, number) for number in (1, 2, 3)]
        for key in range(LOAD.keys):
            self.clients[0].at(1).do(Create(key_path(key), b""))
        self._begun = time.monotonic_ns()

    def run_until(self, until: Callable[[], bool], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < end
            for recorded, agenda in zip(self.clients, self._agendas, strict=True):
                self._ask(recorded, agenda)

    def _ask(self, recorded: RecordedClient, agenda: Agenda) -> None:
        client = recorded.client
        while (
            (due := agenda.due_ns) is not None and due < time.monotonic_ns() - self._begun and client.outstanding < 20
        ):
            request, asked = agenda.next_operation()
            if isinstance(asked.node, int):
                client.move(asked.node)
            recorded.submit(request, lambda outcome, request=request: agenda.learn(request, outcome))
        client.poll(0.002)

    def end(self, folder: Path) -> dict[int, list[int]]:
        """Close the clients, merge their records into ops.jsonl, and return the sessions of each client."""
        for recorded in self.clients:
            recorded.close()
        parts = [(folder / f"ops-{number}").read_bytes() for number in (1, 2, 3)]
        (folder / "ops.jsonl").write_bytes(b"".join(parts))
        return {recorded.client.number: recorded.client.sessions for recorded in self.clients}


@pytest.mark.parametrize("version", ["3.8.4", "3.9.4"])
def test_kills_pauses_and_partitions_violate_no_property(tmp_path: Path, version: str) -> None:
    began = time.monotonic_ns()
    with deployed(tmp_path, version) as it:
        start_ensemble(it)
        load = ThreeClients(it, tmp_path)

        def run_for(seconds: float) -> None:
            end = time.monotonic() + seconds
            load.run_until(lambda: time.monotonic() > end)

        run_for(2)
        old = it.cluster.leader()
        assert old is not None
        it.cluster.kill(old)
        load.run_until(lambda: it.cluster.leader() not in (None, old))
        run_for(1)
        it.cluster.start(old)
        run_for(2)
        paused = it.cluster.leader()
        assert paused is not None
        it.cluster.pause(paused)
        load.run_until(lambda: it.cluster.leader() not in (None, paused))
        it.cluster.resume(paused)
        run_for(2)
        lonely = it.cluster.leader()
        cut = [(a, b) for a in (1, 2, 3) for b in (1, 2, 3) if a != b and lonely in (a, b)]
        it.network.cut(cut)
        load.run_until(lambda: it.cluster.leader() not in (None, lonely))
        run_for(1)
        it.network.heal(cut)
        await_leader(it)
        run_for(1)
        it.cluster.kill_all([1, 2, 3])
        it.cluster.start_all([1, 2, 3])
        await_leader(it)
        run_for(1)
        eventually(
            lambda: all(recorded.client.outstanding == 0 or not recorded.client.poll(0.05) for recorded in load.clients)
        )
        sessions = load.end(tmp_path)
        verdict = judge(it, sessions, tmp_path / "ops.jsonl", began)
        assert verdict.violated == [], verdict.reasons
        checked = {one.name: one.checked for one in verdict.properties}
        for name in (
            "durability",
            "agreement",
            "exactly once",
            "values and versions",
            "client order",
            "state equality",
        ):
            assert checked[name] > 30, checked
