"""One life of one node, from its start to its exit status; on processes, an OS process.

Two ropes tie a process to the harness, so that nothing survives: its stdin is a pipe that only the harness holds, so the
node sees the harness go and ends; and it asks the kernel to be killed with the thread that spawned it, which also
takes a paused process. That thread must therefore live as long as the ensemble: processes are spawned from the main
thread only.
"""

import os
import signal
import site
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from pathlib import Path

import msgspec
import psutil

import zab_chaos
from zab_chaos.faults.cluster import ClusterError
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.results.run_folder import private, write_atomically
from zab_chaos.node.config import NodeConfig

KILL_SECONDS = 10.0  # a SIGKILLed process that is still there after this is stuck in the kernel


class Life(ABC):
    """What an ensemble knows of a node that it has started, and why it may end."""

    def __init__(self, node: int, life: int, log: Path, crash_at: str | None = None) -> None:
        self.node = node
        self.life = life
        self.log = log
        self.crash_at = crash_at
        self.ending = False  # the harness ends it: its exit is no news

    @property
    @abstractmethod
    def pid(self) -> int:
        """Its process, as this machine numbers it."""

    @property
    @abstractmethod
    def code(self) -> int | None:
        """Its exit status (-9 for SIGKILL); None while it lives."""

    @property
    @abstractmethod
    def stopped(self) -> bool:
        """Whether it is held: by SIGSTOP, or frozen."""

    @abstractmethod
    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it is still there. What dies of our SIGKILL did not end by itself."""

    @abstractmethod
    def wait(self, seconds: float) -> int | None:
        """Its exit status, or None if it still lives after so long."""

    @abstractmethod
    def pause(self) -> None:
        """Hold it. Raises ClusterError if it does not stop."""

    @abstractmethod
    def resume(self) -> None:
        """Let it go on, whatever held it."""

    @abstractmethod
    def release(self) -> None:
        """Give back what the harness still holds of it. May be called again."""

    @property
    def alive(self) -> bool:
        return self.code is None

    def kill(self) -> int:
        """SIGKILL, wait, reap. Returns the exit status: -9, or what it had ended with before."""
        self.signal(signal.SIGKILL)
        status = self.wait(KILL_SECONDS)
        if status is None:
            raise ClusterError(f"node {self.node} (pid {self.pid}) does not go away after SIGKILL")
        self.release()
        return status

    def ask_to_end(self) -> None:
        """Ask it to end by itself: sent SIGTERM, and released; a paused one is woken first. Once is enough."""
        if self.ending:
            return
        self.ending = True
        if self.alive and self.stopped:
            self.resume()
        if self.alive:
            self.signal(signal.SIGTERM)  # before the release, which a node would take for the end of its harness
        self.release()

    def end(self, seconds: float) -> int:
        """Ask, and kill it if it is still there after `seconds`. Returns the exit status."""
        self.ask_to_end()
        status = self.wait(seconds)
        return self.kill() if status is None else status

    def last_words(self, lines: int = 5) -> str:
        """The end of its log: what it said before it ended."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""


class ProcessLife(Life):
    """An OS process of this machine."""

    def __init__(
        self, node: int, life: int, process: subprocess.Popen[bytes], log: Path, crash_at: str | None = None
    ) -> None:
        super().__init__(node, life, log, crash_at)
        self.process = process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def code(self) -> int | None:
        return self.process.poll()

    @property
    def stopped(self) -> bool:
        """Whether the kernel holds it stopped (SIGSTOP)."""
        try:
            return bool(psutil.Process(self.pid).status() == psutil.STATUS_STOPPED)
        except psutil.NoSuchProcess:
            return False

    def signal(self, number: signal.Signals) -> None:
        if number == signal.SIGKILL and self.alive:
            self.ending = True
        self.process.send_signal(number)

    def wait(self, seconds: float) -> int | None:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)
        if not wait_until(lambda: self.stopped or not self.alive, KILL_SECONDS) or not self.alive:
            raise ClusterError(f"node {self.node} (pid {self.pid}) did not stop at SIGSTOP")

    def resume(self) -> None:
        self.signal(signal.SIGCONT)
        wait_until(lambda: not self.stopped, KILL_SECONDS)

    def release(self) -> None:
        """Close our end of its stdin."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()


def write_config(path: Path, config: NodeConfig) -> None:
    """Write what a node's process is told, so that people can read it, too."""
    write_atomically(path, msgspec.json.format(msgspec.json.encode(config)).decode() + "\n")


def spawn(
    node_id: int,
    life: int,
    config: Path,
    log: Path,
    *,
    bootstrap: bool,
    crash_at: str | None,
    lockstep: str | None = None,
) -> ProcessLife:
    """Start `python -m zab_chaos.node`; `lockstep`: the address of the harness in whose time it lives.

    Raises as `launch`.
    """
    command = [sys.executable, "-m", "zab_chaos.node", "--config", str(config), "--life", str(life)]
    if bootstrap:
        command.append("--bootstrap")
    if crash_at is not None:
        command += ["--crash-at", crash_at]
    if lockstep is not None:
        command += ["--lockstep", lockstep]
    process = launch(node_id, command, log, config.parent.parent, environment())
    return ProcessLife(node_id, life, process, log, crash_at)


def launch(node_id: int, command: list[str], log: Path, folder: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a node's process, in `folder`. Raises ClusterError if the machine has no process or file descriptor left."""
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
    """Ours, plus what makes `zab_chaos` the package that this process sees, in a checkout as in an installed wheel."""
    root = str(Path(zab_chaos.__file__).resolve().parent.parent)
    path = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if root not in site.getsitepackages() and root not in path:
        path.insert(0, root)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
