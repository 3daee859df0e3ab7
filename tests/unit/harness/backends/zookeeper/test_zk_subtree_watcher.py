"""The client that watches a whole subtree: what it asks, when, and what it records."""

import json
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.client import KazooState
from kazoo.protocol.serialization import Exists

from zab_chaos.harness.backends.zookeeper import sessions, subtree_watcher
from zab_chaos.harness.backends.zookeeper.subtree_watcher import AddWatch, SubtreeWatcher
from zab_chaos.node.core.zxid import Zxid


@pytest.fixture
def watcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SubtreeWatcher:
    file = sessions.SessionsFile(tmp_path / "sessions.jsonl")
    made = SubtreeWatcher(9, {1: "127.0.0.1:1"}, file, lambda _: None)
    sent: list[Any] = []
    made._kazoo = SimpleNamespace(
        _session_id=5,
        connected=True,
        _queue=[],
        _pending=[],
        _call=lambda request, _: sent.append(request),
        sent=sent,
        _connection=SimpleNamespace(session_timeout=2000),
    )
    return made


def test_it_watches_anew_at_each_server(watcher: SubtreeWatcher, tmp_path: Path) -> None:
    for state in (KazooState.CONNECTED, KazooState.SUSPENDED, KazooState.CONNECTED):
        watcher._state_changed(state)
    assert watcher._kazoo.sent == [AddWatch("/sessions", 1)] * 2
    watcher._on_watching(None, Zxid(1 << 32 | 4), 1)
    watcher._told_of_change("/sessions/a", "created")
    watcher._on_answer(None, Zxid(1 << 32 | 5), 1)
    lines = [json.loads(line) for line in tmp_path.joinpath("sessions.jsonl").read_text().splitlines()]
    assert [line["type"] for line in lines] == ["began", "lost", "watching", "told", "heard"]
    assert [(line["node"], line["zxid"]) for line in (lines[2], lines[4])] == [(1, [1, 4]), (1, [1, 5])]
    assert (lines[3]["path"], lines[3]["what"]) == ("/sessions/a", "created")


def test_it_asks_again_and_again_and_sometimes_moves(watcher: SubtreeWatcher, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, moves = SimpleNamespace(now=100.0), []
    monkeypatch.setattr(subtree_watcher, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(watcher, "reconnect", lambda: moves.append(clock.now))
    for _ in range(80):  # eight seconds
        watcher.act()
        clock.now += 0.1
    assert 25 <= len(watcher._kazoo.sent) <= 40
    assert all(isinstance(request, Exists) for request in watcher._kazoo.sent)
    assert len(moves) == 1
    asked = len(watcher._kazoo.sent)
    watcher._kazoo.connected = False
    clock.now += 1.0
    watcher.act()
    assert len(watcher._kazoo.sent) == asked


def test_the_request_has_the_path_and_the_mode() -> None:
    assert AddWatch("/ab", 1).serialize() == struct.pack("!i3si", 3, b"/ab", 1)
