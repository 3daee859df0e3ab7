"""The commands `zab explore` and `zab run --on sim`."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.short_scenario import SHORT
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import FaultStep, load, parse
from zab_chaos.faults.seeds import SEED_MAX
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.fitting import mistakes
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.explore import exploration
from zab_chaos.harness.explore.exploration import Task, explore_seed
from zab_chaos.harness.explore.seed_runs import SeedRuns, scenario_file
from zab_chaos.harness.explore.seeds import read_seeds
from zab_chaos.harness.machine.interrupt import Stopped
from zab_chaos.harness.runs import catalogue
from zab_chaos.harness.runs.run import FinishedRun, run_shown

FAILS = ["defects/unordered-refusal", "--defect", "unordered-refusal"]  # with few operations
CUT = {"variant": "reordered", "within_ms": 500}


def test_a_single_node_that_lost_its_disk_is_no_failed_case(tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    asked = ["explore", "long-mix", "--swarm", "--seeds", "220", "--jobs", "1", "--results", str(tmp_path / "r")]
    assert main([*asked, "--junit", str(junit)]) == 0
    (suite,) = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "0")


def test_every_seed_of_a_run_can_be_explored() -> None:
    assert list(read_seeds(f"{SEED_MAX - 1}..{SEED_MAX}")) == [SEED_MAX - 1, SEED_MAX]
    with pytest.raises(BadInput, match=f"the highest seed is {SEED_MAX}"):
        read_seeds(f"1..{SEED_MAX + 1}")


def test_all_seeds_hold(short: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", short, "--seeds", "1..5", "--jobs", "2", "--results", str(tmp_path / "r")]) == 0
    assert "5/5 seeds" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "told"), [(["--defect", "no-fence"], True), ([], False)])
def test_a_bug_that_no_seed_shows_is_named(
    arguments: list[str], told: bool, short: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["explore", short, "--seeds", "1..2", "--jobs", "1", "--results", str(tmp_path / "r"), *arguments]
    assert main(asked) == 0
    assert ("the defect no-fence was not caught" in capsys.readouterr().out) is told


def test_the_summary_is_printed_and_kept(short: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "summary.json"
    asked = ["explore", short, "--seeds", "1..2", "--jobs", "1", "--results", str(tmp_path / "r"), "--out", str(out)]
    assert main(asked) == 0
    told = capsys.readouterr().out
    kept = json.loads(out.read_text())
    assert (kept["seeds"], kept["faults"], kept["verdicts"]) == (2, {"crash": 2}, {"PASS": 2})
    assert (kept["failed"], kept["unknown"], kept["command"]) == ([], [], None)
    assert kept["operations"]["acked"] > 0
    assert "faults   2 in all: 2 crash" in told
    assert "verdicts 2 in all: 2 PASS" in told
    assert f"{kept['operations']['acked']} acked" in told


def test_an_unknown_seed_is_counted_with_the_reason(
    short: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(short).write_text(SHORT + "\n[expect]\nmin_acked = 100000\n")
    assert main(["explore", short, "--seeds", "1..2", "--jobs", "1", "--results", str(tmp_path / "r"), "--json"]) == 2
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdicts"] == {"UNKNOWN": 2}
    assert [one["seed"] for one in answer["unknown"]] == [1, 2]
    assert "at least 100000 are needed" in answer["unknown"][0]["reasons"][0]


@pytest.mark.parametrize("defect", [[], ["--defect", "commit-without-quorum"]])
def test_a_seed_that_does_not_violate_the_expected_property_fails(
    defect: list[str], short: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither a PASS nor a violation of another property is what the scenario expects."""
    Path(short).write_text(SHORT + '\n[expect]\nverdict = "VIOLATION"\nviolates = "sync"\n')
    junit = tmp_path / "junit.xml"
    asked = ["explore", short, "--seeds", "1", "--jobs", "1", "--results", str(tmp_path / "r"), "--junit", str(junit)]
    assert main([*asked, *defect, "--json"]) == 1
    (failed,) = json.loads(capsys.readouterr().out)["failed"]
    assert failed["verdict"] == ("VIOLATION" if defect else "PASS")
    assert "sync" not in failed["violated"]
    assert len(list(ElementTree.parse(junit).iter("failure"))) == 1


@pytest.mark.parametrize("raised", [True, False])
def test_an_interruption_while_the_smallest_seed_runs_again_loses_nothing(
    raised: bool, short: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Either the run ends early, or what comes before or after it is interrupted."""

    def interrupted(scenario: Any, options: Any, console: Any, *, quiet: bool) -> FinishedRun:
        if raised:
            raise Stopped
        return replace(run_shown(scenario, options, console, quiet=quiet), interrupted=True)

    monkeypatch.setattr("zab_chaos.harness.cli.explore.run_shown", interrupted)
    Path(short).write_text(SHORT + '\n[expect]\nverdict = "VIOLATION"\n')
    junit = tmp_path / "junit.xml"
    asked = ["explore", short, "--seeds", "1", "--jobs", "1", "--results", str(tmp_path / "r"), "--junit", str(junit)]
    assert main([*asked, "--json"]) == 1
    told = capsys.readouterr()
    assert json.loads(told.out)["command"] == f"zab explore {short} --seeds 1"
    assert "interrupted" in told.err
    assert len(list(ElementTree.parse(junit).iter("failure"))) == 1


def test_a_summary_that_cannot_be_kept(short: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["explore", short, "--seeds", "1", "--results", str(tmp_path / "r"), "--out", str(tmp_path / "no" / "s")]
    assert main(asked) == 3
    assert "--out" in capsys.readouterr().err


def test_the_smallest_failing_seed_and_its_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = str(tmp_path / "r")
    asked = ["explore", *FAILS, "--seeds", "4..9", "--jobs", "2", "--json", "--results", results]
    assert main(asked) == 1
    told = capsys.readouterr()
    answer = json.loads(told.out)
    assert answer["failed"][0]["seed"] == 4
    assert answer["failed"][0]["violated"] == ["values and versions"]
    assert answer["command"] == "zab run defects/unordered-refusal --on sim --seed 4 --defect unordered-refusal"
    assert "The smallest seed that fails is 4" in told.err
    assert f"zab shrink {Path(results).resolve()}" in told.err
    # The command shows the same failure.
    assert main([*answer["command"].split()[1:], "--results", results, "--quiet"]) == 1
    log = Path(results, "explore-defects-unordered-refusal.log").read_text()
    assert "seed 4: VIOLATION" in log


def test_keep_going_reports_every_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["explore", *FAILS, "--seeds", "1..3", "--jobs", "1"]
    assert main([*asked, "--keep-going", "--json", "--results", str(tmp_path)]) == 1
    assert [one["seed"] for one in json.loads(capsys.readouterr().out)["failed"]] == [1, 2, 3]


def test_the_totals_are_printed_once_and_tell_the_speed(
    short: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("zab_chaos.harness.explore.summary.PROGRESS_SECONDS_MAX", 0.0)
    assert main(["explore", short, "--seeds", "1..2", "--jobs", "1", "--results", str(tmp_path)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "/2 seeds, " in line]
    assert [line.split(" ")[0] for line in lines] == ["1/2", "2/2"]
    assert re.search(r"/s, \d+x real time, 0 failed, 0 unknown$", lines[1])


def test_swarm_prints_the_drawn_scenario(short: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", short, "--swarm", "--seeds", "2..3", "--jobs", "1", "--results", str(tmp_path / "r")]) == 0
    assert "seed 2 drew 3 nodes" in capsys.readouterr().out.replace("\n", " ")


def test_coverage_prints_the_points_that_were_never_reached(
    short: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "r"
    assert main(["explore", short, "--coverage", "--seeds", "1", "--results", str(results), "--json"]) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)["coverage"]
    assert told["file"] == str(results / "coverage-short.json")
    rows = [line.split() for line in err.splitlines()]
    assert ["LEADING", "BROADCAST"] in [row[:2] for row in rows]
    assert ["TXN", *["yes"] * 4] in rows
    assert ["SNAP", *["never"] * 4] in rows
    assert any(row[:1] == ["crash"] and row[1].isdecimal() for row in rows)
    content = json.loads((results / "coverage-short.json").read_text())
    reached = [tuple(one) for one in content["reached"]]
    assert ("LEADING", "BROADCAST", "ACK", "-") in reached
    assert ("FOLLOWING", "BROADCAST", "after-sync:TXN", "-") in reached
    assert any(fault == "crash" for *_, fault in reached)
    assert "before-write:SNAP" in content["never"]["points"]
    assert content["never"]["faults"] == []
    assert "ANY" not in err  # it is whichever record or file happens
    assert told == told | {"reached": len(reached), "never": content["never"]}


def test_counting_changes_nothing(short: str) -> None:
    scenario = replace(load(short), faults=(FaultStep(at=1, do="power-cut", target="all", lasts=0.5, params=CUT),))
    runs = [explore_seed(Task(scenario=scenario, coverage=coverage), 3) for coverage in (False, True)]
    assert runs[0].seconds == runs[1].seconds
    assert runs[0].verdict == runs[1].verdict == "PASS"
    assert (bool(runs[0].reached), bool(runs[1].reached)) == (False, True)


def test_the_lab_under_flapping_links(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "lab-flapping", "--seeds", "1..20"]) == 1
    assert "agreement" in capsys.readouterr().out


@pytest.mark.parametrize("seeds", ["", "x", "5..1", "1..", "-1", "1...3"])
def test_invalid_seeds_are_refused(short: str, seeds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", short, f"--seeds={seeds}"]) == 4
    assert "--seeds" in capsys.readouterr().err


def test_a_scenario_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "leader-crsh", "--seeds", "1"]) == 4
    assert "leader-crash" in capsys.readouterr().err


def folders(results: Path) -> dict[int, Path]:
    """Return the stored runs by seed."""
    runs = {path.resolve().parent for path in results.glob("**/run.json")}
    return {json.loads((run / "run.json").read_text())["seed"]: run for run in runs}


def files(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.is_file()}


def test_kept_runs_are_those_that_zab_run_makes(short: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are equal byte for byte, also if worker processes made them."""
    one, other = tmp_path / "explored", tmp_path / "run"
    asked = ["explore", short, "--seeds", "3..5", "--jobs", "2", "--keep", "all", "--results", str(one), "--json"]
    assert main(asked) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["kept"] == 3
    assert f"kept     3 runs; to analyze: zab analyze {one}/short" in told.err
    assert main(["run", short, "--on", "sim", "--seed", "4", "--results", str(other)]) == 0
    kept, made = folders(one), folders(other)
    assert sorted(kept) == [3, 4, 5]
    assert files(kept[4]) == files(made[4])
    assert main(["verify", "--quiet", *map(str, kept.values())]) == 0


def test_the_first_runs_are_kept(short: str, tmp_path: Path) -> None:
    asked = ["explore", short, "--seeds", "3..6", "--jobs", "1", "--keep", "2", "--results", str(tmp_path / "r")]
    assert main(asked) == 0
    assert sorted(folders(tmp_path / "r")) == [3, 4]


def test_a_drawn_scenario_is_kept(tmp_path: Path) -> None:
    """A kept run has the command that repeats it, and the recordings that `zab replay` and the report's messages need."""
    short, results = tmp_path / "short.toml", tmp_path / "r"
    short.write_text(SHORT.replace("record = false\n", ""))
    main(["explore", str(short), "--swarm", "--seeds", "1", "--keep", "all", "--results", str(results)])
    run = folders(results)[1]
    assert json.loads((run / "run.json").read_text())["command"].startswith(f"zab run {results}/swarm/short-1.toml")
    assert (results / "swarm" / "short-1.toml").read_text() == (run / "scenario.toml").read_text()
    lives = {path.stem for path in (run / "trace").iterdir()}
    assert {path.stem for path in (run / "record").iterdir()} >= lives


def test_only_failed_runs_are_kept_and_none_is_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "r"
    asked = ["explore", *FAILS, "--seeds", "1..3", "--jobs", "2", "--keep-going", "--keep", "failed", "--json"]
    code = main([*asked, "--results", str(results)])
    answer = json.loads(capsys.readouterr().out)
    failed = {one["seed"]: one["folder"] for one in answer["failed"]}
    assert (code == 1) == bool(failed)
    assert {seed: str(run) for seed, run in folders(results).items()} == failed


@pytest.mark.parametrize("keep", ["none", "0", "-1", "1.5"])
def test_runs_that_cannot_be_kept_are_refused(keep: str, short: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", short, f"--keep={keep}"]) == 4
    assert "it needs all, failed, or a number of runs, such as 20" in capsys.readouterr().err
    assert main(["explore", "lab-flapping", "--keep", "all", "--master", "x"]) == 4
    told = capsys.readouterr().err
    assert all(words in told for words in ("--keep keeps runs of a scenario", "runs on this machine only", "'x'"))


def test_options_that_only_the_simulator_has_are_refused_elsewhere(
    short: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """All mistakes are reported at once."""
    asked = ["explore", short, "--on", "zookeeper", "--swarm", "--coverage", "--guided", "--keep", "all"]
    assert main(asked) == 4
    told = capsys.readouterr().err
    for words in (
        "--coverage is for the simulator; leave it out, or leave out --on zookeeper",
        "--guided is for the simulator",
        "runs on zookeeper are always kept, because none can be repeated exactly; leave out --keep",
        "--swarm draws for this project's own nodes",
    ):
        assert words in told
    assert "--weights" not in told


def test_the_lab_is_a_simulation_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "lab-flapping", "--on", "processes"]) == 4
    assert "leave out --on processes" in capsys.readouterr().err


def test_a_release_of_zookeeper_is_for_zookeeper(short: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", short, "--on", "containers", "--zookeeper", "3.9.4"]) == 4
    assert "--on containers was asked for" in capsys.readouterr().err


@pytest.mark.parametrize("on", ["processes", "lockstep", "containers"])
def test_faults_that_the_swarm_draws_for_a_backend_can_be_done_there(on: str) -> None:
    long_mix = load(catalogue.find("long-mix"))
    runs = SeedRuns(name="long-mix", results=Path("r"), on=on)
    task = Task(scenario=long_mix, swarm=True, runs=runs)
    backend, kinds = registry.find(on), set[str]()
    for seed in range(1, 61):
        drawn = task.scenario_of(seed)
        assert mistakes(backend, drawn) == []
        assert parse(drawn.source) == replace(drawn, source=parse(drawn.source).source)
        kinds.update(drawn.kinds)
    can = {name for name, kind in KINDS.items() if kind.draw is not None and kind.needs <= backend.abilities}
    assert kinds == can


@pytest.mark.parametrize(
    ("on", "lack", "drawn"),
    [
        ("processes", None, {"faithful", "ordinary", "fuse"}),
        ("processes", ("there is no /dev/fuse", "sudo modprobe fuse"), {"faithful", "ordinary"}),
        ("containers", None, {"faithful", "ordinary"}),
    ],
)
def test_some_seeds_have_disks_that_are_mounted_where_that_is_possible(
    on: str, lack: tuple[str, str] | None, drawn: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exploration, "missing_requirement", lambda: lack)
    runs = SeedRuns(name="long-mix", results=Path("r"), on=on)
    task = Task(scenario=load(catalogue.find("long-mix")), swarm=True, runs=runs)
    assert {task.scenario_of(seed).disk for seed in range(1, 31)} == drawn
    assert {replace(task, runs=None).scenario_of(seed).disk for seed in range(1, 31)} == {
        "faithful",
        "ordinary",
    }
    given = parse(
        SHORT + '[[fault]]\nat = 1\ndo = "crash-at"\ntarget = "one"\npoint = "after-write:TXN"\nvariant = "torn"\n'
    )
    assert "fuse" not in {replace(task, scenario=given).scenario_of(seed).disk for seed in range(1, 31)}


@pytest.mark.parametrize("keep", ["0", "-1", "some", "9" * 5000])
def test_a_wrong_number_of_kept_runs_is_a_mistake(
    short: str, keep: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explore", short, "--keep", keep, "--results", str(tmp_path / "r")]) == 4
    assert "it needs all, failed, or a number of runs" in capsys.readouterr().err


def test_the_file_that_an_earlier_run_names_is_not_replaced(tmp_path: Path) -> None:
    """With other weights, or another version, the same seed draws another scenario."""
    drawn = [parse(SHORT), replace(parse(SHORT), source=SHORT + "# another one"), parse(SHORT)]
    first, second, third = (scenario_file(one, 5, tmp_path) for one in drawn)
    assert first == third != second
    assert [path.read_text(encoding="utf-8") for path in (first, second)] == [one.source for one in drawn[:2]]
