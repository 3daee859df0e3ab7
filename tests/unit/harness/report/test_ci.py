"""Reports for CI: JUnit files and the Markdown summary of simulated runs."""

import errno
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zab_chaos.harness.cli.app import main
from zab_chaos.harness.explore.exploration import SeedResult, explore_with
from zab_chaos.harness.machine.interrupt import Forced, Stopped
from zab_chaos.harness.report import ci
from zab_chaos.harness.report.ci import Case, CommandError, Report, case_of, markdown, xml
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.verdict import Judgement, Outcome, Property, Verdict

pytestmark = pytest.mark.slow

SMALL = """
[scenario]
name = "small"
about = "A crash of the leader under a small load."
duration = 1
[workload]
clients = 1
rate = 20
keys = 2
[[fault]]
at = 0.3
do = "crash"
target = "leader"
for = 0.2
[expect]
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(ci.SUMMARY_VARIABLE, str(tmp_path / "summary.md"))
    tmp_path.joinpath("good.toml").write_text(SMALL)
    tmp_path.joinpath("poor.toml").write_text(SMALL + "min_acked = 100000\n")
    return tmp_path


def cases(path: Path) -> tuple[dict[str, str], list[ElementTree.Element]]:
    """Return the attributes of the suite, and its cases."""
    (suite,) = ElementTree.parse(path).getroot()
    return dict(suite.attrib), list(suite)


def properties(case: ElementTree.Element) -> dict[str, str]:
    return {str(one.get("name")): str(one.get("value")) for one in case.iter("property")}


def test_a_run_that_passes(place: Path) -> None:
    assert main(["run", "good.toml", "--on", "sim", "--seed", "4", "-q", "--junit", "out/run.xml"]) == 0
    suite, (case,) = cases(place / "out" / "run.xml")
    assert (suite["tests"], suite["failures"], suite["errors"]) == ("1", "0", "0")
    assert (case.get("classname"), case.get("name")) == ("zab.small", "seed 4 on sim")
    assert properties(case)["zab-verdict"] == "PASS"
    assert case.find("failure") is None
    told = case.findtext("system-out") or ""
    assert re.fullmatch(r"\d+ writes acknowledged, none lost.*\.", told)
    heading, _, line = place.joinpath("summary.md").read_text().splitlines()
    assert heading == "### ✅ zab run small: 1 PASS"
    assert line.startswith("- small, seed 4: ")
    assert line.endswith(told.rstrip("."))


def test_a_run_that_fails_tells_why_and_how_to_repeat_it(place: Path) -> None:
    assert main(["run", "poor.toml", "--on", "sim", "--seed", "4", "-q", "--junit", "run.xml"]) == 2
    suite, (case,) = cases(place / "run.xml")
    assert suite["failures"] == "1"
    failure = case.find("failure")
    assert failure is not None
    assert failure.get("type") == properties(case)["zab-verdict"] == "UNKNOWN"
    assert re.match(r"UNKNOWN: \d+ .* at least 100000 are needed", str(failure.get("message")))
    for words in ("at least 100000 are needed", "crash of leader", "repeat   zab run poor.toml --on sim --seed 4"):
        assert words in str(failure.text)
    told = place.joinpath("summary.md").read_text()
    assert "### ❌ zab run small: 1 UNKNOWN" in told
    assert "- small, seed 4" not in told  # that is the list of those that passed
    assert "Repeat: `zab run poor.toml --on sim --seed 4`" in told


def test_the_expected_verdict_is_not_a_failure(place: Path) -> None:
    place.joinpath("poor.toml").write_text(SMALL + 'min_acked = 100000\nverdict = "UNKNOWN"\n')
    assert main(["run", "poor.toml", "--on", "sim", "-q", "--junit", "run.xml"]) == 2
    suite, (case,) = cases(place / "run.xml")
    assert suite["failures"] == "0"
    assert properties(case)["zab-verdict"] == "UNKNOWN"


def test_a_violation_of_another_property_than_the_scenario_expects_is_a_failure(tmp_path: Path) -> None:
    found = Property(name="total order", source="", statement="", verdict=Judgement.VIOLATION, checked=1)
    verdict = Verdict(verdict=Outcome.VIOLATION, exit=1, properties=[found], reasons=["total order"], metrics={})
    folder = RunFolder(tmp_path)
    for wanted, failed in (("total order", False), ("agreement", True)):
        folder.write_run({"expect": {"verdict": "VIOLATION", "violates": wanted}})
        assert case_of(folder, verdict).failed is failed
    assert case_of(folder, verdict).words.startswith("VIOLATION (expected: a violation of agreement): total order")


def test_stored_runs_that_are_judged_again(place: Path) -> None:
    main(["run", "good.toml", "--on", "sim", "-q"])
    main(["run", "poor.toml", "--on", "sim", "--seed", "2", "-q"])
    runs = sorted(str(path.parent) for path in place.joinpath("results").glob("*/*/run.json"))
    place.joinpath("summary.md").unlink()
    assert main(["verify", *runs, "-q", "--junit", "verify.xml"]) == 2
    suite, found = cases(place / "verify.xml")
    assert (suite["name"], suite["tests"], suite["failures"]) == ("zab verify", "2", "1")
    assert {properties(case)["zab-results"] for case in found} == set(runs)
    assert "zab verify: 1 PASS, 1 UNKNOWN" in place.joinpath("summary.md").read_text()


def test_an_exploration_has_one_case_per_seed(place: Path) -> None:
    assert main(["explore", "good.toml", "--seeds", "3..5", "--jobs", "1", "-q", "--junit", "explore.xml"]) == 0
    suite, found = cases(place / "explore.xml")
    assert suite["name"] == "zab explore small"
    assert [case.get("name") for case in found] == [f"seed {seed} on sim" for seed in (3, 4, 5)]
    assert all(float(str(one)) > 0 for one in (suite["time"], *(case.get("time") for case in found)))


def test_an_exploration_that_fails_shows_the_smallest_seed_s_run(place: Path) -> None:
    place.joinpath("good.toml").write_text(SMALL + 'verdict = "VIOLATION"\n')
    assert main(["explore", "good.toml", "--seeds", "3..9", "--jobs", "1", "-q", "--junit", "explore.xml"]) == 1
    suite, (case,) = cases(place / "explore.xml")
    assert suite["failures"] == "1"
    failure = case.find("failure")
    assert failure is not None
    assert re.match(r"PASS \(expected: VIOLATION\): \d+ writes acknowledged", str(failure.get("message")))
    assert "repeat   zab run good.toml --on sim --seed 3" in str(failure.text)
    assert float(str(case.get("time"))) > 0


def seeds_before(number: int, error: BaseException) -> Callable[..., Iterator[SeedResult]]:
    """Return an exploration that raises the error before the result of the seed with this number."""

    def exploring(workers: Any, task: Any, seeds: Any) -> Iterator[SeedResult]:
        for found in explore_with(workers, task, seeds):
            if found.seed == number:
                raise error
            yield found

    return exploring


def the_error(found: list[ElementTree.Element]) -> ElementTree.Element:
    """Return the error of the case that is not a run."""
    assert (found[-1].get("classname"), found[-1].get("time")) == ("zab", "0.0")
    error = found[-1].find("error")
    assert error is not None
    return error


@pytest.mark.parametrize(
    ("interrupted_at", "message"),
    [
        (3, "interrupted after 0 of 5 seeds: no result of seeds 3 to 7"),
        (7, "interrupted after 4 of 5 seeds: no result of seed 7"),
    ],
)
def test_an_exploration_that_is_interrupted_is_an_error(
    interrupted_at: int, message: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("zab_chaos.harness.cli.explore.explore_with", seeds_before(interrupted_at, Stopped()))
    words = ["explore", "good.toml", "--seeds", "3..7", "--jobs", "1", "--junit", "explore.xml", "--json"]
    assert main(words) == 2
    answer = json.loads(capsys.readouterr().out)
    assert (answer["interrupted"], answer["seeds"], answer["asked"]) == (True, interrupted_at - 3, 5)
    suite, found = cases(place / "explore.xml")
    assert (suite["tests"], suite["failures"], suite["errors"]) == (str(interrupted_at - 3 + 1), "0", "1")
    assert found[-1].get("name") == "zab explore small"
    error = the_error(found)
    assert (error.get("type"), error.get("message")) == ("UNKNOWN", message)
    told = place.joinpath("summary.md").read_text()
    assert told.startswith("### ❌ zab explore small: ")
    assert f"UNKNOWN: {message}" in told


def test_a_second_interrupt_leaves_what_is_known_of_the_first(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forced(*_: object, **_named: object) -> None:
        raise Forced

    monkeypatch.setattr("zab_chaos.harness.cli.explore.explore_with", seeds_before(4, Stopped()))
    monkeypatch.setattr("zab_chaos.harness.cli.explore._finish", forced)
    assert main(["explore", "good.toml", "--seeds", "3..4", "--jobs", "1", "--junit", "explore.xml"]) == 130
    _, found = cases(place / "explore.xml")
    assert the_error(found).get("message") == "interrupted after 1 of 2 seeds: no result of seed 4"


def test_an_exploration_that_ends_was_not_interrupted(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "good.toml", "--seeds", "3", "--jobs", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["interrupted"] is False


def test_stored_runs_that_are_not_all_judged_are_an_error(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main(["run", "good.toml", "--on", "sim", "-q"])

    def stopped(*_: object, **_named: object) -> None:
        raise Stopped

    monkeypatch.setattr("zab_chaos.harness.cli.verify.judge", stopped)
    assert main(["verify", "latest", "--junit", "verify.xml"]) == 2
    _, found = cases(place / "verify.xml")
    assert the_error(found).get("message") == "interrupted: 0 of 1 runs were judged"


FULL = OSError(errno.ENOSPC, "No space left on device")


def test_a_run_that_the_harness_could_not_make_is_an_error(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **_named: object) -> None:
        raise FULL

    place.joinpath("run.xml").write_text("old")
    monkeypatch.setattr("zab_chaos.harness.cli.run.run_shown", full)
    assert main(["run", "good.toml", "--on", "sim", "--junit", "run.xml"]) == 3
    suite, found = cases(place / "run.xml")
    assert (suite["tests"], suite["failures"], suite["errors"]) == ("1", "0", "1")
    error = the_error(found)
    assert error.get("type") == "HARNESS-ERROR"
    assert str(error.get("message")).startswith("the disk is full: ")
    assert capsys.readouterr().err == f"Error: {error.get('message')}\n"
    assert "HARNESS-ERROR: the disk is full" in place.joinpath("summary.md").read_text()


def test_a_failure_of_the_harness_leaves_the_cases_of_the_seeds_before_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zab_chaos.harness.cli.explore.explore_with", seeds_before(4, FULL))
    assert main(["explore", "good.toml", "--seeds", "3..7", "--jobs", "1", "--junit", "explore.xml"]) == 3
    _, (first, *rest) = cases(place / "explore.xml")
    assert first.get("name") == "seed 3 on sim"
    assert str(the_error(rest).get("message")).startswith("the disk is full: ")


def test_an_unwritable_file_is_reported_before_anything_runs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place.joinpath("file").write_text("")
    assert main(["run", "good.toml", "--on", "sim", "-q", "--junit", "file/run.xml"]) == 3
    assert "file/run.xml cannot be written" in capsys.readouterr().err
    assert not place.joinpath("results").exists()
    assert main(["explore", "lab-flapping", "--junit", "lab.xml"]) == 4
    assert "--junit reports runs of a scenario" in capsys.readouterr().err


def test_a_mistake_leaves_no_empty_file(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place.joinpath("old.xml").write_text("old")
    for name in ("new.xml", "old.xml"):
        assert main(["verify", "nowhere", "--junit", name]) == 4
    assert "no run at nowhere" in capsys.readouterr().err
    assert not place.joinpath("new.xml").exists()
    assert place.joinpath("old.xml").read_text() == "old"


def test_all_texts_are_escaped() -> None:
    """Texts come from traces. Characters that XML can't contain are replaced, and no text ends its code block or its tag."""
    case = Case(
        scenario="a<b",
        seed=1,
        on="sim",
        verdict="VIOLATION",
        violated=["x"],
        details="a\x00b\x1b[1m ``` </details> ]]>",
    )
    root = ElementTree.fromstring(xml(Report("zab & co", [case])))
    assert next(root.iter("failure")).text == "a�b�[1m ``` </details> ]]>"
    named = Case(scenario="a\x00", seed=1, on="s\x1b", verdict="PASS", folder="results\x01/a\udcff")
    (test_case,) = ElementTree.fromstring(xml(Report("zab", [named]))).iter("testcase")
    assert (test_case.get("classname"), test_case.get("name")) == ("zab.a�", "seed 1 on s�")
    assert [it.get("value") for it in test_case.iter("property")] == ["1", "s�", "PASS", "results�/a�"]
    told = markdown(Report("zab & co", [case]))
    assert "<summary>a&lt;b, seed 1" in told
    assert told.count("```") == 2


def test_a_harness_error_is_an_error_and_not_a_failure() -> None:
    suite = ElementTree.fromstring(xml(Report("zab", [Case(scenario="a", seed=1, on="sim", verdict="HARNESS-ERROR")])))[
        0
    ]
    assert (suite.get("failures"), suite.get("errors")) == ("0", "1")


def test_an_error_of_the_command_is_escaped_like_all_texts() -> None:
    report = Report("zab run a\x00", error=CommandError(Outcome.HARNESS_ERROR, "a\x1b[1m ``` <b>"))
    error = next(ElementTree.fromstring(xml(report)).iter("error"))
    assert error.get("message") == "a\N{REPLACEMENT CHARACTER}[1m ``` <b>"
    assert markdown(report).count("```") == 2


def test_a_long_list_of_failures_is_cut_in_the_summary_only() -> None:
    verdicts = [*["UNKNOWN"] * 30, *["PASS"] * 5]
    many = [Case(scenario="a", seed=seed, on="sim", verdict=verdict) for seed, verdict in enumerate(verdicts)]
    assert "and 10 more" in markdown(Report("zab", many))
    root = ElementTree.fromstring(xml(Report("zab", many)))
    assert len(list(root.iter("failure"))) == 30
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("35", "30", "0")


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        ({"started": "2026-11-25T19:59:58.500+00:00", "ended": "2026-11-25T20:00:04.750+00:00"}, 6.25),
        ({"started": None, "ended": None}, 0.0),
        ({"started": "2026-11-25T19:59:58.500+00:00", "ended": "soon"}, 0.0),
        ({}, 0.0),
    ],
)
def test_a_stored_run_took_the_time_from_its_start_to_its_end(
    times: dict[str, str | None], seconds: float, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path)
    folder.write_run(times)
    verdict = Verdict(verdict=Outcome.PASS, exit=0, properties=[], reasons=[], metrics={})
    assert case_of(folder, verdict).seconds == seconds
