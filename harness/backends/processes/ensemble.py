"""An ensemble of real nodes, and the backend on which they are OS processes of this machine."""

import os
import shutil
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from zab_chaos.faults.cluster import ClusterError, Status
from zab_chaos.harness.backends import ensemble_state as cluster
from zab_chaos.harness.backends.processes.life import Life, spawn
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.results.run_folder import RunFolder, write_whole
from zab_chaos.node.config import Limits, NodeConfig, Timing
from zab_chaos.node.net import keys
from zab_chaos.node.net.control import ControlClient, ControlError, ControlTimeout
from zab_chaos.node.net.keys import KeyFiles

START_SECONDS = 30.0  # from the spawn to the first answer; a long recovery on a busy machine is no failure
ANSWER_SECONDS = 0.5  # for one attempt to reach a node that is starting
CONTROL_SECONDS = 5.0  # for an answer to a command; a node that syncs a slow disk answers late
STOP_SECONDS = 10.0  # what a node gets to end by itself

_T = TypeVar("_T")

DEADLY = ("arm", "power-cut")  # commands after which a node that dies of SIGKILL does as it was told
EXITS = {
    0: "it was asked to",
    65: "its disk is corrupt",
    70: "a sanity check failed",
    74: "disk error or disk full",
    75: "its address is in use",
    78: "its configuration or a key file cannot be used",
}


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where one node listens, `host:port` each."""

    listen: str
    client: str
    control: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the ensemble is built of. `links[i, j]` is where i connects to reach j: j's proxy for i, or j itself."""

    cluster: str
    addresses: dict[int, Addresses]
    links: dict[tuple[int, int], str]
    keys: KeyFiles
    faithful: bool = True
    record: bool = True
    defect: str | None = None
    timing: Timing = field(default_factory=Timing)
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Ended:
    """A node that ended by itself."""

    node: int
    life: int
    code: int
    armed: bool  # a crash point was armed for this life, and it died of SIGKILL: that is what was asked for

    def __str__(self) -> str:
        if self.code < 0:
            return f"node-{self.node} was killed by {signal.Signals(-self.code).name}"
        return f"node-{self.node} ended by itself with exit code {self.code}: {EXITS.get(self.code, 'see its log')}"


class Nodes(ABC):
    """Implements `zab_chaos.faults.cluster.Cluster` for real nodes, but for what they live in and where their disks are.

    The main thread drives it; any thread may ask how it is.
    """

    def __init__(self, folder: RunFolder, plan: Plan) -> None:
        self.nodes: Sequence[int] = sorted(plan.addresses)
        self.faithful = plan.faithful
        self._folder = folder
        self._plan = plan
        self._lives: dict[int, Life] = {}
        self._reported: set[tuple[int, int]] = set()
        pair = keys.load(plan.keys.control)
        self._control = {node: ControlClient(plan.addresses[node].control, pair) for node in self.nodes}
        self._locks = {node: threading.Lock() for node in self.nodes}
        for node in self.nodes:
            config = msgspec.json.format(msgspec.json.encode(self._node_config(node)))
            write_whole(self._config(node), config.decode() + "\n")
            self._config(node).chmod(0o644)  # in a container somebody else reads it; it holds no secret

    @abstractmethod
    def disk_folder(self, node: int) -> str: ...

    @abstractmethod
    def wipe(self, node: int) -> None: ...

    @abstractmethod
    def _begin(self, node: int, number: int, crash_at: str | None, log: Path) -> Life:
        """Start the node's life of this number."""

    def _node_config(self, node: int) -> NodeConfig:
        """What this node is told. `disk_folder` must answer by then."""
        plan = self._plan
        own = plan.addresses[node]
        return NodeConfig(
            id=node,
            cluster=plan.cluster,
            listen=own.listen,
            client=own.client,
            control=own.control,
            peers={peer: plan.links[node, peer] for peer in self.nodes if peer != node},
            link_keys=str(plan.keys.links),
            control_keys=str(plan.keys.control),
            client_keys=str(plan.keys.clients),
            data=str(self._data(node)),
            trace=str(self._folder.file("trace")),
            record=str(self._folder.file("record")) if plan.record else None,
            faithful=plan.faithful,
            defect=plan.defect,
            timing=plan.timing,
            limits=plan.limits,
        )

    def _config(self, node: int) -> Path:
        return self._folder.file("config", f"node-{node}.json")

    def _data(self, node: int) -> Path:
        return self._folder.file("data", f"node-{node}")

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

    def client_address(self, node: int) -> str:
        """Where clients connect: directly, so that a fault of the links is never one of the clients."""
        return self._plan.addresses[node].client

    def link_address(self, source: int, target: int) -> tuple[str, str]:
        return self._plan.links[source, target], self._plan.addresses[target].listen

    def status(self, node: int, timeout: float = 2.0) -> Status | None:
        if not self.alive(node):
            return None
        try:
            answer = self._call(node, "status", timeout)
        except ControlError:
            return None
        return msgspec.convert(answer, Status)

    def leader(self) -> int | None:
        return cluster.leader_of(cluster.statuses(self), len(self.nodes))

    def ended(self) -> list[Ended]:
        """Nodes that ended without being told to, since this was last asked."""
        found = []
        for node, life in self._lives.items():
            code = life.code
            if code is None or life.ending or (node, life.life) in self._reported:
                continue
            self._reported.add((node, life.life))
            life.release()
            found.append(Ended(node, life.life, code, life.crash_at is not None and code == -signal.SIGKILL))
        return found

    def last_words(self, node: int) -> str:
        """The end of the log of the node's latest life."""
        return self._lives[node].last_words()

    # What is done to it

    def start(self, node: int, crash_at: str | None = None) -> None:
        """Start the node's next life and wait until it answers, or has ended by itself (which `ended` then reports)."""
        self._spawn(node, crash_at)
        self._await([node])

    def start_all(self, nodes: Sequence[int]) -> None:
        """Start several at once: interpreters take their time, and more than one core has it."""
        self._together(lambda node: self._spawn(node, None), nodes)
        self._await(nodes)

    def _spawn(self, node: int, crash_at: str | None) -> None:
        last = self._lives.get(node)
        if last is not None and last.alive:
            raise ClusterError(f"node {node} is to be started but is up (pid {last.pid})")
        number = 1 if last is None else last.life + 1
        log = self._folder.file("log", f"node-{node}-{number}.log")
        self._lives[node] = self._begin(node, number, crash_at, log)

    def _await(self, nodes: Sequence[int]) -> None:
        def settled(node: int) -> bool:
            return not self.alive(node) or self.status(node, ANSWER_SECONDS) is not None

        deadline = time.monotonic() + START_SECONDS
        for node in nodes:
            if not wait_until(partial(settled, node), deadline - time.monotonic()):
                raise ClusterError(
                    f"node {node} does not answer {START_SECONDS:.0f} s after its start. The end of its log:\n"
                    + self._lives[node].last_words()
                )

    def control(self, node: int, command: str, **arguments: Any) -> dict[str, Any]:
        if not self.alive(node):
            raise ClusterError(f"node {node} is not up: {command} cannot be given to it")
        if command in DEADLY:
            self._lives[node].crash_at = command
        try:
            return self._call(node, command, CONTROL_SECONDS, alive=partial(self.alive, node), **arguments)
        except ControlTimeout as error:
            status = self.wait_exit(node, 0.0)
            if status is None:
                raise ClusterError(f"node {node}: {error}") from error
            return {"ended": status}  # it died of what it was told to do, before it could say so
        except ControlError as error:
            raise ClusterError(f"node {node}: {error}") from error

    def _call(self, node: int, command: str, timeout: float, **arguments: Any) -> dict[str, Any]:
        """A socket belongs to one thread at a time; the display asks for statuses while faults give commands."""
        with self._locks[node]:
            return self._control[node].call(command, timeout, **arguments)

    def kill(self, node: int) -> int:
        return self.kill_all([node])[node]

    def kill_all(self, nodes: Sequence[int]) -> dict[int, int]:
        """The signals first, then the waiting: for the nodes it is one instant. One that is gone keeps its status."""
        missing = [node for node in nodes if node not in self._lives]
        if missing:
            raise ClusterError(f"{cluster.names(missing)} cannot be killed: never started")
        lives = [self._lives[node] for node in nodes]
        self._together(_strike, lives)
        return {life.node: life.kill() for life in lives}

    def _together(self, call: Callable[[_T], None], items: Sequence[_T]) -> None:
        """Do it to each, as much at one instant as can be."""
        for item in items:
            call(item)

    def pause(self, node: int) -> None:
        self._up(node).pause()

    def resume(self, node: int) -> None:
        self._up(node).resume()

    def stop(self, node: int) -> int:
        return self._up(node).end(STOP_SECONDS)

    def wait_exit(self, node: int, timeout: float) -> int | None:
        life = self._lives.get(node)
        if life is None or not wait_until(lambda: not life.alive, timeout):
            return None
        return life.code

    def close(self, ask: bool = True) -> list[int]:
        """End all nodes: all are asked at once, or killed at once. Returns those that were asked and killed."""
        up = [life for life in self._lives.values() if life.alive]
        self._together(Life.ask if ask else _strike, up)
        deadline = time.monotonic() + STOP_SECONDS
        exits = {life.node: life.end(max(0.0, deadline - time.monotonic())) for life in up}
        for life in self._lives.values():
            life.release()
        for client in self._control.values():
            client.close()
        return [node for node, status in exits.items() if status == -signal.SIGKILL and ask]

    def _up(self, node: int) -> Life:
        life = self._lives.get(node)
        if life is None or not life.alive:
            raise ClusterError(f"node {node} is not up")
        return life


def _strike(life: Life) -> None:
    life.signal(signal.SIGKILL)


class Processes(Nodes):
    """Every node is a process, and its disk a folder of the run."""

    def disk_folder(self, node: int) -> str:
        return str(self._data(node))

    def _node_config(self, node: int) -> NodeConfig:
        return msgspec.structs.replace(super()._node_config(node), parent=os.getpid())

    def _begin(self, node: int, number: int, crash_at: str | None, log: Path) -> Life:
        return spawn(node, number, self._config(node), log, bootstrap=number == 1, crash_at=crash_at)

    def wipe(self, node: int) -> None:
        if self.alive(node):
            raise ClusterError(f"node {node} is up; its disk can be wiped when it is down")
        try:
            shutil.rmtree(self.disk_folder(node))
        except FileNotFoundError:
            return
        except OSError as error:
            raise ClusterError(f"the disk of node {node} cannot be wiped: {error}") from error
