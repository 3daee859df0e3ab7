"""The links between ZooKeeper's servers: what i sends to j travels in four streams, and a link is all of them.

Servers have two ports for each other, one for the quorum and one for elections, and a connection carries both ways. So
there is a proxy for each ordered pair and port, and link (i, j) is the "upstream" of the two proxies that i calls j through
and the "downstream" of the two that j calls i through. An effect lies on all four, under a name of its own for each
stream, so that what j sends to i is not touched: one-way partitions are what they are called.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import permutations
from threading import Lock

from zab_chaos.faults import tcp_signature
from zab_chaos.faults.network import BOTH, Network, NetworkError, Pair, Toxic, proxy_name
from zab_chaos.faults.proxies import SECONDS
from zab_chaos.harness.backends.zookeeper.server import HOST, Plan, way
from zab_chaos.harness.backends.zookeeper.sockets import connections

QUORUM, ELECTION = PORTS = (1, 2)  # what a proxy's third number means
BEHIND = 0  # the fourth number of a proxy behind another one
HOLDING = {"timeout": (("timeout", 0),), "bandwidth": (("rate", 0),)}
CUT_BY = {"timeout": "timeout", "stall": "bandwidth"}
OTHER = dict(zip(BOTH, reversed(BOTH), strict=True))

_SENT = re.compile(r"^toxiproxy_proxy_sent_bytes_total\{([^}]*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class QuorumNetwork(Network):
    """Links of two proxies each way. What faults ask of a link is done to each of its streams."""

    def create(self, plan: Plan) -> None:
        """A proxy for each ordered pair of servers and port, and behind it one to which nothing is ever done: the connection
        between the two shows what has passed the first. Raises NetworkError."""
        for source, target in permutations(plan.nodes, 2):
            at = plan.ports[target]
            for port, number in ((QUORUM, at.quorum), (ELECTION, at.election)):
                between = f"{passage(source, target)}:{number}"
                self._create((source, target, port, BEHIND), between, f"{HOST}:{number}")
                self._create((source, target, port), f"{way(source, target)}:{number}", between)

    def cut(self, pairs: Iterable[Pair], how: str = "timeout", name: str = "cut") -> None:
        """See `Network.cut`. `disable` closes and refuses connections, which carry both ways: only both ways at once."""
        pairs = list(pairs)
        if how == "disable":
            self._both_ways(pairs)
            super().cut([(*pair, port) for pair in pairs for port in PORTS], how, f"{name}.upstream")
            return
        if how not in CUT_BY:
            super().cut([], how, name)  # which says what is allowed
        kind = CUT_BY[how]
        self.disturb(pairs, [Toxic(kind, "upstream", HOLDING[kind])], name)

    def disturb(self, pairs: Iterable[Pair], toxics: Iterable[Toxic], name: str, fresh: bool = False) -> None:
        """See `Network.disturb`. Only toxics of the data's stream (`upstream`) lie on a link."""
        toxics = [toxic for toxic in toxics if toxic.stream == "upstream"]
        for proxy, stream in _streams(pairs):
            turned = [Toxic(toxic.kind, stream, toxic.attributes) for toxic in toxics]
            super().disturb([proxy], turned, f"{name}.{stream}", fresh)

    def heal(self, pairs: Iterable[Pair], name: str = "cut", release: bool = False) -> None:
        streams = list(_streams(pairs))
        for way_of_data in BOTH:
            proxies = [proxy for proxy, stream in streams if stream == way_of_data]
            super().heal(proxies, f"{name}.{way_of_data}", release)

    def toxics(self, pair: Pair) -> list[Toxic]:
        """What lies on all streams of a link."""
        on = [self._on(proxy, stream) for proxy, stream in _streams([pair])]
        return sorted(set.intersection(*on), key=str)

    def _on(self, proxy: Pair, stream: str) -> set[Toxic]:
        found = super().toxics(proxy)
        return {Toxic(toxic.kind, "upstream", toxic.attributes) for toxic in found if toxic.stream == stream}

    def broken(self) -> dict[Pair, list[str]]:
        found: dict[Pair, set[str]] = {}
        for (source, target, *_), effects in super().broken().items():
            for effect in effects:
                name, _, stream = effect.rpartition(".")
                found.setdefault((source, target) if stream == "upstream" else (target, source), set()).add(name)
        return {pair: sorted(names) for pair, names in sorted(found.items())}

    def _both_ways(self, pairs: list[Pair]) -> None:
        lonely = [pair for pair in pairs if pair[::-1] not in pairs]
        if lonely:
            raise NetworkError(
                f"link {proxy_name(lonely[0])} can't be disabled alone: a connection between two servers carries both ways. "
                'Cut it with how = "timeout" or "stall"'
            )


def _streams(pairs: Iterable[Pair]) -> Iterator[tuple[Pair, str]]:
    for source, target in pairs:
        for port in PORTS:
            yield (source, target, port), "upstream"
            yield (target, source, port), "downstream"


def passage(source: int, target: int) -> str:
    """The loopback address at which the proxies behind those of (source, target) listen."""
    return f"127.102.{source}.{target}"


_End = tuple[str, int]
Link = tuple[int, int]


class Meter:
    """How many bytes have come through each link: of connections that are over the proxy server's own count
    (`-proxy-metrics`, which it writes when one ends), of those that are there the kernel's.

    A connection that the kernel no longer has ends for the proxy server only when no toxic holds it any more. What was seen
    of it counts until then, so that no count falls.
    """

    def __init__(self, plan: Plan, address: str, key: bytes | None) -> None:
        self._ends = ends(plan)
        self._url = f"http://{address}/metrics"
        self._key = key
        self._lock = Lock()
        self._over: Counter[Link] = Counter()  # by the proxy server's last count
        self._there: dict[tuple[_End, _End], tuple[Link, int]] = {}  # connections, at the kernel's last count
        self._between: Counter[Link] = Counter()  # of connections that were in the one, and are not yet in the other
        self._before: dict[int, dict[int, int]] = {}  # by server: what came through to it in earlier lives

    def begin(self, target: int) -> None:
        """A life of this server begins, and the count of what comes through to it. Raises NetworkError."""
        self._before[target] = self._to(target)

    def passed(self, target: int) -> dict[int, int]:
        """To this server in its present life, by sender. Raises NetworkError."""
        before = self._before.get(target, {})
        return {source: count - before.get(source, 0) for source, count in self._to(target).items()}

    def _to(self, target: int) -> dict[int, int]:
        return {source: count for (source, to), count in self.all().items() if to == target}

    def all(self) -> dict[tuple[int, int], int]:
        """On every link. Raises NetworkError."""
        with self._lock:
            try:
                over, there = self._ended(), self._established()
            except OSError as error:  # requests' errors are OSErrors
                raise NetworkError(f"it can't be told what has passed the links: {error}") from error
            for connection, (link, sent) in self._there.items():
                if there.get(connection, (link, -1))[1] < sent:  # gone, or another one of the same name
                    self._between[link] += sent
            self._between -= over - self._over
            self._over, self._there = over, there
            total = over + self._between
            for link, sent in there.values():
                total[link] += sent
            return {link: total[link] for link in sorted(self._ends.values())}

    def _ended(self) -> Counter[Link]:
        with tcp_signature.session(self._key) as session:
            answer = session.get(self._url, timeout=SECONDS)
            answer.raise_for_status()
        return read_metrics(answer.text)

    def _established(self) -> dict[tuple[_End, _End], tuple[Link, int]]:
        found: dict[tuple[_End, _End], tuple[Link, int]] = {}
        for one in connections():
            if link := self._ends.get((one.local, None)):
                found[one.local, one.remote] = link, one.sent
            elif link := self._ends.get((None, one.remote)):
                found[one.local, one.remote] = link, one.sent - 1  # the side that connects counts its SYN
        return found


def ends(plan: Plan) -> dict[tuple[_End | None, _End | None], tuple[int, int]]:
    """Which link's bytes a socket sends, by its local or by its remote address: a proxy towards the one that has called it,
    or towards the proxy behind it."""
    found: dict[tuple[_End | None, _End | None], tuple[int, int]] = {}
    for source, target in permutations(plan.nodes, 2):
        at = plan.ports[target]
        for port in (at.quorum, at.election):
            found[(way(source, target), port), None] = target, source
            found[None, (passage(source, target), port)] = source, target
    return found


def read_metrics(text: str) -> Counter[tuple[int, int]]:
    """Bytes by link, of Prometheus' text."""
    found: Counter[tuple[int, int]] = Counter()
    for labels, count in _SENT.findall(text):
        label = dict(_LABEL.findall(labels))
        source, target, *port = map(int, label["proxy"].split("-"))
        if BEHIND not in port:
            found[(source, target) if label["direction"] == "upstream" else (target, source)] += int(float(count))
    return found
