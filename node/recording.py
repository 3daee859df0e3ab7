"""The recording: every input of a node's core and every output of `ready()`, so that the replay can re-execute the life.

A file is `MAGIC`, then blocks. A block is what one flush wrote, with one write(2). It has a header of three little-endian
u32: the length of the body, the running checksum (the CRC-32 of this body, continued from that of the block before), and
the header's own CRC-32 (of the first two, continued in the same way). Then comes the body, a MessagePack array of entries,
each `[kind, arguments...]`. So a changed byte, a dropped entry and two swapped entries break the checksum of their block,
and a dropped or moved block breaks that of the next one. Only the last block may be incomplete.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from zlib_ng.zlib_ng import crc32

from zab_chaos.node.append_file import NodeFile
from zab_chaos.node.core.messages import Message
from zab_chaos.node.core.ready import (
    Deliver,
    EpochRecord,
    Event,
    Install,
    MemberRecord,
    NewLeaderRecord,
    Ready,
    Recovered,
    SnapRecord,
    TruncRecord,
    TxnRecords,
)
from zab_chaos.node.core.settings import Settings
from zab_chaos.node.core.zxid import Zxid

MAGIC = b"zabrec2\n"
WHOLE_BYTES = 4096  # a larger Ready is not written whole: its payloads would be in the file five times
_HEADER = struct.Struct("<III")


class RecordedCall(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One call of the core by its driver."""


class Booted(RecordedCall, frozen=True, tag="boot"):
    """The core was created with these arguments: always the first entry."""

    life: int
    settings: Settings
    recovered: Recovered


class Started(RecordedCall, frozen=True, tag="start"):
    now: int


class LinkOpened(RecordedCall, frozen=True, tag="link_up"):
    peer: int


class LinkClosed(RecordedCall, frozen=True, tag="link_down"):
    peer: int
    why: str


class Stepped(RecordedCall, frozen=True, tag="step"):
    source: int
    message: Message


class Heard(RecordedCall, frozen=True, tag="heard"):
    """A part of a frame arrived."""

    source: int


class Ticked(RecordedCall, frozen=True, tag="tick"):
    now: int


class Submitted(RecordedCall, frozen=True, tag="submit"):
    txns: list[bytes]


class Synced(RecordedCall, frozen=True, tag="synced"):
    upto: int


class SnapshotTaken(RecordedCall, frozen=True, tag="snapshot"):
    """A snapshot was stored. `checksum` is the CRC-32 of the tree's state.

    A replay applies the deliveries itself and so has the state.
    """

    zxid: Zxid
    digest: int
    checksum: int


class ReadyTaken(RecordedCall, frozen=True, tag="ready"):
    """`ready()` was called; `content` is its result, see `encode_ready`. It is no input, but the call changes the core."""

    content: bytes | tuple[int, int]


class Ended(RecordedCall, frozen=True, tag="end"):
    """The life ended because it was asked to: always the last entry. A killed life has none."""


AnyEntry = (
    Booted
    | Started
    | LinkOpened
    | LinkClosed
    | Stepped
    | Heard
    | Ticked
    | Submitted
    | Synced
    | SnapshotTaken
    | ReadyTaken
    | Ended
)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[AnyEntry]).decode


def encode_ready(ready: Ready | None) -> bytes | tuple[int, int]:
    """Return all obligations of a Ready as bytes; (length, CRC-32) of them if they are longer than WHOLE_BYTES."""
    if ready is None:
        return b""
    data = _encode(
        [
            ready.resets,
            ready.events,
            ready.messages,
            [(type(record).__name__, record) for record in ready.records],
            ready.upto,
            ready.events_after_sync,
            ready.messages_after_sync,
            [(type(delivery).__name__, delivery) for delivery in ready.deliveries],
            ready.abort,
        ]
    )
    return data if len(data) <= WHOLE_BYTES else (len(data), crc32(data))


class _Contents(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The format of `encode_ready`. Records and deliveries are (name of the class, fields)."""

    resets: list[int]
    events: list[Event]
    messages: list[tuple[int, Message]]
    records: list[tuple[str, Any]]
    upto: int
    events_after_sync: list[Event]
    messages_after_sync: list[tuple[int, Message]]
    deliveries: list[tuple[str, Any]]
    abort: str | None


_decode_contents = msgspec.msgpack.Decoder(_Contents).decode
_RECORDS: dict[str, Any] = {
    kind.__name__: kind for kind in (EpochRecord, TxnRecords, TruncRecord, SnapRecord, NewLeaderRecord, MemberRecord)
}
_DELIVERIES: dict[str, Any] = {kind.__name__: kind for kind in (Deliver, Install)}


def decode_ready(data: bytes) -> Ready | None:
    """Return the Ready that `encode_ready` wrote as bytes. Raises msgspec.ValidationError or KeyError if it is none."""
    if not data:
        return None
    c = _decode_contents(data)
    return Ready(
        c.resets,
        c.events,
        c.messages,
        [msgspec.convert(fields, _RECORDS[name]) for name, fields in c.records],
        c.upto,
        c.events_after_sync,
        c.messages_after_sync,
        [msgspec.convert(fields, _DELIVERIES[name]) for name, fields in c.deliveries],
        c.abort,
    )


class Recording:
    """Appends to `<folder>/node-<id>-<life>.bin`.

    Like the trace, and always before it, it is written before an effect leaves the process.
    """

    def __init__(self, folder: str, node: int, life: int) -> None:
        self._file = NodeFile(Path(folder) / f"node-{node}-{life}.bin")
        self._entries: list[RecordedCall] = []
        self._running = 0
        self._file.write(MAGIC)

    def add(self, entry: RecordedCall) -> None:
        """Buffer one entry. Its contents must not change until `flush` writes it."""
        self._entries.append(entry)

    def flush(self) -> None:
        """Write the buffered entries. Raises DiskFailed."""
        if self._entries:
            body = _encode(self._entries)
            self._entries.clear()
            header, self._running = block_header(body, self._running)
            self._file.write(header + body)

    def close(self) -> None:
        """Add the last entry, because the life ends by its own decision, and close the file."""
        self.add(Ended())
        self.flush()
        self._file.close()


def block_header(body: bytes, running: int) -> tuple[bytes, int]:
    """Return the header of the block with this body, and the new running checksum."""
    checksum = crc32(body, running)
    start = _HEADER.pack(len(body), checksum, 0)[:8]
    return start + crc32(start, running).to_bytes(4, "little"), checksum


class DamagedRecording(Exception):
    """The file is not what a node wrote, from `offset` (bytes) on."""

    def __init__(self, offset: int, why: str) -> None:
        super().__init__(why)
        self.offset = offset


class RecordingReader:
    """Reads the blocks of one recording, in order.

    At the end, `torn` is the offset of an incomplete last block, or None.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.offset = 0  # where the block that was read last begins
        self.torn: int | None = None

    def blocks(self) -> Iterator[list[AnyEntry]]:
        """Yield each block's entries. Raises DamagedRecording, OSError."""
        with self._path.open("rb") as file:
            size, magic = os.fstat(file.fileno()).st_size, file.read(len(MAGIC))
            if not MAGIC.startswith(magic):
                raise DamagedRecording(0, f"does not begin as a recording does, with {MAGIC!r}")
            running, end = 0, len(MAGIC)
            while end < size:
                self.offset = end
                body = end + _HEADER.size
                if body > size:
                    break
                header = file.read(_HEADER.size)
                length, checksum, own = _HEADER.unpack(header)
                if crc32(header[:8], running) != own:
                    raise DamagedRecording(end, "the checksum of the block's header is wrong")
                end = body + length
                if end > size:
                    break
                content = file.read(length)
                running = crc32(content, running)
                if running != checksum:
                    raise DamagedRecording(self.offset, f"the checksum of the block of {length} bytes is wrong")
                yield self._entries(content)
            if end != size:
                self.torn = self.offset

    def _entries(self, body: bytes) -> list[AnyEntry]:
        try:
            return _decode(body)
        except msgspec.MsgspecError as error:
            raise DamagedRecording(self.offset, f"holds an entry that no node writes: {error}") from error
