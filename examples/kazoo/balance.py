"""A balance that several processes change, one at a time, under kazoo's Lock.

A process holds the lock only while its session lives. A process that is paused (by a long garbage collection, or because its
virtual machine is suspended) does not notice that its session has expired and that another process holds the lock. So each
write carries a fence, and the balance refuses a write whose fence is too old.
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
    """Another process has held the lock since. Nothing was written."""


class Balance(Protocol):
    """The balance that the lock protects."""

    def read(self) -> tuple[int, int]:
        """Return the amount and its version."""

    def write(self, amount: int, fence: int | None) -> None:
        """Write an amount. Raises TooLate if the fence is older than that of a later holder; with None it is not checked."""

    def fence(self, token: int, version: int) -> int:
        """Return the fence of a holder that has this token of the lock and has read this version of the balance."""


class FileBalance:
    """A balance in a file, outside of ZooKeeper. Each write adds a line. Tokens older than the newest one are refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def read(self) -> tuple[int, int]:
        lines = self.lines()
        return (lines[-1]["amount"] if lines else 0), len(lines)

    def write(self, amount: int, fence: int | None) -> None:
        with self.path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # so that no other process writes between the check and the write
            if fence is not None and fence < max((line["fence"] or 0 for line in self.lines()), default=0):
                raise TooLate(f"a later holder of the lock has written; this one has token {fence:#x}")
            file.write(json.dumps({"amount": amount, "fence": fence}) + "\n")

    def fence(self, token: int, version: int) -> int:
        return token

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]


class ZnodeBalance:
    """A balance in a znode. Its fence is the znode's version, which counts its writes."""

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
    """Add `amount` under the lock, and return the new balance. `meanwhile` is called between the read and the write.

    Raises TooLate, KazooException.
    """
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
    """Deposit once. While it holds the lock, print "holding" and wait for a line. `place` is a znode's path, or file:PATH."""

    def wait() -> None:
        print("holding", flush=True)
        sys.stdin.readline()

    client = connected(hosts)
    file = place.removeprefix("file:")
    balance = FileBalance(Path(file)) if file != place else ZnodeBalance(client, place)
    try:
        return f"written {deposit(client, balance, int(amount), fenced=fenced == 'fenced', meanwhile=wait)}"
    except TooLate as error:
        return f"too late: {error}"
    finally:
        client.stop()
        client.close()


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
