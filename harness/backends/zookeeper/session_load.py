"""The load of the clients with sessions: what they do, and what every server still has of them at the end."""

import random
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any

from zab_chaos.harness.backends.zookeeper import tree
from zab_chaos.harness.backends.zookeeper.connection import OnWrongAnswer
from zab_chaos.harness.backends.zookeeper.sessions import (
    LOCK,
    ROOT,
    SESSION_SECONDS,
    SessionClient,
    SessionsFile,
    read_fields,
)
from zab_chaos.harness.backends.zookeeper.subtree_watcher import SubtreeWatcher
from zab_chaos.harness.extras import extra
from zab_chaos.harness.machine.background import BackgroundThread
from zab_chaos.node.core.zxid import Zxid

with extra("zookeeper", "a client of ZooKeeper"):
    from kazoo.exceptions import KazooException

ACTIONS_PER_SECOND = 10.0  # of each client
PERMANENT_ZNODES = 5  # created at the start, and then set by the clients
RECENT_EPHEMERALS = 20  # a client reads one of this many latest ephemeral znodes
SETUP_SECONDS = 20.0
EXPIRY_TIMEOUTS = 4  # by then an abandoned session has expired, even if the leader has changed


class SessionLoad(BackgroundThread):
    """A thread that drives a number of session clients. The seed decides what they do; the clock decides when."""

    def __init__(
        self, addresses: Mapping[int, str], file: Path, clients: int, seed: int,
        on_wrong_answer: OnWrongAnswer | None = None,
    ) -> None:  # fmt: skip
        super().__init__("sessions")
        self.begun = threading.Event()
        self._addresses = dict(addresses)
        self._file = SessionsFile(file)
        self._random = random.Random(f"{seed}/sessions")
        self._recent: deque[str] = deque(maxlen=RECENT_EPHEMERALS)
        self._clients = [
            SessionClient(number, addresses, self._file, self._recent.append, on_wrong_answer)
            for number in range(1, clients + 1)
        ]
        self._watcher = SubtreeWatcher(clients + 1, addresses, self._file, lambda _: None, on_wrong_answer)

    @property
    def lines_written(self) -> int:
        """The number of lines of sessions.jsonl so far."""
        return self._file.lines_written

    def stop(self, *, final_reads: bool = True) -> None:
        """End all sessions, and with `final_reads` wait until the servers have expired the abandoned ones, and read from every
        server once more."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        for client in (*self._clients, self._watcher):
            client.close()
        if final_reads:
            self._record_final_reads()
        self._file.close()

    def _run(self) -> None:
        self._create_permanent_znodes()
        for client in (*self._clients, self._watcher):
            client.begin()
        self.begun.set()
        while not self._stop.wait(1 / ACTIONS_PER_SECOND / len(self._clients)):
            self._act(self._random.choice(self._clients))
            self._watcher.act()

    def _create_permanent_znodes(self) -> None:
        """Create the permanent znodes at whichever server accepts that. If none does in time the load goes on without them, so
        that it is judged what is wrong with the servers."""
        end = time.monotonic() + SETUP_SECONDS
        for address in cycle(self._addresses.values()):
            if time.monotonic() > end or self._stop.is_set():
                return
            with suppress(KazooException, tree.TreeUnreadable), tree.connected(address, SESSION_SECONDS) as client:
                for path in (LOCK, *map(_permanent_path, range(PERMANENT_ZNODES))):
                    client.ensure_path(path)
                return

    def _act(self, client: SessionClient) -> None:
        """Have a client do one random thing."""
        draw = self._random.random()
        path = _permanent_path(self._random.randrange(PERMANENT_ZNODES))
        if draw < 0.02:
            if client.ready:
                client.create_ephemeral()  # so that the session often ends before this has been applied
            client.close(silently=draw < 0.01)
            client.begin()
        elif not client.ready:
            return
        elif draw < 0.06:
            client.reconnect()
        elif draw < 0.21:
            client.create_ephemeral()
        elif draw < 0.27:
            client.stand_in_line()
        elif draw < 0.35:
            client.set_data(path)
        elif draw < 0.4:
            client.list_children(ROOT if draw < 0.38 else LOCK, watch=draw < 0.37 or draw > 0.39)
        elif draw < 0.5:
            client.sync_and_read(path)
        else:
            if self._recent and draw < 0.7:
                path = self._random.choice(list(self._recent))
            elif draw > 0.9:
                path = self._random.choice(self._clients).next_ephemeral  # nobody has created it yet
            read = client.read_data if self._random.random() < 0.5 else client.read
            read(path, watch=draw < 0.63 or draw > 0.8)

    def _record_final_reads(self) -> None:
        """Record the ephemeral znodes that each server still has once the abandoned sessions had time to expire.

        A round of readings counts if it began after that time: a server that does not answer holds it up for long.
        """
        longest = max(SESSION_SECONDS, *(client.longest_timeout for client in (*self._clients, self._watcher)))
        end = time.monotonic() + EXPIRY_TIMEOUTS * longest
        while True:
            began, left = time.monotonic(), self._remaining_ephemerals()
            if began > end or (left is not None and not any(left.values())):
                break
            time.sleep(0.2)
        for node, stats in (left or {}).items():  # None: a server is down, which other checks of the run report
            for path, stat, zxid in stats:
                self._file.write("look", 0, **read_fields(path, stat, zxid, node), last=True)

    def _remaining_ephemerals(self) -> dict[int, list[tuple[str, Any, Zxid]]] | None:
        """Return the ephemeral znodes that each server has, or None if one does not answer."""
        found: dict[int, list[tuple[str, Any, Zxid]]] = {}
        for node, address in self._addresses.items():
            try:
                found[node] = list(read_ephemerals(address))
            except (KazooException, tree.TreeUnreadable):
                return None
        return found


def _permanent_path(number: int) -> str:
    return f"{ROOT}/z-{number}"


def read_ephemerals(address: str) -> Iterator[tuple[str, Any, Zxid]]:
    """Yield the path and stat of each ephemeral znode that a server has after a sync, and the zxid of its answer.

    Raises KazooException, tree.TreeUnreadable.
    """
    with tree.connected(address, SESSION_SECONDS) as client:
        client.sync(ROOT)
        for parent in (ROOT, LOCK):
            for name in client.get_children(parent) if client.exists(parent) else ():
                stat = client.exists(f"{parent}/{name}")
                if stat is not None and stat.ephemeralOwner:
                    yield f"{parent}/{name}", stat, Zxid(client.last_zxid)
