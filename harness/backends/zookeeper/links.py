"""The links between ZooKeeper's servers: faults on them, and how many bytes have passed.

A server has two ports for its peers, one for the quorum and one for elections, and a connection carries data both ways. So
there is a proxy for each ordered pair of servers and port. Link (i, j), which is what i sends to j, consists of four streams:
the "upstream" of the two proxies through which i connects to j, and the "downstream" of the two through which j connects to i.
A fault's effect is put on all four, with a different name for each stream. What j sends to i is not touched, so partitions are
really one-way.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import permutations
from threading import Lock

from zab_chaos.faults import tcp_signature
from zab_chaos.faults.network import BOTH, Network, NetworkError, Pair, Toxic, proxy_name
from zab_chaos.faults.proxies import SECONDS
from zab_chaos.harness.backends.zookeeper.server import HOST, Plan, proxy_host
from zab_chaos.harness.backends.zookeeper.sockets import connections

QUORUM, ELECTION = PORTS = (1, 2)  # the third number in a proxy's name
RELAY = 0  # the fourth number in the name of a relay, the second proxy of a connection
CUT_TOXICS = {
    "timeout": Toxic("timeout", "upstream", (("timeout", 0),)),
    "stall": Toxic("bandwidth", "upstream", (("rate", 0),)),
}

_SENT = re.compile(r"^toxiproxy_proxy_sent_bytes_total\{([^}]*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class QuorumNetwork(Network):
    """The network of a ZooKeeper ensemble, in which a link has four streams. Each operation is applied to all of them."""

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

    def cut(self, pairs: Iterable[Pair], how: str = "timeout", name: str = "cut") -> None:
        """See `Network.cut`. `disable` closes connections, which carry data both ways, so both directions must be in
        `pairs`."""
        pairs = list(pairs)
        if how == "disable":
            self._require_both_directions(pairs)
            super().cut([(*pair, port) for pair in pairs for port in PORTS], how, f"{name}.upstream")
            return
        if how not in CUT_TOXICS:
            super().cut([], how, name)  # raises the error that lists the allowed values
        self.disturb(pairs, [CUT_TOXICS[how]], name)

    def disturb(self, pairs: Iterable[Pair], toxics: Iterable[Toxic], name: str, fresh: bool = False) -> None:
        """See `Network.disturb`. Only toxics of the stream that carries the data (`upstream`) are used."""
        toxics = [toxic for toxic in toxics if toxic.stream == "upstream"]
        for proxy, stream in _streams(pairs):
            on_stream = [Toxic(toxic.kind, stream, toxic.attributes) for toxic in toxics]
            super().disturb([proxy], on_stream, f"{name}.{stream}", fresh)

    def heal(self, pairs: Iterable[Pair], name: str = "cut", release: bool = False) -> None:
        streams = list(_streams(pairs))
        for direction in BOTH:
            proxies = [proxy for proxy, stream in streams if stream == direction]
            super().heal(proxies, f"{name}.{direction}", release)

    def toxics(self, pair: Pair) -> list[Toxic]:
        """Return the toxics that are on all streams of a link."""
        by_stream = [self._stream_toxics(proxy, stream) for proxy, stream in _streams([pair])]
        return sorted(set.intersection(*by_stream), key=str)

    def _stream_toxics(self, proxy: Pair, stream: str) -> set[Toxic]:
        found = super().toxics(proxy)
        return {Toxic(toxic.kind, "upstream", toxic.attributes) for toxic in found if toxic.stream == stream}

    def broken(self) -> dict[Pair, list[str]]:
        found: dict[Pair, set[str]] = {}
        for (source, target, *_), effects in super().broken().items():
            for effect in effects:
                name, _, stream = effect.rpartition(".")
                found.setdefault((source, target) if stream == "upstream" else (target, source), set()).add(name)
        return {pair: sorted(names) for pair, names in sorted(found.items())}

    def _require_both_directions(self, pairs: list[Pair]) -> None:
        """Raise NetworkError unless the reverse of each link is also there."""
        single = [pair for pair in pairs if pair[::-1] not in pairs]
        if single:
            raise NetworkError(
                f"link {proxy_name(single[0])} can't be disabled alone: a connection between two servers carries both ways. "
                'Cut it with how = "timeout" or "stall"'
            )


def _streams(pairs: Iterable[Pair]) -> Iterator[tuple[Pair, str]]:
    """Yield the four streams of each link, as (proxy, stream)."""
    for source, target in pairs:
        for port in PORTS:
            yield (source, target, port), "upstream"
            yield (target, source, port), "downstream"


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
