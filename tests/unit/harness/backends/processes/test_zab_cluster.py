"""The cluster of our own nodes: their configurations, and commands to a node that dies of them.

A small script takes the place of the node.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.harness.backends.processes import ensemble
from zab_chaos.harness.backends.processes.ensemble import ClusterPlan, NodeAddresses, Processes
from zab_chaos.harness.backends.processes.life import ProcessLife
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.node.config import NodeConfig
from zab_chaos.node.net import keys
from zab_chaos.node.net.control import ControlClient, ControlError, ControlTimeout

LINKS = {(i, j): f"127.0.0.1:2{i}0{j}" for i in (1, 2) for j in (1, 2) if i != j}


class Spawned:
    """Takes the place of `spawn`, and keeps what it was given."""

    def __init__(self) -> None:
        self.given: list[tuple[int, str | None]] = []
        self.lives: list[ProcessLife] = []

    def __call__(self, node: int, life: int, config: Path, log: Path, crash_at: str | None) -> ProcessLife:
        self.given.append((life, crash_at))
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.lives.append(ProcessLife(node, life, process, log, crash_at))
        return self.lives[-1]


@pytest.fixture
def spawned(monkeypatch: pytest.MonkeyPatch) -> Spawned:
    spawned = Spawned()
    monkeypatch.setattr(ensemble, "spawn", spawned)
    monkeypatch.setattr(ControlClient, "call", lambda *_, **__: {"node": 1, "life": 1, "role": "LOOKING"})
    return spawned


@pytest.fixture
def cluster(tmp_path: Path, spawned: Spawned) -> Iterator[Processes]:
    (tmp_path / "config").mkdir()
    addresses = {node: NodeAddresses(*(f"127.0.0.1:{node}000{port}" for port in range(3))) for node in (1, 2)}
    plan = ClusterPlan(
        cluster="c", addresses=addresses, links=LINKS, keys=keys.create_files(tmp_path / "config"), record=False
    )
    cluster = Processes(RunFolder(tmp_path), plan)
    yield cluster
    cluster.close(ask=False)


def test_nodes_reach_each_other_through_their_own_links_and_end_with_this_process(
    cluster: Processes, tmp_path: Path
) -> None:
    for node, peer in ((1, 2), (2, 1)):
        config = msgspec.json.decode((tmp_path / "config" / f"node-{node}.json").read_bytes(), type=NodeConfig)
        assert config.peers == {peer: LINKS[node, peer]}
        assert (config.id, config.parent, config.record) == (node, os.getpid(), None)


def test_only_the_first_life_is_one_on_an_empty_disk(cluster: Processes, spawned: Spawned) -> None:
    cluster.start(1, "after-sync:TXN")
    cluster.kill(1)
    cluster.start(1)
    assert spawned.given == [(1, "after-sync:TXN"), (2, None)]


def test_a_command_that_kills_its_node_is_answered_with_the_exit_status(
    cluster: Processes, spawned: Spawned, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.start(1)

    def call(client: ControlClient, command: str, timeout: float, alive: Any = None, **arguments: Any) -> None:
        assert alive()
        assert cluster._locks[1].locked()  # the monitor's thread asks for statuses meanwhile
        spawned.lives[-1].process.kill()
        spawned.lives[-1].process.wait()
        assert not alive()
        raise ControlTimeout("ended before it answered")

    monkeypatch.setattr(ControlClient, "call", call)
    assert cluster.control(1, "arm", point="after-sync:TXN") == {"ended": -signal.SIGKILL}
    assert [(end.code, end.armed) for end in cluster.take_unexpected_ends()] == [(-signal.SIGKILL, True)]
    with pytest.raises(ClusterError, match="node 1 is not up"):
        cluster.control(1, "arm", point="after-sync:TXN")
    assert cluster.status(1) is None


@pytest.mark.parametrize("error", [ControlError, ControlTimeout])
def test_a_node_that_is_up_and_does_not_obey_is_an_error(
    cluster: Processes, monkeypatch: pytest.MonkeyPatch, error: type[ControlError]
) -> None:
    cluster.start(1)

    def call(*_: Any, **__: Any) -> None:
        raise error("not now")

    monkeypatch.setattr(ControlClient, "call", call)
    with pytest.raises(ClusterError, match="node 1: not now"):
        cluster.control(1, "slow-disk", ms=1)
    assert cluster.status(1) is None
    assert cluster.alive(1)
