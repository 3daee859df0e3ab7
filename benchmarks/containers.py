"""Measures the cost of containers: writes per second of an ensemble in containers, and of one on processes.

Both have toxiproxy between the nodes, as in a run of a scenario. They run at the same time and the rounds alternate, so that
other load on the machine affects both. While one is measured, the other only sends heartbeats.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.ensemble import settle
from benchmarks.figures import Figure, MissingRequirement, Scale, median
from benchmarks.load import SETTLE_SECONDS, ClosedLoop
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.backend import RunOptions
from zab_chaos.harness.backends.processes.zab_deployment import ZabDeployment
from zab_chaos.harness.client.client import Client
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.report.progress import Quiet
from zab_chaos.harness.results import run_folder

BACKENDS = ("processes", "containers")


def containers(folder: Path, scale: Scale) -> list[Figure]:
    """Return the median writes per second of a client at the leader, on each backend.

    Raises MissingRequirement without a container engine, and HarnessError.
    """
    try:
        registry.find("containers").check()
    except HarnessError as error:
        raise MissingRequirement(str(error)) from error
    rates: dict[str, list[float]] = {on: [] for on in BACKENDS}
    with ExitStack() as stack:
        loops = {on: stack.enter_context(_warm_ensemble(on, folder, scale)) for on in BACKENDS}
        for _ in range(scale.rounds):
            for on, loop in loops.items():
                rates[on].append(loop.writes(scale.writes, scale.keys, scale.payload).rate)
    return [median(on, "writes/s", rates[on]) for on in BACKENDS]


@contextlib.contextmanager
def _warm_ensemble(on: str, folder: Path, scale: Scale) -> Iterator[ClosedLoop]:
    """Start an ensemble and warm it up. Yield the load at its leader."""
    scenario = Scenario(
        name="bench", about="An ensemble without faults, under load.", nodes=scale.nodes, disk="ordinary"
    )
    with ExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory(dir=folder, prefix=".bench-"))
        place = run_folder.create(Path(root), scenario.name, 0)
        options = RunOptions(seed=0, results=Path(root), command="", record=False, on=on)
        deployment = registry.find(on).open(scenario, options, place, Quiet())
        stage = stack.enter_context(deployment)
        assert isinstance(stage, ZabDeployment)
        stage.cluster.start_all(stage.cluster.nodes)
        leader = settle(stage.cluster)
        client = stack.enter_context(Client(stage.addresses, stage.client_keys, leader, timeout=SETTLE_SECONDS))
        if not client.connect(SETTLE_SECONDS) or client.node != leader:
            raise HarnessError(f"no client could connect to the leader on {on}: {client.last_trouble}")
        loop = ClosedLoop(client, scale.outstanding)
        loop.create_keys(scale.keys)
        loop.writes(scale.warm_up, scale.keys, scale.payload)
        yield loop
