"""Counts the bytes that are sent into the proxies of links, and those that have passed them."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from threading import Lock

from zab_chaos.faults import tcp_signature
from zab_chaos.faults.network import NetworkError, Pair, Traffic
from zab_chaos.faults.toxiproxy_client import SECONDS
from zab_chaos.faults.two_way_network import RELAY, Way
from zab_chaos.harness.machine.connections import Address, TcpConnection, connections, host_and_port

SENT, PASSED = "sent", "passed"

_MOVED = re.compile(r"^toxiproxy_proxy_(received|sent)_bytes_total\{([^}]*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')

Count = tuple[Pair, str]  # a link, and SENT or PASSED
Connection = tuple[Address, Address]  # local, remote


class ByteMeter:
    """Counts the bytes of each link, at the two ends that each proxy has of a connection.

    The kernel counts them for open connections, and toxiproxy's metrics (`-proxy-metrics`) for ended ones, to which it adds a
    connection when it ends. A connection that the kernel no longer has ends for toxiproxy only when no toxic holds its data any
    more. Until then its last known count is used, so that counts never decrease.
    """

    def __init__(self, ways: Mapping[Pair, Way], address: str, key: bytes | None) -> None:
        """`ways`: those of the network, see `TwoWayNetwork.create_ways`. `address`, `key`: of the toxiproxy server."""
        # The address at which a connection reaches a proxy, and the one to which the proxy sends it on, tell its link.
        self._by_proxy: dict[Address, Pair] = {host_and_port(way.proxy): pair[:2] for pair, way in ways.items()}
        self._by_relay: dict[Address, Pair] = {host_and_port(way.relay): pair[:2] for pair, way in ways.items()}
        self._url = f"http://{address}/metrics"
        self._key = key
        self._lock = Lock()
        self._ended: Counter[Count] = Counter()  # as toxiproxy last counted
        self._open: dict[tuple[Connection, Count], int] = {}  # as the kernel last counted
        self._ending: Counter[Count] = Counter()  # of connections that the kernel no longer has and toxiproxy still has

    def traffic(self) -> dict[Pair, Traffic]:
        """Return what each link has carried since the beginning. Raises NetworkError."""
        with self._lock:
            try:
                ended, there = self._count_ended(), list(connections())
            except OSError as error:  # requests' errors are OSErrors
                raise NetworkError(f"the bytes that passed the links can't be counted: {error}") from error
            opened = {
                ((one.local, one.remote), count): bytes_ for one in there for count, bytes_ in self._counts_of(one)
            }
            for name, moved in self._open.items():
                if opened.get(name, -1) < moved:  # the connection is gone, or a new one has its addresses
                    self._ending[name[1]] += moved
            self._ending -= ended - self._ended
            self._ended, self._open = ended, opened
            total = ended + self._ending
            for (_, count), moved in opened.items():
                total[count] += moved
        links = sorted({*self._by_proxy.values()})
        return {link: Traffic(total[link, SENT], total[link, PASSED]) for link in links}

    def _count_ended(self) -> Counter[Count]:
        with tcp_signature.session(self._key) as session:
            answer = session.get(self._url, timeout=SECONDS)
            answer.raise_for_status()
        return read_metrics(answer.text)

    def _counts_of(self, one: TcpConnection) -> Iterator[tuple[Count, int]]:
        """Yield what a proxy's end of a connection shows; nothing for all other connections."""
        if link := self._by_proxy.get(one.local):  # from the node that has connected
            yield (link, SENT), one.received
            yield (link[::-1], PASSED), one.sent
        elif link := self._by_relay.get(one.remote):
            yield (link[::-1], SENT), one.received
            yield (link, PASSED), one.sent - 1  # the side that connects counts its SYN


def read_metrics(text: str) -> Counter[Count]:
    """Return the bytes that toxiproxy's metrics, in Prometheus' text format, have of ended connections. Relays do not count."""
    found: Counter[Count] = Counter()
    for moved, labels, amount in _MOVED.findall(text):
        label = dict(_LABEL.findall(labels))
        source, target, *numbers = map(int, label["proxy"].split("-"))
        if RELAY not in numbers:
            link = (source, target) if label["direction"] == "upstream" else (target, source)
            found[link, SENT if moved == "received" else PASSED] += int(float(amount))
    return found
