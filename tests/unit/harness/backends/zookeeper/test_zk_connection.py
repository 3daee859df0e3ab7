"""The check of answers on kazoo's connections."""

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import MarshallingError
from kazoo.protocol.connection import ConnectionDropped, ConnectionHandler
from kazoo.protocol.serialization import Connect, Delete, ReplyHeader

from zab_chaos.harness.backends.zookeeper.client import new_kazoo

Reported = list[tuple[str, int, str]]


def connected(*awaited: int) -> tuple[Any, Reported, list[Any]]:
    """Return a connection that waits for the answers to these requests, what it reports, and the results it passes on."""
    reported: Reported = []
    results: list[Any] = []
    kazoo = new_kazoo("127.0.0.1:2181", 6.0, lambda *wrong: reported.append(wrong))
    kazoo._session_id = 77
    kazoo._connection._socket = SimpleNamespace(getpeername=lambda: ("127.0.0.1", 2181))
    result = SimpleNamespace(set=results.append, set_exception=results.append)
    kazoo._pending = deque((Delete("/a", -1), result, number) for number in awaited)
    return kazoo._connection, reported, results


def test_answers_in_the_order_of_their_requests_are_right() -> None:
    connection, reported, results = connected(7, 8)
    connection._read_response(ReplyHeader(7, 1, 0), b"", 0)
    connection._read_response(ReplyHeader(8, 1, -101), b"", 0)  # no node
    assert (len(results), reported) == (2, [])


@pytest.mark.parametrize(("awaited", "named"), [((7, 8), "request 7"), ((), "none")])
def test_an_answer_to_another_request_is_reported_and_ends_the_connection(awaited: tuple[int, ...], named: str) -> None:
    connection, reported, results = connected(*awaited)
    with pytest.raises(ConnectionDropped):
        connection._read_response(ReplyHeader(8, 1, 0), b"", 0)
    wrong = f"the answer to request 8, and {named} was to be answered next"
    assert (reported, results) == ([("127.0.0.1:2181", 77, wrong)], [])


def test_the_timeout_of_a_session_is_what_the_server_says(monkeypatch: pytest.MonkeyPatch) -> None:
    connection, _, _ = connected()
    answer = SimpleNamespace(time_out=20_000), 0
    monkeypatch.setattr(ConnectionHandler, "_invoke", lambda *_: answer)
    assert connection._invoke(1.0, Connect(0, 0, 2000, 0, b"", False)) == answer
    assert connection.session_timeout == 20_000


def test_an_error_with_which_the_server_says_that_it_has_failed_is_reported() -> None:
    connection, reported, results = connected(7)
    connection._read_response(ReplyHeader(7, 1, MarshallingError.code), b"", 0)
    assert reported == [("127.0.0.1:2181", 77, "a MarshallingError for request 7")]
    assert [type(result) for result in results] == [MarshallingError]
