"""Reading a server's tree, comparing those of several, and writing it to tree.jsonl."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import ZnodeStat

from zab_chaos.harness.backends.zookeeper import tree
from zab_chaos.harness.backends.zookeeper.tree import ServerTree, ServerZnode, common, differences, write
from zab_chaos.model.events import FinalZnode
from zab_chaos.model.oracle.facts import Damage
from zab_chaos.model.runfiles import RunReader

ROOT = ServerZnode(0, 0, 0, 0, 0, 1, (2 << 32) + 7)
A = ServerZnode(
    value=5, version=3, created=(2 << 32) + 7, changed=(2 << 32) + 9, owner=77, children_version=0, children_changed=8
)


def written(since: int, zxid: int, folder: Path) -> list[FinalZnode]:
    write(ServerTree({"/": ROOT, "/a": A}, zxid, since), folder / "tree.jsonl")
    damages: list[Damage] = []
    found = list(RunReader(folder, damages.append).lines("tree.jsonl"))
    assert damages == []
    return found


def test_each_znode_is_written_as_a_line(tmp_path: Path) -> None:
    root, a = written(2 << 32 | 9, 2 << 32 | 9, tmp_path)
    assert (root.path, root.created, root.children_version, root.children_changed) == ("/", (0, 0), 1, (2, 7))
    assert (a.path, a.zxid, a.value, a.version, a.created, a.changed) == ("/a", (2, 9), 5, 3, (2, 7), (2, 9))
    assert (root.owner, a.owner) == (0, 77)


def test_a_tree_that_changed_while_it_was_read_is_not_written(tmp_path: Path) -> None:
    assert written(2 << 32 | 8, 2 << 32 | 9, tmp_path) == []


def test_servers_have_a_common_tree_if_those_that_could_be_read_showed_the_same() -> None:
    same, later = ServerTree({"/": ROOT}, 8, 8), ServerTree({"/": ROOT}, 9, 9)
    assert common({2: same, 3: later}) is later
    assert common({2: same, 3: later, 4: ServerTree({"/": ROOT, "/a": A}, 9, 9)}) is None
    assert common({}) is None


def test_a_znode_that_only_one_server_has_is_a_difference_on_whichever_side() -> None:
    with_it, without = ServerTree({"/": ROOT, "/a": A}, 9, 9), ServerTree({"/": ROOT}, 9, 9)
    for trees in ({1: with_it, 2: without}, {1: without, 2: with_it}):
        (found,) = differences(trees)
        assert found.startswith("/a: ")


class Server:
    """A fake of kazoo's client, on a server with these children. Without children, a znode was deleted meanwhile."""

    last_zxid = 9

    def __init__(self, children: dict[str, list[str]]) -> None:
        self._children = children

    def _answer(self, result: Any, path: str = "/") -> Any:
        def get(timeout: float) -> Any:
            if path not in self._children:
                raise NoNodeError
            return result

        return SimpleNamespace(get=get)

    def sync_async(self, path: str) -> Any:
        return self._answer(path)

    def get_async(self, path: str) -> Any:
        return self._answer((path.encode(), ZnodeStat(*[0] * 11)), path)

    def get_children_async(self, path: str) -> Any:
        return self._answer(self._children.get(path), path)


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_the_whole_tree_is_read_but_zookeepers_own(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(
        {
            "/": ["a", "gone", "zookeeper", "zookeeper-jobs", "z"], "/a": ["b"], "/a/b": [], "/z": [], "/zookeeper": ["quota"],
            "/zookeeper-jobs": ["zookeeper"], "/zookeeper-jobs/zookeeper": [],
        }
    )  # fmt: skip

    @contextmanager
    def connected(*_: Any) -> Iterator[Server]:
        yield server

    monkeypatch.setattr(tree, "connected", connected)
    monkeypatch.setattr(tree, "BATCH", batch)
    found = tree.read("127.0.0.1:2181").znodes
    assert sorted(found) == ["/", "/a", "/a/b", "/z", "/zookeeper-jobs", "/zookeeper-jobs/zookeeper"]


def test_a_server_that_does_not_answer_is_left_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """kazoo's own `stop` waits ten seconds for it."""
    monkeypatch.setattr(tree, "CONNECT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(tree.TreeUnreadable, match="accepts no client"):
            tree.read(f"127.0.0.1:{silent.getsockname()[1]}")
    assert time.monotonic() - began < 8
