"""The links between ZooKeeper's servers: faults on them, and how many bytes have passed.

A server has two ports for its peers, one for the quorum and one for elections, and a connection carries data both ways. So
there is a proxy for each ordered pair of servers and port. Link (i, j), which is what i sends to j, consists of four streams:
the "upstream" of the two proxies through which i connects to j, and the "downstream" of the two through which j connects to i.
A fault's effect is put on all four, with a different name for each stream. What j sends to i is not touched, so partitions are
really one-way.
"""

import re
from collections import Counter
from itertools import permutations
from threading import Lock

from zab_chaos.faults import tcp_signature
from zab_chaos.faults.network import NetworkError
from zab_chaos.faults.proxies import SECONDS
from zab_chaos.faults.two_way_network import TwoWayNetwork
from zab_chaos.harness.backends.zookeeper.server import HOST, Plan, proxy_host
from zab_chaos.harness.machine.connections import connections

QUORUM, ELECTION = PORTS = (1, 2)  # the third number in a proxy's name
RELAY = 0  # the fourth number in the name of a relay, the second proxy of a connection

_SENT = re.compile(r"^toxiproxy_proxy_sent_bytes_total\{([^}]*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class QuorumNetwork(TwoWayNetwork):
    """The network of a ZooKeeper ensemble, in which a link has four streams."""

    proxies_of_a_pair = ((QUORUM,), (ELECTION,))

    def create(self, plan: Plan) -> None:
        """Create a proxy for each ordered pair of servers and port, and a relay behind each, which faults never touch.

        The connection between the two shows how many bytes have passed the proxy. Raises NetworkError.
        """
        for source, target in permutations(plan.nodes, 2):
            ports = plan.ports[target]
            for port, number in ((QUORUM, ports.quorum), (ELECTION, ports.election)):
                relay = f"{relay_host(source, target)}:{number}"
                self._create((source, target, port, RELAY), relay, f"{HOST}:{number}")
                self._create((source, target, port), f"{proxy_host(source, target)}:{number}", relay)


def relay_host(source: int, target: int) -> str:
    """Return the loopback address at which the relays of link (source, target) listen."""
    return f"127.102.{source}.{target}"


Address = tuple[str, int]
Link = tuple[int, int]
Connection = tuple[Address, Address]  # local, remote


class ByteMeter:
    """Counts the bytes that have passed the proxies of each link.

    The kernel counts them for open connections, and toxiproxy's metrics (`-proxy-metrics`) for ended ones, to which it adds a
    connection when it ends. A connection that the kernel no longer has ends for toxiproxy only when no toxic holds its data any
    more. Until then its last known count is used, so that counts never decrease.
    """

    def __init__(self, plan: Plan, address: str, key: bytes | None) -> None:
        self._links = links_by_address(plan)
        self._url = f"http://{address}/metrics"
        self._key = key
        self._lock = Lock()
        self._ended: Counter[Link] = Counter()  # as toxiproxy last counted
        self._open: dict[Connection, tuple[Link, int]] = {}  # as the kernel last counted
        self._ending: Counter[Link] = Counter()  # of connections that the kernel no longer has and toxiproxy still has
        self._at_start: dict[int, dict[int, int]] = {}  # by server: the bytes that reached it in earlier lives

    def begin(self, target: int) -> None:
        """Count what reaches a server from zero again, because a new life of it begins. Raises NetworkError."""
        self._at_start[target] = self._total_received(target)

    def received(self, target: int) -> dict[int, int]:
        """Return the bytes that reached a server in its present life, by sender. Raises NetworkError."""
        before = self._at_start.get(target, {})
        return {source: count - before.get(source, 0) for source, count in self._total_received(target).items()}

    def _total_received(self, target: int) -> dict[int, int]:
        return {source: count for (source, to), count in self.totals().items() if to == target}

    def totals(self) -> dict[Link, int]:
        """Return the bytes that have passed each link since the beginning. Raises NetworkError."""
        with self._lock:
            try:
                ended, opened = self._count_ended(), self._count_open()
            except OSError as error:  # requests' errors are OSErrors
                raise NetworkError(f"the bytes that passed the links can't be counted: {error}") from error
            for connection, (link, sent) in self._open.items():
                if opened.get(connection, (link, -1))[1] < sent:  # it is gone, or a new one has its addresses
                    self._ending[link] += sent
            self._ending -= ended - self._ended
            self._ended, self._open = ended, opened
            total = ended + self._ending
            for link, sent in opened.values():
                total[link] += sent
            return {link: total[link] for link in sorted(self._links.values())}

    def _count_ended(self) -> Counter[Link]:
        with tcp_signature.session(self._key) as session:
            answer = session.get(self._url, timeout=SECONDS)
            answer.raise_for_status()
        return read_metrics(answer.text)

    def _count_open(self) -> dict[Connection, tuple[Link, int]]:
        found: dict[Connection, tuple[Link, int]] = {}
        for one in connections():
            if link := self._links.get((one.local, None)):
                found[one.local, one.remote] = link, one.sent
            elif link := self._links.get((None, one.remote)):
                found[one.local, one.remote] = link, one.sent - 1  # the side that connects counts its SYN
        return found


def links_by_address(plan: Plan) -> dict[tuple[Address | None, Address | None], Link]:
    """Return the link whose bytes a proxy's socket sends, by the local or the remote address of the socket.

    With its local address a proxy sends back to the server that has connected to it; to a remote address it sends on to the
    relay.
    """
    found: dict[tuple[Address | None, Address | None], Link] = {}
    for source, target in permutations(plan.nodes, 2):
        ports = plan.ports[target]
        for port in (ports.quorum, ports.election):
            found[(proxy_host(source, target), port), None] = target, source
            found[None, (relay_host(source, target), port)] = source, target
    return found


def read_metrics(text: str) -> Counter[Link]:
    """Return the bytes by link that toxiproxy's metrics, in Prometheus' text format, have of ended connections."""
    found: Counter[Link] = Counter()
    for labels, count in _SENT.findall(text):
        label = dict(_LABEL.findall(labels))
        source, target, *port = map(int, label["proxy"].split("-"))
        if RELAY not in port:
            found[(source, target) if label["direction"] == "upstream" else (target, source)] += int(float(count))
    return found
