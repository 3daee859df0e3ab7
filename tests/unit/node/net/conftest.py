"""Real links on real sockets for the tests of this folder, and a fake peer that can send anything."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from zab_chaos.harness.machine.ports import free_ports, release_ports
from zab_chaos.node.channel import frame
from zab_chaos.node.channel.channels import ChannelSet
from zab_chaos.node.channel.header import FrameHeader, FrameKind
from zab_chaos.node.config import Limits
from zab_chaos.node.events import LinkDown, LinkUp, Received, Refused
from zab_chaos.node.net import keys
from zab_chaos.node.net.link import Links

PATIENCE_S = 30  # only a failing test waits that long


def send_unless_turned_away(socket: zmq.Socket[Any], data: bytes) -> None:
    """Send unless the handshake has failed: such a socket has no connection and would block for ever."""
    with suppress(zmq.Again):
        socket.send(data, zmq.NOBLOCK)


class FakePeer:
    """Holds the run's key and sends valid or invalid frames to a node's port."""

    def __init__(self, context: zmq.Context[Any], me: int, port: int, target: int, pair: keys.Keys) -> None:
        self.me, self.incarnation, self.session = me, 1, 1
        self.inbox, self.out = context.socket(zmq.PULL), context.socket(zmq.PUSH)
        pair.server(self.inbox)
        pair.client(self.out)
        self.out.linger = self.inbox.linger = 0
        self.inbox.bind(f"tcp://127.0.0.1:{port}")
        self.out.connect(f"tcp://127.0.0.1:{target}")

    def header(self, kind: FrameKind, sequence: int = 0, **other: int) -> FrameHeader:
        fields = {
            "cluster": frame.cluster_hash("test"),
            "kind": kind,
            "sender": self.me,
            "receiver": 1,
            "incarnation": self.incarnation,
            "to": 1,
            "session": self.session,
            "sequence": sequence,
        }
        return FrameHeader(**(fields | other))

    def say(self, sequence: int, *messages: Any, **other: int) -> None:
        self.out.send(frame.pack(self.header(FrameKind.MESSAGES, sequence, **other), list(messages)))

    def welcome(self, **other: int) -> None:
        self.out.send(frame.pack(self.header(FrameKind.WELCOME, **other), []))

    def heard(self) -> list[tuple[FrameHeader, list[Any]]]:
        """Return everything that has arrived so far."""
        got = []
        while self.inbox.poll(0):
            data = self.inbox.recv()
            header = frame.parse(data, frame.cluster_hash("test"), self.me, 2**30)
            got.append((header, frame.messages(data, header, msgspec.msgpack.Decoder(list[Any]))))
        return got

    def close(self) -> None:
        self.inbox.close()
        self.out.close()


class Driven(Links):
    """Links with the methods of their channels."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.channels, name)


class Net:
    """A few nodes, driven as the server's loop drives them. `told` has the events of each."""

    def __init__(self, folder: Path) -> None:
        self.context: zmq.Context[Any] = zmq.Context()
        self.keys = keys.create(folder / "secret")
        self.ports = dict(zip(range(1, 5), free_ports(4), strict=True))
        self.links: dict[int, Driven] = {}
        self.fakes: list[FakePeer] = []
        self.pollers: dict[int, zmq.Poller] = {}
        self.told: dict[int, list[Any]] = {}

    def start(
        self, me: int, peers: dict[int, int], *, kind: type[ChannelSet] = ChannelSet, life: int = 1, **limits: int
    ) -> Driven:
        """Start node `me`; `peers` says to which port it connects for each peer."""
        self.pollers[me] = zmq.Poller()
        self.links[me] = Driven(
            self.context,
            self.pollers[me],
            kind,
            me=me,
            cluster="test",
            incarnation=life,
            listen=f"127.0.0.1:{self.ports[me]}",
            peers={peer: f"127.0.0.1:{port}" for peer, port in peers.items()},
            keys=self.keys,
            limits=Limits(**limits),
            heartbeat_ms=20,
            decoder=msgspec.msgpack.Decoder(list[int | str]),
        )
        self.told.setdefault(me, [])
        return self.links[me]

    def pair(self, **limits: int) -> tuple[Driven, Driven]:
        """Start nodes 1 and 2, and wait until they have a session."""
        one, two = self.start(1, {2: self.ports[2]}, **limits), self.start(2, {1: self.ports[1]}, **limits)
        self.until(lambda: self.up(1, 2) and self.up(2, 1))
        return one, two

    def fake(self, target: int = 1, me: int = 2) -> FakePeer:
        self.fakes.append(FakePeer(self.context, me, self.ports[me], self.ports[target], self.keys))
        return self.fakes[-1]

    def stop(self, me: int) -> None:
        del self.pollers[me]
        self.links.pop(me).close()

    def round(self) -> None:
        for me, links in list(self.links.items()):
            self.pollers[me].poll(0 if links.pending else 2)
            if me in self.links:
                self.told[me] += links.receive(100)
                links.tick(time.monotonic_ns())

    def until(self, condition: Callable[[], bool]) -> None:
        give_up = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < give_up, f"not reached; told so far: {self.told}"
            self.round()

    def of(self, me: int, kind: type) -> list[Any]:
        return [event for event in self.told[me] if isinstance(event, kind)]

    def messages(self, me: int, peer: int) -> list[Any]:
        return [message for event in self.of(me, Received) if event.peer == peer for message in event.messages]

    def up(self, me: int, peer: int) -> bool:
        states = [event for event in self.told[me] if isinstance(event, LinkUp | LinkDown) and event.peer == peer]
        return bool(states) and isinstance(states[-1], LinkUp)

    def refused(self, me: int) -> list[Refused]:
        return self.of(me, Refused)

    def close(self) -> None:
        for me in list(self.links):
            self.stop(me)
        for fake in self.fakes:
            fake.close()
        self.context.destroy(linger=0)  # a test that failed may have left sockets
        release_ports(list(self.ports.values()))


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Net]:
    net = Net(tmp_path)
    yield net
    net.close()
