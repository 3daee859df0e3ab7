"""The frame: what one ZeroMQ message between two nodes holds.

A fixed header, big-endian, then a MessagePack array of messages:

    magic and version   4 bytes   b"ZAB" and 1
    checksum            u32       CRC-32 of all that follows it
    cluster             u64       hash of the ensemble's name
    kind                u8        0 MESSAGES, 1 HELLO, 2 WELCOME, 3 THANKS
    sender, receiver    u32 each  node ids
    incarnation         u64       the sender's life
    to                  u64       the receiver's life as the sender knows it; 0 = not known yet
    session             u64       number of the channel's iteration (DSN 2011, section II)
    sequence            u64       MESSAGES: number of this frame in its session, from 0; else: of the next one
    length              u32       bytes of the payload

HELLO, WELCOME and THANKS carry the empty array and use up no sequence number: see `zab_chaos.node.channel.session`. The
receiver's id is there because a wrongly wired proxy must not pass for a link: it is part of a channel's integrity.
"""

from hashlib import blake2b
from struct import Struct
from typing import Any
from zlib import crc32

import msgspec

from zab_chaos.node.channel.header import Header, Kind

MAGIC = b"ZAB\x01"
EMPTY = b"\x90"  # MessagePack's empty array
NUMBER_MAX = 2**62  # of a session or a life: out of reach for honest counting, and the next one still fits the header
_HEADER = Struct(">4sIQBIIQQQQI")
_SUMMED = 8  # offset from which on the checksum counts
HEADER_BYTES = _HEADER.size
_ENCODER = msgspec.msgpack.Encoder()


class BadFrame(Exception):
    """What arrived is no frame of this ensemble for this node. `sender` is who it claims to be from, if it says so."""

    def __init__(self, reason: str, sender: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sender = sender


def cluster_hash(name: str) -> int:
    """The 64 bits by which frames name their ensemble."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big")


def pack(header: Header, messages: list[Any]) -> bytearray:
    """The frame's bytes; `header.length` is filled in. Messages are what msgspec can encode."""
    data = bytearray(HEADER_BYTES)
    _ENCODER.encode_into(messages, data, HEADER_BYTES)
    _HEADER.pack_into(data, 0, MAGIC, 0, *header[:-1], len(data) - HEADER_BYTES)
    with memoryview(data) as view:
        data[4:_SUMMED] = crc32(view[_SUMMED:]).to_bytes(4, "big")
    return data


def parse(data: bytes, cluster: int, receiver: int, limit: int) -> Header:
    """The checked header of a frame that is at most `limit` bytes long. Raises BadFrame and nothing else."""
    size = len(data)
    if size < HEADER_BYTES:
        raise BadFrame(f"truncated: {size} bytes, and a header alone has {HEADER_BYTES}")
    magic, checksum, *fields = _HEADER.unpack_from(data)
    header = Header._make(fields)
    if magic != MAGIC:
        raise BadFrame("not a frame of this protocol and version")
    if header.cluster != cluster:
        raise BadFrame("from another ensemble")
    if size > limit:
        raise BadFrame(f"oversized: {size} bytes, and a frame has at most {limit}", header.sender)
    if header.length != size - HEADER_BYTES:
        raise BadFrame(f"{header.length} bytes of payload announced, {size - HEADER_BYTES} there", header.sender)
    if crc32(memoryview(data)[_SUMMED:]) != checksum:
        raise BadFrame("the checksum does not fit", header.sender)
    if header.kind > Kind.THANKS or (header.kind and data[HEADER_BYTES:] != EMPTY):
        raise BadFrame("neither messages nor an empty greeting", header.sender)
    for name, number in (("session", header.session), ("life", header.incarnation), ("life", header.to)):
        if number > NUMBER_MAX:
            raise BadFrame(f"{name} {number} is out of range", header.sender)
    if header.receiver != receiver:
        raise BadFrame(f"addressed to node {header.receiver}", header.sender)
    return header


def messages(data: bytes, header: Header, decoder: msgspec.msgpack.Decoder[list[Any]]) -> list[Any]:
    """The messages of a frame whose header `parse` accepted. Raises BadFrame and nothing else."""
    try:
        return decoder.decode(memoryview(data)[HEADER_BYTES:])
    except Exception as error:  # whatever a peer sent, it must not end this node
        raise BadFrame(f"the messages cannot be decoded: {error}", header.sender) from None
