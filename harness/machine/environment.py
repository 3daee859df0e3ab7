"""Facts that the numbers of a run depend on: the machine, the versions, the disk's sync latency."""

import importlib.metadata
import os
import platform
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import zmq

from zab_chaos import __version__
from zab_chaos.harness.machine import checkout

PAGE = 4096


def facts() -> dict[str, Any]:
    """Return the number of cores that this process may use, the memory in bytes, and the kernel."""
    return {
        "cores": cores(),
        "memory": psutil.virtual_memory().total,
        "kernel": f"{platform.system()} {platform.release()}",
    }


def load() -> float:
    """Return how many processes of this machine ran or waited for a core, on average over the last minute."""
    return psutil.getloadavg()[0]


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """Return the processor's model name if the system has it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def versions() -> dict[str, str | None]:
    """Return the versions for run.json. A backend that starts toxiproxy fills in the version of that."""
    return {
        "zab-chaos": __version__,
        "python": platform.python_version(),
        "pyzmq": zmq.pyzmq_version(),
        "toxiproxy": None,
    }


def package(name: str) -> str | None:
    """Return an installed distribution's version, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def commit() -> str | None:
    """Return the checkout's commit, with `+changes` if the working tree differs from it; None outside of a checkout."""
    root = checkout.root()
    if root is None or not root.joinpath(".git").exists():
        return None
    git = ["git", "--no-optional-locks", "-C", str(root)]  # a killed `git status` would leave a lock
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=True)
        changes = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no"],
            capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return head.stdout.strip() + ("+changes" if changes.stdout.strip() else "")


def sync_latency(folder: Path, times: int = 20) -> tuple[float, float]:
    """Measure a 4 KiB write with fdatasync in this folder. Return the median and the maximum in ms. Raises OSError."""
    durations_ms = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(times):
            begin = time.perf_counter()
            os.write(file.fileno(), b"\0" * PAGE)
            os.fdatasync(file.fileno())
            durations_ms.append((time.perf_counter() - begin) * 1000)
    return statistics.median(durations_ms), max(durations_ms)
