"""The outgoing connection of a node."""

import contextlib
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import zmq

from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.node.net import keys, pipe
from zab_chaos.node.net.monitor import Monitor
from zab_chaos.node.net.pipe import ZmqPipe

PATIENCE_S = 30


@pytest.fixture
def deaf() -> Iterator[int]:
    """A port whose kernel drops every connection attempt: its queue is full, and nothing accepts from it."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        while True:
            caller = stack.enter_context(socket.socket())
            caller.settimeout(0.2)
            try:
                caller.connect(("127.0.0.1", port))
            except TimeoutError:
                caller.close()
                break
        yield port


def callers(port: int) -> set[int]:
    """Return the ports from which this process is connecting to `port` now, without an answer so far."""
    found = psutil.Process().net_connections("tcp4")
    return {one.laddr.port for one in found if one.status == psutil.CONN_SYN_SENT and one.raddr[1:] == (port,)}


def test_an_unanswered_connection_attempt_is_repeated(deaf: int, tmp_path: Path) -> None:
    """A node that comes back is connected at once, not when the kernel's next retry of an old attempt is due.

    Seen with an unplugged cable: the attempt used another network and was repeated at intervals of up to a minute from that
    network's address, long after the cable was plugged in again.
    """
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    dial = ZmqPipe(context, zmq.Poller(), f"127.0.0.1:{deaf}", keys.create(tmp_path / "links.json"), 10, immediate=True)
    try:
        seen: set[int] = set()

        def two() -> bool:
            seen.update(callers(deaf))
            return len(seen) >= 2

        assert wait_until(two, PATIENCE_S, step=0.05)
    finally:
        dial.close()
        context.destroy(linger=0)


def test_an_unanswered_handshake_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link whose handshake was swallowed is used at once when it is healed. ZeroMQ itself would wait for 30 s."""
    monkeypatch.setattr(pipe, "_HANDSHAKE_MS", 100)
    pair = keys.create(tmp_path / "links.json")
    with zmq.Context() as context, socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(10)
        dial = ZmqPipe(context, zmq.Poller(), f"127.0.0.1:{silent.getsockname()[1]}", pair, 10, immediate=True)
        with contextlib.ExitStack() as stack:
            stack.callback(dial.close)
            for _ in range(2):
                stack.enter_context(silent.accept()[0])


def test_the_pauses_between_connection_attempts_stay_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link is used soon after it is healed, however long it was broken. ZeroMQ itself tells how long it will wait."""
    pauses: list[int] = []

    class Pauses(Monitor):
        def _receive(self) -> int:
            event, _ = self.socket.recv_multipart()
            pauses.append(int.from_bytes(event[2:], sys.byteorder))
            return 0

    monkeypatch.setattr(pipe, "Monitor", lambda context, socket, _: Pauses(context, socket, zmq.EVENT_CONNECT_RETRIED))
    with zmq.Context() as context, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        dial = ZmqPipe(context, zmq.Poller(), address, keys.create(tmp_path / "links.json"), 10, immediate=True)
        with contextlib.closing(dial):
            while len(pauses) < 7:
                assert dial.monitor.socket.poll(1000 * PATIENCE_S)
                dial.monitor.read()
    assert max(pauses) <= 250, pauses
    assert max(pauses) >= 150, "the pauses have not grown, so their limit was not reached"
