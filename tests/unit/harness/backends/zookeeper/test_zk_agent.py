"""A rule for a server that is there: what its agent answers, and what it means that it does not."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.harness.backends.zookeeper import points

RULE = "RULE crash at before-sync TXN"


@contextmanager
def agent(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of one that reads what it is sent, up to the end of the command, and then answers like this."""
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


def test_an_answer_may_come_in_parts_and_late(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_server_that_has_stopped_at_the_point_has_taken_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "POLL_SECONDS", 0.01)
    with agent(lambda connection: connection.recv(1)) as port:  # until the caller has gone
        points.submit(port, "LOAD", RULE, lambda: True)


def test_a_server_that_has_ended_at_the_point_has_taken_the_rule() -> None:
    looks = iter([False, False, True])  # its connections end before its process does
    with agent(lambda connection: None) as port:
        points.submit(port, "LOAD", RULE, lambda: next(looks))


def test_one_that_is_there_and_hangs_up_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "END_SECONDS", 0.05)
    with agent(lambda connection: None) as port, pytest.raises(ClusterError, match="does not accept the rule"):
        points.submit(port, "LOAD", RULE, lambda: False)


def test_what_the_agent_refuses_is_told() -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(b"ERROR : no such class\nOK\n")

    with agent(answer) as port, pytest.raises(ClusterError, match="ERROR : no such class"):
        points.submit(port, "LOAD", RULE)


def test_one_that_never_answers_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(points, "ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(points, "END_SECONDS", 0.05)
    with agent(lambda connection: connection.recv(1)) as port, pytest.raises(ClusterError, match="can't be reached"):
        points.submit(port, "LOAD", RULE)
