"""A toxiproxy that only remembers what it was asked for, for tests of what the networks ask."""

from dataclasses import replace
from typing import Any

from zab_chaos.faults.proxies import NetworkError, Proxies, ProxyState


class ProxiesInMemory(Proxies):
    """Proxies in memory that a test can change behind the network's back.

    `silent`: the error of a request for the states, if it is to fail.
    """

    def __init__(self) -> None:
        self.there: dict[str, ProxyState] = {}
        self.silent: NetworkError | None = None

    def create(self, name: str, listen: str, upstream: str, enabled: bool = True) -> None:
        self.there[name] = ProxyState(listen, upstream, enabled, {})

    def delete(self, name: str) -> None:
        self.there.pop(name, None)

    def enable(self, name: str) -> None:
        self.change(name, enabled=True)

    def disable(self, name: str) -> None:
        self.change(name, enabled=False)

    def add(self, name: str, toxic: str, kind: str, stream: str, attributes: dict[str, int]) -> None:
        made = {"type": kind, "stream": stream, "toxicity": 1.0, "attributes": attributes}
        self.change(name, toxics={**self.there[name].toxics, toxic: made})

    def remove(self, name: str, toxic: str) -> None:
        self.change(name, toxics={key: value for key, value in self.there[name].toxics.items() if key != toxic})

    def states(self) -> dict[str, ProxyState]:
        if self.silent is not None:
            raise self.silent
        return dict(self.there)

    def toxics(self, name: str) -> dict[str, Any]:
        return dict(self.there[name].toxics)

    def change(self, name: str, **changes: Any) -> None:
        self.there[name] = replace(self.there[name], **changes)
