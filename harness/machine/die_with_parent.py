"""`die_with_parent.py [--bare] [--parent PID] COMMAND...`: execute COMMAND so that it dies with the process that started it.

The kernel sends SIGKILL when the *thread* that started it ends (prctl(2), PR_SET_PDEATHSIG), so start it from the main
thread. On other systems than Linux the command is executed without that.

`--bare`: execute it without capabilities and without a way to gain any. Then root's processes have no more rights than
another user's: they can't listen on a port below 1024, for example.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG, PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 23, 24, 38


def die_with_parent(parent: int | None) -> None:
    """Ask the kernel to kill this process when its parent ends. Exit at once if `parent` has ended already, because then no
    signal would come."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if parent is not None and os.getppid() != parent:
        raise SystemExit(1)


def drop_capabilities() -> None:
    """Drop all capabilities that the next execve(2) could give to root. A process that may not drop them has few or none."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    capability = 0
    while libc.prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0:
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        capability += 1


def tied(*command: str, bare: bool = False) -> list[str]:
    """Return the command that executes `command` so that it dies with this process. `bare`: as in the module's docstring."""
    flags = ["--bare"] if bare else []
    return [sys.executable, "-P", __file__, *flags, "--parent", str(os.getpid()), *command]


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
