"""ZooKeeper's four-letter words: what a server says of itself on its client port."""

import re
import socket
from dataclasses import dataclass

ANSWER_BYTES = 1 << 20  # far more than any answer has

_ZXID = re.compile(r"^Zxid: 0x([0-9a-f]+)$", re.MULTILINE)
_MODE = re.compile(r"^Mode: (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ServerState:
    """What `srvr` shows. `mode`: leader, follower, observer, standalone, or None while it does not serve. `zxid`: the last one
    processed."""

    mode: str | None
    zxid: int | None

    @property
    def serving(self) -> bool:
        return self.mode is not None


def ask(address: str, word: str, timeout: float) -> str | None:
    """The answer to a four-letter word; None if there was none in time."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout) as connection:
            connection.sendall(word.encode())
            answer = b""
            while (more := connection.recv(1 << 16)) and len(answer) < ANSWER_BYTES:
                answer += more
    except OSError:
        return None
    return answer.decode(errors="replace") or None


def srvr(address: str, timeout: float) -> ServerState | None:
    """What `srvr` says; None if the server does not answer in time."""
    answer = ask(address, "srvr", timeout)
    return None if answer is None else read(answer)


def read(answer: str) -> ServerState:
    """An answer to `srvr`. One that serves nobody says so in a sentence, without mode and zxid."""
    mode, zxid = _MODE.search(answer), _ZXID.search(answer)
    return ServerState(mode[1] if mode else None, int(zxid[1], 16) if zxid else None)
