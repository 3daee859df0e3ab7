"""The clients' port of one simulated server: `zab_chaos.node.clients.connections` over simulated connections."""

from collections import deque
from typing import TYPE_CHECKING

from zab_chaos.node.clients.connections import Connections
from zab_chaos.node.events import ClientEvent

if TYPE_CHECKING:
    from zab_chaos.model.world.client_connection import ClientConnection
    from zab_chaos.model.world.server import SimServer


class SimPort:
    """Where the connections of one life end."""

    def __init__(self, server: "SimServer") -> None:
        self.connections: Connections[ClientConnection] = Connections(
            server.plan.limits, lambda connection, frame: connection.deliver(frame)
        )
        self._server = server
        self.inbox: deque[tuple[ClientConnection, bytes]] = deque()
        self._open: list[ClientConnection] = []  # whoever would notice if this process died

    def open(self, connection: "ClientConnection") -> None:
        """A connection stands, as far as the machine is concerned; the process need not have noticed."""
        self._open = [one for one in self._open if not one.closed]
        self._open.append(connection)

    def arrive(self, what: tuple["ClientConnection", bytes]) -> None:
        """A frame, and the connection that it came over."""
        if self._server.alive:
            self.inbox.append(what)
            self._server.poke()

    def receive(self) -> list[ClientEvent]:
        while self.inbox:
            connection, frame = self.inbox.popleft()
            self.connections.receive(connection, (frame,))
        return self.connections.fetch()

    def asleep(self) -> None:
        """The process was stopped: its clients' heartbeats will find out."""
        for connection in self._open:
            connection.fall_silent()

    def die(self) -> None:
        """Every connection breaks."""
        for connection in self._open:
            connection.end()
