"""A balance that several processes change, one at a time: they agree by kazoo's Lock who may.

The lock is held while a session lives. A process that is paused (a long garbage collection, a suspended virtual machine) can't
know that its session has ended and that somebody else holds the lock. So whoever writes has to show a fence: what the lock
protects refuses those that are too late.
"""

import fcntl
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError

LOCK = "/balance-lock"
SESSION_SECONDS = 2.0


class TooLate(Exception):
    """Somebody else has held the lock since; nothing was written."""


class Balance(Protocol):
    """What the lock protects. `fence`: what tells a late holder from the present one; None: nobody asks."""

    def read(self) -> tuple[int, int]:
        """The amount, and the version of it."""

    def write(self, amount: int, fence: int | None) -> None:
        """Raises TooLate."""

    def fence(self, token: int, version: int) -> int:
        """Of a holder with this token of the lock, who has read this version."""


class InFile:
    """Outside of ZooKeeper: a line for each write. It knows only the tokens that it has seen."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def read(self) -> tuple[int, int]:
        lines = self.lines()
        return (lines[-1]["amount"] if lines else 0), len(lines)

    def write(self, amount: int, fence: int | None) -> None:
        with self.path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # for the look and the write, which no other process may part
            if fence is not None and fence < max((line["fence"] or 0 for line in self.lines()), default=0):
                raise TooLate(f"a later holder of the lock has written; this one has token {fence:#x}")
            file.write(json.dumps({"amount": amount, "fence": fence}) + "\n")

    def fence(self, token: int, version: int) -> int:
        return token

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]


class InZnode:
    """In ZooKeeper itself, where every znode has a version that counts its writes."""

    def __init__(self, client: KazooClient, path: str) -> None:
        self._client = client
        self._path = path
        client.ensure_path(path)

    def read(self) -> tuple[int, int]:
        data, stat = self._client.retry(self._client.get, self._path)
        return int(data or b"0"), stat.version

    def write(self, amount: int, fence: int | None) -> None:
        try:
            self._client.retry(self._client.set, self._path, b"%d" % amount, -1 if fence is None else fence)
        except BadVersionError:
            raise TooLate(f"{self._path} was written since; this holder had read version {fence}") from None

    def fence(self, token: int, version: int) -> int:
        return version


def deposit(
    client: KazooClient, balance: Balance, amount: int, *, fenced: bool, meanwhile: Callable[[], object] = lambda: None
) -> int:
    """Add `amount`: read, think, write, all under the lock. Returns what is there then. Raises TooLate, KazooException."""
    lock = client.Lock(LOCK)
    with lock:
        own = client.retry(client.exists, f"{LOCK}/{lock.node}")
        if own is None:
            raise TooLate("the session has ended")
        before, version = balance.read()
        meanwhile()
        balance.write(before + amount, balance.fence(own.czxid, version) if fenced else None)
        return before + amount


def connected(hosts: str) -> KazooClient:
    client = KazooClient(hosts, timeout=SESSION_SECONDS)
    client.start(20)
    return client


def main(hosts: str, place: str, amount: str, fenced: str) -> str:
    """Deposit once. Holding the lock it says so, and waits for a line. `place`: a znode's path, or file:PATH."""

    def wait() -> None:
        print("holding", flush=True)
        sys.stdin.readline()

    client = connected(hosts)
    file = place.removeprefix("file:")
    balance = InFile(Path(file)) if file != place else InZnode(client, place)
    try:
        return f"written {deposit(client, balance, int(amount), fenced=fenced == 'fenced', meanwhile=wait)}"
    except TooLate as error:
        return f"too late: {error}"
    finally:
        client.stop()
        client.close()


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
