"""Whether a container is paused is what the kernel says, and not what the harness has asked for."""

import os
import signal
import subprocess
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from zab_chaos.harness.backends.containers import container
from zab_chaos.harness.backends.containers.container import ContainerLife, cgroup_cpu_quota, is_cgroup_frozen
from zab_chaos.harness.machine.waiting import wait_until

PID = 1 << 23  # greater than any that a kernel gives


@pytest.fixture
def life(monkeypatch: pytest.MonkeyPatch) -> ContainerLife:
    monkeypatch.setattr(container, "ContainerEnd", lambda *_: MagicMock(code=None))
    return ContainerLife(1, 1, Path("log"), None, MagicMock(attrs={"State": {"Pid": PID}}))


def test_a_container_that_somebody_else_has_woken_is_not_paused(
    life: ContainerLife, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "is_cgroup_frozen", lambda _: True)
    life.pause()
    assert life.stopped
    monkeypatch.setattr(container, "is_cgroup_frozen", lambda _: False)
    assert not life.stopped
    life.resume()
    life.container.unpause.assert_not_called()  # the engine would refuse that


def test_where_the_kernel_cannot_be_asked_a_frozen_container_is_paused_until_it_is_resumed(
    life: ContainerLife, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "is_cgroup_frozen", lambda _: None)
    life.container.status = "paused"
    life.pause()
    assert life.stopped
    life.resume()
    life.container.unpause.assert_called_once()
    assert not life.stopped


@pytest.mark.parametrize(
    ("processes", "stopped"), [([["9", "Ss"], ["10", "Tl"]], True), ([["9", "Ss"]], False), (None, False)]
)
def test_a_node_with_an_armed_point_is_stopped_if_one_of_its_processes_is(
    life: ContainerLife, processes: list[list[str]] | None, stopped: bool
) -> None:
    """The engine is asked where the kernel can't be. It has no list of the processes while the container ends."""
    life.crash_at = "after-sync:TXN"
    life.container.top.return_value = {"Titles": ["PID", "STAT"], "Processes": processes}
    assert life.stopped is stopped


@pytest.mark.parametrize(
    ("lines", "files", "frozen", "quota"),
    [
        ("6:freezer:/a\n0::/a", {"freezer/a/freezer.state": "FROZEN\n"}, True, None),
        ("6:freezer:/a\n0::/a", {"freezer/a/freezer.state": "THAWED\n"}, False, None),
        ("1:cpu,cpuacct:/a\n0::/a", {"cpu,cpuacct/a/cpu.cfs_quota_us": "-1\n"}, None, -1),
        ("1:cpu:/a", {"cpu/a/cpu.cfs_quota_us": "3000\n"}, None, 3000),
        ("0::/a", {"a/cgroup.events": "populated 1\nfrozen 1\n", "a/cpu.max": "3000 100000\n"}, True, 3000),
        ("0::/a", {"a/cgroup.events": "populated 1\nfrozen 0\n", "a/cpu.max": "max 100000\n"}, False, -1),
        ("0::/a", {}, None, None),
    ],
)  # fmt: skip
def test_both_versions_of_cgroups_are_read(
    lines: str,
    files: dict[str, str],
    frozen: bool | None,
    quota: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, text in {**files, f"{PID}/cgroup": lines}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(container, "CGROUPS", tmp_path)
    monkeypatch.setattr(container, "PROC", tmp_path)
    assert (is_cgroup_frozen(PID), cgroup_cpu_quota(PID)) == (frozen, quota)


@pytest.mark.parametrize("folder", ["freezer/a", "a"])
def test_a_stopped_process_is_found_without_the_engine(
    folder: str, life: ContainerLife, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine takes so long that nodes which are to lose power at one instant would lose it one after the other."""
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / str(PID)).mkdir()
    (tmp_path / str(PID) / "cgroup").write_text("6:freezer:/a" if folder == "freezer/a" else "0::/a")
    monkeypatch.setattr(container, "CGROUPS", tmp_path)
    monkeypatch.setattr(container, "PROC", tmp_path)
    life.crash_at = "after-sync:TXN"
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        (tmp_path / folder / "cgroup.procs").write_text(f"{os.getpid()}\n{sleeper.pid}\n")
        try:
            assert not life.stopped
            sleeper.send_signal(signal.SIGSTOP)
            assert wait_until(lambda: life.stopped, 10.0)
        finally:
            sleeper.kill()
    life.container.top.assert_not_called()
