"""Shrinking in the simulated world: the result is small, still fails in the same way, and is a normal scenario file."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zab_chaos.faults.defects import DEFECTS
from zab_chaos.faults.scenario import FaultStep, InitialDisk, Operation, Scenario, load, parse
from zab_chaos.harness.cli import shrink
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.harness.shrink.candidates import (
    default_settings,
    fewer_kinds,
    fewer_nodes,
    half_the_faults,
    plainer_disks,
    plainer_faults,
    plainer_operations,
    with_faults,
    with_operations,
)
from zab_chaos.harness.shrink.times import earlier, rounder, shorter

LOSSY = """
[scenario]
name = "lossy"
about = "A link loses frames for a moment, among other things."
nodes = 3
duration = 5

[workload]
rate = 40
clients = 2
keys = 2

[timing]
timeout_ms = 4000

[[fault]]
at = 0.5
do = "latency"
target = "leader"
ms = 2
for = 1

[[fault]]
at = 2.125
do = "partition"
shape = "one-way"
target = "follower"
direction = "in"
for = 0.875

[[fault]]
at = 3.5
do = "slow-disk"
target = "follower"
ms = 5
for = 1

[expect]
converges_within = 3
"""

DRAWN = """
[scenario]
name = "drawn"
about = "Links fail, drawn from the seed."
nodes = 3
duration = 5

[workload]
rate = 20
clients = 1
keys = 1

[timing]
timeout_ms = 4000

[nemesis]
every = 0.5
heal_after = [0.5, 1]
keep_quorum = false
faults = { partition = 2, slow-disk = 1, latency = 1 }

[expect]
converges_within = 3
"""


@pytest.fixture
def lossy(tmp_path: Path) -> str:
    path = tmp_path / "lossy.toml"
    path.write_text(LOSSY)
    return str(path)


def shrunk(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["shrink", *arguments, "--no-confirm", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert isinstance(answer, dict)
    return answer


def violated(scenario: Scenario, defect: str | None) -> list[str]:
    path = DEFECTS[defect].path if defect is not None else None
    verdict = simulate(scenario, scenario.seed, path).verdict
    return [item.name for item in verdict.properties if item.verdict == "VIOLATION"]


def test_a_seed_of_a_scenario(lossy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "small.toml"
    answer = shrunk(capsys, lossy, "--defect", "gap-accepted", "--seed", "3", "--out", str(out), "--jobs", "1")
    assert answer["failure"] == {"verdict": "VIOLATION", "property": "local primary order"}
    assert answer["complete"]
    assert answer["before"]["faults"] == 3
    assert answer["command"] == f"zab run {out} --on sim"
    small = load(out)
    assert [step.do for step in small.faults] == ["partition"]
    assert 0 < len(small.operations) <= 4
    assert answer["after"] == answer["after"] | {"faults": 1, "nodes": small.nodes, "seconds": small.duration}
    assert answer["after"]["operations"] < answer["before"]["operations"] / 10
    assert answer["after"]["events"] < answer["before"]["events"] / 2
    assert small.defect == "gap-accepted"
    assert "local primary order" in violated(small, small.defect)
    assert violated(small, None) == [], "without the defect it holds"
    assert main(["run", str(out), "--on", "sim", "--quiet", "--results", str(tmp_path / "r")]) == 1


def test_a_drawn_schedule_shrinks_to_the_same_file_with_any_number_of_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = tmp_path / "drawn.toml"
    drawn.write_text(DRAWN)
    files = [tmp_path / f"{jobs}.toml" for jobs in (1, 2)]
    asked = [str(drawn), "--defect", "gap-accepted", "--seed", "1", "--budget", "30"]
    answers = [
        shrunk(capsys, *asked, "--out", str(file), "--jobs", jobs) for file, jobs in zip(files, "12", strict=True)
    ]
    assert files[0].read_text() == files[1].read_text()
    assert answers[0]["tries"] == answers[1]["tries"] == 30
    assert answers[0]["other_seeds"] == {"tried": 0, "failed": 0}
    small = load(files[0])
    assert small.nemesis is None
    assert 0 < len(small.faults) < answers[0]["before"]["faults"]
    assert "local primary order" in violated(small, "gap-accepted")


def test_the_output_shows_the_progress_and_a_scenario_that_can_be_copied(
    lossy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shrink, "PROGRESS_SECONDS", 0.0)
    monkeypatch.setenv("COLUMNS", "40")
    out = tmp_path / "small.toml"
    asked = ["--defect", "gap-accepted", "--seed", "3", "--out", str(out), "--jobs", "1", "--budget", "14"]
    assert main(["shrink", lossy, *asked, "--no-confirm"]) == 0
    printed = capsys.readouterr().out
    told = " ".join(printed.split())
    assert "14 tries in" in told
    assert "a larger --budget may find a smaller scenario; 20 of 20 other seeds were not tried." in told
    assert "simulating a fixed schedule with seed 3" in printed
    assert "of 4 other seeds tried" in printed
    assert out.read_text() in printed


def test_a_failed_run_is_shrunk_beside_it(lossy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = str(tmp_path / "r")
    assert main(["run", lossy, "--on", "sim", "--defect", "gap-accepted", "--quiet", "--results", results]) == 1
    capsys.readouterr()
    answer = shrunk(capsys, "latest", "--results", results, "--budget", "5", "--jobs", "1")
    place = Path(answer["file"])
    assert place.name == "shrunk.toml"
    assert place.parent.joinpath("run.json").is_file()
    assert load(place).defect == "gap-accepted"
    assert not answer["complete"]


def test_the_exploration_that_is_proposed_is_of_the_scenario_as_it_was_named(
    lossy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["shrink", lossy, "--seed", "1", "--nodes", "3"]) == 4
    assert f"`zab explore {lossy} --nodes 3 --seeds 1..1000` looks for" in capsys.readouterr().err


def test_a_run_that_passed_has_nothing_to_shrink(
    lossy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = str(tmp_path / "r")
    assert main(["run", lossy, "--on", "sim", "--quiet", "--results", results]) == 0
    assert main(["shrink", "latest", "--results", results]) == 4
    assert "ended as its scenario expects (PASS): there is nothing to shrink" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lossy"], "with seed 1 ends as expected in the simulator (PASS)"),
        (["lossy", "--budget", "soon"], "--budget is 'soon'; it needs a number of tries"),
        (["lossy", "--budget", "0"], "--budget is '0'"),
        (["lossy", "--defect", "gap"], "no defect is called 'gap'"),
        (["lossy", "--out", "/nowhere/there.toml"], "there is no folder /nowhere"),
        (["nowhere"], "There is no run folder nowhere either"),
    ],
)
def test_mistakes_are_reported(
    lossy: str, tmp_path: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [lossy if word == "lossy" else word for word in arguments]
    assert main(["shrink", *asked, "--results", str(tmp_path), "--jobs", "1"]) == 4
    err = capsys.readouterr().err
    assert words in err
    assert "Traceback" not in err


def test_a_run_has_its_own_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.json").write_text("{}")
    assert main(["shrink", str(tmp_path), "--seed", "3", "--swarm"]) == 4
    assert "leave out --seed, --swarm" in capsys.readouterr().err


# ---- the candidates ----


def crash(at: float, **more: Any) -> FaultStep:
    return FaultStep(at=at, do="crash", target=more.pop("target", "leader"), lasts=more.pop("lasts", 1.0), **more)


BASE = replace(parse(LOSSY), faults=(), seed=1)


def test_a_fault_is_removed_with_the_fault_that_names_its_target() -> None:
    steps = (crash(1, name="First"), crash(2, target=("First", "node-2")), crash(3, awaits="First"))
    kept = with_faults(BASE, steps[1:]).faults
    assert kept == (replace(steps[2], awaits=None),)
    assert with_faults(BASE, steps).faults == steps


def test_half_of_the_faults_is_tried_then_three_quarters() -> None:
    many = replace(BASE, faults=tuple(crash(at) for at in range(1, 6)))
    kept = [[step.at for step in one.faults] for one in half_the_faults(many)]
    assert kept == [[3, 4, 5], [1, 2], [2, 3, 4, 5], [1, 3, 4, 5], [1, 2, 4, 5], [1, 2, 3]]
    assert list(half_the_faults(replace(many, faults=many.faults[:2]))) == []


def test_references_to_a_removed_fault_or_operation_are_removed() -> None:
    late = replace(crash(3.0, until="Third"), do="pause")
    steps = (crash(1.0, name="First", awaits="Written"), late, crash(4.0, name="Third", awaits="First"))
    written = (Operation(at=0.0, name="Written"), Operation(at=1.0, node="First", awaits="Third"))
    scenario = Scenario(name="three", faults=steps, operations=written)
    without = with_faults(scenario, steps[:2])
    assert [(step.awaits, step.until) for step in without.faults] == [("Written", None), (None, None)]
    assert [(one.node, one.awaits) for one in without.operations] == [(None, None), ("First", None)]
    assert [step.awaits for step in with_operations(scenario, written[1:]).faults] == [None, None, "First"]


def test_named_nodes_move_to_the_lowest_ids() -> None:
    pairs = FaultStep(at=1, do="partition", target=None, params={"shape": "pairs", "pairs": ((5, 2),)})
    five = replace(BASE, nodes=5, faults=(pairs, crash(2, target="node-5")))
    candidates = list(fewer_nodes(five))
    assert [one.nodes for one in candidates] == [2, 3, 4]
    assert candidates[0].faults[0].params["pairs"] == ((2, 1),)
    assert candidates[0].faults[1].target == "node-2"


def test_one_node_at_least_votes() -> None:
    smaller = fewer_nodes(replace(BASE, nodes=5, observers=2))
    assert [(one.nodes, one.observers) for one in smaller] == [(1, 0), (2, 1), (3, 2), (4, 2)]


def test_the_disks_and_clients_of_removed_nodes_are_removed_or_go_elsewhere() -> None:
    disks = (InitialDisk(node=1, accepted_epoch=1), InitialDisk(node=3))
    operations = (Operation(at=0, node=3), Operation(at=1, node=1), Operation(at=2, node="First"))
    faults = (crash(0.5, name="First"),)
    smaller = next(one for one in fewer_nodes(replace(BASE, disks=disks, operations=operations, faults=faults)))
    assert (smaller.nodes, smaller.disks) == (1, disks[:1])
    assert [one.node for one in smaller.operations] == [None, 1, "First"]
    parse(smaller.to_toml())


def test_disks_become_empty_and_logs_shorter() -> None:
    full = InitialDisk(node=1, accepted_epoch=2, current_epoch=1, log=((1, 1), (1, 2)))
    empty = InitialDisk(node=2, accepted_epoch=1, current_epoch=1)
    candidates = [one.disks for one in plainer_disks(replace(BASE, disks=(full, empty)))]
    assert candidates == [
        (),
        (empty,),
        (replace(full, log=()), empty),
        (replace(full, log=((1, 1),)), empty),
        (replace(full, accepted_epoch=1), empty),
        (full,),
    ]
    assert list(plainer_disks(BASE)) == []


def test_operations_lose_what_is_not_needed() -> None:
    operations = (Operation(at=0, do="cas", node=2, version=1), Operation(at=1, anew=True, node=3))
    plainer = [one.operations for one in plainer_operations(replace(BASE, operations=operations))]
    assert [one.node for one in plainer[1]] == [None, None]
    assert [one.node for one in plainer[2]] == [None, 3]
    assert any(not any(one.anew for one in found) for found in plainer)
    assert any(found[0].version is None and found[0].do == "cas" for found in plainer)


def test_kinds_of_operations_are_left_out_of_a_drawn_load() -> None:
    mixed = replace(BASE, workload=replace(BASE.workload, mix={"set": 1.0, "get": 2.0}))
    assert [one.workload.mix for one in fewer_kinds(mixed)] == [{"set": 1.0}, {"get": 2.0}]
    assert list(fewer_kinds(replace(mixed, operations=(Operation(at=0),)))) == []


def test_crash_states_are_left_out_if_they_are_not_needed() -> None:
    assert [one.crash_states for one in default_settings(replace(BASE, crash_states=True))].count(False) == 1


def test_a_crash_point_becomes_a_simpler_one() -> None:
    step = crash(1, target=("node-1", "node-2"))
    armed = replace(step, do="crash-at", params={"point": "after-sync:TXN#4", "enough": "all"})
    plainer = [one.faults[0] for one in plainer_faults(replace(BASE, faults=(armed,)))]
    assert replace(step, params={}) in plainer
    assert {one.params.get("point") for one in plainer} >= {"after-sync:TXN", "after-sync:TXN#1", "after-sync:TXN#3"}
    assert {one.target for one in plainer} >= {"node-1", "node-2"}


@pytest.mark.parametrize("simpler", [shorter, earlier, rounder])
def test_times_only_become_earlier(simpler: Callable[[Scenario], Any]) -> None:
    """Otherwise accepting one candidate after the other would not end."""

    def total(scenario: Scenario) -> float:
        times = [*(one.at for one in scenario.operations), *(step.at + (step.lasts or 0) for step in scenario.faults)]
        return scenario.duration + sum(times)

    base = with_operations(BASE, parse(LOSSY).operations)
    base = replace(base, duration=4.777, faults=(crash(0.123456), crash(2.5, lasts=0.51), crash(4.2, lasts=None)))
    candidates = [one for one in simpler(base) if one != base]
    assert candidates
    assert all(total(one) < total(base) for one in candidates)
    for one in candidates:
        parse(one.to_toml())


def test_an_empty_list_of_operations_is_not_a_drawn_load() -> None:
    some = with_operations(BASE, [*parse(LOSSY).operations])
    assert some == BASE
    written = replace(BASE, operations=(parse('[scenario]\nname="x"\nabout="y"\n[[operation]]\nat=1').operations))
    assert with_operations(written, ()).workload.rate == 0.1


LONG_NAME = "n" * 97


def test_a_long_name_is_cut_and_the_result_is_shown_if_it_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "long.toml"
    file.write_text(LOSSY.replace('"lossy"', f'"{LONG_NAME}"'), encoding="utf-8")
    asked = ["shrink", str(file), "--defect", "gap-accepted", "--no-confirm", "--budget", "3", "--jobs", "1", "--out"]
    assert main([*asked, "/dev/full"]) == 3
    told = capsys.readouterr()
    assert f'name = "shrunk/{LONG_NAME[:93]}"' in told.out
    assert "/dev/full cannot be written: No space left on device" in told.err
