"""examples/ci as its user has it: zab-chaos is installed from its wheel in a fresh environment, and the example's tests run."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.installation import bare_environment, build, install
from zab_chaos.harness.runs import catalogue

pytestmark = [pytest.mark.processes, pytest.mark.toxiproxy, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "ci"
WORKFLOW = EXAMPLE / ".github" / "workflows" / "chaos.yml"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a function that runs a command of the fresh environment in a copy of the example."""
    place = tmp_path_factory.mktemp("user")
    install(build("wheel", ROOT, place / "dist"), place / "venv")
    project = place / "project"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("__pycache__", "zab-results", ".pytest_cache"))
    bare = bare_environment(place / "venv") | _toxiproxy()

    def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=project, env={**bare, **environment}, capture_output=True, text=True,
            timeout=300,
        )  # fmt: skip

    return run


def _toxiproxy() -> dict[str, str]:
    """Name the checkout's toxiproxy, because an installed zab-chaos looks only in the user's cache."""
    from zab_chaos.harness.backends.toxiproxy import server

    return {"ZAB_TOXIPROXY": str(server.locate())}


def test_the_wheel_is_installed(run: Run) -> None:
    told = run("python", "-c", "import zab_chaos, sys; print(zab_chaos.__file__); print(sys.prefix)")
    module, prefix = told.stdout.split()
    assert module.startswith(prefix)


def test_its_tests_pass_in_the_simulator_and_leave_nothing(run: Run) -> None:
    told = run("python", "-m", "pytest", "-p", "no:hypothesispytest", "-p", "no:cacheprovider", "--junitxml=out.xml")
    assert told.returncode == 0, told.stdout
    assert "36 passed" in told.stdout
    names = run("python", "-c", "import os; print(*sorted(os.listdir()))").stdout.split()
    assert "zab-results" not in names
    assert (
        'name="zab-verdict" value="VIOLATION"' in run("cat", "out.xml").stdout
    )  # of the test that expects a violation


def test_its_tests_pass_on_processes(run: Run) -> None:
    told = run(
        "python", "-m", "pytest", "-p", "no:hypothesispytest", "-p", "no:cacheprovider", "--zab-on=processes",
        "--zab-seeds=1", "tests/test_counter.py",
    )  # fmt: skip
    assert told.returncode == 0, told.stdout
    assert "5 passed" in told.stdout


def test_a_bug_in_the_project_fails_its_tests(run: Run) -> None:
    """A client that does not look up the outcome of an unknown write counts it twice."""
    counter = run("cat", "counter.py").stdout
    careless = counter.replace("own.value == mark", "False")
    assert careless != counter
    write = "import pathlib, sys; pathlib.Path('counter.py').write_text(sys.argv[1])"
    options = ("-q", "-p", "no:hypothesispytest", "-p", "no:cacheprovider", "--zab-results=bad")
    try:
        run("python", "-c", write, careless)
        told = run("python", "-m", "pytest", *options, "tests/test_counter.py")
    finally:
        run("python", "-c", write, counter)
    assert told.returncode == 1
    assert "test_an_increment_whose_answer_was_lost_is_not_repeated[seed0]" in told.stdout
    assert "repeat   pytest" in told.stdout


def test_a_run_for_the_workflow(run: Run) -> None:
    told = run(
        "zab", "run", "tests/deploy.toml", "--on", "sim", "--junit", "deploy.xml", GITHUB_STEP_SUMMARY="summary.md"
    )
    assert told.returncode == 0, told.stdout + told.stderr
    assert 'failures="0"' in run("cat", "deploy.xml").stdout
    assert "zab run deploy: 1 PASS" in run("cat", "summary.md").stdout


def test_the_workflow_names_only_files_and_scenarios_that_exist(run: Run) -> None:
    text = WORKFLOW.read_text()
    matrix = re.search(r"scenario: \[(.*)\]", text)
    loop = re.search(r"for scenario in (.*); do", text)
    assert matrix is not None
    assert loop is not None
    scenarios = [*matrix[1].split(", "), *loop[1].split(), *re.findall(r"zab explore (\S+)", text)]
    assert len(matrix[1].split(", ")) == 5
    assert set(scenarios) <= set(catalogue.shipped())
    for command in set(re.findall(r"zab ([a-z]+)", text)):
        told = run("zab", command, "--help").stdout
        for line in text.splitlines():
            if f"zab {command} " in line:
                assert all(
                    option in told for option in re.findall(r" (--[a-z-]+)", line.split(f"zab {command} ")[1])
                ), line
    told = run("python", "-m", "pytest", "--help").stdout
    for line in text.splitlines():
        if "pytest -" in line:
            assert all(option in told for option in re.findall(r"(--[a-z-]+)", line.split("pytest", 1)[1])), line
