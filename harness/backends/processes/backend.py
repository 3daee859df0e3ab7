"""The backend `processes`, which is the default: nodes are OS processes of this machine, with toxiproxy between them."""

from collections.abc import Mapping

from zab_chaos.faults.abilities import NOT_OURS, Ability
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.backend import Backend, Deployment, RunOptions
from zab_chaos.harness.report.progress import Display
from zab_chaos.harness.results.run_folder import RunFolder


class ZabBackend(Backend):
    """Base of the backends whose nodes run our own code (`zab_chaos.node`)."""

    @property
    def defects(self) -> Mapping[str, str]:
        from zab_chaos.faults.defects import DEFECTS  # here, because it imports the whole node

        return {name: defect.path for name, defect in DEFECTS.items()}


class ProcessBackend(ZabBackend):
    """The default backend: our own nodes as processes of this machine."""

    name = "processes"
    abilities = frozenset(Ability) - {Ability.FRAMES, Ability.CONTAINERS, *NOT_OURS}

    def open(self, scenario: Scenario, options: RunOptions, folder: RunFolder, display: Display) -> Deployment:
        from zab_chaos.harness.backends.processes.zab_deployment import ZabDeployment

        return ZabDeployment(folder, scenario, options.defect_path, options.record, display)
