"""The first commands of a newcomer: targets of make, the script that creates the environment, pins, and what CI runs."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[3]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def fake_python(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def venv(tmp_path: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run .ci/venv where the only programs are those in tmp_path/bin."""
    return subprocess.run(
        ["/bin/sh", str(ROOT / ".ci/venv"), str(tmp_path / "venv")],
        env={"PATH": str(tmp_path / "bin"), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_no_python_that_is_new_enough(tmp_path: Path) -> None:
    fake_python(tmp_path / "bin", "python3", "exit 1")  # what an old Python answers to the question for its version
    done = venv(tmp_path)
    assert done.returncode == 1
    assert "Python 3.11, 3.12, 3.13 or 3.14 is needed" in done.stderr
    assert "apt-get install" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_python_without_venv_names_the_package(tmp_path: Path) -> None:
    script = 'case "$2" in *ensurepip*) exit 1;; *version_info\\[:2\\]*) echo 3.12;; esac'
    fake_python(tmp_path / "bin", "python3", script)
    done = venv(tmp_path)
    assert done.returncode == 1
    assert "apt-get install -y python3.12-venv" in done.stderr


def test_a_given_python_is_used(tmp_path: Path) -> None:
    fake_python(tmp_path / "bin", "python3", "exit 1")
    fake_python(tmp_path / "bin", "mine", f'echo "$*" >> {tmp_path}/said')
    done = venv(tmp_path, PYTHON="mine")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "said").read_text().splitlines()[-1] == f"-m venv --clear {tmp_path}/venv"


@pytest.mark.parametrize(("version", "taken"), [("3.10", False), ("3.11", True), ("3.14", True), ("3.15", False)])
def test_exactly_the_declared_python_versions_are_accepted(tmp_path: Path, version: str, taken: bool) -> None:
    """A fake Python that claims to be `version`."""
    lie = f"import sys; sys.version_info = ({version.replace('.', ', ')}, 0)"
    fake_python(tmp_path / "bin", "python3", f'[ "$1" = -c ] && exec {sys.executable} -c "{lie}; $2" || exit 0')
    assert (venv(tmp_path).returncode == 0) is taken
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (f"Programming Language :: Python :: {version}" in project["classifiers"]) is taken
    assert SpecifierSet(project["requires-python"]).contains(version) is taken


def targets() -> dict[str, str]:
    return dict(re.findall(r"^([a-z-]+):.*?## (.+)$", MAKEFILE, re.MULTILINE))


def test_bare_make_lists_every_target() -> None:
    done = subprocess.run(["make", "-C", str(ROOT), "--no-print-directory"], capture_output=True, text=True, check=True)
    (phony,) = re.findall(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)
    assert set(phony.split()) == set(targets())
    for name, about in targets().items():
        assert re.search(rf"^make {name} +{re.escape(about)}$", done.stdout, re.MULTILINE)


def test_what_make_imports_exists() -> None:
    """Where it did not, the demo would say that there is no Java."""
    imports = re.findall(r"-c '((?:from|import) zab_chaos[^;']*)", MAKEFILE)
    assert imports
    for one in imports:
        subprocess.run([sys.executable, "-c", one], cwd=ROOT, check=True, timeout=60)


def test_ci_runs_what_the_readme_says() -> None:
    ci = (ROOT / ".ci/run").read_text()
    assert "set -eu" in ci
    assert os.access(ROOT / ".ci/run", os.X_OK)
    commands = "\n".join(line for line in ci.splitlines() if not line.startswith("#"))
    called = [words.split() for words in re.findall(r"\bmake ((?:[\w=-]+ ?)+)", commands)]
    assert called[-2:] == [["test", "LEFT_OUT=cluster"], ["test"]]  # with a container engine, or without
    given = {word for words in called for word in words if "=" not in word}
    assert {"lint"} <= given <= set(targets())
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    said = set(re.findall(r"(?:^|`)make ([a-z-]+)\b", readme, re.MULTILINE))
    assert {"demo", "test"} <= said <= set(targets())


def test_ci_sets_up_as_a_newcomer_does(tmp_path: Path) -> None:
    """A checkout may have an environment already: CI removes it before `make` begins, and pip uses no cache."""
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".installed").touch()
    (tmp_path / ".ci" / "containers").write_text("#!/bin/sh\nexit 77\n")
    says = f'echo "$* $PIP_NO_CACHE_DIR $(ls -A {tmp_path} | grep -c venv)" >> {tmp_path}/said'
    fake_python(tmp_path / "bin", "make", says)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if name != "PIP_NO_CACHE_DIR"}
    subprocess.run([tmp_path / ".ci" / "run"], env={**environment, "PATH": path}, check=True, timeout=60)
    assert (tmp_path / "said").read_text().splitlines() == [
        "--jobs=2 setup engine-dependencies 1 0", "--jobs=3 engine lint collected browser fuse servers 1 0", "test 1 0",
    ]  # fmt: skip


def test_all_declared_dependencies_are_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = (needed for extra in project["optional-dependencies"].values() for needed in extra)
    wanted = [*project["dependencies"], *extras, "hatchling", "editables"]
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[A-Za-z0-9.]+", line)] == []
    pinned = {line.partition("==")[0] for line in lines}
    assert {re.split(r"[^A-Za-z0-9-]", name, maxsplit=1)[0].lower() for name in wanted} - pinned == set()


@pytest.mark.parametrize("wish", ["/nowhere/toxiproxy-server"])
def test_fetching_toxiproxy_fails_with_a_message(wish: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "zab_chaos.harness.backends.toxiproxy.fetch"],
        env={**os.environ, "ZAB_TOXIPROXY": wish},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert wish in done.stderr
    assert "Traceback" not in done.stderr
