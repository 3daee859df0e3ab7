"""Nodes that are started with another release: the fault `upgrade`, and the key `release` of `restart`."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tests.unit.faults.conftest import Sleepers
from zab_chaos.faults.cluster import ClusterError, Upgradable
from zab_chaos.faults.grammar import read_fault
from zab_chaos.faults.kind import FaultContext, FaultError
from zab_chaos.faults.nemesis import draw
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import Nemesis


class Released(Sleepers):
    """Sleepers of two releases. It notes which release each life has."""

    def __init__(self, *given: Any) -> None:
        self.installed: dict[int, str] = {}
        self.started: list[tuple[int, str]] = []
        super().__init__(*given)

    def install(self, node: int, release: str) -> str:
        if self.alive(node):
            raise ClusterError(f"node {node} is up")
        self.installed[node] = {"new": "2.0", "old": "1.0"}.get(release, release)
        return self.installed[node]

    def start(self, node: int, crash_at: str | None = None) -> None:
        super().start(node, crash_at)
        self.started.append((node, self.installed.get(node, "1.0")))


@pytest.fixture
def released(sleepers: Callable[..., Sleepers]) -> Released:
    made = sleepers(3, kind=Released)
    assert isinstance(made, Released)
    made.started.clear()
    return made


def fault(cluster: Sleepers, table: dict[str, Any]) -> Any:
    step = read_fault({"at": 0.0, **table}, 3)
    nodes = [int(str(step.target).removeprefix("node-"))]
    return KINDS[step.do].make(FaultContext(cluster, None, Random(1)), nodes, step.params)


def test_an_upgraded_node_is_stopped_and_comes_back_with_the_new_release(released: Released) -> None:
    assert isinstance(released, Upgradable)
    upgrade = fault(released, {"do": "upgrade", "target": "node-2"})
    upgrade.inject()
    told = upgrade.injected()
    assert told.confirmed
    assert (told.evidence["2"]["exit"], released.alive(2), released.started) == (0, False, [])
    assert upgrade.describe() == "node 2 stopped, to be started with release 2.0"
    upgrade.heal()
    told = upgrade.recovered()
    assert told.confirmed
    assert told.evidence == {"2": {"pid": released.pid(2), "release": "2.0"}}
    assert released.started == [(2, "2.0")]


def test_a_node_keeps_its_release_until_another_one_is_installed(released: Released) -> None:
    for do, expected in (
        ({"do": "upgrade"}, "2.0"),
        ({"do": "crash"}, "2.0"),
        ({"do": "upgrade", "release": "old"}, "1.0"),
    ):
        one = fault(released, {**do, "target": "node-1"})
        one.inject()
        one.heal()
        assert released.started[-1] == (1, expected)


def test_another_fault_that_starts_an_upgraded_node_starts_the_new_release(released: Released) -> None:
    upgrade = fault(released, {"do": "upgrade", "target": "node-2"})
    upgrade.inject()
    released.start(2)
    assert upgrade.is_over()
    assert upgrade.recovered().confirmed
    assert released.started == [(2, "2.0")]


@pytest.mark.parametrize("more", [{}, {"crash-at": "before-send:ACK-E"}])
def test_a_restart_may_name_a_release(released: Released, more: dict[str, str]) -> None:
    released.kill(3)
    restart = fault(released, {"do": "restart", "target": "node-3", "release": "1.5", **more})
    restart.inject()
    assert restart.injected().confirmed
    assert released.started == [(3, "1.5")]
    if not more:
        assert restart.injected().evidence["3"]["release"] == "1.5"
        assert restart.describe() == "node 3 started again with release 1.5"


def test_nodes_of_one_release_can_not_be_upgraded(sleepers: Callable[..., Sleepers]) -> None:
    upgrade = fault(sleepers(3), {"do": "upgrade", "target": "node-2"})
    with pytest.raises(FaultError, match="can't be started with another release"):
        upgrade.inject()
    assert upgrade.describe()  # the schedule shows it


def test_a_nemesis_draws_upgrades_and_downgrades() -> None:
    steps = draw(Nemesis(every=(1.0, 1.0), faults={"upgrade": 1.0}), 3, 100.0, 1)
    assert {step.params["release"] for step in steps} == {"old", "new"}
