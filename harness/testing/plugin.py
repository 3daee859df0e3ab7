"""pytest's plugin: an ensemble or a scenario as a fixture, judged when the test is over. docs/ci.md explains it.

pytest imports this module in every session of everybody who has zab-chaos installed, so it imports nothing but pytest; the
rest comes when a test asks for it.
"""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pytest

if TYPE_CHECKING:
    from zab_chaos.harness.live import Ensemble
    from zab_chaos.harness.testing.resources import JudgedFixture, ZabRun
    from zab_chaos.harness.testing.settings import FixtureOptions

HELD = pytest.StashKey[list["JudgedFixture"]]()  # on the config: everything that stands now
USED = pytest.StashKey[set[str]]()  # on the config: folders in which runs were made
WAS_THERE = pytest.StashKey[bool]()  # on the config: whether the results folder was there before
MARKER = (
    "zab(on, zookeeper, nodes, seed, seeds, scenario, defect, record, disk, timing, limits, min_acked, converges_within, "
    "expect, allow_unknown): what a test asks of zab_cluster or zab_run. seeds=range(20) makes an item of each seed; "
    "scenario is what zab_run runs; expect is the verdict that the test is to end with; allow_unknown=True lets UNKNOWN "
    "pass too."
)
T = TypeVar("T")
Scope = Literal["session", "package", "module", "class", "function"]
SCOPES = ("session", "package", "module", "class", "function")  # the widest first

__all__ = ["cluster_fixture", "zab_cluster", "zab_run", "zab_seed"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("zab", "zab-chaos: ensembles that are broken on purpose")
    group.addoption(
        "--zab-on",
        metavar="BACKEND",
        help="what ensembles run on, whatever a test says: processes, sim, containers, ...",
    )
    group.addoption(
        "--zab-zookeeper",
        metavar="RELEASE",
        help="run ensembles on Apache ZooKeeper's servers of this release, such as 3.9.4, or of a distribution's folder",
    )
    group.addoption(
        "--zab-seeds", metavar="A..B", help="run every test of an ensemble or a scenario with each of these seeds"
    )
    group.addoption("--zab-results", metavar="DIR", help="where the folders of failed runs are kept (default: results)")
    group.addoption("--zab-record", choices=("yes", "no"), help="record the nodes' inputs, for replay (default: yes)")
    parser.addini("zab_on", "the world of tests that name none (default: processes)", default="")
    parser.addini("zab_seeds", "the seeds, A..B, of tests that name none", default="")
    parser.addini("zab_results", "where the folders of failed runs are kept (default: results)", default="")
    parser.addini("zab_record", "record the nodes' inputs, for replay", type="bool", default=True)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    config.stash[HELD] = []
    config.stash[USED] = set()
    config.stash[WAS_THERE] = results(config).is_dir()


def results(config: pytest.Config) -> Path:
    """Where the folders go: the command line's is seen from where pytest was called, the ini file's from its own place."""
    option = config.getoption("zab_results")
    if option is not None:
        return config.invocation_params.dir / str(option)
    return config.rootpath / str(config.getini("zab_results") or "results")


# ---- an item for each seed ----


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    made = getattr(metafunc, "_arg2fixturedefs", {})
    mine = [made[name][-1] for name in metafunc.fixturenames if name in made and hasattr(made[name][-1].func, "zab")]
    own = any(marker.name == "zab" for marker in metafunc.definition.own_markers)
    if not mine and not own:
        return
    from zab_chaos.harness.errors import BadInput
    from zab_chaos.harness.testing.settings import marked, seeds_wanted

    try:
        if not mine:
            raise BadInput("the marker zab is for a test that uses zab_cluster or zab_run, which this one does not")
        seeds = seeds_wanted(metafunc.config, marked(metafunc.definition))
    except BadInput as error:
        raise pytest.Collector.CollectError(f"{metafunc.definition.nodeid}: {error}") from None
    if seeds is not None:
        # A seed lasts as long as what is made with it: an ensemble of a module has one for the module.
        widest = min((definition.scope for definition in mine), key=SCOPES.index)
        ids = [f"seed{seed}" for seed in seeds]
        metafunc.parametrize("zab_seed", seeds, indirect=True, ids=ids, scope=widest)


# ---- fixtures ----


@pytest.fixture(scope="session")
def zab_seed(request: pytest.FixtureRequest) -> int | None:
    """The seed of this item; None when nobody asked for any."""
    return getattr(request, "param", None)


def cluster_fixture(scope: Scope = "function", **options: Any) -> Any:
    """A fixture like `zab_cluster`, of another scope or with other defaults: `shared = cluster_fixture("module", nodes=5)`.

    `options`: the marker's keys. A test fails by the verdict on an ensemble of its own; when several share one, the
    verdict comes when the last of them is over, as an error of its teardown.
    """

    def standing(request: pytest.FixtureRequest, zab_seed: int | None) -> Iterator["Ensemble"]:
        yield from _standing(request, options, zab_seed)

    standing.__doc__ = "A running ensemble with an established leader, judged when the test is over; see docs/ci.md."
    standing.zab = True  # type: ignore[attr-defined]
    return pytest.fixture(scope=scope)(standing)


def _standing(request: pytest.FixtureRequest, options: dict[str, Any], seed: int | None) -> Iterator["Ensemble"]:
    from zab_chaos.harness.testing import resources, results_folder, settings

    def make() -> "tuple[JudgedFixture, Ensemble]":
        requested = _requested(request, options, seed, settings.OF_AN_ENSEMBLE)
        name = results_folder.name_of(request.node.name)
        return resources.ensemble(requested, str(request.fixturename), request.node, results(request.config), name)

    yield from _hold(request, make)


zab_cluster = cluster_fixture()


def _scenario(request: pytest.FixtureRequest, zab_seed: int | None) -> Iterator["ZabRun"]:
    """The run of the marker's scenario: `.verdict`, `.property(name)`, `.folder`, `.seed`. The test fails with it."""
    from zab_chaos.harness.errors import BadInput
    from zab_chaos.harness.testing import resources, settings

    def make() -> "tuple[JudgedFixture, ZabRun]":
        requested = _requested(request, {}, zab_seed, settings.OF_A_RUN)
        if "scenario" not in requested.options:
            raise BadInput('zab_run needs a scenario: @pytest.mark.zab(scenario="power-outage")')
        return resources.run(requested, str(request.fixturename), request.node, results(request.config))

    yield from _hold(request, make)


_scenario.zab = True  # type: ignore[attr-defined]
zab_run = pytest.fixture(name="zab_run")(_scenario)


def _requested(
    request: pytest.FixtureRequest, options: dict[str, Any], seed: int | None, allowed: set[str]
) -> "FixtureOptions":
    """What the marker, the fixture's parameter (a number of nodes, or options) and the command line say together."""
    from zab_chaos.harness.errors import BadInput
    from zab_chaos.harness.testing import settings

    parameter = getattr(request, "param", {})
    if not isinstance(parameter, int | dict):
        raise BadInput(
            f"{request.fixturename} is parametrized with a number of nodes or the marker's keys: {parameter!r}"
        )
    own = {"nodes": parameter} if isinstance(parameter, int) else parameter
    return settings.merged(request.config, [options, settings.marked(request.node), own], seed, allowed)


def _hold(request: pytest.FixtureRequest, make: "Callable[[], tuple[JudgedFixture, T]]") -> Iterator[T]:
    """Make it, let the test have it, see that it is judged, and leave nothing behind that passed."""
    from zab_chaos.faults.cluster import ClusterError
    from zab_chaos.faults.network import NetworkError
    from zab_chaos.harness.errors import BadInput, HarnessError
    from zab_chaos.harness.runs.phases import Unfinished

    config = request.config
    trouble = ""
    try:
        held, value = make()
    except (BadInput, HarnessError, ClusterError, NetworkError, Unfinished) as error:
        trouble = f"zab: {error}"
    if trouble:
        pytest.fail(trouble, pytrace=False)
    config.stash[HELD].append(held)
    config.stash[USED].add(str(held.folder.path.parent))
    yield value
    try:
        complaint = held.finish() if held.verdict is None else None
        held.clear()
    finally:
        config.stash[HELD].remove(held)
    if complaint is not None:
        pytest.fail(complaint, pytrace=False)


# ---- the verdict ----


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A test is over: judge what it held by itself. Its own failure comes first; else the verdict's is its failure."""
    used = [held for held in item.config.stash[HELD] if held.used_by(item)]
    for held in used:
        item.user_properties += [("zab-seed", held.seed), ("zab-on", held.on)]
    own = [held for held in used if held.node is item]
    try:
        result = yield
    except (KeyboardInterrupt, SystemExit, pytest.exit.Exception) as error:
        for held in own:
            held.give_up(error)
        raise
    except BaseException:
        _judge(item, own)
        raise
    complaints = _judge(item, own)
    if complaints:
        for held in own:
            held.told.add(item.nodeid)
        pytest.fail("\n\n".join(complaints), pytrace=False)
    return result


def _judge(item: pytest.Item, own: list["JudgedFixture"]) -> list[str]:
    complaints = []
    for held in own:
        complaint = held.finish()
        complaints += [complaint] if complaint is not None else []
        assert held.verdict is not None
        item.user_properties.append(("zab-verdict", str(held.verdict.verdict)))
        if complaint is not None:
            item.user_properties.append(("zab-results", str(held.folder.path)))
    return complaints


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed keeps the folders of what it used, and its report tells what happened there."""
    report = yield
    if report.failed:
        for held in item.config.stash[HELD]:
            if held.used_by(item):
                held.failed = True
                if item.nodeid not in held.told:
                    held.told.add(item.nodeid)
                    report.sections.append((f"zab: {held.fixture}", held.story()))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """What the user has ended is not judged: the nodes go at once, before the fixtures' teardown."""
    config = session.config
    if exitstatus == pytest.ExitCode.INTERRUPTED:
        for held in config.stash[HELD]:
            held.give_up(KeyboardInterrupt())
    if hasattr(config, "workeroutput"):
        used: set[str] = config.stash[USED]
        config.workeroutput["zab_used"] = sorted(used)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker of xdist is done: it tells where it made runs."""
    node.config.stash[USED].update(getattr(node, "workeroutput", {}).get("zab_used", ()))


def pytest_unconfigure(config: pytest.Config) -> None:
    """What passed leaves no empty folders. A worker of xdist leaves that to the one that waits for all of them."""
    nothing: set[str] = set()
    used = config.stash.get(USED, nothing)
    if used and not hasattr(config, "workerinput"):
        from zab_chaos.harness.testing.results_folder import tidy

        tidy(results(config).resolve(), used, was_there=config.stash[WAS_THERE])
