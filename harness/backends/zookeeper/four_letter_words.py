"""ZooKeeper's four-letter words: commands on a server's client port that report its state."""

import re
import socket
from dataclasses import dataclass

from zab_chaos.harness.machine.connections import host_and_port

ANSWER_BYTES = 1 << 20  # far more than any answer needs

_ZXID = re.compile(r"^Zxid: 0x([0-9a-f]+)$", re.MULTILINE)
_MODE = re.compile(r"^Mode: (\S+)$", re.MULTILINE)

ROLES = {"leader": "LEADING", "standalone": "LEADING", "follower": "FOLLOWING", "observer": "OBSERVING"}


@dataclass(frozen=True, slots=True)
class ServerState:
    """The state that `srvr` reports.

    `mode` is leader, follower, observer or standalone, or None while the server does not serve. `zxid` is the last one that it
    has processed.
    """

    mode: str | None
    zxid: int | None

    @property
    def serving(self) -> bool:
        return self.mode is not None

    @property
    def role(self) -> str:
        """The role as in `Status.role`. A server that does not serve is shown as LOOKING: ZooKeeper does not tell more."""
        return ROLES.get(self.mode or "", "LOOKING")


def ask(address: str, word: str, timeout: float) -> str | None:
    """Send a four-letter word and return the answer; None if there was none in time."""
    try:
        with socket.create_connection(host_and_port(address), timeout) as connection:
            connection.sendall(word.encode())
            answer = b""
            while (more := connection.recv(1 << 16)) and len(answer) < ANSWER_BYTES:
                answer += more
    except OSError:
        return None
    return answer.decode(errors="replace") or None


def srvr(address: str, timeout: float) -> ServerState | None:
    """Return the server's state; None if it does not answer in time."""
    answer = ask(address, "srvr", timeout)
    return None if answer is None else read(answer)


def read(answer: str) -> ServerState:
    """Parse an answer to `srvr`. A server that does not serve answers with a sentence that has neither mode nor zxid."""
    mode, zxid = _MODE.search(answer), _ZXID.search(answer)
    return ServerState(mode[1] if mode else None, int(zxid[1], 16) if zxid else None)
