"""A drawn load on real ZooKeeper servers, under faults, and the oracle's verdict: nothing that was promised is broken."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.zookeeper import Recorded, eventually, formed, judged, led, stage
from zab_chaos.harness.backends.zookeeper.stage import Stage
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


class Load3:
    """Three clients that ask for what is drawn, when it is due, and all of it on record."""

    def __init__(self, standing: Stage, folder: Path) -> None:
        self.clients = [Recorded(standing, folder / f"ops-{number}", number, number) for number in (1, 2, 3)]
        self._agendas = [Agenda(LOAD, 7, number) for number in (1, 2, 3)]
        for key in range(LOAD.keys):
            self.clients[0].at(1).do(Create(key_path(key), b""))
        self._begun = time.monotonic_ns()

    def go_on(self, until: Callable[[], bool], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < end
            for recorded, agenda in zip(self.clients, self._agendas, strict=True):
                self._ask(recorded, agenda)

    def _ask(self, recorded: Recorded, agenda: Agenda) -> None:
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
        """Everybody's outcomes are known or unknown; their sessions."""
        for recorded in self.clients:
            recorded.close()
        parts = [(folder / f"ops-{number}").read_bytes() for number in (1, 2, 3)]
        (folder / "ops.jsonl").write_bytes(b"".join(parts))
        return {recorded.client.number: recorded.client.sessions for recorded in self.clients}


@pytest.mark.parametrize("version", ["3.8.4", "3.9.4"])
def test_kills_pauses_and_partitions_break_nothing(tmp_path: Path, version: str) -> None:
    began = time.monotonic_ns()
    with stage(tmp_path, version) as it:
        formed(it)
        load = Load3(it, tmp_path)

        def settled(seconds: float) -> None:
            end = time.monotonic() + seconds
            load.go_on(lambda: time.monotonic() > end)

        settled(2)
        old = it.cluster.leader()
        assert old is not None
        it.cluster.kill(old)
        load.go_on(lambda: it.cluster.leader() not in (None, old))
        settled(1)
        it.cluster.start(old)
        settled(2)
        paused = it.cluster.leader()
        assert paused is not None
        it.cluster.pause(paused)
        load.go_on(lambda: it.cluster.leader() not in (None, paused))
        it.cluster.resume(paused)
        settled(2)
        lonely = it.cluster.leader()
        cut = [(a, b) for a in (1, 2, 3) for b in (1, 2, 3) if a != b and lonely in (a, b)]
        it.network.cut(cut)
        load.go_on(lambda: it.cluster.leader() not in (None, lonely))
        settled(1)
        it.network.heal(cut)
        led(it)
        settled(1)
        it.cluster.kill_all([1, 2, 3])
        it.cluster.start_all([1, 2, 3])
        led(it)
        settled(1)
        eventually(
            lambda: all(recorded.client.outstanding == 0 or not recorded.client.poll(0.05) for recorded in load.clients)
        )
        sessions = load.end(tmp_path)
        verdict = judged(it, sessions, tmp_path / "ops.jsonl", began)
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
