"""The client port of a simulated server: drives `zab_chaos.node.clients.connections` over simulated connections."""

from collections import deque
from typing import TYPE_CHECKING

from zab_chaos.node.clients.connections import Connections
from zab_chaos.node.events import ClientEvent

if TYPE_CHECKING:
    from zab_chaos.model.world.client_connection import ClientConnection
    from zab_chaos.model.world.server import SimServer


class SimClientPort:
    """The client port of one life: its connections, and the frames that the node has not read yet."""

    def __init__(self, server: "SimServer") -> None:
        self.connections: Connections[ClientConnection] = Connections(
            server.plan.limits, lambda connection, frame: connection.deliver(frame)
        )
        self._server = server
        self.inbox: deque[tuple[ClientConnection, bytes]] = deque()
        self._open: list[ClientConnection] = []  # that break if this process dies

    def open(self, connection: "ClientConnection") -> None:
        """Accept a connection, as the operating system does. The process need not have noticed it yet."""
        self._open = [one for one in self._open if not one.closed]
        self._open.append(connection)

    def arrive(self, frame: tuple["ClientConnection", bytes]) -> None:
        """Take a frame, with the connection that it came over."""
        if self._server.alive:
            self.inbox.append(frame)
            self._server.poke()

    def receive(self) -> list[ClientEvent]:
        """Read all frames. Return what has happened to the clients since the last call."""
        while self.inbox:
            connection, frame = self.inbox.popleft()
            connection.read(0)
            self.connections.receive(connection, (frame,))
        return self.connections.fetch()

    def process_stopped(self) -> None:
        """Tell the clients' connections that the process was stopped: they break after a long silence."""
        for connection in self._open:
            connection.node_stopped()

    def process_ended(self) -> None:
        """Break every connection: the process is gone."""
        for connection in self._open:
            connection.break_off()
