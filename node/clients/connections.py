"""The clients' connections to one node, sans-I/O: which clients are connected, what they are sent, what is refused.

Bytes are decoded here, and nothing malformed gets further. A ROUTER can't close the connection of one client. So a client
is "dropped" by sending it the reason (REJECTED) and forgetting it: it gets nothing more, and what it sends is refused until
it begins again with HELLO. A client that is gone, and one that does not read, are noticed when something is sent to them.
So that they are noticed anyway, `tick` sends each client an empty answer once a second.

A ROUTER drives it in a real node (`zab_chaos.node.net.clients`), the simulated connections in the simulator
(`zab_chaos.model.world.client_port`).
"""

from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from typing import Generic, TypeVar

import msgspec

from zab_chaos.node.clients.protocol import (
    BATCH_BYTES,
    FORGOTTEN,
    UNREAD,
    VERSION,
    Answers,
    Bye,
    Hello,
    Rejected,
    Requests,
    Welcome,
    decode_from_client,
    encode,
)
from zab_chaos.node.config import Limits
from zab_chaos.node.events import ClientEvent, ClientGone, ClientRequests, ClientUp, Refused
from zab_chaos.node.refusal_counter import REPORT_NS, RefusalCounter
from zab_chaos.node.tree.outcomes import Outcome
from zab_chaos.node.tree.refusal import brief

CLIENTS_MAX = 4096  # connections; each one costs a queue in ZeroMQ and a session
FRAME_REQUESTS = 4  # the room in a frame beside a full batch, in multiples of the largest request
FRAME_HARD = 4  # in multiples of that: where the transport cuts the connection without a word
TICK_NS = REPORT_NS  # a client that is gone is noticed after this time
_PROBE = encode(Answers([]))

Identity = TypeVar("Identity", bound=Hashable)


class Delivery(Enum):
    """The result of sending a frame to a client."""

    SENT = "sent"
    FULL = "full"  # the queue to the client is full
    GONE = "gone"  # the connection does not exist any more


def frame_limit(limits: Limits) -> int:
    """Return the largest size of a client's frame in bytes. A client knows no node's limits, so each accepts a full batch."""
    return BATCH_BYTES + FRAME_REQUESTS * limits.request_bytes


class Connections(Generic[Identity]):
    """The clients of one node by the identity of their connection. `deliver` sends a frame there, and never blocks."""

    def __init__(self, limits: Limits, deliver: Callable[[Identity, bytes], Delivery]) -> None:
        self.refusals = RefusalCounter()
        self.unreported: list[ClientEvent] = []  # for `fetch`
        self._deliver = deliver
        self._frame_bytes = frame_limit(limits)
        self._clients: dict[Identity, int] = {}
        self._identities: dict[int, Identity] = {}
        self.tick_at = 0  # when `tick` will have something to do

    def fetch(self) -> list[ClientEvent]:
        """Return the events since the last call. Call it in every round: `send` and `tick` notice things too."""
        events, self.unreported = self.unreported, []
        return events

    def leftovers(self) -> dict[str, int]:
        """Return how many connections are known, and how many clients have one. Without clients there must be none."""
        return {"connections": len(self._clients), "connected clients": len(self._identities)}

    def receive(self, identity: Identity, parts: Sequence[bytes]) -> None:
        """Process one message."""
        if len(parts) != 1:
            return self._reject(identity, f"a message has {len(parts)} parts; it must have one")
        if len(parts[0]) > self._frame_bytes:
            return self._reject(
                identity, f"a message has {len(parts[0])} bytes; at most {self._frame_bytes} are allowed"
            )
        try:
            message = decode_from_client(parts[0])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return self._reject(identity, f"a message is malformed: {brief(str(error))}")
        if type(message) is Hello:
            return self._hello(identity, message)
        client = self._clients.get(identity)
        if client is None:
            if type(message) is not Bye:
                self._reject(identity, FORGOTTEN)
        elif type(message) is Requests:
            self.unreported.append(ClientRequests(client, message.items))
        else:
            self._lose(identity, "it said BYE")
        return None

    def send(self, client: int, answers: list[tuple[int, Outcome]]) -> None:
        """Send answers. A client that is gone, or whose queue is full, is dropped, and `fetch` reports it."""
        identity = self._identities.get(client)
        if identity is not None:
            self._send(identity, encode(Answers(answers)))

    def drop(self, client: int, why: str) -> None:
        """Send a client the reason, and forget it. No event: the caller knows."""
        identity = self._identities.get(client)
        if identity is not None:
            self._count(why)
            self._tell(identity, why)
            self._forget(identity)

    def tick(self, now_ns: int) -> bool:
        """Once a second, find clients that are gone and report refusals. Return whether it did."""
        if now_ns < self.tick_at:
            return False
        self.tick_at = now_ns + TICK_NS
        self.report(self.refusals.due(now_ns))
        self._sweep()
        return True

    def report(self, refused: Sequence[Refused]) -> None:
        """Return these events with the next `fetch`."""
        self.unreported.extend(refused)

    def _hello(self, identity: Identity, hello: Hello) -> None:
        if hello.version != VERSION:
            words = f"this node speaks version {VERSION} of the clients' protocol, the client version {hello.version}"
            return self._reject(identity, words)
        if len(self._clients) >= CLIENTS_MAX and identity not in self._clients:
            self._sweep()
        if len(self._clients) >= CLIENTS_MAX and identity not in self._clients:
            return self._reject(identity, f"there are {CLIENTS_MAX} clients already; try another node")
        older = self._identities.get(hello.client)
        if older is not None and older != identity:
            self._tell(older, "the client has connected again")
            self._forget(older)
        if self._clients.get(identity, hello.client) != hello.client:
            self._lose(identity, "the connection changed its client number")
        self._clients[identity] = hello.client
        self._identities[hello.client] = identity
        self.unreported.append(ClientUp(hello.client, hello.seen, hello.fence))
        self._send(identity, encode(Welcome()))
        return None

    def _reject(self, identity: Identity, why: str) -> None:
        self._count(why)
        self._tell(identity, why)
        self._lose(identity, why)

    def _count(self, why: str) -> None:
        report = self.refusals.add("client", why, None)
        if report is not None:
            self.unreported.append(report)

    def _tell(self, identity: Identity, why: str) -> None:
        self._deliver(identity, encode(Rejected(why)))  # the result does not matter: the client is being dropped

    def _send(self, identity: Identity, frame: bytes) -> None:
        delivery = self._deliver(identity, frame)
        if delivery is Delivery.FULL:
            self._count("a client does not read its answers; its queue is full")
            self._lose(identity, UNREAD)
        elif delivery is Delivery.GONE:
            self._lose(identity, "its connection is gone")

    def _lose(self, identity: Identity, why: str) -> None:
        client = self._clients.get(identity)
        if client is not None:
            self._forget(identity)
            self.unreported.append(ClientGone(client, why))

    def _forget(self, identity: Identity) -> None:
        client = self._clients.pop(identity)
        if self._identities.get(client) == identity:
            del self._identities[client]

    def _sweep(self) -> None:
        """Find clients that left without BYE: an empty answer can't be sent to them."""
        for identity in list(self._clients):
            self._send(identity, _PROBE)
