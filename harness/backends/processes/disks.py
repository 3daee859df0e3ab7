"""The disks of an ensemble, each a file system whose power can be cut (`zab_chaos.faults.filesystem`)."""

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.filesystem.mount import Mount, MountError
from zab_chaos.faults.filesystem.volume import Names
from zab_chaos.faults.registry import required_abilities
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.processes.life import environment
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.results.run_folder import RunFolder

# What a fault tells a node of its disk, and what a file system calls it.
COMMANDS = {"power-cut": "cut_at_sync", "disk-full": "full", "disk-error": "fail", "slow-disk": "slow"}
ABILITIES = frozenset({Ability.FILE_SYSTEM, Ability.UNSYNCED, Ability.DISK_TROUBLE})  # of nodes that can lie on one


def disk_for(scenario: Scenario) -> str:
    """Of nodes whose program is not ours: the machine's own file system, unless a fault needs this one."""
    return "fuse" if scenario.disk == "fuse" or required_abilities(scenario) & ABILITIES else "ordinary"


class Disks:
    """Mounted on the nodes' data folders while this is entered.

    `with_process`: what was not synced is lost whenever a node's process ends, as on a faithful disk; else only a power cut
    takes it. `names`: when names are durable.
    """

    def __init__(self, folder: RunFolder, nodes: Sequence[int], *, names: Names, with_process: bool) -> None:
        self._mounts = {
            node: Mount(
                folder.file("data", f"node-{node}"), folder.file("log", f"disk-{node}.log"), names, environment()
            )
            for node in nodes
        }
        self._with_process = with_process
        self._told: Counter[tuple[int, str]] = Counter()  # how often a disk was told so
        self._keeps: set[int] = set()  # whose next life sees what its last one has not synced
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Raises HarnessError."""
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

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def state(self, node: int) -> dict[str, Any]:
        """What it has counted (`zab_chaos.faults.filesystem.power.Counts`), and what is wrong with it."""
        return self._mounts[node].state()

    def command(self, node: int, pid: int | None, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Do what a fault asks for; the state afterwards, and how often it was told so. `pid`: of the node's process.

        What is wrong with the disk outlives the node's lives.
        """
        if command == "power-cut":
            arguments = {**arguments, "pid": pid}
            if arguments["variant"] == "killed":
                self._keeps.add(node)
        self._mounts[node].command(COMMANDS[command], **arguments)
        self._told[node, command] += 1
        return self.state(node) | {"life": 0, "told": self._told[node, command]}

    def cut(self, node: int) -> None:
        """The power of a node is gone, whose process is."""
        self._mounts[node].command("cut")

    def sync(self) -> None:
        """Make everything durable, as sync(2) on each machine: a kernel has written all of it back after half a minute."""
        for mount in self._mounts.values():
            mount.command("sync_all")

    def begin_life(self, node: int) -> None:
        """A process is about to run on it."""
        self.end_life(node)
        self._mounts[node].command("begin")
        self._keeps.discard(node)

    def end_life(self, node: int) -> None:
        """Its process is gone: what is done to its files from here on is durable."""
        if self._with_process and node not in self._keeps:
            self.cut(node)
        self._mounts[node].command("rest")

    def wipe(self, node: int) -> None:
        self._mounts[node].command("wipe")
