"""The clients' port of one simulated server: `zab_chaos.node.net.clients` without sockets."""

from collections import deque
from typing import TYPE_CHECKING, Any

from zab_chaos.node.events import ClientEvent, ClientGone, ClientRequests, ClientUp
from zab_chaos.node.tree.outcomes import Outcome

if TYPE_CHECKING:
    from zab_chaos.model.world.clients import SimClient
    from zab_chaos.model.world.server import SimServer


TICK_NS = 1_000_000_000  # as zab_chaos.node.net.clients has it


class SimPort:
    """Knows each client by the connection that it came over last; a connection is a client's count of its attempts."""

    def __init__(self, server: "SimServer") -> None:
        self._server = server
        self._inbox: deque[tuple[str, SimClient, int, Any]] = deque()
        self._clients: dict[int, tuple[SimClient, int]] = {}
        self._connected: list[tuple[SimClient, int]] = []  # whoever would notice if this process died
        self._events: list[ClientEvent] = []
        self.pending = False  # `receive` has something
        self._tick_ns = 0

    def connect(self, client: "SimClient", attempt: int) -> None:
        """A connection stands, as far as the machine is concerned; the process need not have noticed."""
        self._connected = [one for one in self._connected if one[0] is not client]
        self._connected.append((client, attempt))

    def arrive(self, what: tuple[str, "SimClient", int, Any]) -> None:
        """hello (last zxid seen, fence), requests ([(seq, request)]) or bye."""
        if self._server.alive:
            self._inbox.append(what)
            self.pending = True
            self._server.poke()

    def receive(self) -> list[ClientEvent]:
        while self._inbox:
            self._take(*self._inbox.popleft())
        events, self._events = self._events, []
        self.pending = False
        return events

    def _take(self, kind: str, client: "SimClient", attempt: int, content: Any) -> None:
        known = self._clients.get(client.number)
        if kind == "hello":
            self._clients[client.number] = (client, attempt)
            self._events.append(ClientUp(client.number, *content))
            self._say(client, attempt, "welcome", None)
        elif known is None or known[1] != attempt:
            if kind != "bye":
                self._say(client, attempt, "rejected", "requests came before HELLO")
        elif kind == "requests":
            self._events.append(ClientRequests(client.number, content))
        else:
            del self._clients[client.number]
            self._events.append(ClientGone(client.number, "it said BYE"))

    def send(self, client: int, answers: list[tuple[int, Outcome]]) -> None:
        found = self._clients.get(client)
        if found is not None and not self._lost(*found):
            self._say(*found, "answers", answers)

    def tick(self, now_ns: int) -> None:
        """Once a second: look which clients are gone."""
        if now_ns >= self._tick_ns:
            self._tick_ns = now_ns + TICK_NS
            for found in list(self._clients.values()):
                self._lost(*found)

    def _lost(self, client: "SimClient", attempt: int) -> bool:
        """Forget a client whose connection is gone. ROUTER_MANDATORY tells it to whoever sends."""
        if client.attempt == attempt:
            return False
        del self._clients[client.number]
        self._events.append(ClientGone(client.number, "its connection is gone"))
        self.pending = True
        return True

    def drop(self, client: int, why: str) -> None:
        found = self._clients.pop(client, None)
        if found is not None:
            self._say(*found, "rejected", why)

    def _say(self, client: "SimClient", attempt: int, what: str, content: Any) -> None:
        client.tell(attempt, what, content)

    def asleep(self) -> None:
        """The process was stopped: its clients' heartbeats will find out."""
        for client, attempt in self._connected:
            client.silence(attempt, self._server)

    def die(self) -> None:
        """Every connection breaks."""
        for client, attempt in self._connected:
            client.tell(attempt, "broken", "the connection broke")
