"""The statuses of simulated nodes, which answer like real processes."""

from pathlib import Path

import pytest

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.simulator.backend import SimDeployment
from zab_chaos.harness.backends.simulator.client import SimClient
from zab_chaos.node.tree.requests import Create

SECOND = 1_000_000_000
MS = 1_000_000
SLOW_MS = 500


@pytest.fixture
def deployment() -> SimDeployment:
    """Three nodes with a leader. Node 1 is in a round, and its slow disk has begun to sync."""
    made = SimDeployment(Scenario(name="three"), 1, None, None, False)
    machines = [made.machines[node] for node in sorted(made.machines)]
    for machine in machines:
        machine.spawn()
    assert made.world.run_until(lambda: made.cluster.leader() is not None, 20 * SECOND)
    client = SimClient(made.world, machines, 1, 6666, 100 * SECOND)
    made.cluster.control(1, "slow-disk", ms=SLOW_MS)
    client.submit(Create("/a"), lambda *_: None)
    client.turn()
    assert made.world.run_until(lambda: made.machines[1].disk.prepaid, 5 * SECOND)
    return made


def test_a_node_answers_only_between_rounds(deployment: SimDeployment) -> None:
    """Else its answer would not count frames that have arrived meanwhile."""
    began = deployment.world.now
    assert deployment.cluster.status(1) is not None
    assert deployment.world.now - began >= SLOW_MS * MS
    server = deployment.machines[1].server
    assert server is not None
    assert not server.inbox


def test_a_node_whose_round_takes_longer_than_the_timeout_is_silent(deployment: SimDeployment) -> None:
    assert deployment.cluster.status(1, timeout=SLOW_MS / 10_000) is None
    assert deployment.cluster.status(1) is not None


def test_a_disk_whose_last_file_was_removed_is_empty_at_the_next_start(deployment: SimDeployment) -> None:
    deployment.cluster.kill(1)
    folder = Path(deployment.cluster.disk_folder(1))
    for path in folder.iterdir():
        path.unlink()
    deployment.cluster.start(1)
    status = deployment.cluster.status(1)
    assert status is not None
    assert status.amnesiac
