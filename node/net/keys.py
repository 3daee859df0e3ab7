"""The run's secrets: three CURVE key pairs, each in a file that only its owner can read.

There is one pair for the links between nodes, one for control ports, and one for clients. A client has the clients' file
only, so it can connect to client ports and nothing else.

Every listening socket of a run is a CURVE server with the secret key of its purpose, and every connecting socket knows that
purpose's public key beforehand: CurveZMQ never sends the server's long-term "public" key in the clear, and a client must
encrypt to it from its first command on. So nobody without the file can complete a handshake, in either direction, and
everything on the wire is encrypted and authenticated (RFC 26/CURVEZMQ). All holders of one file are equal: a server does
not ask which of them connects, and refuses none. The link keys do not distinguish the nodes, nor the client keys the
clients.

The cost, as `zab bench --only curve` measured it on a machine with two cores (loopback, median of five rounds): frames
of 1 KiB 284,000 a second plain, 172,000 with CURVE (2.3 microseconds a frame more); frames of 64 KiB 1,769 MB/s plain,
1,144 MB/s with CURVE (20 microseconds a frame more).
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import zmq


class KeyFileError(Exception):
    """A key file of the run can't be created or used."""


class KeyFiles(NamedTuple):
    """The key files of a run by purpose. A socket accepts the key of its own purpose only."""

    links: Path
    control: Path
    clients: Path


@dataclass(frozen=True, slots=True)
class Keys:
    """A CURVE key pair, Z85-encoded (40 characters each)."""

    public: bytes
    secret: bytes

    def server(self, socket: zmq.Socket[Any]) -> None:
        """Make a socket a CURVE server, before it binds. Only holders of the key file can connect."""
        socket.curve_server = True
        socket.curve_publickey = self.public
        socket.curve_secretkey = self.secret

    def client(self, socket: zmq.Socket[Any]) -> None:
        """Make a socket a CURVE client with a fresh key pair of its own, before it connects."""
        socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
        socket.curve_serverkey = self.public

    def __repr__(self) -> str:
        return f"Keys(public={self.public!r})"  # the secret must not get into a log


def files_in(folder: Path) -> KeyFiles:
    """Return the paths of the key files of a run with this config folder, whether or not they exist."""
    return KeyFiles(*(folder / f"{purpose}.json" for purpose in KeyFiles._fields))


def create_files(folder: Path) -> KeyFiles:
    """Create the three key files of a run. Raises KeyFileError, also if one exists."""
    files = files_in(folder)
    for path in files:
        create(path)
    return files


def create(path: str | Path) -> Keys:
    """Generate a new pair and write it to a new file of mode 0600. Raises KeyFileError, also if the file exists."""
    keys = Keys(*zmq.curve_keypair())
    text = json.dumps({"public": keys.public.decode(), "secret": keys.secret.decode()}) + "\n"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, text.encode("ascii"))
        finally:
            os.close(descriptor)
    except FileExistsError:
        raise KeyFileError(f"{path}: the key file exists already; remove it or choose another path") from None
    except OSError as error:
        raise KeyFileError(f"{path}: the key file cannot be written: {error.strerror}") from None
    return keys


def load(path: str | Path) -> Keys:
    """Read the pair that `create` wrote. Raises KeyFileError: missing, readable by others, or not a key pair."""
    try:
        mode = Path(path).stat().st_mode
        text = Path(path).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise KeyFileError(f"{path}: the key file cannot be read: {error.strerror}") from None
    if mode & 0o077:
        raise KeyFileError(f"{path}: others can read it (mode {mode & 0o777:04o}); make it 0600 or create a new one")
    keys = _parse(text)
    if keys is None:
        raise KeyFileError(f"{path}: holds no CURVE key pair; expected what the harness writes: public and secret")
    return keys


def _parse(text: str) -> Keys | None:
    try:
        value = json.loads(text)
        keys = Keys(value["public"].encode("ascii"), value["secret"].encode("ascii"))
        return keys if zmq.curve_public(keys.secret) == keys.public else None
    except (ValueError, KeyError, TypeError, AttributeError, zmq.ZMQError):
        return None
