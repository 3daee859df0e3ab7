"""One life of one node, from its start to its exit status; on the backend `processes`, an OS process.

Two mechanisms end a node's process with the harness. Its stdin is a pipe whose other end only the harness holds: the node
reads the end of the file when the harness is gone, and ends. And it asks the kernel to kill it when the thread that spawned
it ends, which also works for a paused process. That thread must therefore live as long as the ensemble: processes are
spawned from the main thread only.
"""

import os
import signal
import site
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

import zab_chaos
from zab_chaos.faults import process_tree
from zab_chaos.faults.cluster import ClusterError
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.results.run_folder import private, write_atomically
from zab_chaos.node.config import NodeConfig

KILL_SECONDS = 10.0  # a process that still exists so long after SIGKILL is stuck in the kernel


class Life(ABC):
    """One life of a node: its process, its log, and whether its end is expected.

    `life`: its number, from 1. `crash_at`: the crash point or deadly command after which its death by SIGKILL is expected.
    """

    stop_signal = signal.SIGTERM  # what asks the process to end

    def __init__(self, node: int, life: int, log: Path, crash_at: str | None = None) -> None:
        self.node = node
        self.life = life
        self.log = log
        self.crash_at = crash_at
        self.ending = False  # the harness is ending it, so its exit is not reported as unexpected

    @property
    @abstractmethod
    def pid(self) -> int:
        """The process id on this machine."""

    @property
    @abstractmethod
    def code(self) -> int | None:
        """The exit status (-9 for SIGKILL); None while the process lives."""

    @property
    @abstractmethod
    def stopped(self) -> bool:
        """Whether the process is stopped by SIGSTOP, or frozen."""

    @abstractmethod
    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process still exists. SIGKILL also sets `ending`."""

    @abstractmethod
    def wait(self, seconds: float) -> int | None:
        """Wait for the exit and return its status, or None if the process still lives after so long."""

    @abstractmethod
    def pause(self) -> None:
        """Pause the process. Raises ClusterError if it does not stop."""

    @abstractmethod
    def resume(self) -> None:
        """Let the process go on, however it was paused."""

    @abstractmethod
    def release(self) -> None:
        """Release what the harness holds of the process (pipes, handles). May be called again."""

    @property
    def alive(self) -> bool:
        return self.code is None

    def expect_end(self) -> None:
        """Take note that something else than the harness is about to end the process."""
        self.ending = True

    def await_end_of_all(self) -> None:
        """Wait until nothing runs any more that the ended process has started."""
        return

    def kill(self) -> int:
        """Send SIGKILL, wait and release. Return the exit status: -9, or that of an earlier end. Raises ClusterError."""
        self.signal(signal.SIGKILL)
        status = self.wait(KILL_SECONDS)
        if status is None:
            raise ClusterError(f"node {self.node} (pid {self.pid}) does not go away after SIGKILL")
        self.release()
        return status

    def ask_to_end(self) -> None:
        """Ask the process to end by itself: resume it if it is paused, send `stop_signal`, release. Does nothing if it was
        asked before."""
        if self.ending:
            return
        self.ending = True
        if self.alive and self.stopped:
            self.resume()
        if self.alive:
            self.signal(self.stop_signal)  # before the release, which the node would take for the death of the harness
        self.release()

    def end(self, seconds: float) -> int:
        """Ask the process to end, and kill it if it still lives after `seconds`. Return the exit status."""
        self.ask_to_end()
        status = self.wait(seconds)
        return self.kill() if status is None else status

    def last_words(self, lines: int = 5) -> str:
        """Return the last lines of its log, or "" if there is none."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""


class ProcessLife(Life):
    """A life as an OS process of this machine."""

    def __init__(
        self, node: int, life: int, process: subprocess.Popen[bytes], log: Path, crash_at: str | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> None:  # fmt: skip
        super().__init__(node, life, log, crash_at)
        self.process = process
        self.stop_signal = stop_signal
        self._started: set[psutil.Process] = set()  # what it had started when it was to end

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def code(self) -> int | None:
        if self.process.returncode is None and self._has_just_ended():
            process_tree.signal_group(self.pid, signal.SIGKILL)  # nothing that it has started outlives it
            process_tree.send(self._started, signal.SIGKILL)
        return self.process.poll()

    def _has_just_ended(self) -> bool:
        """Return whether the process has ended, and nobody has asked for its status yet: its id can be no other process's."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return False

    @property
    def stopped(self) -> bool:
        """Whether the kernel shows the process as stopped (SIGSTOP)."""
        return is_process_stopped(self.pid)

    def signal(self, number: signal.Signals) -> None:
        """See `Life.signal`. Signals go to all that the process has started, but `stop_signal` only to its group: a process
        that has a session of its own is told by its parent to end."""
        if not self.alive:
            return
        if number == signal.SIGKILL:
            self.ending = True
            self._started |= process_tree.kill(self.pid)
        else:
            started = process_tree.started_by(self.pid)
            process_tree.signal_group(self.pid, number)
            if number == self.stop_signal:
                self._started |= started  # they are killed if they do not end with it
            else:
                process_tree.send(started, number)

    def kill(self) -> int:
        status = super().kill()
        self.await_end_of_all()
        return status

    def expect_end(self) -> None:
        super().expect_end()
        self._started |= process_tree.started_by(self.pid)

    def await_end_of_all(self) -> None:
        wait_until(lambda: not _group_lives(self.pid) and not any(map(process_tree.runs, self._started)), KILL_SECONDS)

    def wait(self, seconds: float) -> int | None:
        wait_until(lambda: not self.alive, seconds)
        return self.code

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)
        if not wait_until(lambda: self._all_stopped() or not self.alive, KILL_SECONDS) or not self.alive:
            raise ClusterError(f"node {self.node} (pid {self.pid}) did not stop at SIGSTOP")

    def _all_stopped(self) -> bool:
        """Return whether the process and all that it has started are stopped, also what it has started in the last moment."""
        started = process_tree.stop(self.pid)
        return self.stopped and not any(process_tree.runs(one) and not is_process_stopped(one.pid) for one in started)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)
        wait_until(lambda: not self.stopped, KILL_SECONDS)

    def release(self) -> None:
        """Close our end of the process's stdin."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()


def is_process_stopped(pid: int) -> bool:
    """Return whether the kernel shows a process as stopped (SIGSTOP); False if it is gone, or is hidden from this user."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.Error:
        return False


def _group_lives(leader: int) -> bool:
    """Return whether processes of a group are left whose leader is gone."""
    try:
        os.killpg(leader, 0)
    except OSError:
        return False
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if os.getpgid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                return True
    return False


def write_config(path: Path, config: NodeConfig) -> None:
    """Write a node's configuration file as indented JSON."""
    write_atomically(path, msgspec.json.format(msgspec.json.encode(config)).decode() + "\n")


def node_command(python: str, config: Path | str, life: int, crash_at: str | None) -> list[str]:
    """Return the command that is a life of one of our nodes. In its first life a node may have an empty disk."""
    command = [python, "-m", "zab_chaos.node", "--config", str(config), "--life", str(life)]
    if life == 1:
        command.append("--bootstrap")
    if crash_at is not None:
        command += ["--crash-at", crash_at]
    return command


def spawn(
    node_id: int, life: int, config: Path, log: Path, crash_at: str | None, lockstep: str | None = None
) -> ProcessLife:
    """Start a life of one of our nodes as a process of this machine. Raises ClusterError, as `launch` does.

    `lockstep`: the address of the harness that drives the node in lockstep, or None for a node that runs by itself.
    """
    command = node_command(sys.executable, config, life, crash_at)
    if lockstep is not None:
        command += ["--lockstep", lockstep]
    process = launch(node_id, command, log, config.parent.parent, environment())
    return ProcessLife(node_id, life, process, log, crash_at)


def launch(node_id: int, command: list[str], log: Path, folder: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a node's process in `folder`, with its output in `log`.

    Raises ClusterError if the machine has no process or file descriptor left, or this is not the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        raise ClusterError("nodes are spawned from the main thread only: they die with the thread that spawned them")
    try:
        with private(), log.open("wb") as output:
            return subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, cwd=folder, env=env,
                start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        raise ClusterError(f"node {node_id} cannot be started: {error.strerror or error}") from error


def environment() -> dict[str, str]:
    """Return the environment for child processes: ours, with a PYTHONPATH that leads to the `zab_chaos` of this process.

    This works both in a checkout and for an installed wheel.
    """
    root = str(Path(zab_chaos.__file__).resolve().parent.parent)
    path = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if root not in site.getsitepackages() and root not in path:
        path.insert(0, root)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
