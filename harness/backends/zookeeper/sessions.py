"""Test clients for ZooKeeper's sessions: they create ephemeral znodes, watch each other's, and close or abandon their sessions.

sessions.jsonl records what each client was told, in the order in which its connection carried it: the thread that reads the
connection writes the line before any other code sees the answer. `zab_chaos.model.oracle.properties.sessions` judges the file.
"""

import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from zlib import crc32

import msgspec

from zab_chaos.harness.backends.zookeeper.answers import REFUSALS, SEQUENTIAL
from zab_chaos.harness.backends.zookeeper.client import AsyncResult, end_session, new_kazoo
from zab_chaos.harness.backends.zookeeper.connection import OnWrongAnswer, connected_address, drop_connection
from zab_chaos.harness.backends.zookeeper.lock_recipe import PlaceInLine
from zab_chaos.harness.backends.zookeeper.txnlog import Transaction
from zab_chaos.harness.extras import extra
from zab_chaos.node.append_file import AppendFile
from zab_chaos.node.core.zxid import Zxid, pair

with extra("zookeeper", "a client of ZooKeeper"):
    from kazoo.client import KazooState
    from kazoo.protocol.serialization import (
        Create,
        Delete,
        Exists,
        GetChildren2,
        GetData,
        SetData,
        Sync,
        Watch,
        write_string,
    )
    from kazoo.security import OPEN_ACL_UNSAFE

ROOT = "/sessions"
LOCK = f"{ROOT}/lock"
SESSION_SECONDS = 2.0
SHORT_SESSION_SECONDS = 1.0  # of every second client: less than a server may be silent and still follow
AWAY_SECONDS = 0.4  # how long a client that changes servers has no connection; less than its session's timeout
MAX_PENDING = 30  # unanswered requests of one client; beyond that it sends no more
EPHEMERAL = 1  # flag of a create request
EVENT_NAMES = {1: "created", 2: "deleted", 3: "changed", 4: "changed"}  # by the type of a watch event
CHILDREN_CHANGED = 4  # type of the event that a znode's list of children has changed

OnAnswer = Callable[[Any, Zxid, int], None]  # result, zxid of the answer, node that answered


class SessionsFile:
    """sessions.jsonl, open for appending. Each line is written at once; times never decrease from line to line."""

    def __init__(self, path: Path) -> None:
        self._file = AppendFile(path)
        self._lock = threading.Lock()
        self.lines_written = 0

    def write(self, kind: str, client: int, **fields: Any) -> None:
        with self._lock:
            line = {"type": kind, "t": time.monotonic_ns(), "client": client, **fields}
            self._file.write(msgspec.json.encode(line) + b"\n")
            self.lines_written += 1

    def close(self) -> None:
        self._file.close()


class SessionClient:
    """A test client that holds one ZooKeeper session at a time. `on_created` is called with the path of each ephemeral znode
    that it creates."""

    def __init__(
        self, number: int, addresses: Mapping[int, str], file: SessionsFile, on_created: Callable[[str], None],
        on_wrong_answer: OnWrongAnswer | None = None,
    ) -> None:  # fmt: skip
        self.number = number
        self._on_wrong_answer = on_wrong_answer
        self._addresses = dict(addresses)
        self._nodes = {address: node for node, address in addresses.items()}
        self._file = file
        self._on_created = on_created
        self._created = self._writes = 0
        self._watched: dict[str, bool] = {}  # by path: whether the znode existed when the watch was set
        self._kazoo: Any = None
        self._session: int | None = None
        self._sending = threading.Lock()  # writes are recorded in the order in which they are sent
        self._place = PlaceInLine(self, LOCK)
        self._goes_away = False
        self.longest_timeout = 0.0  # in seconds: of all its sessions, as the servers have decided

    @property
    def session(self) -> int | None:
        """The session that the client has; None if it has none."""
        return self._session

    @property
    def ready(self) -> bool:
        """Whether the client is connected and has fewer than MAX_PENDING unanswered requests."""
        kazoo = self._kazoo
        return kazoo is not None and kazoo.connected and len(kazoo._queue) + len(kazoo._pending) < MAX_PENDING

    @property
    def next_ephemeral(self) -> str:
        """The path of the next ephemeral znode that this client creates."""
        return f"{ROOT}/e-{self.number}-{self._created + 1}"

    def begin(self) -> None:
        """Start to connect to any server, and begin a new session there."""
        seconds = SESSION_SECONDS if self.number % 2 else SHORT_SESSION_SECONDS
        kazoo = new_kazoo(",".join(self._addresses.values()), seconds, self._on_wrong_answer)
        read_watch_event = kazoo._connection._read_watch_event

        def record_watch_event(buffer: bytes, offset: int) -> None:
            event, _ = Watch.deserialize(buffer, offset)
            self._told_of_change(*describe_event(event))
            read_watch_event(buffer, offset)

        kazoo._connection._read_watch_event = record_watch_event
        kazoo.add_listener(self._state_changed)
        self._kazoo = kazoo
        kazoo.start_async()

    def close(self, *, silently: bool = False) -> None:
        """Close the session; with `silently`, only stop to answer, so that the servers have to expire it."""
        kazoo, self._kazoo = self._kazoo, None
        if kazoo is None:
            return
        kazoo.remove_listener(self._state_changed)
        end_session(kazoo, send_close=not silently)
        if self._session is not None:
            self._record("over", session=self._session, why="left" if silently else "closed")
        self._session = None
        self._watched.clear()
        kazoo.close()

    def reconnect(self) -> None:
        """Drop the connection; after `AWAY_SECONDS`, kazoo resumes the session at whichever server accepts it."""
        self._goes_away = True
        drop_connection(self._kazoo)

    def create_ephemeral(self) -> None:
        """Create an ephemeral znode at a new path."""
        path = self.next_ephemeral
        self._created += 1
        self._create(Create(path, b"", OPEN_ACL_UNSAFE, EPHEMERAL))

    def create_sequential(self, path: str, on_created: Callable[[], None]) -> None:
        """Create a sequential ephemeral znode, with data that no other write has."""
        self._create(Create(path, self._new_data(), OPEN_ACL_UNSAFE, EPHEMERAL | SEQUENTIAL), on_created)

    def _create(self, request: Create, on_created: Callable[[], None] = lambda: None) -> None:
        def on_answer(result: Any, zxid: Zxid, _node: int) -> None:
            path = str(result)
            self._record("made", session=self._session, path=path, zxid=pair(zxid))
            self._on_created(path)
            on_created()

        self._send_write("create", request, on_answer)

    def delete(self, path: str) -> None:
        """Delete a znode. Call it once for each path: no two writes of a client may be the same."""

        def on_answer(_result: Any, zxid: Zxid, _node: int) -> None:
            self._record("removed", session=self._session, path=path, zxid=pair(zxid))

        self._send_write("delete", Delete(path, -1), on_answer)

    def _new_data(self) -> bytes:
        self._writes += 1
        return b"%d of %d" % (self._writes, self.number)

    def set_data(self, path: str, on_done: Callable[[], None] = lambda: None) -> None:
        """Set a znode's data to a value that no other write has."""
        data = self._new_data()

        def on_answer(stat: Any, zxid: Zxid, _node: int) -> None:
            result = {"version": stat.version, "changed": pair(Zxid(stat.mzxid)), "zxid": pair(zxid)}
            self._record("wrote", session=self._session, path=path, value=crc32(data), **result)
            on_done()

        self._send_write("set", SetData(path, data, -1), on_answer)

    def read(self, path: str, *, watch: bool, on_absent: Callable[[], None] = lambda: None) -> None:
        """Ask whether a znode exists, and for its stat; with `watch`, also set a watch on it."""

        def on_answer(stat: Any, zxid: Zxid, node: int) -> None:
            self._record_read(read_fields(path, stat, zxid, node), watch)
            if stat is None:
                on_absent()

        self._send_read(Exists(path, _ignore_event if watch else None), path, watch, on_answer)

    def read_data(self, path: str, *, watch: bool) -> None:
        """Ask for a znode's data and stat; with `watch`, also set a watch on it, unless the read is refused."""

        def on_answer(result: Any, zxid: Zxid, node: int) -> None:
            data, stat = result
            self._record_read(read_fields(path, stat, zxid, node) | {"value": crc32(data)}, watch)

        self._send_read(GetData(path, _ignore_event if watch else None), path, watch, on_answer)

    def sync_and_read(self, path: str) -> None:
        """Call `sync`, then read: the answer must show every write that was acknowledged before the `sync` was sent."""
        sent = time.monotonic_ns()

        def on_answer(_result: Any, zxid: Zxid, node: int) -> None:
            self._record("synced", sent=sent, node=node, zxid=pair(zxid))

        self._send(Sync(path), on_answer)
        self.read(path, watch=False)

    def list_children(
        self, path: str, *, watch: bool, on_names: Callable[[Sequence[str]], None] = lambda _: None
    ) -> None:
        """Ask for the names of a znode's children; with `watch`, also set a watch on that list."""

        def on_answer(result: Any, zxid: Zxid, node: int) -> None:
            children, stat = result
            list_stat = stat._replace(mzxid=stat.pzxid, version=stat.cversion)
            fields = read_fields(children_path(path), list_stat, zxid, node)
            self._record_read(fields | {"children": children}, watch)
            on_names(children)

        request = GetChildren2(path, _ignore_event if watch else None)
        self._send_read(request, children_path(path), watch, on_answer)

    def stand_in_line(self) -> None:
        """Go on to wait for the lock, or to hold it."""
        self._place.look()

    def _send_write(self, op: str, request: Any, on_answer: OnAnswer) -> None:
        value = {} if op == "delete" else {"value": crc32(request.data)}
        sequential = {"sequential": True} if op == "create" and request.flags & SEQUENTIAL else {}
        with self._sending:
            self._record("write", op=op, path=request.path, **value, **sequential)
            self._send(request, on_answer)

    def _send_read(self, request: Any, path: str, watch: bool, on_answer: OnAnswer) -> None:
        if watch:
            self._record("ask", path=path)
        self._send(request, on_answer, watches=path if watch else None)

    def _record_read(self, fields: dict[str, Any], watch: bool) -> None:
        self._record("look", **fields, **({"watch": True} if watch else {}))
        if watch:
            self._watched[fields["path"]] = "changed" in fields

    def _send(self, request: Any, on_answer: OnAnswer, watches: str | None = None) -> None:
        kazoo = self._kazoo
        if kazoo is not None:  # the session may be closed while an answer to it is handled
            kazoo._call(request, self._result(kazoo, on_answer, watches or request.path, watches is not None))

    def _result(self, kazoo: Any, on_answer: OnAnswer, path: str, watch: bool = False) -> AsyncResult:
        return AsyncResult(partial(self._answered, kazoo, on_answer), partial(self._failed, kazoo, path, watch))

    # The following methods run in kazoo's thread.

    def _told_of_change(self, path: str, change: str) -> None:
        self._watched.pop(path, None)
        self._record("fired", path=path, what=change)
        self._place.told_of_change(path)

    def _answered(self, kazoo: Any, on_answer: OnAnswer, value: Any) -> None:
        """Pass an answer on, unless the session that asked is closed or the server that answered is not known any more."""
        node = self._nodes.get(connected_address(kazoo) or "")
        if node is not None and kazoo is self._kazoo and kazoo.last_zxid:
            on_answer(value, Zxid(kazoo.last_zxid), node)

    def _failed(self, kazoo: Any, path: str, watch: bool, error: BaseException) -> None:
        """Record a refusal. After any other error the request may or may not have taken effect, and nothing is recorded."""
        reason = REFUSALS.get(type(error))

        def on_answer(_result: None, zxid: Zxid, node: int) -> None:
            fields = {"path": path, "error": reason, "node": node, "zxid": pair(zxid)}
            self._record("refused", **fields, **({"watch": True} if watch else {}))

        if reason is not None:
            self._answered(kazoo, on_answer, None)

    def _state_changed(self, state: Any) -> None:
        session = self._kazoo._session_id if self._kazoo is not None else None
        if state == KazooState.CONNECTED and session != self._session:
            self._session = session
            self._watched.clear()
            timeout = self._kazoo._connection.session_timeout
            self.longest_timeout = max(self.longest_timeout, timeout / 1000)
            self._record("began", session=session, timeout=timeout)
        elif state == KazooState.CONNECTED and self._watched:
            self._set_watches_again()
        elif state == KazooState.SUSPENDED:
            self._record("lost")
            self._stay_away()
        elif state == KazooState.LOST and self._session is not None:
            self._record("over", session=self._session, why="expired")
            self._session = None

    def _stay_away(self) -> None:
        """If the client has dropped the connection itself, wait, so that what it watches may change meanwhile."""
        if self._goes_away:
            self._goes_away = False
            time.sleep(AWAY_SECONDS)

    def _set_watches_again(self) -> None:
        """Set all watches again at the server that the session has moved to, before anything else is sent there.

        ZooKeeper's own clients do this; kazoo does not.
        """
        kazoo, watched = self._kazoo, sorted(self._watched)

        def on_answer(_result: Any, zxid: Zxid, node: int) -> None:
            self._record("stand", node=node, zxid=pair(zxid))

        self._record("again", paths=watched)
        lists = [path for path in watched if path.endswith("/")]
        existing = [path for path in watched if self._watched[path] and path not in lists]
        missing = [path for path in watched if not self._watched[path]]
        request = SetWatches(kazoo.last_zxid, existing, missing, [path[:-1] for path in lists])
        kazoo._queue.appendleft((request, self._result(kazoo, on_answer, ROOT)))
        kazoo._connection._write_sock.send(b"\0")

    def _record(self, kind: str, **fields: Any) -> None:
        self._file.write(kind, self.number, **fields)


@dataclass(frozen=True, slots=True)
class SetWatches:
    """ZooKeeper's SetWatches request, which kazoo does not have.

    A watch fires at once if its znode was changed after `relative_zxid`. `data_watches` are the paths of znodes that existed
    when they were watched, `exist_watches` those of znodes that did not, and `child_watches` those of watched lists of
    children.
    """

    type: ClassVar[int] = 101

    relative_zxid: int
    data_watches: Sequence[str]
    exist_watches: Sequence[str]
    child_watches: Sequence[str]

    def serialize(self) -> bytes:
        lists = (self.data_watches, self.exist_watches, self.child_watches)
        return struct.pack("!q", self.relative_zxid) + b"".join(map(_encode_paths, lists))

    @staticmethod
    def deserialize(_data: bytes, _offset: int) -> None:
        """Return None: the answer has no content."""


def _encode_paths(paths: Sequence[str]) -> bytes:
    return struct.pack("!i", len(paths)) + b"".join(write_string(path) for path in paths)


def _ignore_event(_event: Any) -> None:
    """Do nothing: `record_watch_event` has recorded the event already. kazoo sets a watch only if it is given a function."""


def describe_event(event: Any) -> tuple[str, str]:
    """Return the path that a watch event is about, as sessions.jsonl names it, and the name of the change."""
    path = children_path(event.path) if event.type == CHILDREN_CHANGED else event.path
    return path, EVENT_NAMES.get(event.type, str(event.type))


def children_path(path: str) -> str:
    """Return the path under which sessions.jsonl has the list of a znode's children: the znode's, with a slash at its end."""
    return f"{path}/"


def read_fields(path: str, stat: Any, zxid: Zxid, node: int) -> dict[str, Any]:
    """Return the fields that sessions.jsonl has of a read. `stat` is None if there is no such znode."""
    fields = {"path": path, "node": node, "zxid": pair(zxid)}
    if stat is None:
        return fields
    owner = {"owner": stat.ephemeralOwner} if stat.ephemeralOwner else {}
    times = {"changed": pair(Zxid(stat.mzxid)), "created": pair(Zxid(stat.czxid))}
    return fields | times | {"version": stat.version} | owner


def append_session_ends(path: Path, ends: Mapping[int, Transaction]) -> None:
    """Append the ends of sessions, as the servers' logs have them, to sessions.jsonl; do nothing if there is no such file."""
    if not path.exists():
        return
    file = SessionsFile(path)
    for session, end in sorted(ends.items()):
        # cxid 0 means that the leader expired the session: no request of a client has this number.
        file.write("ended", 0, session=session, zxid=pair(Zxid(end.zxid)), asked=end.cxid != 0)
    file.close()
