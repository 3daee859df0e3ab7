"""examples/kazoo: its tests pass as its user runs them, and fail if the fence is left out."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.zookeeper import release

pytestmark = [pytest.mark.zookeeper, pytest.mark.toxiproxy, pytest.mark.timeout(600)]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "kazoo"

Session = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Return a function that runs the tests of a copy of the example."""
    release("3.9.4")
    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("__pycache__", "zab-results"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--zab-zookeeper=3.9.4", *words]
        return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=400)

    return run


def test_its_tests_pass_and_leave_nothing(session: Session, tmp_path: Path) -> None:
    told = session()
    assert told.returncode == 0, told.stdout
    assert "7 passed" in told.stdout
    assert not tmp_path.joinpath("project", "zab-results").exists()


def test_its_tests_find_a_fence_without_effect(session: Session, tmp_path: Path) -> None:
    program = tmp_path / "project" / "balance.py"
    text = program.read_text()
    open_gate = text.replace("if fence is not None and fence < max(", "if False and fence < max(")
    assert open_gate != text
    program.write_text(open_gate)
    told = session("tests/test_lock.py", "-k", "paused and file")
    assert told.returncode == 1, told.stdout
    assert "1 failed, 1 passed" in told.stdout
    assert "written 10" in told.stdout
