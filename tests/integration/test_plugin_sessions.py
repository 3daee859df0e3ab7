"""The pytest plugin in separate processes: workers of pytest-xdist, and sessions that are interrupted or killed."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.unit.harness.testing.sessions import WRITES, results
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.runs.phases import INTERRUPTED
from zab_chaos.harness.runs.run import UNFINISHED

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.processes, pytest.mark.toxiproxy]


def test_two_workers_keep_only_the_folder_of_the_failed_test(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nzab_on = sim\n")
    pytester.makepyfile(
        f"""
import pytest
@pytest.mark.zab(seeds=range(6))
def test_it(zab_cluster):{WRITES}    zab_cluster.power_cut("all")
    assert zab_cluster.seed != 4
"""
    )
    outcome = pytester.runpytest_subprocess("-n", "2", "--junitxml=out.xml")
    outcome.assert_outcomes(passed=5, failed=1)
    (folder,) = results(pytester)
    assert folder.name.endswith("-4")
    assert [path.name for path in pytester.path.joinpath("results").iterdir() if not path.is_symlink()] == [
        folder.parent.name
    ]
    assert 'name="zab-seed" value="5"' in pytester.path.joinpath("out.xml").read_text()


@pytest.mark.parametrize(("scope", "number"), [("function", "SIGINT"), ("module", "SIGINT"), ("function", "SIGTERM")])
def test_a_signal_in_mid_test_leaves_no_process_and_a_sealed_run(
    pytester: pytest.Pytester, scope: str, number: str
) -> None:
    pytester.makepyfile(
        f"""
import os, psutil, signal
from pathlib import Path
from zab_chaos.harness.testing.plugin import cluster_fixture
zab_cluster = cluster_fixture("{scope}")
def test_it(zab_cluster):
    children = psutil.Process().children(recursive=True)
    Path("children").write_text(" ".join(str(child.pid) for child in children))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job starts with SIGINT ignored
    os.kill(os.getpid(), signal.{number})
    zab_cluster.sleep(60.0)
"""
    )
    outcome = pytester.runpytest_subprocess()
    assert outcome.ret == pytest.ExitCode.INTERRUPTED
    pids = [int(pid) for pid in pytester.path.joinpath("children").read_text().split()]
    assert len(pids) >= 4  # three nodes and toxiproxy
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 10.0)
    (folder,) = results(pytester)
    outcome.stdout.fnmatch_lines(["=* zab: the session was stopped during these runs =*", f"results  {folder}"])
    assert is_sealed(folder)


def is_sealed(folder: Path) -> bool:
    """Return whether an interrupted run is complete. Fails if it has another outcome."""
    facts = json.loads(folder.joinpath("run.json").read_text())
    assert facts["outcome"] in (UNFINISHED, INTERRUPTED)
    return facts["outcome"] == INTERRUPTED and all(
        folder.joinpath(name).exists() for name in ("verdict.json", "manifest.json")
    )


def test_workers_seal_their_runs_after_sigterm_of_the_session(pytester: pytest.Pytester) -> None:
    """pytest ends at once. Its workers notice that."""
    pytester.makepyfile(
        f"""
from pathlib import Path
import pytest
@pytest.mark.parametrize("number", range(4))
def test_it(zab_cluster, number):{WRITES}
    Path(f"begun-{{number}}").touch()
    zab_cluster.sleep(600.0)
"""
    )
    with (pytester.path / "log").open("wb") as log:
        command = [sys.executable, "-m", "pytest", "-n", "2"]
        process = subprocess.Popen(command, cwd=pytester.path, stdout=log, stderr=log)
    try:
        begun = wait_until(lambda: len(list(pytester.path.glob("begun-*"))) == 2, 60.0)
        workers = psutil.Process(process.pid).children()
    finally:
        process.terminate()
        process.wait()
    assert begun, (pytester.path / "log").read_text()
    assert psutil.wait_procs(workers, 60.0)[1] == []
    folders = results(pytester)
    assert len(folders) == 2
    assert all(is_sealed(folder) for folder in folders)


def test_a_session_that_is_killed_leaves_no_process(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import psutil
        from pathlib import Path
        def test_it(zab_cluster):
            zab_cluster.pause("one")
            pids = " ".join(str(child.pid) for child in psutil.Process().children(recursive=True))
            Path("new").write_text(pids)
            Path("new").rename("children")
            zab_cluster.sleep(60.0)
        """
    )
    children = pytester.path / "children"
    with (pytester.path / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "pytest", "-s"], cwd=pytester.path, stdout=log, stderr=log)
    try:
        assert wait_until(children.exists, 60.0), (pytester.path / "log").read_text()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    pids = [int(pid) for pid in children.read_text().split()]
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 10.0)
