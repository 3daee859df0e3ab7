"""The backends on which nodes are real, by the names that `--on` takes: what a run, or a standing ensemble, stands on."""

from zab_chaos.harness.backends.processes.stage import Stage
from zab_chaos.harness.extras import extra

BACKENDS = ("processes", "containers")


def stage_on(backend: str) -> type[Stage]:
    """The kind of stage. `check` it before anything is made; build it with (folder, scenario, defect, record).

    Raises MissingExtra."""
    if backend == "containers":
        with extra("containers", "--on containers"):
            from zab_chaos.harness.backends.containers.stage import ContainerStage  # the engine's SDK takes its time
        return ContainerStage
    return Stage
