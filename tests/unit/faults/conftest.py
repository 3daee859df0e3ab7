"""An ensemble of sleeping processes: signals, exits and files are real, the protocol is not."""

import json
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from zab_chaos.faults.at_rest import OUR_FILES
from zab_chaos.faults.cluster import ClusterError, Status
from zab_chaos.faults.host import ThisHost
from zab_chaos.faults.scenario import FaultStep
from zab_chaos.faults.scheduler import Scheduler


class Sleepers:
    """Implements `zab_chaos.faults.cluster.Cluster` over `sleep` processes. Statuses are what a test sets."""

    def __init__(self, folder: Path, count: int) -> None:
        self.nodes: Sequence[int] = range(1, count + 1)
        self.voters: Sequence[int] = self.nodes
        self.faithful = True
        self.crashed = -signal.SIGKILL
        self.disk_files = OUR_FILES
        self.damaged: list[int] = []  # nodes of which files have been damaged
        self.folder = folder
        self.leading: int | None = 1
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.lives: dict[int, int] = {}
        self.frames: dict[tuple[int, int], int] = {}  # (from, to)
        self.commands: list[tuple[int, str, dict[str, Any]]] = []
        self.armed: dict[int, list[str]] = {}
        self.amnesiac: set[int] = set()
        self.disks: dict[int, dict[str, Any]] = {}  # what the file systems under the disks have counted
        self.refusing: dict[int, int] = {}  # nodes that end when they are started, with this exit code
        self.ending: set[int] = set()  # nodes that end with exit code 74 when they are next asked for their status
        self.failing: Callable[[str, int], bool] = lambda _call, _node: False
        for node in self.nodes:
            Path(self.disk_folder(node)).mkdir()
            self.start(node)

    def _may_fail(self, call: str, node: int) -> None:
        if self.failing(call, node):
            raise ClusterError(f"{call} of node {node} fails")

    def alive(self, node: int) -> bool:
        return self.processes[node].poll() is None

    def pid(self, node: int) -> int | None:
        return self.processes[node].pid if self.alive(node) else None

    def paused(self, node: int) -> bool:
        return self.alive(node) and psutil.Process(self.processes[node].pid).status() == psutil.STATUS_STOPPED

    def status(self, node: int, timeout: float = 2.0) -> Status | None:
        if node in self.ending:
            self.ending.remove(node)
            self.kill(node)
            self.processes[node] = subprocess.Popen(["sh", "-c", "exit 74"])
            self.processes[node].wait()
        if not self.alive(node) or self.paused(node):
            return None
        return Status(
            node=node,
            life=self.lives[node],
            role="LEADING" if node == self.leading else "FOLLOWING",
            phase="BROADCAST",
            leader=self.leading,
            epoch=1,
            accepted_epoch=1,
            last_zxid=(1, 1),
            delivered=(1, 1),
            digest="",
            tree="",
            established=True,
            amnesiac=node in self.amnesiac,
            frames={source: count for (source, target), count in self.frames.items() if target == node},
            armed=self.armed.get(node, []),
            unsynced_bytes=0,
        )

    def leader(self) -> int | None:
        return self.leading

    def start(self, node: int, crash_at: str | None = None) -> None:
        self._may_fail("start", node)
        command = ["sh", "-c", f"exit {self.refusing[node]}"] if node in self.refusing else ["sleep", "120"]
        self.processes[node] = subprocess.Popen(command)
        self.lives[node] = self.lives.get(node, 0) + 1
        self.armed[node] = [crash_at] if crash_at else []
        if node in self.refusing:
            self.processes[node].wait()

    def start_all(self, nodes: Sequence[int]) -> None:
        for node in nodes:
            self.start(node)

    def kill(self, node: int) -> int:
        return self.kill_all([node])[node]

    def kill_all(self, nodes: Sequence[int]) -> dict[int, int]:
        for node in nodes:
            self._may_fail("kill", node)
            self.processes[node].kill()
        return {node: self.processes[node].wait() for node in nodes}

    def cut_power(self, nodes: Sequence[int]) -> dict[int, int]:
        for node in nodes:
            if node in self.disks:
                self.disks[node] = {**self.disks[node], "cuts": self.disks[node]["cuts"] + 1}
        return self.kill_all(nodes)

    def disk_state(self, node: int) -> dict[str, Any] | None:
        return self.disks.get(node)

    def pause(self, node: int) -> None:
        self._may_fail("pause", node)
        self.processes[node].send_signal(signal.SIGSTOP)
        while not self.paused(node):
            pass

    def reach_point(self, node: int) -> None:
        """Let a node pause at its armed point."""
        self.armed[node] = []
        self.pause(node)

    def resume(self, node: int) -> None:
        self._may_fail("resume", node)
        self.processes[node].send_signal(signal.SIGCONT)
        while self.paused(node):
            pass

    def stop(self, node: int) -> int:
        self.processes[node].terminate()
        self.processes[node].wait()
        return 0

    def wait_exit(self, node: int, timeout: float) -> int | None:
        try:
            return self.processes[node].wait(timeout) if timeout else self.processes[node].poll()
        except subprocess.TimeoutExpired:
            return None

    def wipe(self, node: int) -> None:
        shutil.rmtree(self.disk_folder(node))

    def control(self, node: int, command: str, **arguments: Any) -> dict[str, Any]:
        self._may_fail(command, node)
        if not self.alive(node):
            raise ClusterError(f"node {node} is not up")
        self.commands.append((node, command, arguments))
        if command == "arm":
            self.armed[node] = [arguments["point"]]
        if command == "power-cut":
            self.processes[node].kill()
        if command == "disarm":
            return {"armed": bool(self.armed.pop(node, None))}
        return {}

    def note_damage(self, node: int) -> None:
        self.damaged.append(node)

    def disk_folder(self, node: int) -> str:
        return str(self.folder / f"node-{node}")

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


@pytest.fixture
def sleepers(tmp_path: Path) -> Iterator[Callable[..., Sleepers]]:
    """Return `sleepers(count, kind)`, which starts an ensemble that ends with the test."""
    made: list[Sleepers] = []

    def make(count: int = 3, kind: type[Sleepers] = Sleepers) -> Sleepers:
        made.append(kind(tmp_path, count))
        return made[-1]

    yield make
    for one in made:
        one.close()


class Patient(ThisHost):
    """A host whose time passes only during `sleep`."""

    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float, until: Any = None) -> bool:
        self.time += seconds
        return False


@pytest.fixture
def patient() -> Patient:
    return Patient()


class StillHost(ThisHost):
    """This machine with a clock that a test sets, and that advances only during `sleep`: everything else takes no time."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float, until: threading.Event | None = None) -> bool:
        self.time += seconds
        return super().sleep(seconds, until)


class Timed(Scheduler):
    """A scheduler whose host has the time that `due` is called with."""

    host: StillHost

    def due(self, now: float) -> float | None:
        self.host.time = now
        return super().due(now)


class Play:
    """A scheduler over sleeping processes, and its log."""

    def __init__(
        self, cluster: Any, log: Path, *steps: FaultStep, keep_quorum: bool = False, drawn: bool = False
    ) -> None:
        self.cluster = cluster
        self.log = log
        self.host = StillHost()
        self.scheduler = Timed(
            cluster, None, steps, 1, log, keep_quorum=keep_quorum, patience=5.0, host=self.host, drawn=drawn
        )
        self.scheduler.begin(100.0)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def told(self) -> list[tuple[str, int, bool]]:
        return [(line["type"], line["id"], line["confirmed"]) for line in self.lines()]


@pytest.fixture
def play(sleepers: Callable[..., Any], tmp_path: Path) -> Iterator[Callable[..., Play]]:
    made: list[Play] = []

    def make(*steps: FaultStep, nodes: int = 3, keep_quorum: bool = False, drawn: bool = False) -> Play:
        made.append(Play(sleepers(nodes), tmp_path / "faults.jsonl", *steps, keep_quorum=keep_quorum, drawn=drawn))
        return made[-1]

    yield make
    for one in made:
        one.scheduler.close()
