"""The simulated server and machine of a node that is a process in lockstep."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from zab_chaos.harness.backends.lockstep.disk import FolderDisk
from zab_chaos.harness.backends.lockstep.hub import Hub
from zab_chaos.harness.backends.lockstep.replica import RemoteCommands, RemoteReplica
from zab_chaos.harness.backends.processes import life
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.world.interfaces import DiskInterface
from zab_chaos.model.world.machine import SimNode
from zab_chaos.model.world.network import SimNet
from zab_chaos.model.world.server import KILLED, SimServer
from zab_chaos.model.world.world import SimPlan, Sink, World
from zab_chaos.node.lockstep import wire

END_SECONDS = 30.0  # limit from a process's last message to its exit


class LockstepServer(SimServer):
    """One life of a node in a process: the world drives its rounds, and SIGKILL, SIGSTOP and SIGCONT are real."""

    replica: RemoteReplica

    def __init__(self, node: "LockstepNode", number: int, crash_at: str | None) -> None:
        super().__init__(node, number, crash_at)
        self.hub = node.hub
        self.config = node.config
        self.disk = node.folder_disk
        self.process = life.spawn(
            node.id, number, node.config_file, node.folder.file("log", f"node-{node.id}-{number}.log"),
            crash_at, lockstep=node.hub.address,
        )  # fmt: skip

    def decoder(self) -> msgspec.msgpack.Decoder[Any]:
        """Return a decoder that leaves messages encoded, because the process decodes them."""
        return msgspec.msgpack.Decoder(msgspec.Raw)

    def recover(self) -> None:
        """Wait until the process is connected, and let it recover its state. Raises Died."""
        self.hub.receive(self.process)  # the first message shows that the process is connected
        self.replica = RemoteReplica(self)
        self.commands = self.crash = RemoteCommands(self, self.replica)
        self.replica.boot()

    def write_last_lines(self, why: str) -> None:
        """Have the process write its last trace lines and end. Raises Died."""
        self.replica.ask(wire.CloseRequest(self.replica.timestamps(), self.channels.runs.fetch(), why))

    def pause(self) -> None:
        self.process.pause()
        super().pause()

    def pause_here(self) -> None:
        self.process.pause()
        super().pause_here()

    def resume(self) -> None:
        self.process.resume()
        super().resume()

    def end(self, code: int) -> None:
        if self.alive:
            self._end_process(code)
        super().end(code)

    def _end_process(self, code: int) -> None:
        """End the process as the world has decided. Raises OutOfStep if it does not end with this status."""
        status = self.process.kill() if code == KILLED else self.process.wait(END_SECONDS)
        if status is None:
            raise self.hub.out_of_step(self.process, "does not end, although it has announced it")
        self.process.release()
        if status != code:
            raise self.hub.out_of_step(self.process, f"ended with status {status} where the world has {code}")


class LockstepNode(SimNode):
    """A simulated machine whose node is a process, with its disk in the run's folder.

    `key_file`: the key pair for the hub. `defect`: the value of NodeConfig.defect.
    """

    def __init__(
        self, number: int, world: World, net: SimNet, plan: SimPlan, sink: Sink, machines: Mapping[int, SimNode],
        *, hub: Hub[wire.LockstepAnswer], key_file: Path, folder: RunFolder, record: bool, defect: str | None,
    ) -> None:  # fmt: skip
        self.hub = hub
        self.folder = folder
        self.folder_disk = FolderDisk(folder.file("data", f"node-{number}"), world.chance.sync)
        super().__init__(number, world, net, plan, sink, machines)
        self.config = msgspec.structs.replace(
            plan.config(number),
            control_keys=str(key_file),
            data=str(self.folder_disk.root),
            trace=str(folder.file("trace")),
            record=str(folder.file("record")) if record else None,
            defect=defect,
            parent=os.getpid(),
        )
        self.config_file = folder.file("config", f"node-{number}.json")
        life.write_config(self.config_file, self.config)

    def make_disk(self) -> DiskInterface:
        return self.folder_disk

    def make_server(self, crash_at: str | None) -> SimServer:
        return LockstepServer(self, self.life, crash_at)

    def end_process(self) -> None:
        """Kill the process, if it still lives, and release it."""
        if isinstance(self.server, LockstepServer):
            self.server.process.signal(signal.SIGKILL)
            self.server.process.wait(END_SECONDS)
            self.server.process.release()
