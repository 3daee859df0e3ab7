"""How the bytes are counted that are sent into the proxies of links, and that have passed them."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from zab_chaos.faults.network import Traffic
from zab_chaos.faults.two_way_network import Way
from zab_chaos.harness.backends.toxiproxy import byte_meter
from zab_chaos.harness.backends.toxiproxy.byte_meter import PASSED, SENT, ByteMeter, read_metrics
from zab_chaos.harness.machine.connections import TcpConnection, between, connections

WAYS = {
    (source, target): Way(f"10.1.{source}.{target}:7", f"10.2.{source}.{target}:7", f"127.0.0.1:{target}")
    for source, target in ((1, 2), (2, 1))
}


def test_metrics_are_read_by_link_without_those_of_relays() -> None:
    def line(what: str, proxy: str, direction: str, count: str) -> str:
        labels = f'direction="{direction}",listener="127.0.0.1:1",proxy="{proxy}",upstream="127.0.0.1:2"'
        return f"toxiproxy_proxy_{what}_bytes_total{{{labels}}} {count}"

    text = "\n".join(
        [
            "# TYPE toxiproxy_proxy_sent_bytes_total counter",
            line("sent", "1-2-1", "upstream", "100"),
            line("sent", "1-2-2", "upstream", "1.5e+06"),
            line("sent", "2-1-1", "downstream", "7"),
            line("sent", "1-2-1", "downstream", "3"),
            line("sent", "1-2-1-0", "upstream", "1000"),
            line("received", "1-2", "upstream", "4"),
            line("received", "1-2-0", "upstream", "1000"),
        ]
    )
    assert read_metrics(text) == {((1, 2), PASSED): 1500107, ((2, 1), PASSED): 3, ((1, 2), SENT): 4}


def test_the_kernel_counts_the_bytes_moved_on_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        at = listener.getsockname()
        with socket.create_connection(at) as caller, listener.accept()[0] as called:
            caller.sendall(b"x" * 1000)
            called.sendall(b"yes")
            assert caller.recv(3) == b"yes"
            moved = {(one.local, one.remote): (one.sent, one.received) for one in connections()}
            assert moved[at, caller.getsockname()] == (3, 1000)
            assert moved[caller.getsockname(), at] == (1000 + 1, 3)  # and its SYN


class Metrics:
    """A fake of toxiproxy's metrics: `ended` is the bytes of ended connections that have passed the link from 1 to 2."""

    def __init__(self, ended: int) -> None:
        self.ended = ended

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(self, *_: object) -> None: ...

    def raise_for_status(self) -> None: ...

    def get(self, *_: object, **__: object) -> "Metrics":
        return self

    @property
    def text(self) -> str:
        return f'toxiproxy_proxy_sent_bytes_total{{direction="upstream",proxy="1-2"}} {self.ended}'


class Table:
    """A fake of the kernel's table: `there` are the connections in it."""

    def __init__(self) -> None:
        self.there: list[TcpConnection] = []


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> Metrics:
    metrics = Metrics(5)
    monkeypatch.setattr(byte_meter.tcp_signature, "session", lambda _: metrics)
    return metrics


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    table = Table()
    monkeypatch.setattr(byte_meter, "connections", lambda: iter(table.there))
    return table


def test_what_each_end_of_a_proxy_shows_is_added_up_by_link(metrics: Metrics, table: Table) -> None:
    meter = ByteMeter(WAYS, "nowhere:0", None)
    table.there = [
        TcpConnection(("127.0.0.1", 9), ("10.2.1.2", 7), 11, 21, ""),  # node 1 has called node 2
        TcpConnection(("10.1.1.2", 7), ("127.0.0.1", 8), 20, 30, ""),
        TcpConnection(("127.0.0.1", 8), ("10.1.1.2", 7), 99, 99, ""),  # the node's own end of it
        TcpConnection(("127.0.0.1", 7), ("127.0.0.1", 2), 98, 98, ""),  # behind the relay
    ]
    assert meter.traffic() == {(1, 2): Traffic(30, 15), (2, 1): Traffic(21, 20)}
    assert meter.traffic() == {(1, 2): Traffic(30, 15), (2, 1): Traffic(21, 20)}


def test_bytes_of_a_closed_connection_that_a_toxic_holds_back_still_count(metrics: Metrics, table: Table) -> None:
    meter = ByteMeter(WAYS, "nowhere:0", None)

    def passed(*counts: int, ended: int) -> int:
        metrics.ended = ended
        table.there = [
            TcpConnection(("127.0.0.1", port), ("10.2.1.2", 7), 1 + count, 0, "") for port, count in enumerate(counts)
        ]
        return meter.traffic()[1, 2].passed

    assert passed(40, ended=5) == 45
    assert passed(ended=5) == 45  # the kernel has it no more, and the proxy server holds it
    assert passed(ended=5) == 45
    assert passed(7, ended=5) == 52  # under the same name as the one before
    assert passed(8, ended=45) == 53  # now it is over
    assert passed(9, ended=45) == 54
    assert passed(3, ended=45) == 57  # another of that name
    assert passed(ended=60) == 60  # the first of the two, which had sent 6 more; the 3 of the second are still to come
    assert passed(ended=63) == 63
    assert passed(ended=64) == 64  # what no connection was seen for


LISTENS = """
import socket, sys
family = socket.AF_INET6 if sys.argv[1] == "::1" else socket.AF_INET
with socket.create_server((sys.argv[1].removeprefix("::ffff:"), 0), family=family) as listener:
    print(listener.getsockname()[1], flush=True)
    accepted, _ = listener.accept()
    accepted.send(b"!")
    sys.stdin.read()
"""
CALLS = """
import socket, sys
with socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET) as one:
    one.connect((sys.argv[1], int(sys.argv[2])))
    one.recv(1)  # until then the other end may be nobody's
    print("connected", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def started() -> Iterator[Callable[..., tuple[int, str]]]:
    """Return `started(script, *arguments)`, which starts a process and returns its id and the first line that it writes."""
    with ExitStack() as stack:

        def start(script: str, *arguments: str) -> tuple[int, str]:
            command = [sys.executable, "-c", script, *arguments]
            process = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            return process.pid, process.stdout.readline().strip()

        yield start


@pytest.mark.processes
@pytest.mark.parametrize("host", ["127.0.0.1", "::ffff:127.0.0.1", "::1"])
def test_a_connection_between_two_nodes_is_found_whichever_sockets_it_has(
    started: Callable[..., tuple[int, str]], host: str
) -> None:
    """A connection of a node with itself, or with a process that is no node, is none."""
    listener, port = started(LISTENS, host)
    caller, _ = started(CALLS, host, port)
    found = {(source, target): one for source, target, one in between({1: caller, 2: listener})}
    assert found.keys() == {(1, 2), (2, 1)}
    assert found[1, 2].remote == (host.removeprefix("::ffff:"), int(port))
    assert not list(between({1: caller}))
    assert not list(between({2: listener}))
    assert not list(between({1: os.getpid()}))  # which has started both
