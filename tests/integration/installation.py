"""Build the project's distributions and install them into fresh environments, without a network."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path


def build(kind: str, project: Path, folder: Path) -> Path:
    """Build the project's `wheel` or `sdist` into `folder`, and return its path."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    (built,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


def install(wheel: Path, venv: Path) -> None:
    """Install it into a new virtual environment.

    The dependencies are this environment's, by a path file; it brings no editable installation of ours with it, because path
    files below it are not read.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin" / "python"), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", "--quiet", str(wheel)], check=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    packages.joinpath("dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")


def bare_environment(venv: Path) -> dict[str, str]:
    """Return the environment variables of a shell in which `venv` is active."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHON", "GITHUB_"))}
    return bare | {"PATH": f"{venv / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
