"""The links of a run, each through a proxy of its own, and what can be done to them.

Link (i, j) carries what i sends to j; its proxy is `i-j`, and the data flow in toxiproxy's "upstream" stream. The other
stream of that TCP connection carries only ZeroMQ's handshake, so a cut takes both, and cutting (i, j) alone is a
one-way partition: what j sends to i travels through proxy `j-i`.

What breaks a link is an *effect* with a name (its fault's), so several can lie on one link and be healed apart.
Healing keeps to what was measured to be safe (500 and 300 tries under kill races): `timeout` toxics are removed;
everything else goes by deleting the proxy and creating it again on the same port, with the effects that remain. That
also frees a wedged server. A link that is stalled is always made anew: the server wakes its last toxic to put another
one behind it or to take one away, and a stall that is woken lets go of what it holds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from faults.proxies import MissingError, NetworkError, Proxies, ReadBackError, WedgedError

__all__ = ["CUTS", "MissingError", "Network", "NetworkError", "ReadBackError", "Toxic", "WedgedError"]

CUTS = ("timeout", "stall", "disable")
DELETES = 5  # tries; each may take `proxies.SECONDS`
BOTH = ("upstream", "downstream")


@dataclass(frozen=True, slots=True)
class Toxic:
    """A toxic on one stream: `kind` and attributes as toxiproxy names them (integers)."""

    kind: str
    stream: str
    attributes: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Effect:
    toxics: tuple[Toxic, ...] = ()
    disables: bool = False

    @property
    def stalls(self) -> bool:
        return any(toxic.kind == "bandwidth" and ("rate", 0) in toxic.attributes for toxic in self.toxics)

    @property
    def safe_to_remove(self) -> bool:
        return not self.disables and all(toxic.kind == "timeout" for toxic in self.toxics)


_CUT_EFFECTS = {
    "timeout": _Effect(tuple(Toxic("timeout", stream, (("timeout", 0),)) for stream in BOTH)),
    "stall": _Effect(tuple(Toxic("bandwidth", stream, (("rate", 0),)) for stream in BOTH)),
    "disable": _Effect(disables=True),
}


@dataclass(slots=True)
class _Link:
    name: str
    listen: str
    upstream: str
    effects: dict[str, _Effect] = field(default_factory=dict)
    half_made: bool = False  # it could not be made anew: nobody knows what lies on it, or whether it is there at all

    @property
    def delicate(self) -> bool:
        """Whether nothing may be changed on it while it is there."""
        return self.half_made or any(effect.stalls for effect in self.effects.values())


class Network:
    """All links of a run. `api_address` is host:port of the toxiproxy server. One thread at a time."""

    def __init__(self, api_address: str) -> None:
        self._proxies = Proxies(api_address)
        self._links: dict[tuple[int, int], _Link] = {}

    def create_links(self, links: Mapping[tuple[int, int], tuple[str, str]]) -> None:
        """`{(i, j): (listen, upstream)}`, each address host:port. Raises NetworkError, e.g. when a port is taken."""
        for (source, target), (listen, upstream) in sorted(links.items()):
            link = _Link(f"{source}-{target}", listen, upstream)
            self._proxies.create(link.name, listen, upstream)
            self._links[source, target] = link

    def cut(self, pairs: Iterable[tuple[int, int]], how: str = "timeout", name: str = "cut") -> None:
        """Let nothing pass, on connections that are open too.

        `timeout`: bytes are dropped silently, connections stay up. `stall`: bytes are held, and released in order if
        the link is healed with `release`. `disable`: connections are closed and refused.
        """
        if how not in _CUT_EFFECTS:
            raise NetworkError(f"{how!r} is no way to cut a link. Allowed: {', '.join(CUTS)}")
        for pair in pairs:
            self._apply(self._link(pair), name, _CUT_EFFECTS[how])

    def disturb(
        self, pairs: Iterable[tuple[int, int]], toxics: Iterable[Toxic], name: str, fresh: bool = False
    ) -> None:
        """Put toxics on links. `fresh`: open connections are closed first, so that all traffic meets the toxics from
        its first byte (`reset_peer` only resets connections that were opened after it)."""
        effect = _Effect(tuple(toxics))
        for pair in pairs:
            link = self._link(pair)
            if fresh:
                link.effects[name] = effect
                self._recreate(link)
            else:
                self._apply(link, name, effect)

    def heal(self, pairs: Iterable[tuple[int, int]], name: str = "cut", release: bool = False) -> None:
        """Take the effect `name` off the links; where it is not, nothing happens.

        `release` lets go of what a stall or a latency holds, in order, by removing the toxics. Only when both ends live
        and none is paused: otherwise the server may wedge. All links are tried even if one fails; then NetworkError.
        """
        failures = []
        for pair in pairs:
            try:
                self._take_off(self._link(pair), name, release)
            except NetworkError as error:
                failures.append(f"link {pair[0]}-{pair[1]}: {error}")
        if failures:
            raise NetworkError("; ".join(failures))

    def heal_all(self) -> None:
        """Every link as it was created. Links that nothing was done to keep their connections. Raises NetworkError."""
        failures = []
        for link in self._links.values():
            if link.effects or link.half_made:
                link.effects.clear()
                try:
                    self._recreate(link)
                except NetworkError as error:
                    failures.append(f"link {link.name}: {error}")
        if failures:
            raise NetworkError("; ".join(failures))

    def toxics(self, pair: tuple[int, int]) -> list[Toxic]:
        """What lies on a link, as the server says now."""
        found = self._proxies.toxics(self._link(pair).name).values()
        return [Toxic(one["type"], one["stream"], tuple(sorted(one["attributes"].items()))) for one in found]

    def broken(self) -> dict[tuple[int, int], list[str]]:
        """The links that something lies on, with the names of the effects."""
        return {pair: sorted(link.effects) for pair, link in self._links.items() if link.effects}

    def close(self) -> None:
        """Delete all proxies."""
        for link in self._links.values():
            self._proxies.delete(link.name)
        self._links.clear()

    def _link(self, pair: tuple[int, int]) -> _Link:
        if pair not in self._links:
            raise NetworkError(f"there is no link {pair[0]}-{pair[1]}")
        return self._links[pair]

    def _apply(self, link: _Link, name: str, effect: _Effect) -> None:
        """On the live link if the server can; on a link made anew if it can't (a stopped peer with full pipes)."""
        delicate = link.delicate
        link.effects[name] = effect
        if delicate:
            self._recreate(link)
            return
        try:
            if effect.disables:
                self._proxies.disable(link.name)
            else:
                self._add_toxics(link, name, effect)
        except WedgedError:
            self._recreate(link)

    def _take_off(self, link: _Link, name: str, release: bool) -> None:
        effect = link.effects.pop(name, None)
        if effect is None:
            return
        if link.delicate or effect.disables or not (effect.safe_to_remove or release):
            self._recreate(link)
            return
        try:
            for toxic in effect.toxics:
                self._proxies.remove(link.name, _toxic_name(name, toxic))
        except WedgedError:
            self._recreate(link)

    def _add_toxics(self, link: _Link, name: str, effect: _Effect) -> None:
        for toxic in effect.toxics:
            self._proxies.add(link.name, _toxic_name(name, toxic), toxic.kind, toxic.stream, dict(toxic.attributes))

    def _recreate(self, link: _Link) -> None:
        """Delete and create on the same port; while disabled it takes the remaining toxics, so no byte slips
        through."""
        link.half_made = True
        self._delete(link)
        self._proxies.create(link.name, link.listen, link.upstream, enabled=not link.effects)
        for name, effect in link.effects.items():
            self._add_toxics(link, name, effect)
        if link.effects and not any(effect.disables for effect in link.effects.values()):
            self._proxies.enable(link.name)
        link.half_made = False

    def _delete(self, link: _Link) -> None:
        """Again if there is no answer: the server gives a proxy up only when it is through with dialling for it, which
        takes seconds when the other end is a container that has just vanished. What is gone already is no error.
        """
        for _ in range(DELETES - 1):
            try:
                return self._proxies.delete(link.name)
            except WedgedError:
                continue
        return self._proxies.delete(link.name)


def _toxic_name(name: str, toxic: Toxic) -> str:
    return f"{name}.{toxic.kind}.{toxic.stream}"
