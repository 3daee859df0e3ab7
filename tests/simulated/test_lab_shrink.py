"""The lab's flapping links: shrunk to few events, shown as a timeline, and applied to the full protocol."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from zab_chaos.faults.defects import DEFECTS
from zab_chaos.faults.scenario import load
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.explore.lab_flapping import FlappingResult, full_protocol, judge_full
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.model.lab import LabArguments, lab_flapping
from zab_chaos.model.lab.flapping import judge_flapping
from zab_chaos.model.lab.shrink import count_events, cut_intervals, outages, schedule_of, shrink_flapping
from zab_chaos.model.lab.timeline import timeline

ROOT = Path(__file__).resolve().parents[2]
SEEDS = (1, 2, 3, 5, 11)


def shrunk(seed: int) -> LabArguments:
    return shrink_flapping(lab_flapping(seed))[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_at_most_twelve_events_that_still_break_it(seed: int) -> None:
    before, after = lab_flapping(seed), shrunk(seed)
    assert judge_flapping(after) is not None
    assert count_events(after) <= 12 < count_events(before)
    assert after == shrunk(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_single_event_can_go(seed: int) -> None:
    after = shrunk(seed)
    outs = outages(after.schedule, after.rounds)
    fewer = [schedule_of(outs[:index] + outs[index + 1 :]) for index in range(len(outs))]
    assert outs
    assert all(judge_flapping(replace(after, schedule=schedule)) is None for schedule in fewer)
    assert judge_flapping(replace(after, proposals=after.proposals - 1)) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_the_full_protocol_holds_under_the_same_links(seed: int) -> None:
    """With the shrunk schedule and the original one. A full protocol that accepts gaps violates a property under them."""
    assert judge_full(shrunk(seed)) == ("PASS", ())
    assert judge_full(lab_flapping(seed)) == ("PASS", ())
    defective = simulate(full_protocol(lab_flapping(seed)), seed, DEFECTS["gap-accepted"].path)
    assert defective.verdict.verdict == "VIOLATION"


def test_a_schedule_can_be_rebuilt_from_its_outages() -> None:
    for seed in range(1, 20):
        arguments = lab_flapping(seed)
        outs = outages(arguments.schedule, arguments.rounds)
        again = replace(arguments, schedule=schedule_of(outs))
        assert outages(again.schedule, again.rounds) == outs
        assert judge_flapping(again) == judge_flapping(arguments)


def test_the_full_protocol_gets_the_same_cuts_at_the_same_times() -> None:
    arguments = replace(lab_flapping(5), schedule=((10, frozenset({(0, 1), (4, 2)})), (35, frozenset())), proposals=3)
    scenario = full_protocol(arguments)
    (cut,) = scenario.faults
    assert (cut.at, cut.lasts, cut.params["pairs"]) == (0.1, 0.25, ((1, 2), (5, 3)))
    assert cut_intervals(arguments) == [(10, 35, frozenset({(0, 1), (4, 2)}))]
    assert count_events(arguments) == 2 * 2 + 3
    assert count_events(replace(arguments, schedule=arguments.schedule[:1])) == 2 + 3  # the cuts do not heal
    assert [one.at for one in scenario.operations] == [10.0, 20.0, 30.0]
    assert scenario.nodes == 5


def test_the_timeline_shows_the_lost_proposal_and_the_end() -> None:
    lines = timeline(shrunk(1))
    assert any("is cut" in line for line in lines)
    assert any("is lost" in line for line in lines)
    assert lines[-1].startswith("the end:   total order: node ")
    assert [line for line in timeline(replace(shrunk(1), schedule=())) if "end:" in line] == []


def test_the_documentation_shows_what_is_printed() -> None:
    after, tries = shrink_flapping(lab_flapping(3))
    page = " ".join((ROOT / "docs/shrinking.md").read_text().split())
    assert " ".join(" ".join(timeline(after)).split()) in page
    assert f"reduces the {count_events(lab_flapping(3))} events of that run" in page
    assert f"to {count_events(after)}, in {tries} tries" in page


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "lab-flapping", "--seeds", "1..3", "--keep-going", "--jobs", "1", "--json"]) == 1
    out, err = capsys.readouterr()
    assert [one["seed"] for one in json.loads(out)["failed"]] == [1, 2, 3]
    assert json.loads(out)["full_protocol"] == []
    assert "zab shrink lab-flapping --seed 1" in err
    file = tmp_path / "links.toml"
    assert main(["shrink", "lab-flapping", "--seed", "1", "--out", str(file), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["events"][1] <= 12 < answer["events"][0]
    assert answer["full_protocol"] == "PASS"
    assert load(file).operations
    assert main(["shrink", "lab-flapping", "--defect", "gap-accepted", "--swarm"]) == 4
    assert "leave out --defect, --swarm" in capsys.readouterr().err
    assert main(["shrink", "lab-flapping", "--jobs", "2", "--times", "3", "--budget", "9", "--no-confirm"]) == 4
    assert "leave out --jobs, --times, --budget, --no-confirm" in " ".join(capsys.readouterr().err.split())
    assert main(["explore", "lab-flapping", "--seeds", "1", "--defect", "gap-accepted", "--nodes", "7"]) == 4
    assert "leave out --defect, --nodes" in capsys.readouterr().err


def test_links_under_which_nothing_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    whole = replace(lab_flapping(1), schedule=())
    monkeypatch.setattr("zab_chaos.harness.cli.lab_flapping.lab_flapping", lambda seed: whole)
    assert main(["shrink", "lab-flapping", "--seed", "1"]) == 4
    assert "violates nothing: there is nothing to shrink" in capsys.readouterr().err


@pytest.mark.parametrize(("more", "said"), [([], [1, 2]), (["--keep-going"], [1, 3])])
def test_a_seed_with_which_the_full_protocol_fails_is_named(
    more: list[str], said: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    violation = judge_flapping(lab_flapping(2))
    results = {
        1: FlappingResult(1, None, "VIOLATION", ("agreement: it broke",)),
        2: FlappingResult(2, violation, "PASS", ()),
        3: FlappingResult(3, None, "UNKNOWN", ("too few writes",)),
    }
    monkeypatch.setattr("zab_chaos.harness.cli.lab_flapping.compare", results.__getitem__)
    assert main(["explore", "lab-flapping", "--seeds", "1..3", "--jobs", "1", *more]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("seed ")] == [f"seed {seed}" for seed in said]
    assert "  agreement: it broke" in lines
