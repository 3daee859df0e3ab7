"""A run's three keys at the sockets of one real server: each opens the port of its purpose and no other."""

import json
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from zmq.utils.monitor import recv_monitor_message

from tests.unit.node.net.conftest import send_unless_turned_away
from zab_chaos.harness.machine.ports import free_ports, release_ports
from zab_chaos.node.__main__ import build_server
from zab_chaos.node.channel import frame
from zab_chaos.node.channel.header import FrameHeader, FrameKind
from zab_chaos.node.config import NodeConfig
from zab_chaos.node.net import keys
from zab_chaos.node.net.keys import KeyFiles, Keys
from zab_chaos.node.server import Server
from zab_chaos.node.trace import Trace

PATIENCE = 3000  # rounds of 10 ms; only a failing test needs all of them
OPENED = zmq.EVENT_HANDSHAKE_SUCCEEDED
CLOSED = zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL


class Node:
    """Node 1 of three, alone, driven in rounds; and sockets that connect to its ports."""

    def __init__(self, folder: Path) -> None:
        (folder / "config").mkdir()
        self.files: KeyFiles = keys.create_files(folder / "config")
        self.ports = free_ports(5)
        listen, control, client, *peers = (f"127.0.0.1:{port}" for port in self.ports)
        self.addresses = KeyFiles(listen, control, client)  # type: ignore[arg-type]
        self.config = NodeConfig(
            id=1, cluster="test", listen=listen, control=control, client=client, peers=dict(zip((2, 3), peers, strict=True)),
            link_keys=str(self.files.links), control_keys=str(self.files.control), client_keys=str(self.files.clients),
            data=str(folder / "data"), trace=str(folder / "trace"),
        )  # fmt: skip
        (folder / "trace").mkdir()
        self.trace = Trace(self.config.trace, 1, 1)
        self.server: Server = build_server(self.config, Namespace(life=1, bootstrap=True, crash_at=None), self.trace)
        self.context: zmq.Context[Any] = zmq.Context()
        for _ in self.server.replica.start(self.server.clock.now_ns()):
            pass

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(PATIENCE):
            if condition():
                return
            self.server.round({source for source, _ in self.server.poller.poll(10)})
        raise AssertionError(f"not reached; refused so far: {self.refused()}")

    def call(self, purpose: str, kind: int, pair: Keys) -> zmq.Socket[Any]:
        """Connect a monitored socket to the port of this purpose."""
        socket: zmq.Socket[Any] = self.context.socket(kind)
        socket.linger = 0
        pair.client(socket)
        self.monitor = socket.get_monitor_socket(OPENED | CLOSED)
        socket.connect(f"tcp://{getattr(self.addresses, purpose)}")
        return socket

    def lets_in(self, purpose: str, pair: Keys) -> bool:
        """Return whether the handshake at this port succeeds."""
        with self.call(purpose, zmq.PUSH if purpose == "links" else zmq.DEALER, pair) as socket:
            self.until(lambda: bool(self.monitor.poll(0)))
            event = int(recv_monitor_message(self.monitor)["event"])
            socket.disable_monitor()
            self.monitor.close()
        return event == OPENED

    def refused(self) -> list[dict[str, Any]]:
        lines = Path(self.config.trace, "node-1-1.jsonl").read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["event"] == "refused"]

    def close(self) -> None:
        self.server.close()
        self.trace.close()
        self.context.destroy(linger=0)
        release_ports(self.ports)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.close()


WORDS = {"links": "key for links", "control": "key for control ports", "clients": "key for clients"}


@pytest.mark.parametrize("purpose", KeyFiles._fields)
def test_a_key_opens_only_its_port_and_other_handshakes_are_traced(node: Node, purpose: str) -> None:
    for held in KeyFiles._fields:
        assert node.lets_in(purpose, keys.load(getattr(node.files, held))) is (held == purpose), held
    node.until(lambda: sum(line["count"] for line in node.refused()) >= 2)
    assert {line["what"] for line in node.refused()} == {"stranger"}
    assert all(line["why"].endswith(WORDS[purpose]) for line in node.refused())


def test_frames_sent_with_the_clients_key_do_not_arrive(node: Node) -> None:
    forged = FrameHeader(frame.cluster_hash("test"), FrameKind.HELLO, 2, 1, 2**62, 0, 1, 0)
    with node.call("links", zmq.PUSH, keys.load(node.files.clients)) as socket:
        send_unless_turned_away(socket, frame.pack(forged, []))
        node.until(lambda: bool(node.refused()))
        assert node.server.links.channels.frames == {2: 0, 3: 0}
        socket.disable_monitor()
        node.monitor.close()
    with node.call("links", zmq.PUSH, keys.load(node.files.links)) as socket:  # as the test would see them otherwise
        socket.send(frame.pack(forged, []))
        node.until(lambda: node.server.links.channels.frames[2] == 1)
        socket.disable_monitor()
        node.monitor.close()


def test_a_malformed_request_is_traced(node: Node) -> None:
    with node.call("control", zmq.DEALER, keys.load(node.files.control)) as socket:
        socket.send_multipart([b"1", b"no map"])
        node.until(lambda: bool(node.refused()))
        socket.disable_monitor()
        node.monitor.close()
    (line,) = node.refused()
    assert (line["what"], line["count"]) == ("request", 1)
    assert "a request is a MessagePack map" in line["why"]


def test_a_crash_point_waits_for_every_peer_and_client(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int | str] = []
    monkeypatch.setattr(node.server.links, "drain", lambda peer, seconds: waited.append(peer))
    monkeypatch.setattr(node.server.clients, "drain", lambda seconds: waited.append("clients"))
    node.server.replica.crash.settle()
    assert waited == [2, 3, "clients"]
