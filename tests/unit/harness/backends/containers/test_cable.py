"""A node whose cable is pulled has none until it is plugged in again, whatever happens to its container meanwhile."""

import pytest

from zab_chaos.harness.backends.containers import ensemble
from zab_chaos.harness.backends.containers.ensemble import Containers


def test_a_pulled_cable_is_seen_at_once(cluster: Containers) -> None:
    cluster.start(1)
    assert cluster.plugged_in(1)
    cluster.unplug(1)
    assert not cluster.plugged_in(1)
    cluster.plug_in(1)
    assert cluster.plugged_in(1)


def test_a_node_that_restarts_without_its_cable_has_none(cluster: Containers) -> None:
    cluster.start(1)
    cluster.unplug(1)
    cluster.kill(1)
    cluster.start(1)
    assert not cluster.plugged_in(1)


def test_a_dead_node_whose_cable_is_plugged_in_starts_with_it(cluster: Containers) -> None:
    cluster.start(1)
    cluster.unplug(1)
    cluster.kill(1)
    cluster.plug_in(1)
    cluster.start(1)
    assert cluster.plugged_in(1)


@pytest.mark.parametrize(
    ("kernel", "engine", "limited"), [(3000, 0, True), (-1, 3000, False), (None, 3000, True), (None, 0, False)]
)
def test_a_cpu_limit_is_what_the_kernel_says_or_else_the_engine(
    kernel: int | None, engine: int, limited: bool, cluster: Containers, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.start(1)
    cluster._container(1).container.attrs["HostConfig"] = {"CpuQuota": engine}
    monkeypatch.setattr(ensemble, "cgroup_cpu_quota", lambda _: kernel)
    assert cluster.cpu_limited(1) is limited
