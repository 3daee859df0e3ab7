"""The network of a run: one toxiproxy proxy for each link, with cuts and toxics.

Link (i, j) carries what i sends to j; its proxy is `i-j`, and the data flow in toxiproxy's "upstream" stream. The other
stream of that TCP connection carries only ZeroMQ's handshake, so a cut takes both, and cutting (i, j) alone is a
one-way partition: what j sends to i travels through proxy `j-i`.

Each fault puts a named *effect* on a link, so one link can have several effects, which are healed separately. Healing does
only what was measured to be safe (500 and 300 tries under kill races): `timeout` toxics are removed if the link has no other
effect, and those of a stall to release what it holds; all others are removed by deleting the proxy and creating it again on
the same port, with the effects that remain. That also frees a wedged server. Unless something is released, the link's
connections are closed either way. (If other toxics stayed, one of them could delay that end of a connection. toxiproxy 2.12.0
keeps a removed `timeout` toxic in such a connection, and a second one and then a new toxic make it panic.)
A link that stays stalled is always recreated: to add or remove a toxic the server interrupts the last one, and an
interrupted stall releases what it holds.

The server obeys any client that can connect. So the network keeps what it requested for each link, and before each healing
compares that with what the server has (`compare`). Differences were made by others: they are reported
(`take_foreign_changes`) and undone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from zab_chaos.faults.proxies import MissingError, NetworkError, Proxies, ProxyState, ReadBackError, WedgedError

__all__ = ["CUTS", "MissingError", "Network", "NetworkError", "ReadBackError", "Toxic", "Traffic", "WedgedError"]

DELETES = 5  # tries to delete a proxy; each may take `proxies.SECONDS`
BOTH = ("upstream", "downstream")

Pair = tuple[int, ...]  # (from, to); more numbers follow where a link consists of several proxies


@dataclass(frozen=True, slots=True)
class Toxic:
    """A toxic on one stream of a proxy. `kind` and `attributes` (integers) are named as in toxiproxy."""

    kind: str
    stream: str
    attributes: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one link has carried so far: the bytes that were sent into its proxies, and those that have passed them."""

    sent: int
    passed: int


@dataclass(frozen=True, slots=True)
class _Effect:
    """What one fault does to a link."""

    toxics: tuple[Toxic, ...] = ()
    disables: bool = False

    @property
    def stalls(self) -> bool:
        return any(toxic.kind == "bandwidth" and ("rate", 0) in toxic.attributes for toxic in self.toxics)

    @property
    def resets(self) -> bool:
        return any(toxic.kind == "reset_peer" for toxic in self.toxics)

    @property
    def safe_to_remove(self) -> bool:
        return not self.disables and all(toxic.kind == "timeout" for toxic in self.toxics)


_CUT_EFFECTS = {
    "timeout": _Effect(tuple(Toxic("timeout", stream, (("timeout", 0),)) for stream in BOTH)),
    "stall": _Effect(tuple(Toxic("bandwidth", stream, (("rate", 0),)) for stream in BOTH)),
    "disable": _Effect(disables=True),
}
CUTS = tuple(_CUT_EFFECTS)


def cut_effect(how: str) -> _Effect:
    """Return what cutting a link in this way does to it; see `Network.cut`. Raises NetworkError if there is no such way."""
    if how not in _CUT_EFFECTS:
        raise NetworkError(f"{how!r} is no way to cut a link. Allowed: {', '.join(CUTS)}")
    return _CUT_EFFECTS[how]


@dataclass(slots=True)
class _Link:
    """A link's proxy and the effects on it, by name."""

    name: str
    listen: str
    upstream: str
    effects: dict[str, _Effect] = field(default_factory=dict)
    # A change failed, or was not ours: the state of the proxy, and whether it exists, is not known.
    uncertain: bool = False

    @property
    def requested(self) -> ProxyState:
        """The state of the proxy as it was requested."""
        disabled = any(effect.disables for effect in self.effects.values())
        toxics = {
            _toxic_name(name, one): {
                "type": one.kind, "stream": one.stream, "toxicity": 1.0, "attributes": dict(one.attributes)
            }
            for name, effect in self.effects.items() for one in effect.toxics
        }  # fmt: skip
        return ProxyState(self.listen, self.upstream, not disabled, toxics)

    @property
    def must_be_recreated(self) -> bool:
        """Whether the proxy must not be changed, but deleted and created again."""
        return self.uncertain or any(effect.stalls for effect in self.effects.values())


class Network:
    """All links of a run, which go through `proxies`. Not thread-safe."""

    def __init__(self, proxies: Proxies) -> None:
        self._proxies = proxies
        self._links: dict[Pair, _Link] = {}
        self._foreign_changes: list[str] = []

    @property
    def hangs(self) -> bool:
        """Whether the server hangs, so that no link can be changed any more."""
        return self._proxies.hangs

    def create_links(self, links: Mapping[tuple[int, int], tuple[str, str]]) -> None:
        """Create a proxy for each link. `links`: {(i, j): (listen, upstream)}, addresses as host:port.

        Raises NetworkError, for example if a port is in use.
        """
        for pair, (listen, upstream) in sorted(links.items()):
            self._create(pair, listen, upstream)

    def _create(self, pair: Pair, listen: str, upstream: str) -> None:
        link = _Link(proxy_name(pair), listen, upstream)
        self._proxies.create(link.name, listen, upstream)
        self._links[pair] = link

    def cut(self, pairs: Iterable[Pair], how: str = "timeout", name: str = "cut") -> None:
        """Cut links, including their open connections.

        `timeout`: bytes are dropped silently, connections stay open. `stall`: bytes are held back, and released in order if
        the link is healed with `release`. `disable`: connections are closed and refused.
        """
        effect = cut_effect(how)
        for pair in pairs:
            self._apply(self._link(pair), name, effect)

    def disturb(self, pairs: Iterable[Pair], toxics: Iterable[Toxic], name: str, fresh: bool = False) -> None:
        """Put toxics on links. With `fresh`, open connections are closed first, so that the toxics affect all traffic from
        the first byte on (`reset_peer` resets only connections that are opened after it was added)."""
        effect = _Effect(tuple(toxics))
        for rate in (value for toxic in effect.toxics for attribute, value in toxic.attributes if attribute == "rate"):
            if rate < 0:  # the server would panic, and all links be lost
                raise NetworkError(f"a bandwidth of {rate} KB/s would end the toxiproxy server; 0 stalls")
        for pair in pairs:
            link = self._link(pair)
            if fresh:
                link.effects[name] = effect
                self._recreate(link)
            else:
                self._apply(link, name, effect)

    def heal(self, pairs: Iterable[Pair], name: str = "cut", release: bool = False) -> None:
        """Remove the effect `name` from those of the links that have it.

        `release`: what a stall holds back is delivered in order. Only while both ends of each link are running: otherwise
        the server may wedge. So it may while connections are reset; then nothing is released. All links are tried, even if one
        fails; NetworkError is raised at the end.
        """
        self.compare()
        failures = []
        for pair in pairs:
            try:
                self._remove(self._link(pair), name, release)
            except NetworkError as error:
                failures.append(f"link {proxy_name(pair)}: {error}")
        if failures:
            raise NetworkError("; ".join(failures))

    def heal_all(self) -> None:
        """Remove all effects from all links. Links without effects keep their connections. Raises NetworkError."""
        self.compare()
        failures = []
        for link in self._links.values():
            if link.effects or link.uncertain:
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
            if not link.uncertain and state != link.requested:
                self._foreign_changes.append(f"link {link.name}: {_difference(state, link.requested)}")
                link.uncertain = True
        for name, state in found.items():
            self._foreign_changes.append(
                f"a proxy {name!r} from {state.listen} to {state.upstream}, which was not asked for"
            )
            self._proxies.delete(name)

    def take_foreign_changes(self) -> list[str]:
        """Return in words how others have changed the links since the last call."""
        changes, self._foreign_changes = self._foreign_changes, []
        return changes

    def toxics(self, pair: Pair) -> list[Toxic]:
        """Return the toxics of a link as the server reports them now."""
        found = self._proxies.toxics(self._link(pair).name).values()
        return [Toxic(one["type"], one["stream"], tuple(sorted(one["attributes"].items()))) for one in found]

    def frames(self, pair: Pair, kind: str) -> tuple[int, int]:
        """Return how many frames passed toxics of this kind on a link so far, and how many of them were hit."""
        return self._proxies.frames(self._link(pair).name, kind)

    def traffic(self) -> Mapping[Pair, Traffic]:
        """Return what each link has carried; nothing if the proxies do not count, because the nodes do. Raises NetworkError."""
        return {}

    def detours(self) -> Mapping[Pair, str]:
        """Return the links that a connection avoids at this moment, with words for it, if that can be seen. Raises
        NetworkError."""
        return {}

    def broken(self) -> dict[Pair, list[str]]:
        """Return the links that have effects, with the names of these."""
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
        """Put an effect on a link: change its proxy or, if the server can't (a stopped peer, full pipes), recreate it."""
        recreate = link.must_be_recreated
        link.effects[name] = effect
        if recreate:
            self._recreate(link)
            return
        link.uncertain = True
        try:
            if effect.disables:
                self._proxies.disable(link.name)
            else:
                self._add_toxics(link, name, effect)
            link.uncertain = False
        except WedgedError:
            self._recreate(link)

    def _remove(self, link: _Link, name: str, release: bool) -> None:
        effect = link.effects.pop(name, None)
        if effect is None:
            return
        release = release and effect.stalls and not any(other.resets for other in link.effects.values())
        removable = release or (effect.safe_to_remove and not link.effects)
        if link.must_be_recreated or not removable:
            self._recreate(link)
            return
        link.uncertain = True
        try:
            for toxic in effect.toxics:
                self._proxies.remove(link.name, _toxic_name(name, toxic))
            link.uncertain = False
        except WedgedError:
            self._recreate(link)

    def _add_toxics(self, link: _Link, name: str, effect: _Effect) -> None:
        for toxic in effect.toxics:
            self._proxies.add(link.name, _toxic_name(name, toxic), toxic.kind, toxic.stream, dict(toxic.attributes))

    def _recreate(self, link: _Link) -> None:
        """Delete a link's proxy and create it again on the same port. The effects are put on while it is disabled, so that no
        byte passes without them."""
        link.uncertain = True
        self._delete(link)
        self._proxies.create(link.name, link.listen, link.upstream, enabled=not link.effects)
        for name, effect in link.effects.items():
            self._add_toxics(link, name, effect)
        if link.effects and not any(effect.disables for effect in link.effects.values()):
            self._proxies.enable(link.name)
        link.uncertain = False

    def _delete(self, link: _Link) -> None:
        """Delete a link's proxy, which may be gone already. Try again if the server does not answer.

        The server deletes a proxy only after it has finished connecting for it. That takes seconds if the other end is a
        container that has just vanished.
        """
        for _ in range(DELETES - 1):
            try:
                return self._proxies.delete(link.name)
            except WedgedError:
                continue
        return self._proxies.delete(link.name)


def proxy_name(pair: Pair) -> str:
    """Return the name of a link's proxy: `1-2`."""
    return "-".join(map(str, pair))


def _difference(found: ProxyState | None, requested: ProxyState) -> str:
    """Return in words how the state that the server has differs from the requested one."""
    if found is None:
        return "its proxy is gone"
    words = [
        f"{what} is {had!r} and was asked to be {wanted!r}"
        for what, had, wanted in (
            ("its listen address", found.listen, requested.listen),
            ("its upstream address", found.upstream, requested.upstream),
            ("enabled", found.enabled, requested.enabled),
        )
        if had != wanted
    ]
    words += [f"the toxic {name!r} is missing" for name in requested.toxics if name not in found.toxics]
    words += [f"the toxic {name!r} was not asked for" for name in found.toxics if name not in requested.toxics]
    words += [
        f"the toxic {name!r} is {dict(found.toxics[name])} and was asked to be {dict(toxic)}"
        for name, toxic in requested.toxics.items()
        if name in found.toxics and found.toxics[name] != toxic
    ]
    return "; ".join(words)


def _toxic_name(name: str, toxic: Toxic) -> str:
    return f"{name}.{toxic.kind}.{toxic.stream}"
