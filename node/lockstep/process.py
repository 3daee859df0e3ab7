"""One life of one node in the harness's virtual time: replica, store, disk and trace as in `zab_chaos.node.server`, but no
loop.

The simulator decides what the server's loop decides otherwise: when there is a round, what arrives in it, and how long a
sync takes.
"""

import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from zab_chaos.node.boot import boot_node
from zab_chaos.node.channel import frame
from zab_chaos.node.commands import CommandError, Commands
from zab_chaos.node.components import components_with
from zab_chaos.node.config import NodeConfig
from zab_chaos.node.crash_points import CrashPoints
from zab_chaos.node.events import Received
from zab_chaos.node.exit_codes import HANDLED, trace_failure
from zab_chaos.node.lockstep import wire
from zab_chaos.node.lockstep.connection import HarnessConnection, HarnessGone
from zab_chaos.node.lockstep.outlets import LockstepClients, LockstepClock, LockstepNetwork
from zab_chaos.node.lockstep.wire import LockstepAnswer, LockstepEffect, NodeStatus, StopPoint, Timestamps
from zab_chaos.node.net import keys
from zab_chaos.node.recording import Recording
from zab_chaos.node.replica import DECODER, Replica
from zab_chaos.node.store.disk import FaithfulDisk, OrdinaryDisk
from zab_chaos.node.store.disk_faults import VirtualFaults
from zab_chaos.node.trace import Trace


class Killed(BaseException):
    """The process has reached the point where the harness is to kill it."""


class UnexpectedRequest(Exception):
    """A request that can't come now: the two sides do not agree on the state of the conversation."""


def live_in_lockstep(
    config: NodeConfig, life: int, address: str, bootstrap: bool, crash_at: str | None
) -> tuple[int, str]:
    """Run the whole life. Return its exit code and the reason."""
    tied = config.parent is not None and sys.stdin is not None and not sys.stdin.closed
    connection = HarnessConnection(
        f"{config.id}-{life}", keys.load(config.control_keys), address, wire.decode_request, tied=tied
    )
    process = LockstepProcess(config, life, connection, bootstrap, crash_at)
    try:
        code, why = process.live()
    except HarnessGone:
        return 0, "the harness is gone"
    connection.close()
    return code, why


class LockstepProcess:
    """Executes the simulator's requests, and does nothing in between."""

    trace: Trace
    replica: Replica
    commands: Commands

    def __init__(
        self,
        config: NodeConfig,
        life: int,
        connection: HarnessConnection[wire.LockstepRequest],
        bootstrap: bool,
        crash_at: str | None,
    ) -> None:
        self.config = config
        self.life = life
        self.connection = connection
        self.bootstrap = bootstrap
        self.crash_at = crash_at
        self.effects: list[LockstepEffect] = []
        self.host = 0
        self.stamped = 0
        self.paid = False  # the time of the next sync has passed already
        self.booted = False
        self.clock = LockstepClock(self.effects)
        self.network = LockstepNetwork(config, life, self.effects)
        self.disk = self._open_disk()
        self._cluster = frame.cluster_hash(config.cluster)
        self._handlers: dict[type, Callable[[Any], dict[str, Any] | None]] = {
            wire.BootRequest: self.boot,
            wire.StartRequest: lambda request: self.run(self.replica.start(self.clock.now)),
            wire.RoundRequest: self.round,
            wire.DueRequest: lambda request: self.commands.due(self.clock.now),
            wire.CommandRequest: self.command,
            wire.ChannelsRequest: lambda request: self.replica.trace_channels(request.runs),
        }

    def _open_disk(self) -> FaithfulDisk | OrdinaryDisk:
        config = self.config
        disk = FaithfulDisk(config.data, self.die) if config.faithful else OrdinaryDisk(Path(config.data))
        disk.faults = VirtualFaults(can_cut_power=config.faithful, spend=self._spend)
        return disk

    # ---- the conversation ----

    def live(self) -> tuple[int, str]:
        """Run until the life ends by its own decision. Return exit code and reason. Raises HarnessGone."""
        try:
            why = self._serve()
            code = 0
        except Killed:
            self._answer(StopPoint.DEAD)
            while True:
                self.connection.receive()  # wait for the harness to kill this process
        except (HarnessGone, UnexpectedRequest, frame.BadFrame):
            raise  # an error of the conversation, not of the node
        except Exception as error:
            if not isinstance(error, HANDLED):
                traceback.print_exc()
            code, why = trace_failure(self.trace, error)
        self.trace.add("exit", {"code": code, "why": why})
        self.trace.close()
        self._answer(StopPoint.ENDED, code=code)
        return code, why

    def _serve(self) -> str:
        """Execute requests until `Close`, and return why the life is to end."""
        request = self._exchange(StopPoint.OVER)
        while not isinstance(request, wire.CloseRequest):
            do = self._handlers.get(type(request))
            if do is None:
                raise UnexpectedRequest(f"{type(request).__name__} where nothing waits for it")
            try:
                request = self._exchange(StopPoint.OVER, reply=do(request))
            except CommandError as error:
                request = self._exchange(StopPoint.OVER, refused=str(error))
        self.replica.close(request.runs)
        return request.why

    def _answer(self, stop: StopPoint, **more: Any) -> None:
        effects = self.effects.copy()
        self.effects.clear()
        self.connection.send(
            LockstepAnswer(stop, effects, self.stamped, self._status(), self.disk.faults.slow_ms, **more)
        )

    def _exchange(self, stop: StopPoint, **more: Any) -> wire.LockstepRequest:
        """Send an answer, and return the next request."""
        self._answer(stop, **more)
        request = self.connection.receive()
        self._set_times(request.when)
        return request

    def _set_times(self, when: Timestamps) -> None:
        self.host, self.clock.now, self.stamped = when.host, when.node, when.stamp

    def _stop_at(self, stop: StopPoint) -> None:
        """Pause in the middle of a request until `GoOn` comes."""
        request = self._exchange(stop)
        if not isinstance(request, wire.GoOnRequest):
            raise UnexpectedRequest(f"{type(request).__name__} where {stop.name} waits for GoOn")

    def _status(self) -> NodeStatus:
        if not self.booted:
            return NodeStatus()
        machine = self.replica.machine
        return NodeStatus(
            machine.in_broadcast,
            machine.wakes_at(),
            self.replica.application.wakes_at(),
            self.commands.wakes_at(),
            self.replica.crash.pausing,
        )

    # ---- construction ----

    def boot(self, request: wire.BootRequest) -> None:
        config = self.config
        parts, defect = components_with(config.defect)
        self.trace = Trace(config.trace, config.id, self.life, self._stamp)
        booted = boot_node(
            config, parts.store, self.disk, self.trace,
            bootstrap=self.bootstrap, crash_at=self.crash_at, defect=defect, pid=request.pid, clock=lambda: 0,
            prepare=self._prepare,
        )  # fmt: skip
        recording = Recording(config.record, config.id, self.life) if config.record else None
        self.replica = Replica(
            config, self.life, parts, booted, self.trace, recording, self.network, LockstepClients(self.effects)
        )
        self.commands = Commands(
            self.replica, self.clock, self.disk, lambda why: self.effects.append(wire.StopEffect(why))
        )
        self.booted = True

    def _prepare(self, crash: CrashPoints) -> None:
        crash.die = self.die
        crash.settle = lambda: self.effects.append(wire.SettleEffect())
        crash.pause = lambda: self._stop_at(StopPoint.PAUSED)

    def die(self) -> NoReturn:
        raise Killed

    def _stamp(self) -> int:
        """Return a time for a trace line, later than every line written before, as the simulator does."""
        self.stamped = max(self.host, self.stamped + 1)
        return self.stamped

    def _spend(self) -> None:
        faults = self.disk.faults
        faults.slowed += faults.slow_ms > 0
        if self.paid:
            self.paid = False
        else:
            self.effects.append(wire.SpendEffect(faults.slow_ms))

    # ---- requests ----

    def round(self, request: wire.RoundRequest) -> None:
        links = [self._received(event) if isinstance(event, wire.Frame) else event for event in request.links]
        self.run(self.replica.round(self.clock.now, links, request.clients))

    def run(self, steps: Iterator[None]) -> None:
        for _ in steps:
            self.paid = True
            self._stop_at(StopPoint.SYNCING)

    def command(self, request: wire.CommandRequest) -> dict[str, Any]:
        self.network.frames = request.frames
        return self.commands.handle(request.name, request.arguments)

    def _received(self, event: wire.Frame) -> Received:
        """Unpack a frame. Raises zab_chaos.node.channel.frame.BadFrame if no node can have sent it."""
        header = frame.parse(event.data, self._cluster, self.config.id, self.config.limits.frame_bytes)
        return Received(event.peer, frame.messages(event.data, header, DECODER))
