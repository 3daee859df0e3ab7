"""The client of the load: which server its answers are from, its sessions, and the numbers of its requests."""

from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.client import KazooState
from kazoo.protocol.states import KeeperState

from zab_chaos.harness.backends.zookeeper.client import KazooConnection, ZooKeeperClient, new_kazoo
from zab_chaos.harness.backends.zookeeper.connection import CheckedConnection
from zab_chaos.node.clients.protocol import Requests, encode
from zab_chaos.node.tree.requests import Set

ADDRESSES = {1: "127.0.0.1:2181", 2: "127.0.0.1:2182"}


class Connected:
    """A fake of kazoo that is connected to a server."""

    def __init__(self, port: int) -> None:
        self._connection = SimpleNamespace(_socket=self)
        self.port = port
        self.dropped = 0

    def getpeername(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    def shutdown(self, _how: int) -> None:
        self.dropped += 1


def test_only_the_server_that_was_dialled_says_welcome() -> None:
    """kazoo may still be connected to the one before, whose answers must not be taken for this one's."""
    for port, welcome in ((2182, True), (2181, False)):
        kazoo = Connected(port)
        connection = KazooConnection(kazoo, ADDRESSES[2], lambda: None)
        assert connection.established() is welcome
        assert (len(connection.receive()), kazoo.dropped) == ((1, 0) if welcome else (0, 1))
        connection.lost("gone")
        assert (connection.broken() is not None) is welcome


def test_a_client_remembers_every_session_that_it_has_had() -> None:
    client = ZooKeeperClient(ADDRESSES, 1)
    connection: Any = SimpleNamespace(established=lambda: True, lost=lambda _why: None)
    client._current = connection
    for state, session in (
        (KazooState.CONNECTED, 7),
        (KazooState.SUSPENDED, 7),
        (KazooState.CONNECTED, 7),
        (KazooState.LOST, 7),
        (KazooState.CONNECTED, 9),
    ):
        client._kazoo._session_id = session
        client._state_changed(state)
    client._current = None
    client.close()
    assert client.sessions == [7, 9]


def test_no_two_requests_of_a_client_have_one_number() -> None:
    connection: Any = object.__new__(CheckedConnection)
    given = []
    for begin in (True, False, False, True, False):
        if begin:
            connection._xid = 0  # as kazoo does for each connection
        connection._xid = (connection._xid % (1 << 31)) + 1
        given.append(connection._xid)
    assert given == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("port", [2181, 2182])
def test_a_connection_that_was_never_there_is_not_lost(port: int) -> None:
    connection = KazooConnection(Connected(port), ADDRESSES[1], lambda: None)
    connection.lost("gone")
    assert connection.broken() is None


def test_requests_that_kazoo_does_not_take_are_refused_and_never_waited_for() -> None:
    """Its thread is blocked while it writes to a server that is paused. All clients are driven by one thread."""
    kazoo = new_kazoo(ADDRESSES[1], 6.0)
    read_end, kazoo._connection._write_sock = kazoo.handler.create_socket_pair()
    kazoo._state = KeeperState.CONNECTED
    connection = KazooConnection(kazoo, ADDRESSES[1], lambda: None)
    accepted: list[bool] = []

    def submit() -> None:
        for _ in range(2):
            accepted.append(connection.send(encode(Requests([(seq, Set("/a", b"x")) for seq in range(500)]))))

    thread = Thread(target=submit, daemon=True)
    thread.start()
    thread.join(20)
    assert accepted == [True, False]
    for _ in range(500):  # as kazoo does for each request
        read_end.recv(1)
    with pytest.raises(BlockingIOError):
        read_end.recv(1)
    kazoo._connection._write_sock.close()
