"""A run in lockstep: the simulated run, with processes for its nodes."""

from functools import partial

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.lockstep.hub import Hub
from zab_chaos.harness.backends.lockstep.server import LockstepNode
from zab_chaos.harness.backends.simulator.ensemble import SimCluster
from zab_chaos.harness.backends.simulator.run import SimGround, run_sim
from zab_chaos.harness.report.progress import Display
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs.options import RunOptions
from zab_chaos.harness.runs.run import Ran
from zab_chaos.model.oracle import oracle
from zab_chaos.model.verdict import Verdict
from zab_chaos.model.world.machine import SimNode
from zab_chaos.model.world.world import World
from zab_chaos.node.lockstep.wire import Answer, decode_answer
from zab_chaos.node.net import keys


class LockstepCluster(SimCluster):
    """What is done to real processes, as long as they do as they are told."""

    def __init__(self, world: World, machines: dict[int, SimNode], faithful: bool, hub: Hub[Answer]) -> None:
        super().__init__(world, machines, faithful)
        self.hub = hub

    def close(self) -> list[int]:
        return [] if self.hub.broken else super().close()


class LockstepGround(SimGround):
    """A world whose machines have their disks, traces and recordings in `folder`."""

    def __init__(self, scenario: Scenario, wish: RunOptions, folder: RunFolder) -> None:
        self._keys = keys.files_in(folder.file("config")).control  # a process has no other port here
        self.hub = Hub(keys.create(self._keys), decode_answer)
        self._folder = folder
        defect = wish.defect[1] if wish.defect else None
        make = partial(
            LockstepNode, hub=self.hub, key_file=self._keys, folder=folder, record=wish.record, defect=defect
        )
        super().__init__(scenario, wish.seed, defect, folder, wish.record, make_node=make)
        self._cluster = LockstepCluster(self.world, self.machines, scenario.faithful, self.hub)

    def judge(self, outcome: str) -> Verdict:
        """By what the processes have written."""
        return oracle.judge(self._folder.path, stored=False)

    def close(self) -> None:
        for machine in self.machines.values():
            if isinstance(machine, LockstepNode):
                machine.end_process()
        self.hub.close()
        self._keys.unlink(missing_ok=True)  # nobody needs it any more, and it is a secret
        super().close()


def run_lockstep(scenario: Scenario, wish: RunOptions, display: Display) -> Ran:
    """`zab_chaos.harness.runs.run.run` in lockstep. From the main thread only: nodes die with the thread that spawned them."""
    return run_sim(scenario, wish, display, LockstepGround)
