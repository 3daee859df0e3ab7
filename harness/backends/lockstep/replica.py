"""The replica of a simulated server whose node is a process: each step is a request to that process.

The effects of a step on the world are applied here, in the order in which the process requested them. So the world draws the
same delays, in the same order, as if the node's code ran here.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from zab_chaos.model.world.server import Died
from zab_chaos.node.channel import frame
from zab_chaos.node.channel.header import FrameHeader, FrameKind
from zab_chaos.node.channel.runs import ChannelRun
from zab_chaos.node.commands import CommandError
from zab_chaos.node.events import ClientEvent, LinkEvent, Received
from zab_chaos.node.lockstep import wire
from zab_chaos.node.lockstep.wire import LockstepAnswer, NodeStatus, StopPoint, Timestamps

if TYPE_CHECKING:
    from zab_chaos.harness.backends.lockstep.server import LockstepServer


class RemoteReplica:
    """Implements `zab_chaos.model.world.interfaces.ReplicaInterface`. `status`: of the node, at its process's last answer."""

    def __init__(self, server: "LockstepServer") -> None:
        self.status = NodeStatus()
        self._server = server
        self._cluster = frame.cluster_hash(server.config.cluster)
        self._limit = server.config.limits.frame_bytes
        channels, clients, clock = server.channels, server.port.connections, server.clock
        self._effects: dict[type, Callable[[Any], None]] = {
            wire.SendEffect: self._send,
            wire.ResetEffect: lambda effect: channels.reset(effect.peer, effect.why),
            wire.AnswersEffect: lambda effect: clients.send(effect.client, effect.items),
            wire.DropEffect: lambda effect: clients.drop(effect.client, effect.why),
            wire.SpendEffect: lambda effect: server.disk.spend(effect.slow_ms),
            wire.RateEffect: lambda effect: setattr(clock, "rate", effect.rate),
            wire.JumpEffect: lambda effect: clock.jump(effect.nanoseconds),
            wire.SettleEffect: lambda effect: server.settle(),
            wire.StopEffect: lambda effect: server.end_after_round(effect.why),
        }

    @property
    def in_broadcast(self) -> bool:
        return self.status.in_broadcast

    def wakes_at(self, now: int) -> int:
        core, application = self.status.wakes_at, self.status.patience
        return application if application is not None and now < application < core else core

    # ---- the rounds ----

    def boot(self) -> None:
        """Let the process recover its state. Raises Died."""
        server = self._server
        self.ask(wire.BootRequest(self.timestamps(), server.node.pid(server.life)))

    def start(self, now: int) -> Iterator[None]:
        return self._steps(wire.StartRequest(self.timestamps(now)))

    def round(self, time: int, frames: Sequence[LinkEvent], clients: Sequence[ClientEvent]) -> Iterator[None]:
        links = [self._frame(event) if isinstance(event, Received) else event for event in frames]
        return self._steps(wire.RoundRequest(self.timestamps(time), links, list(clients)))

    def trace_channels(self, runs: list[ChannelRun]) -> None:
        """Have the process write its trace, with these runs."""
        self.ask(wire.ChannelsRequest(self.timestamps(), runs))

    def _steps(self, request: wire.LockstepRequest) -> Iterator[None]:
        answer = self.ask(request)
        while answer.stop is not StopPoint.OVER:
            if answer.stop is StopPoint.SYNCING:
                self._server.disk.slow_ms = answer.slow_ms
                yield
            else:
                self._server.pause_here()
            answer = self.ask(wire.GoOnRequest(self.timestamps()))

    # ---- requests ----

    def ask(self, request: wire.LockstepRequest) -> LockstepAnswer:
        """Send a request, apply the effects of the answer to the world, and return the answer. Raises Died, OutOfStep."""
        server = self._server
        answer = server.hub.ask(server.process, request)
        server.world.last_stamp = answer.stamp
        self.status = answer.status
        for effect in answer.effects:
            self._effects[type(effect)](effect)
        if answer.stop is StopPoint.DEAD:
            raise Died
        if answer.stop is StopPoint.ENDED:
            raise Died(answer.code)
        return answer

    def timestamps(self, now: int | None = None) -> Timestamps:
        """Return the world's time, the node's clock and the last stamp.

        `now`: the reading of the node's clock, if it was read already: reading changes a clock that was set back.
        """
        world = self._server.world
        shown = copy.copy(self._server.clock).now_ns() if now is None else now
        return Timestamps(world.now, shown, world.last_stamp)

    def _send(self, effect: wire.SendEffect) -> None:
        """Hand a frame of the process to the world, which carries its payload and numbers it within a session."""
        try:
            frame.parse(effect.frame, self._cluster, effect.peer, self._limit)
        except frame.BadFrame as error:
            raise self._server.hub.out_of_step(self._server.process, f"sent an invalid frame: {error.reason}") from None
        payload: Any = msgspec.Raw(effect.frame[frame.HEADER_BYTES :])  # is encoded to the same bytes as the messages
        self._server.channels.send(effect.peer, payload)

    def _frame(self, event: Received) -> wire.Frame:
        header = FrameHeader(self._cluster, FrameKind.MESSAGES, event.peer, self._server.id, 0, 0, 0, 0)
        return wire.Frame(event.peer, frame.pack(header, event.messages))


class RemoteCommands:
    """Implements `zab_chaos.model.world.interfaces.CommandsInterface`, and `CrashPointsInterface`."""

    def __init__(self, server: "LockstepServer", replica: RemoteReplica) -> None:
        self._server = server
        self._replica = replica

    @property
    def pausing(self) -> bool:
        return self._replica.status.pausing

    def handle(self, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        frames = self._server.channels.frames
        answer = self._replica.ask(wire.CommandRequest(self._replica.timestamps(), command, arguments, frames))
        if answer.refused is not None:
            raise CommandError(answer.refused)
        return answer.reply or {}

    def due(self, now: int) -> None:
        at = self.wakes_at()
        if at is not None and now >= at:
            self._replica.ask(wire.DueRequest(self._replica.timestamps(now)))

    def wakes_at(self) -> int | None:
        return self._replica.status.command
