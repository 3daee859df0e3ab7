"""The frame: the contents of one ZeroMQ message between two nodes.

A fixed header, big-endian, then a MessagePack array of messages:

    magic and version   4 bytes   b"ZAB" and 1
    checksum            u32       CRC-32 of all that follows it
    cluster             u64       hash of the ensemble's name (`NodeConfig.ensemble`)
    kind                u8        0 MESSAGES, 1 HELLO, 2 WELCOME, 3 THANKS, 4 PART
    sender, receiver    u32 each  node ids
    incarnation         u64       the sender's life
    to                  u64       the receiver's life as the sender knows it; 0 = not known yet
    session             u64       number of the channel's iteration (DSN 2011, section II)
    sequence            u64       MESSAGES, PART: number of this frame in its session, from 0; else: of the next one
    length              u32       bytes of the payload

HELLO, WELCOME and THANKS carry the empty array and use up no sequence number: see `zab_chaos.node.channel.session`. A long
array is split: PARTs carry its beginning, and the MESSAGES frame after them the rest. So its receiver hears from the sender
all the time that a slow link takes for it, and does not count the sender as gone. The header names the receiver so that a
wrongly wired proxy is not taken for a link: that is part of a channel's integrity.
"""

from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct
from typing import Any

import msgspec
from msgspec.structs import astuple
from zlib_ng.zlib_ng import crc32

from zab_chaos.node.channel.header import NUMBERED, FrameHeader, FrameKind

MAGIC = b"ZAB\x01"
EMPTY = b"\x90"  # MessagePack's empty array
NUMBER_MAX = 2**62  # of a session or a life: counting never gets there, and the next number still fits into the header
_UNSUMMED = Struct(">4sI")  # magic and checksum
_START = Struct(">QBIIQQQ")  # what is the same in all frames of one kind and session
_REST = Struct(">QI")  # sequence and length
_WHOLE = Struct(">4sIQBIIQQQQI")
_SUMMED_FROM = _UNSUMMED.size
HEADER_BYTES = _WHOLE.size
_LAST_KIND = int(FrameKind.PART)
encode = msgspec.msgpack.Encoder().encode  # messages as a payload
pack_start = _START.pack  # of (cluster, kind, sender, receiver, incarnation, to, session)


class BadFrame(Exception):
    """Received bytes are no frame of this ensemble for this node. `sender`: the node that they claim to be from, if any."""

    def __init__(self, reason: str, sender: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sender = sender


def cluster_hash(name: str) -> int:
    """Return the 64 bits by which frames name their ensemble."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big")


def pack(header: FrameHeader, messages: Any) -> bytes:
    """Return the bytes of a frame. `messages`: anything that msgspec encodes."""
    return pack_rest(pack_start(*astuple(header)[:7]), header.sequence, encode(messages))


def pack_rest(start: bytes, sequence: int, payload: bytes) -> bytes:
    """Return the bytes of a frame. `start`: what `pack_start` returned. `payload`: encoded messages, or a part of them."""
    summed = start + _REST.pack(sequence, len(payload))
    return b"".join((_UNSUMMED.pack(MAGIC, crc32(payload, crc32(summed))), summed, payload))


def parse(data: bytes, cluster: int, receiver: int, limit: int) -> FrameHeader:
    """Return the checked header of a frame. `limit`: its largest size in bytes. Raises BadFrame and nothing else."""
    size = len(data)
    if size < HEADER_BYTES:
        raise BadFrame(f"truncated: {size} bytes, and a header alone has {HEADER_BYTES}")
    fields = _WHOLE.unpack_from(data)
    magic, checksum, ensemble, kind, sender, to_node, incarnation, to, session, sequence, length = fields
    if magic != MAGIC:
        raise BadFrame("not a frame of this protocol and version")
    if ensemble != cluster:
        raise BadFrame("from another ensemble, or from a node of it with another digest")
    if size > limit:
        raise BadFrame(f"oversized: {size} bytes, and a frame has at most {limit}", sender)
    if length != size - HEADER_BYTES:
        raise BadFrame(f"{length} bytes of payload announced, {size - HEADER_BYTES} there", sender)
    if crc32(data[_SUMMED_FROM:]) != checksum:
        raise BadFrame("the checksum does not fit", sender)
    if kind not in NUMBERED and (kind > _LAST_KIND or data[HEADER_BYTES:] != EMPTY):
        raise BadFrame("neither messages nor an empty greeting", sender)
    if session > NUMBER_MAX or incarnation > NUMBER_MAX or to > NUMBER_MAX:
        raise BadFrame(_out_of_range(session=session, life=max(incarnation, to)), sender)
    if to_node != receiver:
        raise BadFrame(f"addressed to node {to_node}", sender)
    return FrameHeader(ensemble, kind, sender, to_node, incarnation, to, session, sequence)


def _out_of_range(**numbers: int) -> str:
    return next(f"{name} {number} is out of range" for name, number in numbers.items() if number > NUMBER_MAX)


def messages(
    data: bytes, header: FrameHeader, decoder: msgspec.msgpack.Decoder[list[Any]], parts: Sequence[bytes] = ()
) -> list[Any]:
    """Return the messages of a frame whose header `parse` accepted. `parts`: the payloads of the PARTs before it.

    Raises BadFrame and nothing else.
    """
    payload = data[HEADER_BYTES:]
    try:
        return decoder.decode(b"".join((*parts, payload)) if parts else payload)
    except Exception as error:  # whatever a peer sent, it must not end this node
        raise BadFrame(f"the messages cannot be decoded: {error}", header.sender) from None
