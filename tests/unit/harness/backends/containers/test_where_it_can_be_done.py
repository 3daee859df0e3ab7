"""A fault that a backend does not support is refused before the start, with the names of backends that do."""

from pathlib import Path

import pytest

from zab_chaos.faults.cluster import Contained
from zab_chaos.faults.containers import NetDisconnect
from zab_chaos.faults.kind import FaultContext, FaultError
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import parse
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.containers.ensemble import Containers
from zab_chaos.harness.backends.fitting import mistakes
from zab_chaos.harness.backends.processes.ensemble import Processes
from zab_chaos.harness.cli.app import main

SCENARIO = """
[scenario]
name = "cable"
about = "A cable is pulled, and a node starved."
[[fault]]
at = 1
do = "net-disconnect"
target = "one"
for = 1
[[fault]]
at = 3
do = "cpu-limit"
target = "one"
cores = 0.1
for = 1
"""


@pytest.mark.parametrize("world", ["processes", "sim"])
def test_a_scenario_for_containers_is_refused_elsewhere_with_exit_4_and_all_reasons(
    world: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cable.toml"
    file.write_text(SCENARIO)
    results = tmp_path / "results"
    assert main(["run", str(file), "--on", world, "--results", str(results)]) == 4
    told = capsys.readouterr().err
    assert f"net-disconnect can't be done on {world}; it can be done on containers" in told
    assert "cpu-limit can't be done" in told
    assert not results.exists()


def test_containers_support_all_kinds_of_faults_except_those_of_frames_and_of_other_systems() -> None:
    assert mistakes(registry.find("containers"), parse(SCENARIO)) == []
    frames = {"late-frames", "corrupt-frames", "misrouted-frames"}  # toxiproxy forwards bytes and does not know frames
    able = registry.find("containers").abilities
    assert {name for name, kind in KINDS.items() if not kind.needs <= able} == {*frames, "remove-member", "upgrade"}


def test_the_cluster_classes_differ_by_their_abilities() -> None:
    can = [name for name in dir(Contained) if not name.startswith("_")]
    assert all(hasattr(Containers, name) for name in can if name not in ("nodes", "faithful"))
    assert not hasattr(Processes, "unplug")


def test_faults_for_containers_are_refused_by_hand_as_well() -> None:
    class Bare:
        nodes = (1, 2, 3)

    with pytest.raises(FaultError, match="--on containers"):
        NetDisconnect(FaultContext(Bare(), None), [1], {})  # type: ignore[arg-type]
