"""One life of one simulated server: the rounds of `zab_chaos.node.server`, over virtual time.

A round takes what has come. Where the replica stops, the disk writes: time passes, events gather, and the power may go. A
server looks at its clock when something is due, late by what polling costs; in between it would only find that nothing is.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from zab_chaos import model, node
from zab_chaos.model.world.client_port import SimPort
from zab_chaos.model.world.disk import SimDisk
from zab_chaos.model.world.interfaces import Commanding, Crashing, Replicating
from zab_chaos.model.world.links import SimLinks
from zab_chaos.model.world.suspension import Stoppable
from zab_chaos.model.world.trace import SimTrace
from zab_chaos.node.boot import begin
from zab_chaos.node.channel.channels import NEVER
from zab_chaos.node.clock import Clock
from zab_chaos.node.commands import CommandError, Commands
from zab_chaos.node.crash_points import CrashPoints
from zab_chaos.node.exit_codes import HANDLED, SANITY, exit_code, reason
from zab_chaos.node.replica import DECODER, Replica

if TYPE_CHECKING:
    from zab_chaos.model.world.machine import SimNode
    from zab_chaos.model.world.network import Pipe

POLL_NS = 10_000_000  # how late a server may look at its clock (zab_chaos.node.server, POLL_MS)
KILLED = -9
NODE, MODEL = f"{node.__name__}.", f"{model.__name__}."


class Died(BaseException):
    """The process is gone from here on, with this exit code."""

    def __init__(self, code: int = KILLED) -> None:
        super().__init__(code)
        self.code = code


def die() -> NoReturn:
    raise Died


def raised_by_node(error: Exception) -> bool:
    """Whether the error is the node's and not the world's: whose code was the last to run before it was raised."""
    if isinstance(error, HANDLED):
        return True
    rooms = [frame.f_globals["__name__"] for frame, _ in walk_tb(error.__traceback__)]
    known = [room for room in rooms if room.startswith((NODE, MODEL))]
    return bool(known) and known[-1].startswith(NODE)


class SimServer:
    """`node` is the machine that it runs on. `crash`, `replica` and `commands` are there once it has recovered."""

    crash: Crashing
    replica: Replicating
    commands: Commanding

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
        self.stopping: str | None = None
        self.settled = False  # what was sent had left the process when it died
        self.inbox: deque[bytes] = deque()  # frames of peers
        self.port = SimPort(self)
        self.links = SimLinks(self, node.peers, life, self.decoder())
        self.channels = self.links.channels
        self.trace = SimTrace(self.world, node.sink, node.id, life)
        self.clock = Clock(lambda: world.now)
        self.clock.rate = node.drift
        self._steps: Iterator[None] = iter(())  # of the present round
        self._shown_ns = 0
        self._busy = False  # in a round that waits for the disk
        self._stoppable: Stoppable | None = None
        self._after_resume: list[Callable[[], None]] = []
        self._wake_at = NEVER  # of the world
        self._computes_until = 0
        self._round_ns = self.world.chance.climate.round
        self._steady = False  # in broadcast, all links up: nothing comes due before the next heartbeat
        self._asked: deque[tuple[str, dict[str, Any], Callable[[Any], None]]] = deque()

    # ---- birth ----

    def boot(self) -> None:
        """Recover, and begin. The life may end of it."""
        self.node.disk.new_life()
        self._living(self._begin)

    def _begin(self) -> None:
        self.recover()
        self.booted = True
        self.channels.open()
        self._run(self.replica.start, self.clock.now_ns())

    def recover(self) -> None:
        """Make `crash`, `replica` and `commands` from what the disk holds. Raises what ends a life before it began."""
        node, plan = self.node, self.plan
        assert isinstance(node.disk, SimDisk)
        config = plan.config(node.id)
        begun = begin(
            config, plan.store_type, node.disk, self.trace,
            bootstrap=self.life == 1, crash_at=self.crash_at, defect=plan.defect, pid=node.pid(self.life), clock=lambda: 0,
            prepare=self._prepare, crash_type=plan.crash_type,
        )  # fmt: skip
        self.crash = begun.crash
        self.recording = node.sink.recording(node.id, self.life)
        self.replica = replica = plan.replica_type(
            config,
            self.life,
            plan.peer_type,
            begun.store,
            begun.recovered,
            self.trace,
            self.recording,
            begun.crash,
            self.channels,
            self.port.connections,
            plan.layers,
        )
        self.commands = Commands(replica, self.clock, node.disk, self.stop)

    def decoder(self) -> msgspec.msgpack.Decoder[Any]:
        """What reads the messages of a frame."""
        return DECODER

    def _prepare(self, crash: CrashPoints) -> None:
        crash.die = die
        crash.settle = self.settle
        crash.pause = self.pause_here

    def stop(self, why: str) -> None:
        """End after this round."""
        self.stopping = why

    def settle(self) -> None:
        """What was sent so far has left the process."""
        self.settled = True

    # ---- what comes ----

    def poke(self) -> None:
        """Something is in an inbox. A node that is still at its last round takes it afterwards, with what else comes."""
        if self._busy or self.stopped:
            return
        left = self._computes_until - self.world.now
        if left <= 0:
            self._living(self._rounds)
        else:
            self._busy = True
            self.world.at(left, self._idle)

    def notice(self, pipe: "Pipe", connected: bool) -> None:
        """A connection of one of this server's pipes stands, or is gone."""
        if self.booted and self.alive:
            self.links.notices.append((pipe, connected))
            self.poke()

    def peer_server(self, peer: int) -> "SimServer | None":
        """Who answers at a peer's address now."""
        server = self.node.machines[peer].server
        return server if server is not None and server.alive and server.booted else None

    def ask(self, name: str, arguments: dict[str, Any], answered: Callable[[Any], None]) -> None:
        """A request on the control port, answered at the beginning of a round: with a dict, or a CommandError."""
        self._asked.append((name, arguments, answered))
        if self.booted:
            self.poke()

    def _answer(self) -> None:
        while self._asked:
            name, arguments, answered = self._asked.popleft()
            try:
                answered(self.commands.handle(name, arguments))
            except CommandError as error:
                answered(error)
        self._steady = False  # something may be due sooner now

    # ---- rounds ----

    def _living(self, call: Callable[..., object], *arguments: Any) -> None:
        """Call it. The life may end of it."""
        try:
            call(*arguments)
        except Died as gone:
            self.end(gone.code)
        except Exception as error:
            self._fail(error)

    def _rounds(self) -> None:
        """Rounds, one after the other, as long as there is something to take at once."""
        replica, links, channels, port, inbox = self.replica, self.links, self.channels, self.port, self.inbox
        connections = port.connections
        while True:
            if self._asked:
                self._answer()
            frames = channels.receive(inbox) if inbox or channels.untold else ()
            if links.notices:
                links.take_notices()
            clients = port.receive() if port.inbox or connections.untold else ()
            now = self._shown_ns = self.clock.now_ns()
            self.commands.due(now)
            channels.tick(now, self.world.now)
            connections.tick(now)
            self._busy = True
            if self.crash.pausing:
                self._run(replica.round, self._shown, frames, clients)
            else:
                self._go_on(replica.round(self._shown, frames, clients))
            if self._busy or not self.alive or not self._waits():
                return

    def _shown(self) -> int:
        """What the clock showed when the round began."""
        return self._shown_ns

    def _waits(self) -> bool:
        """Whether there is something to take."""
        port = self.port
        return bool(
            self.inbox
            or self._asked
            or self.channels.untold
            or self.links.notices
            or port.inbox
            or port.connections.untold
        )

    def _run(self, steps_of: Callable[..., Iterator[None]], *arguments: Any) -> None:
        """Run to where the disk writes, to the end of the round, or of the life."""
        self._busy = True
        if self.crash.pausing:
            self._stoppable = Stoppable(lambda: self._go_on(steps_of(*arguments)))
            self._stoppable.go()
        else:
            self._go_on(steps_of(*arguments))

    def _go_on(self, steps: Iterator[None]) -> None:
        self._steps = steps
        for _ in steps:
            self.world.at(self.node.disk.sync_time(), self._synced)
            return
        self._over()

    def _synced(self, _: object = None) -> None:
        """The disk is done; what has come meanwhile is taken when the round is over."""
        if not self.alive:
            return
        if self.stopped:
            self._after_resume.append(self._synced)
            return
        self._living(self._run, lambda: self._steps)
        if self.alive and not self._busy and self._waits():
            self._living(self._rounds)

    def _over(self) -> None:
        """The round is over."""
        if self.channels.runs.ended:
            self._trace_runs(self.channels.runs.fetch())
            self.replica.driver.flush()
        if self.stopping is not None:
            self._close(self.stopping)
            return
        disk = self.node.disk
        if disk.owed:
            self.world.at(disk.owed, self._idle)
            disk.owed = 0
            return
        self._busy = False
        self._computes_until = self.world.now + self._round_ns
        # In steady state nothing comes due before the next heartbeat.
        if not (self._steady and self._wake_at != NEVER and self.channels.quiet and self.replica.machine.in_broadcast):
            self._plan_wake()

    def _idle(self, _: object) -> None:
        if not self.alive:
            return
        self._busy = False
        if self.stopped:
            self._wake_at = NEVER
        else:
            self._living(self._rounds)

    def _trace_runs(self, runs: list[Any]) -> None:
        for run in runs:
            self.trace.add("channel", asdict(run))

    # ---- the clock ----

    def _plan_wake(self) -> None:
        """Look at the clock when something is due."""
        machine, now = self.replica.machine, self.clock.now_ns()
        due = min(machine.wakes_at(), self.channels.wakes_at())
        command, patience = self.commands.wakes_at(), self.replica.application.wakes_at()
        if command is not None and command < due:
            due = command
        if patience is not None and now < patience < due:
            due = patience
        self._steady = machine.in_broadcast and self.channels.quiet
        self.wake_in(int(max(0, due - now) / self.clock.rate) + 1)

    def wake_in(self, nanoseconds: int) -> None:
        """Look at the clock then, unless it will be looked at before."""
        at = self.world.now + nanoseconds
        if at < self._wake_at:
            self._wake_at = at
            self.world.at(nanoseconds + self.world.chance.up_to(POLL_NS), self._look, at)

    def _look(self, at: object = None) -> None:
        """Some time has come."""
        if not self.alive or not self.booted or (at is not None and at != self._wake_at):
            return
        if self._busy or self.stopped:
            self._wake_at = NEVER  # planned anew when the round is over, or the process goes on
            return
        self._wake_at = NEVER
        self._living(self._rounds)

    # ---- being stopped, and the end ----

    def pause(self) -> None:
        self.stopped = True

    def terminate(self) -> None:
        """SIGTERM: end after a round. What has not booted yet just ends."""
        if not self.booted:
            self.end(KILLED)
            return
        self.stop("SIGTERM")
        self.poke()

    def pause_here(self) -> None:
        """SIGSTOP of itself, in the middle of a round."""
        assert self._stoppable is not None
        self.stopped = True
        self.node.went_to_sleep()
        self._stoppable.stop()

    def resume(self) -> None:
        self.stopped = False
        self._wake_at = NEVER
        waiting, self._after_resume = self._after_resume, []
        if self._stoppable is not None and self._stoppable.stopped:
            self._living(self._stoppable.go)
        for action in waiting:
            action()
        if self.alive and self.booted and not self.stopped and not self._busy:
            self._living(self._rounds)

    def _fail(self, error: Exception) -> None:
        """The life ends by itself, as a process does. Raises an error that is the world's."""
        if not raised_by_node(error):
            raise error
        code = exit_code(error)
        if code == SANITY:
            self.trace.add("abort", {"why": reason(error)})
        self.trace.add("exit", {"code": code, "why": reason(error)})
        self.trace.flush()
        self.end(code)

    def _close(self, why: str) -> None:
        self.channels.close()
        self.last_words(why)
        self.end(0)

    def last_words(self, why: str) -> None:
        """What a life that ends by its own decision leaves behind."""
        assert isinstance(self.replica, Replica)
        self._trace_runs(self.channels.runs.fetch())
        self.replica.tell_work()
        self.replica.driver.flush()
        if self.recording is not None:
            self.recording.close()
        self.trace.add("exit", {"code": 0, "why": why})
        self.trace.flush()

    def end(self, code: int) -> None:
        """The process is gone."""
        if not self.alive:
            return
        self.alive = False
        if self._stoppable is not None and self._stoppable.stopped:
            self._stoppable.abandon()
        whole = self.settled or code != KILLED
        self.links.die(-1 if whole else self.world.chance.up_to(200_000))
        self.net.died(self)
        self.port.die()
        self.node.server_ended(self, code)
