"""The cluster of our own nodes in processes or containers (`ZabCluster`), and as processes of this machine (`Processes`)."""

import os
import threading
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from zab_chaos.faults.cluster import ClusterError, Status
from zab_chaos.harness.backends.processes.disks import Disks
from zab_chaos.harness.backends.processes.life import Life, spawn, write_config
from zab_chaos.harness.backends.processes.process_cluster import ProcessCluster
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.node.config import Limits, NodeConfig, Timing
from zab_chaos.node.core.digest import NEWEST
from zab_chaos.node.net import keys
from zab_chaos.node.net.control import ControlClient, ControlError, ControlTimeout
from zab_chaos.node.net.keys import KeyFiles

# Limit for the answer to a command. A node answers between two rounds. A round that ends with a snapshot has about six syncs,
# and each may take 10 s (`slow-disk`).
CONTROL_SECONDS = 90.0

DEADLY = ("arm", "power-cut")  # commands after which the death of a node by SIGKILL is expected


@dataclass(frozen=True, slots=True)
class NodeAddresses:
    """The addresses at which one node listens for links, clients and control commands, each `host:port`."""

    listen: str
    client: str
    control: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """The configuration of a cluster of our own nodes.

    `cluster`: the name that links check. `links[i, j]`: the address at which node i reaches node j, which is j's proxy for i
    or j itself.
    """

    cluster: str
    addresses: dict[int, NodeAddresses]
    links: dict[tuple[int, int], str]
    keys: KeyFiles
    faithful: bool = True
    record: bool = True
    defect: str | None = None
    timing: Timing = field(default_factory=Timing)
    limits: Limits = field(default_factory=Limits)


class ZabCluster(ProcessCluster):
    """Implements `zab_chaos.faults.cluster.Cluster` for our own nodes. Subclasses start a life in `_start_life`."""

    exit_meanings = MappingProxyType(
        {
            0: "it was asked to end",
            65: "its disk is corrupt",
            70: "a sanity check failed",
            74: "disk error or disk full",
            75: "its address is in use",
            78: "its configuration or a key file cannot be used",
        }
    )

    def __init__(self, folder: RunFolder, plan: ClusterPlan, disks: Disks | None = None) -> None:
        super().__init__(folder, list(plan.addresses), plan.faithful, disks)
        self._plan = plan
        pair = keys.load(plan.keys.control)
        self._control = {node: ControlClient(plan.addresses[node].control, pair) for node in self.nodes}
        self._locks = {node: threading.Lock() for node in self.nodes}
        for node in self.nodes:
            write_config(self._config(node), self._node_config(node))
            self._config(node).chmod(0o644)  # in a container another user reads it; it holds no secret

    def _node_config(self, node: int) -> NodeConfig:
        """Return the node's configuration."""
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
            faithful=plan.faithful and self._disks is None,
            defect=plan.defect,
            timing=plan.timing,
            limits=plan.limits,
            digest=NEWEST,
        )

    def _config(self, node: int) -> Path:
        return self._folder.file("config", f"node-{node}.json")

    def client_address(self, node: int) -> str:
        """Return the address for clients. They connect without a proxy, so that link faults do not affect them."""
        return self._plan.addresses[node].client

    def status(self, node: int, timeout: float = 2.0) -> Status | None:
        if not self.alive(node):
            return None
        try:
            answer = self._call(node, "status", timeout)
        except ControlError:
            return None
        return msgspec.convert(answer, Status)

    def control(self, node: int, command: str, **arguments: Any) -> dict[str, Any]:
        if command in DEADLY and self.alive(node):
            self._lives[node].crash_at = command
        answer = self._command_disk(node, command, arguments)
        if answer is not None:
            return answer
        if not self.alive(node):
            raise ClusterError(f"node {node} is not up: {command} cannot be given to it")
        try:
            return self._call(node, command, CONTROL_SECONDS, alive=partial(self._runs, node), **arguments)
        except ControlTimeout as error:
            status = self.wait_exit(node, 0.0)
            if status is None:
                raise ClusterError(f"node {node}: {error}") from error
            return {"ended": status}  # the command ended the node before it could answer
        except ControlError as error:
            raise ClusterError(f"node {node}: {error}") from error

    def _runs(self, node: int) -> bool:
        """Return whether the node's process can answer: a paused one can't, and nobody resumes it while a command waits."""
        return self.alive(node) and not self.paused(node)

    def _call(self, node: int, command: str, timeout: float, **arguments: Any) -> dict[str, Any]:
        """Call the control port. The lock is needed because the monitor's thread asks for statuses while faults give
        commands, and a socket can be used by one thread at a time."""
        with self._locks[node]:
            return self._control[node].call(command, timeout, **arguments)

    def close(self, ask: bool = True) -> list[int]:
        killed = super().close(ask)
        for client in self._control.values():
            client.close()
        return killed


class Processes(ZabCluster):
    """The cluster of the backend `processes`: each node is a process of this machine, and its disk a folder of the run."""

    def _node_config(self, node: int) -> NodeConfig:
        return msgspec.structs.replace(super()._node_config(node), parent=os.getpid())

    def _start_life(self, node: int, number: int, crash_at: str | None, log: Path) -> Life:
        return spawn(node, number, self._config(node), log, crash_at)
