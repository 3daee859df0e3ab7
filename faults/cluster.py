"""The interface between faults and backends: what a fault may do to an ensemble."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

FOLLOWS = ("FOLLOWING", "OBSERVING")  # the roles of nodes that have a leader


@dataclass(frozen=True, slots=True)
class Status:
    """One node's answer on its control port (see `zab_chaos.node.net.control`).

    A node of another system fills in only `established` and, if its backend can tell, `frames`.
    """

    node: int
    life: int
    role: str = ""  # LOOKING, FOLLOWING, LEADING, OBSERVING
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
    frames: dict[int, int] = field(default_factory=dict)  # number of frames received in this life, by sending peer
    armed: list[str] = field(default_factory=list)  # crash points
    unsynced_bytes: int = 0
    waiting: int = 0  # requests that are not answered yet
    in_flight_bytes: int = 0  # bytes of the transactions that it has prepared as the leader and not delivered yet
    # What it holds because of clients and their requests, by what it is: 0 each when there are none.
    leftovers: Mapping[str, int] = field(default_factory=dict)


class Cluster(Protocol):
    """A running ensemble, as faults use it. Node ids are 1..n.

    A call returns when it has taken effect, or raises ClusterError.
    """

    nodes: Sequence[int]
    voters: Sequence[int]  # the nodes that count in quorums: all but observers
    faithful: bool  # whether unsynced bytes are lost with a node's process
    crashed: int  # the exit status of a node that died at its crash point
    # Glob patterns, within a node's data folder, of the files that can be damaged: by the key `file` of `corrupt` and others.
    disk_files: Mapping[str, str]

    def alive(self, node: int) -> bool: ...
    def pid(self, node: int) -> int | None: ...
    def paused(self, node: int) -> bool: ...
    def status(self, node: int, timeout: float = 2.0) -> Status | None:
        """Return the node's status; None if it is not up or does not answer within `timeout` seconds."""

    def leader(self) -> int | None:
        """Ask the nodes, and return the established leader of the highest epoch; None if there is none."""

    def start(self, node: int, crash_at: str | None = None) -> None:
        """Start a node, with the crash point `crash_at` armed if given.

        Return when it answers or has ended by itself, which is not an error.
        """

    def start_all(self, nodes: Sequence[int]) -> None:
        """Start several nodes at once, as when the power returns."""

    def kill(self, node: int) -> int:
        """Send SIGKILL, wait until the process is gone, and return its exit status (-9)."""

    def kill_all(self, nodes: Sequence[int]) -> dict[int, int]:
        """Send SIGKILL to all of these nodes, then wait for all of them. Return the exit statuses by node."""

    def cut_power(self, nodes: Sequence[int]) -> dict[int, int]:
        """Do the same as `kill_all`; in addition, what the nodes have not synced is lost."""

    def disk_state(self, node: int) -> dict[str, Any] | None:
        """Return the counters of the file system under a node's disk; None unless it is `zab_chaos.faults.filesystem`."""

    def pause(self, node: int) -> None: ...
    def resume(self, node: int) -> None: ...
    def stop(self, node: int) -> int:
        """Ask the node to exit by itself, and kill it if it does not. Return the exit status."""

    def wait_exit(self, node: int, timeout: float) -> int | None:
        """Wait up to `timeout` seconds for the process to end by itself. Return its exit status; None if it is still up."""

    def wipe(self, node: int) -> None:
        """Remove the disk of a node that is down."""

    def control(self, node: int, command: str, **arguments: Any) -> dict[str, Any]:
        """Send a command to the node's control port, and return the answer."""

    def disk_folder(self, node: int) -> str:
        """Return the path of a node's data folder, for damage while the node is down."""

    def note_damage(self, node: int) -> None:
        """Take note that files of a node that is down have been damaged: it may refuse to start."""


@runtime_checkable
class Contained(Cluster, Protocol):
    """An ensemble in containers. The nodes in question must be up."""

    def unplug(self, node: int) -> None:
        """Disconnect a node from the nodes' network. The harness and clients still reach it."""

    def plug_in(self, node: int) -> None:
        """Reconnect a node. A node that is down will start connected."""

    def plugged_in(self, node: int) -> bool:
        """Return whether the node is connected to the nodes' network."""

    def limit_cpu(self, node: int, cores: float | None) -> None:
        """Limit a node's CPU time, in cores; None removes the limit."""

    def cpu_limited(self, node: int) -> bool:
        """Return whether a node's CPU time is limited."""

    def throttled(self, node: int) -> int:
        """Return the number of scheduling periods in which the kernel has throttled the node so far."""


@runtime_checkable
class Reconfigurable(Cluster, Protocol):
    """An ensemble whose members can be changed while it runs. Both calls try it for so many seconds, and return the members
    of the committed configuration."""

    def remove_members(self, nodes: Sequence[int], seconds: float) -> list[int]:
        """Remove nodes from the members. They run on."""

    def add_members(self, nodes: Sequence[int], seconds: float) -> list[int]:
        """Add nodes again. They must be up."""


@runtime_checkable
class Upgradable(Cluster, Protocol):
    """An ensemble whose nodes may be of different releases."""

    def install(self, node: int, release: str) -> str:
        """Have a node that is down be of this release from its next start on. Return the release's own name.

        `release`: "old" or "new" (those of the run), or the name of a release. Raises ClusterError.
        """


def is_paused(cluster: Cluster, node: int) -> bool:
    """Return whether the node's process exists and is paused."""
    return cluster.alive(node) and cluster.paused(node)


class ClusterError(Exception):
    """The ensemble could not carry out what a fault asked for."""
