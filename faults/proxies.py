"""The proxies of the links: what faults ask of them, whoever runs them, toxiproxy or the simulated world."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class NetworkError(Exception):
    """toxiproxy did not execute a request."""


class WedgedError(NetworkError):
    """No answer in time: the server is wedged, as when a peer dies while its link is changed. Recreating the proxy helps."""


class ReadBackError(NetworkError):
    """The server created a proxy or toxic with other values than requested."""


class MissingError(NetworkError):
    """The server has no such proxy or toxic."""


@dataclass(frozen=True, slots=True)
class ProxyState:
    """The state of a proxy: its addresses, and its toxics by name (type, stream, toxicity, attributes)."""

    listen: str
    upstream: str
    enabled: bool
    toxics: Mapping[str, Mapping[str, Any]]


class Proxies(ABC):
    """The proxies of a run, by their names. Methods raise NetworkError."""

    @property
    def hangs(self) -> bool:
        """Whether their server has not answered for so long that nothing is asked any more."""
        return False

    @abstractmethod
    def create(self, name: str, listen: str, upstream: str, enabled: bool = True) -> None:
        """Create a proxy."""

    @abstractmethod
    def states(self) -> dict[str, ProxyState]:
        """Return the states of all proxies by name. Raises WedgedError while any of them is wedged."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a proxy and close its connections. It may be gone already."""

    @abstractmethod
    def enable(self, name: str) -> None:
        """Accept connections again."""

    @abstractmethod
    def disable(self, name: str) -> None:
        """Refuse new connections and close the open ones."""

    @abstractmethod
    def add(self, name: str, toxic: str, kind: str, stream: str, attributes: dict[str, int]) -> None:
        """Add a toxic, and read it back. Raises ReadBackError (the toxic is removed again) or NetworkError."""

    @abstractmethod
    def remove(self, name: str, toxic: str) -> None:
        """Remove a toxic, which may be gone already. Only `timeout` toxics are safe to remove at any time."""

    @abstractmethod
    def toxics(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the toxics that a proxy really has, by name: type, stream, toxicity, attributes."""

    def frames(self, name: str, kind: str) -> tuple[int, int]:
        """Return how many frames passed toxics of this kind on a proxy so far, and how many of them were hit.

        Only simulated proxies can count frames.
        """
        raise NetworkError(f"toxiproxy moves bytes and knows no frames, so it has no {kind} on {name}")
