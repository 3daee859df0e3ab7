"""The channels of one simulated node: `zab_chaos.node.channel.channels` over simulated pipes instead of ZeroMQ's sockets."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from zab_chaos.model.world.network import Pipe
from zab_chaos.node.channel.channels import LAST_FRAMES_NS

if TYPE_CHECKING:
    from zab_chaos.model.world.server import SimServer


class SimLinks:
    """The pipes of one life. Frames come to the server's inbox; `notices` holds what became of connections."""

    def __init__(
        self, server: "SimServer", peers: Iterable[int], life: int, decoder: msgspec.msgpack.Decoder[Any]
    ) -> None:
        plan = server.plan
        self.notices: list[tuple[Pipe, bool]] = []
        self._server = server
        self._pipes: dict[int, Pipe] = {}
        self.channels = plan.channels(
            me=server.id, cluster=plan.cluster, incarnation=life, peers=peers, limits=plan.limits,
            heartbeat_ms=plan.timing.heartbeat_ms, decoder=decoder, dial=self._dial,
        )  # fmt: skip

    def _dial(self, peer: int) -> Pipe:
        server, plan = self._server, self._server.plan
        wire = server.net.wires[server.id, peer]
        pipe = self._pipes[peer] = Pipe(wire, server, plan.limits.queue_frames, plan.channels.immediate)
        return pipe

    def take_notices(self) -> None:
        """Tell the channels. They come after the frames that were there before them: a killed peer's last words count."""
        notices, self.notices = self.notices, []
        for pipe, connected in notices:
            self._connection(pipe, connected)

    def _connection(self, pipe: Pipe, connected: bool) -> None:
        peer = pipe.wire.target
        if self._pipes[peer] is not pipe:
            return  # it is closed by now
        if connected:
            self.channels.connected(peer)
            return
        self.channels.lost(peer, self._server.world.now)
        if self.channels.losing:
            self._server.wake_in(LAST_FRAMES_NS)

    def die(self, unsent: int) -> None:
        """The process was killed; `unsent`: nanoseconds of what it sent last have not left it."""
        for pipe in self._pipes.values():
            pipe.die(unsent)
