"""File descriptors: libraries abort a process that has none left, so what a command needs is made sure of before it starts.

Child processes inherit the limit.
"""

import resource

from zab_chaos.harness.errors import HarnessError

LEAST = 64  # what any command needs


def needed(nodes: int, clients: int) -> int:
    """For an ensemble on this machine, in the process that needs most: a lock for each port and a few sockets for each node
    (the harness), or three sockets for each link (toxiproxy), and a few for each client."""
    return LEAST + 24 * nodes + 3 * nodes * nodes + 4 * clients


def require(count: int = LEAST) -> None:
    """Allow this process so many, as far as it may. Raises HarnessError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        raise HarnessError(
            f"{count} open files are needed, and a process may have {hard} here. Allow more, for example `ulimit -n 1024` "
            "where the limit was set (limits.conf, a container's --ulimit nofile, systemd's LimitNOFILE)."
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
