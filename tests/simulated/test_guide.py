"""Guided exploration: points that were seldom reached get more weight, and a seed's scenario can be drawn again."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.short_scenario import SHORT
from zab_chaos.faults.grammar import DRAWABLE
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.errors import BadInput, Interrupted
from zab_chaos.harness.explore.exploration import SeedResult, Task, explore, explore_seed
from zab_chaos.harness.explore.guided import BATCH, Guide, keep_weights, read_weights
from zab_chaos.harness.explore.swarm import EVEN, NO_FORWARDING, Weights, draw_swarm
from zab_chaos.harness.explore.workers import WorkerPool
from zab_chaos.harness.report.ci import SUMMARY_VARIABLE
from zab_chaos.model.coverage import POINTS_TO_REACH, Combination


def explored(seed: int, *reached: Combination) -> SeedResult:
    return SeedResult(
        seed=seed, verdict="PASS", exit=0, violated=[], reasons=[], seconds=1.0, faults=Counter(),
        operations={}, reached=set(reached),
    )  # fmt: skip


def test_points_that_were_seldom_reached_weigh_more() -> None:
    guide = Guide()
    assert guide.weights() == EVEN
    for seed in range(10):
        guide.learn(explored(seed, ("LEADING", "BROADCAST", "before-send:COMMIT", "crash")))
    guide.learn(explored(11, ("LEADING", "BROADCAST", "before-write:SNAP", "wipe")))
    weights = guide.weights()
    assert set(weights.points) == set(POINTS_TO_REACH)
    assert set(weights.faults) == set(DRAWABLE)
    never, once, often = (weights.points[f"before-{what}"] for what in ("sync:MEMBER", "write:SNAP", "send:COMMIT"))
    assert never > once > often > 0
    assert weights.faults["pause"] > weights.faults["crash"] == weights.faults["wipe"]


def test_the_same_seeds_give_the_same_weights(shipped: Callable[[str], Scenario]) -> None:
    task = Task(scenario=shipped("long-mix"), swarm=True, coverage=True)
    twice = []
    for _ in range(2):
        guide = Guide()
        for found in explore(task, range(1, 4), 1):
            guide.learn(found)
        twice.append(guide.weights())
    assert twice[0] == twice[1] != EVEN


def test_weights_are_kept_and_decide_what_is_drawn(tmp_path: Path, shipped: Callable[[str], Scenario]) -> None:
    weights = Weights({"wipe": 10.0}, {"after-sync:MEMBER": 10.0, "after-sync:ANY": 0.2})
    assert (
        keep_weights(weights, tmp_path / "w.json") == tmp_path / "w.json" == keep_weights(weights, tmp_path / "w.json")
    )
    assert (
        keep_weights(EVEN, tmp_path / "w.json") == tmp_path / "w-2.json"
    )  # an earlier exploration names the other file
    assert read_weights(tmp_path / "w.json") == weights
    seeds = (draw_swarm(shipped("long-mix"), seed) for seed in range(1, 99))
    even = next(one for one in seeds if one.nemesis and one.nemesis.points == NO_FORWARDING.points)
    drawn = draw_swarm(shipped("long-mix"), even.seed, weights)
    assert drawn == draw_swarm(shipped("long-mix"), even.seed, weights) != even
    assert drawn.nemesis is not None
    assert drawn.nemesis.points == weights.times(NO_FORWARDING).points
    assert Task(scenario=shipped("long-mix"), swarm=True, weights=weights).scenario_of(even.seed) == drawn


@pytest.mark.parametrize(
    "text", ["", "[]", '{"faults": {"wip": 1}, "points": {}}', '{"faults": {"wipe": "x"}, "points": {}}']
)
def test_a_file_without_weights_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text(text)
    with pytest.raises(BadInput, match=r"w\.json does not contain weights\. --weights needs a file that"):
        read_weights(tmp_path / "w.json")
    with pytest.raises(BadInput, match=r"gone cannot be read: No such file or directory\. --weights needs"):
        read_weights(tmp_path / "gone")


def test_a_guided_seed_is_drawn_again_with_its_batchs_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("zab_chaos.harness.explore.guided.BATCH", 2)
    assert BATCH > 2
    results = ["--results", str(tmp_path), "--jobs", "1"]
    assert main(["explore", "long-mix", "--guided", "--seeds", "1..3", *results]) in (0, 2)
    told = capsys.readouterr()
    file = tmp_path / "swarm" / "long-mix-weights-3.json"
    assert f"--weights {file}" in (told.out + told.err).replace("\n", "")
    drew = [line for line in (told.out + told.err).splitlines() if line.startswith("seed 3 drew")]
    assert main(["explore", "long-mix", "--weights", str(file), "--seeds", "3..3", *results]) in (0, 2)
    told = capsys.readouterr()
    assert drew
    assert drew[0] in (told.out + told.err)
    assert main(["explore", "long-mix", "--guided", "--weights", str(file), *results]) == 4


def test_the_command_that_repeats_a_seed_draws_with_the_same_weights(
    short: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(short).write_text(SHORT + '\n[expect]\nverdict = "VIOLATION"\n')  # so that every seed fails
    monkeypatch.setattr("zab_chaos.harness.explore.guided.BATCH", 1)
    monkeypatch.setenv(SUMMARY_VARIABLE, str(tmp_path / "summary.md"))
    options = ["--results", str(tmp_path), "--jobs", "1", "--keep-going", "--json"]
    assert main(["explore", short, "--guided", "--seeds", "1..2", *options]) == 1
    file = tmp_path / "swarm" / "short-weights-2.json"
    again = f"zab explore {short} --seeds 2 --weights {file}"
    assert f"Repeat: `{again}`" in (tmp_path / "summary.md").read_text()

    def interrupted(workers: WorkerPool, task: Task, seeds: range) -> Iterator[SeedResult]:
        yield explore_seed(task, seeds[0])
        raise Interrupted

    monkeypatch.setattr("zab_chaos.harness.cli.explore.explore_with", interrupted)
    capsys.readouterr()
    assert main(["explore", short, "--weights", str(file), "--seeds", "2..3", *options]) == 1
    assert json.loads(capsys.readouterr().out)["command"] == again
