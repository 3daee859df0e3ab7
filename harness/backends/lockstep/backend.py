"""The backend `lockstep`: the simulated world with OS processes for its nodes."""

from functools import partial
from types import TracebackType

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.backend import Deployment, RunOptions
from zab_chaos.harness.backends.lockstep.hub import Hub
from zab_chaos.harness.backends.lockstep.server import LockstepNode
from zab_chaos.harness.backends.simulator.backend import SimBackend, SimDeployment
from zab_chaos.harness.backends.simulator.ensemble import SimCluster
from zab_chaos.harness.report.progress import Display
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.oracle import oracle
from zab_chaos.model.verdict import Verdict
from zab_chaos.model.world.machine import SimNode
from zab_chaos.model.world.world import World
from zab_chaos.node.lockstep.wire import LockstepAnswer, decode_answer
from zab_chaos.node.net import keys


class LockstepCluster(SimCluster):
    """The cluster of a simulated world whose nodes are processes. Once one is out of step, none is asked to end."""

    def __init__(self, world: World, machines: dict[int, SimNode], faithful: bool, hub: Hub[LockstepAnswer]) -> None:
        super().__init__(world, machines, faithful)
        self.hub = hub

    def close(self, ask: bool = True) -> list[int]:
        return super().close(ask and not self.hub.broken)


class LockstepDeployment(SimDeployment):
    """A world whose machines have their disks, traces and recordings in `folder`."""

    def __init__(self, scenario: Scenario, options: RunOptions, folder: RunFolder) -> None:
        self._keys = keys.files_in(folder.file("config")).control  # processes in lockstep have no other ports
        self.hub = Hub(keys.create(self._keys), decode_answer)
        self._folder = folder
        defect = options.defect_path
        make = partial(
            LockstepNode, hub=self.hub, key_file=self._keys, folder=folder, record=options.record, defect=defect
        )
        super().__init__(scenario, options.seed, defect, folder, options.record, make_node=make)
        self.cluster = LockstepCluster(self.world, self.machines, scenario.faithful, self.hub)

    def judge(self, outcome: str) -> Verdict:
        """Return the verdict on the files that the processes have written."""
        return oracle.judge(self._folder.path, stored=False, on_read=self.steps.judging(self._folder.path))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            super().__exit__(kind, error, at)
        finally:
            for machine in self.machines.values():
                if isinstance(machine, LockstepNode):
                    machine.end_process()
            self.hub.close()
            self._keys.unlink(missing_ok=True)  # a secret that is of no use after the run


class LockstepBackend(SimBackend):
    """The backend. Use it from the main thread only: nodes die with the thread that spawned them."""

    name = "lockstep"

    def open(self, scenario: Scenario, options: RunOptions, folder: RunFolder, display: Display) -> Deployment:
        return LockstepDeployment(scenario, options, folder)
