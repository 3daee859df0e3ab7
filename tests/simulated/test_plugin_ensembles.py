"""The pytest plugin, run in pytest sessions of its own: `zab_cluster`, its marker, its scopes, and the reports of failures."""

import json
import signal
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator

import pytest

import zab_chaos.harness.backends.simulator.backend
import zab_chaos.harness.testing.resources  # noqa: F401  every session in this process would import them anew
from tests.unit.harness.testing.conftest import only_our_plugin  # noqa: F401
from tests.unit.harness.testing.sessions import WRITES, results

pytest_plugins = ["pytester"]

# Two of three nodes are up. The follower acknowledges a write, loses it, and takes part in an election without the leader.
LOSES = """
    leader = zab_cluster.until_established()
    with zab_cluster.client(node=leader) as client:
        client.create("/a")
        zab_cluster.until_converged()
        zab_cluster.crash("follower", name="Third")
        dying = zab_cluster.crash_at("follower", name="Follower", point="before-sync:TXN")
        client.set("/a", b"1")
        dying.until_settled()
        zab_cluster.crash(leader)
        zab_cluster.restart(["Follower", "Third"])
        zab_cluster.until_established()
"""


@pytest.fixture
def session(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project whose tests run in the simulator."""
    pytester.makeini("[pytest]\nzab_on = sim\n")
    return pytester


def test_a_test_that_passes_leaves_no_results_folder(session: pytest.Pytester) -> None:
    session.makepyfile(f"def test_it(zab_cluster):{WRITES}        assert client.get('/a').value == b'1'")
    session.runpytest().assert_outcomes(passed=1)
    assert not session.path.joinpath("results").exists()


def test_a_test_without_asserts_fails_by_the_verdict_which_names_the_property(session: pytest.Pytester) -> None:
    session.makepyfile(
        "import pytest\n@pytest.mark.zab(defect='ack-before-sync', allow_unknown=True)\n"
        f"def test_it(zab_cluster):{LOSES}",
    )
    outcome = session.runpytest()
    outcome.assert_outcomes(failed=1)
    (folder,) = results(session)
    outcome.stdout.fnmatch_lines(
        [
            "zab: VIOLATION, seed 1, on sim",
            "durability (LADIS 2008) is violated: Every acknowledged write is delivered*",
            "  the write of /* by client 1, seq 2 (1:2) was acknowledged, but *",
            "    ops.jsonl:4  client 1 was answered ok by node * (seq 2), zxid 1:2, version *",
            "Faults",
            "* s  crash-at of follower = *",
            f"results  {folder}",
            "repeat   pytest *::test_it",
        ]
    )
    assert json.loads(folder.joinpath("verdict.json").read_text())["verdict"] == "VIOLATION"
    assert json.loads(folder.joinpath("run.json").read_text())["command"].endswith("::test_it")


def test_a_failed_assert_is_shown_first_and_the_verdict_in_a_section_of_its_own(session: pytest.Pytester) -> None:
    session.makepyfile(f"def test_it(zab_cluster):{WRITES}    zab_cluster.crash('leader')\n    assert 1 == 2")
    outcome = session.runpytest()
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(
        [
            "*assert 1 == 2",
            "*- zab: zab_cluster -*",
            "verdict PASS: 1 write acknowledged, none lost",
            "* crash of leader = *",
        ]
    )
    assert len(results(session)) == 1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("zab_cluster.client().get('/no')", "Failed: no node: there is no znode /no"),
        ("zab_cluster.client().create('/a', 'text')", "TypeError: Create(path='/a', data='text', *) can't be sent: *"),
        ("zab_cluster.restart('one')", "FaultError: restart did not take effect: *"),
        ("zab_cluster.crash('boss')", "BadInput: crash: 'boss' is no target. Allowed: leader, *"),
        ("zab_cluster.until(lambda: False, timeout=0.1)", "TimeoutError: the condition did not come to hold *"),
    ],
)
def test_an_error_is_shown_at_the_line_of_the_test(session: pytest.Pytester, line: str, words: str) -> None:
    session.makepyfile(f"def test_it(zab_cluster):\n    {line}")
    outcome = session.runpytest()
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines([f">   *{line}", f"E   *{words}"])
    assert "live/ensemble.py" not in outcome.stdout.str()
    assert "session.py:" not in outcome.stdout.str()


def test_unknown_fails_unless_the_marker_allows_it(session: pytest.Pytester) -> None:
    session.makepyfile(
        """
        import pytest
        def test_too_little(zab_cluster):
            zab_cluster.until_converged()
        @pytest.mark.zab(allow_unknown=True)
        def test_allowed(zab_cluster):
            zab_cluster.until_converged()
        """
    )
    outcome = session.runpytest()
    outcome.assert_outcomes(failed=1, passed=1)
    outcome.stdout.fnmatch_lines(["zab: UNKNOWN, seed 1, on sim", "verdict UNKNOWN: 0 writes were acknowledged; *"])


def test_a_verdict_that_is_expected_passes_and_another_does_not(session: pytest.Pytester) -> None:
    session.makepyfile(
        f"""
import pytest
@pytest.mark.zab(defect='ack-before-sync', expect='VIOLATION')
def test_caught(zab_cluster):{LOSES}
@pytest.mark.zab(expect='VIOLATION')
def test_not_caught(zab_cluster):{WRITES}"""
    )
    outcome = session.runpytest()
    outcome.assert_outcomes(passed=1, failed=1)
    outcome.stdout.fnmatch_lines(["zab: PASS (expected: VIOLATION), seed 1, on sim"])


def test_markers_of_class_and_function_are_combined(session: pytest.Pytester) -> None:
    session.makepyfile(
        """
import pytest
@pytest.mark.zab(nodes=5, seed=4)
class TestIt:
    @pytest.mark.zab(seed=9)
    def test_it(self, zab_cluster):
        assert (len(zab_cluster.nodes), zab_cluster.seed, zab_cluster.on) == (5, 9, 'sim')
        zab_cluster.client().create('/a')
"""
    )
    session.runpytest().assert_outcomes(passed=1)


def test_the_fixture_takes_a_number_of_nodes_or_options_as_parameter(session: pytest.Pytester) -> None:
    session.makepyfile(
        f"""
import pytest
@pytest.mark.zab(nodes=1)
@pytest.mark.parametrize('zab_cluster', [2, {{'nodes': 5, 'seed': 8}}], indirect=True)
def test_it(zab_cluster):{WRITES}    assert (len(zab_cluster.nodes), zab_cluster.seed) in [(2, 1), (5, 8)]
@pytest.mark.parametrize('zab_cluster', ['five'], indirect=True)
def test_wrong(zab_cluster):
    pass
"""
    )
    outcome = session.runpytest()
    outcome.assert_outcomes(passed=2, errors=1)
    outcome.stdout.fnmatch_lines(
        ["*parametrized with 'five'; it needs a number of nodes, or a dictionary of the marker's keys"]
    )


def test_an_ensemble_of_a_module_is_judged_when_the_last_test_is_over(session: pytest.Pytester) -> None:
    session.makeconftest(
        "from zab_chaos.harness.testing.plugin import cluster_fixture\nshared = cluster_fixture('module', nodes=3, seed=5)"
    )
    session.makepyfile(
        test_good="""
        def test_one(shared):
            with shared.client() as client:
                client.create("/a", b"1")
        def test_two(shared):
            with shared.client() as client:
                assert client.get("/a").value == b"1"
        """,
        test_bad="""
        def test_one(shared):
            shared.crash("leader")
        def test_two(shared):
            assert shared.until_established()
        """,
    )
    outcome = session.runpytest("-v")
    outcome.assert_outcomes(passed=4, errors=1)
    outcome.stdout.fnmatch_lines(["*ERROR at teardown of test_two*", "zab: UNKNOWN, seed 5, on sim"])
    assert [folder.parent.name for folder in results(session)] == ["test-bad-py"]


def test_a_shared_ensemble_is_kept_when_a_test_that_used_it_failed(session: pytest.Pytester) -> None:
    session.makepyfile(
        f"""
import pytest
from zab_chaos.harness.testing.plugin import cluster_fixture
zab_cluster = cluster_fixture("module")
def test_one(zab_cluster):{WRITES}    zab_cluster.crash('follower')
    assert False
def test_two(zab_cluster):
    zab_cluster.heal()
def test_three():
    assert False
"""
    )
    outcome = session.runpytest()
    outcome.assert_outcomes(failed=2, passed=1)
    outcome.stdout.fnmatch_lines(["not judged yet; seed 1, on sim", "* s  node * killed"])
    assert outcome.stdout.str().count("zab: zab_cluster") == 1  # test_three does not use it
    assert len(results(session)) == 1


def test_seeds_of_a_shared_ensemble_are_one_after_the_other(session: pytest.Pytester) -> None:
    session.makepyfile(
        """
import pytest
from zab_chaos.harness.testing.plugin import cluster_fixture
zab_cluster = cluster_fixture("module", nodes=5, seed=9)  # the name of the plugin's own, with another scope
other = cluster_fixture(allow_unknown=True)
seen = []
pytestmark = pytest.mark.zab(seeds=[3, 4], nodes=1)
def test_one(zab_cluster):
    zab_cluster.client().create("/a")
    assert len(zab_cluster.nodes) == 1
    seen.append(zab_cluster.seed)
def test_two(zab_cluster, other):
    assert zab_cluster.client().exists("/a")
    assert other.seed == zab_cluster.seed
    seen.append(zab_cluster.seed)
    assert seen in ([3, 3], [3, 3, 4, 4])
"""
    )
    session.runpytest().assert_outcomes(passed=4)


def test_a_test_can_not_change_an_ensemble_that_it_shares(session: pytest.Pytester) -> None:
    """Its marker would have no effect. One of the module has, and seeds are the whole module's anyway."""
    session.makepyfile(
        """
import pytest
from zab_chaos.harness.testing.plugin import cluster_fixture
shared = cluster_fixture("module")
pytestmark = pytest.mark.zab(allow_unknown=True)
@pytest.mark.zab(seeds=[3])
def test_one(shared):
    assert shared.seed == 3
@pytest.mark.zab(nodes=5)
def test_two(shared, zab_cluster):
    assert (len(shared.nodes), len(zab_cluster.nodes)) == (3, 5)
"""
    )
    session.runpytest().assert_outcomes(passed=2)
    session.makepyfile(
        """
import pytest
from zab_chaos.harness.testing.plugin import cluster_fixture
shared = cluster_fixture("module")
@pytest.mark.zab(seeds=[3], nodes=5, expect="VIOLATION")
def test_it(shared): ...
"""
    )
    outcome = session.runpytest()
    outcome.assert_outcomes(errors=1)
    outcome.stdout.fnmatch_lines(["*several tests share the ensemble, so one of them can't give it nodes, expect. *"])
    assert not session.path.joinpath("results").exists()


@pytest.mark.parametrize(
    ("marker", "words"),
    [
        ("zab(node=5)", "there is no key 'node'. Known: allow_unknown, *"),
        ("zab(5)", "name every key, as in zab(nodes=5); 5 has no name"),
        ("zab(seed=1, seeds=[2])", "give either seed or seeds, not both"),
        ("zab(seeds=3)", "*seeds is 3; write [[]3] for one seed, or range(3) for as many*"),
        ("zab(seeds=[])", "*seeds is *; it needs whole numbers from 0 on*"),
        ("zab(seeds=[1, 1])", "*names a seed twice"),
        ("zab(seeds='5..1')", "*seeds is '5..1': 1 comes before 5"),
    ],
)
def test_a_mistake_in_a_marker_is_reported_during_collection(session: pytest.Pytester, marker: str, words: str) -> None:
    session.makepyfile(f"import pytest\n@pytest.mark.{marker}\ndef test_it(zab_cluster):\n    pass")
    outcome = session.runpytest()
    outcome.assert_outcomes(errors=1)
    outcome.stdout.fnmatch_lines([f"*{words}"])
    assert "Traceback" not in outcome.stdout.str()


@pytest.mark.parametrize(
    ("marker", "words"),
    [
        ("zab(nodes=0, timing={'tick': 3})", ["*nodes*", "*'tick' is no key*"]),
        ("zab(nodes=0.5, defect=3)", ["*nodes is 0.5; it needs a whole number", "*defect is 3; it needs text"]),
        ("zab(seed='x', timing=[3])", ["*seed is 'x'; it needs *", "*timing is [[]3]; it needs a dictionary"]),
        (
            "zab(nodes=True, allow_unknown='no')",
            ["*nodes is True; it *", "*allow_unknown is 'no'; it needs True or False"],
        ),
        (
            "zab(expect='violation', seed=-1)",
            ["*it needs a verdict: PASS, VIOLATION, *", "*seed is -1; it needs *from 0 to *"],
        ),
        ("zab(on='moon')", ["*no backend is called 'moon'. Known: *sim*"]),
        ("zab(defect='bad')", ["*no defect is called 'bad'. Known: ack-before-sync*"]),
        ("zab(scenario='power-outage')", ["*the key 'scenario' is only for zab_run*"]),
    ],
)
def test_invalid_options_are_an_error_without_a_traceback(
    session: pytest.Pytester, marker: str, words: list[str]
) -> None:
    session.makepyfile(f"import pytest\n@pytest.mark.{marker}\ndef test_it(zab_cluster):\n    pass")
    outcome = session.runpytest()
    outcome.assert_outcomes(errors=1)
    for line in words:
        outcome.stdout.fnmatch_lines([line])
    assert "Traceback" not in outcome.stdout.str()
    assert not session.path.joinpath("results").exists()


@pytest.mark.parametrize("error", ["errors.HarnessError('no ports')", "runs.phases.Unfinished('no leader')"])
def test_an_ensemble_that_can_not_start_is_an_error_without_a_traceback(session: pytest.Pytester, error: str) -> None:
    session.makepyfile(
        f"""
import pytest
from zab_chaos import harness
from zab_chaos.harness import errors
from zab_chaos.harness.runs import phases
@pytest.fixture(autouse=True)
def no_start(monkeypatch):
    def start(self):
        raise harness.{error}
    monkeypatch.setattr("zab_chaos.harness.live.ensemble.Ensemble._start", start)
def test_it(zab_cluster):
    pass
"""
    )
    outcome = session.runpytest()
    outcome.assert_outcomes(errors=1)
    outcome.stdout.fnmatch_lines(["zab: no *"])
    assert "Traceback" not in outcome.stdout.str()
    assert ">  " not in outcome.stdout.str()


def test_a_marker_without_a_fixture_is_a_mistake(session: pytest.Pytester) -> None:
    session.makepyfile("import pytest\n@pytest.mark.zab(scenario='power-outage')\ndef test_it():\n    pass")
    outcome = session.runpytest()
    outcome.assert_outcomes(errors=1)
    outcome.stdout.fnmatch_lines(["*the marker zab is for a test that uses zab_cluster or zab_run, *"])


def test_the_junit_file_has_the_seed_and_the_verdict(session: pytest.Pytester) -> None:
    session.makepyfile(
        f"""
import pytest
@pytest.mark.zab(seeds=[3, 4])
def test_good(zab_cluster):{WRITES}
def test_bad(zab_cluster):
    pass
def test_wrong(zab_cluster):{WRITES}    assert False
"""
    )
    session.runpytest("--junitxml=out.xml").assert_outcomes(passed=2, failed=2)
    cases = ElementTree.parse(session.path / "out.xml").getroot().iter("testcase")
    told = {case.get("name"): {one.get("name"): one.get("value") for one in case.iter("property")} for case in cases}
    assert told["test_good[seed3]"] == {"zab-seed": "3", "zab-on": "sim", "zab-verdict": "PASS"}
    assert told["test_good[seed4]"]["zab-seed"] == "4"
    folders = {folder.parent.name: str(folder) for folder in results(session)}
    for name, verdict in (("test-bad", "UNKNOWN"), ("test-wrong", "PASS")):
        assert told[name.replace("-", "_")] == {
            "zab-seed": "1", "zab-on": "sim", "zab-verdict": verdict, "zab-results": folders[name],
        }  # fmt: skip


def test_a_skipped_test_stays_skipped_and_an_expected_failure_stays_expected(session: pytest.Pytester) -> None:
    session.makepyfile(
        """
import pytest
def test_skipped(zab_cluster):
    pytest.skip("not today")
@pytest.mark.xfail(strict=True)
def test_expected(zab_cluster):
    zab_cluster.crash("leader")
"""
    )
    session.runpytest().assert_outcomes(skipped=1, xfailed=1)
    assert [folder.parent.name for folder in results(session)] == ["test-expected"]


def test_a_test_that_did_not_run_is_not_judged_by_its_missing_writes(session: pytest.Pytester) -> None:
    session.makepyfile(
        """
import pytest
@pytest.fixture
def absent(zab_cluster):
    pytest.skip("kazoo is not installed")
@pytest.fixture
def broken(zab_cluster):
    assert 1 == 2
def test_skipped(absent):
    pass
def test_broken(broken):
    pass
"""
    )
    outcome = session.runpytest()
    outcome.assert_outcomes(skipped=1, errors=1)
    outcome.stdout.fnmatch_lines(["*- zab: zab_cluster -*", "not judged yet; seed 1, on sim"])
    assert [folder.parent.name for folder in results(session)] == ["test-broken"]


def test_an_ensemble_that_a_test_asks_for_while_it_runs(session: pytest.Pytester) -> None:
    session.makepyfile(
        f"""
def test_assert(request):
    zab_cluster = request.getfixturevalue("zab_cluster"){WRITES}    assert 1 == 2
def test_verdict(request):
    request.getfixturevalue("zab_cluster")
"""
    )
    outcome = session.runpytest()
    outcome.assert_outcomes(failed=2)
    outcome.stdout.fnmatch_lines(
        ["*assert 1 == 2", "*- zab: zab_cluster -*", "verdict PASS*", "zab: UNKNOWN, seed 1, on sim"]
    )
    assert len(results(session)) == 2


def test_a_skipped_test_fails_if_a_property_is_violated(session: pytest.Pytester) -> None:
    session.makepyfile(
        f"import pytest\n@pytest.mark.zab(defect='ack-before-sync')\ndef test_it(zab_cluster):{LOSES}    pytest.skip('no')",
    )
    outcome = session.runpytest()
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(["zab: VIOLATION, seed 1, on sim"])


def test_the_plugin_imports_nothing_heavy_until_it_is_used(session: pytest.Pytester) -> None:
    session.makepyfile(
        """
        import sys
        def test_it():
            heavy = {"zab_chaos.harness.live", "zab_chaos.harness.runs.run"}
            heavy |= {"zab_chaos.faults", "zab_chaos.model", "zab_chaos.node", "zmq", "rich", "msgspec"}
            assert not heavy & set(sys.modules)
        """
    )
    outcome = session.runpytest_subprocess("-p", "no:randomly")
    outcome.assert_outcomes(passed=1)


def test_a_test_that_calls_exit_is_a_failure_and_judged(session: pytest.Pytester) -> None:
    session.makepyfile(f"import sys\ndef test_it(zab_cluster):{WRITES}    sys.exit(3)\ndef test_next(): pass")
    outcome = session.runpytest()
    outcome.assert_outcomes(failed=1, passed=1)
    (folder,) = results(session)
    assert json.loads(folder.joinpath("verdict.json").read_text())["verdict"] == "PASS"
    outcome.stdout.no_fnmatch_line("*session was stopped*")


# ---- sessions that are stopped ----

NAMED = "=* zab: the session was stopped during these runs =*"


def stopped(session: pytest.Pytester) -> pytest.RunResult:
    """Run a session that is stopped. Check that its run is complete, and named."""
    outcome = session.runpytest_inprocess(no_reraise_ctrlc=True)
    (folder,) = results(session)
    outcome.stdout.fnmatch_lines([NAMED, f"results  {folder}"])
    assert json.loads(folder.joinpath("run.json").read_text())["outcome"] == "interrupted"
    assert folder.joinpath("verdict.json").exists()
    assert folder.joinpath("manifest.json").exists()
    return outcome


@pytest.mark.parametrize("interrupt", ["raise KeyboardInterrupt", "pytest.exit('enough', returncode=7)"])
def test_a_run_is_complete_if_its_test_is_interrupted(session: pytest.Pytester, interrupt: str) -> None:
    session.makepyfile(f"import pytest\ndef test_it(zab_cluster):{WRITES}    {interrupt}")
    outcome = session.runpytest_inprocess(no_reraise_ctrlc=True)
    (folder,) = results(session)
    assert json.loads(folder.joinpath("run.json").read_text())["outcome"] == "interrupted"
    assert folder.joinpath("manifest.json").exists()
    named = outcome.ret == pytest.ExitCode.INTERRUPTED
    assert (f"results  {folder}" in outcome.outlines) is named  # pytest shows no summary with another exit code


def test_a_run_is_complete_if_another_fixture_is_interrupted(session: pytest.Pytester) -> None:
    session.makepyfile(
        """
import pytest
@pytest.fixture
def late(zab_cluster):
    raise KeyboardInterrupt
def test_it(zab_cluster, late): pass
"""
    )
    assert stopped(session).ret == pytest.ExitCode.INTERRUPTED


@pytest.fixture
def default_sigterm() -> Iterator[None]:
    """Let nobody handle SIGTERM, whatever the tests before have left."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def sigterm_in(phase: str) -> str:
    """Return a conftest.py with which each run gets SIGTERM at the begin of this phase."""
    return f"""
import signal, pytest
from zab_chaos.harness.runs.phases import RunPhases
@pytest.fixture(scope="session", autouse=True)
def interrupted():
    whole = RunPhases.{phase}
    def phase(*arguments, **more):
        signal.raise_signal(signal.SIGTERM)
        return whole(*arguments, **more)
    RunPhases.{phase} = phase
    yield
    RunPhases.{phase} = whole
"""


@pytest.mark.usefixtures("default_sigterm")
@pytest.mark.parametrize("phase", ["start_ensemble", "start_load", "converge"])
@pytest.mark.parametrize("scope", ["function", "module"])
def test_a_run_is_complete_if_its_start_or_its_end_is_interrupted(
    session: pytest.Pytester, phase: str, scope: str
) -> None:
    session.makeconftest(sigterm_in(phase))
    session.makepyfile(
        f"""
from zab_chaos.harness.testing.plugin import cluster_fixture
zab_cluster = cluster_fixture("{scope}")
def test_it(zab_cluster):{WRITES}
"""
    )
    assert stopped(session).ret == pytest.ExitCode.INTERRUPTED


@pytest.mark.usefixtures("default_sigterm")
def test_a_scenario_s_run_that_is_interrupted_is_complete(session: pytest.Pytester) -> None:
    session.makeconftest(sigterm_in("start_load"))
    session.makepyfile('import pytest\n@pytest.mark.zab(scenario="power-outage")\ndef test_it(zab_run): pass')
    assert stopped(session).ret == pytest.ExitCode.INTERRUPTED


def test_the_run_is_kept_if_pytest_fails(session: pytest.Pytester) -> None:
    """A worker of pytest-xdist does, at its next report, when the process that controls it is gone."""
    session.makeconftest("def pytest_runtest_logreport(report):\n    raise OSError('cannot send')")
    session.makepyfile(f"def test_it(zab_cluster):{WRITES}")
    assert session.runpytest_inprocess().ret == pytest.ExitCode.INTERNAL_ERROR
    (folder,) = results(session)
    assert json.loads(folder.joinpath("run.json").read_text())["outcome"] == "interrupted"
    assert folder.joinpath("manifest.json").exists()


@pytest.mark.usefixtures("default_sigterm")
def test_sigterm_ends_the_session_once_and_leaves_other_processes_and_handlers_alone(session: pytest.Pytester) -> None:
    """Without an ensemble SIGTERM has its default effect, also after the session."""
    session.makepyfile(
        f"""
import multiprocessing, signal
def test_without_an_ensemble():
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
def test_with_one(zab_cluster):{WRITES}
    child = multiprocessing.get_context("fork").Process(target=signal.raise_signal, args=(signal.SIGTERM,))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGTERM
    try:
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.raise_signal(signal.SIGTERM)
"""
    )
    stopped(session).assert_outcomes(passed=1)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.usefixtures("default_sigterm")
def test_a_handler_of_somebody_else_stays(session: pytest.Pytester) -> None:
    session.makepyfile(
        f"""
import signal
def test_it(zab_cluster):{WRITES}
    assert signal.getsignal(signal.SIGTERM) is print
"""
    )
    signal.signal(signal.SIGTERM, print)
    session.runpytest_inprocess().assert_outcomes(passed=1)
    assert signal.getsignal(signal.SIGTERM) is print
