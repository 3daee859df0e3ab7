"""What a server says in its log of the epochs that it leads, of a tree that is not its leader's, and of why it ends.

`2026-01-31 12:00:00,250 [...] INFO Leader - Have quorum of supporters, sids: [[2, 3]]; starting up and setting last processed
zxid: 0x100000000`: a quorum has acknowledged NEWLEADER. Every release says it so; before 3.4.6 without the servers' numbers.

`2026-01-31 12:00:00,250 [...] WARN DataTree - Message:Digests are not matching. Value is Zxid. Value:8589934593`: since 3.6 a
leader sends the digest of its tree with each transaction, and who applies that compares. It is said at once, and then once a
minute at most.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

_TIME = rb"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) "
_STARTS = re.compile(
    _TIME + rb".*Have quorum of supporters(?:, sids: ([^;]*))?; "
    rb"starting up and setting last processed zxid: 0x([0-9a-f]+)",
    re.MULTILINE,
)
_DIFFERS = re.compile(_TIME + rb".*Digests are not matching\. Value is Zxid\..*?(\d+)$", re.MULTILINE)
_ERROR = re.compile(
    rb"^[-\d]{10} [:\d]{8},\d{3} (?:.*\] )?ERROR .*? - (?!Exiting JVM)(.*\n(?:(?![-\d]{10} [:\d]{8},\d{3} ).*\n)*)",
    re.MULTILINE,
)  # with the lines of its exception
_CAUSE = re.compile(rb"^(?:Caused by: )?((?:\w+\.)+\w*(?:Exception|Error)\b.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Led:
    """A server was established as the leader of an epoch. `time`: milliseconds of the wall clock; `quorum`: the servers whose
    ACK of NEWLEADER counted, none where the server does not say."""

    time: int
    node: int
    life: int
    epoch: int
    quorum: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Differs:
    """A server has found that its tree is another one than its leader had after `zxid`. `time`: as in `Led`."""

    time: int
    node: int
    life: int
    zxid: int


def led(file: Path, node: int, life: int) -> Iterator[Led]:
    """The epochs that this life led, in time. Nothing, if it left no log."""
    for time, servers, zxid in _STARTS.findall(_said(file)):
        quorum = tuple(sorted({int(number) for number in re.findall(rb"\d+", servers)}))
        yield Led(_milliseconds(time.decode()), node, life, int(zxid, 16) >> 32, quorum)


def differs(file: Path, node: int, life: int) -> Iterator[Differs]:
    """The differences that this life has found, in time. Nothing, if it left no log."""
    for time, zxid in _DIFFERS.findall(_said(file)):
        yield Differs(_milliseconds(time.decode()), node, life, int(zxid))


def reason(file: Path) -> str | None:
    """Why a server has ended by itself, in its own words: the last error in its log, and of an exception the first cause.
    None if there is no error, or no log."""
    errors = _ERROR.findall(_said(file))
    if not errors:
        return None
    causes = _CAUSE.findall(errors[-1]) or errors[-1].splitlines()[:1]
    return str(causes[-1].decode(errors="replace")).strip()


def _said(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""


def _milliseconds(time: str) -> int:
    """The log has the local time of this machine."""
    return round(datetime.strptime(time, "%Y-%m-%d %H:%M:%S,%f").timestamp() * 1000)
