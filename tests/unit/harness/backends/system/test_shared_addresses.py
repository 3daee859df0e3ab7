"""One address for each node: a connection goes through the proxy of the link from the node that has opened it."""

import gc
import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from zab_chaos.harness.backends.processes.deployment import HOST
from zab_chaos.harness.backends.system.shared_addresses import SharedAddresses
from zab_chaos.harness.machine.connections import connection, host_and_port, open_files
from zab_chaos.harness.machine.ports import free_ports, release_ports

SECONDS = 20.0  # after which a socket that should have had something fails the test


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def listener(stack: ExitStack) -> tuple[socket.socket, str]:
    """Return a listening socket and its address."""
    one = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    one.settimeout(SECONDS)
    return one, f"127.0.0.1:{one.getsockname()[1]}"


class Openers:
    """Says which node has opened a connection, as a cluster would."""

    def __init__(self) -> None:
        self.by_port: dict[int, int] = {}
        self.known = threading.Event()

    def __call__(self, port: int, _other: int) -> int | None:
        assert self.known.wait(SECONDS)
        return self.by_port.get(port)

    def connect(self, stack: ExitStack, address: str, node: int | None) -> socket.socket:
        """Connect to an address as this node."""
        self.known.clear()
        one = stack.enter_context(socket.create_connection(host_and_port(address), SECONDS))
        if node is not None:
            self.by_port[one.getsockname()[1]] = node
        self.known.set()
        return one


class Three:
    """Three nodes' shared addresses, and listeners in place of the proxies of the links to node 2 and of node 2 itself."""

    def __init__(self, stack: ExitStack) -> None:
        ports = free_ports(3)
        stack.callback(release_ports, ports)
        self.shared = {node: f"127.0.0.1:{port}" for node, port in zip((1, 2, 3), ports, strict=True)}
        self.from_1, address_1 = listener(stack)
        self.from_3, self.address_3 = listener(stack)
        self.itself, own = listener(stack)
        self.openers = Openers()
        proxies = {(1, 2): address_1, (3, 2): self.address_3}
        stack.enter_context(SharedAddresses(self.shared, proxies, {2: own}, self.openers))


@pytest.fixture
def three(stack: ExitStack) -> Three:
    return Three(stack)


def test_connections_take_the_way_of_the_node_that_has_opened_them(stack: ExitStack, three: Three) -> None:
    for node, way in ((1, three.from_1), (3, three.from_3), (2, three.itself)):
        near = three.openers.connect(stack, three.shared[2], node)
        far, _ = way.accept()
        stack.enter_context(far)
        far.settimeout(SECONDS)
        near.sendall(b"to 2")
        assert far.recv(10) == b"to 2"
        far.sendall(b"from 2")
        assert near.recv(10) == b"from 2"


def test_an_end_of_one_direction_leaves_the_other_open(stack: ExitStack, three: Three) -> None:
    near = three.openers.connect(stack, three.shared[2], 1)
    far = stack.enter_context(three.from_1.accept()[0])
    far.settimeout(SECONDS)
    near.sendall(b"question")
    near.shutdown(socket.SHUT_WR)
    assert far.makefile("rb").read() == b"question"
    far.sendall(b"answer")
    far.close()
    assert near.makefile("rb").read() == b"answer"


@pytest.mark.parametrize("side", [0, 1])
def test_a_reset_at_one_end_reaches_the_other(caplog: pytest.LogCaptureFixture, side: int) -> None:
    with ExitStack() as stack:
        three = Three(stack)
        near = three.openers.connect(stack, three.shared[2], 1)
        far = stack.enter_context(three.from_1.accept()[0])
        far.settimeout(SECONDS)
        ends = (near, far)
        ends[side].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        ends[side].close()
        with pytest.raises(ConnectionResetError):
            ends[1 - side].recv(1)
        three.openers.connect(stack, three.shared[2], 1)  # which is still open at the end
        stack.enter_context(three.from_1.accept()[0])
    assert [record.getMessage() for record in caplog.records] == []  # which asyncio would report to the user


def test_a_connection_of_nobody_and_one_through_a_disabled_proxy_are_closed(stack: ExitStack, three: Three) -> None:
    three.from_3.close()
    for node in (None, 3):
        near = three.openers.connect(stack, three.shared[2], node)
        with pytest.raises(ConnectionResetError):
            near.recv(1)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_the_process_that_has_a_connection_is_found_by_its_two_ends(
    stack: ExitStack, family: socket.AddressFamily
) -> None:
    """Also if it connects with a socket for IPv6, as JVMs do."""
    one, _ = listener(stack)
    near = stack.enter_context(socket.socket(family))
    near.connect(("127.0.0.1" if family == socket.AF_INET else "::ffff:127.0.0.1", one.getsockname()[1]))
    mine, other = near.getsockname()[1], one.getsockname()[1]
    found = connection((HOST, mine), (HOST, other))
    assert found is not None
    assert found.file == f"socket:[{os.fstat(near.fileno()).st_ino}]"
    assert found.file in open_files(os.getpid())
    assert connection((HOST, mine), (HOST, other + 1)) is None
    assert open_files(2**22 + 1) == set()  # no such process


@pytest.mark.slow
def test_the_end_leaves_no_task_whatever_is_just_being_connected(caplog: pytest.LogCaptureFixture) -> None:
    """asyncio logs an error for each task that its loop leaves behind. Threads go on connecting."""
    for _ in range(3):
        with ExitStack() as clients:  # closed when no thread connects any more
            with ExitStack() as stack:
                three = Three(stack)
                three.openers.known.set()
                three.openers.by_port.update(dict.fromkeys(range(65536), 1))

                def connect(address: str = three.shared[2], clients: ExitStack = clients) -> None:
                    with suppress(OSError):
                        for _ in range(100):
                            clients.enter_context(socket.create_connection(host_and_port(address), SECONDS))

                threads = [threading.Thread(target=connect) for _ in range(3)]
                for thread in threads:
                    thread.start()
                three.from_1.accept()[0].close()
            for thread in threads:
                thread.join()
        gc.collect()
    assert caplog.records == []
