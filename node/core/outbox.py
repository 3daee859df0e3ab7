"""What the core asks of its driver, gathered until `take` hands it out as one Ready.

Two rules govern the core. It does no I/O: everything that must happen goes through here. And it promises nothing before it
is durable: an effect that needs the disk waits here until `synced` covers its record.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from zab_chaos.node.core.errors import SanityCheckFailed
from zab_chaos.node.core.messages import Message
from zab_chaos.node.core.ready import Deliver, Event, Install, Ready, Record


class Outbox:
    """The Ready that is being filled, and the effects that wait for the disk. `links`: the peers with an open session."""

    def __init__(self, links: set[int]) -> None:
        self._links = links
        self._ready = Ready()
        self._effects: deque[tuple[int, Callable[[], None]]] = deque()

    def send(self, peer: int, message: Message) -> None:
        if peer in self._links:
            self._ready.messages.append((peer, message))

    def send_after_sync(self, peer: int, message: Message) -> None:
        if peer in self._links:
            self._ready.messages_after_sync.append((peer, message))

    def send_all(self, message: Message) -> None:
        for peer in sorted(self._links):
            self._ready.messages.append((peer, message))

    def close(self, peer: int) -> None:
        """Ask for the session with `peer` to be closed, and drop the messages that were to be sent in it."""
        ready = self._ready
        ready.resets.append(peer)
        ready.messages = [m for m in ready.messages if m[0] != peer]
        ready.messages_after_sync = [m for m in ready.messages_after_sync if m[0] != peer]

    def record(self, record: Record, effect: Callable[[], None] | None = None) -> None:
        """Ask for a log record; `effect` runs when it is durable."""
        self._ready.records.append(record)
        if effect is not None:
            self._effects.append((self._ready.upto + len(self._ready.records), effect))

    def deliver(self, delivery: Deliver | Install) -> None:
        self._ready.deliveries.append(delivery)

    def event(self, name: str, **fields: Any) -> None:
        self._ready.events.append(Event(name, fields))

    def event_after_sync(self, name: str, **fields: Any) -> None:
        self._ready.events_after_sync.append(Event(name, fields))

    def abort(self, why: str) -> None:
        self._ready.abort = why

    @property
    def waiting(self) -> int:
        """How many effects wait for the disk."""
        return len(self._effects)

    def synced(self, upto: int) -> None:
        """Run the effects of the first `upto` records, which are durable. If one fails a check, the node ends."""
        try:
            while self._effects and self._effects[0][0] <= upto:
                self._effects.popleft()[1]()
        except SanityCheckFailed as error:
            self.abort(str(error))

    def take(self) -> Ready | None:
        """Return what has gathered since the last call, or None if there is nothing."""
        ready = self._ready
        if not (
            ready.messages
            or ready.records
            or ready.deliveries
            or ready.events
            or ready.messages_after_sync
            or ready.resets
            or ready.events_after_sync
            or ready.abort
        ):
            return None
        if ready.records:
            ready.upto += len(ready.records)
        self._ready = Ready(upto=ready.upto)
        return ready
