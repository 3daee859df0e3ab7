"""Links over connections that are cut, swallow bytes, and come back: nothing is ever lost from the middle."""

import contextlib
import itertools
import random
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zmq

from zab_chaos.node.channel.runs import ChannelRun
from zab_chaos.node.events import LinkDown, LinkUp, Received


class Relay:
    """A TCP relay on a free port. `swallow`: bytes are dropped and the connection stays; `cut`: it is closed."""

    def __init__(self, upstream: int) -> None:
        self.swallow = False
        self._upstream = upstream
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pipes: dict[socket.socket, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._cut, self._done, self._stop = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def cut(self) -> None:
        """Close every connection before returning."""
        self._done.clear()
        self._cut.set()
        assert self._done.wait(30), "the relay's thread is gone"

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._cut.is_set():
                self._cut.clear()
                for end in list(self._pipes):
                    self._drop(end)
                self._done.set()
            for key, _ in self._selector.select(0.005):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj in self._pipes:
                    self._pump(key.fileobj)  # type: ignore[arg-type]
        for end in list(self._pipes):
            self._drop(end)
        self._selector.close()
        self._listener.close()

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection(("127.0.0.1", self._upstream))
        except OSError:
            near.close()
            return
        for end, other in ((near, far), (far, near)):
            self._pipes[end] = other
            self._selector.register(end, selectors.EVENT_READ)

    def _pump(self, end: socket.socket) -> None:
        with contextlib.suppress(OSError):
            data = end.recv(65536)
            if data:
                if not self.swallow:
                    self._pipes[end].sendall(data)
                return
        self._drop(end)

    def _drop(self, end: socket.socket) -> None:
        other = self._pipes.pop(end, None)
        if other is not None:
            self._selector.unregister(end)
            end.close()
            self._drop(other)


@pytest.fixture
def relayed(net: Any) -> Iterator[tuple[Relay, Relay]]:
    """Nodes 1 and 2 with an open session, through a relay in each direction."""
    there, back = Relay(net.ports[2]), Relay(net.ports[1])
    try:
        net.start(1, {2: there.port})
        net.start(2, {1: back.port})
        net.until(lambda: net.up(1, 2) and net.up(2, 1))
        yield there, back
    finally:
        there.stop()
        back.stop()


def runs_are_sound(runs: list[ChannelRun]) -> None:
    """Assert prefix and single iteration: each session has one run, which begins at 0, and sessions only grow."""
    assert all(run.first == 0 for run in runs)
    sessions = [run.session for run in runs]
    assert sessions == sorted(set(sessions))
    assert not [run for run in runs if run.ended in ("gap", "session")]


CUTS = 10


def test_a_link_through_relays_that_flap_stays_sound(net: Any, relayed: tuple[Relay, Relay]) -> None:
    """Each cut waits until frames are being received in a session; otherwise it would test nothing."""
    rng = random.Random(3)
    numbers = itertools.count()
    one, two = net.links[1], net.links[2]

    def talk() -> None:
        number = next(numbers)
        one.send(2, [number, "x" * rng.randrange(3000)])
        two.send(1, [number])
        if number % 10 == 0:
            net.round()

    def until(both: Callable[[int], bool]) -> None:
        """Talk on until it holds for both nodes."""
        net.until(lambda: talk() or (both(1) and both(2)))  # type: ignore[func-returns-value]

    def taken_in_this_session(me: int) -> bool:
        events = [event for event in net.told[me] if isinstance(event, LinkUp | LinkDown | Received)]
        return bool(events) and isinstance(events[-1], Received)

    for _ in range(CUTS):
        for _ in range(40):
            talk()
        until(taken_in_this_session)
        before = {me: len(net.of(me, LinkDown)) for me in (1, 2)}
        rng.choice(relayed).cut()
        until(lambda me, before=before: len(net.of(me, LinkDown)) > before[me])  # type: ignore[misc]
    until(taken_in_this_session)
    net.stop(1)
    net.stop(2)
    for me, links in ((1, one), (2, two)):
        runs = links.runs.fetch()
        runs_are_sound(runs)
        assert len(runs) > CUTS
        got = [m for m in net.messages(me, 3 - me) if isinstance(m, int)]
        assert got == sorted(set(got))


def test_swallowed_bytes_lose_only_a_suffix(net: Any, relayed: tuple[Relay, Relay]) -> None:
    """Bytes are swallowed in one direction while the connection stays, as with a toxic; only numbers reveal it."""
    there, _ = relayed
    one = net.links[1]
    one.send(2, [0])
    net.until(lambda: net.messages(2, 1) == [0])
    there.swallow = True
    for i in range(1, 20):
        one.send(2, [i])
    net.links[2].send(1, ["the other way"])
    net.until(lambda: bool(net.messages(1, 2)))
    assert net.up(1, 2)  # a link does not react to silence
    there.swallow = False
    one.reset(2, "the core heard nothing")
    net.until(lambda: bool(net.of(2, LinkDown)) and net.up(1, 2) and net.up(2, 1) and not one.pending)
    net.until(lambda: one.send(2, ["after"]) or "after" in net.messages(2, 1))
    got = net.messages(2, 1)
    numbers = got[: got.index("after")]
    assert numbers == list(range(len(numbers)))


def test_a_connection_that_is_back_before_the_node_looks_ends_its_session(
    net: Any, relayed: tuple[Relay, Relay]
) -> None:
    """What was queued for the former connection is lost, and nobody need send anything that would show the gap."""
    there, _ = relayed
    monitor = net.links[1]._pipes[2].monitor
    monitor.read()
    events: list[int] = []
    there.cut()
    while zmq.EVENT_HANDSHAKE_SUCCEEDED not in events:
        assert monitor.socket.poll(30_000)
        events += monitor.read()
    assert zmq.EVENT_DISCONNECTED in events
    monitor.read = lambda: [events.pop(0) for _ in list(events)]
    net.until(lambda: bool(net.of(1, LinkDown)) and net.up(1, 2) and net.up(2, 1))
