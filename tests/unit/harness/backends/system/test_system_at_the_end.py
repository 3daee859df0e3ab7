"""The checks at the end of a foreign system's run: the keys are read through each node, and written once more."""

import json
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zab_chaos.faults.grammar import build
from zab_chaos.faults.network import Pair
from zab_chaos.faults.two_way_network import Way
from zab_chaos.harness.backends.backend import RunOptions
from zab_chaos.harness.backends.system import (
    Append,
    Check,
    Client,
    Create,
    Delete,
    Exists,
    Failed,
    Get,
    ListTransaction,
    Place,
    ReadList,
    Request,
    Set,
    SystemBackend,
    Transaction,
    Unknown,
    committed,
    deployment,
    done,
)
from zab_chaos.harness.backends.system.clients import ThenOrRaised
from zab_chaos.harness.backends.system.deployment import SystemDeployment
from zab_chaos.harness.backends.system.history import HistoryFile
from zab_chaos.harness.backends.system.mistakes import BackendMistake
from zab_chaos.harness.machine.connections import host_and_port
from zab_chaos.harness.report.progress import Quiet
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.events import FINAL_CLIENTS

SCENARIO = {"scenario": {"name": "two-keys", "nodes": 2}}


class Dicts(SystemBackend):
    """A system whose nodes are dicts; a write through one goes to all. A read of a key whose value is `None` hangs.
    `refusing` nodes refuse writes, and writes of `stuck` keys hang."""

    name = "dicts"
    operations = frozenset(
        {
            *("get", "set", "create", "delete", "cas", "exists", "check", "transaction", "multi-get"),
            *("list-append", "list-read"),
        }
    )

    def __init__(self) -> None:
        self.held: dict[int, dict[str, bytes | None]] = {1: {}, 2: {}}
        self.lists: dict[int, dict[str, list[int]]] = {1: {}, 2: {}}
        self.asked: list[tuple[int, str]] = []
        self.refusing: set[int] = set()
        self.stuck: set[str] = set()
        self.hanging = self.raising = ""  # kinds of operations that hang, and for which the client raises an exception
        self.raising_at = ""  # the key for which it raises one
        self.served: list[str] = []  # kinds, in the order in which they were served

    def command(self, place: Place, defect: str | None) -> Sequence[str]:
        return []

    def client(self, place: Place, timeout: float) -> Client:
        return OfDict(self, place.node)


def kind_of(request: Request) -> str:
    if isinstance(request, Transaction | ListTransaction):
        return request.op
    return "cas" if isinstance(request, Set) and request.version >= 0 else type(request).__name__.lower()


def raised(error: Exception) -> Exception:
    try:
        raise error
    except KeyError as caught:
        return caught


class OfDict(Client):
    def __init__(self, backend: Dicts, node: int) -> None:
        self._backend, self._node = backend, node

    def submit(self, request: Request, then: ThenOrRaised) -> None:
        kind = kind_of(request)
        if kind == self._backend.hanging:
            return then(Unknown("it hangs"))
        if kind == self._backend.raising or getattr(request, "path", None) == self._backend.raising_at:
            return then(raised(KeyError("x")))
        self._backend.served.append(kind)
        if isinstance(request, Transaction):
            return then(committed([b"" for step in request.steps if isinstance(step, Get)]))
        if isinstance(request, ListTransaction):
            return then(self._on_lists(request))
        if isinstance(request, Delete):
            for held in self._backend.held.values():
                held.pop(request.path, None)
            return then(done())
        if isinstance(request, Exists | Check):
            return then(done(version=0))
        if isinstance(request, Set | Create):
            if self._node in self._backend.refusing:
                return then(Failed("no leader", "not here"))
            if request.path in self._backend.stuck:
                return then(Unknown("it hangs"))
            for held in self._backend.held.values():
                held[request.path] = request.data
            return then(done())
        assert isinstance(request, Get)
        held = self._backend.held[self._node]
        self._backend.asked.append((self._node, request.path))
        if request.path not in held:
            return then(Failed("no node", ""))
        value = held[request.path]
        return then(Unknown("it hangs") if value is None else done(value, version=0))

    def _on_lists(self, request: ListTransaction) -> object:
        paths = {step.path for step in request.steps}
        self._backend.asked += [(self._node, step.path) for step in request.steps]
        if request.op == "list-append" and (self._node in self._backend.refusing or paths & self._backend.stuck):
            return Failed("no leader", "not here")
        found = []
        for step in request.steps:
            if isinstance(step, ReadList):
                found.append(self._backend.lists[self._node].get(step.path, []))
            else:
                for lists in self._backend.lists.values():
                    lists.setdefault(step.path, []).append(step.element)
        return committed(found)

    def close(self) -> None: ...


class Run:
    def __init__(self, folder: Path, *kinds: str, **weights: float) -> None:
        self.folder = folder
        self.backend = Dicts()
        options = RunOptions(seed=1, results=folder, command="")
        mix = {"set": 1, "get": 1, **dict.fromkeys(kinds, 1), **weights}
        scenario: Any = build({**SCENARIO, "workload": {"keys": 2, "mix": mix}}, "two-keys")
        self.deployment = SystemDeployment(self.backend, scenario, options, RunFolder(folder), Quiet())
        places = {
            node: Place(node=node, listen="", client="", address="", peers={}, data=folder)
            for node in self.backend.held
        }
        cluster: Any = SimpleNamespace(nodes=[1, 2], places=places, status=lambda node, timeout: node)
        self.deployment.cluster = cluster
        self.deployment._history = HistoryFile(folder / "ops.jsonl", self.deployment.outcomes)

    def write(self, request: Request) -> None:
        for node in (1, 2):
            line = self.deployment.line(node, node, 1.0)
            line.submit(request, lambda outcome: None)
            line.wait(lambda: False, 0.1)
            line.close()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_each_node_has_as_many_addresses_as_its_backend_asks_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ways: dict[Pair, Way] = {}
    monkeypatch.setattr(run.deployment, "_two_way_proxies", lambda made, stack: ways.update(made))
    run.backend.other_ports = 2
    with ExitStack() as stack:
        run.deployment._build(stack)
        places = run.deployment.cluster.places
        addresses = {address for one in places.values() for address in (one.listen, one.client, *one.others)}
    assert len(addresses) == 8
    assert places[1].peers == {2: ways[1, 2].proxy}
    assert ways[1, 2].target == places[2].listen
    assert len({address for way in ways.values() for address in (way.proxy, way.relay)} - addresses) == 4


def test_nodes_may_have_one_port_for_all_and_more_ports_for_each_other(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways: dict[Pair, Way] = {}
    monkeypatch.setattr(run.deployment, "_two_way_proxies", lambda made, stack: ways.update(made))
    run.backend.one_port, run.backend.more_peer_ports, run.backend.other_ports = True, 1, 1
    with ExitStack() as stack:
        run.deployment._build(stack)
        places = run.deployment.cluster.places
    assert all(one.client == one.listen for one in places.values())
    first, second = places[1], places[2]
    (further,), (of_second,) = first.more_peer_ports, second.more_peer_ports
    assert (first.peers, further.peers) == ({2: ways[1, 2].proxy}, {2: ways[1, 2, 1].proxy})
    assert (ways[1, 2].target, ways[1, 2, 1].target) == (second.listen, of_second.listen)
    assert len({first.listen, further.listen, *first.others, second.listen, of_second.listen, *second.others}) == 6
    called = {address: run.deployment._text(host_and_port(address)) for address in (second.listen, *second.others)}
    assert called[second.listen] == f"{second.listen} (`listen` of node 2)"
    assert called[second.others[0]] == f"{second.others[0]} (`others` of node 2)"


def test_whatever_a_client_raises_means_that_its_node_cant_be_reached_once_one_has_connected(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many libraries have exceptions of their own for that. Before one has connected it is a mistake in the backend."""

    def raises(place: Place, timeout: float) -> Client:
        raise KeyError("no route")

    working = run.backend.client
    monkeypatch.setattr(run.backend, "client", raises)
    with pytest.raises(BackendMistake, match="`client` of the backend has raised KeyError: 'no route'"):
        run.write(Set("/key-0", b"1"))
    monkeypatch.setattr(run.backend, "client", working)
    run.write(Set("/key-0", b"1"))
    monkeypatch.setattr(run.backend, "client", raises)
    assert "node 1 can't be reached: KeyError: 'no route' (raised in" in str(run.deployment.disagreement())
    with pytest.raises(
        BackendMistake, match=r"nodes have converged: `client` .* raised KeyError: 'no route' \(raised in"
    ):
        run.deployment.on_not_converged()


def test_a_system_that_does_not_serve_is_not_excused_by_a_mistake_before_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.deployment._answers.add("get", Unknown(""), KeyError("x"))
    run.backend.stuck = {"/key-1"}
    assert run.deployment.disagreement() == "no node takes a write of /key-1: unknown, it hangs"
    run.deployment.on_not_converged()


def test_nodes_that_differ_are_not_excused_by_a_mistake(run: Run) -> None:
    run.backend.held[1] = {"/key-0": b"1", "/key-1": b"1"}
    run.backend.held[2] = {"/key-0": b"2", "/key-1": b"1"}
    run.backend.raising_at = "/key-1"
    assert run.deployment.disagreement() == "/key-0 is not the same through node-1, node-2"
    run.deployment.on_not_converged()
    run.backend.held[2] = run.backend.held[1]
    assert "/key-1 can't be read" in str(run.deployment.disagreement())
    with pytest.raises(BackendMistake):
        run.deployment.on_not_converged()


@pytest.mark.parametrize("said", [ConnectionError("refused"), KeyError("x")])
def test_an_exception_that_the_backend_has_turned_into_an_oserror_is_no_mistake(
    said: Exception, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(place: Place, timeout: float) -> Client:
        try:
            raise said
        except Exception as error:
            raise ConnectionError("can't be reached") from error

    run.write(Set("/key-0", b"1"))
    monkeypatch.setattr(run.backend, "client", refused)
    assert run.deployment.disagreement() is not None
    run.deployment.on_not_converged()


def test_a_kind_of_operations_for_which_the_client_only_raises_exceptions_is_a_mistake(tmp_path: Path) -> None:
    """It is not known whether the system serves them."""
    run = Run(tmp_path, "cas")
    run.write(Set("/key-0", b"1"))
    run.backend.raising = "cas"
    assert "no node serves an operation of the kind cas: unknown, KeyError: 'x'" in str(run.deployment.disagreement())
    with pytest.raises(
        BackendMistake, match=r"`ask` of the backend has raised KeyError: 'x'.* when it was asked for cas"
    ):
        run.deployment.on_not_converged()


def test_a_client_that_connects_for_ever_is_a_mistake(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "CALL_SECONDS", -0.9)  # besides the client's timeout
    ended = threading.Event()

    def hangs(place: Place, timeout: float) -> Client:
        ended.wait()
        raise OSError

    monkeypatch.setattr(run.backend, "client", hangs)
    place = rf"\(it waits in {Path(__file__).name}, line {hangs.__code__.co_firstlineno + 1}\)"
    try:
        with pytest.raises(BackendMistake, match=rf"`client` .* {place}\. It must return within its timeout"):
            run.write(Set("/key-0", b"1"))
    finally:
        ended.set()


@pytest.mark.parametrize("operations", [{"get", "set"}, {"get", "set", "cas"}])
def test_writes_without_versions_are_noted_if_conditions_name_versions(
    run: Run, monkeypatch: pytest.MonkeyPatch, operations: set[str]
) -> None:
    said: list[str] = []
    monkeypatch.setattr(run.deployment._display, "say", said.append)
    monkeypatch.setattr(run.backend, "operations", frozenset(operations))
    run.deployment.on_healed()
    assert said == []
    run.write(Set("/key-0", b"1"))
    run.deployment.on_healed()
    assert len(said) == ("cas" in operations)


def test_what_the_backend_sets_up_is_durable(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    monkeypatch.setattr(run.backend, "set_up", lambda places: done.append([place.node for place in places]))
    monkeypatch.setattr(run.deployment, "_disks", SimpleNamespace(sync=lambda: done.append("synced")), raising=False)
    run.deployment.on_established()
    assert done == [[1, 2], "synced"]


def test_the_workloads_keys_and_created_keys_are_read_through_each_node(run: Run) -> None:
    run.write(Set("/key-1", b"1"))
    run.write(Create("/key-1/3-17", b"2"))
    assert run.deployment.disagreement() is None
    once = [(node, path) for path in ("/key-0", "/key-1", "/key-1/3-17") for node in (1, 2)]
    assert run.backend.asked == once + once  # before each of the workload's keys is written, and after it


@pytest.mark.parametrize(
    ("nodes", "up", "formed"), [(1, 1, True), (2, 1, False), (3, 2, True), (3, 1, False), (4, 2, False), (4, 3, True)]
)
def test_an_ensemble_has_formed_when_more_than_half_of_its_nodes_accept_clients(
    nodes: int, up: int, formed: bool, run: Run
) -> None:
    cluster: Any = SimpleNamespace(nodes=range(nodes), status=lambda node, _: node if node < up else None)
    run.deployment.cluster = cluster
    assert run.deployment.formed() is formed


def written(run: Run) -> list[str]:
    lines = [json.loads(line) for line in (run.folder / "ops.jsonl").read_text().splitlines()]
    return [line["path"] for line in lines if line.get("op") == "set"]


def test_each_of_the_workloads_keys_is_written_through_some_node(run: Run) -> None:
    run.backend.refusing = {1}
    assert run.deployment.disagreement() is None
    assert run.deployment.disagreement() is None
    assert written(run) == ["/key-0", "/key-0", "/key-1"]  # node 1 has refused the first; and each is taken once
    assert run.backend.held[1] == run.backend.held[2] == {"/key-0": b"end-3", "/key-1": b"end-3"}


def test_the_keys_are_written_again_when_the_faults_are_healed(run: Run) -> None:
    """An ensemble in a test writes them when it is new, which says nothing of the faults that follow."""
    assert run.deployment.disagreement() is None
    run.backend.stuck = {"/key-1"}
    assert run.deployment.disagreement() is None
    run.deployment.on_healed()
    assert run.deployment.disagreement() == "no node takes a write of /key-1: unknown, it hangs"


def test_a_key_that_no_node_can_write_is_reported(run: Run) -> None:
    run.backend.stuck = {"/key-1"}
    why = "no node takes a write of /key-1: unknown, it hangs"
    assert [run.deployment.disagreement(), run.deployment.disagreement()] == [why, why]
    assert written(run) == ["/key-0", "/key-1", "/key-1", "/key-1", "/key-1"]


def test_keys_are_read_before_they_are_overwritten(run: Run) -> None:
    run.backend.held[2]["/key-1"] = b"else"
    assert run.deployment.disagreement() == "/key-1 is not the same through node-1, node-2"
    assert written(run) == []


def test_nodes_that_refuse_writes_have_not_converged(run: Run) -> None:
    run.backend.refusing = {1, 2}
    why = run.deployment.disagreement()
    assert why is not None
    assert why.startswith("no node takes a write of /key-0: failed, no leader: not here")
    run.backend.refusing = set()
    assert run.deployment.disagreement() is None


def test_a_created_key_that_one_node_does_not_have_is_reported(run: Run) -> None:
    run.write(Create("/key-1/3-17", b"2"))
    del run.backend.held[2]["/key-1/3-17"]
    assert run.deployment.disagreement() == "/key-1/3-17 is not the same through node-1, node-2"


def test_of_many_created_keys_the_latest_are_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab_chaos.harness.backends.system.final_checks.MAX_KEYS", 2)
    for number in (1, 2, 3, 1):
        run.write(Create(f"/{number}", b""))
    assert run.deployment.disagreement() is None
    assert [path for node, path in run.backend.asked if node == 1] == 2 * ["/key-0", "/key-1", "/3", "/1"]


def test_after_an_inconclusive_answer_a_node_is_asked_for_no_more_keys(run: Run) -> None:
    run.write(Set("/key-0", b"1"))
    run.backend.held[2]["/key-0"] = None
    assert run.deployment.disagreement() == "/key-0 can't be read through node-2: unknown, it hangs"
    assert (2, "/key-1") not in run.backend.asked


KINDS = ("exists", "cas", "check", "create", "delete", "multi-get", "transaction", "list-read")


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_operation_of_the_load_is_asked_for(tmp_path: Path, kind: str) -> None:
    """A kind that hangs under constant faults would be noticed nowhere else."""
    run = Run(tmp_path, kind)
    run.write(Set("/key-0", b"1"))
    run.backend.hanging = kind
    assert run.deployment.disagreement() == f"no node serves an operation of the kind {kind}: unknown, it hangs"
    run.backend.hanging = ""
    run.backend.served.clear()
    assert run.deployment.disagreement() is None
    assert run.deployment.disagreement() is None
    assert run.backend.served.count(kind) == 1


def test_a_kind_that_the_load_has_not_sent_is_not_asked_for(tmp_path: Path) -> None:
    run = Run(tmp_path, check=0)
    assert run.deployment.disagreement() is None
    assert set(run.backend.served) == {"get", "set"}


def test_what_is_deleted_at_the_end_was_created_for_that(tmp_path: Path) -> None:
    run = Run(tmp_path, "delete")
    run.write(Set("/key-0", b"1"))
    assert run.deployment.disagreement() is None
    assert sorted(run.backend.held[1]) == ["/key-0", "/key-1"]


ONLY_LISTS = {"set": 0, "get": 0, "list-append": 1, "list-read": 1}
APPENDED = ListTransaction([Append("/list-1", 90), ReadList("/list-2")])


def test_lists_are_read_through_each_node(tmp_path: Path) -> None:
    run = Run(tmp_path, "list-append", "list-read")
    run.write(APPENDED)
    run.backend.asked.clear()
    assert run.deployment.disagreement() is None
    first = [path for node, path in run.backend.asked if node == 2][:3]
    assert first == ["/key-0", "/key-1", "/list-1"]  # nobody has asked for an append to the second list


def test_lists_that_are_not_the_same_through_each_node_are_reported(tmp_path: Path) -> None:
    run = Run(tmp_path, **ONLY_LISTS)
    run.write(APPENDED)
    run.backend.lists[2]["/list-1"] = [90]
    assert run.backend.lists[1]["/list-1"] == [90, 90]
    assert run.deployment.disagreement() == "/list-1 is not the same through node-1, node-2"
    run.backend.lists[2]["/list-1"] = [90, 90]
    assert run.deployment.disagreement() is None


def test_of_many_lists_those_with_the_latest_appends_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab_chaos.harness.backends.system.final_checks.MAX_KEYS", 2)
    run = Run(tmp_path)
    for number in (1, 2, 3, 1):
        run.write(ListTransaction([Append(f"/list-{number}", 90)]))
    run.backend.asked.clear()
    assert run.deployment.disagreement() is None
    lists = [path for node, path in run.backend.asked if node == 1 and path.startswith("/list")]
    assert lists == 2 * ["/list-3", "/list-1"]


def test_each_list_in_use_takes_an_append_through_some_node(tmp_path: Path) -> None:
    run = Run(tmp_path, **ONLY_LISTS)
    run.backend.refusing = {1}
    assert run.deployment.disagreement() is None
    assert run.deployment.disagreement() is None
    assert run.backend.lists[1] == {
        "/list-1": [2],
        "/list-2": [1],
    }  # node 1 has refused the first; and each is taken once
    assert not any(path.startswith("/key") for _, path in run.backend.asked)


def test_a_list_to_which_no_node_can_append_is_reported(tmp_path: Path) -> None:
    run = Run(tmp_path, **ONLY_LISTS)
    run.backend.stuck = {"/list-2"}
    for _ in range(2):
        assert str(run.deployment.disagreement()).startswith("no node takes an append to /list-2: failed, no leader")
    run.backend.stuck = set()
    assert run.deployment.disagreement() is None
    run.deployment.on_healed()
    run.backend.hanging = "list-append"
    assert run.deployment.disagreement() == "no node takes an append to /list-1: unknown, it hangs"


def test_what_is_read_and_appended_in_the_end_is_recorded(tmp_path: Path) -> None:
    run = Run(tmp_path, **ONLY_LISTS)
    assert run.deployment.disagreement() is None
    lines = [json.loads(line) for line in (tmp_path / "ops.jsonl").read_text().splitlines()]
    assert [line["lists"] for line in lines if line["type"] == "complete"] == [[[], []], [], [], *4 * [[[1]]]]
    assert all(line["client"] > FINAL_CLIENTS for line in lines)


@pytest.mark.parametrize(
    ("has", "asked"), [({"list-append", "list-read"}, "/list-1"), ({"get", "list-read"}, "/key-0")]
)
def test_a_node_that_lost_its_disk_is_asked_for_what_its_clients_know(
    tmp_path: Path, has: set[str], asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Dicts, "operations", frozenset(has))
    run = Run(tmp_path, **ONLY_LISTS)
    assert run.deployment._reads(2)
    assert run.backend.asked == [(2, asked)]
    run.backend.hanging = "list-read" if asked == "/list-1" else "get"
    assert not run.deployment._reads(2)


@pytest.mark.parametrize("level", [None, "serializable"])
def test_each_place_has_the_level_of_isolation(
    tmp_path: Path, level: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path)
    monkeypatch.setattr(run.deployment, "_two_way_proxies", lambda made, stack: None)
    expect = replace(run.deployment._scenario.expect, isolation=level)
    monkeypatch.setattr(run.deployment, "_scenario", replace(run.deployment._scenario, expect=expect))
    with ExitStack() as stack:
        run.deployment._build(stack)
        places = run.deployment.cluster.places
    assert {place.isolation for place in places.values()} == {level or "strict-serializable"}


@pytest.mark.parametrize(
    ("delivered", "why"),
    [
        ({1: (1, 2), 2: (1, 2)}, None),
        ({1: (0, 0), 2: (0, 0)}, None),
        (
            {1: (1, 2), 2: (1, 1)},
            "what the nodes have recorded differs at the end: delivered by node-1 up to 1:2, node-2 up to 1:1",
        ),
        ({1: (1, 2), 2: (0, 0)}, "no `deliver` or `restore` was recorded in the last life of node-2"),
    ],
)
def test_nodes_that_have_recorded_other_ends_have_not_converged(
    run: Run, delivered: dict[int, tuple[int, int]], why: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zab_chaos.harness.backends.system.deployment.DELIVERED_SECONDS", 0.0)
    records: Any = SimpleNamespace(delivered=delivered.__getitem__)
    run.deployment._records = records
    assert run.deployment.disagreement() == why


def test_followers_may_deliver_the_last_reads_a_moment_after_the_leader(run: Run) -> None:
    """In a system whose reads are transactions each look adds some: another look would find the followers behind again."""
    delivered = {1: iter([(1, 3)] * 3), 2: iter([(1, 2), (1, 3), (1, 3)])}
    records: Any = SimpleNamespace(delivered=lambda node: next(delivered[node]))
    run.deployment._records = records
    assert run.deployment.disagreement() is None
