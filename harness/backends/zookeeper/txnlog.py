"""ZooKeeper's transaction logs and what lies beside them, read as they are on a server's disk.

`version-2/log.<zxid hex>`: "ZKLG", version (int), dbid (long), of which a server checks "ZKLG" alone; then for each
transaction its Adler-32 (long), length (int), bytes, and `B`. The files are preallocated: after the last transaction come
zeros. All numbers are big-endian.
`version-2/snapshot.<zxid hex>`: of a snapshot only the name is read, if it is whole; it may hold more than it says. It ends
with the Adler-32 of everything before (long) and the text "/". One that a power cut has left in part is none: a server passes
over it.

A server that dies while it writes leaves an incomplete last transaction, which it drops at its next start; so does `read`.
What a server refuses to start with is damage, and said.
"""

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import BinaryIO
from zlib import adler32, crc32

from zab_chaos.node.core.digest import blake2b

VERSION_2 = "version-2"
MAGIC = b"ZKLG"
COMPRESSED = (".gz", ".snappy")  # snapshots, as zookeeper.snapshot.compression.method asks for them
LARGEST = 1 << 26  # bytes of one transaction; ZooKeeper takes 1 MiB from a client, and some more for itself

# Types of transactions.
CREATE, DELETE, SET, SET_ACL, CHECK, MULTI, CREATE_2, RECONFIG = 1, 2, 5, 7, 13, 14, 15, 16
CREATE_CONTAINER, DELETE_CONTAINER, CREATE_TTL = 19, 20, 21
SESSION, CLOSE, ERROR = -10, -11, -1
DIGEST_BYTES = 12  # version and digest of the tree, which follow a transaction since 3.6

_FILE = struct.Struct("!4siq")
_RECORD = struct.Struct("!qi")
_HEADER = struct.Struct("!qiqqi")  # client, cxid, zxid, time, type
_SEAL = struct.Struct("!qi1s")  # of a snapshot: Adler-32, and a text of one letter
_INT, _LONG = struct.Struct("!i"), struct.Struct("!q")
_NAME = re.compile(r"(log|snapshot)\.([0-9a-f]+)(\.\w+)?")

Step = tuple[str, str, int | None, int | None]  # op, path, version afterwards, CRC-32 of the data


@dataclass(frozen=True, slots=True)
class Transaction:
    """One of the log. `client` is a session, `cxid` the number of the request in its connection, `time` milliseconds of the
    leader's clock. `digest`: 64 bits of its bytes, without the digest of the tree that a server adds. `steps`: what it does
    to znodes (not to their lists of rights); none for a session that begins and for what failed. `ephemerals`: the paths of
    those that it creates for as long as the session is there. `obscure`: why it is not known what it does; None: it is."""

    zxid: int
    client: int
    cxid: int
    time: int
    type: int
    digest: int
    steps: tuple[Step, ...] = ()
    ephemerals: tuple[str, ...] = ()
    obscure: str | None = None


@dataclass(frozen=True, slots=True)
class Log:
    """What a server's disk holds. `transactions` by zxid, ascending; `snapshots` are the zxids of whole ones' names; `torn`:
    bytes of an incomplete end; `damage`, in words: where reading a file ended too soon, and what is obscure in it. `epochs`
    are (accepted, current), None where there is no such file."""

    transactions: tuple[Transaction, ...] = ()
    snapshots: tuple[int, ...] = ()
    torn: int = 0
    damage: tuple[str, ...] = ()
    epochs: tuple[int | None, int | None] = (None, None)

    @property
    def last(self) -> int:
        """The last zxid that is durable there; 0 if there is none."""
        logged = self.transactions[-1].zxid if self.transactions else 0
        return max(logged, max(self.snapshots, default=0))

    def last_before(self, epoch: int) -> int:
        """The last zxid that is durable there of the epochs before this one; 0 if there is none."""
        held = (*(one.zxid for one in self.transactions), *self.snapshots)
        return max((zxid for zxid in held if zxid >> 32 < epoch), default=0)


def read_disk(folder: Path) -> Log:
    """A dead server's disk, or what can be seen of a living one's. `folder` is its dataDir. Raises OSError.

    A server promises an epoch, has its history, and then joins it: read the other way round, nothing is seen too early."""
    inside = folder / VERSION_2
    current, accepted = _epoch(inside / "currentEpoch"), _epoch(inside / "acceptedEpoch")
    files = sorted(found for path in inside.glob("*") if (found := _numbered(path)) is not None)
    transactions: dict[int, Transaction] = {}
    torn, damage = 0, list[str]()
    for kind, _, path in files:
        if kind == "log":
            part = read(path.read_bytes(), path.name)
            _append(transactions, part.transactions)
            torn = part.torn
            damage += part.damage
    snapshots = tuple(number for kind, number, path in files if kind == "snapshot" and _is_whole(path))
    return Log(tuple(transactions.values()), snapshots, torn, tuple(damage), (accepted, current))


class LogEnd:
    """The last zxid in a living server's log, asked for again and again: only what is new is read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / VERSION_2
        self._file: Path | None = None
        self._at = 0  # where the last transaction that was seen begins
        self._zxid = 0

    def zxid(self) -> int:
        """0 if there is none."""
        logs = [(found[1], path) for path in self._folder.glob("log.*") if (found := _numbered(path)) is not None]
        newest = max(logs, default=(0, None))[1]
        if newest is None:
            return 0
        try:
            with newest.open("rb") as file:
                return self._read(newest, file)
        except OSError:  # it was removed this moment
            return 0

    def _read(self, path: Path, file: BinaryIO) -> int:
        for start in (self._at if path == self._file else _FILE.size, _FILE.size):
            file.seek(start)
            data, at, zxid, last = file.read(), 0, 0, 0
            while (record := _record(data, at)) is not None and adler32(record[1]) == record[0]:
                first, last, zxid = zxid == 0, at, _HEADER.unpack_from(record[1])[2]
                if first and start == self._at and path == self._file and zxid != self._zxid:
                    break  # it was cut, and something else stands there now
                at += _RECORD.size + len(record[1]) + 1
            else:
                if zxid or start == _FILE.size:
                    self._file, self._at, self._zxid = path, start + last, zxid
                    return zxid
        return 0


def read(data: bytes, name: str = "log") -> Log:
    """One log file."""
    if len(data) < _FILE.size:
        return Log(torn=_written(data, 0))  # its server died before it had written the head
    magic, _, _ = _FILE.unpack_from(data)
    if magic != MAGIC:
        return Log(damage=(f"{name} begins with {magic!r}, and is no transaction log",))
    found: list[Transaction] = []
    damage: list[str] = []
    at = _FILE.size
    while (record := _record(data, at)) is not None:
        checksum, body = record
        if adler32(body) != checksum or len(body) < _HEADER.size:
            damage.append(f"{name}: the transaction at byte {at} can't be read: its checksum or its length is wrong")
            return Log(tuple(found), damage=tuple(damage))
        found.append(decode(body))
        if found[-1].obscure is not None:
            damage.append(f"{name}: what the transaction at byte {at} does is not known: {found[-1].obscure}")
        at += _RECORD.size + len(body) + 1
    return Log(tuple(found), torn=_written(data, at), damage=tuple(damage))


def decode(body: bytes) -> Transaction:
    """A transaction's bytes, those of its header at least. What comes behind that may be of a kind that is not known here."""
    client, cxid, zxid, time, kind = _HEADER.unpack_from(body)
    reader = _Reader(body, _HEADER.size)
    try:
        steps = tuple(_steps(kind, reader))
        # A server that refuses a multi rewrites its steps while it logs them: which bytes are there is chance.
        refused = kind == MULTI and not steps
        if not refused and reader.left not in (0, DIGEST_BYTES):
            raise ValueError(f"{reader.left} bytes follow what one of type {kind} has")
    except (struct.error, IndexError, ValueError) as error:
        return Transaction(zxid, client, cxid, time, kind, blake2b(body), obscure=str(error))
    meant = _HEADER.size if refused else reader.at
    return Transaction(zxid, client, cxid, time, kind, blake2b(body[:meant]), steps, tuple(reader.ephemerals))


def _is_whole(snapshot: Path) -> bool:
    """Whether a server can read it. Of a compressed one that is not known, and it counts."""
    if snapshot.suffix in COMPRESSED:
        return True
    data = snapshot.read_bytes()
    if len(data) < _SEAL.size:
        return False
    checksum, length, mark = _SEAL.unpack_from(data, len(data) - _SEAL.size)
    return (length, mark) == (1, b"/") and bool(checksum == adler32(data[: -_SEAL.size]))


def _append(transactions: dict[int, Transaction], more: tuple[Transaction, ...]) -> None:
    """A later file goes on where its history does: what older ones have from there on was truncated."""
    first = more[0].zxid if more else None
    for zxid in [zxid for zxid in transactions if first is not None and zxid >= first]:
        del transactions[zxid]
    transactions.update((one.zxid, one) for one in more)


def _written(data: bytes, at: int) -> int:
    """How many bytes there are from here on, but for the zeros at the end."""
    return len(data[at:].rstrip(b"\0"))


def _record(data: bytes, at: int) -> tuple[int, bytes] | None:
    """(checksum, bytes); None at the end, also at an incomplete one."""
    if at + _RECORD.size > len(data):
        return None
    checksum, length = _RECORD.unpack_from(data, at)
    end = at + _RECORD.size + length
    if not 0 < length <= LARGEST or end >= len(data) or data[end : end + 1] != b"B":
        return None
    return checksum, data[at + _RECORD.size : end]


class _Reader:
    """Jute, ZooKeeper's way of writing records. `ephemerals`: the paths of those that were read."""

    def __init__(self, data: bytes, at: int, ephemerals: list[str] | None = None) -> None:
        self.at = at
        self.ephemerals: list[str] = [] if ephemerals is None else ephemerals
        self._data = data

    def number(self) -> int:
        (value,) = _INT.unpack_from(self._data, self.at)
        self.at += _INT.size
        return int(value)

    def flag(self) -> bool:
        self.at += 1
        return self._data[self.at - 1] != 0

    @property
    def left(self) -> int:
        return len(self._data) - self.at

    def skip(self, count: int) -> None:
        self.at += count

    def buffer(self) -> bytes:
        length = max(0, self.number())
        if self.at + length > len(self._data):
            raise IndexError("it is shorter than it says")
        self.at += length
        return self._data[self.at - length : self.at]

    def text(self) -> str:
        return self.buffer().decode()


def _steps(kind: int, reader: _Reader) -> Iterator[Step]:
    if kind in (CREATE, CREATE_2, CREATE_CONTAINER, CREATE_TTL):
        yield _created(kind, reader)
    elif kind in (DELETE, DELETE_CONTAINER):
        yield "delete", reader.text(), None, None
    elif kind in (SET, RECONFIG):
        path, data = reader.text(), reader.buffer()
        yield "set", path, reader.number(), crc32(data)
    elif kind == CHECK:
        yield "check", reader.text(), reader.number(), None
    elif kind == MULTI:
        parts = [(reader.number(), reader.buffer()) for _ in range(reader.number())]
        if all(part != ERROR for part, _ in parts):  # else it has failed, as a whole
            for part, data in parts:
                yield from _steps(part, _Reader(data, 0, reader.ephemerals))
    elif kind == CLOSE and reader.left > DIGEST_BYTES:  # before 3.6 it does not say what ends with the session
        for _ in range(reader.number()):
            yield "delete", reader.text(), None, None
    elif kind == SET_ACL:
        reader.buffer()
        _skip_acl(reader)
        reader.number()
    elif kind in (SESSION, ERROR):
        reader.number()
    elif kind != CLOSE:
        raise ValueError(f"type {kind} is not known")


def _created(kind: int, reader: _Reader) -> Step:
    path, data = reader.text(), reader.buffer()
    _skip_acl(reader)
    if kind in (CREATE, CREATE_2) and reader.flag():
        reader.ephemerals.append(path)
    reader.number()  # the parent's count of changes of its children
    if kind == CREATE_TTL:
        reader.skip(_LONG.size)
    return "create", path, 0, crc32(data)


def _skip_acl(reader: _Reader) -> None:
    for _ in range(reader.number()):
        reader.number()
        reader.buffer()
        reader.buffer()


def _numbered(path: Path) -> tuple[str, int, Path] | None:
    match = _NAME.fullmatch(path.name)
    return (match[1], int(match[2], 16), path) if match else None


def _epoch(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Difference:
    """A zxid on which two servers' logs differ: another transaction, or one of them has none between two that it has."""

    zxid: int
    one: int
    other: int
    missing: int | None  # the server that has none; None: both have one, and they are not the same


def differences(logs: Mapping[int, Log]) -> list[Difference]:
    """Where logs differ, within what both of two servers hold: before the first and after the last that one of them has
    nothing is said, because the beginning may be in a snapshot, and the end not there yet. Ascending."""
    found = []
    for (one, first), (other, second) in combinations(sorted(logs.items()), 2):
        here = {it.zxid: it.digest for it in first.transactions}
        there = {it.zxid: it.digest for it in second.transactions}
        if not here or not there:
            continue
        low, high = max(min(here), min(there)), min(max(here), max(there))
        for zxid in sorted(here.keys() | there.keys()):
            if low <= zxid <= high and here.get(zxid) != there.get(zxid):
                missing = one if zxid not in here else other if zxid not in there else None
                found.append(Difference(zxid, one, other, missing))
    return sorted(found, key=lambda it: (it.zxid, it.one, it.other))


def show(zxid: int) -> str:
    """`2:17`, as reports write it."""
    return f"{zxid >> 32}:{zxid & 0xFFFFFFFF}"
