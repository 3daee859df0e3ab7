"""Reads a ZooKeeper server's log file: its release, the epochs that it led, trees that differed from its leader's, crash
points, why it ended, and whether it ran out of memory.

`2026-01-31 12:00:00,250 [main] INFO ZooKeeperServer - Server environment:zookeeper.version=3.9.5-293c895, built on 2026-02-11`:
every release writes this at its start.

`2026-01-31 12:00:00,250 [...] INFO Leader - Have quorum of supporters, sids: [[2, 3]]; starting up and setting last processed
zxid: 0x100000000`: a quorum has acknowledged NEWLEADER. Every release writes this line; before 3.4.6 without the servers' ids.

`2026-01-31 12:00:00,250 [...] WARN DataTree - Message:Digests are not matching. Value is Zxid. Value:8589934593`: since 3.6 a
leader sends the digest of its tree with each transaction, and a server that applies the transaction compares its own. The first
difference is written at once; `Last value` is written after 15 minutes, or earlier if the trees are equal again.

`zab-chaos: reached before-write:TXN#2 at 83518677495433`: a rule of `points` is about to act. The time
is monotonic nanoseconds.

A tree that a leader sends, at `Getting a snapshot from leader 0x...`, may have effects of transactions that come after it. They
are sent too, and until the last of them is applied, before NEWLEADER, the trees differ although nothing is wrong. Likewise when
a server reads its own disk, at its start, in the thread `main`: transactions that its log has twice (a leader has sent them
again, for example after ZOOKEEPER-4394) are applied twice.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

_TIME = rb"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) "
_ESTABLISHED = re.compile(
    _TIME + rb".*Have quorum of supporters(?:, sids: ([^;]*))?; "
    rb"starting up and setting last processed zxid: 0x([0-9a-f]+)",
    re.MULTILINE,
)
_MISMATCH = re.compile(
    _TIME + rb"(?:.*(\[main\]))?.*(?:Digests are not matching\. Value is Zxid\. (Last value|Value):(\d+)$"
    rb"|(Getting a snapshot from leader)|Learner received|QuorumPeer - LOOKING)",
    re.MULTILINE,
)
_REPEATED_AFTER = 15 * 60_000  # milliseconds
_VERSION = re.compile(rb"environment:zookeeper\.version=([^,\s]+)")
REACHED = "zab-chaos: reached"
_POINT = re.compile(rf"{REACHED} (\S+) at (\d+)$".encode(), re.MULTILINE)
_ERROR = re.compile(
    rb"^[-\d]{10} [:\d]{8},\d{3} (?:.*\] )?ERROR .*? - (?!Exiting JVM)(.*\n(?:(?![-\d]{10} [:\d]{8},\d{3} ).*\n)*)",
    re.MULTILINE,
)  # with the lines of its exception
_TELLS_OF_ERROR = re.compile(rb"^(?!\s+at ).*(?:ERROR|Exception|Error)\b.*$", re.MULTILINE)
_OUT_OF_MEMORY = re.compile(rb"java\.lang\.OutOfMemoryError: [^\n]*")
_CAUSE = re.compile(rb"^(?:Caused by: )?((?:\w+\.)+\w*(?:Exception|Error)\b.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LeaderEstablished:
    """A server was established as the leader of an epoch, at `time` (milliseconds of the wall clock).

    `quorum` are the servers whose ACK of NEWLEADER counted; it is empty if the release does not log them.
    """

    time: int
    node: int
    life: int
    epoch: int
    quorum: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TreeMismatch:
    """A server found at `time` (milliseconds of the wall clock) that its tree differs from its leader's after `zxid`.

    `receiving`: it was receiving the tree, and its log does not say whether they became equal.
    """

    time: int
    node: int
    life: int
    zxid: int
    receiving: bool = False


@dataclass(frozen=True, slots=True)
class PointReached:
    """A server reached a crash point at `time` (monotonic nanoseconds)."""

    time: int
    node: int
    life: int
    point: str


def read_version(file: Path) -> str | None:
    """Return the version that the server says it is of, with that of its source; None if it has not said so."""
    said = _VERSION.search(_read(file))
    return said[1].decode(errors="replace") if said is not None else None


def read_points(file: Path, node: int, life: int) -> Iterator[PointReached]:
    """Yield the crash points that this life has reached, in the order of time; none if there is no log file."""
    for point, time in _POINT.findall(_read(file)):
        yield PointReached(int(time), node, life, point.decode())


def read_established(file: Path, node: int, life: int) -> Iterator[LeaderEstablished]:
    """Yield the epochs that this life led, in the order of time; none if there is no log file."""
    for time, servers, zxid in _ESTABLISHED.findall(_read(file)):
        quorum = tuple(sorted({int(number) for number in re.findall(rb"\d+", servers)}))
        yield LeaderEstablished(_milliseconds(time.decode()), node, life, int(zxid, 16) >> 32, quorum)


def read_tree_mismatches(file: Path, node: int, life: int) -> Iterator[TreeMismatch]:
    """Yield the mismatches that this life has found, in the order of time; none if there is no log file.

    Mismatches of a tree that was being received or read from the disk, and became equal meanwhile, are left out.
    """
    receiving = False
    first: TreeMismatch | None = None  # of a tree that is being received or read
    for at, main, kind, zxid, snapshot in _MISMATCH.findall(_read(file)):
        time = _milliseconds(at.decode())
        equal = first is not None and kind == b"Last value" and time - first.time < _REPEATED_AFTER
        if first is not None and not equal:
            yield first
        first = None
        if not zxid:
            receiving = bool(snapshot)
        elif not equal:
            found = TreeMismatch(time, node, life, int(zxid), receiving)
            if receiving or main:
                first = found
            else:
                yield found
    if first is not None:
        yield first


def exit_reason(file: Path) -> str | None:
    """Return why a server ended by itself, in its own words: the last error in its log file, or the root cause of an exception.

    None if there is no error, or no log file.
    """
    errors = _ERROR.findall(_read(file))
    if not errors:
        return None
    causes = _CAUSE.findall(errors[-1]) or errors[-1].splitlines()[:1]
    return str(causes[-1].decode(errors="replace")).strip()


def last_error(file: Path) -> str | None:
    """Return the last line that tells of an error, whatever its level; None if there is none."""
    lines = _TELLS_OF_ERROR.findall(_read(file))
    return str(lines[-1].decode(errors="replace")) if lines else None


def out_of_memory(file: Path) -> str | None:
    """Return the server's words that it has run out of memory, None if it has not said so."""
    said = _OUT_OF_MEMORY.search(_read(file))
    return said[0].decode(errors="replace") if said is not None else None


def _read(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""


def _milliseconds(time: str) -> int:
    """Return a log line's time, which is in UTC because the servers are started so, as milliseconds since the Unix epoch."""
    return round(datetime.strptime(f"{time} +0000", "%Y-%m-%d %H:%M:%S,%f %z").timestamp() * 1000)
