"""`die_with_parent.py [--bare] [--parent PID] COMMAND...`: become COMMAND, and die with the process that started it.

The kernel sends SIGKILL when the parent's *thread* that did the starting ends (prctl(2), PR_SET_PDEATHSIG), so start
it from the main thread. Where the kernel has no such promise (not Linux) the command simply runs.

`--bare`: without any capability, and without a way to gain one. Root's program is then no more than another user's: it
can't listen on a port below 1024, for example.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG, PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 23, 24, 38


def die_with_parent(parent: int | None) -> None:
    """Ask for the parent's death as our own. Ends at once if that parent is gone already: no signal would come."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if parent is not None and os.getppid() != parent:
        raise SystemExit(1)


def drop_capabilities() -> None:
    """Leave no capability that the next execve(2) could give to root. Who may not drop them has few, or none."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    capability = 0
    while libc.prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0:
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        capability += 1


def main(arguments: list[str]) -> None:
    parent = None
    if arguments[:1] == ["--bare"]:
        drop_capabilities()
        arguments = arguments[1:]
    if arguments[:1] == ["--parent"] and len(arguments) > 1:
        parent = int(arguments[1])
        arguments = arguments[2:]
    if not arguments:
        raise SystemExit("die_with_parent: give a command to run")
    die_with_parent(parent)
    try:
        os.execvp(arguments[0], arguments)
    except OSError as error:
        raise SystemExit(f"die_with_parent: cannot run {arguments[0]}: {error.strerror}") from None


if __name__ == "__main__":
    main(sys.argv[1:])
