"""The interfaces through which a simulated server calls the node's code and its disk.

The simulator implements them with the node's own code in this process (`zab_chaos.node.replica`, `zab_chaos.node.commands`,
`zab_chaos.model.world.disk`). The lockstep backend implements them with one process for each node, over ZeroMQ, and its files
in a folder (`zab_chaos.harness.backends.lockstep`). The rest of the simulator must not depend on which of the two it is.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from zab_chaos.node.channel.runs import ChannelRun
from zab_chaos.node.events import ClientEvent, LinkEvent


class ReplicaInterface(Protocol):
    """`zab_chaos.node.replica`: executes a life in rounds.

    `start` and `round` return an iterator that yields each time the disk is about to sync, or `OVER` if there is nothing to do.
    """

    @property
    def in_broadcast(self) -> bool: ...
    def wakes_at(self, now: int) -> int: ...
    def start(self, now: int) -> Iterator[None]: ...
    def round(self, time: int, frames: Sequence[LinkEvent], clients: Sequence[ClientEvent]) -> Iterator[None]: ...
    def trace_channels(self, runs: list[ChannelRun]) -> None: ...


class CommandsInterface(Protocol):
    """`zab_chaos.node.commands`: the commands of the control port."""

    def handle(self, command: str, arguments: dict[str, Any]) -> dict[str, Any]: ...
    def due(self, now: int) -> None: ...
    def wakes_at(self) -> int | None: ...


class CrashPointsInterface(Protocol):
    """The part of `zab_chaos.node.crash_points` that says whether a pause point may stop the node in the middle of a round."""

    @property
    def pausing(self) -> bool: ...


class DiskInterface(Protocol):
    """A node's disk, as the machine sees it from outside of the process.

    `owed_ns`: nanoseconds that syncs have taken and that have not passed in the world yet.
    """

    owed_ns: int

    def new_life(self) -> None: ...
    def sync_time(self) -> int: ...
    def lose_power(self) -> None: ...
    def wipe(self) -> None: ...
    def export_to(self, folder: Path) -> None: ...
    def import_from(self, folder: Path) -> None: ...
