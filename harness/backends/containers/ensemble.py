"""An ensemble of containers: the `containers` backend of `zab_chaos.faults.cluster.Cluster`."""

import io
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.faults.host import ThisHost
from zab_chaos.harness.backends.containers.container import ContainerLife, cgroup_cpu_quota
from zab_chaos.harness.backends.containers.engine import translate_errors
from zab_chaos.harness.backends.containers.heartbeat import SILENCE_MS
from zab_chaos.harness.backends.containers.resources import DATA, INSIDE, EngineResources, user
from zab_chaos.harness.backends.processes.ensemble import ClusterPlan, ZabCluster
from zab_chaos.harness.backends.processes.life import Life, node_command
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.node.config import NodeConfig

LISTEN, CLIENT, CONTROL = 7001, 7002, 7003  # ports inside the containers, the same in all
_T = TypeVar("_T")


class Containers(ZabCluster):
    """The nodes of a run: each life of a node is a new container, and its disk is a volume.

    Faults that damage a disk at rest damage a copy of it in the run's folder. The next life gets the copy.
    """

    def __init__(self, folder: RunFolder, plan: ClusterPlan, resources: EngineResources) -> None:
        self._resources = resources
        self._containers: dict[int, ContainerLife] = {}
        self._copied_out: set[int] = set()  # nodes whose disk is in the run's folder
        self._unplugged: set[int] = set()
        super().__init__(folder, plan)

    def _node_config(self, node: int) -> NodeConfig:
        keys = self._plan.keys
        return msgspec.structs.replace(
            super()._node_config(node),
            listen=f"0.0.0.0:{LISTEN}",
            client=f"0.0.0.0:{CLIENT}",
            control=f"0.0.0.0:{CONTROL}",
            link_keys=f"{INSIDE}/config/{keys.links.name}",
            control_keys=f"{INSIDE}/config/{keys.control.name}",
            client_keys=f"{INSIDE}/config/{keys.clients.name}",
            data=DATA,
            trace=f"{INSIDE}/trace",
            record=f"{INSIDE}/record" if self._plan.record else None,
            silence_ms=SILENCE_MS,
        )

    def _do_to_all(self, call: Callable[[_T], None], items: Sequence[_T]) -> None:
        """Call it for all items in parallel, because the engine's requests are slow."""
        if items:
            with ThreadPoolExecutor(len(items)) as pool:
                list(pool.map(call, items))

    def _start_life(self, node: int, number: int, crash_at: str | None, log: Path) -> Life:
        self._remove_container(node)
        own = self._plan.addresses[node]
        ports = {CLIENT: _port(own.client), CONTROL: _port(own.control)}
        command = node_command("python", f"{INSIDE}/config/{self._config(node).name}", number, crash_at)
        name = f"node-{node}"
        if node in self._copied_out:
            self._resources.remove_volume(name)  # what was removed from the copy must not be on the disk, either
        container = self._resources.create(f"{name}-{number}", command, log, ports, disk=name)
        if node not in self._unplugged:
            self._resources.connect(container, name)
        if node in self._copied_out:
            _copy_in(container, self._data(node))
            shutil.rmtree(self._data(node))
            self._copied_out.discard(node)
        self._resources.start(container, name)
        self._containers[node] = ContainerLife(node, number, log, crash_at, container)
        return self._containers[node]

    def _remove_container(self, node: int) -> None:
        """Remove the container of the life that has ended, so that its address and ports are free."""
        life = self._containers.pop(node, None)
        if life is not None:
            with translate_errors(f"removing the container of node {node}"):
                life.container.remove(force=True)

    # The disk

    def wipe(self, node: int) -> None:
        if self.alive(node):
            raise ClusterError(f"node {node} is up; its disk can be wiped when it is down")
        self._remove_container(node)
        self._resources.remove_volume(f"node-{node}")
        self._copied_out.discard(node)
        shutil.rmtree(self._data(node), ignore_errors=True)

    def disk_folder(self, node: int) -> str:
        """Return a folder with a copy of the dead node's disk. Its next life begins with the contents of the folder."""
        folder = self._data(node)
        if node not in self._copied_out and node in self._containers:
            _copy_out(self._containers[node].container, folder)
            self._copied_out.add(node)
        return str(folder)

    def close(self, ask: bool = True) -> list[int]:
        """End all nodes. If they are asked to end, copies of their disks are left in the run's folder."""
        killed = super().close(ask)
        for node in self.nodes if ask else ():
            self.disk_folder(node)
        return killed

    # Faults that only containers support

    def unplug(self, node: int) -> None:
        self._resources.disconnect(self._container(node).container, f"node-{node}")
        self._unplugged.add(node)

    def plug_in(self, node: int) -> None:
        self._unplugged.discard(node)
        if self.alive(node):
            self._resources.connect(self._container(node).container, f"node-{node}")

    def plugged_in(self, node: int) -> bool:
        container = self._container(node).container
        with translate_errors(f"looking at node {node}"):
            container.reload()
        return self._resources.links.name in container.attrs["NetworkSettings"]["Networks"]

    def limit_cpu(self, node: int, cores: float | None) -> None:
        container = self._container(node).container
        with translate_errors(f"limiting node {node}"):
            container.update(cpu_period=CPU_PERIOD, cpu_quota=int(CPU_PERIOD * cores) if cores is not None else -1)

    def cpu_limited(self, node: int) -> bool:
        life = self._container(node)
        quota = cgroup_cpu_quota(life.pid)
        if quota is None:
            with translate_errors(f"looking at node {node}"):
                life.container.reload()
            quota = life.container.attrs["HostConfig"]["CpuQuota"]
        return quota > 0

    def throttled(self, node: int) -> int:
        container = self._container(node).container
        with translate_errors(f"looking at node {node}"):
            stats = container.stats(stream=False, one_shot=True)
        return int(stats["cpu_stats"]["throttling_data"]["throttled_periods"])

    def _container(self, node: int) -> ContainerLife:
        self._running_life(node)
        return self._containers[node]

    def process_state(self, pid: int | None) -> str | None:
        """See `zab_chaos.faults.host.Host.process_state`; for the processes of this ensemble's containers."""
        life = next((life for life in self._containers.values() if life.pid == pid), None)
        if life is None or not life.alive:
            return None
        return psutil.STATUS_STOPPED if life.is_halted() else psutil.STATUS_RUNNING


CPU_PERIOD = 100_000  # microseconds, the kernel's default


class ContainerHost(ThisHost):
    """The host that faults see: this machine's clock, and the processes of the containers."""

    def __init__(self, nodes: Containers) -> None:
        self._nodes = nodes

    def process_state(self, pid: int | None) -> str | None:
        return self._nodes.process_state(pid)


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _copy_out(container: Any, folder: Path) -> None:
    """Copy a container's disk into a folder."""
    files = _read_disk(container)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _read_disk(container: Any) -> dict[str, bytes]:
    """Return the contents of the files on a container's disk by their names. A disk is flat, see node/store/disk.py."""
    with translate_errors("copying a disk out of its container"), tempfile.TemporaryFile() as file:
        chunks, _ = container.get_archive(DATA)
        for chunk in chunks:
            file.write(chunk)
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:
            files = {Path(it.name).name: archive.extractfile(it) for it in archive.getmembers() if it.isfile()}
            return {name: content.read() for name, content in files.items() if content is not None}


def _copy_in(container: Any, folder: Path) -> None:
    """Copy the files of a folder to a container's disk, which is empty. Raises ClusterError if it then has anything else."""

    def set_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid, member.gid = user()
        return member

    with translate_errors("copying a disk into its container"), io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            for path in sorted(folder.iterdir()):
                archive.add(path, path.name, filter=set_owner)
        container.put_archive(DATA, file.getvalue())
    if _read_disk(container) != {path.name: path.read_bytes() for path in folder.iterdir()}:
        raise ClusterError(f"the disk of {folder.name} is not as the faults have left it")
