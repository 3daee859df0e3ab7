"""Sending a rule to a running server: the agent's answers, and what a missing answer means."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.harness.backends.zookeeper import points, releases

RULE = "RULE crash at before-sync TXN"


@contextmanager
def agent(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Run an agent that reads a command and then calls `answer`; yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                text = b""
                while not text.endswith(b"ENDLOAD\n"):
                    text += connection.recv(1 << 16)
                assert RULE.encode() in text
                answer(connection)

        thread = Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            thread.join()


def test_an_answer_may_come_late_and_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "POLL_SECONDS", 0.01)
    looked = Event()  # which it does only when no answer has come for a while

    def answer(connection: socket.socket) -> None:
        connection.sendall(b"install rule crash at before-sync TXN\n")
        assert looked.wait(60)
        connection.sendall(b"OK\n")

    def acted() -> bool:
        looked.set()
        return False

    with agent(answer) as port:
        points.submit(port, "LOAD", RULE, acted)


def test_a_server_that_stops_at_the_point_has_accepted_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "POLL_SECONDS", 0.01)
    with agent(lambda connection: connection.recv(1)) as port:  # until the caller has gone
        points.submit(port, "LOAD", RULE, lambda: True)


def test_a_server_that_ends_at_the_point_has_accepted_the_rule() -> None:
    looks = iter([False, False, True])  # its connections end before its process does
    with agent(lambda connection: None) as port:
        points.submit(port, "LOAD", RULE, lambda: next(looks))


def test_a_living_server_that_closes_the_connection_has_not_accepted_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "END_SECONDS", 0.05)
    with agent(lambda connection: None) as port, pytest.raises(ClusterError, match="does not accept the rule"):
        points.submit(port, "LOAD", RULE, lambda: False)


def test_a_refused_rule_is_an_error() -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(b"ERROR : no such class\nOK\n")

    with agent(answer) as port, pytest.raises(ClusterError, match="ERROR : no such class"):
        points.submit(port, "LOAD", RULE)


def test_waiting_for_an_answer_ends_after_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(points, "ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(points, "END_SECONDS", 0.05)
    with agent(lambda connection: connection.recv(1)) as port, pytest.raises(ClusterError, match="can't be reached"):
        points.submit(port, "LOAD", RULE)


@pytest.mark.parametrize("version", releases.known())
def test_a_point_is_in_one_method_of_a_release_and_those_of_writes_are_in_every_release(version: str) -> None:
    major, minor, patch = map(int, version.split("-")[0].split("."))
    found = {
        point: [it.method for it in locations if it.is_in((major, minor, patch))]
        for point, locations in points.LOCATIONS.items()
    }
    assert [point for point, methods in found.items() if len(methods) > 1] == []
    assert all(methods for point, methods in found.items() if "send" not in point)
    signature = "Request" if minor >= 9 else "TxnHeader,Record,TxnDigest" if minor >= 6 else "TxnHeader,Record"
    assert found["before-write:TXN"] == [f"append({signature})"]
