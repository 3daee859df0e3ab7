"""Reading the log files of each release line: established leaders, tree mismatches, and the reason of an exit."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from zab_chaos.harness.backends.zookeeper import points
from zab_chaos.harness.backends.zookeeper.server_log import (
    LeaderEstablished,
    PointReached,
    TreeMismatch,
    exit_reason,
    read_established,
    read_points,
    read_tree_mismatches,
)

THREAD = "[QuorumPeer[myid=3](plain=127.0.0.1:24645)(secure=disabled)]"
OTHERS = f"2026-01-31 12:00:00,100 {THREAD} INFO QuorumPeer - Peer state changed: leading\n\tat java.base/Thread.run\n"
NOON = 1_769_860_800_000  # 2026-01-31 12:00:00 UTC, in milliseconds


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The harness runs in another zone than UTC, in which the servers log."""
    monkeypatch.setenv("TZ", "CET-1CEST")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def log(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "node-3-2.log"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("line", "quorum"),
    [
        (f"{THREAD} INFO Leader - Have quorum of supporters, sids: [[2, 3]]; starting up", (2, 3)),  # from 3.5
        ("INFO  [QuorumPeer[myid=3]/127.0.0.1:32260] Leader - Have quorum of supporters, sids: [ 2,3 ]; starting up", (2, 3)),
        ("INFO  [LearnerHandler-/127.0.0.1:42834] Leader - Have quorum of supporters; starting up", ()),  # before 3.4.6
    ],
)  # fmt: skip
def test_each_release_line_logs_when_a_leader_is_established(
    tmp_path: Path, line: str, quorum: tuple[int, ...]
) -> None:
    text = f"{OTHERS}2026-01-31 12:00:00,250 {line} and setting last processed zxid: 0x1200000000\n{OTHERS}"
    assert list(read_established(log(tmp_path, text), 3, 2)) == [LeaderEstablished(NOON + 250, 3, 2, 0x12, quorum)]


def test_a_life_may_lead_several_epochs_or_none(tmp_path: Path) -> None:
    line = f"{THREAD} INFO Leader - Have quorum of supporters, sids: [[3, 1]]; starting up and setting last processed zxid:"
    text = f"2026-01-31 12:00:00,000 {line} 0x100000000\n2026-01-31 12:00:09,000 {line} 0x300000000\n"
    assert [(it.time, it.epoch, it.quorum) for it in read_established(log(tmp_path, text), 3, 2)] == [
        (NOON, 1, (1, 3)), (NOON + 9000, 3, (1, 3)),
    ]  # fmt: skip
    assert list(read_established(log(tmp_path, OTHERS), 3, 2)) == []
    assert list(read_established(tmp_path / "node-3-9.log", 3, 9)) == []


def test_a_server_says_which_crash_points_it_has_reached(tmp_path: Path) -> None:
    text = f"{OTHERS}zab-chaos: reached before-write:TXN#2 at 83518677495433\n{OTHERS}"
    assert list(read_points(log(tmp_path, text), 3, 2)) == [PointReached(83518677495433, 3, 2, "before-write:TXN#2")]
    assert list(read_points(tmp_path / "node-3-9.log", 3, 9)) == []


def test_the_rule_of_a_crash_point_says_it_before_it_acts() -> None:
    (act,) = [
        line for line in points.rule("after-sync:TXN#3", "crash", (3, 9, 5)).splitlines() if line.startswith("DO ")
    ]
    say = 'DO traceln("zab-chaos: reached after-sync:TXN#3 at " + java.lang.System.nanoTime())'
    assert act == f"{say}; killJVM()"


def test_a_server_logs_a_tree_mismatch_at_once_and_later_how_many(tmp_path: Path) -> None:
    line = "[CommitProcessor:3] WARN DataTree - {}Message:Digests are not matching. Value is Zxid. {}"
    once, later = line.format("", "Value:8589934593"), line.format("[7 times] ", "Last value:8589934600")
    text = f"{OTHERS}2026-01-31 12:00:00,250 {once}\n{OTHERS}2026-01-31 12:01:00,300 {later}\n"
    assert list(read_tree_mismatches(log(tmp_path, text), 3, 2)) == [
        TreeMismatch(NOON + 250, 3, 2, 2 << 32 | 1), TreeMismatch(NOON + 60_300, 3, 2, 2 << 32 | 8),
    ]  # fmt: skip
    assert list(read_tree_mismatches(log(tmp_path, OTHERS), 3, 2)) == []


def received_tree(*lines: str) -> str:
    """Return the log of a server that receives its leader's tree, with lines of the DataTree in between, one a second."""
    between = [f"{THREAD} WARN DataTree - {line}" for line in lines]
    begin, end = (
        f"{THREAD} INFO Learner - {it}" for it in ("Getting a snapshot from leader 0x200000000", "Learner received ")
    )
    text = [begin, *between, f"{end}NEWLEADER message", f"{end}UPTODATE message"]
    return "".join(f"2026-01-31 12:00:{second:02},000 {line}\n" for second, line in enumerate(text))


DIFFERS, LAST = (f"Digests are not matching. Value is Zxid. {it}:85899345" for it in ("Value", "Last value"))


@pytest.mark.parametrize("again", [f"[4 times] Message: {LAST}96", f"Message: {LAST}94"])
def test_a_tree_may_differ_while_it_is_received(tmp_path: Path, again: str) -> None:
    """The leader's tree has effects of transactions that it sends afterwards. `Last value`: the trees are equal again."""
    text = received_tree(f"Message:{DIFFERS}93", again)
    assert list(read_tree_mismatches(log(tmp_path, text), 3, 2)) == []
    later = text + f"2026-01-31 12:00:09,000 {THREAD} WARN DataTree - Message:{DIFFERS}99\n"
    assert list(read_tree_mismatches(log(tmp_path, later), 3, 2)) == [TreeMismatch(NOON + 9000, 3, 2, 2 << 32 | 7)]


@pytest.mark.parametrize("line", ["[main] WARN DataTree - {}", "WARN  [main] DataTree - {}"])
def test_a_tree_may_differ_while_it_is_read_from_a_log_that_has_transactions_twice(tmp_path: Path, line: str) -> None:
    """The first time they have been applied, the tree is ahead of the second time."""
    lines = [
        f"Message:{DIFFERS}93",
        f"[172 times] Message: {LAST}96",
        f"Message:{DIFFERS}97",
        f"[2 times] Message: {LAST}98",
    ]
    text = [f"2026-01-31 12:00:{second:02},000 {line.format(one)}\n" for second, one in enumerate(lines)]
    looking = f"2026-01-31 12:00:05,000 {THREAD} INFO QuorumPeer - LOOKING\n"
    assert list(read_tree_mismatches(log(tmp_path, "".join(text) + looking), 3, 2)) == []
    found = TreeMismatch(NOON + 2000, 3, 2, 2 << 32 | 5)  # they never became equal
    assert list(read_tree_mismatches(log(tmp_path, "".join(text[:3]) + looking), 3, 2)) == [found]
    assert list(read_tree_mismatches(log(tmp_path, "".join(text[:3])), 3, 2)) == [found]


def test_a_received_tree_that_does_not_become_equal_is_a_mismatch(tmp_path: Path) -> None:
    text = received_tree(f"Message:{DIFFERS}93")
    found = TreeMismatch(NOON + 1000, 3, 2, 2 << 32 | 1, receiving=True)
    assert list(read_tree_mismatches(log(tmp_path, text), 3, 2)) == [found]
    later = text + f"2026-01-31 12:01:02,000 {THREAD} WARN DataTree - [9 times] Message: {LAST}99\n"
    assert [it.receiving for it in read_tree_mismatches(log(tmp_path, later), 3, 2)] == [True, False]
    soon = received_tree(f"Message:{DIFFERS}93", f"[9 times] Message: {LAST}99").replace("12:00:02", "12:14:02")
    assert list(read_tree_mismatches(log(tmp_path, soon), 3, 2)) == []
    slow = received_tree(f"Message:{DIFFERS}93", f"[9 times] Message: {LAST}99").replace("12:00:02", "12:15:02")
    assert [it.receiving for it in read_tree_mismatches(log(tmp_path, slow), 3, 2)] == [True, True]


REFUSED = """\
2026-01-31 12:00:00,364 [main] ERROR Util - Last transaction was partial.
2026-01-31 12:00:00,375 [main] ERROR QuorumPeer - Unable to load database on disk
java.io.IOException: The current epoch, 2, is older than the last zxid, 12884901922
\tat org.apache.zookeeper.server.quorum.QuorumPeer.loadDataBase(QuorumPeer.java:1178)
2026-01-31 12:00:00,376 [main] ERROR QuorumPeerMain - Unexpected exception, exiting abnormally
java.lang.RuntimeException: Unable to run quorum server
\tat org.apache.zookeeper.server.quorum.QuorumPeer.loadDataBase(QuorumPeer.java:1204)
Caused by: java.io.IOException: The current epoch, 2, is older than the last zxid, 12884901922
\t... 4 more
2026-01-31 12:00:00,376 [main] INFO ZKAuditProvider - ZooKeeper audit is disabled.
2026-01-31 12:00:00,381 [main] ERROR ServiceUtils - Exiting JVM with code 1
"""
UNMATCHED = """\
2026-01-31 12:00:00,100 ERROR [main] FileTxnLog - An earlier one
java.io.EOFException
2026-01-31 12:00:00,200 ERROR [QuorumPeer[myid=1]/127.0.0.1:1] FollowerZooKeeperServer - Committing zxid 0x1 but not 0x2
2026-01-31 12:00:00,300 WARN  [main] Learner - Exception when following the leader
java.net.SocketException: Socket closed
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (REFUSED, "java.io.IOException: The current epoch, 2, is older than the last zxid, 12884901922"),
        (UNMATCHED, "Committing zxid 0x1 but not 0x2"),
        (UNMATCHED.replace("ERROR", "WARN "), None),
    ],
)
def test_the_reason_of_an_exit_is_the_last_error_in_the_log(tmp_path: Path, text: str, words: str | None) -> None:
    """For an exception it is the root cause. Warnings, and the line that the JVM exits, are ignored."""
    file = tmp_path / "node-1-4.log"
    assert exit_reason(file) is None
    file.write_text(text)
    assert exit_reason(file) == words
