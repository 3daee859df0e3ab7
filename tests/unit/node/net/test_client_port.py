"""The client port against raw sockets: any input becomes an event or a counted refusal, never a crash."""

import itertools
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import zmq

from zab_chaos.node.clients import connections
from zab_chaos.node.clients.connections import FRAME_HARD, TICK_NS, frame_limit
from zab_chaos.node.clients.protocol import (
    VERSION,
    Answers,
    Bye,
    FromNode,
    Hello,
    Rejected,
    Requests,
    Welcome,
    decode_from_node,
    encode,
)
from zab_chaos.node.config import Limits
from zab_chaos.node.core.zxid import ZERO, Zxid
from zab_chaos.node.events import ClientEvent, ClientGone, ClientRequests, ClientUp, Refused
from zab_chaos.node.net import clients
from zab_chaos.node.net.address import AddressInUse
from zab_chaos.node.net.clients import ClientPort
from zab_chaos.node.net.keys import Keys
from zab_chaos.node.tree.outcomes import Ok
from zab_chaos.node.tree.requests import Get, Set

KEYS = Keys(*zmq.curve_keypair())
LIMITS = Limits(request_bytes=1000, queue_frames=50)


@pytest.fixture
def context() -> Iterator[zmq.Context[Any]]:
    context: zmq.Context[Any] = zmq.Context()
    yield context
    context.term()


@pytest.fixture
def port(context: zmq.Context[Any]) -> Iterator[ClientPort]:
    port = ClientPort(context, "127.0.0.1:0", KEYS, LIMITS)
    yield port
    port.close()


@pytest.fixture
def dial(context: zmq.Context[Any], port: ClientPort) -> Iterator[Callable[[], zmq.Socket[Any]]]:
    dealers: list[zmq.Socket[Any]] = []

    def dial() -> zmq.Socket[Any]:
        dealer: zmq.Socket[Any] = context.socket(zmq.DEALER)
        dealers.append(dealer)
        dealer.setsockopt(zmq.RCVTIMEO, 10_000)
        KEYS.client(dealer)
        dealer.connect(f"tcp://{port.address}")
        return dealer

    yield dial
    for dealer in dealers:
        dealer.close(0)


ZmqPipe = Callable[[], zmq.Socket[Any]]


def events(port: ClientPort, count: int) -> list[ClientEvent]:
    """Return the next `count` events."""
    got: list[ClientEvent] = []
    while len(got) < count:
        assert port.socket.poll(10_000) or got, got
        got += port.receive()
    return got


def heard(dealer: zmq.Socket[Any]) -> FromNode:
    return decode_from_node(dealer.recv())


def greet(port: ClientPort, dealer: zmq.Socket[Any], client: int = 1) -> None:
    dealer.send(encode(Hello(VERSION, client, ZERO)))
    assert events(port, 1) == [ClientUp(client, ZERO)]
    assert heard(dealer) == Welcome()


def test_hello_requests_answers_bye(port: ClientPort, dial: ZmqPipe) -> None:
    dealer = dial()
    dealer.send(encode(Hello(VERSION, 2**64 - 1, Zxid(5))))
    assert events(port, 1) == [ClientUp(2**64 - 1, Zxid(5))]
    assert heard(dealer) == Welcome()
    dealer.send(encode(Requests([(1, Set("/a", b"x")), (2, Get("/a"))])))
    assert events(port, 1) == [ClientRequests(2**64 - 1, [(1, Set("/a", b"x")), (2, Get("/a"))])]
    port.connections.send(2**64 - 1, [(1, Ok(Zxid(6), 1))])
    assert heard(dealer) == Answers([(1, Ok(Zxid(6), 1))])
    dealer.send(encode(Bye()))
    assert events(port, 1) == [ClientGone(2**64 - 1, "it said BYE")]


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ([b""], "malformed"),
        ([b"\xc1"], "malformed"),
        ([b"\x91" * 3000], "malformed"),
        ([encode(["REQUESTS", [[1, ["set", "/a", "text, not bytes"]]]])], "malformed"),
        ([encode(["REQUESTS", [[-1.5, ["get", "/a"]]]])], "malformed"),
        ([encode(["REQUESTS", [[1, ["steal", "/a"]]]])], "malformed"),
        ([encode(["REQUESTS", [[-1, ["get", "/a"]]]])], "malformed"),
        ([encode(["HELLO", VERSION, -1, 0, 0])], "malformed"),
        ([encode(["HELLO", VERSION, 1, 0, -1])], "malformed"),
        ([encode(["REQUESTS", [[1, ["get", "/a"]]], "more"])], "malformed"),
        ([b"\x93\xa5HELLO\x01\xa2\xff\xfe"], "malformed"),
        ([bytes(266_145)], "at most 266144"),
        ([encode(Bye()), b"x"], "2 parts"),
        ([encode(Hello(VERSION + 1, 7, ZERO))], "version"),
        ([encode(["HELLO", VERSION + 1, 7, 0, 0, "a new field"])], "version"),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_bad_input_is_counted_and_rejected(
    port: ClientPort, dial: ZmqPipe, frames: list[bytes], words: str, known: bool
) -> None:
    dealer = dial()
    if known:
        greet(port, dealer)
    dealer.send_multipart(frames)
    got = events(port, 2 if known else 1)
    assert isinstance(got[0], Refused)
    assert (got[0].what, got[0].count) == ("client", 1)
    assert words in got[0].why
    told = heard(dealer)
    assert told == Rejected(got[0].why)
    if known:
        assert got[1] == ClientGone(1, got[0].why)
    greet(port, dealer)  # it may begin again


def test_requests_before_hello_are_refused(port: ClientPort, dial: ZmqPipe) -> None:
    dealer = dial()
    dealer.send(encode(Requests([(1, Get("/a"))])))
    assert isinstance(events(port, 1)[0], Refused)
    assert "before HELLO" in getattr(heard(dealer), "why", "")


def test_a_flood_of_refusals_is_counted_not_reported_one_by_one(port: ClientPort, dial: ZmqPipe) -> None:
    dealer = dial()
    for _ in range(50):
        dealer.send(b"")
        heard_of = None
        while heard_of is None:
            reports = port.receive()
            heard_of = dealer.recv() if dealer.poll(1) else None
            assert len(reports) <= 1
    port.tick(10**18)
    (rest,) = port.receive()
    assert isinstance(rest, Refused)
    assert rest.count == 49


def test_no_bytes_crash_the_port(port: ClientPort, dial: ZmqPipe) -> None:
    """Every one-byte change of a valid message is accepted as some message or refused."""
    good = encode(Requests([(1, Set("/a", b"x", 3))]))
    for place in range(len(good)):
        for flip in (0x01, 0x80, 0xFF):
            dealer = dial()
            dealer.send(good[:place] + bytes([good[place] ^ flip]) + good[place + 1 :])
            while not dealer.poll(1):
                port.receive()
            assert isinstance(heard(dealer), Rejected)  # it never said HELLO
            dealer.close(0)


def test_a_lost_client_is_noticed_when_it_is_answered(port: ClientPort, dial: ZmqPipe) -> None:
    dealer = dial()
    greet(port, dealer)
    dealer.close(0)
    got: list[ClientEvent] = []
    while not got:
        port.connections.send(1, [])
        port.socket.poll(10)  # ZeroMQ's own thread notices the end of the connection
        got = port.receive()
    assert got == [ClientGone(1, "its connection is gone")]


def until_gone(port: ClientPort) -> list[ClientEvent]:
    """Return the events once the port has checked its clients often enough; nothing is sent to any client."""
    got: list[ClientEvent] = []
    for second in range(1, 1000):
        port.tick(second * connections.TICK_NS)
        port.socket.poll(10)
        got = port.receive()
        if got:
            break
    return got


def test_a_lost_client_is_noticed_without_an_answer_for_it(port: ClientPort, dial: ZmqPipe) -> None:
    leaving, staying = dial(), dial()
    greet(port, leaving, 1)
    greet(port, staying, 2)
    leaving.close(0)
    assert until_gone(port) == [ClientGone(1, "its connection is gone")]
    staying.send(encode(Requests([(1, Get("/"))])))
    assert events(port, 1) == [ClientRequests(2, [(1, Get("/"))])]
    assert heard(staying) == Answers([])


def test_clients_are_checked_once_a_second(port: ClientPort, dial: ZmqPipe) -> None:
    dealer = dial()
    greet(port, dealer)
    for now in (1, connections.TICK_NS, connections.TICK_NS + 1, 2 * connections.TICK_NS):
        port.tick(now)
    port.connections.send(1, [(1, Ok(ZERO))])
    told = [heard(dealer) for _ in range(3)]
    assert told == [Answers([]), Answers([]), Answers([(1, Ok(ZERO))])]


STOPPED = """
import sys, zmq
from zab_chaos.node.core.zxid import ZERO
from zab_chaos.node.net.keys import Keys
from zab_chaos.node.clients.protocol import VERSION, Hello, encode
dealer = zmq.Context().socket(zmq.DEALER)
Keys(sys.argv[2].encode(), b"").client(dealer)
dealer.connect("tcp://" + sys.argv[1])
dealer.send(encode(Hello(VERSION, 1, ZERO)))
dealer.recv()
print("here", flush=True)
dealer.recv()
"""


def test_a_stopped_client_is_dropped(context: zmq.Context[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection stays open; only the heartbeats reveal that it does not run."""
    monkeypatch.setattr(clients, "HEARTBEAT_MS", 100)
    monkeypatch.setattr(clients, "SILENCE_MS", 300)
    port = ClientPort(context, "127.0.0.1:0", KEYS, LIMITS)
    command = [sys.executable, "-c", STOPPED, port.address, KEYS.public.decode()]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
        try:
            assert events(port, 1) == [ClientUp(1, ZERO)]
            assert client.stdout is not None
            assert client.stdout.readline() == b"here\n"
            client.send_signal(signal.SIGSTOP)
            assert until_gone(port) == [ClientGone(1, "its connection is gone")]
        finally:
            client.kill()
            port.close()


def test_handshakes_without_the_key_are_reported(context: zmq.Context[Any], port: ClientPort) -> None:
    with context.socket(zmq.DEALER) as stranger:
        stranger.linger = 0
        Keys(*zmq.curve_keypair()).client(stranger)
        stranger.connect(f"tcp://{port.address}")
        (refused,) = until_gone(port)
    assert isinstance(refused, Refused)
    assert (refused.what, refused.peer) == ("stranger", None)


@pytest.mark.parametrize("size", [2**18, 60_000])  # ZeroMQ copies the smaller one
def test_a_client_that_does_not_read_is_dropped_and_others_are_not(port: ClientPort, dial: ZmqPipe, size: int) -> None:
    slow, good = dial(), dial()
    slow.setsockopt(zmq.RCVHWM, 1)
    greet(port, slow, 1)
    greet(port, good, 2)
    got: list[ClientEvent] = []
    for _ in range(10 * LIMITS.queue_frames):  # fewer than in ZeroMQ's own limit of 1000
        port.connections.send(1, [(1, Ok(ZERO, data=bytes(size)))])
        got = port.receive()
        if got:
            break
    assert [type(event) for event in got] == [Refused, ClientGone]
    assert got[1] == ClientGone(1, "it does not read its answers")
    port.connections.send(1, [])  # forgotten: no error
    port.connections.send(2, [(1, Ok(ZERO))])
    assert heard(good) == Answers([(1, Ok(ZERO))])


def test_few_large_answers_are_queued_for_a_client_that_does_not_read(
    port: ClientPort, dial: ZmqPipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "UNSENT_BYTES", 2**24, raising=False)
    slow = dial()
    slow.setsockopt(zmq.RCVHWM, 1)
    greet(port, slow, 1)
    sent = 0
    while sent < 40 and not port.receive():
        port.connections.send(1, [(1, Ok(ZERO, data=bytes(2**21)))])
        sent += 1
    assert 8 <= sent < 20  # the rest is in the kernel's buffers
    for _ in range(sent - 1):
        assert isinstance(heard(slow), Answers)
    ticks = itertools.count(step=2 * TICK_NS)
    assert any(port.tick(next(ticks)) or not port._unsent for _ in range(100_000))  # ZeroMQ reports what it has sent


def test_an_enormous_frame_only_ends_its_connection(port: ClientPort, dial: ZmqPipe) -> None:
    dealer = dial()
    greet(port, dealer)
    dealer.send(bytes(FRAME_HARD * frame_limit(LIMITS) + 1))
    got: list[ClientEvent] = []
    while not got:
        dealer.send(encode(Hello(VERSION, 1, ZERO)))
        got = port.receive() if port.socket.poll(100) else []
    assert set(got) == {ClientUp(1, ZERO)}  # and no answer to the frame


def test_a_call_takes_no_more_frames_than_it_is_told_to(port: ClientPort, dial: ZmqPipe) -> None:
    dealer = dial()
    greet(port, dealer)
    for seq in range(100):
        dealer.send(encode(Requests([(seq, Get("/"))])))
    got: list[ClientEvent] = []
    while len(got) < 100:
        assert port.socket.poll(10_000)
        more = port.receive(3)
        assert len(more) <= 3
        got += more


def test_drain_waits_for_more_than_the_kernel_buffers(context: zmq.Context[Any]) -> None:
    port = ClientPort(context, "127.0.0.1:0", KEYS, LIMITS)
    with context.socket(zmq.DEALER) as dealer:
        dealer.linger, dealer.rcvtimeo = 0, 10_000
        KEYS.client(dealer)
        dealer.connect(f"tcp://{port.address}")
        greet(port, dealer)
        for seq in range(8):
            port.connections.send(1, [(seq, Ok(ZERO, data=bytes(2**21)))])
        port.drain(20.0)
        assert [getattr(heard(dealer), "items", [(None,)])[0][0] for _ in range(8)] == list(range(8))


def test_a_dropped_client_gets_the_reason(port: ClientPort, dial: ZmqPipe) -> None:
    dealer = dial()
    greet(port, dealer)
    port.connections.drop(1, "it floods")
    assert heard(dealer) == Rejected("it floods")
    assert port.receive() == [Refused("client", "it floods", None, 1)]


def test_a_client_number_on_a_new_connection_ends_the_older_one(port: ClientPort, dial: ZmqPipe) -> None:
    older, newer = dial(), dial()
    greet(port, older)
    greet(port, newer)
    assert heard(older) == Rejected("the client has connected again")
    older.send(encode(Bye()))
    newer.send(encode(Requests([(1, Get("/"))])))
    assert events(port, 1) == [ClientRequests(1, [(1, Get("/"))])]


def test_a_full_port_forgets_lost_clients_and_refuses_new_ones(
    port: ClientPort, dial: ZmqPipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CLIENTS_MAX", 2)
    one, two, three = dial(), dial(), dial()
    greet(port, one, 1)
    greet(port, two, 2)
    three.send(encode(Hello(VERSION, 3, ZERO)))
    assert isinstance(events(port, 1)[0], Refused)
    assert "2 clients already" in getattr(heard(three), "why", "")
    one.close(0)
    welcome: FromNode | None = None
    while welcome != Welcome():
        three.send(encode(Hello(VERSION, 3, ZERO)))
        port.receive() if port.socket.poll(100) else None
        welcome = heard(three) if three.poll(100) else None


def test_an_address_in_use_raises(context: zmq.Context[Any]) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        with pytest.raises(AddressInUse, match="clients"):
            ClientPort(context, f"127.0.0.1:{holder.getsockname()[1]}", KEYS)


def test_a_message_decodes_to_what_was_encoded() -> None:
    for message in (Welcome(), Rejected("no"), Answers([(1, Ok(Zxid(1)))])):
        assert decode_from_node(encode(message)) == message
    with pytest.raises(msgspec.DecodeError):
        decode_from_node(encode(Bye()))
