"""ZooKeeper's answers as outcomes: done, certainly not done, or unknown."""

from typing import Any

import pytest
from kazoo import exceptions as kazoo
from kazoo.protocol import serialization as theirs
from kazoo.protocol.states import ZnodeStat

from zab_chaos.harness.backends.zookeeper.answers import from_error, from_result, to_kazoo
from zab_chaos.node.core.zxid import ZERO, zxid
from zab_chaos.node.tree import refusal
from zab_chaos.node.tree.outcomes import Failed, Ok, Stat, Unknown
from zab_chaos.node.tree.requests import ANY, Check, Children, Create, Delete, Exists, Get, Multi, Request, Set

AT = zxid(2, 7)


def stat(version: int, changed: int = AT) -> Any:
    return ZnodeStat(1, changed, 0, 0, version, 0, 0, 0, 1, 0, 1)


def test_requests_become_zookeepers_requests() -> None:
    assert to_kazoo(Create("/a", b"1", sequential=True))[:2] == ("/a", b"1")
    assert to_kazoo(Create("/a", b"1", sequential=True)).flags == 2
    assert to_kazoo(Set("/a", b"2", 3)) == theirs.SetData("/a", b"2", 3)
    assert to_kazoo(Delete("/a")) == theirs.Delete("/a", -1)
    assert to_kazoo(Check("/a", 4)) == theirs.Transaction([theirs.CheckVersion("/a", 4)])
    assert [type(step).__name__ for step in to_kazoo(Multi([Create("/a"), Check("/b"), Delete("/c")])).operations] == [
        "Create", "CheckVersion", "Delete"
    ]  # fmt: skip
    assert (to_kazoo(Get("/a")).type, to_kazoo(Exists("/a")).type, to_kazoo(Children("/a")).type) == (4, 3, 12)


@pytest.mark.parametrize(
    ("request_", "result", "outcome"),
    [
        (Create("/a-", sequential=True), "/a-0000000001", Ok(AT, 0, "/a-0000000001")),
        (Set("/a", b"x"), stat(3), Ok(AT, 3)),
        (Delete("/a"), True, Ok(AT)),
        (Check("/a", 5), [True], Ok(AT, 5)),
        (Check("/a", ANY), [True], Ok(AT)),
        (Get("/a"), (b"x", stat(2)), Ok(AT, 2, data=b"x")),
        (Exists("/a"), None, Ok(AT)),
        (Exists("/a"), stat(1), Ok(AT, 1)),
        (Children("/a"), (["b", "c"], stat(1)), Ok(AT, 1, children=["b", "c"])),
        (
            Multi([Create("/a"), Set("/b", b""), Delete("/c"), Check("/d", 1)]),
            ["/a", stat(4), True, True],
            Ok(AT, steps=[Stat("/a", 0), Stat("/b", 4), Stat("/c", None), Stat("/d", 1)]),
        ),
    ],
)
def test_a_result_becomes_an_outcome_with_its_zxid(request_: Request, result: Any, outcome: Ok) -> None:
    assert from_result(request_, result, AT) == outcome


def test_a_write_whose_header_and_stat_have_different_zxids_has_none() -> None:
    assert from_result(Set("/a", b"x"), stat(3, zxid(2, 6)), AT) == Ok(ZERO, 3)
    assert from_result(Multi([Set("/a", b"x")]), [stat(3, zxid(2, 8))], AT) == Ok(ZERO, steps=[Stat("/a", 3)])
    assert from_result(Get("/a"), (b"x", stat(2, zxid(2, 6))), AT) == Ok(AT, 2, data=b"x")


@pytest.mark.parametrize(
    ("request_", "error", "name"),
    [
        (Set("/a", b""), kazoo.NoNodeError(), refusal.NO_NODE),
        (Create("/a/b"), kazoo.NoNodeError(), refusal.NO_PARENT),
        (Create("/a"), kazoo.NodeExistsError(), refusal.NODE_EXISTS),
        (Delete("/a"), kazoo.NotEmptyError(), refusal.NOT_EMPTY),
        (Set("/a", b"", 3), kazoo.BadVersionError(), refusal.BAD_VERSION),
        (Create("nowhere"), kazoo.BadArgumentsError(), refusal.BAD_REQUEST),
    ],
)
def test_a_refusal_becomes_failed(request_: Request, error: Exception, name: str) -> None:
    outcome = from_error(request_, error, AT)
    assert isinstance(outcome, Failed)
    assert (outcome.error, outcome.zxid) == (name, AT)


@pytest.mark.parametrize(
    "error",
    [
        kazoo.ConnectionLoss(), kazoo.SessionExpiredError(), kazoo.ConnectionClosedError(), kazoo.OperationTimeoutError(),
        kazoo.SystemZookeeperError(), kazoo.RuntimeInconsistency(), kazoo.SessionMovedError(), kazoo.ZookeeperError(),
        kazoo.MarshallingError(), RuntimeError("xids do not match"),
    ],
)  # fmt: skip
def test_any_other_error_becomes_unknown(error: Exception) -> None:
    assert isinstance(from_error(Set("/a", b""), error, AT), Unknown)


def test_a_refused_multi_has_the_error_of_its_failed_step() -> None:
    multi = Multi([Create("/a"), Create("/b/c"), Set("/d", b"")])
    rolled, after = kazoo.RolledBackError(), kazoo.RuntimeInconsistency()
    outcome = from_result(multi, [rolled, kazoo.NoNodeError(), after], AT)
    assert isinstance(outcome, Failed)
    assert outcome.error == refusal.NO_PARENT
    outcome = from_result(Check("/a", 1), [kazoo.BadVersionError()], AT)
    assert isinstance(outcome, Failed)
    assert outcome.error == refusal.BAD_VERSION
    assert isinstance(from_result(multi, [rolled, rolled, rolled], AT), Unknown)
    assert isinstance(from_result(multi, ["/a"], AT), Unknown)
