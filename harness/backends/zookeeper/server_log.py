"""What a server says in its log of the epochs that it leads, and of why it ends.

`2026-01-31 12:00:00,250 [...] INFO Leader - Have quorum of supporters, sids: [[2, 3]]; starting up and setting last processed
zxid: 0x100000000`: a quorum has acknowledged NEWLEADER. Every release says it so; before 3.4.6 without the servers' numbers.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

_STARTS = re.compile(
    rb"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) .*Have quorum of supporters(?:, sids: ([^;]*))?; "
    rb"starting up and setting last processed zxid: 0x([0-9a-f]+)",
    re.MULTILINE,
)
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


def read(file: Path, node: int, life: int) -> Iterator[Led]:
    """The epochs that this life led, in time. Nothing, if it left no log."""
    if not file.exists():
        return
    for time, servers, zxid in _STARTS.findall(file.read_bytes()):
        quorum = tuple(sorted({int(number) for number in re.findall(rb"\d+", servers)}))
        yield Led(_milliseconds(time.decode()), node, life, int(zxid, 16) >> 32, quorum)


def reason(file: Path) -> str | None:
    """Why a server has ended by itself, in its own words: the last error in its log, and of an exception the first cause.
    None if there is no error, or no log."""
    errors = _ERROR.findall(file.read_bytes()) if file.exists() else []
    if not errors:
        return None
    causes = _CAUSE.findall(errors[-1]) or errors[-1].splitlines()[:1]
    return str(causes[-1].decode(errors="replace")).strip()


def _milliseconds(time: str) -> int:
    """The log has the local time of this machine."""
    return round(datetime.strptime(time, "%Y-%m-%d %H:%M:%S,%f").timestamp() * 1000)
