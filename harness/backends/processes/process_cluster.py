"""The base of clusters whose nodes the harness starts as processes (or containers), whatever program they run."""

import shutil
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any, TypeVar

from zab_chaos.faults.at_rest import OUR_FILES
from zab_chaos.faults.cluster import ClusterError, Status
from zab_chaos.harness.backends import ensemble_state
from zab_chaos.harness.backends.processes.disks import COMMANDS, Disks
from zab_chaos.harness.backends.processes.life import Life
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.oracle.evidence import exit_words

START_SECONDS = 30.0  # limit from the spawn to the first answer; a recovery may take long on a busy machine
ANSWER_SECONDS = 0.5  # limit for one attempt to reach a node that is starting
STOP_SECONDS = 10.0  # a node that was asked to end is killed after this time

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class UnexpectedEnd:
    """The end of a life that the harness did not ask for."""

    node: int
    life: int
    code: int
    armed: bool  # a crash point was armed for this life, and the exit status is that of a crash point
    meaning: str = "see its log"  # of the exit code

    def __str__(self) -> str:
        if self.code < 0:
            return f"node-{self.node} was killed by {exit_words(self.code)}"
        return f"node-{self.node} ended by itself with exit code {self.code}: {self.meaning}"


class ProcessCluster(ABC):
    """Implements the part of `zab_chaos.faults.cluster.Cluster` that concerns processes, and disks that are folders.

    A subclass says how a life is started and how a node's status is asked for. Nodes are started and ended from the main
    thread; any thread may read their state.
    """

    start_seconds = START_SECONDS
    exit_meanings: Mapping[int, str] = MappingProxyType({})  # of exit codes of the nodes' program
    crashed = -signal.SIGKILL  # the exit status of a node that ends at a crash point
    terminated: int = 0  # the exit status of a node that ends because of the signal that asks it to, if it is not 0
    disk_files: Mapping[str, str] = OUR_FILES

    def __init__(self, folder: RunFolder, nodes: Sequence[int], faithful: bool, disks: Disks | None = None) -> None:
        """`faithful`: unsynced bytes are lost with a process. `disks`: file systems mounted on the nodes' data folders."""
        self.nodes: Sequence[int] = sorted(nodes)
        self.voters: Sequence[int] = self.nodes
        self.faithful = faithful
        self._folder = folder
        self._disks = disks
        self._lives: dict[int, Life] = {}
        self._noted: set[tuple[int, int]] = set()  # (node, life) of all unexpected ends so far
        self._unexpected_ends: list[UnexpectedEnd] = []  # those that `take_unexpected_ends` has not returned yet
        self._ends_lock = Lock()

    @abstractmethod
    def status(self, node: int, timeout: float = 2.0) -> Status | None: ...

    @abstractmethod
    def control(self, node: int, command: str, **arguments: Any) -> dict[str, Any]: ...

    @abstractmethod
    def _start_life(self, node: int, number: int, crash_at: str | None, log: Path) -> Life:
        """Start the node's life with this number."""

    # ---- state ----

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
        return ensemble_state.leader_of(ensemble_state.statuses(self), len(self.voters))

    def take_unexpected_ends(self) -> list[UnexpectedEnd]:
        """Return the unexpected ends since the last call, also of nodes that are up again."""
        for life in self._lives.copy().values():
            self._note_end(life)
        with self._ends_lock:
            found, self._unexpected_ends = self._unexpected_ends, []
        return found

    def _note_end(self, life: Life) -> None:
        """Remember the end of a life if it was unexpected and is not known yet."""
        with self._ends_lock:
            if life.code is None or life.ending or (life.node, life.life) in self._noted:
                return
            self._noted.add((life.node, life.life))
            code = self._exit_status(life, life.code)
            armed = life.crash_at is not None and code == self.crashed
            meaning = self.exit_meanings.get(code, f"see log/{life.log.name}")
            self._unexpected_ends.append(UnexpectedEnd(life.node, life.life, code, armed, meaning))
        life.release()

    def last_words(self, node: int) -> str:
        """Return the last lines of the log of the node's latest life."""
        return self._lives[node].last_words()

    def log(self, node: int, life: int) -> Path:
        """Return the file that has the stdout and stderr of this life of the node."""
        return self._folder.file("log", f"node-{node}-{life}.log")

    def disk_folder(self, node: int) -> str:
        if self._disks is not None and not self.alive(node):
            self._disks.end_life(node)
        return str(self._data(node))

    def note_damage(self, node: int) -> None:
        """Do nothing: such a node says why it does not start."""
        return

    def disk_state(self, node: int) -> dict[str, Any] | None:
        return self._disks.state(node) if self._disks is not None else None

    def _data(self, node: int) -> Path:
        return self._folder.file("data", f"node-{node}")

    # ---- actions ----

    def start(self, node: int, crash_at: str | None = None) -> None:
        """Start the node's next life, and wait until it answers or has ended (see `take_unexpected_ends`)."""
        self._spawn(node, crash_at)
        self._await_answers([node])

    def start_all(self, nodes: Sequence[int]) -> None:
        """Start several nodes in parallel, because an interpreter takes long to start, and wait until they answer."""
        self._do_to_all(lambda node: self._spawn(node, None), nodes)
        self._await_answers(nodes)

    def _spawn(self, node: int, crash_at: str | None) -> None:
        last = self._lives.get(node)
        if last is not None and last.alive:
            raise ClusterError(f"node {node} is to be started but is up (pid {last.pid})")
        if last is not None:
            self._note_end(last)  # its end may not have been noted yet
            last.await_end_of_all()
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
                    f"node {node} does not {self.awaited_answer(node)} {self.start_seconds:.0f} s after its start. "
                    f"The end of its log:\n{self._lives[node].last_words() or 'it logged nothing'}"
                )

    def awaited_answer(self, node: int) -> str:
        """Return in words what a node that has been started must do to count as started."""
        return "answer"

    def kill(self, node: int) -> int:
        return self.kill_all([node])[node]

    def kill_all(self, nodes: Sequence[int]) -> dict[int, int]:
        """Kill nodes at (nearly) one instant: send all signals before waiting for the exits. Return the exit statuses.

        A node that had ended before keeps its status.
        """
        missing = [node for node in nodes if node not in self._lives]
        if missing:
            raise ClusterError(f"{ensemble_state.listed_nodes(missing)} cannot be killed: never started")
        lives = [self._lives[node] for node in nodes]
        self._do_to_all(_send_sigkill, lives)
        return {life.node: life.kill() for life in lives}

    def cut_power(self, nodes: Sequence[int]) -> dict[int, int]:
        if self._disks is None and not self.faithful:
            raise ClusterError(ensemble_state.NO_POWER_CUT)
        statuses = self.kill_all(nodes)
        if self._disks is not None:
            for node in nodes:
                self._disks.cut(node)
        return statuses

    def _command_disk(self, node: int, command: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """Give a command to the file system under a node's disk, and return the answer.

        None if there is no such file system, or the command is not one for disks.
        """
        if self._disks is None or command not in COMMANDS:
            return None
        return self._disks.command(node, self.pid(node), command, arguments)

    def _command_disk_only(self, node: int, command: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """Likewise, for nodes that run another program and cannot take a command for their disk themselves.

        Raises ClusterError if the command needs a mounted file system and there is none.
        """
        if command == "power-cut" and self.alive(node):
            self._lives[node].expect_end()
        answer = self._command_disk(node, command, arguments)
        if answer is None and command in COMMANDS:
            raise ClusterError(f'{command} needs [scenario] disk = "fuse" when it is not in the scenario itself')
        return answer

    def _do_to_all(self, call: Callable[[_T], None], items: Sequence[_T]) -> None:
        """Call it for each item, as nearly at one instant as possible."""
        for item in items:
            call(item)

    def pause(self, node: int) -> None:
        self._running_life(node).pause()

    def resume(self, node: int) -> None:
        self._running_life(node).resume()

    def stop(self, node: int) -> int:
        """See `Cluster.stop`. The status is 0 for a node that ended because of the signal that asked it to."""
        status = self._running_life(node).end(STOP_SECONDS)
        return 0 if status == self.terminated else status

    def wait_exit(self, node: int, timeout: float) -> int | None:
        life = self._lives.get(node)
        if life is None or not wait_until(lambda: not life.alive, timeout):
            return None
        return None if life.code is None else self._exit_status(life, life.code)

    def _exit_status(self, life: Life, code: int) -> int:
        """Return the exit status of a life whose process ended with this code: `CORRUPT_EXIT` if it refused its disk."""
        return code

    def wipe(self, node: int) -> None:
        if self.alive(node):
            raise ClusterError(f"node {node} is up; its disk can be wiped when it is down")
        folder = self.disk_folder(node)  # after this, what the last life has left there is on record
        if self._disks is not None:
            self._disks.wipe(node)
            return
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise ClusterError(f"the disk of node {node} cannot be wiped: {error}") from error

    def close(self, ask: bool = True) -> list[int]:
        """End all nodes: ask all of them at once to end, or kill them at once. Return those that were asked and then killed."""
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
