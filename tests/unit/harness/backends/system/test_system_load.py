"""The load of a foreign system: during the run, clients read keys that others have created."""

import json
import re
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from zab_chaos.faults.scenario import Operation
from zab_chaos.harness.backends.outcome_counts import OutcomeCounts
from zab_chaos.harness.backends.system import (
    BlockingClient,
    Client,
    Create,
    Delete,
    Failed,
    Get,
    Outcome,
    Request,
    Unknown,
    clients,
    done,
    workload,
)
from zab_chaos.harness.backends.system.clients import SystemClient, ThenOrRaised
from zab_chaos.harness.backends.system.history import HistoryFile
from zab_chaos.harness.backends.system.mistakes import BackendMistake
from zab_chaos.harness.backends.system.workload import SystemLoad
from zab_chaos.harness.workload import open_loop
from zab_chaos.harness.workload.operations import LoadParameters
from zab_chaos.model.oracle.oracle import judge
from zab_chaos.node.tree.requests import ANY

ENOUGH = 300  # answers


@pytest.fixture(autouse=True)
def all_answers_are_recent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_loop, "WINDOW_NS", 10**12)


def own(path: object) -> bool:
    """Return whether a client has created this key."""
    return str(path).count("/") > 1


class Store:
    """A store. If it `forgets`, it has no keys that clients have created from the 100th answer to the 200th."""

    def __init__(self, forgets: bool) -> None:
        self.held: dict[str, bytes] = {}
        self.answers = 0
        self.enough = threading.Event()
        self._forgets = forgets
        self._lock = threading.Lock()

    def ask(self, request: Request) -> object:
        with self._lock:
            self.answers += 1
            if self.answers >= ENOUGH:
                self.enough.set()
            if isinstance(request, Create):
                self.held[request.path] = request.data
                return done()
            assert isinstance(request, Get)
            forgotten = self._forgets and own(request.path) and 100 <= self.answers < 200
            if forgotten or request.path not in self.held:
                return Failed("no node", "")
            return done(self.held[request.path])


class OfStore(Client):
    def __init__(self, ask: Callable[[Request], object]) -> None:
        self._ask = ask

    def submit(self, request: Request, then: ThenOrRaised) -> None:
        then(self._ask(request))  # type: ignore[arg-type]

    def close(self) -> None: ...


def load_on(connect: Callable[[], Client], history: HistoryFile, work: LoadParameters, **keywords: Any) -> SystemLoad:
    """Return a load on one node, with clients that `connect` returns."""
    return SystemLoad(lambda number: SystemClient({1: connect}, number, 1, 10.0), work, 1, history, **keywords)


def run(folder: Path, store: Store) -> list[dict[str, object]]:
    """Run some hundred operations, and return the lines of ops.jsonl."""
    history = HistoryFile(folder / "ops.jsonl", OutcomeCounts())
    work = LoadParameters(clients=3, rate=1000.0, keys=2, mix={"create": 1, "get": 2})
    load = load_on(lambda: OfStore(store.ask), history, work, creates=True)
    load.start()
    assert store.enough.wait(60)
    assert load.counters.rate
    assert load.counters.p50_ms is not None
    load.stop()
    history.close()
    lines = [json.loads(line) for line in (folder / "ops.jsonl").read_text().splitlines()]
    at = lines[-1]["t"] + 1
    milestones = [{"t": at, "event": name} for name in ("workload-stopped", "safety-ended", "converged")]
    folder.joinpath("harness.jsonl").write_text("".join(json.dumps(line) + "\n" for line in milestones))
    said = {"nodes": 1, "outcome": "finished", "expect": {"min_acked": 1, "progress_within": 60}, "evidence": "history"}
    folder.joinpath("run.json").write_text(json.dumps(said))
    return [line for line in lines if line["type"] == "invoke"]


def test_the_answer_to_a_key_that_cannot_be_created_is_known(tmp_path: Path) -> None:
    """A mistake in a backend's client makes every outcome unknown: the run must be able to name it."""
    refused = threading.Event()

    def ask(request: Request) -> object:
        refused.set()
        return Unknown("AttributeError: no attribute 'sock'")

    history = HistoryFile(tmp_path / "ops.jsonl", OutcomeCounts())
    work = LoadParameters(clients=1, rate=1.0, keys=1, mix={"get": 1})
    load = load_on(lambda: OfStore(ask), history, work, creates=False)
    load.start()
    assert refused.wait(60)
    assert load.stop().trouble == "AttributeError: no attribute 'sock'"
    history.close()


class Broken(BlockingClient):
    """A client of which `ask` raises an exception each time."""

    def __init__(self, error: BaseException) -> None:
        self._error = error
        super().__init__()

    def ask(self, request: Request) -> Outcome:
        raise self._error


def load_of(client: Callable[[], Client], history: HistoryFile) -> SystemLoad:
    work = LoadParameters(clients=1, rate=1.0, keys=1, mix={"get": 1})
    return load_on(client, history, work, creates=False, patience=0.0)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (AttributeError("no attribute 'sock'"), "AttributeError: no attribute 'sock'"),
        (SystemExit(1), "RuntimeError: SystemExit(1)"),
    ],
)
def test_a_client_that_only_raises_exceptions_is_a_mistake(tmp_path: Path, error: BaseException, words: str) -> None:
    """The run ends soon, and says what was raised and where: the system has done nothing wrong."""
    history = HistoryFile(tmp_path / "ops.jsonl", OutcomeCounts())
    load = load_of(lambda: Broken(error), history)
    load.start()
    line = Broken.ask.__code__.co_firstlineno + 1
    place = f"{words} (raised in {Path(__file__).name}, line {line})"
    with pytest.raises(
        BackendMistake, match=rf"because `ask` has raised {re.escape(place)}\. This is a mistake in the backend"
    ):
        load.wait_begun(60)
    with pytest.raises(BackendMistake):
        load.stop()
    history.close()
    assert place in (tmp_path / "ops.jsonl").read_text()


@pytest.mark.parametrize("one_connects", [False, True])
def test_it_is_a_mistake_if_no_client_ever_connects_to_any_node(
    one_connects: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system has not refused anything. But if one client has connected, the system may refuse the others."""
    monkeypatch.setattr(workload, "CONNECT_SECONDS", 0.0)
    tries = threading.Semaphore(0)

    def connect(number: int) -> Client:
        tries.release()
        if one_connects and number == 1:
            return OfStore(lambda request: Unknown("no answer"))
        raise ConnectionError("access denied")

    history = HistoryFile(tmp_path / "ops.jsonl", OutcomeCounts())
    work = LoadParameters(clients=2, rate=100.0, keys=2, mix={"get": 1})
    load = SystemLoad(
        lambda number: SystemClient({1: partial(connect, number)}, number, 1, 10.0), work, 1, history, creates=False
    )
    load.start()
    if one_connects:
        assert all(tries.acquire(timeout=60) for _ in range(20))
        load.stop()
    else:
        words = r"no client has connected to any node for .* of `client`: ConnectionError: access denied$"
        with pytest.raises(BackendMistake, match=words):
            load.wait_begun(60)
        with pytest.raises(BackendMistake):
            load.stop()
    history.close()


class Asked(BlockingClient):
    """A client of which `ask` waits until it is told to go on, whether or not it has hung up, if that is nothing."""

    def __init__(self, ask: Callable[[], Outcome], hang_up: Callable[[], None] = lambda: None) -> None:
        self._ask_now, self._hang_up = ask, hang_up
        super().__init__()

    def ask(self, request: Request) -> Outcome:
        return self._ask_now()

    def hang_up(self) -> None:
        self._hang_up()


@pytest.mark.parametrize("heeds", [False, True], ids=["waits for ever", "ends when it hangs up"])
def test_a_client_that_waits_for_ever_is_a_mistake(
    heeds: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If nothing was ever answered. But one that ends when it is closed may have waited for a system that does not answer."""
    monkeypatch.setattr(clients, "CALL_SECONDS", 0.1)
    ended, hung_up = threading.Event(), threading.Semaphore(0)

    def ask() -> Outcome:
        ended.wait()
        return Unknown("the connection was closed")

    def hang_up() -> None:
        hung_up.release()
        if heeds:
            ended.set()

    history = HistoryFile(tmp_path / "ops.jsonl", OutcomeCounts())
    work = LoadParameters(clients=1, rate=1.0, keys=1, mix={"get": 1})
    load = SystemLoad(
        lambda number: SystemClient({1: lambda: Asked(ask, hang_up)}, number, 1, 0.05), work, 1, history,
        creates=False, patience=0.0,
    )  # fmt: skip
    load.start()
    where = rf"\(`ask` waits in {Path(__file__).name}, line {ask.__code__.co_firstlineno + 1}\)"
    try:
        if heeds:
            assert all(hung_up.acquire(timeout=60) for _ in range(5))
            load.stop()
        else:
            with pytest.raises(BackendMistake, match=rf"because `ask` has not returned .* after its timeout {where}"):
                load.wait_begun(60)
            with pytest.raises(BackendMistake):
                load.stop()
    finally:
        ended.set()
        history.close()
    assert re.search(f"no answer within 0.05 s {where}", (tmp_path / "ops.jsonl").read_text())


def test_a_client_that_can_not_hang_up_is_a_mistake(tmp_path: Path) -> None:
    """Its threads show no traces. An OSError is none: the connection may be broken already."""
    raised: list[Exception] = []

    def hang_up() -> None:
        raise raised[0]

    for error in (OSError("not connected"), RuntimeError("no socket")):
        raised[:] = [error]
        history = HistoryFile(tmp_path / f"{type(error).__name__}.jsonl", OutcomeCounts())
        load = load_of(lambda: Asked(lambda: done(b"1"), hang_up), history)
        load.start()
        assert load.wait_begun(60)
        if isinstance(error, OSError):
            load.stop()
        else:
            line = hang_up.__code__.co_firstlineno + 1
            with pytest.raises(
                BackendMistake,
                match=rf"`hang_up` of the backend has raised RuntimeError: no socket \(.*, line {line}\)",
            ):
                load.stop()
        history.close()


def test_nodes_that_can_not_be_reached_are_no_mistake(tmp_path: Path) -> None:
    clients = [Broken(ConnectionResetError("the node is down")), Broken(ValueError("not JSON"))]
    left = iter(clients)
    last = threading.Event()

    def connect() -> Client:
        try:
            return next(left)
        except StopIteration:
            last.set()
            raise OSError("no more clients") from None

    history = HistoryFile(tmp_path / "ops.jsonl", OutcomeCounts())
    load = load_of(connect, history)
    load.start()
    assert last.wait(60)
    load.stop()
    history.close()


def test_a_client_that_blocks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose clients do not end would never end itself."""
    monkeypatch.setattr(workload, "CALL_SECONDS", -10.0)  # besides the client's timeout
    ended, waits = threading.Event(), threading.Event()

    def connect() -> Client:
        waits.set()
        ended.wait()
        raise OSError

    history = HistoryFile(tmp_path / "ops.jsonl", OutcomeCounts())
    load = load_of(connect, history)
    load.start()
    assert waits.wait(60)
    line = connect.__code__.co_firstlineno + 2
    try:
        with pytest.raises(BackendMistake, match=rf"does not end \(it waits in {Path(__file__).name}, line {line}\)"):
            load.stop(0.0)
    finally:
        ended.set()
        history.close()


@pytest.mark.parametrize("comes", [True, False])
def test_an_operation_that_awaits_a_fault_is_due_when_that_has_taken_effect(comes: bool, tmp_path: Path) -> None:
    """It is not sent at all if the fault has not taken effect when the load stops."""
    asked = threading.Event()

    def ask(request: Request) -> object:
        if isinstance(request, Get):
            asked.set()
        return done(b"")

    history = HistoryFile(tmp_path / "ops.jsonl", OutcomeCounts())
    work = LoadParameters(clients=1, keys=1, operations=(Operation(at=0.0, do="get", awaits="Cut"),))
    load = load_on(lambda: OfStore(ask), history, work, creates=True)
    load.start()
    assert load.wait_begun(60)
    effective = time.monotonic_ns()
    if comes:
        load.took_effect({"Cut": (1,)})
        assert asked.wait(60)
    load.stop()
    history.close()
    lines = [json.loads(line) for line in (tmp_path / "ops.jsonl").read_text().splitlines()]
    due = [line["due"] for line in lines if line["type"] == "invoke" and line["op"] == "get"]
    assert len(due) == comes
    assert all(one >= effective for one in due)


def test_the_clients_of_a_load_tell_their_outcomes_one_after_the_other(tmp_path: Path) -> None:
    """Their threads change one record of what is outstanding and what was answered."""
    clients = [SystemClient({}, number, 1, 10.0) for number in (1, 2)]
    history = HistoryFile(tmp_path / "ops.jsonl", OutcomeCounts())
    SystemLoad(lambda number: clients[number - 1], LoadParameters(clients=2), 1, history, creates=True)
    history.close()
    assert clients[0].lock is clients[1].lock


def test_written_operations_go_to_the_nodes_that_they_name(tmp_path: Path) -> None:
    """Or to one that a fault has hit, if it has hit any: the client then stays at a node that was hit."""
    asked: list[int] = []
    enough = threading.Event()

    def ask(node: int, request: Request) -> object:
        if isinstance(request, Get):
            asked.append(node)
            if len(asked) == len(named):
                enough.set()
        return done(b"")

    history = HistoryFile(tmp_path / "ops.jsonl", OutcomeCounts())
    named = (1, 3, "Cut", None, 1, "Cut")
    operations = tuple(Operation(at=at / 100, do="get", node=node) for at, node in enumerate(named))
    connect = {node: partial(OfStore, partial(ask, node)) for node in (1, 2, 3)}
    load = SystemLoad(
        lambda number: SystemClient(connect, number, 1, 10.0),
        LoadParameters(clients=1, keys=1, operations=operations), 1, history, creates=True,
    )  # fmt: skip
    load.took_effect({"Cut": (2, 1)})
    load.start()
    assert enough.wait(60)
    load.stop()
    history.close()
    assert asked == [1, 3, 2, 2, 1, 1]
    lines = [json.loads(line) for line in (tmp_path / "ops.jsonl").read_text().splitlines()]
    assert [line["node"] for line in lines if line["type"] == "invoke" and line["op"] == "get"] == asked


def test_clients_read_keys_that_any_of_them_has_created(tmp_path: Path) -> None:
    asked = run(tmp_path, Store(forgets=False))
    makers = {one["path"]: one["client"] for one in asked if one["op"] == "create" and own(one["path"])}
    reads = [(one["client"], makers[one["path"]]) for one in asked if one["op"] == "get" and own(one["path"])]
    assert {maker == client for client, maker in reads} == {True, False}
    assert judge(tmp_path, stored=False).exit == 0


def test_a_store_that_loses_keys_for_a_while_is_found(tmp_path: Path) -> None:
    store = Store(forgets=True)
    run(tmp_path, store)
    verdict = judge(tmp_path, stored=False)
    assert verdict.violated[0] == "linearizable keys"
    words = verdict.property("linearizable keys").violations[0].words
    assert own(words.split(" ")[0]), words


def test_keys_are_deleted_on_condition_of_a_version_only_if_answers_name_versions(tmp_path: Path) -> None:
    """A system without versions could not tell whether the condition is true."""

    def conditions(version: int | None) -> set[int]:
        asked: list[int] = []
        enough = threading.Event()

        def ask(request: Request) -> object:
            if isinstance(request, Delete):
                asked.append(request.version)
                if len(asked) == 200:
                    enough.set()
            return done(version=version)

        history = HistoryFile(tmp_path / "ops.jsonl", OutcomeCounts())
        work = LoadParameters(clients=1, rate=1000.0, keys=2, mix={"create": 1, "delete": 1})
        load = load_on(lambda: OfStore(ask), history, work, creates=True)
        load.start()
        assert enough.wait(60)
        load.stop()
        history.close()
        return set(asked)

    assert conditions(None) == {ANY}
    assert conditions(0) == {ANY, 0, 1}


def test_an_answer_that_comes_soon_after_the_end_of_the_load_is_known(tmp_path: Path) -> None:
    may_answer, asked = threading.Event(), threading.Semaphore(0)

    class Late(Client):
        def submit(self, request: Request, then: ThenOrRaised) -> None:
            asked.release()
            threading.Thread(target=lambda: (may_answer.wait(60), then(done()))).start()

        def close(self) -> None: ...

    history = HistoryFile(tmp_path / "ops.jsonl", OutcomeCounts())
    work = LoadParameters(clients=1, rate=1000.0, keys=1, mix={"set": 1})
    load = load_on(Late, history, work, creates=False)
    may_answer.set()
    load.start()
    assert load.wait_begun(60)
    may_answer.clear()
    while asked.acquire(timeout=0.2):  # until one is under way
        pass
    threading.Timer(0.3, may_answer.set).start()
    counts = load.stop(60.0)
    history.close()
    assert counts.ok
    assert counts.unknown == 0


def asked_of(tmp_path: Path, number: int, creates: bool, **work: Any) -> list[Request]:
    """Return so many creations and deletions that two clients ask for."""
    asked: list[Request] = []
    enough = threading.Event()

    def ask(request: Request) -> object:
        if isinstance(request, Create | Delete):
            asked.append(request)
            if len(asked) >= number:
                enough.set()
        return done()

    history = HistoryFile(tmp_path / "ops.jsonl", OutcomeCounts())
    load = load_on(
        lambda: OfStore(ask), history, LoadParameters(clients=2, rate=1000.0, keys=2, **work), creates=creates
    )
    load.start()
    assert enough.wait(60)
    load.stop()
    history.close()
    return asked


def test_clients_that_can_not_create_delete_keys_that_anybody_sets(tmp_path: Path) -> None:
    """There are no others, and each `set` creates them again."""
    asked = asked_of(tmp_path, 50, creates=False, mix={"set": 1, "delete": 1})
    assert {(type(one), one.path) for one in asked} == {(Delete, "/key-0"), (Delete, "/key-1")}


def test_all_clients_create_and_delete_one_key(tmp_path: Path) -> None:
    """Two of them must not both be told that they have created it."""
    asked = asked_of(tmp_path, 200, creates=True, mix={"create": 1, "delete": 1})
    assert {type(one) for one in asked if one.path == "/key-2"} == {Create, Delete}
    assert sum(one.path == "/key-2" for one in asked) < 150
