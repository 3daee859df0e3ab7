"""One life of a simulated server: the rounds of `zab_chaos.node.server`, in virtual time.

A round takes everything that has arrived. Where the replica yields, the disk syncs: time passes, events gather, and the power
may be cut. A server looks at its clock when something is due, as late as polling may make it; looking more often would change
nothing.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from zab_chaos import model, node
from zab_chaos.model.world import standstill
from zab_chaos.model.world.client_port import SimClientPort
from zab_chaos.model.world.disk import SimDisk
from zab_chaos.model.world.interfaces import CommandsInterface, CrashPointsInterface, ReplicaInterface
from zab_chaos.model.world.links import SimLinks
from zab_chaos.model.world.suspension import SuspendableCall
from zab_chaos.model.world.trace import SimTrace
from zab_chaos.node.boot import boot_node
from zab_chaos.node.channel.channels import NEVER
from zab_chaos.node.clock import Clock
from zab_chaos.node.commands import CommandError, Commands
from zab_chaos.node.crash_points import CrashPoints
from zab_chaos.node.exit_codes import HANDLED, trace_failure
from zab_chaos.node.replica import DECODER, Replica

if TYPE_CHECKING:
    from zab_chaos.model.world.machine import SimNode
    from zab_chaos.model.world.network import SimPipe

POLL_NS = 10_000_000  # how late a server looks at its clock, at most (zab_chaos.node.server, POLL_MS)
KILLED = -9
NODE, MODEL = f"{node.__name__}.", f"{model.__name__}."


class Died(BaseException):
    """Raised by code of a node whose process ends at this point, with this exit code."""

    def __init__(self, code: int = KILLED) -> None:
        super().__init__(code)
        self.code = code


def die() -> NoReturn:
    """Raise Died: the process is killed at this point."""
    raise Died


def raised_by_node(error: Exception) -> bool:
    """Return whether an error is the node's and not the simulator's: whose code ran last before it was raised."""
    if isinstance(error, HANDLED):
        return True
    modules = [frame.f_globals["__name__"] for frame, _ in walk_tb(error.__traceback__)]
    ours = [name for name in modules if name.startswith((NODE, MODEL)) and name != standstill.__name__]
    return bool(ours) and ours[-1].startswith(NODE)


class SimServer:
    """One life of a node's process.

    `node`: the node that it is a life of. `crash_at`: a crash point for this life. `crash`, `replica` and `commands` exist once
    it has recovered.
    """

    # A class whose instances have this many attributes, or get some late, is slow without slots.
    __slots__ = (
        "_after_resume", "_busy", "_command_at", "_commands_pending", "_computes_until", "_more_input",
        "_round_ns", "_steady", "_steps", "_suspendable", "_wake_at", "alive", "booted", "channels", "clock",
        "commands", "crash", "crash_at", "end_reason", "id", "inbox", "life", "links", "net", "node", "plan",
        "port", "replica", "settled", "stopped", "trace", "world",
    )  # fmt: skip
    crash: CrashPointsInterface
    replica: ReplicaInterface
    commands: CommandsInterface

    def __init__(self, node: "SimNode", life: int, crash_at: str | None) -> None:
        self.node = node
        self.id = node.id
        self.life = life
        self.crash_at = crash_at
        self.plan = node.plan
        self.world = world = node.world
        self.net = node.net
        self.alive = True
        self.booted = False
        self.stopped = False  # SIGSTOP
        self.end_reason: str | None = None  # why the life ends after the present round
        self.settled = False  # everything that was sent has left the process
        self.inbox: deque[bytes] = deque()  # frames of peers that were not read yet
        self.port = SimClientPort(self)
        self.links = SimLinks(self, node.peers, life, self.decoder())
        self.channels = self.links.channels
        self.trace = SimTrace(self.world, node.sink, node.id, life)
        self.clock = Clock(lambda: world.now)
        self.clock.rate = node.drift
        self._steps: Iterator[None] = iter(())  # the rest of the present round
        self._busy = False  # in a round, or computing
        self._more_input = False  # some has arrived since the present round began
        self._suspendable: SuspendableCall | None = None
        self._after_resume: list[Callable[[], None]] = []
        self._wake_at = NEVER  # in the world's time
        self._computes_until = 0
        self._round_ns = self.world.chance.conditions.round
        self._steady = False  # in broadcast, all links up: nothing comes due before the next heartbeat
        self._command_at = 0  # when, by the node's clock, `commands` may have something to do
        self._commands_pending: deque[tuple[str, dict[str, Any], Callable[[Any], None]]] = deque()

    # ---- the start ----

    def boot(self) -> None:
        """Recover and start. The life ends if that fails."""
        self.node.disk.new_life()
        self._guarded(self._begin)

    def _begin(self) -> None:
        self.recover()
        self.booted = True
        self.channels.open()
        self._run(partial(self.replica.start, self.clock.now_ns()))

    def recover(self) -> None:
        """Make `crash`, `replica` and `commands` from what the disk holds. Raises the error that ends the life if it cannot."""
        node, plan = self.node, self.plan
        assert isinstance(node.disk, SimDisk)
        config = plan.config(node.id)
        booted = boot_node(
            config, plan.parts.store, node.disk, self.trace,
            bootstrap=self.life == 1, crash_at=self.crash_at, defect=plan.defect, pid=node.pid(self.life), clock=lambda: 0,
            prepare=self._prepare, crash_type=plan.crash_type,
        )  # fmt: skip
        self.crash = booted.crash
        recording = node.sink.recording(node.id, self.life)
        self.replica = replica = plan.replica_type(
            config, self.life, plan.parts, booted, self.trace, recording, self.channels, self.port.connections
        )
        self.commands = Commands(replica, self.clock, node.disk, self.end_after_round)

    def decoder(self) -> msgspec.msgpack.Decoder[Any]:
        """Return the decoder of the messages in a frame."""
        return DECODER

    def _prepare(self, crash: CrashPoints) -> None:
        crash.die = die
        crash.settle = self.settle
        crash.pause = self.pause_here

    def end_after_round(self, why: str) -> None:
        """End the life after this round."""
        self.end_reason = why

    def settle(self) -> None:
        """Take note that everything sent so far has left the process, so that a kill does not lose it."""
        self.settled = True

    # ---- input ----

    def poke(self) -> None:
        """Begin a round, because something arrived. If the node is still computing, the round begins afterwards."""
        if self._busy or self.stopped:
            self._more_input = True
            return
        left = self._computes_until - self.world.now
        if left <= 0:
            self._rounds()
        else:
            self._busy = True
            self.world.call_later(left, self._computed)

    def on_connection(self, pipe: "SimPipe", connected: bool) -> None:
        """Take note that one of this server's pipes is connected, or no longer."""
        if self.booted and self.alive:
            self.links.connection_changes.append((pipe, connected))
            self.poke()

    def server_of(self, peer: int) -> "SimServer | None":
        """Return the server that is up on a peer, or None."""
        server = self.node.machines[peer].server
        return server if server is not None and server.alive and server.booted else None

    def ask(self, name: str, arguments: dict[str, Any], answered: Callable[[Any], None]) -> None:
        """Send a command to the control port. The next round calls `answered` with a dict or a CommandError."""
        self._commands_pending.append((name, arguments, answered))
        if self.booted:
            self.poke()

    def _handle_commands(self) -> None:
        while self._commands_pending:
            name, arguments, answered = self._commands_pending.popleft()
            try:
                answered(self.commands.handle(name, arguments))
            except CommandError as error:
                answered(error)
        self._steady, self._command_at = False, 0  # a command may have made something due sooner

    # ---- rounds ----

    def _guarded(self, call: Callable[[], object]) -> None:
        """Make the call. If it raises Died or an error of the node, end the life."""
        try:
            call()
        except (Died, Exception) as error:
            self._end_by(error)

    def _rounds(self, synced: bool = False) -> None:
        """Execute rounds until there is no input, or the node waits for the disk or ends.

        `synced`: the disk has synced for a round, which is continued first.
        """
        channels, connections = self.channels, self.port.connections
        try:
            if not synced:
                self._round()
            elif self.crash.pausing:
                self._run(lambda: self._steps)
            else:
                self._advance(self._steps)
            while not self._busy and self.alive and (self._more_input or channels.unreported or connections.unreported):
                self._round()
        except (Died, Exception) as error:
            self._end_by(error)

    def _round(self) -> None:
        """Take the input that has arrived, and execute a round up to its first sync, or to its end."""
        self._more_input = False
        channels, links, port, inbox = self.channels, self.links, self.port, self.inbox
        connections = port.connections
        if self._commands_pending:
            self._handle_commands()
        frames = channels.receive(inbox) if inbox or channels.unreported else ()
        if links.connection_changes:
            links.apply_connection_changes()
        clients = port.receive() if port.inbox or connections.unreported else ()
        host_ns = self.world.now
        now = self.clock.at(host_ns)
        if now >= self._command_at:
            self.commands.due(now)
        channels.tick(now, host_ns)
        if now >= connections.tick_at:
            connections.tick(now)
        if self.crash.pausing:
            self._run(partial(self.replica.round, now, frames, clients))
        else:
            self._busy = True
            self._advance(self.replica.round(now, frames, clients))

    def _run(self, steps_of: Callable[[], Iterator[None]]) -> None:
        """Execute a round up to the next sync, or to its end. If a pause point is set, the round can be stopped."""
        self._busy = True
        if self.crash.pausing:
            self._suspendable = SuspendableCall(lambda: self._advance(steps_of()))
            self._suspendable.go()
        else:
            self._advance(steps_of())

    def _advance(self, steps: Iterator[None]) -> None:
        """Continue the round to its next sync, or to its end."""
        self._steps = steps
        for _ in steps:
            self.world.call_later(self.node.disk.sync_time(), self._synced)
            return
        self._finish_round()

    def _synced(self, _: object = None) -> None:
        """The sync has ended: continue the round, then take the input that arrived meanwhile."""
        if not self.alive:
            return
        if self.stopped:
            self._after_resume.append(self._synced)
            return
        self._rounds(synced=True)

    def _finish_round(self) -> None:
        """End the round: let the time of further syncs pass, or plan when to look at the clock next."""
        if self.channels.runs.ended:
            self.replica.trace_channels(self.channels.runs.fetch())
        if self.end_reason is not None:
            self._close(self.end_reason)
            return
        disk = self.node.disk
        if disk.owed_ns:
            self.world.call_later(disk.owed_ns, self._computed)
            disk.owed_ns = 0
            return
        self._busy = False
        self._computes_until = self.world.now + self._round_ns
        # In steady state nothing comes due before the next heartbeat.
        if not (self._steady and self._wake_at != NEVER and self.channels.quiet and self.replica.in_broadcast):
            self._plan_wake()

    def _computed(self, _: object) -> None:
        """The node has finished computing, or the time of further syncs has passed: begin the next round."""
        if not self.alive:
            return
        self._busy = False
        if self.stopped:
            self._wake_at = NEVER
        else:
            self._rounds()

    # ---- the clock ----

    def _plan_wake(self) -> None:
        """Schedule the next look at the clock for the time at which something is due."""
        now = self.clock.at(self.world.now)
        command = self.commands.wakes_at()
        self._command_at = NEVER if command is None else command
        due = min(self.replica.wakes_at(now), self.channels.wakes_at(), self._command_at)
        self._steady = self.replica.in_broadcast and self.channels.quiet
        self.wake_in(int(max(0, due - now) / self.clock.rate) + 1)

    def wake_in(self, nanoseconds: int) -> None:
        """Schedule a look at the clock, unless an earlier one is scheduled."""
        at = self.world.now + nanoseconds
        if at < self._wake_at:
            self._wake_at = at
            self.world.call_later(nanoseconds + self.world.chance.up_to(POLL_NS), self._wake, at)

    def _wake(self, at: object = None) -> None:
        """Look at the clock, in a round. A call whose time `at` has been superseded does nothing."""
        if not self.alive or not self.booted or (at is not None and at != self._wake_at):
            return
        if self._busy or self.stopped:
            self._wake_at = NEVER  # planned again at the end of the round, or when the process is resumed
            return
        self._wake_at = NEVER
        self._rounds()

    # ---- signals, and the end ----

    def pause(self) -> None:
        self.stopped = True

    def terminate(self) -> None:
        """End after a round, as SIGTERM makes a process do. A life that has not booted yet ends at once."""
        if not self.booted:
            self.end(KILLED)
            return
        self.end_after_round("SIGTERM")
        self.poke()

    def pause_here(self) -> None:
        """Stop in the middle of a round: the node reached a pause point and sends itself SIGSTOP."""
        assert self._suspendable is not None
        self.stopped = True
        self.port.process_stopped()
        self._suspendable.stop()

    def resume(self) -> None:
        self.stopped = False
        self._wake_at = NEVER
        waiting, self._after_resume = self._after_resume, []
        if self._suspendable is not None and self._suspendable.stopped:
            self._guarded(self._suspendable.go)
        for action in waiting:
            action()
        if self.alive and self.booted and not self.stopped and not self._busy:
            self._rounds()

    def _end_by(self, error: Died | Exception) -> None:
        if isinstance(error, Died):
            self.end(error.code)
        else:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """End the life with the exit code of a node's error, as a process does. Raise the error if it is the simulator's."""
        if not raised_by_node(error):
            raise error
        code, why = trace_failure(self.trace, error)
        self.trace.add("exit", {"code": code, "why": why})
        self.trace.flush()
        self.end(code)

    def _close(self, why: str) -> None:
        self.channels.close()
        self.write_last_lines(why)
        self.end(0)

    def write_last_lines(self, why: str) -> None:
        """Write the last lines of a life that ends by its own decision, and close its recording."""
        assert isinstance(self.replica, Replica)
        self.replica.close(self.channels.runs.fetch())
        self.trace.add("exit", {"code": 0, "why": why})
        self.trace.flush()

    def end(self, code: int) -> None:
        """End the process: break its connections and tell the node. Does nothing if it has ended before."""
        if not self.alive:
            return
        self.alive = False
        if self._suspendable is not None and self._suspendable.stopped:
            self._suspendable.abandon()
        all_sent = self.settled or code != KILLED
        self.links.process_ended(-1 if all_sent else self.world.chance.up_to(200_000))
        self.net.process_ended(self)
        self.port.process_ended()
        self.node.server_ended(self, code)
