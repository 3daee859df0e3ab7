"""Reports for CI: JUnit files and the Markdown summary of simulated runs."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from zab_chaos.harness.cli.app import main
from zab_chaos.harness.report import ci
from zab_chaos.harness.report.ci import Case, case_of, markdown, xml
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
    root = ElementTree.fromstring(xml("zab & co", [case]))
    assert next(root.iter("failure")).text == "a�b�[1m ``` </details> ]]>"
    named = Case(scenario="a\x00", seed=1, on="s\x1b", verdict="PASS", folder="results\x01/a\udcff")
    (test_case,) = ElementTree.fromstring(xml("zab", [named])).iter("testcase")
    assert (test_case.get("classname"), test_case.get("name")) == ("zab.a�", "seed 1 on s�")
    assert [it.get("value") for it in test_case.iter("property")] == ["1", "s�", "PASS", "results�/a�"]
    told = markdown("zab & co", [case])
    assert "<summary>a&lt;b, seed 1" in told
    assert told.count("```") == 2


def test_a_harness_error_is_an_error_and_not_a_failure() -> None:
    suite = ElementTree.fromstring(xml("zab", [Case(scenario="a", seed=1, on="sim", verdict="HARNESS-ERROR")]))[0]
    assert (suite.get("failures"), suite.get("errors")) == ("0", "1")


def test_a_long_list_of_failures_is_cut_in_the_summary_only() -> None:
    verdicts = [*["UNKNOWN"] * 30, *["PASS"] * 5]
    many = [Case(scenario="a", seed=seed, on="sim", verdict=verdict) for seed, verdict in enumerate(verdicts)]
    assert "and 10 more" in markdown("zab", many)
    root = ElementTree.fromstring(xml("zab", many))
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
