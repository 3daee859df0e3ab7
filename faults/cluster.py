"""The interface between faults and backends: what a fault may do to an ensemble."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Status:
    """One node's answer on its control port (see `zab_chaos.node.net.control`). A node that is not ours only says that it
    serves, and what it has taken from its peers."""

    node: int
    life: int
    role: str = ""  # LOOKING, FOLLOWING, LEADING
    phase: str = ""
    leader: int | None = None
    epoch: int = 0  # current_epoch
    accepted_epoch: int = 0
    last_zxid: tuple[int, int] = (0, 0)
    delivered: tuple[int, int] = (0, 0)
    digest: str = ""
    tree: str = ""
    established: bool = True  # in BROADCAST: a leader that is established, or a follower of one
    amnesiac: bool = False
    frames: dict[int, int] = field(default_factory=dict)  # frames taken so far, by sending peer
    armed: list[str] = field(default_factory=list)
    unsynced_bytes: int = 0
    waiting: int = 0  # requests that are not answered
    in_flight_bytes: int = 0  # of transactions that it has prepared as the leader and not delivered


class Cluster(Protocol):
    """A running ensemble. Node ids are 1..n. Every call returns when it has taken effect or raises ClusterError."""

    nodes: Sequence[int]
    faithful: bool
    crashed: int  # the exit status of a node that has reached its crash point

    def alive(self, node: int) -> bool: ...
    def pid(self, node: int) -> int | None: ...
    def paused(self, node: int) -> bool: ...
    def status(self, node: int, timeout: float = 2.0) -> Status | None:
        """The node's status; None if it is not up or does not answer in time."""

    def leader(self) -> int | None:
        """The established leader of the highest epoch, as the nodes say now."""

    def start(self, node: int, crash_at: str | None = None) -> None:
        """Returns when the node answers or has ended by itself, which is no error here."""

    def start_all(self, nodes: Sequence[int]) -> None:
        """Start several at once, as when the power returns."""

    def kill(self, node: int) -> int:
        """SIGKILL; waits until the process is gone; returns its exit status (-9)."""

    def kill_all(self, nodes: Sequence[int]) -> dict[int, int]:
        """SIGKILL to all of them at one instant (the signals first, then the waiting); exit statuses by node."""

    def cut_power(self, nodes: Sequence[int]) -> dict[int, int]:
        """`kill_all`, and what they have not synced is lost."""

    def disk_state(self, node: int) -> dict[str, Any] | None:
        """What the file system under a node's disk has counted, if it lies on one of ours
        (`zab_chaos.faults.filesystem`)."""

    def pause(self, node: int) -> None: ...
    def resume(self, node: int) -> None: ...
    def stop(self, node: int) -> int:
        """Ask the node to end by itself; kill it if it does not. Returns the exit status."""

    def wait_exit(self, node: int, timeout: float) -> int | None:
        """Wait until the process ends by itself. Its exit status, or None if it is still up."""

    def wipe(self, node: int) -> None:
        """Remove the (dead) node's disk."""

    def control(self, node: int, command: str, **arguments: Any) -> dict[str, Any]:
        """A command for the node's control port."""

    def disk_folder(self, node: int) -> str:
        """The (dead) node's disk, for corruption at rest."""


@runtime_checkable
class Contained(Cluster, Protocol):
    """An ensemble in containers. Nodes must be up."""

    def unplug(self, node: int) -> None:
        """Disconnect it from the nodes' network. The harness and clients still reach it."""

    def plug_in(self, node: int) -> None:
        """Reconnect it; a node that is down will start connected."""

    def plugged_in(self, node: int) -> bool: ...
    def limit_cpu(self, node: int, cores: float | None) -> None:
        """Limit its CPU time, in cores; None for no limit."""

    def throttled(self, node: int) -> int:
        """The number of scheduling periods in which the kernel has throttled it."""


def is_paused(cluster: Cluster, node: int) -> bool:
    """Whether its process is there, and paused."""
    return cluster.alive(node) and cluster.paused(node)


class ClusterError(Exception):
    """The ensemble could not do what a fault asked for."""
