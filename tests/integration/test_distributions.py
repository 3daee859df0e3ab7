"""The distributions: the wheel installs one import name and disturbs no other package; the sdist builds the same wheel."""

import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.integration.installation import bare_environment, build, install
from zab_chaos import __version__

ROOT = Path(__file__).parents[2]
THEIRS = ("node", "model", "faults", "harness", "pipeline", "tests")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("dist"))


def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as file:
        return sorted(file.namelist())


def test_the_wheel_installs_one_name(wheel: Path) -> None:
    assert {name.partition("/")[0] for name in names(wheel)} == {"zab_chaos", f"zab_chaos-{__version__}.dist-info"}
    packages = {name.split("/")[1] for name in names(wheel) if name.count("/") > 1 and name.startswith("zab_chaos/")}
    assert packages == {"node", "model", "faults", "harness", "pipeline"}
    assert {"zab_chaos/py.typed", "zab_chaos/harness/scenarios/steady-state.toml"} <= set(names(wheel))


def test_the_sdist_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(build("sdist", ROOT, tmp_path / "sdist")) as file:
        assert not [member.name for member in file if member.issym()]
        file.extraction_filter = getattr(tarfile, "data_filter", None)  # the argument came with Python 3.11.4
        file.extractall(tmp_path)
    again = build("wheel", tmp_path / f"zab_chaos-{__version__}", tmp_path / "dist")
    assert names(again) == names(wheel)
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as other:
        assert [name for name in one.namelist() if one.read(name) != other.read(name)] == []


def test_the_plugin_works_in_a_project_with_packages_of_the_same_names(wheel: Path, tmp_path: Path) -> None:
    install(wheel, tmp_path / "venv")
    project = tmp_path / "project"
    for name in THEIRS:
        project.joinpath(name).mkdir(parents=True)
        project.joinpath(name, "__init__.py").write_text("THEIRS = True\n")
    project.joinpath("pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["."]\n')
    project.joinpath("tests", "test_theirs.py").write_text(
        f"import {', '.join(THEIRS)}\n"
        "def test_an_ensemble_loses_its_leader(zab_cluster):\n"
        "    assert zab_cluster.on == 'sim'\n"
        "    with zab_cluster.client() as client:\n"
        "        client.create('/kept', b'1')\n"
        "    zab_cluster.crash('leader')\n"
        f"    assert all(package.THEIRS for package in ({', '.join(THEIRS)}))\n"
    )
    done = subprocess.run(
        ["python", "-m", "pytest", "-q", "--zab-on=sim", "-p", "no:hypothesispytest", "-p", "no:cacheprovider"],
        cwd=project, env=bare_environment(tmp_path / "venv"), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
