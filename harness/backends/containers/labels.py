"""Whose container, network or volume it is: labels by which a run's things are found, and whether that run is over.

An engine outlives the runs that use it, and may be shared between machines' namespaces. So a thing says which process
made it, and in which boot and process namespace that number means anything.
"""

import os
import platform
from collections.abc import Mapping
from pathlib import Path

import psutil

RUN = "zab.run"  # the run's token; everything that we make has it, and nothing else does
FOLDER = "zab.folder"
HARNESS = "zab.harness"
HOST = "zab.host"
SAME_SECONDS = 2.0  # a process's start is known this well: the clock it is told in may be set


def of_this_run(token: str, folder: Path) -> dict[str, str]:
    """The labels of everything that this process makes for a run."""
    me = psutil.Process()
    return {RUN: token, FOLDER: str(folder), HARNESS: f"{me.pid} {me.create_time():.2f}", HOST: this_host()}


def this_host() -> str:
    """Names this boot of this machine, and the namespace in which process numbers are ours."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return platform.node()


def is_ours(labels: Mapping[str, str]) -> bool:
    """Whether the harness that made it can be looked for here at all."""
    return labels.get(HOST) == this_host()


def is_over(labels: Mapping[str, str]) -> bool:
    """Whether the harness that made it is gone. Only if it `is_ours`."""
    try:
        pid, started = labels[HARNESS].split()
        process = psutil.Process(int(pid))
        if process.pid == os.getpid():
            return False
        same = abs(process.create_time() - float(started)) < SAME_SECONDS
        return not (same and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
    except (KeyError, ValueError):
        return False  # not written by us: leave it alone
