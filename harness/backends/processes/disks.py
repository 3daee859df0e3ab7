"""The mounted disks of an ensemble: file systems whose power can be cut (`zab_chaos.faults.filesystem`), one for each node."""

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Self

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.filesystem.mount import Mount, MountError
from zab_chaos.faults.filesystem.volume import Names
from zab_chaos.faults.registry import required_abilities
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.processes.life import environment
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.results.run_folder import RunFolder

# The commands that faults give about a node's disk, and the file system's commands for them.
COMMANDS = {"power-cut": "cut_at_sync", "disk-full": "full", "disk-error": "fail", "slow-disk": "slow"}
ABILITIES = frozenset(
    {Ability.FILE_SYSTEM, Ability.UNSYNCED, Ability.DISK_TROUBLE}
)  # what a mounted disk makes possible


def disk_for(scenario: Scenario) -> str:
    """Return the disk for nodes that do not run our program: "fuse" if the scenario or one of its faults needs it, else
    "ordinary", the machine's own file system."""
    return "fuse" if scenario.disk == "fuse" or required_abilities(scenario) & ABILITIES else "ordinary"


class Disks:
    """One file system for each node, mounted on the nodes' data folders while this is entered.

    `with_process`: unsynced bytes are lost whenever a node's process ends, as on a faithful disk; else only at a power cut.
    `names`: when the names of files become durable.
    """

    def __init__(self, folder: RunFolder, nodes: Sequence[int], *, names: Names, with_process: bool) -> None:
        self._mounts = {
            node: Mount(
                folder.file("data", f"node-{node}"), folder.file("log", f"disk-{node}.log"), names, environment()
            )
            for node in nodes
        }
        self._with_process = with_process
        self._given: Counter[tuple[int, str]] = Counter()  # how often each command was given to each disk
        self._keeps_unsynced: set[int] = set()  # nodes whose next life still sees what the last one has not synced
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Mount all file systems. Raises HarnessError."""
        with ExitStack() as stack:
            try:
                for mount in self._mounts.values():
                    stack.callback(mount.close)
                    mount.start()
                for mount in self._mounts.values():
                    mount.await_ready()
            except MountError as error:
                raise HarnessError(f"the nodes' disks could not be made: {error}") from error
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for mount in self._mounts.values():
            mount.begin_to_close()  # all at the same time
        self._stack.close()

    def state(self, node: int) -> dict[str, Any]:
        """Return a disk's counters (`zab_chaos.faults.filesystem.power.Counts`) and what is wrong with it."""
        return self._mounts[node].state()

    def command(self, node: int, pid: int | None, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Give a fault's command to a node's disk. Return the state afterwards, and how often the command was given.

        `pid`: the node's process. The trouble stays when the node's life ends.
        """
        if command == "power-cut":
            arguments = {**arguments, "pid": pid}
            if arguments["variant"] == "killed":
                self._keeps_unsynced.add(node)
        self._mounts[node].command(COMMANDS[command], **arguments)
        self._given[node, command] += 1
        return self.state(node) | {"life": 0, "told": self._given[node, command]}

    def cut(self, node: int) -> None:
        """Drop what a node has not synced, as a power cut does. Its process must have ended."""
        self._mounts[node].command("cut")

    def sync(self) -> None:
        """Make everything durable, as sync(2) does. (A kernel writes everything back after about half a minute.)"""
        for mount in self._mounts.values():
            mount.command("sync_all")

    def begin_life(self, node: int) -> None:
        """Prepare a node's disk for a new process."""
        self.end_life(node)
        self._mounts[node].command("attach")
        self._keeps_unsynced.discard(node)

    def end_life(self, node: int) -> None:
        """Handle the end of a node's process. Whatever is done to the node's files after this call is durable."""
        if self._with_process and node not in self._keeps_unsynced:
            self.cut(node)
        self._mounts[node].command("detach")

    def wipe(self, node: int) -> None:
        """Remove all files from a node's disk."""
        self._mounts[node].command("wipe")
