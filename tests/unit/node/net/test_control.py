"""The control port: answers, errors in words, refusals, and that no answer is taken for the answer to another request."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from zab_chaos.harness.machine.ports import free_ports, release_ports
from zab_chaos.node.events import Refused
from zab_chaos.node.net import keys
from zab_chaos.node.net.address import AddressError, AddressInUse
from zab_chaos.node.net.control import ControlClient, ControlError, ControlPort, ControlTimeout

Handler = Callable[[str, dict[str, Any]], dict[str, Any]]
LONG = 1e6  # seconds: a call that waits this out is ended by the time limit of its test


class Served:
    """A control port in a thread of its own, served as a node does, until `stop`."""

    def __init__(self, folder: Path) -> None:
        self.context: zmq.Context[Any] = zmq.Context()
        self.keys = keys.create(folder / "secret")
        (self.number,) = free_ports(1)
        self.address = f"127.0.0.1:{self.number}"
        self.refused: list[Refused] = []
        self.client = ControlClient(self.address, self.keys)
        self.thread: threading.Thread | None = None

    def serve(self, handler: Handler) -> ControlPort:
        port = ControlPort(self.context, self.address, self.keys, handler)
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._loop, args=(port,))
        self.thread.start()
        return port

    def _loop(self, port: ControlPort) -> None:
        poller = zmq.Poller()
        port.register(poller)
        while not self.stopping.is_set():
            poller.poll(5)
            self.refused += port.serve()
        port.close()

    def stop(self) -> None:
        if self.thread is not None:
            self.stopping.set()
            self.thread.join()
            self.thread = None

    def dealer(self) -> zmq.Socket[Any]:
        """A client with the key that need not follow the protocol."""
        dealer = self.context.socket(zmq.DEALER)
        dealer.linger = 0
        self.keys.client(dealer)
        dealer.connect(f"tcp://{self.address}")
        return dealer


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path)
    yield served
    served.stop()
    served.client.close()
    served.context.destroy(linger=0)
    release_ports([served.number])


def echo(command: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if command == "fail":
        raise ControlError(f"cannot do {arguments['what']}")
    return {"command": command, **arguments}


def test_a_command_is_answered_with_its_arguments(served: Served) -> None:
    served.serve(echo)
    answer = served.client.call("status", 20.0, number=2**63, text="ä", nested={"frames": {1: 2}}, data=b"\x00")
    assert answer == {"command": "status", "number": 2**63, "text": "ä", "nested": {"frames": {1: 2}}, "data": b"\x00"}
    assert [served.client.call("x", 20.0, i=i)["i"] for i in range(50)] == list(range(50))


def test_an_error_keeps_its_words_and_the_port_goes_on(served: Served) -> None:
    served.serve(echo)
    with pytest.raises(ControlError, match="cannot do magic"):
        served.client.call("fail", 20.0, what="magic")
    assert served.client.call("again", 20.0) == {"command": "again"}


def test_an_absent_node_is_a_timeout_and_never_gets_the_command(served: Served) -> None:
    got: list[str] = []
    with pytest.raises(ControlTimeout, match=rf"{served.address} cannot be reached: crash was not sent"):
        served.client.call("crash", 0.05)
    served.serve(lambda command, _: got.append(command) or {})  # type: ignore[func-returns-value]
    served.client.call("status", 20.0)
    assert got == ["status"]


def test_a_node_that_dies_before_the_command_is_sent_is_a_timeout(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection was there when the client looked, and is gone when the client sends."""
    served.serve(echo)
    served.client.call("echo")
    poll = zmq.Socket.poll

    def poll_and_die(socket: Any, timeout: int, flags: int) -> int:
        found = poll(socket, timeout, flags)
        if flags == zmq.POLLOUT:
            served.stop()
            while poll(socket, 0, zmq.POLLOUT):
                pass
        return found

    monkeypatch.setattr(zmq.Socket, "poll", poll_and_die)
    with pytest.raises(ControlTimeout, match="echo was not sent"):
        served.client.call("echo")


def test_a_late_answer_is_not_taken_for_the_next_one_and_no_command_is_sent_twice(served: Served) -> None:
    may_go, got = threading.Event(), []

    def slow(command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        got.append(command)
        if command == "slow":
            assert may_go.wait(20)
        return {"command": command}

    served.serve(slow)
    served.client.call("connect", 20.0)
    with pytest.raises(ControlTimeout, match="did not answer slow within"):
        served.client.call("slow", 0.4)
    may_go.set()
    assert served.client.call("quick", 20.0) == {"command": "quick"}
    assert "quick" in got
    assert got.count("slow") <= 1


def test_an_answer_with_another_id_is_ignored(served: Served) -> None:
    """The node answers twice, first to an old request."""
    with served.context.socket(zmq.ROUTER) as router:
        served.keys.server(router)
        router.bind(f"tcp://{served.address}")

        def answer() -> None:
            who, request, _ = router.recv_multipart()
            router.send_multipart([who, b"\x00" * 8, msgspec.msgpack.encode({"ok": True, "which": "old"})])
            router.send_multipart([who, request, msgspec.msgpack.encode({"ok": True, "which": "mine"})])

        thread = threading.Thread(target=answer)
        thread.start()
        assert served.client.call("which", 20.0) == {"which": "mine"}
        thread.join()


def test_the_client_survives_the_nodes_restart(served: Served) -> None:
    served.serve(lambda *_: {"life": 1})
    assert served.client.call("life", 20.0) == {"life": 1}
    served.stop()
    served.context.term()
    served.context = zmq.Context()
    served.serve(lambda *_: {"life": 2})
    lives = set()
    while lives != {2}:
        try:
            lives = {served.client.call("life", 1.0)["life"]}
        except ControlTimeout:  # it was sent on the connection to the former life
            continue


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([b"only one"], "two parts"),
        ([b"id", b"\x80", b"three"], "two parts"),
        ([b"id", b""], "MessagePack map"),
        ([b"id", b"\xc1noise"], "MessagePack map"),
        ([b"id", msgspec.msgpack.encode([1, 2])], "MessagePack map"),
        ([b"id", msgspec.msgpack.encode({1: 2})], "MessagePack map"),
        ([b"id", msgspec.msgpack.encode({"comand": "status"})], 'a request has a "command"'),
        ([b"id", msgspec.msgpack.encode({"command": 7})], 'a request has a "command"'),
        ([b"id", b"\x91" * 100_000], "MessagePack map"),
    ],
)
def test_malformed_requests_are_refused_and_counted(served: Served, parts: list[bytes], why: str) -> None:
    port = served.serve(echo)
    with served.dealer() as dealer:
        dealer.send_multipart(parts)
        dealer.send_multipart([b"good", msgspec.msgpack.encode({"command": "status"})])
        answers = []
        while not answers or answers[-1][0] != b"good":
            assert dealer.poll(20_000)
            answers.append(dealer.recv_multipart())
    if len(parts) == 2:
        refusal = msgspec.msgpack.decode(answers[0][1])
        assert refusal["ok"] is False
        assert why in refusal["error"]
    served.stop()
    assert port.refused == 1
    (refused,) = served.refused
    assert (refused.what, refused.peer, refused.count) == ("request", None, 1)
    assert why in refused.why


def test_a_client_without_the_key_gets_no_answer(served: Served) -> None:
    got: list[str] = []
    served.serve(lambda command, _: got.append(command) or {})  # type: ignore[func-returns-value]
    stranger = ControlClient(served.address, keys.Keys(*zmq.curve_keypair()))
    with pytest.raises(ControlTimeout, match="cannot be reached"):
        stranger.call("stop", 0.2)
    stranger.close()
    served.client.call("status", 20.0)
    assert got == ["status"]


def test_an_unexpected_error_of_a_handler_propagates(served: Served) -> None:
    port = ControlPort(served.context, served.address, served.keys, lambda *_: {"x": 1 // 0})
    poller = zmq.Poller()
    port.register(poller)
    with served.dealer() as dealer:
        dealer.send_multipart([b"id", msgspec.msgpack.encode({"command": "bug"})])
        assert poller.poll(20_000)
        with pytest.raises(ZeroDivisionError):
            port.serve()
    port.close()


def test_an_unusable_address_raises_a_readable_error(served: Served) -> None:
    served.serve(echo)
    with pytest.raises(AddressInUse, match=f"cannot listen on {served.address} for control: another process"):
        ControlPort(served.context, served.address, served.keys, echo)
    for address in ("nonsense", "127.0.0.1:notaport", "203.0.113.7:9000"):
        with pytest.raises(AddressError, match=r"an address is host:port of this machine"):
            ControlPort(served.context, address, served.keys, echo)


def test_a_client_stops_waiting_for_an_answer_when_the_node_is_dead(served: Served) -> None:
    got = threading.Event()

    def hang(command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        got.set()
        served.stopping.wait()
        return {}

    served.serve(hang)
    with pytest.raises(ControlTimeout, match="ended or was paused before it answered die"):
        served.client.call("die", LONG, alive=lambda: not got.is_set())


def test_a_client_stops_waiting_for_a_connection_when_the_node_is_dead(served: Served) -> None:
    """The node has ended just before the command, and nobody listens at its port."""
    looks = iter([True, True, False])
    with pytest.raises(ControlTimeout, match=rf"{served.address} cannot be reached: disarm was not sent"):
        served.client.call("disarm", LONG, alive=lambda: next(looks))


def noting(commands: list[str]) -> Handler:
    """Return a handler that adds each command to the list."""

    def handler(command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        commands.append(command)
        return {}

    return handler


def test_an_enormous_request_only_ends_its_connection(served: Served) -> None:
    commands: list[str] = []
    served.serve(noting(commands))
    with served.dealer() as dealer:
        dealer.send_multipart([b"1", msgspec.msgpack.encode({"command": "large", "data": bytes(2**20)})])
        while not dealer.poll(20):
            dealer.send_multipart([b"2", msgspec.msgpack.encode({"command": "small"})])
        assert dealer.recv_multipart()[0] == b"2"
    assert set(commands) == {"small"}


def test_a_flood_of_requests_is_served_in_parts(served: Served) -> None:
    commands: list[str] = []
    port = ControlPort(served.context, served.address, served.keys, noting(commands))
    with served.dealer() as dealer:
        for _ in range(1000):
            dealer.send_multipart([b"1", msgspec.msgpack.encode({"command": "c"})])
        while len(commands) < 1000:
            before = len(commands)
            assert port.socket.poll(10_000)
            port.serve()
            assert len(commands) - before <= 64
    port.close()
