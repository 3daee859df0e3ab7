"""The plugin's options and ini keys, seeds, and `zab_run`."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import zab_chaos.harness.backends.simulator.backend
import zab_chaos.harness.testing.resources  # noqa: F401  every session in this process would import them anew
from tests.unit.harness.testing.sessions import results
from zab_chaos.harness.testing.resources import repeat_command

pytestmark = pytest.mark.slow

pytest_plugins = ["pytester"]

SEEN = """
def test_it(zab_cluster):
    with zab_cluster.client() as client:
        client.create("/a")
    print("seen", zab_cluster.on, zab_cluster.seed, zab_cluster.scenario.record)
"""
# Three operations and one fault: a scenario that costs milliseconds.
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
"""


def test_help_and_markers_tell_everything(pytester: pytest.Pytester) -> None:
    told = pytester.runpytest("--help").stdout.str()
    for word in ("--zab-on", "--zab-zookeeper", "--zab-seeds", "--zab-results", "--zab-record"):
        assert word in told
    for word in ("zab_on (string)", "zab_seeds (string)", "zab_results (string)", "zab_record (bool)"):
        assert word in told
    markers = pytester.runpytest("--markers").stdout.str()
    from zab_chaos.harness.testing.settings import KEYS

    (line,) = [line for line in markers.splitlines() if line.startswith("@pytest.mark.zab(")]
    assert set(line.split("(", 1)[1].split(")")[0].split(", ")) == set(KEYS)
    fixtures = pytester.runpytest("--fixtures").stdout.str()
    for name in ("zab_cluster", "zab_run", "zab_seed"):
        assert name in fixtures


def test_ini_keys(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nzab_on = sim\nzab_seeds = 4..5\nzab_record = no\nzab_results = kept/here\n")
    pytester.makepyfile(SEEN + "    assert False")
    outcome = pytester.runpytest()
    outcome.assert_outcomes(failed=2)
    outcome.stdout.fnmatch_lines(["seen sim 4 False", "seen sim 5 False"])
    assert len(results(pytester, "kept/here")) == 2


def test_the_command_line_wins_over_the_marker_and_the_marker_over_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nzab_on = moon\nzab_seeds = 4..5\nzab_record = no\n")
    pytester.makepyfile("import pytest\n@pytest.mark.zab(on='sim', seed=7, record=True)" + SEEN)
    outcome = pytester.runpytest("-s")
    outcome.assert_outcomes(passed=1)
    outcome.stdout.fnmatch_lines(["*seen sim 7 True*"])
    pytester.makepyfile("import pytest\n@pytest.mark.zab(on='moon', seeds=range(9), record=True)" + SEEN)
    outcome = pytester.runpytest("-s", "--zab-on=sim", "--zab-seeds=2..3", "--zab-record=no")
    outcome.assert_outcomes(passed=2)
    outcome.stdout.fnmatch_lines(["*seen sim 2 False*", "*seen sim 3 False*"])


def test_a_release_of_zookeeper_means_its_servers_unless_others_are_wanted(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.zab(zookeeper='3.9.4', seed=7)" + SEEN)
    outcome = pytester.runpytest("-s", "--zab-on=sim")
    outcome.assert_outcomes(passed=1)
    outcome.stdout.fnmatch_lines(["*seen sim 7 True*"])
    pytester.makepyfile("import pytest\n@pytest.mark.zab(zookeeper='lunch')" + SEEN)
    outcome = pytester.runpytest()
    outcome.stdout.fnmatch_lines(["*zab: lunch: this is neither a version*"])
    pytester.makepyfile("import pytest\n@pytest.mark.zab(zookeeper='3.9.4', on='sim')" + SEEN)
    outcome = pytester.runpytest()
    outcome.stdout.fnmatch_lines(
        ["*zookeeper='3.9.4' names a release of the servers of on='zookeeper', not of on='sim'"]
    )


def test_results_go_where_the_option_says_seen_from_where_pytest_is_called(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nzab_on = sim\n")
    below = pytester.mkdir("below")
    pytester.makepyfile("def test_it(zab_cluster):\n    pass")
    pytester.chdir()
    os.chdir(below)
    outcome = pytester.runpytest("..", "--zab-results", "kept")
    outcome.assert_outcomes(failed=1)
    assert len(results(pytester, "below/kept")) == 1
    outcome.stdout.fnmatch_lines(["repeat   pytest ../test_*.py::test_it"])


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--zab-seeds=3-5", "*seeds is '3-5'; it needs a whole number, or two as in 1..1000"),
        (f"--zab-seeds={2**63}", f"*seeds is '{2**63}': the highest seed is {2**63 - 1}"),
        ("--zab-on=moon", "*no backend is called 'moon'. Known: *"),
        ("--zab-record=maybe", "*invalid choice: 'maybe'*"),
    ],
)
def test_a_mistake_in_an_option(pytester: pytest.Pytester, option: str, words: str) -> None:
    pytester.makepyfile("def test_it(zab_cluster):\n    pass")
    outcome = pytester.runpytest(option)
    assert outcome.ret != 0
    (outcome.stderr if "choice" in words else outcome.stdout).fnmatch_lines([words])


def test_the_command_that_repeats_carries_what_was_said_on_the_command_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(zab_cluster):\n    pass")
    outcome = pytester.runpytest("--zab-on=sim", "--zab-seeds=1..2", "--zab-record=no")
    outcome.assert_outcomes(failed=2)
    # A set: where CI is set, pytest says all of it once more in its summary.
    (again,) = {line for line in outcome.stdout.lines if line.startswith("repeat") and "seed2" in line}
    words = again.split()
    assert words[3:] == ["--zab-on", "sim", "--zab-seeds", "2", "--zab-record", "no"]
    outcome = pytester.runpytest(*[word.strip("'") for word in words[2:]])
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(["zab: UNKNOWN, seed 2, on sim"])


def test_a_scenario_is_an_item_for_each_seed(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", small=SMALL)
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.zab(scenario="small.toml", seeds=range(2), on="sim", nodes=5, record=False)
        def test_it(zab_run):
            assert zab_run.verdict.verdict == "PASS"
            assert zab_run.folder.joinpath("trace", "node-5-1.jsonl").is_file()
            assert not list(zab_run.folder.glob("record/*"))
            assert zab_run.property("durability").checked > 0
            assert zab_run.folder.joinpath("verdict.json").is_file()
            assert zab_run.seed in (0, 1)
        """
    )
    outcome = pytester.runpytest("-v")
    outcome.assert_outcomes(passed=2)
    outcome.stdout.fnmatch_lines(["*::test_it?seed0? PASSED*", "*::test_it?seed1? PASSED*"])
    assert not pytester.path.joinpath("results").exists()


def test_a_scenario_is_found_from_any_folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its path is seen from the root folder, like `testpaths`."""
    pytester.makefile(".toml", small=SMALL)
    pytester.makeini("[pytest]")
    folder = pytester.mkdir("inside")
    (folder / "test_it.py").write_text(
        "import pytest\n@pytest.mark.zab(scenario='small.toml', on='sim')\ndef test_it(zab_run): pass"
    )
    monkeypatch.chdir(folder)
    pytester.runpytest().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("expect", "defect", "passed"),
    [
        ('min_acked = 100000\nverdict = "UNKNOWN"', None, 1),
        ('violates = "values and versions"', "wrong-value-read", 1),
        ('violates = "agreement"', "wrong-value-read", 0),
    ],
)
def test_a_scenario_passes_only_if_it_ends_as_it_expects(
    expect: str, defect: str | None, passed: int, pytester: pytest.Pytester
) -> None:
    pytester.makefile(".toml", small=f"{SMALL}[expect]\n{expect}\n")
    pytester.makepyfile(
        f"""
        import pytest
        @pytest.mark.zab(scenario="small.toml", defect={defect!r}, on="sim")
        def test_it(zab_run):
            pass
        """
    )
    outcome = pytester.runpytest()
    outcome.assert_outcomes(passed=passed, failed=1 - passed)
    if not passed:
        outcome.stdout.fnmatch_lines(["zab: VIOLATION (expected: a violation of agreement), seed 1, on sim"])


def test_a_scenario_fails_by_its_verdict_with_the_command_that_repeats_it(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", small=SMALL + "[expect]\nmin_acked = 100000\n")
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.zab(scenario="small.toml", seed=3, on="sim")
        def test_it(zab_run):
            pass
        """
    )
    outcome = pytester.runpytest()
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(
        ["zab: UNKNOWN, seed 3, on sim", "* crash of leader = *", "repeat   zab run small.toml --on sim --seed 3"]
    )
    assert len(results(pytester)) == 1


@pytest.mark.parametrize(
    ("marker", "words"),
    [
        ("", 'zab_run needs a scenario: @pytest.mark.zab(scenario="power-outage")'),
        ("@pytest.mark.zab(scenario='no-such')", "no scenario is called 'no-such'*"),
        ("@pytest.mark.zab(scenario='power-outage', timing={})", "the key 'timing' is only for zab_cluster*"),
        ("@pytest.mark.zab(scenario='power-outage', on='moon')", "*no backend is called*"),
        ("@pytest.mark.zab(scenario='power-outage', on='sim', seed=2**63)", "*seed is 9223372036854775808; it needs *"),
    ],
)
def test_a_scenario_that_cannot_be_run(pytester: pytest.Pytester, marker: str, words: str) -> None:
    pytester.makepyfile(f"import pytest\n{marker}\ndef test_it(zab_run):\n    pass")
    outcome = pytester.runpytest()
    outcome.assert_outcomes(errors=1)
    outcome.stdout.fnmatch_lines([f"*{words}"])
    assert "Traceback" not in outcome.stdout.str()


def test_the_command_that_repeats_names_the_release(tmp_path: Path) -> None:
    options = {"zab_zookeeper": "3.9.4", "zab_on": None, "zab_seeds": None, "zab_record": None}
    config: Any = SimpleNamespace(
        getoption=options.get, rootpath=tmp_path, invocation_params=SimpleNamespace(dir=tmp_path / "below")
    )
    node: Any = SimpleNamespace(nodeid="tests/test_a.py::test_it[x y]")
    assert repeat_command(config, node, 1) == "pytest '../tests/test_a.py::test_it[x y]' --zab-zookeeper 3.9.4"
