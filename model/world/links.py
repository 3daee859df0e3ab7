"""The channels of a simulated node to its peers: drives `zab_chaos.node.channel.channels` over simulated pipes."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from zab_chaos.model.world.network import SimPipe
from zab_chaos.node.channel.channels import LAST_FRAMES_NS

if TYPE_CHECKING:
    from zab_chaos.model.world.server import SimServer


class SimLinks:
    """The channels and pipes of one life. Frames arrive in the server's inbox.

    `connection_changes`: (pipe, whether it is connected now) for changes that the channels have not been told yet.
    """

    def __init__(
        self, server: "SimServer", peers: Iterable[int], life: int, decoder: msgspec.msgpack.Decoder[Any]
    ) -> None:
        plan = server.plan
        self.connection_changes: list[tuple[SimPipe, bool]] = []
        self._server = server
        self._pipes: dict[int, SimPipe] = {}
        self.channels = plan.parts.channels(
            me=server.id, cluster=plan.cluster, incarnation=life, peers=peers, limits=plan.limits,
            heartbeat_ms=plan.timing.heartbeat_ms, decoder=decoder, dial=self._dial,
        )  # fmt: skip

    def _dial(self, peer: int) -> SimPipe:
        server, plan = self._server, self._server.plan
        proxy = server.net.proxies[server.id, peer]
        pipe = self._pipes[peer] = SimPipe(proxy, server, plan.limits.queue_frames, plan.parts.channels.immediate)
        return pipe

    def apply_connection_changes(self) -> None:
        """Tell the channels which connections were made and lost. Call it after the frames that arrived before were received:
        the last frames of a killed peer count."""
        connection_changes, self.connection_changes = self.connection_changes, []
        for pipe, connected in connection_changes:
            self._apply(pipe, connected)

    def _apply(self, pipe: SimPipe, connected: bool) -> None:
        peer = pipe.proxy.target
        if self._pipes[peer] is not pipe:
            return  # this pipe was replaced meanwhile
        if connected:
            self.channels.connected(peer)
            return
        self.channels.lost(peer, self._server.world.now)
        if self.channels.losing:
            self._server.wake_in(LAST_FRAMES_NS)

    def process_ended(self, unsent: int) -> None:
        """Close all pipes, as the end of the process does. `unsent`: see `SimPipe.process_ended`."""
        for pipe in self._pipes.values():
            pipe.process_ended(unsent)
