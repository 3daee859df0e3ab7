"""A process and all that it has started: also those with a session of their own, as each of PostgreSQL's processes has."""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil


def started_by(pid: int) -> set[psutil.Process]:
    """Return the processes that this one has started, and those that they have started. One whose parent has ended is not
    among them."""
    if _has_no_children(pid):
        return set()
    try:
        return set(psutil.Process(pid).children(recursive=True))
    except psutil.Error:  # it has ended
        return set()


def with_variable(name: str, value: str) -> set[psutil.Process]:
    """Return the processes in whose environment the variable has this value, as far as environments can be read."""
    entry, found = f"{name}={value}".encode(), set()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError, psutil.Error):
            if entry in environment.read_bytes().split(b"\0"):
                found.add(psutil.Process(int(environment.parent.name)))
    return found


def _has_no_children(pid: int) -> bool:
    """Return whether the kernel lists no child of any thread of the process. Much faster than to look at all processes, so that
    several nodes are killed at nearly one instant. False if the kernel has no such lists."""
    try:
        lists = list(Path(f"/proc/{pid}/task").glob("*/children"))
        return bool(lists) and not any(one.read_bytes() for one in lists)
    except OSError:  # a thread has ended meanwhile
        return False


def stop(pid: int) -> set[psutil.Process]:
    """Stop a process (SIGSTOP), so that it starts no others any more, and return those that it has started."""
    found: set[psutil.Process] = set()
    signal_group(pid, signal.SIGSTOP)
    while more := started_by(pid) - found:
        send(more, signal.SIGSTOP)
        found |= more
    return found


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to those of the processes that have not ended."""
    for one in processes:
        with suppress(psutil.Error):
            one.send_signal(number)


def runs(process: psutil.Process) -> bool:
    """Return whether a process has not ended."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def signal_group(leader: int, number: signal.Signals) -> None:
    """Send a signal to a process and what is in its group; to the process alone if it leads no group."""
    for send_to in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            send_to(leader, number)
            return


def kill(pid: int) -> set[psutil.Process]:
    """Kill a process and all that it has started, and return the latter."""
    started = stop(pid)
    signal_group(pid, signal.SIGKILL)
    send(started, signal.SIGKILL)
    return started
