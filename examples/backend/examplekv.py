"""The backend `--on examplekv`: lets zab-chaos run the store beside this file. docs/backends.md explains it line by line."""

import json
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from zab_chaos.harness.backends.system import (
    BlockingClient,
    Failed,
    Get,
    Outcome,
    Place,
    Request,
    Set,
    SystemBackend,
    Unknown,
    done,
)

STORE = Path(__file__).with_name("store.py")


class ExampleKV(SystemBackend):
    """Runs `store.py`, one process for each node."""

    name = "examplekv"
    operations = frozenset({"get", "set"})
    serves_with_majority = True
    data_files: ClassVar = {"log": "log"}  # what faults may damage
    releases = ("1", "2")  # a run begins with the first; faults may have nodes start with the other one
    defects: ClassVar = {
        "early-ack": "--early-ack",
        "no-write-back": "--no-write-back",
        "no-fsync": "--no-fsync",
    }  # known bugs of the store, and the flags that switch them on

    def command(self, place: Place, defect: str | None) -> Sequence[str]:
        command = [sys.executable, str(STORE), "--node", str(place.node), "--data", str(place.data)]
        command += ["--listen", place.listen, "--client", place.client]
        command += ["--release", place.release]
        for number, address in place.peers.items():
            command += ["--peer", f"{number}={address}"]
        return [*command, defect] if defect is not None else command

    def client(self, place: Place, timeout: float) -> "KVClient":
        return KVClient(place.client, timeout)


class Connection:
    """A connection to a node: sends a line of JSON, and reads one. Methods raise OSError."""

    def __init__(self, address: str, timeout: float) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout)
        self._lines = self._socket.makefile("rb")

    def ask(self, question: dict) -> dict:
        self._socket.sendall(json.dumps(question).encode() + b"\n")
        line = self._lines.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the node has closed the connection")
        return json.loads(line)

    def close(self) -> None:
        self._socket.close()


class KVClient(BlockingClient):
    """Translates requests to the store's protocol, and its answers to outcomes."""

    def __init__(self, address: str, timeout: float) -> None:
        self._connection = Connection(address, timeout)
        super().__init__()

    def ask(self, request: Request) -> Outcome:
        if isinstance(request, Set):
            answer = self._connection.ask({"op": "set", "key": request.path, "value": request.data.decode("latin-1")})
            return Unknown(answer["error"]) if "error" in answer else done()
        assert isinstance(request, Get)
        answer = self._connection.ask({"op": "get", "key": request.path})
        if "error" in answer:
            return Unknown(answer["error"])
        if answer["value"] is None:
            return Failed("no node", f"there is no key {request.path}")
        return done(answer["value"].encode("latin-1"))

    def hang_up(self) -> None:
        self._connection.close()
