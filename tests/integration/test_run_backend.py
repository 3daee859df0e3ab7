"""The processes backend with real nodes, linked directly."""

import json
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from zab_chaos.faults.cluster import Cluster, ClusterError
from zab_chaos.harness.backends.ensemble_state import disagreement, statuses
from zab_chaos.harness.backends.processes.ensemble import ClusterPlan, NodeAddresses, Processes
from zab_chaos.harness.machine.ports import free_ports, release_ports
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.results import run_folder
from zab_chaos.node.net import keys

pytestmark = pytest.mark.processes
SECONDS = 60  # a bound for things that take a fraction of a second on a free machine


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Callable[[int], Processes]]:
    """Return a function that builds clusters that are not started yet. They are closed at the end."""
    built: list[Processes] = []
    taken: list[int] = []

    def make(nodes: int) -> Processes:
        folder = run_folder.create(tmp_path, "backend", 1)
        files = keys.create_files(folder.file("config"))
        ports = free_ports(3 * nodes)
        taken.extend(ports)
        own = {
            node: NodeAddresses(*(f"127.0.0.1:{port}" for port in ports[3 * node - 3 : 3 * node]))
            for node in range(1, nodes + 1)
        }
        links = {(a, b): own[b].listen for a in own for b in own if a != b}
        plan = ClusterPlan(cluster="backend", addresses=own, links=links, keys=files, record=False)
        built.append(Processes(folder, plan))
        return built[-1]

    yield make
    for cluster in built:
        assert cluster.close() == []  # all end by themselves when asked
    release_ports(taken)


def led(cluster: Processes) -> int:
    assert wait_until(lambda: cluster.leader() is not None, SECONDS)
    leader = cluster.leader()
    assert leader is not None
    return leader


def test_an_ensemble_forms_loses_its_leader_and_comes_together_again(build: Callable[[int], Processes]) -> None:
    cluster: Processes = build(3)
    as_contract: Cluster = cluster  # the type checker holds it against the protocol
    assert [as_contract.alive(node) for node in (1, 2, 3)] == [False] * 3
    assert as_contract.status(1) is None
    cluster.start_all(cluster.nodes)
    first = led(cluster)
    pid = cluster.pid(first)
    assert pid is not None
    assert cluster.kill(first) == -signal.SIGKILL
    assert not psutil.pid_exists(pid)
    assert cluster.pid(first) is None
    assert wait_until(lambda: cluster.leader() not in (None, first), SECONDS)
    assert cluster.take_unexpected_ends() == []  # what we killed did not end by itself
    cluster.start(first)
    assert wait_until(lambda: disagreement(statuses(cluster), cluster.nodes) is None, SECONDS)
    status = cluster.status(first)
    assert status is not None
    assert (status.life, status.amnesiac) == (2, False)


def test_a_node_with_old_digests_is_refused_and_ends_no_other_node(build: Callable[[int], Processes]) -> None:
    """This happens when the nodes of an ensemble are upgraded one by one."""
    cluster = build(3)
    path = cluster._config(3)
    config = json.loads(path.read_text())
    assert config.pop("digest") == "xxh3"
    path.write_text(json.dumps(config))  # as a node was configured before there was a choice
    cluster.start_all(cluster.nodes)
    assert led(cluster) in (1, 2)

    def refused(node: int) -> set[str]:
        traced = (cluster._folder.file("trace", f"node-{node}-1.jsonl")).read_text().splitlines()
        events = [line for line in map(json.loads, traced) if line["event"] == "refused"]
        return {line["why"] for line in events if line["what"] == "frame"}

    why = "from another ensemble, or from a node of it with another digest"
    assert wait_until(lambda: refused(3) == {why} and refused(1) | refused(2) == {why}, SECONDS)
    status = cluster.status(3)
    assert status is not None
    assert status.delivered == (0, 0)
    assert not status.established
    assert cluster.take_unexpected_ends() == []


def test_a_paused_leader_is_replaced_and_follows_when_it_wakes(build: Callable[[int], Processes]) -> None:
    cluster = build(3)
    cluster.start_all(cluster.nodes)
    zombie = led(cluster)
    cluster.pause(zombie)
    assert cluster.paused(zombie)
    assert cluster.status(zombie, timeout=0.2) is None
    assert wait_until(lambda: cluster.leader() not in (None, zombie), SECONDS)
    cluster.resume(zombie)
    assert not cluster.paused(zombie)
    assert wait_until(lambda: disagreement(statuses(cluster), cluster.nodes) is None, SECONDS)
    assert cluster.leader() != zombie


def test_a_wiped_node_comes_back_as_a_member_and_a_running_one_keeps_its_disk(
    build: Callable[[int], Processes],
) -> None:
    cluster = build(3)
    cluster.start_all(cluster.nodes)
    led(cluster)
    with pytest.raises(ClusterError, match="node 2 is up"):
        cluster.wipe(2)
    assert cluster.stop(2) == 0
    assert list(Path(cluster.disk_folder(2)).iterdir())
    cluster.wipe(2)
    assert not Path(cluster.disk_folder(2)).exists()
    cluster.wipe(2)  # nothing is left to wipe
    cluster.start(2)
    assert wait_until(lambda: disagreement(statuses(cluster), cluster.nodes) is None, SECONDS)


def test_a_death_caused_by_a_command_is_reported_once_and_as_armed(build: Callable[[int], Processes]) -> None:
    cluster = build(1)
    cluster.start(1)
    cluster.control(1, "power-cut", variant="torn", seed=1, within_ms=1)
    assert cluster.wait_exit(1, SECONDS) == -signal.SIGKILL
    (ended,) = cluster.take_unexpected_ends()
    assert (ended.node, ended.life, ended.code, ended.armed) == (1, 1, -signal.SIGKILL, True)
    assert cluster.take_unexpected_ends() == []  # reported once
    with pytest.raises(ClusterError, match="node 1 is not up"):
        cluster.control(1, "disarm")


def test_an_unexpected_end_is_reported_even_after_the_next_start(build: Callable[[int], Processes]) -> None:
    cluster = build(1)
    cluster.start(1, crash_at="before-sync:ANY")
    assert cluster.wait_exit(1, SECONDS) == -signal.SIGKILL
    cluster.start(1)
    assert [(one.life, one.code, one.armed) for one in cluster.take_unexpected_ends()] == [(1, -signal.SIGKILL, True)]
    cluster.kill(1)
    cluster.start(1)
    assert cluster.take_unexpected_ends() == []


def test_a_refused_command_raises_with_the_node_s_message(build: Callable[[int], Processes]) -> None:
    cluster = build(1)
    cluster.start(1)
    with pytest.raises(ClusterError, match="'sideways' is not a step"):
        cluster.control(1, "arm", point="sideways:TXN")
    with pytest.raises(ClusterError, match="node 1 is to be started but is up"):
        cluster.start(1)


def test_a_node_whose_address_is_in_use_ends_with_that_message(build: Callable[[int], Processes]) -> None:
    cluster = build(1)
    host, port = cluster.client_address(1).split(":")
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((host, int(port)))
        other.listen()
        cluster.start(1)
    (ended,) = cluster.take_unexpected_ends()
    assert ended.code == 75
    assert "its address is in use" in str(ended)
    assert cluster.client_address(1) in cluster.last_words(1)
