"""The crash points of ZooKeeper's servers: the method in its code for each step of the protocol, and the Byteman rules with
which a server is made to exit or pause there.

The names are those of our own nodes' crash points (`zab_chaos.node.crash_points`). A record NEWLEADER is the file currentEpoch,
EPOCH the file acceptedEpoch, TXN a transaction of the log, TRUNC the truncation of a log. Messages: CEPOCH is FOLLOWERINFO,
NEWEPOCH LEADERINFO, ACK-E ACKEPOCH, ACK-LD the ACK of NEWLEADER, COMMIT-LD UPTODATE, PROPOSE PROPOSAL, FORWARD REQUEST. A
leader's messages wait in a queue for each follower: "before-send" is before they are put there.

The rule of a point that is armed at the start is loaded with the server; later rules are sent to Byteman's agent. A server
that reaches a point first says so in its log file (`server_log.read_points`).
"""

import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.harness.backends.zookeeper.server_log import REACHED
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.node.crash_points import parse

QUORUM = "org.apache.zookeeper.server.quorum"
PERSISTENCE = "org.apache.zookeeper.server.persistence"
ANSWER_SECONDS = 20.0  # the agent transforms a class before it answers, on a machine that may be busy
POLL_SECONDS = 0.2  # between checks whether the server can still answer
END_SECONDS = 2.0  # from the end of a server's connections to that of its process, on a machine that may be busy
ACTIONS = {
    "crash": "killJVM()",
    "pause": 'Runtime.getRuntime().exec("kill -STOP " + java.lang.ProcessHandle.current().pid()).waitFor()',
}


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a method of ZooKeeper's code, in calls for which a Byteman expression, `condition`, is true.

    `at` is ENTRY, EXIT, or INVOKE and a method: just before this one is called.

    Releases from `since` on, and before `before`, have the method.
    """

    class_name: str
    method: str
    at: str
    condition: str = "TRUE"
    since: tuple[int, ...] = ()
    before: tuple[int, ...] = (99,)

    def is_in(self, release: tuple[int, int, int]) -> bool:
        """Return whether a server of this release has the method."""
        return self.since <= release < self.before


def _around_write(
    record: str, class_name: str, method: str, after: str = "after-sync"
) -> dict[str, tuple[Location, ...]]:
    """Return the points before and after a method that writes a record."""
    return {
        f"before-write:{record}": (Location(class_name, method, "ENTRY"),),
        f"{after}:{record}": (Location(class_name, method, "EXIT"),),
    }


def _around_send(message: str, condition: str) -> dict[str, tuple[Location, ...]]:
    """Return the points before and after a follower writes a message to its connection and flushes it."""
    class_name, method = f"{QUORUM}.Learner", "writePacket(QuorumPacket,boolean)"
    condition = f"$1 != null AND {condition}"
    return {
        f"before-send:{message}": (Location(class_name, method, "ENTRY", condition),),
        f"after-send:{message}": (Location(class_name, method, "EXIT", condition),),
    }


def _append(at: str) -> tuple[Location, ...]:
    """Return the method that appends a transaction to the log: its signature depends on the release."""
    log = f"{PERSISTENCE}.FileTxnLog"
    return (
        Location(log, "append(TxnHeader,Record)", at, "$1 != null", before=(3, 6)),
        Location(log, "append(TxnHeader,Record,TxnDigest)", at, "$1 != null", since=(3, 6), before=(3, 9)),
        Location(log, "append(Request)", at, "$1.getHdr() != null", since=(3, 9)),
    )


LOCATIONS: dict[str, tuple[Location, ...]] = {
    **_around_write("EPOCH", f"{QUORUM}.QuorumPeer", "setAcceptedEpoch(long)"),
    **_around_write("NEWLEADER", f"{QUORUM}.QuorumPeer", "setCurrentEpoch(long)"),
    **_around_write("TRUNC", "org.apache.zookeeper.server.ZKDatabase", "truncateLog(long)"),
    **_around_write("SNAPSHOT", f"{PERSISTENCE}.FileTxnSnapLog", "save", "after-write"),
    "before-write:TXN": _append("ENTRY"),
    "after-write:TXN": _append("EXIT"),
    "before-sync:TXN": (Location(f"{PERSISTENCE}.FileTxnLog", "commit()", "INVOKE FileChannel.force"),),
    "after-sync:TXN": (Location(f"{PERSISTENCE}.FileTxnLog", "commit()", "EXIT"),),
    **_around_send("FORWARD", "$1.getType() == 1"),
    **_around_send("CEPOCH", "$1.getType() == 11"),
    **_around_send("ACK-E", "$1.getType() == 18"),
    **_around_send("ACK-LD", "$1.getType() == 3 AND java.lang.Long.valueOf($1.getZxid()).intValue() == 0"),
    **_around_send("ACK", "$1.getType() == 3 AND java.lang.Long.valueOf($1.getZxid()).intValue() != 0"),
    "before-send:NEWLEADER": (Location(f"{QUORUM}.LearnerHandler", "startSendingPackets()", "ENTRY", since=(3, 5)),),
    "before-send:COMMIT-LD": (Location(f"{QUORUM}.Leader", "startZkServer()", "ENTRY", since=(3, 4, 6)),),
    "before-send:PROPOSE": (Location(f"{QUORUM}.Leader", "propose(Request)", "ENTRY"),),
    "after-send:PROPOSE": (Location(f"{QUORUM}.Leader", "propose(Request)", "EXIT"),),
    "before-send:COMMIT": (Location(f"{QUORUM}.Leader", "commit(long)", "ENTRY"),),
    "after-send:COMMIT": (Location(f"{QUORUM}.Leader", "commit(long)", "EXIT"),),
}


def rule(point: str, action: str, release: tuple[int, int, int]) -> str:
    """Return the Byteman rule for a server of this release, which acts once, when the point is reached for the k-th time.

    Raises ClusterError if there is no such point.
    """
    parsed = parse(point)
    locations = [it for it in LOCATIONS.get(f"{parsed.step}:{parsed.what}", ()) if it.is_in(release)]
    if not locations or action not in ACTIONS:
        version = ".".join(map(str, release))
        raise ClusterError(f"a server of ZooKeeper {version} can't be made to {action} at {point}")
    (location,) = locations
    say = f'traceln("{REACHED} {point} at " + java.lang.System.nanoTime())'
    count = f'incrementCounter("{name(point, action)}", 1) == {parsed.nth}'
    return (
        f"RULE {name(point, action)}\nCLASS {location.class_name}\nMETHOD {location.method}\nAT {location.at}\n"
        f"IF {location.condition} AND {count}\nDO {say}; {ACTIONS[action]}\nENDRULE\n"
    )


def name(point: str, action: str) -> str:
    """Return the name of the rule."""
    return f"{action} at {re.sub('[:#]', ' ', point)}"


def submit(port: int, command: str, script: str, acted: Callable[[], bool] = lambda: False) -> None:
    """Have the agent of a running server load a rule (`LOAD`) or remove it (`DELETE`). Raises ClusterError.

    `acted` returns whether the server has ended or stopped: it may reach the rule's point before its agent has answered, and
    then no answer comes.
    """
    text = f"{command}\nSCRIPT rule\n{script}\nENDSCRIPT\nEND{command}\n"
    try:
        answer = _exchange(port, text, acted).decode(errors="replace")
    except OSError as error:
        if wait_until(acted, END_SECONDS, POLL_SECONDS / 10):
            return
        raise ClusterError(f"a server's agent can't be reached: {error}") from error
    refused = "ERROR" in answer or "EXCEPTION" in answer
    if refused or not (answer.endswith("OK\n") or wait_until(acted, END_SECONDS, POLL_SECONDS / 10)):
        raise ClusterError(f"a server's agent does not accept the rule: {answer.strip()}")


def _exchange(port: int, text: str, acted: Callable[[], bool]) -> bytes:
    """Send a command and return the agent's answer, as far as it comes: a server that ends cuts it off. Raises OSError."""
    until, answer = time.monotonic() + ANSWER_SECONDS, b""
    with socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS) as connection:
        connection.sendall(text.encode())
        connection.settimeout(POLL_SECONDS)
        while not answer.endswith(b"OK\n"):
            try:
                more = connection.recv(1 << 16)
            except TimeoutError:
                if acted() or time.monotonic() > until:
                    raise
                continue
            if not more:
                break
            answer += more
    return answer
