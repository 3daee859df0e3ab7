"""The `containers` backend: each node is a container with its own disk and network interface."""

from zab_chaos.faults.abilities import NOT_OURS, Ability
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.backend import Deployment, RunOptions
from zab_chaos.harness.backends.processes.backend import ZabBackend
from zab_chaos.harness.extras import extra
from zab_chaos.harness.report.progress import Display
from zab_chaos.harness.results.run_folder import RunFolder


class ContainerBackend(ZabBackend):
    """Runs scenarios on containers. The engine's SDK, which loads slowly, is imported only for a run. Raises MissingExtra."""

    name = "containers"
    abilities = frozenset(Ability) - {Ability.FRAMES, Ability.FILE_SYSTEM, *NOT_OURS}

    def check(self) -> None:
        with extra("containers", "--on containers"):
            from zab_chaos.harness.backends.containers.deployment import ContainerDeployment
        ContainerDeployment.check_machine()

    def open(self, scenario: Scenario, options: RunOptions, folder: RunFolder, display: Display) -> Deployment:
        with extra("containers", "--on containers"):
            from zab_chaos.harness.backends.containers.deployment import ContainerDeployment
        return ContainerDeployment(folder, scenario, options.defect_path, options.record, display)
