"""The network of a run: one toxiproxy proxy for each link, with cuts and toxics.

Link (i, j) carries what i sends to j; its proxy is `i-j`, and the data flow in toxiproxy's "upstream" stream. The other
stream of that TCP connection carries only ZeroMQ's handshake, so a cut takes both, and cutting (i, j) alone is a
one-way partition: what j sends to i travels through proxy `j-i`.

What breaks a link is an *effect* with a name (its fault's), so several can lie on one link and be healed apart.
Healing keeps to what was measured to be safe (500 and 300 tries under kill races): `timeout` toxics are removed;
everything else goes by deleting the proxy and creating it again on the same port, with the effects that remain. That
also frees a wedged server. A link that is stalled is always made anew: the server wakes its last toxic to put another
one behind it or to take one away, and a stall that is woken lets go of what it holds.

The server takes orders from whoever reaches it. So the network knows what it asked for, link by link, and before each
healing compares that with what the server has (`compare`). What differs was done by somebody else: it is told
(`take_foreign_changes`), and what is left of it is undone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from zab_chaos.faults.proxies import MissingError, NetworkError, Proxies, ProxyState, ReadBackError, WedgedError

__all__ = ["CUTS", "MissingError", "Network", "NetworkError", "ReadBackError", "Toxic", "WedgedError"]

CUTS = ("timeout", "stall", "disable")
DELETES = 5  # tries; each may take `proxies.SECONDS`
BOTH = ("upstream", "downstream")

Pair = tuple[int, ...]  # (from, to); where a link is made of several proxies, a part of it has more numbers


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
    half_made: bool = False  # a change failed, or was not ours: nobody knows what lies on it, or whether it is there

    @property
    def asked(self) -> ProxyState:
        """The requested state of a proxy."""
        disabled = any(effect.disables for effect in self.effects.values())
        toxics = {
            _toxic_name(name, one): {
                "type": one.kind, "stream": one.stream, "toxicity": 1.0, "attributes": dict(one.attributes)
            }
            for name, effect in self.effects.items() for one in effect.toxics
        }  # fmt: skip
        return ProxyState(self.listen, self.upstream, not disabled, toxics)

    @property
    def delicate(self) -> bool:
        """Whether nothing may be changed on it while it is there."""
        return self.half_made or any(effect.stalls for effect in self.effects.values())


class Network:
    """All links of a run. `api_address` is host:port of the toxiproxy server; `key`: what it takes connections with.

    One thread at a time.
    """

    def __init__(self, api_address: str, key: bytes | None = None) -> None:
        self._proxies = Proxies(api_address, key)
        self._links: dict[Pair, _Link] = {}
        self._foreign_changes: list[str] = []

    def create_links(self, links: Mapping[tuple[int, int], tuple[str, str]]) -> None:
        """`{(i, j): (listen, upstream)}`, each address host:port. Raises NetworkError, e.g. when a port is taken."""
        for pair, (listen, upstream) in sorted(links.items()):
            self._create(pair, listen, upstream)

    def _create(self, pair: Pair, listen: str, upstream: str) -> None:
        link = _Link(proxy_name(pair), listen, upstream)
        self._proxies.create(link.name, listen, upstream)
        self._links[pair] = link

    def cut(self, pairs: Iterable[Pair], how: str = "timeout", name: str = "cut") -> None:
        """Cut links, including their open connections.

        `timeout`: bytes are dropped silently, connections stay up. `stall`: bytes are held, and released in order if
        the link is healed with `release`. `disable`: connections are closed and refused.
        """
        if how not in _CUT_EFFECTS:
            raise NetworkError(f"{how!r} is no way to cut a link. Allowed: {', '.join(CUTS)}")
        for pair in pairs:
            self._apply(self._link(pair), name, _CUT_EFFECTS[how])

    def disturb(self, pairs: Iterable[Pair], toxics: Iterable[Toxic], name: str, fresh: bool = False) -> None:
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

    def heal(self, pairs: Iterable[Pair], name: str = "cut", release: bool = False) -> None:
        """Take the effect `name` off the links; where it is not, nothing happens.

        `release` lets go of what a stall or a latency holds, in order, by removing the toxics. Only when both ends live
        and none is paused: otherwise the server may wedge. All links are tried even if one fails; then NetworkError.
        """
        self.compare()
        failures = []
        for pair in pairs:
            try:
                self._take_off(self._link(pair), name, release)
            except NetworkError as error:
                failures.append(f"link {proxy_name(pair)}: {error}")
        if failures:
            raise NetworkError("; ".join(failures))

    def heal_all(self) -> None:
        """Restore every link. Links without effects keep their connections. Raises NetworkError."""
        self.compare()
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

    def compare(self) -> None:
        """Compare the server's proxies with those requested, and note every difference for `take_foreign_changes`.

        A link that differs is recreated by the next change to it; a proxy that belongs to no link is deleted. A wedged
        server can't be asked: nothing is noted then, and the healing unwedges it. Any other failure to answer is noted.
        """
        try:
            found = self._proxies.states()
        except WedgedError:
            return
        except NetworkError as error:
            self._foreign_changes.append(f"the links can't be compared with what was asked for: {error}")
            return
        for link in self._links.values():
            state = found.pop(link.name, None)
            if not link.half_made and state != link.asked:
                self._foreign_changes.append(f"link {link.name}: {_difference(state, link.asked)}")
                link.half_made = True
        for name, state in found.items():
            self._foreign_changes.append(
                f"a proxy {name!r} from {state.listen} to {state.upstream}, which was not asked for"
            )
            self._proxies.delete(name)

    def take_foreign_changes(self) -> list[str]:
        """Changes of the links by others since the last call, in words."""
        told, self._foreign_changes = self._foreign_changes, []
        return told

    def toxics(self, pair: Pair) -> list[Toxic]:
        """The toxics of a link, as the server reports them now."""
        found = self._proxies.toxics(self._link(pair).name).values()
        return [Toxic(one["type"], one["stream"], tuple(sorted(one["attributes"].items()))) for one in found]

    def frames(self, pair: Pair, kind: str) -> tuple[int, int]:
        """The number of frames that have met toxics of this kind on a link so far, and of those that these have hit."""
        return self._proxies.frames(self._link(pair).name, kind)

    def broken(self) -> dict[Pair, list[str]]:
        """The affected links, with the names of the effects."""
        return {pair: sorted(link.effects) for pair, link in self._links.items() if link.effects}

    def close(self) -> None:
        """Delete all proxies."""
        for link in self._links.values():
            self._proxies.delete(link.name)
        self._links.clear()

    def _link(self, pair: Pair) -> _Link:
        if pair not in self._links:
            raise NetworkError(f"there is no link {proxy_name(pair)}")
        return self._links[pair]

    def _apply(self, link: _Link, name: str, effect: _Effect) -> None:
        """On the live link if the server can; on a link made anew if it can't (a stopped peer with full pipes)."""
        delicate = link.delicate
        link.effects[name] = effect
        if delicate:
            self._recreate(link)
            return
        link.half_made = True
        try:
            if effect.disables:
                self._proxies.disable(link.name)
            else:
                self._add_toxics(link, name, effect)
            link.half_made = False
        except WedgedError:
            self._recreate(link)

    def _take_off(self, link: _Link, name: str, release: bool) -> None:
        effect = link.effects.pop(name, None)
        if effect is None:
            return
        if link.delicate or effect.disables or not (effect.safe_to_remove or release):
            self._recreate(link)
            return
        link.half_made = True
        try:
            for toxic in effect.toxics:
                self._proxies.remove(link.name, _toxic_name(name, toxic))
            link.half_made = False
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


def proxy_name(pair: Pair) -> str:
    """`1-2`: what its proxy is called."""
    return "-".join(map(str, pair))


def _difference(found: ProxyState | None, asked: ProxyState) -> str:
    """A difference in words: what the server has, and what was requested."""
    if found is None:
        return "its proxy is gone"
    words = [
        f"{what} is {had!r} and was asked to be {wanted!r}"
        for what, had, wanted in (
            ("where it listens", found.listen, asked.listen),
            ("where it leads", found.upstream, asked.upstream),
            ("enabled", found.enabled, asked.enabled),
        )
        if had != wanted
    ]
    words += [f"the toxic {name!r} is missing" for name in asked.toxics if name not in found.toxics]
    words += [f"the toxic {name!r} was not asked for" for name in found.toxics if name not in asked.toxics]
    words += [
        f"the toxic {name!r} is {dict(found.toxics[name])} and was asked to be {dict(toxic)}"
        for name, toxic in asked.toxics.items()
        if name in found.toxics and found.toxics[name] != toxic
    ]
    return "; ".join(words)


def _toxic_name(name: str, toxic: Toxic) -> str:
    return f"{name}.{toxic.kind}.{toxic.stream}"
