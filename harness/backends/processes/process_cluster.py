"""An ensemble whose nodes the harness starts as processes of this machine, whatever runs in them."""

import shutil
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from zab_chaos.faults.cluster import ClusterError, Status
from zab_chaos.harness.backends import ensemble_state as cluster
from zab_chaos.harness.backends.processes.disks import COMMANDS, Disks
from zab_chaos.harness.backends.processes.life import Life
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.results.run_folder import RunFolder

START_SECONDS = 30.0  # from the spawn to the first answer; a long recovery on a busy machine is no failure
ANSWER_SECONDS = 0.5  # for one attempt to reach a node that is starting
STOP_SECONDS = 10.0  # what a node gets to end by itself

_T = TypeVar("_T")

EXIT_MEANINGS = {
    0: "it was asked to",
    65: "its disk is corrupt",
    70: "a sanity check failed",
    74: "disk error or disk full",
    75: "its address is in use",
    78: "its configuration or a key file cannot be used",
}


@dataclass(frozen=True, slots=True)
class UnexpectedEnd:
    """A node that ended by itself."""

    node: int
    life: int
    code: int
    armed: bool  # a crash point was armed for this life, and it died as one does there: that is what was asked for

    def __str__(self) -> str:
        if self.code < 0:
            return f"node-{self.node} was killed by {signal.Signals(-self.code).name}"
        return f"node-{self.node} ended by itself with exit code {self.code}: {EXIT_MEANINGS.get(self.code, 'see its log')}"


class ProcessCluster(ABC):
    """Implements the half of `zab_chaos.faults.cluster.Cluster` that is about processes, and disks that are folders.

    The main thread drives it; any thread may ask how it is.
    """

    start_seconds = START_SECONDS
    crashed = -signal.SIGKILL  # the exit status of a node that has reached a crash point

    def __init__(self, folder: RunFolder, nodes: Sequence[int], faithful: bool, disks: Disks | None = None) -> None:
        """`disks`: what the nodes' data folders lie on, if it is not the machine's own file system."""
        self.nodes: Sequence[int] = sorted(nodes)
        self.faithful = faithful
        self._folder = folder
        self._disks = disks
        self._lives: dict[int, Life] = {}
        self._reported: set[tuple[int, int]] = set()
        self._unexpected_ends: list[UnexpectedEnd] = []  # nodes that ended without being told to, until somebody asks
        self._ends_lock = Lock()

    @abstractmethod
    def status(self, node: int, timeout: float = 2.0) -> Status | None: ...

    @abstractmethod
    def control(self, node: int, command: str, **arguments: Any) -> dict[str, Any]: ...

    @abstractmethod
    def _start_life(self, node: int, number: int, crash_at: str | None, log: Path) -> Life:
        """Start the node's life of this number."""

    # What is

    def alive(self, node: int) -> bool:
        life = self._lives.get(node)
        return life is not None and life.alive

    def pid(self, node: int) -> int | None:
        life = self._lives.get(node)
        return life.pid if life is not None and life.alive else None

    def paused(self, node: int) -> bool:
        life = self._lives.get(node)
        return life is not None and life.alive and life.stopped

    def leader(self) -> int | None:
        return cluster.leader_of(cluster.statuses(self), len(self.nodes))

    def take_unexpected_ends(self) -> list[UnexpectedEnd]:
        """Nodes that ended without being told to, since this was last asked, whether or not they are up again."""
        for life in self._lives.copy().values():
            self._note_end(life)
        with self._ends_lock:
            found, self._unexpected_ends = self._unexpected_ends, []
        return found

    def _note_end(self, life: Life) -> None:
        with self._ends_lock:
            code = life.code
            if code is None or life.ending or (life.node, life.life) in self._reported:
                return
            self._reported.add((life.node, life.life))
            armed = life.crash_at is not None and code == self.crashed
            self._unexpected_ends.append(UnexpectedEnd(life.node, life.life, code, armed))
        life.release()

    def last_words(self, node: int) -> str:
        """The end of the log of the node's latest life."""
        return self._lives[node].last_words()

    def log(self, node: int, life: int) -> Path:
        """The file with what that life of the node wrote to its stderr and stdout."""
        return self._folder.file("log", f"node-{node}-{life}.log")

    def disk_folder(self, node: int) -> str:
        if self._disks is not None and not self.alive(node):
            self._disks.end_life(node)
        return str(self._data(node))

    def disk_state(self, node: int) -> dict[str, Any] | None:
        return self._disks.state(node) if self._disks is not None else None

    def _data(self, node: int) -> Path:
        return self._folder.file("data", f"node-{node}")

    # What is done to it

    def start(self, node: int, crash_at: str | None = None) -> None:
        """Start the node's next life and wait until it answers, or has ended by itself (which `ended` then reports)."""
        self._spawn(node, crash_at)
        self._await_answers([node])

    def start_all(self, nodes: Sequence[int]) -> None:
        """Start several at once: interpreters take their time, and more than one core has it."""
        self._do_to_all(lambda node: self._spawn(node, None), nodes)
        self._await_answers(nodes)

    def _spawn(self, node: int, crash_at: str | None) -> None:
        last = self._lives.get(node)
        if last is not None and last.alive:
            raise ClusterError(f"node {node} is to be started but is up (pid {last.pid})")
        if last is not None:
            self._note_end(last)  # nobody may have asked since
            last.release()
        number = 1 if last is None else last.life + 1
        log = self.log(node, number)
        if self._disks is not None:
            self._disks.begin_life(node)
        self._lives[node] = self._start_life(node, number, crash_at, log)

    def _await_answers(self, nodes: Sequence[int]) -> None:
        def settled(node: int) -> bool:
            return not self.alive(node) or self.status(node, ANSWER_SECONDS) is not None

        deadline = time.monotonic() + self.start_seconds
        for node in nodes:
            if not wait_until(partial(settled, node), deadline - time.monotonic()):
                raise ClusterError(
                    f"node {node} does not answer {self.start_seconds:.0f} s after its start. The end of its log:\n"
                    + self._lives[node].last_words()
                )

    def kill(self, node: int) -> int:
        return self.kill_all([node])[node]

    def kill_all(self, nodes: Sequence[int]) -> dict[int, int]:
        """The signals first, then the waiting: for the nodes it is one instant. One that is gone keeps its status."""
        missing = [node for node in nodes if node not in self._lives]
        if missing:
            raise ClusterError(f"{cluster.node_names(missing)} cannot be killed: never started")
        lives = [self._lives[node] for node in nodes]
        self._do_to_all(_send_sigkill, lives)
        return {life.node: life.kill() for life in lives}

    def cut_power(self, nodes: Sequence[int]) -> dict[int, int]:
        if self._disks is None and not self.faithful:
            raise ClusterError(cluster.NO_POWER_CUT)
        statuses = self.kill_all(nodes)
        if self._disks is not None:
            for node in nodes:
                self._disks.cut(node)
        return statuses

    def _command_disk(self, node: int, command: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """What a command of a node's disk is answered by the file system under it; None if there is none, or it is another
        command."""
        if self._disks is None or command not in COMMANDS:
            return None
        return self._disks.command(node, self.pid(node), command, arguments)

    def _command_disk_only(self, node: int, command: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """The same of a node that knows nothing of its disk. Raises ClusterError if the command takes a file system of ours and
        there is none."""
        if command == "power-cut" and self.alive(node):
            self._lives[node].ending = True
        answer = self._command_disk(node, command, arguments)
        if answer is None and command in COMMANDS:
            raise ClusterError(f'{command} needs [scenario] disk = "fuse" when it is not in the scenario itself')
        return answer

    def _do_to_all(self, call: Callable[[_T], None], items: Sequence[_T]) -> None:
        """Do it to each, as much at one instant as can be."""
        for item in items:
            call(item)

    def pause(self, node: int) -> None:
        self._running_life(node).pause()

    def resume(self, node: int) -> None:
        self._running_life(node).resume()

    def stop(self, node: int) -> int:
        return self._running_life(node).end(STOP_SECONDS)

    def wait_exit(self, node: int, timeout: float) -> int | None:
        life = self._lives.get(node)
        if life is None or not wait_until(lambda: not life.alive, timeout):
            return None
        return life.code

    def wipe(self, node: int) -> None:
        if self.alive(node):
            raise ClusterError(f"node {node} is up; its disk can be wiped when it is down")
        if self._disks is not None:
            self._disks.wipe(node)
            return
        try:
            shutil.rmtree(self.disk_folder(node))
        except FileNotFoundError:
            return
        except OSError as error:
            raise ClusterError(f"the disk of node {node} cannot be wiped: {error}") from error

    def close(self, ask: bool = True) -> list[int]:
        """End all nodes: all are asked at once, or killed at once. Returns those that were asked and killed."""
        up = [life for life in self._lives.values() if life.alive]
        self._do_to_all(Life.ask_to_end if ask else _send_sigkill, up)
        deadline = time.monotonic() + STOP_SECONDS
        exits = {life.node: life.end(max(0.0, deadline - time.monotonic())) for life in up}
        for life in self._lives.values():
            life.release()
        return [node for node, status in exits.items() if status == -signal.SIGKILL and ask]

    def _running_life(self, node: int) -> Life:
        life = self._lives.get(node)
        if life is None or not life.alive:
            raise ClusterError(f"node {node} is not up")
        return life


def _send_sigkill(life: Life) -> None:
    life.signal(signal.SIGKILL)
