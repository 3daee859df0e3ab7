"""What shrinking takes from the folder of a failed run: its ensemble, and its faults as they happened."""

from pathlib import Path

import msgspec
import pytest

from tests.corpus.delivery import agreement_fork
from tests.corpus.story import Story
from zab_chaos.faults.scenario import parse
from zab_chaos.harness.report.headline import first_violation
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs.judgement import judge
from zab_chaos.harness.shrink.failure import FailingCase, find_failing_case, fixed_schedules
from zab_chaos.harness.shrink.fixed_schedule import as_it_happened

SCENARIO = '[scenario]\nname = "drawn"\nabout = "Faults are drawn."\n[nemesis]\nfaults = { crash = 1 }\n'


def test_faults_become_those_of_the_run_with_its_times_nodes_and_links(tmp_path: Path) -> None:
    story = Story()
    story.start()
    story.milestone("workload-started")
    story.t += 1_500_000_000
    story.inject("crash", [3], target="leader", params={"keeps_cache": True})
    story.t += 1_000_000_000
    story.heal()
    story.inject("pause", [1, 2], target=["follower", "leader"])
    story.heal()
    story.inject("partition", [1], target="leader", pairs=[[2, 1], [1, 2]], params={"shape": "isolate"})
    story.milestone("safety-ended")
    story.heal()  # with everything else, at the end of the run: that is no part of the schedule
    story.save(tmp_path / "run")
    fixed = as_it_happened(parse(SCENARIO), RunFolder(tmp_path / "run"), 5)
    assert (fixed.nemesis, fixed.seed) == (None, 5)
    assert [(step.at, step.do, step.target, step.lasts) for step in fixed.faults] == [
        (1.501, "crash", "node-3", 1.001),
        (2.503, "pause", ("node-1", "node-2"), 0.01),
        (2.505, "partition", None, None),
    ]
    assert fixed.faults[0].params["keeps_cache"] is True
    links = {"shape": "pairs", "pairs": ((1, 2), (2, 1))}
    assert fixed.faults[-1].params == fixed.faults[-1].params | links
    assert parse(fixed.to_toml()) == fixed


def test_a_run_is_shrunk_with_its_own_number_of_nodes_seed_and_violations(tmp_path: Path) -> None:
    story = agreement_fork()
    story.run |= {"nodes": 5, "seed": 7, "backend": "sim"}
    story.save(tmp_path)
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    judged = judge(tmp_path)
    broken = first_violation(judged)
    assert broken is not None
    later = msgspec.structs.replace(broken[0], name="progress")  # which the headline names after all others
    verdict = msgspec.structs.replace(judged, properties=[later, *judged.properties])
    (tmp_path / "verdict.json").write_bytes(verdict.to_json())
    case = find_failing_case(str(tmp_path), results=tmp_path, seed=None, defect=None, swarmed=False, nodes=None)
    assert (case.scenario.nodes, case.seed, case.defect, case.not_simulated) == (5, 7, None, False)
    assert set(case.preferred) == set(verdict.violated)
    assert case.preferred[0] == broken[0].name != verdict.violated[0]


DRAWN = """
[scenario]
name = "drawn"
nodes = {nodes}
duration = 20
disk = "{disk}"

[workload]
rate = 5

[nemesis]
every = 0.5
heal_after = [1, 4]
keep_quorum = false
faults = {faults}
"""


@pytest.mark.parametrize(
    ("nodes", "disk", "faults"),
    [
        (3, "ordinary", "{ crash-at = 1 }"),  # with variants, of which only a faithful disk can leave something
        (1, "faithful", "{ latency = 1, stall = 1, flap = 1, crash = 1 }"),  # there are no links
        (1, "faithful", "{ stop = 1, pause = 1 }"),  # which contradict each other
    ],
)
def test_the_schedules_to_begin_with_can_be_written(nodes: int, disk: str, faults: str) -> None:
    scenario = parse(DRAWN.format(nodes=nodes, disk=disk, faults=faults))
    case = FailingCase(scenario=scenario, seed=1, folder=None, preferred=())
    found = list(fixed_schedules(case))
    assert found
    for one in found:
        assert one.faults
        assert parse(one.to_toml()) == one


def test_the_disk_is_that_of_the_run(tmp_path: Path) -> None:
    story = agreement_fork()
    story.run |= {"seed": 7, "backend": "sim", "disk": "ordinary"}
    story.save(tmp_path / "run")
    (tmp_path / "run" / "scenario.toml").write_text(SCENARIO, encoding="utf-8")
    (tmp_path / "run" / "verdict.json").write_bytes(judge(tmp_path / "run").to_json())
    case = find_failing_case("run", results=tmp_path, seed=None, defect=None, swarmed=False, nodes=None)
    assert case.scenario.disk == "ordinary"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"releases": {"old": "/builds/mine", "new": "3.9.5"}}, ("/builds/mine", "3.9.5")),
        ({"releases": {"old": "3.8.6"}}, ("3.8.6", None)),
        ({}, ("3.9.4", None)),  # a run of an older version of this program
    ],
)
def test_the_releases_are_those_of_the_run(
    facts: dict[str, object], expected: tuple[str, str | None], tmp_path: Path
) -> None:
    story = agreement_fork()
    story.run |= {"seed": 7, "backend": "zookeeper", "evidence": "logs", "versions": {"zookeeper": "3.9.4"}, **facts}
    story.save(tmp_path / "run")
    (tmp_path / "run" / "scenario.toml").write_text(SCENARIO, encoding="utf-8")
    (tmp_path / "run" / "verdict.json").write_bytes(judge(tmp_path / "run").to_json())
    case = find_failing_case("run", results=tmp_path, seed=None, defect=None, swarmed=False, nodes=None)
    assert (case.release, case.to) == expected
