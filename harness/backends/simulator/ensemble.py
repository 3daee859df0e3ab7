"""Adapters through which the faults act on a simulated ensemble: its host, its cluster and its network."""

import shutil
import signal
import tempfile
import threading
from collections.abc import Iterable, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import psutil

from zab_chaos.faults.at_rest import OUR_FILES
from zab_chaos.faults.cluster import ClusterError, Status
from zab_chaos.faults.network import Network, proxy_name
from zab_chaos.faults.proxies import MissingError, Proxies, ProxyState
from zab_chaos.harness.backends import ensemble_state
from zab_chaos.harness.backends.processes.ensemble import CONTROL_SECONDS, DEADLY
from zab_chaos.harness.backends.processes.process_cluster import START_SECONDS, STOP_SECONDS
from zab_chaos.model.world.machine import SimNode
from zab_chaos.model.world.network import SimNet, SimProxy, SimToxic
from zab_chaos.model.world.server import SimServer
from zab_chaos.model.world.world import World
from zab_chaos.node.commands import CommandError

NANO = 1_000_000_000


class SimHost:
    """Implements `zab_chaos.faults.host.Host` with the world's clock: to sleep lets virtual time pass."""

    def __init__(self, world: World, machines: dict[int, SimNode]) -> None:
        self._world = world
        self._machines = machines

    def now(self) -> float:
        return self._world.now / NANO

    def now_ns(self) -> int:
        return self._world.stamp()

    def sleep(self, seconds: float, until: threading.Event | None = None) -> bool:
        if until is not None and until.is_set():
            return True
        self._world.run_for(max(0, ceil(seconds * NANO)))  # rounded up, so that it never returns too early
        return until is not None and until.is_set()

    def process_state(self, pid: int | None) -> str | None:
        for machine in self._machines.values():
            if machine.alive and machine.pid(machine.life) == pid:
                return psutil.STATUS_STOPPED if machine.stopped else psutil.STATUS_RUNNING
        return None


class SimCluster:
    """Implements `zab_chaos.faults.cluster.Cluster`. `faithful`: whether unsynced bytes are lost with a process."""

    def __init__(self, world: World, machines: dict[int, SimNode], faithful: bool) -> None:
        self.nodes: Sequence[int] = sorted(machines)
        self.voters: Sequence[int] = self.nodes
        self.faithful = faithful
        self.crashed = -signal.SIGKILL
        self.disk_files = OUR_FILES
        self._world = world
        self._machines = machines
        self._exported: dict[int, Path] = {}  # disks that were copied to a folder, to be damaged while a node is down

    # ---- state ----

    def alive(self, node: int) -> bool:
        return self._machines[node].alive

    def pid(self, node: int) -> int | None:
        machine = self._machines[node]
        return machine.pid(machine.life) if machine.alive else None

    def paused(self, node: int) -> bool:
        return self._machines[node].stopped

    def status(self, node: int, timeout: float = 2.0) -> Status | None:
        machine = self._machines[node]
        if machine.server is None or not machine.up or machine.stopped:
            return None
        answer = self._ask(machine.server, "status", {}, timeout)
        if answer is None:
            return None
        answer["last_zxid"], answer["delivered"] = tuple(answer["last_zxid"]), tuple(answer["delivered"])
        answer["leftovers"] |= machine.server.port.connections.leftovers()
        return Status(**answer)

    def leader(self) -> int | None:
        return ensemble_state.leader_of(ensemble_state.statuses(self), len(self.nodes))

    def last_words(self, node: int) -> str:
        return f"node-{node} ended with exit code {self._machines[node].exit}"

    # ---- actions ----

    def start(self, node: int, crash_at: str | None = None) -> None:
        self._spawn(node, crash_at)
        self._await([node])

    def start_all(self, nodes: Sequence[int]) -> None:
        for node in nodes:
            self._spawn(node, None)
        self._await(nodes)

    def _spawn(self, node: int, crash_at: str | None) -> None:
        machine = self._machines[node]
        if machine.alive:
            raise ClusterError(f"node {node} is to be started but is up (pid {self.pid(node)})")
        folder = self._exported.pop(node, None)
        if folder is not None:
            if folder.is_dir():
                machine.disk.import_from(folder)
            shutil.rmtree(folder.parent)
        machine.spawn(crash_at)

    def _await(self, nodes: Iterable[int]) -> None:
        machines = [self._machines[node] for node in nodes]
        self._world.run_until(lambda: all(one.up or not one.alive for one in machines), int(START_SECONDS * NANO))

    def kill(self, node: int) -> int:
        return self.kill_all([node])[node]

    def kill_all(self, nodes: Sequence[int]) -> dict[int, int]:
        missing = [node for node in nodes if self._machines[node].server is None]
        if missing:
            raise ClusterError(f"{ensemble_state.listed_nodes(missing)} cannot be killed: never started")
        for node in nodes:
            self._machines[node].kill()
        exits = {node: self._machines[node].exit for node in nodes}
        return {node: status for node, status in exits.items() if status is not None}

    def cut_power(self, nodes: Sequence[int]) -> dict[int, int]:
        if not self.faithful:
            raise ClusterError(ensemble_state.NO_POWER_CUT)
        return self.kill_all(nodes)

    def disk_state(self, node: int) -> None:
        """Return None: a simulated disk is not a mounted file system."""

    def pause(self, node: int) -> None:
        self._running_machine(node).pause()

    def resume(self, node: int) -> None:
        self._running_machine(node).resume()

    def stop(self, node: int) -> int:
        machine = self._running_machine(node)
        machine.terminate()
        if self.wait_exit(node, STOP_SECONDS) is None:
            machine.kill()
        assert machine.exit is not None
        return machine.exit

    def wait_exit(self, node: int, timeout: float) -> int | None:
        machine = self._machines[node]
        if machine.server is None or not self._world.run_until(lambda: not machine.alive, int(timeout * NANO)):
            return None
        return machine.exit

    def wipe(self, node: int) -> None:
        if self.alive(node):
            raise ClusterError(f"node {node} is up; its disk can be wiped when it is down")
        folder = self._exported.pop(node, None)
        if folder is not None:
            shutil.rmtree(folder.parent)
        self._machines[node].disk.wipe()

    def control(self, node: int, command: str, **arguments: Any) -> dict[str, Any]:
        """Give a command. A node handles it between two rounds; a stopped process does not answer."""
        machine = self._machines[node]
        server = machine.server
        if server is None or not machine.alive:
            raise ClusterError(f"node {node} is not up: {command} cannot be given to it")
        if command in DEADLY:
            machine.armed = True
        answer = self._ask(server, command, arguments, CONTROL_SECONDS)
        if answer is None and server.alive:
            late = "it is paused" if server.stopped else f"{CONTROL_SECONDS:g} s have passed"
            raise ClusterError(f"node {node} did not answer {command}: {late}")
        return {"ended": machine.exit} if answer is None else answer

    def _ask(self, server: SimServer, command: str, arguments: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """Return the answer on the control port; None if the node ends or does not answer in time. Raises ClusterError."""
        answers: list[dict[str, Any] | CommandError] = []
        server.ask(command, arguments, answers.append)
        self._world.run_until(lambda: bool(answers) or not server.alive or server.stopped, int(seconds * NANO))
        answer = answers[0] if answers else None
        if isinstance(answer, CommandError):
            raise ClusterError(f"node {server.id}: {answer}")
        return answer

    def disk_folder(self, node: int) -> str:
        """Copy the disk to a folder, and return that. At the node's next start its disk is read from there."""
        if node not in self._exported:
            folder = Path(tempfile.mkdtemp(prefix="zab-sim-")) / f"node-{node}"
            self._machines[node].disk.export_to(folder)
            self._exported[node] = folder
        return str(self._exported[node])

    def note_damage(self, node: int) -> None:
        """Do nothing: such a node says why it does not start."""

    def export_disks(self, folder: Path) -> None:
        """Write all disks to folders below `folder`."""
        for node, machine in self._machines.items():
            machine.disk.export_to(folder / f"node-{node}")

    def close(self, ask: bool = True) -> list[int]:
        """End all nodes: ask them to end, or leave them as they are. Return those that had to be killed."""
        up = [machine for machine in self._machines.values() if ask and machine.alive]
        for machine in up:
            if machine.stopped:
                machine.resume()
            machine.terminate()
        self._world.run_until(lambda: not any(machine.alive for machine in up), int(STOP_SECONDS * NANO))
        late = [machine.id for machine in up if machine.alive]
        for machine in up:
            machine.kill()
        for folder in self._exported.values():
            shutil.rmtree(folder.parent, ignore_errors=True)
        self._exported.clear()
        return late

    def _running_machine(self, node: int) -> SimNode:
        machine = self._machines[node]
        if not machine.alive:
            raise ClusterError(f"node {node} is not up")
        return machine


class SimProxies(Proxies):
    """Implements `zab_chaos.faults.proxies.Proxies` on the proxies of the world, as toxiproxy does on real links.

    The addresses of a proxy are the nodes at its ends.
    """

    def __init__(self, net: SimNet) -> None:
        self._proxies = {proxy_name(pair): proxy for pair, proxy in net.proxies.items()}

    def states(self) -> dict[str, ProxyState]:
        return {
            name: ProxyState(*_ends(proxy.source, proxy.target), proxy.enabled, _toxics(proxy))
            for name, proxy in self._proxies.items()
        }

    def create(self, name: str, listen: str, upstream: str, enabled: bool = True) -> None:
        if enabled:
            self._proxy(name).enable()

    def delete(self, name: str) -> None:
        self._proxy(name).delete()

    def enable(self, name: str) -> None:
        self._proxy(name).enable()

    def disable(self, name: str) -> None:
        self._proxy(name).disable()

    def add(self, name: str, toxic: str, kind: str, stream: str, attributes: dict[str, int]) -> None:
        self._proxy(name).add(toxic, SimToxic(kind, stream, attributes))

    def remove(self, name: str, toxic: str) -> None:
        self._proxy(name).remove(toxic)

    def toxics(self, name: str) -> dict[str, dict[str, Any]]:
        return _toxics(self._proxy(name))

    def frames(self, name: str, kind: str) -> tuple[int, int]:
        proxy = self._proxy(name)
        return proxy.met[kind], proxy.hit[kind]

    def _proxy(self, name: str) -> SimProxy:
        if name not in self._proxies:
            raise MissingError(f"there is no simulated proxy {name}")
        return self._proxies[name]


def _toxics(proxy: SimProxy) -> dict[str, dict[str, Any]]:
    return {
        label: {"type": toxic.kind, "stream": toxic.stream, "toxicity": 1.0, "attributes": toxic.attributes}
        for label, toxic in proxy.toxics.items()
    }


class SimNetwork(Network):
    """The links of a simulated run."""

    def __init__(self, net: SimNet) -> None:
        super().__init__(SimProxies(net))
        self.create_links({pair: _ends(*pair) for pair in net.proxies})


def _ends(source: int, target: int) -> tuple[str, str]:
    return f"node-{source}", f"node-{target}"
