"""What the monitor of a run shows."""

from pathlib import Path
from typing import Any, cast

import pytest

from zab_chaos.faults.cluster import Status
from zab_chaos.harness.backends.processes.monitor import RunMonitor
from zab_chaos.harness.report.progress import Quiet, status_line
from zab_chaos.harness.results.run_folder import RunFolder


class Nodes:
    """Two nodes that are up, and answer with these roles."""

    nodes = (1, 2)

    def __init__(self, role: str) -> None:
        self._role = role

    def alive(self, node: int) -> bool:
        return True

    def paused(self, node: int) -> bool:
        return False

    def status(self, node: int, timeout: float) -> Status:
        return Status(node=node, life=1, role=self._role)


@pytest.mark.parametrize(("role", "line"), [("LOOKING", "0/9s starting | no leader"), ("", "0/9s starting")])
def test_a_system_that_shows_no_roles_is_not_said_to_have_no_leader(role: str, line: str, tmp_path: Path) -> None:
    monitor = RunMonitor(cast(Any, Nodes(role)), RunFolder(tmp_path), Quiet(), 9.0)
    assert status_line(monitor._now()) == line
