"""What a simulated machine asks of the node that lives on it, and of its disk.

In the simulated world the node's own code answers at once (`zab_chaos.node.replica`, `zab_chaos.node.commands`,
`zab_chaos.model.world.disk`); in lockstep a process of its own does, over ZeroMQ, with its files in a folder
(`zab_chaos.harness.backends.lockstep`). Nobody else here may tell them apart.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from zab_chaos.node.events import ClientEvent, LinkEvent


class Core(Protocol):
    """`zab_chaos.node.core.peer`, as far as a server must know when to look at its clock."""

    @property
    def in_broadcast(self) -> bool: ...
    def wakes_at(self) -> int: ...


class Patience(Protocol):
    """`zab_chaos.node.clients.application`, likewise."""

    def wakes_at(self) -> int | None: ...


class Flushing(Protocol):
    """`zab_chaos.node.driver`."""

    def flush(self) -> None: ...


class Replicating(Protocol):
    """`zab_chaos.node.replica`: a life in rounds. Each is an iterator that stops where the disk writes, or `OVER` at once."""

    @property
    def machine(self) -> Core: ...
    @property
    def application(self) -> Patience: ...
    @property
    def driver(self) -> Flushing: ...
    def start(self, now: int) -> Iterator[None]: ...
    def round(
        self, now: Callable[[], int], frames: Sequence[LinkEvent], clients: Sequence[ClientEvent]
    ) -> Iterator[None]: ...


class Commanding(Protocol):
    """`zab_chaos.node.commands`."""

    def handle(self, command: str, arguments: dict[str, Any]) -> dict[str, Any]: ...
    def due(self, now: int) -> None: ...
    def wakes_at(self) -> int | None: ...


class Crashing(Protocol):
    """`zab_chaos.node.crash_points`: whether the node may stop in the middle of a round."""

    @property
    def pausing(self) -> bool: ...


class MachineDisk(Protocol):
    """A disk from outside of the process that uses it. `owed`: nanoseconds of syncs that nobody has let pass yet."""

    owed: int

    def new_life(self) -> None: ...
    def sync_time(self) -> int: ...
    def lose_power(self) -> None: ...
    def wipe(self) -> None: ...
    def export_to(self, folder: Path) -> None: ...
    def import_from(self, folder: Path) -> None: ...
