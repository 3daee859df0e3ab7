"""Raises the limit of open files before a command starts, because libraries abort a process that has none left.

Child processes inherit the limit.
"""

import resource

from zab_chaos.harness.errors import HarnessError

MINIMUM = 64  # open files that every command needs


def needed(nodes: int, clients: int) -> int:
    """Return how many open files an ensemble on this machine needs, in the process that needs most.

    The harness needs a lock for each port and a few sockets for each node and client; toxiproxy three sockets for each link.
    """
    return MINIMUM + 24 * nodes + 3 * nodes * nodes + 4 * clients


def require(count: int = MINIMUM) -> None:
    """Raise this process's limit to `count` open files if it is lower. Raises HarnessError if that is not allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        raise HarnessError(
            f"{count} open files are needed, and a process may have {hard} here. Allow more, for example `ulimit -n 1024` "
            "where the limit was set (limits.conf, a container's --ulimit nofile, systemd's LimitNOFILE)."
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
