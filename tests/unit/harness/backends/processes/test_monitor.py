"""What the monitor of a run shows."""

from pathlib import Path
from typing import Any, cast

import pytest

from zab_chaos.faults.cluster import Status
from zab_chaos.faults.scenario import FaultStep
from zab_chaos.harness.backends.processes.monitor import RunMonitor
from zab_chaos.harness.backends.processes.process_cluster import UnexpectedEnd
from zab_chaos.harness.report.progress import Quiet
from zab_chaos.harness.results.run_folder import RunFolder


class Nodes:
    """Two nodes that are up, and answer with this role; None: they are silent."""

    nodes = voters = (1, 2)

    def __init__(self, role: str | None, *, amnesiac: bool = False, alive: bool = True, paused: bool = False) -> None:
        self._role, self._amnesiac, self._alive, self._paused = role, amnesiac, alive, paused
        self.ends: list[UnexpectedEnd] = []

    def alive(self, node: int) -> bool:
        return self._alive

    def paused(self, node: int) -> bool:
        return self._paused

    def status(self, node: int, timeout: float) -> Status | None:
        return None if self._role is None else Status(node=node, life=1, role=self._role, amnesiac=self._amnesiac)

    def take_unexpected_ends(self) -> list[UnexpectedEnd]:
        return self.ends


@pytest.mark.parametrize(("role", "line"), [("LOOKING", "0/9s starting | no leader"), ("", "0/9s starting")])
def test_a_system_that_shows_no_roles_is_not_said_to_have_no_leader(role: str, line: str, tmp_path: Path) -> None:
    monitor = RunMonitor(cast(Any, Nodes(role)), RunFolder(tmp_path), Quiet(), 9.0)
    assert monitor._now().line() == line


@pytest.mark.parametrize(
    ("nodes", "state"),
    [
        (Nodes("FOLLOWING"), "following"),
        (Nodes(""), "up"),
        (Nodes("FOLLOWING", amnesiac=True), "amnesiac"),
        (Nodes(None), "silent"),
        (Nodes(None, paused=True), "paused"),
        (Nodes(None, alive=False), "down"),
    ],
)
def test_the_state_of_a_node(nodes: Nodes, state: str, tmp_path: Path) -> None:
    monitor = RunMonitor(cast(Any, nodes), RunFolder(tmp_path), Quiet(), 9.0)
    assert monitor._now().nodes == {1: state, 2: state}


def test_the_end_at_an_armed_crash_point_is_recorded_as_one(tmp_path: Path) -> None:
    nodes = Nodes("")
    nodes.ends = [UnexpectedEnd(2, 3, -9, armed=True)]
    with RunMonitor(cast(Any, nodes), RunFolder(tmp_path), Quiet(), 9.0):
        pass
    *_, line = RunFolder(tmp_path).lines("harness.jsonl")
    assert {"event": "ended", "node": 2, "life": 3, "code": -9, "armed": True}.items() <= line.items()


class Broken(Quiet):
    """A display whose terminal is gone."""

    period = 0.0

    def say(self, text: str) -> None:
        raise BrokenPipeError


def test_an_error_of_the_display_ends_the_watching_and_is_kept(tmp_path: Path) -> None:
    nodes = Nodes("")
    nodes.ends = [UnexpectedEnd(1, 1, 74, armed=False)]
    with RunMonitor(cast(Any, nodes), RunFolder(tmp_path), Broken(), 9.0) as monitor:
        pass
    assert isinstance(monitor.error, BrokenPipeError)


class LastStep:
    """A scheduler whose last step is begun by another thread after its first look at it."""

    active = ()

    def __init__(self) -> None:
        self.looks = [FaultStep(at=1.0, do="crash", target="leader")]

    @property
    def next_step(self) -> FaultStep | None:
        return self.looks.pop() if self.looks else None


def test_the_last_step_may_be_begun_while_it_is_shown(tmp_path: Path) -> None:
    monitor = RunMonitor(cast(Any, Nodes("LEADING")), RunFolder(tmp_path), Quiet(), 9.0)
    monitor.scheduler = cast(Any, LastStep())
    assert [monitor._now().upcoming, monitor._now().upcoming] == ["crash leader at 1 s", None]
