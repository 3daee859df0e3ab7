"""The final tree of the servers, compared with the one that the delivered transactions make."""

from typing import Any

import msgspec
import pytest

from tests.unit.model.oracle.delivered import Txn, delivered
from zab_chaos.model.events import FinalZnode
from zab_chaos.model.verdict import Judgement, Violation

# The transactions 1:1, 1:2, ...: session and steps.
HISTORY: list[Txn] = [
    (7, [["create", "/a", 0, 10]]),
    (7, [["create", "/a/x", 0, 11], ["create", "/a/y", 0, 12], ["set", "/a", 1, 13]]),
    (7, [["delete", "/a/x", None, None]]),
    (7, [["set", "/zookeeper/config", 1, 14]]),
    (7, []),
]
AT = [1, 5]


def final_znode(
    path: str, value: int, version: int, created: int, changed: int, children: int, below: int
) -> dict[str, Any]:
    return {
        "t": 9, "zxid": AT, "path": path, "value": value, "version": version, "created": _at(created),
        "changed": _at(changed), "children_version": children, "children_changed": _at(below),
    }  # fmt: skip


def _at(counter: int) -> list[int]:
    return [1, counter] if counter else [0, 0]


TREE = {
    "/": final_znode("/", 0, 0, 0, 0, 0, 1),  # ZooKeeper adds /zookeeper
    "/a": final_znode("/a", 13, 1, 1, 2, 3, 3),
    "/a/y": final_znode("/a/y", 12, 0, 2, 2, 0, 2),
}


def violations_of(tree: dict[str, dict[str, Any]], known: int | None = None) -> list[Violation]:
    oracle = delivered(HISTORY, known)
    for znode in tree.values():
        oracle.add_znode(msgspec.convert(znode, FinalZnode))
    checker = next(one for one in oracle.checkers if one.name == "state equality")
    assert checker.judgement() is Judgement.PASS
    checker.at_end()
    return checker.property().violations


def test_the_tree_of_the_history_passes() -> None:
    assert violations_of(TREE) == []
    for owner in (7, -(1 << 63)):  # the session that created it, or the mark of a container
        assert violations_of({**TREE, "/a/y": {**TREE["/a/y"], "owner": owner}}) == []


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
        (
            "/a/x",
            final_znode("/a/x", 11, 0, 2, 2, 0, 2),
            "all servers show /a/x in the end, which the history does not have",
        ),
    ],
)
def test_a_tree_that_differs_from_the_history_is_a_violation(
    path: str, change: dict[str, Any] | None, words: str
) -> None:
    tree = dict(TREE)
    if change is None:
        del tree[path]
    else:
        tree[path] = {**tree.get(path, {}), **change}
    (violation,) = violations_of(tree)
    assert words in violation.words
    assert {one.file for one in violation.evidence} <= {"tree.jsonl", "trace/node-1-1.jsonl"}
    assert max(one.event["t"] for one in violation.evidence) == 9  # when the servers showed their trees


def test_a_tree_is_compared_with_the_history_up_to_its_zxid() -> None:
    early = {path: {**znode, "zxid": [1, 2]} for path, znode in TREE.items()}
    assert [one.words for one in violations_of(early)] == [
        "all servers show /a with cversion 3, not 2, pzxid 1:3, not 1:2 as the history makes it",
        "no server shows /a/x in the end, which the history has since 1:2",
    ]


def test_no_tree_is_judged_if_the_content_of_a_transaction_is_not_known() -> None:
    assert violations_of({"/": TREE["/"]}, known=4) == []
