"""The pytest plugin: an ensemble or a scenario's run as a fixture, judged when the test is over. See docs/ci.md.

pytest imports this module in every session where zab-chaos is installed, so it imports only pytest at first, and everything
else when a test uses one of its fixtures.
"""

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pytest

if TYPE_CHECKING:
    from zab_chaos.harness.live import Ensemble
    from zab_chaos.harness.results.run_folder import RunFolder
    from zab_chaos.harness.testing.resources import JudgedFixture, ZabRun
    from zab_chaos.harness.testing.settings import FixtureOptions

# On the config:
ACTIVE = pytest.StashKey[list["JudgedFixture"]]()  # the ensembles and runs of fixtures that are not torn down yet
RUN_PARENTS = pytest.StashKey[set[str]]()  # the folders that run folders were created in
RESULTS_EXISTED = pytest.StashKey[bool]()  # whether the results folder existed before the session
INTERRUPTED = pytest.StashKey[list[str]]()  # the folders of the runs that were going on when the session was stopped
WORKERS = pytest.StashKey[list[Any]]()  # the workers of pytest-xdist, in the process that controls them
SIGTERM_CAME = pytest.StashKey[bool]()  # only if this plugin handles SIGTERM
MARKER = (
    "zab(on, zookeeper, nodes, seed, seeds, scenario, defect, record, disk, timing, limits, min_acked, converges_within, "
    "expect, allow_unknown): the options of zab_cluster or zab_run in this test. seeds=range(20) runs the test with each "
    "of these seeds; scenario is the one that zab_run runs; expect is the verdict that lets the test pass; "
    "allow_unknown=True lets it pass with UNKNOWN, too."
)
SESSION_ENDS = (KeyboardInterrupt, pytest.exit.Exception)  # what ends a session in the middle of a test
ENDS_AFTER_A_TEST = (  # the exit codes of the other sessions
    pytest.ExitCode.OK,
    pytest.ExitCode.TESTS_FAILED,
    pytest.ExitCode.USAGE_ERROR,
    pytest.ExitCode.NO_TESTS_COLLECTED,
)
T = TypeVar("T")
Scope = Literal["session", "package", "module", "class", "function"]
SCOPES = ("session", "package", "module", "class", "function")  # from the widest to the narrowest

__all__ = ["cluster_fixture", "zab_cluster", "zab_run", "zab_seed"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("zab", "zab-chaos: ensembles that are broken on purpose")
    group.addoption(
        "--zab-on",
        metavar="BACKEND",
        help="run all ensembles on this backend, whatever a test says: processes, sim, containers, ...",
    )
    group.addoption(
        "--zab-zookeeper",
        metavar="RELEASE",
        help="run ensembles on the servers of this Apache ZooKeeper release, such as 3.9.4, or of a distribution's folder",
    )
    group.addoption(
        "--zab-seeds", metavar="A..B", help="run every test of an ensemble or a scenario with each of these seeds"
    )
    group.addoption("--zab-results", metavar="DIR", help="where the folders of failed runs are kept (default: results)")
    group.addoption("--zab-record", choices=("yes", "no"), help="record the nodes' inputs, for replay (default: yes)")
    parser.addini("zab_on", "the backend of tests that name none (default: processes)", default="")
    parser.addini("zab_seeds", "the seeds, A..B, of tests that name none", default="")
    parser.addini("zab_results", "where the folders of failed runs are kept (default: results)", default="")
    parser.addini("zab_record", "record the nodes' inputs, for replay", type="bool", default=True)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    config.stash[ACTIVE] = []
    config.stash[RUN_PARENTS] = set()
    config.stash[RESULTS_EXISTED] = results_folder(config).is_dir()
    config.stash[INTERRUPTED] = []
    config.stash[WORKERS] = []


def results_folder(config: pytest.Config) -> Path:
    """Return the results folder.

    A path of the command line is relative to the current folder, one of the ini file to its own.
    """
    option = config.getoption("zab_results")
    if option is not None:
        return config.invocation_params.dir / str(option)
    return config.rootpath / str(config.getini("zab_results") or "results")


# ---- one test item for each seed ----


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    definitions = getattr(metafunc, "_arg2fixturedefs", {})
    nearest = [definitions[name][-1] for name in metafunc.fixturenames if name in definitions]
    zab_fixtures = [definition for definition in nearest if hasattr(definition.func, "zab")]
    has_marker = any(marker.name == "zab" for marker in metafunc.definition.own_markers)
    if not zab_fixtures and not has_marker:
        return
    from zab_chaos.harness.errors import BadInput
    from zab_chaos.harness.testing.settings import from_markers, of_this_test_only, requested_seeds

    try:
        if not zab_fixtures:
            raise BadInput("the marker zab is for a test that uses zab_cluster or zab_run, and this one uses neither")
        ignored = of_this_test_only(metafunc.definition)
        if ignored and all(definition.scope != "function" for definition in zab_fixtures):
            raise BadInput(
                f"@pytest.mark.zab: several tests share the ensemble, so one of them can't give it {', '.join(ignored)}. "
                "Give that to cluster_fixture, or to a marker of the whole scope, such as pytestmark of a module"
            )
        seeds = requested_seeds(metafunc.config, from_markers(metafunc.definition))
    except BadInput as error:
        raise pytest.Collector.CollectError(f"{metafunc.definition.nodeid}: {error}") from None
    if seeds is not None:
        # The seed has the scope of the fixture that uses it: an ensemble of a module has one seed for the module.
        widest = min((definition.scope for definition in zab_fixtures), key=SCOPES.index)
        ids = [f"seed{seed}" for seed in seeds]
        metafunc.parametrize("zab_seed", seeds, indirect=True, ids=ids, scope=widest)


# ---- fixtures ----


@pytest.fixture(scope="session")
def zab_seed(request: pytest.FixtureRequest) -> int | None:
    """The seed of this test item; None if nobody asked for seeds."""
    return getattr(request, "param", None)


def cluster_fixture(scope: Scope = "function", **options: Any) -> Any:
    """Return a fixture like `zab_cluster` with another scope or other defaults: `shared = cluster_fixture("module", nodes=5)`.

    `options`: the marker's keys. If a test has an ensemble of its own, a bad verdict fails the test. If several tests share
    an ensemble, it is judged after the last of them, and a bad verdict is an error in that test's teardown.
    """

    def running_ensemble(request: pytest.FixtureRequest, zab_seed: int | None) -> Iterator["Ensemble"]:
        yield from _running_ensemble(request, options, zab_seed)

    running_ensemble.__doc__ = "A running ensemble with an established leader, judged after the test; see docs/ci.md."
    running_ensemble.zab = True  # type: ignore[attr-defined]
    return pytest.fixture(scope=scope)(running_ensemble)


def _running_ensemble(
    request: pytest.FixtureRequest, options: dict[str, Any], seed: int | None
) -> Iterator["Ensemble"]:
    from zab_chaos.harness.testing import resources, settings
    from zab_chaos.harness.testing.results_folder import scenario_name_of

    def make() -> "tuple[JudgedFixture, Ensemble]":
        requested = _requested_options(request, options, seed, settings.ENSEMBLE_KEYS)
        name, folder = scenario_name_of(request.node.name), results_folder(request.config)
        return resources.start_ensemble(
            requested, str(request.fixturename), request.node, folder, name, partial(_report_later, request.config)
        )

    yield from _judged_after_test(request, make)


zab_cluster = cluster_fixture()


def _scenario_run(request: pytest.FixtureRequest, zab_seed: int | None) -> Iterator["ZabRun"]:
    """The finished run of the marker's scenario: `.verdict`, `.property(name)`, `.folder`, `.seed`; see docs/ci.md."""
    from zab_chaos.harness.errors import BadInput
    from zab_chaos.harness.testing import resources, settings

    def make() -> "tuple[JudgedFixture, ZabRun]":
        requested = _requested_options(request, {}, zab_seed, settings.RUN_KEYS)
        if "scenario" not in requested.options:
            raise BadInput('zab_run needs a scenario: @pytest.mark.zab(scenario="power-outage")')
        folder = results_folder(request.config)
        return resources.run_scenario(
            requested, str(request.fixturename), request.node, folder, partial(_report_later, request.config)
        )

    yield from _judged_after_test(request, make)


_scenario_run.zab = True  # type: ignore[attr-defined]
zab_run = pytest.fixture(name="zab_run")(_scenario_run)


def _requested_options(
    request: pytest.FixtureRequest, options: dict[str, Any], seed: int | None, allowed: set[str]
) -> "FixtureOptions":
    """Combine `options` (those of the fixture) with the marker, the parameter, the ini file and the command line.

    The parameter is a number of nodes, or a dictionary of options. Raises BadInput.
    """
    from zab_chaos.harness.errors import BadInput
    from zab_chaos.harness.testing import settings

    parameter = getattr(request, "param", {})
    if not isinstance(parameter, int | dict):
        raise BadInput(
            f"{request.fixturename} is parametrized with {parameter!r}; "
            "it needs a number of nodes, or a dictionary of the marker's keys"
        )
    own = {"nodes": parameter} if isinstance(parameter, int) else parameter
    return settings.merge(request.config, [options, settings.from_markers(request.node), own], seed, allowed)


def _judged_after_test(request: pytest.FixtureRequest, make: "Callable[[], tuple[JudgedFixture, T]]") -> Iterator[T]:
    """Yield a new ensemble or run to the test. Then judge it, unless that is done, and remove its folder if it passed."""
    from zab_chaos.faults.cluster import ClusterError
    from zab_chaos.faults.network import NetworkError
    from zab_chaos.harness.errors import BadInput, HarnessError
    from zab_chaos.harness.runs.phases import Unfinished

    config = request.config
    _end_in_order_on_sigterm(config)
    trouble = ""
    try:
        judged, value = make()
    except (BadInput, HarnessError, ClusterError, NetworkError, Unfinished) as error:
        trouble = f"zab: {error}"
    if trouble:
        pytest.fail(trouble, pytrace=False)
    config.stash[ACTIVE].append(judged)
    config.stash[RUN_PARENTS].add(str(judged.folder.path.parent))
    yield value
    try:
        # An ensemble of one test that is not judged yet: the test did not run, because another fixture failed or skipped it.
        did_not_run = isinstance(judged.node, pytest.Item)
        failure = None if judged.finished else judged.finish(only_violations=did_not_run)
        judged.remove_folder_if_passed()
    except SESSION_ENDS:
        _give_up(config, [judged])
        raise
    finally:
        config.stash[ACTIVE].remove(judged)
    if failure is not None:
        pytest.fail(failure, pytrace=False)


# ---- the verdict ----


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test, then judge the ensembles and runs that are its own.

    Fail it with their verdict if it has not failed by itself. A skipped test fails only if a property is violated.
    """
    result: object = None
    try:
        result = yield
    except SESSION_ENDS:
        _give_up(item.config, _own(item))
        raise
    except pytest.skip.Exception:
        failures = _judge(item, only_violations=True)
        if not failures:
            raise
    except BaseException:
        _judge(item)
        raise
    else:
        failures = _judge(item)
    if failures:
        for judged in _own(item):
            judged.reported_in.add(item.nodeid)
        pytest.fail("\n\n".join(failures), pytrace=False)
    return result


def _used(item: pytest.Item) -> list["JudgedFixture"]:
    return [judged for judged in item.config.stash[ACTIVE] if judged.used_by(item)]


def _own(item: pytest.Item) -> list["JudgedFixture"]:
    """Return the ensembles and runs that no other test uses."""
    return [judged for judged in _used(item) if judged.node is item]


def _judge(item: pytest.Item, *, only_violations: bool = False) -> list[str]:
    """Judge those that are the test's own. Return the messages of those that failed.

    Add the seeds, backends and verdicts to the JUnit properties of the test.
    """
    for judged in _used(item):
        item.user_properties += [("zab-seed", judged.seed), ("zab-on", judged.on)]
    failures = []
    for judged in _own(item):
        failure = judged.finish(only_violations=only_violations)
        assert judged.verdict is not None
        item.user_properties.append(("zab-verdict", str(judged.verdict.verdict)))
        if failure is not None:
            failures.append(failure)
    return failures


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """If a test failed, keep the folders of the ensembles and runs that it used, name them in the JUnit properties, and add a
    section on each to its report."""
    report = yield
    if report.failed:
        for judged in _used(item):
            judged.failed = True
            place = ("zab-results", str(judged.folder.path))
            for properties in (item.user_properties, report.user_properties):  # of later reports, and of this one
                properties += [place] if place not in properties else []
            if item.nodeid not in judged.reported_in:
                judged.reported_in.add(item.nodeid)
                report.sections.append((f"zab: {judged.fixture}", judged.describe()))
    return report


# ---- a session that is stopped ----


def _end_in_order_on_sigterm(config: pytest.Config) -> None:
    """Make SIGTERM end the session in order, like Ctrl-C, unless somebody else handles it. Later ones then have no effect:
    timeout(1) sends two.

    It is called before the first run. A session without any ends at once, as without this plugin.
    """
    unhandled = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not unhandled or threading.current_thread() is not threading.main_thread():
        return
    owner = os.getpid()

    def handle(number: int, _frame: FrameType | None) -> None:
        if os.getpid() != owner:  # a process that a test has forked
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        elif not config.stash[SIGTERM_CAME]:
            config.stash[SIGTERM_CAME] = True
            raise KeyboardInterrupt("SIGTERM")

    config.stash[SIGTERM_CAME] = False
    signal.signal(signal.SIGTERM, handle)


def _report_later(config: pytest.Config, folder: "RunFolder") -> None:
    config.stash[RUN_PARENTS].add(str(folder.path.parent))
    config.stash[INTERRUPTED].append(str(folder.path))


def _give_up(config: pytest.Config, ensembles_and_runs: list["JudgedFixture"]) -> None:
    """End them at once, and judge what was recorded. Their folders are kept, and named at the end of the session."""
    for judged in ensembles_and_runs:
        if not judged.finished and not judged.given_up:
            _report_later(config, judged.folder)
            judged.give_up()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """If the session ends in the middle of a test, end all nodes at once, before the fixtures' teardown.

    The user has stopped it, or pytest has failed: a worker of pytest-xdist does that when the process that controls it is gone.
    """
    config = session.config
    if exitstatus not in ENDS_AFTER_A_TEST:
        _give_up(config, config.stash[ACTIVE])
    if hasattr(config, "workeroutput"):
        used: set[str] = config.stash[RUN_PARENTS]
        config.workeroutput |= {"zab_used": sorted(used), "zab_interrupted": config.stash[INTERRUPTED]}


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Remember a worker of pytest-xdist. If the session is stopped, `pytest_testnodedown` is not called."""
    node.config.stash[WORKERS].append(node)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the folders of the runs that were going on when the session was stopped."""
    workers = [getattr(node, "workeroutput", {}).get("zab_interrupted", ()) for node in config.stash[WORKERS]]
    folders = [*config.stash[INTERRUPTED], *(folder for found in workers for folder in found)]
    if folders:
        terminalreporter.section("zab: the session was stopped during these runs")
        for folder in folders:
            terminalreporter.line(f"results  {folder}")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Receive from a worker of pytest-xdist that has ended the folders in which it made runs."""
    node.config.stash[RUN_PARENTS].update(getattr(node, "workeroutput", {}).get("zab_used", ()))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove empty folders. Under pytest-xdist the controller does that when all workers have ended."""
    if SIGTERM_CAME in config.stash:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    nothing: set[str] = set()
    used = config.stash.get(RUN_PARENTS, nothing)
    if used and not hasattr(config, "workerinput"):
        from zab_chaos.harness.testing.results_folder import remove_empty

        remove_empty(results_folder(config).resolve(), used, existed_before=config.stash[RESULTS_EXISTED])
