"""The network of a system whose connections carry data both ways: whoever has opened a connection, both ends send over it.

Link (i, j), which is what i sends to j, consists of the "upstream" of each proxy through which i connects to j, and of the
"downstream" of each through which j connects to i. A fault's effect is put on all of them, with a different name for each
stream. What j sends to i is not touched, so partitions are really one-way.

Such nodes do not count what they receive from each other. Their proxies do: a cut is confirmed by what was sent into them and
did not pass. For that a relay stands behind each proxy, which faults never touch: the connection between the two shows what
has passed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from zab_chaos.faults.network import BOTH, Network, NetworkError, Pair, Toxic, Traffic, cut_effect, proxy_name

RELAY = 0  # the last number in the name of a relay


@dataclass(frozen=True, slots=True)
class Way:
    """The addresses, as host:port, that a connection passes one after the other: its proxy, the relay, and the target."""

    proxy: str
    relay: str
    target: str


class TwoWayNetwork(Network):
    """A network in which a link consists of several streams. Each operation is applied to all of them.

    `measure` and `find_detours` see what `traffic` and `detours` return; without them nothing is measured.
    """

    measure: Callable[[], Mapping[Pair, Traffic]] | None = None
    find_detours: Callable[[], Mapping[Pair, str]] | None = None
    _numbers: Sequence[tuple[int, ...]] = ((),)  # what follows a pair in the names of its proxies

    def create_ways(self, ways: Mapping[Pair, Way]) -> None:
        """Create the proxy and the relay of each way. `ways`: by (from, to), or by (from, to, number) if there are several
        of a pair: then each pair has the same numbers. Raises NetworkError."""
        self._numbers = sorted({pair[2:] for pair in ways}) or [()]
        for pair, way in sorted(ways.items()):
            self._create((*pair, RELAY), way.relay, way.target)
            self._create(pair, way.proxy, way.relay)

    def traffic(self) -> Mapping[Pair, Traffic]:
        return self.measure() if self.measure is not None else {}

    def detours(self) -> Mapping[Pair, str]:
        return self.find_detours() if self.find_detours is not None else {}

    def cut(self, pairs: Iterable[Pair], how: str = "timeout", name: str = "cut") -> None:
        """See `Network.cut`. `disable` closes connections, which carry data both ways, so both directions must be in
        `pairs`."""
        pairs = list(pairs)
        if how == "disable":
            self._require_both_directions(pairs)
            super().cut([(*pair, *number) for pair in pairs for number in self._numbers], how, f"{name}.upstream")
            return
        self.disturb(pairs, cut_effect(how).toxics, name)

    def disturb(self, pairs: Iterable[Pair], toxics: Iterable[Toxic], name: str, fresh: bool = False) -> None:
        """See `Network.disturb`. Only toxics of the stream that carries the data (`upstream`) are used."""
        toxics = [toxic for toxic in toxics if toxic.stream == "upstream"]
        for proxy, stream in self._streams(pairs):
            on_stream = [Toxic(toxic.kind, stream, toxic.attributes) for toxic in toxics]
            super().disturb([proxy], on_stream, f"{name}.{stream}", fresh)

    def heal(self, pairs: Iterable[Pair], name: str = "cut", release: bool = False) -> None:
        streams = list(self._streams(pairs))
        for direction in BOTH:
            proxies = [proxy for proxy, stream in streams if stream == direction]
            super().heal(proxies, f"{name}.{direction}", release)

    def toxics(self, pair: Pair) -> list[Toxic]:
        """Return the toxics that are on all streams of a link."""
        by_stream = [self._stream_toxics(proxy, stream) for proxy, stream in self._streams([pair])]
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

    def _streams(self, pairs: Iterable[Pair]) -> Iterator[tuple[Pair, str]]:
        """Yield the streams of each link, as (proxy, stream)."""
        for source, target in pairs:
            for number in self._numbers:
                yield (source, target, *number), "upstream"
                yield (target, source, *number), "downstream"
