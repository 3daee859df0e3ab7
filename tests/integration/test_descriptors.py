"""Too few file descriptors are an error before anything starts, because libzmq would abort the process."""

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zab_chaos.harness.machine.file_descriptors import MINIMUM, needed

ROOT = Path(__file__).parents[2]


def zab(soft: int, hard: int, *words: str) -> "subprocess.CompletedProcess[str]":
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    return subprocess.run(
        [sys.executable, "-m", "zab_chaos.harness", *words],
        cwd=ROOT,
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def small(tmp_path: Path) -> Callable[[int, int, str], "subprocess.CompletedProcess[str]"]:
    file = tmp_path / "small.toml"
    file.write_text('[scenario]\nname = "small"\nabout = "Half a second."\nduration = 0.5\n')
    return lambda soft, hard, on: zab(
        soft, hard, "run", str(file), "--on", on, "--quiet", "--results", str(tmp_path / "r")
    )


def test_a_hard_limit_that_is_too_low_is_an_error(small: Callable[..., "subprocess.CompletedProcess[str]"]) -> None:
    done = small(40, 40, "sim")
    assert done.returncode == 3
    assert done.stderr.startswith(f"Error: {MINIMUM} open files are needed, and a process may have 40 here.")


def test_a_soft_limit_is_raised(small: Callable[..., "subprocess.CompletedProcess[str]"]) -> None:
    assert small(30, 4096, "sim").returncode == 0


@pytest.mark.processes
def test_an_ensemble_that_needs_more_is_refused_before_it_starts(
    small: Callable[..., "subprocess.CompletedProcess[str]"],
) -> None:
    done = small(70, 70, "processes")
    assert done.returncode == 3
    assert f"{needed(3, 4)} open files are needed" in done.stdout
    assert "Too many open files" not in done.stdout + done.stderr


@pytest.mark.processes
def test_the_number_in_the_error_message_is_enough(small: Callable[..., "subprocess.CompletedProcess[str]"]) -> None:
    done = small(40, needed(3, 4), "processes")
    assert done.returncode == 0, done.stdout + done.stderr
