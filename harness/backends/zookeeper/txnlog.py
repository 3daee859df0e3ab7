"""Reads a ZooKeeper server's disk: its transaction logs, the names of its snapshots, and its epochs.

`version-2/log.<zxid hex>`: "ZKLG", version (int), dbid (long), of which a server checks only "ZKLG"; then for each transaction
its Adler-32 (long), length (int), bytes, and `B`. The files are preallocated: zeros follow the last transaction. All numbers
are big-endian.
`version-2/snapshot.<zxid hex>`: only the name is read, of snapshots that are complete; a snapshot may hold later transactions
than its name says. It ends with the Adler-32 of everything before (long) and the text "/". A snapshot that a power cut has left
incomplete does not count: a server passes over it.

A server that dies while it writes leaves an incomplete last transaction, which it drops at its next start; `read` drops it,
too. Contents that make a server refuse to start are reported as damage.
"""

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO
from zlib import adler32, crc32

from zab_chaos.node.core.digest import blake2b

VERSION_2 = "version-2"
MAGIC = b"ZKLG"
COMPRESSED = (".gz", ".snappy")  # of snapshots written with zookeeper.snapshot.compression.method
MAX_TRANSACTION_BYTES = 1 << 26  # far more than ZooKeeper's limit for a request, 1 MiB and a little

# Types of transactions.
CREATE, DELETE, SET, SET_ACL, CHECK, MULTI, CREATE_2, RECONFIG = 1, 2, 5, 7, 13, 14, 15, 16
CREATE_CONTAINER, DELETE_CONTAINER, CREATE_TTL = 19, 20, 21
SESSION, CLOSE, ERROR = -10, -11, -1
DIGEST_BYTES = 12  # since 3.6, the version and digest of the tree follow a transaction, unless digests are switched off
DIGEST_VERSION = 2  # of all releases so far

_FILE = struct.Struct("!4siq")
_RECORD = struct.Struct("!qi")
_HEADER = struct.Struct("!qiqqi")  # client, cxid, zxid, time, type
_SNAPSHOT_END = struct.Struct("!qi1s")  # Adler-32, and a text of one letter
_INT, _LONG = struct.Struct("!i"), struct.Struct("!q")
_NAME = re.compile(r"(log|snapshot)\.([0-9a-f]+)(\.\w+)?")

Step = tuple[str, str, int | None, int | None]  # op, path, version afterwards, CRC-32 of the data


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction in ZooKeeper's log.

    `client` is the session, `cxid` the number of the request in its connection, `time` milliseconds of the leader's clock.
    `digest` is a 64-bit hash of the transaction's bytes, without the digest of the tree that a server adds, and without the
    list at the end of a session, which a server before 3.6 leaves out when a leader of 3.6 sends it. `steps` are its
    changes of znodes (not of their access control lists); the start of a session and a failed request have none. `ephemerals`
    are the paths of ephemeral znodes that it creates. `obscure` says why its content could not be decoded; it is None
    otherwise.
    """

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
class TxnLog:
    """The contents of a server's disk, or of one log file.

    `transactions` are in the order of their zxids. `snapshots` are the zxids in the names of complete snapshots. `torn` is the
    number of bytes of an incomplete last transaction. `damage` says in words where a file could not be read on, and which
    transactions could not be decoded. `epochs` are (accepted, current), None where the file is missing. `disorder` is
    the first pair of zxids that the files have in the wrong order, the greater one first. `checksum` is of all bytes of a disk.
    """

    transactions: tuple[Transaction, ...] = ()
    snapshots: tuple[int, ...] = ()
    torn: int = 0
    damage: tuple[str, ...] = ()
    epochs: tuple[int | None, int | None] = (None, None)
    disorder: tuple[int, int] | None = None
    checksum: int = 0

    @property
    def last(self) -> int:
        """The last zxid that the disk holds; 0 if there is none."""
        logged = self.transactions[-1].zxid if self.transactions else 0
        return max(logged, max(self.snapshots, default=0))

    def last_before(self, epoch: int) -> int:
        """Return the last zxid that the disk holds of the epochs before this one; 0 if there is none."""
        snapshots = (zxid for zxid in self.snapshots if zxid >> 32 < epoch)
        return max(self.last_logged((epoch << 32) - 1), max(snapshots, default=0))

    def last_logged(self, upto: int) -> int:
        """Return the zxid of the last transaction up to a zxid; 0 if there is none."""
        at = bisect_right(self.transactions, upto, key=lambda txn: txn.zxid)
        return self.transactions[at - 1].zxid if at else 0


def read_disk(folder: Path) -> TxnLog:
    """Read the disk of a server, which may be running. `folder` is its dataDir. Raises OSError.

    A server writes acceptedEpoch, then the epoch's history, then currentEpoch. The files are read in the opposite order, so
    that an epoch never seems to be current before its history is there.
    """
    epochs = read_epochs(folder)
    files = sorted(found for path in (folder / VERSION_2).glob("*") if (found := _numbered(path)) is not None)
    transactions: dict[int, Transaction] = {}
    torn, damage = 0, list[str]()
    for kind, _, path in files:
        if kind == "log":
            part = read(path.read_bytes(), path.name)
            _append(transactions, part.transactions)
            torn = part.torn
            damage += part.damage
    snapshots = tuple(number for kind, number, path in files if kind == "snapshot" and _is_complete(path))
    in_order = tuple(transactions[zxid] for zxid in sorted(transactions))
    disorder = next(((one, other) for one, other in pairwise(transactions) if one > other), None)
    return TxnLog(in_order, snapshots, torn, tuple(damage), epochs, disorder, _checksum(folder / VERSION_2))


def _checksum(folder: Path) -> int:
    """Return the CRC-32 of the names and bytes of all files in a folder. Raises OSError."""
    checksum = 0
    for path in sorted(folder.glob("*")):
        with suppress(FileNotFoundError):  # a running server has removed it
            checksum = crc32(path.read_bytes(), crc32(path.name.encode(), checksum))
    return checksum


class LogEnd:
    """Finds the last zxid in a running server's log again and again, and reads only what is new each time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / VERSION_2
        self._file: Path | None = None
        self._at = 0  # offset of the last transaction that was read

    def zxid(self) -> int:
        """Return the last zxid; 0 if there is none."""
        logs = [(found[1], path) for path in self._folder.glob("log.*") if (found := _numbered(path)) is not None]
        newest = max(logs, default=(0, None))[1]
        if newest is None:
            return 0
        try:
            with newest.open("rb") as file:
                return self._read(newest, file)
        except OSError:  # it was removed in the meantime
            return 0

    def _read(self, path: Path, file: BinaryIO) -> int:
        """Read on from the last transaction, or what has taken its place. If the log was truncated before it, read it anew."""
        for start in (self._at if path == self._file else _FILE.size, _FILE.size):
            file.seek(start)
            data, at, zxid, last = file.read(), 0, 0, 0
            while (record := _record(data, at)) is not None and adler32(record[1]) == record[0]:
                last, zxid = at, _HEADER.unpack_from(record[1])[2]
                at += _RECORD.size + len(record[1]) + 1
            if zxid:
                self._file, self._at = path, start + last
                return int(zxid)
        return 0


def read(data: bytes, name: str = "log") -> TxnLog:
    """Parse the bytes of one log file; `name` is for the texts of `damage`."""
    if len(data) < _FILE.size:
        return TxnLog(torn=_bytes_left(data, 0))  # the server died before it had written the header
    magic, _, _ = _FILE.unpack_from(data)
    if magic != MAGIC:
        return TxnLog(damage=(f"{name} begins with {magic!r}, and is no transaction log",))
    found: list[Transaction] = []
    damage: list[str] = []
    at = _FILE.size
    while (record := _record(data, at)) is not None:
        checksum, body = record
        if adler32(body) != checksum or len(body) < _HEADER.size:
            damage.append(f"{name}: the transaction at byte {at} can't be read: its checksum or its length is wrong")
            return TxnLog(tuple(found), damage=tuple(damage))
        found.append(decode(body))
        if found[-1].obscure is not None:
            damage.append(f"{name}: the transaction at byte {at} can't be decoded: {found[-1].obscure}")
        at += _RECORD.size + len(body) + 1
    return TxnLog(tuple(found), torn=_bytes_left(data, at), damage=tuple(damage))


def decode(body: bytes) -> Transaction:
    """Decode a transaction's bytes, which have at least a complete header. The rest may be of an unknown type: see
    `obscure`."""
    client, cxid, zxid, time, kind = _HEADER.unpack_from(body)
    reader = _Reader(body, _HEADER.size)
    try:
        steps = tuple(_steps(kind, reader))
        # A server that refuses a multi changes its steps while it logs them, so the logged bytes are arbitrary.
        refused = kind == MULTI and not steps
        if not refused and reader.left not in (0, DIGEST_BYTES):
            raise ValueError(f"{reader.left} bytes follow the fields of type {kind}")
    except (struct.error, IndexError, ValueError) as error:
        return Transaction(zxid, client, cxid, time, kind, blake2b(body), obscure=str(error))
    end = _HEADER.size if refused or kind == CLOSE else reader.at
    return Transaction(zxid, client, cxid, time, kind, blake2b(body[:end]), steps, tuple(reader.ephemerals))


def _is_complete(snapshot: Path) -> bool:
    """Return whether a server can read a snapshot. A compressed one is not checked, and counts as complete."""
    if snapshot.suffix in COMPRESSED:
        return True
    data = snapshot.read_bytes()
    if len(data) < _SNAPSHOT_END.size:
        return False
    checksum, length, mark = _SNAPSHOT_END.unpack_from(data, len(data) - _SNAPSHOT_END.size)
    return (length, mark) == (1, b"/") and bool(checksum == adler32(data[: -_SNAPSHOT_END.size]))


def _append(transactions: dict[int, Transaction], more: tuple[Transaction, ...]) -> None:
    """Add the transactions of the next log file, and drop those of older files from its first zxid on: they were truncated."""
    first = more[0].zxid if more else None
    for zxid in [zxid for zxid in transactions if first is not None and zxid >= first]:
        del transactions[zxid]
    transactions.update((one.zxid, one) for one in more)


def _bytes_left(data: bytes, at: int) -> int:
    """Return the number of bytes from an offset on, without the zeros at the end."""
    rest = data[at:]
    if rest == bytes(len(rest)):  # megabytes of zeros are compared faster than removed
        return 0
    return len(rest.rstrip(b"\0"))


def _record(data: bytes, at: int) -> tuple[int, bytes] | None:
    """Return the (checksum, bytes) of the transaction at an offset; None at the end, or if the transaction is incomplete."""
    if at + _RECORD.size > len(data):
        return None
    checksum, length = _RECORD.unpack_from(data, at)
    end = at + _RECORD.size + length
    if not 0 < length <= MAX_TRANSACTION_BYTES or end >= len(data) or data[end : end + 1] != b"B":
        return None
    return checksum, data[at + _RECORD.size : end]


class _Reader:
    """Reads records in Jute, ZooKeeper's serialization. `ephemerals` collects the paths of ephemeral znodes."""

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

    @property
    def at_end(self) -> bool:
        """Whether nothing but the digest of the tree follows. Twelve bytes may also be a list with one path of four bytes."""
        return self.left == 0 or (
            self.left == DIGEST_BYTES and _INT.unpack_from(self._data, self.at) == (DIGEST_VERSION,)
        )

    def skip(self, count: int) -> None:
        self.at += count

    def buffer(self) -> bytes:
        length = max(0, self.number())
        if self.at + length > len(self._data):
            raise IndexError("a field is longer than the transaction")
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
        if all(part != ERROR for part, _ in parts):  # else the whole multi has failed
            for part, data in parts:
                yield from _steps(part, _Reader(data, 0, reader.ephemerals))
    elif kind == CLOSE and not reader.at_end:  # before 3.6 it does not list the ephemeral znodes
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
    reader.number()  # the parent's cversion
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


def read_epochs(folder: Path) -> tuple[int | None, int | None]:
    """Return (acceptedEpoch, currentEpoch) on the disk of a server, None where the file is missing."""
    current = _epoch(folder / VERSION_2 / "currentEpoch")
    return _epoch(folder / VERSION_2 / "acceptedEpoch"), current


def _epoch(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
