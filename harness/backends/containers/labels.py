"""Labels of a run's containers, networks and volumes. They identify the run, and the process of its harness.

An engine outlives the runs that use it, and may be shared between process namespaces. So the labels name the process that made
the resource, and the boot and process namespace in which its pid is valid.
"""

import os
import platform
from collections.abc import Mapping
from pathlib import Path

import psutil

RUN = "zab.run"  # the run's token; on all resources of ours, and on no others
FOLDER = "zab.folder"
HARNESS = "zab.harness"
HOST = "zab.host"
SAME_SECONDS = 2.0  # tolerance for a process's start time, because the system clock may be adjusted


def labels_of_run(token: str, folder: Path) -> dict[str, str]:
    """Return the labels for all resources that this process makes for a run."""
    me = psutil.Process()
    return {RUN: token, FOLDER: str(folder), HARNESS: f"{me.pid} {me.create_time():.2f}", HOST: this_host()}


def this_host() -> str:
    """Return a name for this boot of this machine and this process namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return platform.node()


def is_from_this_host(labels: Mapping[str, str]) -> bool:
    """Return whether a resource was made in this boot and process namespace, so that its harness can be looked for here."""
    return labels.get(HOST) == this_host()


def is_harness_gone(labels: Mapping[str, str]) -> bool:
    """Return whether the harness that made a resource has ended. Valid only if the resource `is_from_this_host`."""
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
        return False  # not a label of ours: leave the resource alone
