"""The tree that all servers show in the end, and the one that the delivered transactions make."""

from typing import Any

import msgspec
import pytest

from tests.unit.model.oracle.delivered import Txn, delivered
from zab_chaos.model.events import FinalZnode
from zab_chaos.model.verdict import Judgement, Violation

# From 1:1 on.
HISTORY: list[Txn] = [
    (7, [["create", "/a", 0, 10]]),
    (7, [["create", "/a/x", 0, 11], ["create", "/a/y", 0, 12], ["set", "/a", 1, 13]]),
    (7, [["delete", "/a/x", None, None]]),
    (7, [["set", "/zookeeper/config", 1, 14]]),
    (7, []),
]
AT = [1, 5]


def kept(path: str, value: int, version: int, created: int, changed: int, children: int, below: int) -> dict[str, Any]:
    return {
        "t": 9, "zxid": AT, "path": path, "value": value, "version": version, "created": _at(created),
        "changed": _at(changed), "children_version": children, "children_changed": _at(below),
    }  # fmt: skip


def _at(counter: int) -> list[int]:
    return [1, counter] if counter else [0, 0]


TREE = {
    "/": kept("/", 0, 0, 0, 0, 0, 1),  # /zookeeper is one more
    "/a": kept("/a", 13, 1, 1, 2, 3, 3),
    "/a/y": kept("/a/y", 12, 0, 2, 2, 0, 2),
}


def found(tree: dict[str, dict[str, Any]], told: int | None = None) -> list[Violation]:
    oracle = delivered(HISTORY, told)
    for znode in tree.values():
        oracle.add_znode(msgspec.convert(znode, FinalZnode))
    checker = next(one for one in oracle.checkers if one.name == "state equality")
    assert checker.judgement() is Judgement.PASS
    checker.at_end()
    return checker.property().violations


def test_a_tree_that_the_history_makes() -> None:
    assert found(TREE) == []
    for owner in (7, -(1 << 63)):  # its session, or that it is a container
        assert found({**TREE, "/a/y": {**TREE["/a/y"], "owner": owner}}) == []


@pytest.mark.parametrize(
    ("path", "change", "words"),
    [
        ("/a", {"value": 10}, "all servers show /a with data 10, not 13 as the history makes it"),
        ("/a", {"version": 0, "changed": [1, 1]}, "all servers show /a with version 0, not 1, mzxid 1:1, not 1:2 as"),
        ("/a", {"children_version": 2}, "cversion 2, not 3"),
        ("/a", {"children_changed": [1, 2]}, "pzxid 1:2, not 1:3"),
        ("/a/y", {"owner": 8}, "all servers show /a/y with owner 0x8, which did not make it, as the history makes it"),
        ("/a/y", {"created": [1, 1]}, "czxid 1:1, not 1:2"),
        ("/", {"children_version": 1}, "all servers show / with cversion 1, not 0"),
        ("/a/y", None, "no server shows /a/y in the end, which the history has since 1:2"),
        ("/a/x", kept("/a/x", 11, 0, 2, 2, 0, 2), "all servers show /a/x in the end, which the history does not have"),
    ],
)
def test_a_tree_that_the_history_does_not_make(path: str, change: dict[str, Any] | None, words: str) -> None:
    tree = dict(TREE)
    if change is None:
        del tree[path]
    else:
        tree[path] = {**tree.get(path, {}), **change}
    (violation,) = found(tree)
    assert words in violation.words
    assert {one.file for one in violation.evidence} <= {"tree.jsonl", "trace/node-1-1.jsonl"}


def test_a_tree_is_that_of_its_own_zxid() -> None:
    early = {path: {**znode, "zxid": [1, 2]} for path, znode in TREE.items()}
    assert [one.words for one in found(early)] == [
        "all servers show /a with cversion 3, not 2, pzxid 1:3, not 1:2 as the history makes it",
        "no server shows /a/x in the end, which the history has since 1:2",
    ]


def test_where_nothing_says_what_a_transaction_does_no_tree_is_judged() -> None:
    assert found({"/": TREE["/"]}, told=4) == []
