"""A client's connection: what is sent on it, and what is received, when it ends or is full."""

from collections.abc import Iterator

import pytest
import zmq

from tests.unit.harness.client.fake_ensemble import FakeEnsemble
from zab_chaos.harness.client.client import Client, PolledClient, PolledConnection
from zab_chaos.harness.client.connection import Connection
from zab_chaos.harness.client.core import Operation
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.node.clients.protocol import Answers, Welcome, encode
from zab_chaos.node.core.zxid import ZERO
from zab_chaos.node.events import ClientRequests
from zab_chaos.node.net.clients import ClientPort
from zab_chaos.node.net.keys import Keys
from zab_chaos.node.tree.outcomes import Ok
from zab_chaos.node.tree.requests import Get, Set

KEYS = Keys(*zmq.curve_keypair())
PATIENCE = 30.0  # seconds; only a failing test waits that long
MANY = 10_000  # requests of 8 KiB: many times what ZeroMQ and the kernel hold for a node that does not read


@pytest.fixture
def port() -> Iterator[ClientPort]:
    """A node's port, which the test serves."""
    with zmq.Context() as context:
        port = ClientPort(context, "127.0.0.1:0", KEYS)
        yield port
        port.close()


class Ending:
    """A connection on which an answer and the end arrive together, just behind the next look at it, if it is `dying`."""

    def __init__(self) -> None:
        self.dying = False
        self._frames, self._end = [encode(Welcome())], ""

    def send(self, frame: bytes) -> bool:
        return True

    def close(self, linger_ms: int = 0) -> None: ...

    def receive(self) -> list[bytes]:
        found, self._frames = self._frames, []
        self._looked()
        return found

    def broken(self) -> str | None:
        found = self._end
        self._looked()
        return found or None

    def _looked(self) -> None:
        if self.dying and not self._end:
            self._frames, self._end = [encode(Answers([(1, Ok(ZERO))]))], "the connection broke"


def test_an_answer_that_arrives_with_the_end_of_its_connection_counts() -> None:
    connection = Ending()

    class Scripted(PolledClient):
        def _dial(self, node: int) -> PolledConnection:
            return connection

    with Scripted({1: "127.0.0.1:1"}, None, number=1, timeout=PATIENCE, poller=None) as client:
        assert client.connect(PATIENCE)
        sent = client.submit(Get("/"))
        client.flush()
        connection.dying = True
        client.poll()
        client.poll()
        assert sent.outcome == Ok(ZERO)


def test_what_a_node_does_not_read_is_sent_when_it_reads_again(port: ClientPort) -> None:
    with Client([port.address], KEYS, timeout=PATIENCE) as client:
        while not client.connected:
            client.poll(0.01)
            port.receive()
        sent: list[Operation] = []
        while not sent or sent[-1].node is not None:
            assert len(sent) < MANY, "a connection accepts more and more for a node that does not read"
            sent.append(client.submit(Set("/", bytes(2**13))))
            client.flush()
        numbers: list[int] = []
        while len(numbers) < len(sent):
            port.socket.poll(10)
            numbers += [seq for event in port.receive() if isinstance(event, ClientRequests) for seq, _ in event.items]
            client.poll()
        assert numbers == [operation.seq for operation in sent]


def test_a_request_is_not_sent_into_a_connection_that_has_ended(ensemble: FakeEnsemble) -> None:
    """The client has not looked since its node died. What is sent to nobody would be unknown; what is not goes elsewhere."""
    with Client(ensemble.addresses, ensemble.keys, node=1) as client:
        assert isinstance(client.get("/"), Ok)
        connection = client.core.connection
        assert isinstance(connection, Connection)
        ensemble.nodes[1].stop()
        assert wait_until(lambda: not connection._socket.poll(0, zmq.POLLOUT), PATIENCE)
        operation = client.submit(Set("/", b"1"))
        client.flush()
        assert isinstance(client.wait(operation), Ok)
        assert operation.node == 2
