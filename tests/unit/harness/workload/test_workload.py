"""The open loop against nodes with real ports, and its records."""

import itertools
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from tests.unit.harness.client.fake_ensemble import FakeEnsemble
from zab_chaos.faults.scenario import AT_ROOT, BAD_PATH, NUMBERED, OPERATIONS, REFUSED, REPLACE, Operation
from zab_chaos.harness.client.client import Client
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.workload import thread
from zab_chaos.harness.workload.operations import LoadParameters, key_path
from zab_chaos.harness.workload.thread import WorkloadError, ZabLoad
from zab_chaos.node.events import ClientRequests
from zab_chaos.node.tree.outcomes import Ok
from zab_chaos.node.tree.requests import Get

pytestmark = pytest.mark.slow


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, at most until the test's time limit."""
    nap = threading.Event()
    while not condition():
        nap.wait(0.005)


def split(path: Path) -> tuple[dict[tuple[int, int], Any], dict[tuple[int, int], Any]]:
    """Return invocations and completions by (client, seq). Each completion must follow its invocation, once."""
    invoked: dict[tuple[int, int], Any] = {}
    completed: dict[tuple[int, int], Any] = {}
    for line in lines(path):
        key = (line["client"], line["seq"])
        if line["type"] == "invoke":
            assert key not in invoked
            invoked[key] = line
        else:
            assert key in invoked
            assert key not in completed
            completed[key] = line
    return invoked, completed


def test_clients_move_with_operations_outstanding(ensemble: FakeEnsemble, tmp_path: Path) -> None:
    load = LoadParameters(clients=1, rate=1000, keys=2, burst=10, moves=100, nodes=3)
    workload = ZabLoad(ensemble.addresses, ensemble.keys, tmp_path / "ops.jsonl", load, seed=1)
    workload.start()
    assert workload.wait_begun(20)
    until(lambda: workload.counters.ok > 200 and workload.counters.unknown > 0)
    workload.stop()
    _invoked, completed = split(tmp_path / "ops.jsonl")
    assert {line["node"] for line in completed.values()} == {1, 2, 3}
    assert "the client moved" in {line.get("error") for line in completed.values()}


def test_an_operation_waits_for_the_fault_that_it_awaits(ensemble: FakeEnsemble, tmp_path: Path) -> None:
    operations = (Operation(at=0.0), Operation(at=0.0, do="get", awaits="X"), Operation(at=0.0, do="get", client=2))
    load = LoadParameters(clients=2, keys=1, operations=operations)
    workload = ZabLoad(ensemble.addresses, ensemble.keys, tmp_path / "ops.jsonl", load, seed=1)
    workload.start()
    assert workload.wait_begun(20)
    until(lambda: workload.counters.ok == 3)  # the key's creation, and what waits for nothing
    assert workload.counters.invoked == 3
    before = time.monotonic_ns()
    workload.took_effect({"X": (1,)})
    until(lambda: workload.counters.ok == 4)
    workload.stop()
    invoked, _ = split(tmp_path / "ops.jsonl")
    assert max(line["due"] for line in invoked.values()) >= before


def test_only_what_waited_for_a_fault_counts_from_then_on(ensemble: FakeEnsemble, tmp_path: Path) -> None:
    """The next operation was due before the fault took effect, whenever it could be sent."""
    load = LoadParameters(clients=1, keys=1, operations=(Operation(at=0.0, awaits="X"), Operation(at=0.001, do="get")))
    workload = ZabLoad(ensemble.addresses, ensemble.keys, tmp_path / "ops.jsonl", load, seed=1)
    workload.start()
    assert workload.wait_begun(20)
    until(lambda: workload.counters.owed == 2)
    before = time.monotonic_ns()
    workload.took_effect({"X": (1,)})
    until(lambda: workload.counters.ok == 3)
    workload.stop()
    invoked, _ = split(tmp_path / "ops.jsonl")
    assert [line["due"] >= before for line in invoked.values()] == [False, True, False]


def test_every_operation_is_recorded_and_agrees_with_the_tree(ensemble: FakeEnsemble, tmp_path: Path) -> None:
    kinds = set(OPERATIONS) - {"multi", REPLACE, REFUSED, BAD_PATH}  # of multis only one step is told by path and value
    load = LoadParameters(clients=3, rate=2000, keys=5, payload_bytes=64, mix=dict.fromkeys(kinds, 1.0))
    workload = ZabLoad(ensemble.addresses, ensemble.keys, tmp_path / "ops.jsonl", load, seed=1)
    workload.start()
    assert workload.wait_begun(20)
    until(lambda: workload.counters.ok > 300)
    counters = workload.stop()
    invoked, completed = split(tmp_path / "ops.jsonl")
    assert invoked.keys() == completed.keys()
    assert counters.invoked == len(invoked)
    assert counters.ok == sum(line["outcome"] == "ok" for line in completed.values())
    assert counters.failed + counters.ok + counters.unknown == len(completed)
    assert counters.unknown == 0
    assert counters.p50_ms is not None
    assert {line["op"] for line in invoked.values()} == kinds - {
        "sequential",
        AT_ROOT,
        NUMBERED,
        "cas",
    }  # creates, a set
    assert {line["node"] for line in invoked.values()} == {1, 2, 3}
    # The setup is in it, and the keys' last successful write is what the tree holds.
    last: dict[str, tuple[list[int], int]] = {}
    for key, line in completed.items():
        call = invoked[key]
        assert call["due"] <= call["t"] <= line["t"]
        if line["outcome"] == "ok" and call["op"] in ("create", "set", "multi"):
            last[call["path"]] = max(last.get(call["path"], ([0], 0)), (line["zxid"], call["value"]))
    for path in (key_path(key) for key in range(5)):
        read = ensemble.tree.read(Get(path))
        assert isinstance(read, Ok)
        assert crc32(read.data or b"") == last[path][1]


def test_an_operation_is_recorded_before_it_arrives_at_a_node(ensemble: FakeEnsemble, tmp_path: Path) -> None:
    missing: list[tuple[int, int]] = []
    arrived: list[int] = []

    def witness(event: ClientRequests) -> None:
        recorded = (tmp_path / "ops.jsonl").read_text()  # as text: its last line may be half there
        arrived.append(len(event.items))
        for seq, _ in event.items:
            if f'"client":{event.client},"seq":{seq},' not in recorded:
                missing.append((event.client, seq))

    ensemble.witness = witness
    load = LoadParameters(clients=2, rate=500, keys=1, mix={"set": 1})
    workload = ZabLoad(ensemble.addresses, ensemble.keys, tmp_path / "ops.jsonl", load, seed=1)
    workload.start()
    until(lambda: sum(arrived) > 50)
    workload.stop()
    assert missing == []


def stalled(ensemble: FakeEnsemble, load: LoadParameters, folder: Path) -> ZabLoad:
    """Start a workload, and then make the nodes deliver nothing."""
    workload = ZabLoad(ensemble.addresses, ensemble.keys, folder / "ops.jsonl", load, seed=1)
    workload.start()
    assert workload.wait_begun(20)
    for node in ensemble.nodes.values():
        node.delivering = False
    return workload


def test_operations_delayed_by_a_stall_are_recorded_with_their_due_time(ensemble: FakeEnsemble, tmp_path: Path) -> None:
    """While the nodes deliver nothing the client is full. Its operations are sent later, with their original due times."""
    load = LoadParameters(clients=1, rate=200, keys=1, mix={"set": 1}, max_outstanding=20, timeout=60)
    workload = stalled(ensemble, load, tmp_path)
    until(lambda: workload.counters.owed > 20)
    assert workload.counters.invoked - workload.counters.ok <= 20
    for node in ensemble.nodes.values():
        node.delivering = True
    until(lambda: workload.counters.owed < 10)
    workload.stop()
    invoked, _ = split(tmp_path / "ops.jsonl")
    dues = [line["due"] for line in invoked.values() if line["op"] == "set"]
    steps = {round((later - earlier) / 1e6) for earlier, later in itertools.pairwise(dues)}
    assert steps == {5}  # every 5 ms one was due, whatever was going on
    assert max(line["t"] - line["due"] for line in invoked.values() if line["op"] == "set") > 50e6


def test_when_a_node_goes_away_its_clients_go_on_elsewhere(ensemble: FakeEnsemble, tmp_path: Path) -> None:
    load = LoadParameters(clients=3, rate=1000, keys=3, mix={"set": 1})
    workload = ZabLoad(ensemble.addresses, ensemble.keys, tmp_path / "ops.jsonl", load, seed=1)
    workload.start()
    assert workload.wait_begun(20)
    until(lambda: workload.counters.ok > 20)
    ensemble.nodes[2].delivering = False
    sent = workload.counters.invoked
    until(lambda: workload.counters.invoked > sent + 100)
    ensemble.nodes[2].stop()
    done = workload.counters.ok
    until(lambda: workload.counters.ok > done + 200)
    counters = workload.stop()
    invoked, completed = split(tmp_path / "ops.jsonl")
    assert invoked.keys() == completed.keys()
    assert counters.unknown > 0
    assert {line["node"] for line in completed.values() if line["outcome"] == "unknown"} == {2}
    moved = {line["node"] for line in invoked.values() if line["client"] == 2}
    assert moved == {2, 3}


def test_an_operation_becomes_unknown_after_the_timeout(ensemble: FakeEnsemble, tmp_path: Path) -> None:
    load = LoadParameters(clients=1, rate=1000, keys=1, mix={"set": 1}, timeout=0.3)
    workload = stalled(ensemble, load, tmp_path)
    until(lambda: workload.counters.unknown > 0)
    workload.stop()
    _, completed = split(tmp_path / "ops.jsonl")
    assert "no answer within 0.3 s" in " ".join(line.get("error", "") for line in completed.values())


def test_stop_does_not_wait_for_ever(ensemble: FakeEnsemble, tmp_path: Path) -> None:
    load = LoadParameters(clients=2, rate=1000, keys=1, mix={"set": 1}, max_outstanding=3, timeout=600)
    workload = stalled(ensemble, load, tmp_path)
    until(lambda: workload.counters.owed > 10)
    counters = workload.stop(grace=0.05)
    assert counters.unknown == 6
    _, completed = split(tmp_path / "ops.jsonl")
    assert sum(line["outcome"] == "unknown" for line in completed.values()) == 6
    assert workload.stop() == counters


def test_a_client_that_hangs_is_a_mistake_of_the_harness(
    ensemble: FakeEnsemble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread, "END_SECONDS", 0.05)
    hangs, goes_on = threading.Event(), threading.Event()
    workload = ZabLoad(ensemble.addresses, ensemble.keys, tmp_path / "ops.jsonl", LoadParameters(clients=1), seed=1)

    def hang(_clients: object) -> None:
        hangs.set()
        goes_on.wait()

    monkeypatch.setattr(workload, "_turn", hang)
    workload.start()
    assert hangs.wait(20)
    with pytest.raises(HarnessError, match=r"has not ended within 0\.1 s: a client hangs"):
        workload.stop(grace=0)
    goes_on.set()
    assert workload.stop(grace=0).invoked == 0


def test_a_client_that_cannot_be_closed_is_an_error(
    ensemble: FakeEnsemble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = ZabLoad(ensemble.addresses, ensemble.keys, tmp_path / "ops.jsonl", LoadParameters(clients=1), seed=1)
    close = Client.close

    def fail(client: Client) -> None:
        close(client)
        raise HarnessError("it hangs")

    monkeypatch.setattr(Client, "close", fail)
    workload.start()
    assert workload.wait_begun(20)
    with pytest.raises(HarnessError, match="it hangs"):
        workload.stop()


def test_without_nodes_the_setup_waits_and_can_be_stopped(
    ensemble: FakeEnsemble, tmp_path: Path, unused_address: str
) -> None:
    workload = ZabLoad({1: unused_address}, ensemble.keys, tmp_path / "ops.jsonl", LoadParameters(), seed=1)
    workload.start()
    assert not workload.wait_begun(0.05)
    assert workload.stop(grace=0).invoked == 0
    assert (tmp_path / "ops.jsonl").read_text() == ""


def test_the_setup_survives_a_leader_that_comes_late(ensemble: FakeEnsemble, tmp_path: Path) -> None:
    for node in ensemble.nodes.values():
        node.leaderless = True
    workload = ZabLoad(ensemble.addresses, ensemble.keys, tmp_path / "ops.jsonl", LoadParameters(keys=3), seed=1)
    workload.start()
    until(lambda: (tmp_path / "ops.jsonl").read_text().count("no leader") > 3)
    for node in ensemble.nodes.values():
        node.leaderless = False
    assert workload.wait_begun(20)
    workload.stop()


def test_an_error_in_the_thread_reaches_the_caller(
    ensemble: FakeEnsemble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = ZabLoad(ensemble.addresses, ensemble.keys, tmp_path / "ops.jsonl", LoadParameters(), seed=1)

    def full() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(workload._ops, "flush", full)
    workload.start()
    with pytest.raises(WorkloadError, match="No space left"):
        workload.wait_begun(20)
    with pytest.raises(WorkloadError, match="No space left"):
        workload.stop()


def test_a_record_that_cannot_be_completed_is_an_error(
    ensemble: FakeEnsemble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk becomes full when the load ends: the last outcomes are on no record."""
    workload = ZabLoad(ensemble.addresses, ensemble.keys, tmp_path / "ops.jsonl", LoadParameters(), seed=1)
    close = workload._ops.close

    def full() -> None:
        close()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(workload._ops, "close", full)
    workload.start()
    assert workload.wait_begun(20)
    with pytest.raises(WorkloadError, match="No space left"):
        workload.stop()


def test_the_final_state_of_a_node_is_read_with_a_client_that_knows_no_other(
    ensemble: FakeEnsemble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that knows all nodes goes to the next one if its own does not answer, and reads that one's state."""
    workload = ZabLoad(ensemble.addresses, ensemble.keys, tmp_path / "ops.jsonl", LoadParameters(keys=1), seed=1)
    workload.start()
    assert workload.wait_begun(20)
    workload.stop()
    known: list[dict[int, str]] = []
    client = workload._client

    def knowing(addresses: dict[int, str], *arguments: Any) -> Any:
        known.append(addresses)
        return client(addresses, *arguments)

    monkeypatch.setattr(workload, "_client", knowing)
    found = workload.read_state(["/key-0", "/none"])
    assert known == [{node: address} for node, address in sorted(ensemble.addresses.items())]
    assert [state["/none"] for _, state in sorted(found.items())] == [None] * 3
    assert all(state["/key-0"] for state in found.values())
