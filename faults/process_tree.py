"""A process and all that it has started: also those with a session of their own, as each of PostgreSQL's processes has."""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress

import psutil


def started_by(pid: int) -> set[psutil.Process]:
    """Return the processes that this one has started, and those that they have started. One whose parent has ended is not
    among them."""
    try:
        return set(psutil.Process(pid).children(recursive=True))
    except psutil.Error:  # it has ended
        return set()


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


def signal_group(leader: int, number: signal.Signals) -> bool:
    """Send a signal to a process and what is in its group. Return False if it leads no group."""
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        return False
    return True


def kill(pid: int) -> None:
    """Kill a process and all that it has started."""
    started = started_by(pid)  # while it runs
    if not signal_group(pid, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    send(started, signal.SIGKILL)
