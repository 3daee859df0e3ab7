"""Clients that live in sessions: they make ephemeral znodes, watch one another's, close their sessions or fall silent.

What each is told stands in sessions.jsonl, in the order in which its connection carried it: it is written down in the thread
that reads the connection, before anybody else hears of it. `zab_chaos.model.oracle.properties.sessions` judges it.
"""

import contextlib
import os
import random
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from zlib import crc32

import msgspec

from zab_chaos.harness.backends.zookeeper import tree
from zab_chaos.harness.backends.zookeeper.answers import REFUSALS
from zab_chaos.harness.backends.zookeeper.client import RETRY, end_session, hang_up
from zab_chaos.harness.backends.zookeeper.records import Evidence, ended
from zab_chaos.harness.extras import extra
from zab_chaos.harness.machine.background import BackgroundThread
from zab_chaos.node.core.zxid import Zxid, pair

with extra("zookeeper", "a client of ZooKeeper"):
    from kazoo.client import KazooClient, KazooState
    from kazoo.exceptions import KazooException
    from kazoo.protocol.serialization import Create, Exists, GetChildren2, SetData, Sync, Watch, write_string
    from kazoo.security import OPEN_ACL_UNSAFE

ROOT = "/sessions"
SESSION_SECONDS = 2.0
RATE = 10.0  # actions a second, of each client
ZNODES = 5  # that stay, and are written
RECENT = 20  # ephemeral znodes among which a client chooses
WAITING = 30  # requests on their way, of one client; it asks for no more
SETUP_SECONDS = 20.0
EXPIRY_SECONDS = 4 * SESSION_SECONDS  # a session that nobody renews is over by then, also if the leader has changed
EPHEMERAL = 1  # the flag of a create
FIRED = {1: "created", 2: "deleted", 3: "changed", 4: "changed"}  # the types of events
CHILDREN = 4  # of them: the list of a znode's children has changed


class Ledger:
    """sessions.jsonl. Each line is written at once, and later ones are not earlier."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._lock = threading.Lock()
        self.lines = 0

    def write(self, kind: str, client: int, **fields: Any) -> None:
        with self._lock:
            line = {"type": kind, "t": time.monotonic_ns(), "client": client, **fields}
            os.write(self._file, msgspec.json.encode(line) + b"\n")
            self.lines += 1

    def close(self) -> None:
        os.close(self._file)


class Guest:
    """A client: one session after the other. `made` is told of the paths of its ephemeral znodes."""

    def __init__(
        self, number: int, addresses: Mapping[int, str], ledger: Ledger, made: Callable[[str], None]
    ) -> None:  # fmt: skip
        self.number = number
        self._addresses = dict(addresses)
        self._nodes = {address: node for node, address in addresses.items()}
        self._ledger = ledger
        self._made = made
        self._count = self._writes = 0
        self._watched: dict[str, bool] = {}  # by path: whether it was there when the watch was set
        self._kazoo: Any = None
        self._session: int | None = None

    @property
    def ready(self) -> bool:
        """Whether it has a session, is connected, and does not wait for too much."""
        kazoo = self._kazoo
        return kazoo is not None and kazoo.connected and len(kazoo._queue) + len(kazoo._pending) < WAITING

    def begin(self) -> None:
        """A session of its own, as soon as a server takes it."""
        kazoo = KazooClient(
            ",".join(self._addresses.values()), timeout=SESSION_SECONDS, connection_retry=RETRY, logger=tree.silent
        )
        told = kazoo._connection._read_watch_event

        def fired(buffer: bytes, offset: int) -> None:
            event, _ = Watch.deserialize(buffer, offset)
            path, what = happened(event)
            self._watched.pop(path, None)
            self._write("fired", path=path, what=what)
            told(buffer, offset)

        kazoo._connection._read_watch_event = fired
        kazoo.add_listener(self._changed)
        self._kazoo = kazoo
        kazoo.start_async()

    def close(self, *, silently: bool = False) -> None:
        """End the session; `silently`: only fall silent, and let it expire."""
        kazoo, self._kazoo = self._kazoo, None
        if kazoo is None:
            return
        kazoo.remove_listener(self._changed)
        end_session(kazoo, say=not silently)
        if self._session is not None:
            self._write("over", session=self._session, why="left" if silently else "closed")
        self._session = None
        self._watched.clear()
        kazoo.close()

    def move(self) -> None:
        """Lose the connection, and go on with the session at whichever server takes it."""
        hang_up(self._kazoo)

    def make(self) -> None:
        """An ephemeral znode."""
        self._count += 1
        path, session = f"{ROOT}/e-{self.number}-{self._count}", self._session

        def heard(result: Any, zxid: Zxid, _node: int) -> None:
            self._write("made", session=session, path=str(result), zxid=pair(zxid))
            self._made(path)

        self._change("create", Create(path, b"", OPEN_ACL_UNSAFE, EPHEMERAL), heard)

    def write(self, path: str) -> None:
        """Data that it writes nowhere else."""
        self._writes += 1
        data, session = b"%d of %d" % (self._writes, self.number), self._session

        def heard(stat: Any, zxid: Zxid, _node: int) -> None:
            told = {"version": stat.version, "changed": pair(Zxid(stat.mzxid)), "zxid": pair(zxid)}
            self._write("wrote", session=session, path=path, value=crc32(data), **told)

        self._change("set", SetData(path, data, -1), heard)

    def look(self, path: str, *, watch: bool) -> None:
        """Whether it is there, and since when; `watch`: and be told when that changes."""

        def heard(stat: Any, zxid: Zxid, node: int) -> None:
            self._looked(seen(path, stat, zxid, node), watch)

        self._look(Exists(path, _nothing if watch else None), path, watch, heard)

    def sync(self, path: str) -> None:
        """Whether it is there, when whatever was acknowledged before is there, too."""
        sent = time.monotonic_ns()

        def heard(_result: Any, zxid: Zxid, node: int) -> None:
            self._write("synced", sent=sent, node=node, zxid=pair(zxid))

        self._ask(Sync(path), heard)
        self.look(path, watch=False)

    def list(self, path: str, *, watch: bool) -> None:
        """The znodes below it; `watch`: and be told when there are others."""

        def heard(result: Any, zxid: Zxid, node: int) -> None:
            children, stat = result
            listed = stat._replace(mzxid=stat.pzxid, version=stat.cversion)
            self._looked(seen(listing(path), listed, zxid, node) | {"children": children}, watch)

        self._look(GetChildren2(path, _nothing if watch else None), listing(path), watch, heard)

    def _change(self, op: str, request: Any, heard: Callable[[Any, Zxid, int], None]) -> None:
        self._write("write", op=op, path=request.path, value=crc32(request.data))
        self._ask(request, heard)

    def _look(self, request: Any, path: str, watch: bool, heard: Callable[[Any, Zxid, int], None]) -> None:
        if watch:
            self._write("ask", path=path)
        self._ask(request, heard)

    def _looked(self, shown: dict[str, Any], watch: bool) -> None:
        self._write("look", **shown, **({"watch": True} if watch else {}))
        if watch:
            self._watched[shown["path"]] = "changed" in shown

    def _ask(self, request: Any, heard: Callable[[Any, Zxid, int], None]) -> None:
        self._kazoo._call(request, _Answer(self, self._kazoo, heard, request.path))

    # kazoo's thread

    def answered(self, kazoo: Any, heard: Callable[[Any, Zxid, int], None], value: Any) -> None:
        node = self._node(kazoo)
        if node is not None and kazoo is self._kazoo and kazoo.last_zxid:
            heard(value, Zxid(kazoo.last_zxid), node)

    def refused(self, kazoo: Any, path: str, error: str) -> None:
        self.answered(
            kazoo,
            lambda _, zxid, node: self._write("refused", path=path, error=error, node=node, zxid=pair(zxid)),
            None,
        )

    def _changed(self, state: Any) -> None:
        session = self._kazoo._session_id if self._kazoo is not None else None
        if state == KazooState.CONNECTED and session != self._session:
            self._session = session
            self._watched.clear()
            self._write("began", session=session)
        elif state == KazooState.CONNECTED and self._watched:
            self._watch_again()
        elif state == KazooState.SUSPENDED:
            self._write("lost")
        elif state == KazooState.LOST and self._session is not None:
            self._write("over", session=self._session, why="expired")
            self._session = None

    def _watch_again(self) -> None:
        """As ZooKeeper's own clients do and kazoo does not, before anything else is asked of the next server."""
        kazoo, watched = self._kazoo, sorted(self._watched)

        def heard(_result: Any, zxid: Zxid, node: int) -> None:
            self._write("stand", node=node, zxid=pair(zxid))

        self._write("again", paths=watched)
        lists = [path for path in watched if path.endswith("/")]
        there = [path for path in watched if self._watched[path] and path not in lists]
        missing = [path for path in watched if not self._watched[path]]
        request = SetWatches(kazoo.last_zxid, there, missing, [path[:-1] for path in lists])
        kazoo._queue.appendleft((request, _Answer(self, kazoo, heard, ROOT)))
        kazoo._connection._write_sock.send(b"\0")

    def _node(self, kazoo: Any) -> int | None:
        """The server at the other end."""
        with contextlib.suppress(OSError, AttributeError):  # it has gone again already
            host, port = kazoo._connection._socket.getpeername()[:2]
            return self._nodes.get(f"{host}:{port}")
        return None

    def _write(self, kind: str, **fields: Any) -> None:
        self._ledger.write(kind, self.number, **fields)


@dataclass(frozen=True, slots=True)
class SetWatches:
    """The request of this name; `since`: a znode that was changed after this zxid has its watch fire at once. `there`,
    `missing`: the paths of those that were there when they were watched, and of those that were not; `lists`: of those whose
    children are watched."""

    type: ClassVar[int] = 101

    since: int
    there: Sequence[str]
    missing: Sequence[str]
    lists: Sequence[str]

    def serialize(self) -> bytes:
        return struct.pack("!q", self.since) + b"".join(map(_vector, (self.there, self.missing, self.lists)))

    @staticmethod
    def deserialize(_data: bytes, _offset: int) -> None:
        """The answer is empty."""


def _vector(paths: Sequence[str]) -> bytes:
    return struct.pack("!i", len(paths)) + b"".join(write_string(path) for path in paths)


class _Answer:
    """Where kazoo puts what became of a request, in the thread that reads the connection."""

    def __init__(self, guest: Guest, kazoo: Any, heard: Callable[[Any, Zxid, int], None], path: str) -> None:
        self._guest = guest
        self._kazoo = kazoo
        self._heard = heard
        self._path = path

    def set(self, value: Any) -> None:
        self._guest.answered(self._kazoo, self._heard, value)

    def set_exception(self, error: BaseException) -> None:
        """Nobody knows what became of it, unless it was refused for the state."""
        reason = REFUSALS.get(type(error))
        if reason is not None:
            self._guest.refused(self._kazoo, self._path, reason)


def _nothing(_event: Any) -> None:
    """What fires is on record already."""


def happened(event: Any) -> tuple[str, str]:
    """The path of what has changed, and how."""
    return listing(event.path) if event.type == CHILDREN else event.path, FIRED.get(event.type, str(event.type))


def listing(path: str) -> str:
    """What the list of a znode's children is called, in sessions.jsonl and by the judge."""
    return f"{path}/"


def seen(path: str, stat: Any, zxid: Zxid, node: int) -> dict[str, Any]:
    """A read's answer, for sessions.jsonl. `stat` None: there is no such znode."""
    fields = {"path": path, "node": node, "zxid": pair(zxid)}
    if stat is None:
        return fields
    owner = {"owner": stat.ephemeralOwner} if stat.ephemeralOwner else {}
    times = {"changed": pair(Zxid(stat.mzxid)), "created": pair(Zxid(stat.czxid))}
    return fields | times | {"version": stat.version} | owner


class Guests(BackgroundThread):
    """So many `clients`, from a thread of their own. What they ask for is drawn from the seed; when, by the clock."""

    def __init__(self, addresses: Mapping[int, str], file: Path, clients: int, seed: int) -> None:
        super().__init__("sessions")
        self.error: Exception | None = None
        self.begun = threading.Event()
        self._addresses = dict(addresses)
        self._ledger = Ledger(file)
        self._random = random.Random(f"{seed}/sessions")
        self._recent: deque[str] = deque(maxlen=RECENT)
        self._guests = [Guest(number, addresses, self._ledger, self._recent.append) for number in range(1, clients + 1)]

    @property
    def told(self) -> int:
        """The lines that were written."""
        return self._ledger.lines

    def stop(self) -> None:
        """End all sessions, wait until the servers have ended those that fell silent, and look at every server once more."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        for guest in self._guests:
            guest.close()
        self._look_back()
        self._ledger.close()

    def _run(self) -> None:
        try:
            self._prepare()
            for guest in self._guests:
                guest.begin()
            self.begun.set()
            while not self._over.wait(1 / RATE / len(self._guests)):
                self._act(self._random.choice(self._guests))
        except Exception as error:  # a thread's error must reach whoever started it
            self.error = error

    def _prepare(self) -> None:
        """The znodes that stay."""
        end = time.monotonic() + SETUP_SECONDS
        while True:
            try:
                with tree.connected(next(iter(self._addresses.values())), SESSION_SECONDS) as client:
                    for number in range(ZNODES):
                        client.ensure_path(_znode(number))
                return
            except (KazooException, tree.Unreadable):
                if time.monotonic() > end or self._over.is_set():
                    raise

    def _act(self, guest: Guest) -> None:
        draw = self._random.random()
        path = _znode(self._random.randrange(ZNODES))
        if draw < 0.02:
            guest.close(silently=draw < 0.01)
            guest.begin()
        elif not guest.ready:
            return
        elif draw < 0.05:
            guest.move()
        elif draw < 0.25:
            guest.make()
        elif draw < 0.35:
            guest.write(path)
        elif draw < 0.4:
            guest.list(ROOT, watch=draw < 0.38)
        elif draw < 0.5:
            guest.sync(path)
        else:
            ephemeral = self._recent and draw < 0.7
            guest.look(self._random.choice(list(self._recent)) if ephemeral else path, watch=draw < 0.55 or draw > 0.8)

    def _look_back(self) -> None:
        """What each server shows when every session is over; silent ones are given their time."""
        end = time.monotonic() + EXPIRY_SECONDS
        while (left := self._left()) is None or (any(left.values()) and time.monotonic() < end):
            if time.monotonic() > end:
                return  # some server is not there; the run says so elsewhere
            time.sleep(0.2)
        for node, stats in left.items():
            self._write_last(node, stats)

    def _left(self) -> dict[int, list[tuple[str, Any, Zxid]]] | None:
        """The ephemeral znodes that each server shows; None if one does not answer."""
        found: dict[int, list[tuple[str, Any, Zxid]]] = {}
        for node, address in self._addresses.items():
            try:
                found[node] = list(ephemerals(address))
            except (KazooException, tree.Unreadable):
                return None
        return found

    def _write_last(self, node: int, stats: list[tuple[str, Any, Zxid]]) -> None:
        for path, stat, zxid in stats:
            self._ledger.write("look", 0, **seen(path, stat, zxid, node), last=True)


def _znode(number: int) -> str:
    return f"{ROOT}/z-{number}"


def ephemerals(address: str) -> Iterator[tuple[str, Any, Zxid]]:
    """The ephemeral znodes that a server shows after a sync, with the zxid of its answer. Raises KazooException,
    tree.Unreadable."""
    with tree.connected(address, SESSION_SECONDS) as client:
        client.sync(ROOT)
        for name in client.get_children(ROOT):
            stat = client.exists(f"{ROOT}/{name}")
            if stat is not None and stat.ephemeralOwner:
                yield f"{ROOT}/{name}", stat, Zxid(client.last_zxid)


def write_ended(file: Path, evidence: Evidence) -> None:
    """Add the ends of sessions to sessions.jsonl, if clients had sessions."""
    if not file.exists():
        return
    ledger = Ledger(file)
    for session, end in sorted(ended(evidence).items()):
        # The leader ends a silent session by itself: no request has the number 0.
        ledger.write("ended", 0, session=session, zxid=pair(Zxid(end.zxid)), asked=end.cxid != 0)
    ledger.close()
