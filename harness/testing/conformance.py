"""The conformance suite: tests that every backend must pass. The author of a backend runs it with

    pytest --pyargs zab_chaos.harness.testing.conformance --zab-on NAME

Without `--zab-on` it runs on the simulator and on processes. A test is skipped if it needs an ability that the backend does not
have; other tests check that such a fault is refused.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.kind import REQUIRED, FaultError
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import LISTS, TRANSACTIONS
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.backend import Backend
from zab_chaos.harness.client.session import Done, Failed, Session
from zab_chaos.harness.errors import BadInput, HarnessError
from zab_chaos.harness.live import Ensemble
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.report import summary
from zab_chaos.harness.report.progress import Quiet
from zab_chaos.harness.results.run_folder import below
from zab_chaos.harness.runs.judgement import judge
from zab_chaos.harness.runs.options import options_for, read_scenario
from zab_chaos.harness.runs.run import run
from zab_chaos.node.net import keys
from zab_chaos.node.tree.refusal import NODE_EXISTS
from zab_chaos.node.tree.requests import Create, Get, Request, Set

WAIT_SECONDS_MAX = 60.0  # generous, for a busy machine
SCENARIO = """
[scenario]
name = "conformance"
about = "A node is killed while clients write."
duration = {duration}
[workload]
clients = 3
rate = 60
keys = 3
payload_bytes = 32
{mix}
[[fault]]
at = 0.5
do = "crash"
target = "one"
for = 0.5
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    named = metafunc.config.getoption("zab_on", None)
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", [named] if named else ["sim", "processes"], indirect=True)


def require_pass(ensemble: Ensemble) -> None:
    """End and judge the ensemble, and fail the test with the verdict in words unless it is PASS."""
    verdict = ensemble.finish()
    if verdict.exit:
        assert ensemble.folder is not None
        pytest.fail(summary.full_text(ensemble.folder, verdict, None), pytrace=False)


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Return the backend, and check after the test that none of its processes is left."""
    found = registry.find(request.param)
    try:
        found.check()
    except HarnessError as error:
        pytest.skip(str(error))
    before = set(psutil.Process().children(recursive=True))
    yield found
    left = set(psutil.Process().children(recursive=True)) - before
    assert not left, f"left behind: {left}"


@pytest.fixture
def ensemble(backend: Backend, tmp_path: Path) -> Iterator[Ensemble]:
    """Return a running ensemble on the backend."""
    with Ensemble(on=backend.name, results=tmp_path, min_acked=0) as running:
        yield running


def put(session: Session, path: str, data: bytes, backend: Backend) -> None:
    """Write a key. During a fault an outcome may be unknown, so the write is repeated until it is done.

    Skip the test if the backend's clients have no keys with values: the tests with a load still show that it works.
    """
    if not {"get", "set"} <= backend.operations:
        pytest.skip(f"{backend.name} has no get and set")
    if "create" in backend.operations:
        submit_until_done(session, Create(path, b""))
    submit_until_done(session, Set(path, data))


def submit_until_done(session: Session, request: Request) -> Done | None:
    """Send the request until it is done, and return the outcome. Return None if the znode to create exists already."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        outcome = session.submit(request).outcome()
        if isinstance(outcome, Done):
            return outcome
        if isinstance(outcome, Failed) and outcome.error == NODE_EXISTS:
            return None
        assert time.monotonic() < deadline, outcome


def needs(backend: Backend, *abilities: Ability) -> None:
    """Skip the test if the backend lacks one of the abilities."""
    for one in abilities:
        if one not in backend.abilities:
            pytest.skip(f"{backend.name} has no {one.value}")


# ---- the nodes ----


def test_clients_are_served_and_the_run_is_judged(backend: Backend, ensemble: Ensemble) -> None:
    with ensemble.client() as client:
        put(client, "/a", b"1", backend)
        assert client.get("/a").value == b"1"
    assert all(ensemble.alive(node) for node in ensemble.nodes)
    verdict = ensemble.finish()
    assert (verdict.exit, verdict.reasons) == (0, [])
    folder = ensemble.folder
    assert folder is not None
    facts = folder.read_run()
    assert (facts["backend"], facts["outcome"], facts["nodes"]) == (backend.name, "finished", 3)
    for name in ("scenario.toml", "harness.jsonl", "ops.jsonl", "verdict.json", "manifest.json"):
        assert folder.file(name).is_file(), name
    assert folder.path.stat().st_mode & 0o077 == 0
    assert judge(folder.path).verdict == verdict.verdict


def test_a_killed_node_is_gone_and_comes_back(backend: Backend, ensemble: Ensemble) -> None:
    killed = ensemble.crash("one")
    (node,) = killed.nodes
    assert not ensemble.alive(node)
    with ensemble.client(node=node % 3 + 1) as client:
        put(client, "/a", b"1", backend)
        killed.heal()
        assert ensemble.alive(node)
        ensemble.until_converged()
    require_pass(ensemble)


def test_a_stopped_node_ends(ensemble: Ensemble) -> None:
    try:
        stopped = ensemble.stop("one")
    except FaultError as error:
        pytest.fail(
            "at SIGTERM, or the backend's `stop_signal`, a node must end by itself; exit -9 means that it had to be killed: "
            f"{error}",
            pytrace=False,
        )
    assert not any(ensemble.alive(node) for node in stopped.nodes)
    stopped.heal()
    ensemble.until_converged()
    assert ensemble.finish().violated == []


def test_a_paused_node_is_alive_and_silent_until_it_is_resumed(backend: Backend, ensemble: Ensemble) -> None:
    needs(backend, Ability.PAUSE)
    with ensemble.paused("one") as paused:
        (node,) = paused.nodes
        assert ensemble.alive(node)
        assert ensemble.is_paused(node)
        assert node not in ensemble.status()
    assert not ensemble.is_paused(node)
    ensemble.until_converged()


def test_a_wiped_node_comes_back_with_an_empty_disk(backend: Backend, ensemble: Ensemble) -> None:
    needs(backend, Ability.WIPE)
    wiped = ensemble.wipe("one")
    assert not any(ensemble.alive(node) for node in wiped.nodes)
    wiped.heal()
    ensemble.until_converged()
    assert all(ensemble.alive(node) for node in ensemble.nodes)


def test_a_node_with_a_damaged_log_refuses_it_or_comes_back(backend: Backend, ensemble: Ensemble) -> None:
    """The log must be where the backend says, else there is nothing to damage. A node that refuses it gets an empty disk."""
    needs(backend, Ability.DISK_FILES, Ability.WIPE)
    with ensemble.client() as client:
        put(client, "/a", b"1", backend)
    damaged = ensemble.corrupt("one", replace=True)
    assert not any(ensemble.alive(node) for node in damaged.nodes)
    damaged.heal()
    ensemble.until_converged()
    assert all(ensemble.alive(node) for node in ensemble.nodes)


def test_the_leader_is_one_of_the_nodes_and_is_replaced(backend: Backend, ensemble: Ensemble) -> None:
    needs(backend, Ability.LEADER)
    first = ensemble.until_established()
    assert first in ensemble.nodes
    with ensemble.crashed("leader") as crashed:
        assert crashed.nodes == [first]
        ensemble.until(lambda: ensemble.leader not in (None, first), WAIT_SECONDS_MAX)
    ensemble.until_converged()


def test_a_node_that_is_cut_off_comes_back(backend: Backend, ensemble: Ensemble) -> None:
    """What passes the links must be counted. `partitioned` raises unless the counts confirm the cut, also if a node has a
    connection past its proxies. Each node is cut off, so that each link is."""
    needs(backend, Ability.LINKS)
    with ensemble.client() as client:
        put(client, "/a", b"0", backend)
    if any(status.frames for status in ensemble.status().values()):  # its nodes count: they must not count nothing
        ensemble.until(lambda: any(any(it.frames.values()) for it in ensemble.status().values()), WAIT_SECONDS_MAX)
    for node in ensemble.nodes:
        with ensemble.partitioned(node), ensemble.client(node=node % 3 + 1) as client:
            put(client, "/a", b"%d" % node, backend)
        ensemble.until_converged()
    require_pass(ensemble)


def test_no_acknowledged_write_is_lost_by_crashes_one_after_the_other(backend: Backend, ensemble: Ensemble) -> None:
    with ensemble.client() as client:
        put(client, "/a", b"0", backend)
        for node in ensemble.nodes:
            with ensemble.crashed(node), ensemble.client(node=node % 3 + 1) as other:
                put(other, "/a", b"%d" % node, backend)
            ensemble.until_converged()
        found = submit_until_done(client, Get("/a"))
        assert found is not None
        assert found.value == b"3"
    require_pass(ensemble)


# ---- the runs ----


def scenario_in(folder: Path, duration: float, backend: Backend) -> Path:
    """Write a scenario with the default mix, or with transactions if the backend's clients have them."""
    path = folder / "conformance.toml"
    asked = [name for name in (*TRANSACTIONS, *LISTS) if name in backend.operations]
    weights = {name: 1 for name in ("set", "get") if name in backend.operations} | dict.fromkeys(asked, 2)
    mix = f"mix = {{ {', '.join(f'{name} = {weight}' for name, weight in weights.items())} }}" if asked else ""
    path.write_text(SCENARIO.format(duration=duration, mix=mix))
    return path


def test_a_scenario_is_run_and_its_folder_gives_the_same_verdict(backend: Backend, tmp_path: Path) -> None:
    name = str(scenario_in(tmp_path, 2, backend))
    scenario = read_scenario(name, on=backend.name, nodes=None, defect=None)
    options = options_for(name, scenario, seed=1, results=tmp_path / "results", on=backend.name)
    ran = run(scenario, options, Quiet())
    assert (ran.verdict.exit, ran.verdict.reasons) == (0, [])
    assert ran.verdict.metrics["writes_acked"] > 10
    assert [fault["do"] for fault in ran.verdict.metrics["faults"]] == ["crash"]
    assert judge(ran.folder.path).to_json() == ran.verdict.to_json()
    assert not any(path.exists() for path in keys.files_in(ran.folder.file("config")))  # they are of one run only


def test_unsupported_faults_and_defects_are_refused_before_a_folder_is_made(backend: Backend, tmp_path: Path) -> None:
    path = tmp_path / "refused.toml"
    for kind in KINDS.values():
        required = any(key.default is REQUIRED for key in kind.keys)
        if kind.needs <= backend.abilities or required or kind.name == "resume":
            continue
        path.write_text(
            f'[scenario]\nname = "refused"\nabout = "no"\n[[fault]]\nat = 1\ndo = "{kind.name}"\ntarget = "one"\n'
        )
        with pytest.raises(BadInput, match=f"{kind.name} can't be done on {backend.name}"):
            read_scenario(str(path), on=backend.name, nodes=None, defect=None)
    with pytest.raises(BadInput, match="no defect is called 'none'"):
        Ensemble(on=backend.name, results=tmp_path / "results", defect="none")
    assert not (tmp_path / "results").exists()


def test_an_unsupported_fault_is_also_refused_on_a_running_ensemble(backend: Backend, ensemble: Ensemble) -> None:
    unsupported = [kind for kind in KINDS.values() if not kind.needs <= backend.abilities]
    for kind in unsupported:
        required = {key.name: 1 for key in kind.keys if key.default is REQUIRED}
        with pytest.raises(BadInput):
            ensemble.inject(kind, {"target": "one", **required})
    assert ensemble.faults == []


@pytest.fixture
def command(backend: Backend, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Return a process of `zab run` with a long scenario under load."""
    arguments = [
        "run",
        str(scenario_in(tmp_path, 600, backend)),
        "--on",
        backend.name,
        "--results",
        str(tmp_path / "results"),
    ]
    process = subprocess.Popen([sys.executable, "-m", "zab_chaos.harness", *arguments], stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def processes_under_load(process: subprocess.Popen[bytes], folder: Path) -> list[psutil.Process]:
    """Wait until clients work, and return all processes of the command.

    The simulator has no processes and writes its files at the end, so there it waits for one second.
    """
    assert wait_until(lambda: bool(below(folder / "results")), WAIT_SECONDS_MAX)
    (run_folder,) = below(folder / "results")
    begun = time.monotonic()

    def works() -> bool:
        written = run_folder.joinpath("ops.jsonl").is_file() and run_folder.joinpath("ops.jsonl").stat().st_size > 2000
        return written or (not psutil.Process(process.pid).children() and time.monotonic() > begun + 1)

    assert wait_until(works, WAIT_SECONDS_MAX)
    return psutil.Process(process.pid).children(recursive=True)


def test_ctrl_c_ends_the_command_in_time_with_a_verdict(command: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    """In time: long before the scenario's end. A busy machine takes its own time, so the two seconds are not measured."""
    processes = processes_under_load(command, tmp_path)
    command.send_signal(signal.SIGINT)
    assert command.wait(WAIT_SECONDS_MAX) == 2
    assert psutil.wait_procs(processes, 5)[1] == []
    (verdict,) = tmp_path.glob("results/*/*/verdict.json")
    assert b"interrupted" in verdict.read_bytes()


def test_no_process_survives_a_harness_that_is_killed(command: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    processes = processes_under_load(command, tmp_path)
    command.kill()
    command.wait()
    assert psutil.wait_procs(processes, 10)[1] == []
