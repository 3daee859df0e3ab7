"""The crash points of ZooKeeper's servers: where in its code each named step of the protocol is, and how a server is made to
end or to pause there.

The names are those of our own nodes' crash points (`zab_chaos.node.crash_points`). A record NEWLEADER is the file currentEpoch,
EPOCH the file acceptedEpoch, TXN a transaction of the log, TRUNC a log that is cut. Messages: CEPOCH is FOLLOWERINFO, NEWEPOCH
LEADERINFO, ACK-E ACKEPOCH, ACK-LD the ACK of NEWLEADER, COMMIT-LD UPTODATE, PROPOSE PROPOSAL. What a leader sends waits in a
queue for each follower: "before" is before it is put there.

Rules of Byteman do it. One that is armed at the start is loaded with the server; the agent takes others later, on a port.
"""

import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.node.crash_points import parse

QUORUM = "org.apache.zookeeper.server.quorum"
PERSISTENCE = "org.apache.zookeeper.server.persistence"
ANSWER_SECONDS = 20.0  # a class is transformed meanwhile, on a machine that may be busy
LOOK_SECONDS = 0.2  # how often it is looked whether the server can still answer
END_SECONDS = 2.0  # from the end of its connections to that of its process, on a machine that may be busy
ACTIONS = {
    "crash": "killJVM()",
    "pause": 'Runtime.getRuntime().exec("kill -STOP " + java.lang.ProcessHandle.current().pid()).waitFor()',
}


@dataclass(frozen=True, slots=True)
class Place:
    """A method, at its entry or its exit; `when`, an expression of Byteman, tells the calls that are meant. The releases of
    these numbers have it: from `since` on, and before `before`."""

    where: str
    method: str
    at: str
    when: str = "TRUE"
    since: tuple[int, ...] = ()
    before: tuple[int, ...] = (99,)

    def has(self, release: tuple[int, int, int]) -> bool:
        """Whether a server of this release has the method."""
        return self.since <= release < self.before


def _around(subject: str, where: str, method: str, after: str = "after-sync") -> dict[str, tuple[Place, ...]]:
    return {
        f"before-write:{subject}": (Place(where, method, "ENTRY"),),
        f"{after}:{subject}": (Place(where, method, "EXIT"),),
    }


def _sent(message: str, when: str) -> dict[str, tuple[Place, ...]]:
    """By a follower: written to the connection, and flushed."""
    where, method = f"{QUORUM}.Learner", "writePacket(QuorumPacket,boolean)"
    meant = f"$1 != null AND {when}"
    return {
        f"before-send:{message}": (Place(where, method, "ENTRY", meant),),
        f"after-send:{message}": (Place(where, method, "EXIT", meant),),
    }


def _appended(at: str) -> tuple[Place, ...]:
    log = f"{PERSISTENCE}.FileTxnLog"
    return (
        Place(log, "append(TxnHeader,Record)", at, "$1 != null", before=(3, 6)),
        Place(log, "append(TxnHeader,Record,TxnDigest)", at, "$1 != null", since=(3, 6), before=(3, 9)),
        Place(log, "append(Request)", at, "$1.getHdr() != null", since=(3, 9)),
    )


PLACES: dict[str, tuple[Place, ...]] = {
    **_around("EPOCH", f"{QUORUM}.QuorumPeer", "setAcceptedEpoch(long)"),
    **_around("NEWLEADER", f"{QUORUM}.QuorumPeer", "setCurrentEpoch(long)"),
    **_around("TRUNC", "org.apache.zookeeper.server.ZKDatabase", "truncateLog(long)"),
    **_around("SNAPSHOT", f"{PERSISTENCE}.FileTxnSnapLog", "save", "after-write"),
    "before-write:TXN": _appended("ENTRY"),
    "after-write:TXN": _appended("EXIT"),
    "before-sync:TXN": (Place(f"{PERSISTENCE}.FileTxnLog", "commit()", "ENTRY"),),
    "after-sync:TXN": (Place(f"{PERSISTENCE}.FileTxnLog", "commit()", "EXIT"),),
    **_sent("CEPOCH", "$1.getType() == 11"),
    **_sent("ACK-E", "$1.getType() == 18"),
    **_sent("ACK-LD", "$1.getType() == 3 AND java.lang.Long.valueOf($1.getZxid()).intValue() == 0"),
    **_sent("ACK", "$1.getType() == 3 AND java.lang.Long.valueOf($1.getZxid()).intValue() != 0"),
    "before-send:NEWLEADER": (Place(f"{QUORUM}.LearnerHandler", "startSendingPackets()", "ENTRY", since=(3, 5)),),
    "before-send:COMMIT-LD": (Place(f"{QUORUM}.Leader", "startZkServer()", "ENTRY", since=(3, 4, 6)),),
    "before-send:PROPOSE": (Place(f"{QUORUM}.Leader", "propose(Request)", "ENTRY"),),
    "after-send:PROPOSE": (Place(f"{QUORUM}.Leader", "propose(Request)", "EXIT"),),
    "before-send:COMMIT": (Place(f"{QUORUM}.Leader", "commit(long)", "ENTRY"),),
    "after-send:COMMIT": (Place(f"{QUORUM}.Leader", "commit(long)", "EXIT"),),
}


def rule(point: str, action: str, release: tuple[int, int, int]) -> str:
    """The rule for a server of this release: it acts once, the k-th time. Raises ClusterError if there is no such point."""
    meant = parse(point)
    places = PLACES.get(f"{meant.step}:{meant.what}", ())
    fitting = [place for place in places if place.has(release)]
    if not fitting or action not in ACTIONS:
        version = ".".join(map(str, release))
        raise ClusterError(f"a server of ZooKeeper {version} can't be made to {action} at {point}")
    (place,) = fitting
    count = f'incrementCounter("{point}", 1) == {meant.nth}'
    return (
        f"RULE {name(point, action)}\nCLASS {place.where}\nMETHOD {place.method}\nAT {place.at}\n"
        f"IF {place.when} AND {count}\nDO {ACTIONS[action]}\nENDRULE\n"
    )


def name(point: str, action: str) -> str:
    """What the rule is called."""
    return f"{action} at {re.sub('[:#]', ' ', point)}"


def submit(port: int, command: str, script: str, acted: Callable[[], bool] = lambda: False) -> None:
    """Give a running server's agent a rule (`LOAD`), or take it back (`DELETE`). Raises ClusterError.

    `acted`: whether the server has ended or stopped. It may come to the rule's point before its agent has answered, and then
    it never answers.
    """
    text = f"{command}\nSCRIPT rule\n{script}\nENDSCRIPT\nEND{command}\n"
    try:
        words = _answer(port, text, acted).decode(errors="replace")
    except OSError as error:
        if wait_until(acted, END_SECONDS, LOOK_SECONDS / 10):
            return
        raise ClusterError(f"a server's agent can't be reached: {error}") from error
    refused = "ERROR" in words or "EXCEPTION" in words
    if refused or not (words.endswith("OK\n") or wait_until(acted, END_SECONDS, LOOK_SECONDS / 10)):
        raise ClusterError(f"a server's agent does not take the rule: {words.strip()}")


def _answer(port: int, text: str, acted: Callable[[], bool]) -> bytes:
    """What the agent has said, until it is done, has gone or can't say more. Raises OSError."""
    until, answer = time.monotonic() + ANSWER_SECONDS, b""
    with socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS) as connection:
        connection.sendall(text.encode())
        connection.settimeout(LOOK_SECONDS)
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
