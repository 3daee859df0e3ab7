"""The mistakes in a backend's methods that are explained to its author."""

import json
import os
import re
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.harness.backends.system import Client, Failed, Get, Place, SystemBackend, Unknown, done, mistakes
from zab_chaos.harness.backends.system.clients import SystemClient
from zab_chaos.harness.backends.system.deployment import SystemCluster, SystemDeployment
from zab_chaos.harness.backends.system.mistakes import BackendMistake, ClientAnswers, TimedCalls
from zab_chaos.harness.results.run_folder import RunFolder

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]


class Mistaken(SystemBackend):
    """Returns what it was given."""

    name = "mistaken"
    operations = frozenset({"get"})

    def __init__(
        self, command: Any = SLEEPS, received: Any = None, leader: Any = None, environment: Any = os.environ
    ) -> None:
        self._command, self._received, self._leader, self._environment = command, received, leader, environment

    def command(self, place: Place, defect: str | None) -> Any:
        return self._command

    def client(self, place: Place, timeout: float) -> Client:
        raise NotImplementedError

    def received(self, place: Place) -> Any:
        return self._received

    def leader(self, places: Any) -> Any:
        return self._leader

    def environment(self) -> Any:
        return self._environment


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def cluster(folder: Path, port: int, backend: SystemBackend | None = None, **returned: Any) -> SystemCluster:
    for name in ("data", "log"):
        (folder / name).mkdir()
    address = f"127.0.0.1:{port}"
    place = Place(node=1, listen="", client=address, address="", peers={2: ""}, data=folder / "data" / "node-1")
    return SystemCluster(backend or Mistaken(**returned), {1: place}, RunFolder(folder), None)


@pytest.mark.parametrize("command", ["server --port 7000", None])
def test_a_command_that_is_no_list(tmp_path: Path, port: int, command: Any) -> None:
    with pytest.raises(ClusterError, match=rf"`command` must return a list, .*, not {command!r}"):
        cluster(tmp_path, port, command=command).start(1)


@pytest.mark.parametrize(
    ("environment", "words"), [(None, "texts, not None"), ({"A": "b", "PORT": 5}, "texts, but 'PORT' has the value 5")]
)
def test_an_environment_without_texts(tmp_path: Path, port: int, environment: Any, words: str) -> None:
    with pytest.raises(ClusterError, match=f"`environment` must return a dict of {words}"):
        cluster(tmp_path, port, environment=environment).start(1)


@pytest.mark.parametrize("paused", [False, True])
def test_a_node_that_does_not_run_is_not_the_leader(tmp_path: Path, port: int, paused: bool) -> None:
    """The others may still follow it."""
    nodes = cluster(tmp_path, port, leader=1)
    assert nodes.leader() is None
    nodes._lives[1] = SimpleNamespace(alive=True, stopped=paused, life=1)  # type: ignore[assignment]
    assert nodes.leader() == (None if paused else 1)


@pytest.mark.parametrize("received", [None, {"127.0.0.1:7000": 1}, {2: "1"}, {1: 1}])
def test_counts_that_are_not_by_peer(tmp_path: Path, port: int, received: Any) -> None:
    """They would confirm every cut, because the number of a peer's messages would never change."""
    nodes = cluster(tmp_path, port, received=received)
    try:
        with pytest.raises(ClusterError, match="`received` must return a number for each of node 1's peers, not"):
            nodes.start(1)
    finally:
        nodes.close(ask=False)


def test_a_peer_that_a_node_does_not_name_has_sent_nothing(tmp_path: Path, port: int) -> None:
    """A link without a count would not be looked at when it is cut."""
    nodes = cluster(tmp_path, port, received={})
    nodes._lives[1] = SimpleNamespace(alive=True, stopped=False, life=1)  # type: ignore[assignment]
    status = nodes.status(1)
    assert status is not None
    assert status.frames == {2: 0}


@pytest.mark.parametrize("name", ["received", "leader"])
def test_a_method_that_does_not_return_is_named(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """With the place where it waits, once; after that nothing waits for it any more."""
    ended, calls = threading.Event(), []

    def blocks(*_: Any) -> None:
        calls.append(name)
        ended.wait()

    nodes = cluster(tmp_path, port)
    monkeypatch.setattr(Mistaken, name, blocks)
    monkeypatch.setattr(mistakes, "CALL_SECONDS", 0.2)
    nodes._lives[1] = SimpleNamespace(alive=True, stopped=False, life=1)  # type: ignore[assignment]
    line = blocks.__code__.co_firstlineno + 2
    words = rf"`{name}` of the backend has not .* \(it waits in {Path(__file__).name}, line {line}\)\. It must return at once$"
    try:
        for _ in range(2):
            with pytest.raises(BackendMistake, match=words):
                nodes.leader() if name == "leader" else nodes.status(1)
    finally:
        ended.set()
    assert calls == [name]


@pytest.mark.parametrize("raised", [TimeoutError("the node is slow"), OSError("gone")])
def test_an_os_error_of_a_method_is_raised(raised: Exception) -> None:
    def raises() -> None:
        raise raised

    with pytest.raises(type(raised)) as caught:
        TimedCalls().call("received", raises)
    assert caught.value is raised


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        (KeyError("role"), r"has raised KeyError: 'role' \(raised in test_system_mistakes\.py, line \d+\)"),
        (OSError("gone"), r"has raised OSError: gone\. If no node says who leads, it must return None"),
    ],
)
def test_an_exception_of_a_method_has_its_name(
    raised: Exception, words: str, tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises(*_: object) -> None:
        raise raised

    monkeypatch.setattr(Mistaken, "leader", raises)
    with pytest.raises(BackendMistake, match="`leader` of the backend " + words):
        cluster(tmp_path, port).leader()


@pytest.mark.parametrize("name", ["command", "environment"])
@pytest.mark.parametrize("raised", [KeyError("x"), OSError("in use")])
def test_an_exception_at_the_start_of_a_node_has_the_name_of_the_method(
    raised: Exception, name: str, tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also an OSError, which seemed to be one of the harness."""

    def raises(*_: object) -> None:
        raise raised

    monkeypatch.setattr(Mistaken, name, raises)
    place = rf"\(raised in {Path(__file__).name}, line \d+\)"
    with pytest.raises(
        BackendMistake, match=rf"`{name}` of the backend has raised {type(raised).__name__}: .* {place}"
    ):
        cluster(tmp_path, port).start(1)


def connected(client: Any) -> SystemClient:
    """Send a request through a client that `client` returns or raises, when asked to connect."""

    def connect() -> Any:
        if isinstance(client, Exception):
            raise client
        return client

    asked = SystemClient({1: connect}, 1, 1, 1.0)
    asked.submit(Get("/a"), lambda *_: None)
    asked.flush()
    return asked


def test_an_exception_of_the_method_client_has_its_name() -> None:
    with pytest.raises(BackendMistake, match=r"`client` of the backend has raised KeyError: 'x' \(raised in .*, line"):
        connected(KeyError("x"))
    connected(ConnectionError("refused")).close()


def test_a_client_that_is_none() -> None:
    with pytest.raises(
        BackendMistake, match="`client` of the backend must return a BlockingClient or AsyncClient, not None"
    ):
        connected(None)


@pytest.mark.parametrize("leader", ["127.0.0.1:7000", True])
def test_a_leader_that_is_no_node(tmp_path: Path, port: int, leader: Any) -> None:
    with pytest.raises(ClusterError, match=rf"`leader` must return the number of a node or None, not {leader!r}$"):
        cluster(tmp_path, port, leader=leader).leader()


class Reply(Exception):
    """What a system answers that refuses a request."""


def raised(error: Exception | str) -> Exception:
    """Raise the exception here, or read a text in a library that raises one, and return it."""
    try:
        if isinstance(error, str):
            json.loads(error)
        else:
            raise error
    except Exception as caught:
        return caught
    raise AssertionError


LOST = Unknown("")


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (
            [(LOST, KeyError("x"))],
            r"`ask` .* raised KeyError: 'x' \(raised in .*, line \d+\) when it was asked for get",
        ),
        ([(done(b""), None), (LOST, KeyError("x"))], "raised KeyError"),
        ([(LOST, Reply("loading"))], "raised Reply: loading"),
        ([(done(b""), None), (LOST, Reply("loading"))], None),
        ([(LOST, "no JSON")], "raised JSONDecodeError"),
        ([(Failed("no node"), None), (LOST, "no JSON")], None),
        ([(LOST, OSError("down"))], None),
        ([(LOST, KeyError("x")), (LOST, OSError("down"))], None),
        ([(LOST, KeyError("x")), (Failed("no leader"), None)], None),
        ([(LOST, None)], None),
    ],
)
def test_whether_only_the_backend_is_the_reason_that_a_node_does_not_serve(answers: Any, words: str | None) -> None:
    """An exception of its own or of a library may be what the system has answered, unless the client never answers."""
    found = ClientAnswers()
    for outcome, error in answers:
        found.add("get", outcome, None if error is None else raised(error))
    assert found.mistake is None if words is None else re.search(words, found.mistake or "")
    found.begin_look()
    assert found.mistake is None


def test_a_request_without_an_answer_is_no_mistake() -> None:
    found = ClientAnswers()
    found.add("get", LOST, raised(KeyError("x")))
    found.add_none()
    assert found.mistake is None


def test_a_node_that_accepts_no_clients(tmp_path: Path, port: int) -> None:
    nodes = cluster(tmp_path, 1)  # nobody listens there
    nodes.start_seconds = 0.0
    try:
        with pytest.raises(
            ClusterError, match=r"does not accept connections at its `client` address 127.0.0.1:1 (.|\n)*nothing"
        ):
            nodes.start(1)
    finally:
        nodes.close(ask=False)


class Slow(Mistaken):
    """Its node is ready when it is asked for the third time."""

    start_seconds = 20

    def __init__(self, *answers: bool | OSError) -> None:
        super().__init__(received={})
        self._answers = [*answers]

    def ready(self, place: Place) -> bool:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, OSError):
            raise answer
        return answer


def test_a_node_has_started_when_it_is_ready(tmp_path: Path, port: int) -> None:
    nodes = cluster(tmp_path, port, Slow(False, OSError("refused"), True))
    assert nodes.start_seconds == 20
    try:
        nodes.start(1)
        assert nodes.status(1) is not None
    finally:
        nodes.close(ask=False)


def test_a_node_that_is_never_ready(tmp_path: Path, port: int) -> None:
    nodes = cluster(tmp_path, port, Slow(False))
    assert nodes.start_seconds == 20
    nodes.start_seconds = 0.1
    try:
        with pytest.raises(ClusterError, match="node 1 does not say that it is `ready` 0 s after its start"):
            nodes.start(1)
    finally:
        nodes.close(ask=False)


def test_a_node_that_goes_to_the_background(tmp_path: Path, port: int) -> None:
    nodes = cluster(tmp_path, port, command=[sys.executable, "-c", ""], received={})
    nodes.start(1)
    nodes.wait_exit(1, 20)
    (end,) = nodes.take_unexpected_ends()
    assert str(end) == (
        "node-1 ended by itself with exit code 0: it did not stay in the foreground until it was asked to end"
    )


def test_an_ensemble_that_does_not_form_says_what_each_node_answered(tmp_path: Path, port: int) -> None:
    nodes = cluster(tmp_path, 1, received={})  # nobody listens there
    deployment = SystemDeployment.__new__(SystemDeployment)
    deployment.cluster, deployment._backend = nodes, nodes._backend
    nodes._lives[1] = SimpleNamespace(alive=True, stopped=False, life=1)
    assert not deployment.formed()
    assert deployment.missing().startswith(
        "most nodes did not accept clients or answer `received`: node-1 (ConnectionRefusedError: "
    )
    answering = Place(node=1, listen="", client=f"127.0.0.1:{port}", address="", peers={}, data=tmp_path)
    nodes.places = {1: answering}
    assert not deployment.formed()
    assert deployment.missing() == "`leader` named no node"
