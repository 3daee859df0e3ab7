"""Links that only remember how they are cut, and may count what is sent over them."""

from collections.abc import Callable, Iterable
from typing import Any

from zab_chaos.faults.network import NetworkError, Pair, Traffic


class LinksInMemory:
    """The part of a network that cuts use.

    `counts`: what the proxies have counted, nothing if they do not count. `leaks`: what is sent passes links that are cut.
    `around`: what `detours` returns. `silent`: nothing can be counted. `on_heal` is called before links are healed.
    """

    def __init__(self, on_heal: Callable[[], None] = lambda: None) -> None:
        self.counts: dict[Pair, Traffic] = {}
        self.leaks = False
        self.silent = False
        self.around: dict[Pair, str] = {}
        self._on_heal = on_heal
        self._broken: dict[Pair, list[str]] = {}

    def cut(self, pairs: Iterable[Pair], how: str, name: str) -> None:
        self._broken |= {pair: [name] for pair in pairs}

    def heal(self, pairs: Iterable[Pair], name: str, *, release: bool) -> None:
        self._on_heal()
        self.heal_all()

    def heal_all(self) -> None:
        self._broken.clear()

    def lose(self, pairs: Iterable[Pair]) -> None:
        """Let somebody else heal these links."""
        for pair in pairs:
            del self._broken[pair]

    def broken(self) -> dict[Pair, list[str]]:
        return dict(self._broken)

    def take_foreign_changes(self) -> list[str]:
        return []

    def send(self, pair: Pair, count: int) -> None:
        one = self.counts[pair]
        passes = self.leaks or pair not in self._broken
        self.counts[pair] = Traffic(one.sent + count, one.passed + count * passes)

    def traffic(self) -> dict[Pair, Traffic]:
        if self.silent:
            raise NetworkError("toxiproxy does not answer")
        return dict(self.counts)

    def detours(self) -> dict[Pair, str]:
        return dict(self.around)


def params_of(kind: Any, **given: Any) -> dict[str, Any]:
    """Return the parameters of a fault of this kind: those given, and the defaults of the others."""
    return {key.name: key.default for key in kind.keys} | given
