"""sessions.jsonl: the answers that clients got, and the ends of sessions from the servers' logs."""

import json
import signal
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest
from kazoo.client import KazooState
from kazoo.exceptions import ConnectionLoss, NoNodeError
from kazoo.protocol.serialization import Create, Delete, Exists, GetChildren2, SetData, Sync, Watch
from kazoo.protocol.states import EVENT_TYPE_MAP, EventType, ZnodeStat

from zab_chaos.harness.backends.zookeeper import client, session_load, sessions, written_evidence
from zab_chaos.harness.backends.zookeeper.evidence import RunEvidence, ServerLife
from zab_chaos.harness.backends.zookeeper.histories import session_ends
from zab_chaos.harness.backends.zookeeper.txnlog import CLOSE, Transaction, TxnLog
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine.interrupt import Stopped
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.events import trace_name
from zab_chaos.node.core.zxid import Zxid

ENDED = Transaction(1 << 32 | 5, 77, 1, 100, CLOSE, 0)
EXPIRED = Transaction(1 << 32 | 6, 78, 0, 100, CLOSE, 1)
EVIDENCE = RunEvidence(
    nodes=1,
    lives=[ServerLife(node=1, life=1, began=0, ended=9, disk_before=TxnLog(), disk_after=TxnLog((ENDED, EXPIRED)))],
)


def test_the_ends_of_sessions_are_appended(tmp_path: Path) -> None:
    file = tmp_path / "sessions.jsonl"
    file.write_text('{"type": "began"}\n')
    sessions.append_session_ends(file, session_ends(EVIDENCE))
    told, *ended = map(json.loads, file.read_text().splitlines())
    assert told == {"type": "began"}
    assert [(it["type"], it["session"], it["zxid"], it["asked"]) for it in ended] == [
        ("ended", 77, [1, 5], True), ("ended", 78, [1, 6], False)
    ]  # fmt: skip


def test_a_session_that_was_closed_and_then_expired_ended_when_it_was_closed() -> None:
    """The leader may let a session expire while its client's request to close it is under way."""
    again = Transaction(1 << 32 | 7, 77, 0, 100, CLOSE, 2)
    (life,) = EVIDENCE.lives
    given = replace(EVIDENCE, lives=[replace(life, disk_after=TxnLog((ENDED, EXPIRED, again)))])
    assert session_ends(given) == {77: ENDED, 78: EXPIRED}


def test_watches_are_set_again_by_zookeepers_own_request() -> None:
    """type 101: relativeZxid, and three lists of paths: dataWatches, existWatches, childWatches."""
    request = sessions.SetWatches(1 << 32 | 5, ["/a", "/bc"], [], ["/d"])
    assert request.type == 101
    since, there = b"\0\0\0\1\0\0\0\5", b"\0\0\0\2\0\0\0\2/a\0\0\0\3/bc"
    assert request.serialize() == since + there + b"\0\0\0\0" + b"\0\0\0\1\0\0\0\2/d"


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (EventType.CREATED, ("/a", "created")),
        (EventType.DELETED, ("/a", "deleted")),
        (EventType.CHANGED, ("/a", "changed")),
        (EventType.CHILD, ("/a/", "changed")),
        (9, ("/a", "9")),
    ],
)
def test_an_event_on_a_list_of_children_has_a_path_of_its_own(kind: str | int, told: tuple[str, str]) -> None:
    number = next((number for number, name in EVENT_TYPE_MAP.items() if name == kind), kind)
    assert sessions.describe_event(Watch(number, 3, "/a")) == told


def test_a_run_without_session_clients_has_no_sessions_file(tmp_path: Path) -> None:
    sessions.append_session_ends(tmp_path / "sessions.jsonl", session_ends(EVIDENCE))
    assert not any(tmp_path.iterdir())


def test_an_interrupt_leaves_all_of_the_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A history without the ends of its sessions would be a violation."""

    def end_of_grace(*_: object) -> None:
        raise Stopped

    def interrupted(*arguments: Any) -> None:
        signal.raise_signal(signal.SIGALRM)
        sessions.append_session_ends(*arguments)

    monkeypatch.setattr(written_evidence, "append_session_ends", interrupted)
    folder = RunFolder(tmp_path)
    folder.file("trace").mkdir()
    folder.file("sessions.jsonl").touch()
    before = signal.signal(signal.SIGALRM, end_of_grace)
    try:
        with pytest.raises(Stopped):
            written_evidence.write_evidence(EVIDENCE, folder)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert folder.file(trace_name(1, 1)).read_bytes()
    assert [line["session"] for line in folder.lines("sessions.jsonl")] == [77, 78]


class Connecting:
    """A fake of kazoo's connection that connects again while it is being stopped."""

    def __init__(self) -> None:
        self._socket: Connecting | None = None
        self.connection_stopped = self
        self.over = False

    def wait(self, _seconds: float) -> bool:
        self._socket = self
        return self.over

    def shutdown(self, _how: int) -> None:
        self.over = True

    def stop(self, _seconds: float) -> None:
        assert self.over, "it waits for the end of a connection that nobody ends"


def test_a_session_is_abandoned_also_while_its_client_connects() -> None:
    connection = Connecting()
    handler = SimpleNamespace(stop=lambda: None)
    client.end_session(SimpleNamespace(_stopped=Event(), _connection=connection, handler=handler), send_close=False)
    assert connection.over


def test_a_session_whose_client_does_not_end_is_a_mistake_of_the_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "STOP_SECONDS", 0.01)
    connection = SimpleNamespace(connection_stopped=Event(), _socket=None)
    with pytest.raises(HarnessError, match="kazoo's thread hangs"):
        client.end_session(SimpleNamespace(_stopped=Event(), _connection=connection), send_close=False)


class Kazoo:
    """A fake of kazoo's client that is connected to server 2 and keeps the requests."""

    last_zxid = 1 << 32 | 5

    def __init__(self, *_: Any, **__: Any) -> None:
        self.asked: list[tuple[int, Any, Any]] = []
        self._session_id = 77
        self._queue: deque[tuple[Any, Any]] = deque()
        peer = SimpleNamespace(getpeername=lambda: ("127.0.0.1", 2181))
        waker = SimpleNamespace(send=lambda _: None)
        self._connection = SimpleNamespace(
            _read_watch_event=None, _socket=peer, _write_sock=waker, session_timeout=2000
        )

    def add_listener(self, _: Any) -> None:
        pass

    remove_listener = add_listener

    def start_async(self) -> None:
        pass

    close = start_async

    def _call(self, request: Any, answer: Any) -> None:
        self.asked.append((time.monotonic_ns(), request, answer))


def begun(file: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[sessions.SessionClient, sessions.SessionsFile, Kazoo]:
    """Return a client that has begun a session, its file, and its fake kazoo."""
    kazoo, sessions_file = Kazoo(), sessions.SessionsFile(file)
    monkeypatch.setattr(sessions, "new_kazoo", lambda *_: kazoo)
    client = sessions.SessionClient(7, {2: "127.0.0.1:2181"}, sessions_file, lambda path: None)
    client.begin()
    return client, sessions_file, kazoo


def test_every_second_client_has_a_session_that_ends_before_a_silent_server_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeouts: list[float] = []
    monkeypatch.setattr(sessions, "new_kazoo", lambda _, seconds, __: timeouts.append(seconds) or Kazoo())
    file = sessions.SessionsFile(tmp_path / "sessions.jsonl")
    for number in range(1, 5):
        sessions.SessionClient(number, {2: "127.0.0.1:2181"}, file, lambda path: None).begin()
    file.close()
    assert timeouts == [2.0, 1.0, 2.0, 1.0]


def test_some_watches_are_set_on_a_znode_that_is_created_later(tmp_path: Path) -> None:
    load = session_load.SessionLoad({2: "127.0.0.1:2181"}, tmp_path / "sessions.jsonl", 1, 1)
    load._random = SimpleNamespace(random=lambda: 0.95, randrange=lambda _: 0, choice=lambda some: some[0])  # type: ignore[assignment]
    watched: list[tuple[str, bool]] = []
    load._act(SimpleNamespace(ready=True, read=lambda path, watch: watched.append((path, watch))))  # type: ignore[arg-type]
    assert watched == [("/sessions/e-1-1", True)]


@pytest.mark.parametrize(("serving", "seconds", "asked"), [(["b"], 20, ["a", "b"]), ([], -1, [])])
def test_the_permanent_znodes_are_created_at_any_server_that_serves_or_left_out(
    serving: list[str], seconds: float, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    created: list[str] = []

    @contextmanager
    def connected(address: str, _: float) -> Iterator[Any]:
        tried.append(address)
        if address not in serving:
            raise session_load.tree.TreeUnreadable(address)
        yield SimpleNamespace(ensure_path=created.append)

    monkeypatch.setattr(session_load.tree, "connected", connected)
    monkeypatch.setattr(session_load, "SETUP_SECONDS", seconds)
    session_load.SessionLoad({1: "a", 2: "b"}, tmp_path / "sessions.jsonl", 1, 1)._create_permanent_znodes()
    assert tried == asked
    assert len(created) == (session_load.PERMANENT_ZNODES + 1 if serving else 0)


def test_the_client_that_watches_all_begins_and_acts_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = session_load.SessionLoad({2: "127.0.0.1:2181"}, tmp_path / "sessions.jsonl", 1, 1)
    done: list[str] = []
    client: Any = SimpleNamespace(begin=lambda: done.append("begins"), close=lambda: done.append("closes"))
    watcher: Any = SimpleNamespace(**vars(client), act=lambda: done.append("acts"))
    load._clients, load._watcher = [client], watcher
    monkeypatch.setattr(load, "_create_permanent_znodes", lambda: None)
    monkeypatch.setattr(load, "_act", lambda _: load._stop.set())
    monkeypatch.setattr(load, "_record_final_reads", lambda: None)
    load._run()
    load.stop()
    assert done == ["begins", "begins", "acts", "closes", "closes"]


@pytest.mark.parametrize("ready", [True, False])
def test_a_session_is_closed_while_a_create_of_it_is_under_way(ready: bool, tmp_path: Path) -> None:
    load = session_load.SessionLoad({2: "127.0.0.1:2181"}, tmp_path / "sessions.jsonl", 1, 1)
    load._random = SimpleNamespace(random=lambda: 0.015, randrange=lambda _: 0)  # type: ignore[assignment]
    done: list[str] = []
    load._act(
        SimpleNamespace(
            ready=ready,
            create_ephemeral=lambda: done.append("create"),
            close=lambda silently: done.append(f"close {silently}"),
            begin=lambda: done.append("begin"),
        )  # type: ignore[arg-type]
    )
    assert done == [*["create"][:ready], "close False", "begin"]


@pytest.mark.parametrize(("timeout", "seconds"), [(1000, 8), (20_000, 80)])
def test_sessions_have_the_time_to_expire_that_the_servers_give_them(
    timeout: int, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=0.0)

    def sleep(nap: float) -> None:
        clock.now += nap

    monkeypatch.setattr(
        session_load,
        "time",
        SimpleNamespace(monotonic=lambda: clock.now, monotonic_ns=time.monotonic_ns, sleep=sleep),
    )
    monkeypatch.setattr(session_load, "read_ephemerals", lambda _: [("/sessions/e-1-1", stat_at(7), Zxid(7))])
    monkeypatch.setattr(sessions, "new_kazoo", lambda *_: Kazoo())
    load = session_load.SessionLoad({2: "127.0.0.1:2181"}, tmp_path / "sessions.jsonl", 1, 1)
    client = load._clients[0]
    client.begin()
    client._kazoo._connection.session_timeout = timeout
    client._state_changed(KazooState.CONNECTED)
    load._record_final_reads()
    assert clock.now == pytest.approx(seconds, abs=0.5)
    began, *_ = recorded(load._file, tmp_path / "sessions.jsonl")
    assert began == {"type": "began", "client": 1, "session": 77, "timeout": timeout}


@pytest.mark.parametrize("stays", [False, True])
def test_what_is_left_is_read_after_the_time_that_sessions_have_to_expire(
    stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading the second server took so long that what the first one had shown was old."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(
        session_load,
        "time",
        SimpleNamespace(monotonic=lambda: clock.now, monotonic_ns=time.monotonic_ns, sleep=lambda _: None),
    )

    def read(address: str) -> list[tuple[str, ZnodeStat, Zxid]]:
        expired = clock.now > 1.0 and not stays
        clock.now += 20.0 if address == "slow" else 0.0
        return [] if expired else [("/sessions/e-1-1", stat_at(7), Zxid(7))]

    monkeypatch.setattr(session_load, "read_ephemerals", read)
    load = session_load.SessionLoad({1: "first", 2: "slow"}, tmp_path / "sessions.jsonl", 1, 1)
    load._record_final_reads()
    load._file.close()
    lines = [json.loads(line) for line in tmp_path.joinpath("sessions.jsonl").read_text().splitlines()]
    assert [line["node"] for line in lines if line.get("last")] == ([1, 2] if stays else [])


def recorded(sessions_file: sessions.SessionsFile, file: Path) -> list[dict[str, Any]]:
    """Return the lines of the file without their times."""
    sessions_file.close()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [{key: line[key] for key in line if key != "t"} for line in lines]


def test_writes_and_refusals_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client, sessions_file, kazoo = begun(tmp_path / "sessions.jsonl", monkeypatch)
    for _ in range(3):
        client.set_data("/a")
    client.create_ephemeral()
    (_, first, done), (_, second, refused), (_, _, lost), (_, _, made) = kazoo.asked
    assert first.data != second.data
    done.set(SimpleNamespace(version=4, mzxid=1 << 32 | 6))
    refused.set_exception(NoNodeError())
    lost.set_exception(ConnectionLoss())
    made.set("/elsewhere")
    common = {"client": 7, "path": "/a", "zxid": [1, 5]}
    sent = {"type": "write", "client": 7, "op": "set", "path": "/a"}
    values = [crc32(request.data) for _, request, _ in kazoo.asked]
    assert recorded(sessions_file, tmp_path / "sessions.jsonl") == [
        *({**sent, "value": value} for value in values[:3]),
        {**sent, "op": "create", "path": "/sessions/e-7-1", "value": 0},
        {"type": "wrote", **common, "session": None, "value": crc32(first.data), "version": 4, "changed": [1, 6]},
        {"type": "refused", **common, "error": "no node", "node": 2},
        {"type": "made", **common, "session": None, "path": "/elsewhere"},
    ]


def test_reads_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client, sessions_file, kazoo = begun(tmp_path / "sessions.jsonl", monkeypatch)
    client.read("/a", watch=False)
    client.list_children("/a", watch=False)
    stat = ZnodeStat(1 << 32 | 2, 1 << 32 | 4, 0, 0, 3, 6, 0, 77, 0, 2, 1 << 32 | 5)
    for (_, _, answer), result in zip(kazoo.asked, (stat, (["c", "b"], stat)), strict=True):
        answer.set(result)
    common = {"type": "look", "client": 7, "node": 2, "zxid": [1, 5], "created": [1, 2], "owner": 77}
    assert recorded(sessions_file, tmp_path / "sessions.jsonl") == [
        {**common, "path": "/a", "changed": [1, 4], "version": 3},
        {**common, "path": "/a/", "changed": [1, 5], "version": 6, "children": ["c", "b"]},
    ]


def test_an_answered_sync_is_recorded_and_is_sent_before_a_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "sessions.jsonl"
    client, sessions_file, kazoo = begun(file, monkeypatch)
    client.sync_and_read("/a")
    client.sync_and_read("/a")
    assert [type(request) for _, request, _ in kazoo.asked] == [Sync, Exists, Sync, Exists]
    for _, request, answer in kazoo.asked[:2]:
        answer.set("/a" if isinstance(request, Sync) else None)
    for _, _, answer in kazoo.asked[2:]:
        answer.set_exception(ConnectionLoss())
    sessions_file.close()
    synced, look = map(json.loads, file.read_text().splitlines())
    assert (synced["type"], synced["client"], synced["node"], synced["zxid"]) == ("synced", 7, 2, [1, 5])
    assert synced["sent"] <= kazoo.asked[0][0]
    assert (look["type"], look["client"], look["path"]) == ("look", 7, "/a")


def test_a_read_of_data_has_its_value_and_watches_only_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "sessions.jsonl"
    client, sessions_file, kazoo = begun(file, monkeypatch)
    client.read_data("/a", watch=True)
    client.read_data("/b", watch=True)
    (_, _, there), (_, _, missing) = kazoo.asked
    there.set((b"data", stat_at(5)))
    missing.set_exception(NoNodeError())
    *_, look, refused = recorded(sessions_file, file)
    assert (look["type"], look["path"], look["value"], look["watch"]) == ("look", "/a", crc32(b"data"), True)
    assert refused == {
        "type": "refused", "client": 7, "path": "/b", "error": "no node", "node": 2, "zxid": [1, 5], "watch": True
    }  # fmt: skip
    assert client._watched == {"/a": True}


def in_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *names: str, times: int = 2
) -> tuple[sessions.SessionClient, Kazoo]:
    """Return a client that was told, so many times, that these wait for the lock. Its session is 77 = 0x4d."""
    client, _, kazoo = begun(tmp_path / "sessions.jsonl", monkeypatch)
    client._state_changed(KazooState.CONNECTED)
    for _ in range(times):
        client.stand_in_line()
        kazoo.asked[-1][2].set(([f"{name}-{number:010}" for number, name in enumerate(names)], stat_at(5)))
    return client, kazoo


def requests(kazoo: Kazoo) -> list[tuple[type, str]]:
    return [(type(request), request.path) for _, request, _ in kazoo.asked]


LIST = (GetChildren2, "/sessions/lock")


def test_a_client_creates_a_znode_that_waits_for_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client, kazoo = in_line(tmp_path, monkeypatch, "4")
    assert requests(kazoo) == [LIST, (Create, "/sessions/lock/4d-")] * 2
    first, second = (request for _, request, _ in kazoo.asked if isinstance(request, Create))
    assert first.data != second.data
    assert first.flags == 3  # ephemeral and sequential
    kazoo.asked[-1][2].set("/sessions/lock/4d-0000000001")
    assert requests(kazoo)[-1] == LIST
    client._state_changed(KazooState.LOST)
    kazoo.asked[-1][2].set(([], stat_at(5)))
    assert requests(kazoo)[-1] == LIST, "it asked for more without a session"


def test_a_client_watches_the_one_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client, kazoo = in_line(tmp_path, monkeypatch, "5", "4", "4d", "4d")
    assert requests(kazoo) == [LIST, (Exists, "/sessions/lock/4-0000000001")] * 2
    client._place.told_of_change("/sessions/lock/5-0000000000")
    assert len(kazoo.asked) == 4
    client._place.told_of_change("/sessions/lock/4-0000000001")
    assert requests(kazoo)[4:] == [LIST]
    kazoo.asked[3][2].set(None)  # it is gone before it could be watched
    assert requests(kazoo)[5:] == [LIST]


@pytest.mark.parametrize("answered", [True, False])
def test_the_first_one_uses_the_lock_and_releases_it_once(
    answered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, kazoo = in_line(tmp_path, monkeypatch, "4d", "4", times=1)
    assert requests(kazoo) == [LIST, (SetData, "/sessions/lock")]
    kazoo.asked[1][2].set(stat_at(5)) if answered else kazoo.asked[1][2].set_exception(ConnectionLoss())
    for _ in range(2):
        client.stand_in_line()
        kazoo.asked[-1][2].set((["4d-0000000000"], stat_at(5)))
    path = "/sessions/lock/4d-0000000000"
    assert [asked for asked in requests(kazoo)[2:] if asked != LIST] == [(Delete, path)]
    next(answer for _, request, answer in kazoo.asked if isinstance(request, Delete)).set(True)
    client._file.close()
    lines = list(map(json.loads, (tmp_path / "sessions.jsonl").read_text().splitlines()))
    _, sent = [line for line in lines if line["type"] == "write"]
    assert (sent["op"], sent["path"], "value" in sent) == ("delete", path, False)
    assert {key: lines[-1][key] for key in ("type", "session", "path", "zxid")} == {
        "type": "removed", "session": 77, "path": path, "zxid": [1, 5]
    }  # fmt: skip


def stat_at(changed: int) -> ZnodeStat:
    return ZnodeStat(changed, changed, 0, 0, 0, 0, 0, 0, 0, 0, changed)


def test_an_answer_to_a_session_that_was_closed_is_none_to_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "end_session", lambda *_, **__: None)
    file = tmp_path / "sessions.jsonl"
    client, sessions_file, kazoo = begun(file, monkeypatch)
    client.read("/a", watch=False)
    client.set_data("/a")
    client.close()
    monkeypatch.setattr(sessions, "new_kazoo", lambda *_: Kazoo())
    client.begin()
    kazoo.asked[0][2].set(stat_at(5))
    kazoo.asked[1][2].set_exception(NoNodeError())
    assert [line["type"] for line in recorded(sessions_file, file)] == ["write"]


def watching(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[sessions.SessionClient, sessions.SessionsFile, Kazoo]:
    """Return a client whose session watches a znode, one that does not exist, and a list of children."""
    client, sessions_file, kazoo = begun(tmp_path / "sessions.jsonl", monkeypatch)
    client._state_changed(KazooState.CONNECTED)
    client.read("/there", watch=True)
    client.read("/missing", watch=True)
    client.list_children("/list", watch=True)
    for (_, _, answer), result in zip(kazoo.asked, (stat_at(5), None, ([], stat_at(5))), strict=True):
        answer.set(result)
    return client, sessions_file, kazoo


def test_each_kind_of_watch_is_set_again_as_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client, sessions_file, kazoo = watching(tmp_path, monkeypatch)
    client._state_changed(KazooState.SUSPENDED)
    client._state_changed(KazooState.CONNECTED)
    ((request, answer),) = kazoo._queue
    assert request == sessions.SetWatches(1 << 32 | 5, ["/there"], ["/missing"], ["/list"])
    answer.set(None)
    lines = recorded(sessions_file, tmp_path / "sessions.jsonl")
    assert [line["type"] for line in lines][-3:] == ["lost", "again", "stand"]
    assert lines[-2]["paths"] == ["/list/", "/missing", "/there"]


def test_a_client_that_changes_servers_stays_away_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client, _, _ = begun(tmp_path / "sessions.jsonl", monkeypatch)
    away: list[float] = []
    monkeypatch.setattr(sessions.time, "sleep", away.append)
    monkeypatch.setattr(sessions, "drop_connection", lambda _: None)
    client._state_changed(KazooState.SUSPENDED)  # the server has gone away
    assert away == []
    client.reconnect()
    for _ in range(2):
        client._state_changed(KazooState.SUSPENDED)
    assert away == [sessions.AWAY_SECONDS]
    assert sessions.AWAY_SECONDS < sessions.SHORT_SESSION_SECONDS / 2


def test_a_new_session_has_no_watches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client, sessions_file, kazoo = watching(tmp_path, monkeypatch)
    client._state_changed(KazooState.LOST)
    kazoo._session_id = 78
    for state in (KazooState.CONNECTED, KazooState.SUSPENDED, KazooState.CONNECTED):
        client._state_changed(state)
    assert not kazoo._queue
    began = [
        line["session"] for line in recorded(sessions_file, tmp_path / "sessions.jsonl") if line["type"] == "began"
    ]
    assert began == [77, 78]


@pytest.mark.parametrize(("silently", "why"), [(False, "closed"), (True, "left")])
def test_a_session_that_was_left_was_not_closed(
    silently: bool, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(sessions, "end_session", lambda _, *, send_close: asked.append(send_close))
    client, sessions_file, _ = begun(tmp_path / "sessions.jsonl", monkeypatch)
    client._state_changed(KazooState.CONNECTED)
    client.close(silently=silently)
    over = {"type": "over", "client": 7, "session": 77, "why": why}
    assert recorded(sessions_file, tmp_path / "sessions.jsonl")[1:] == [over]
    assert asked == [not silently]
