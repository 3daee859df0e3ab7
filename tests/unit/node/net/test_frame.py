"""The frame format: what is packed can be parsed again; anything else is a BadFrame, never another error."""

import random
import struct
from typing import Any
from zlib import crc32

import msgspec
import pytest
from msgspec.structs import replace

from zab_chaos.node.channel import frame
from zab_chaos.node.channel.frame import HEADER_BYTES, BadFrame
from zab_chaos.node.channel.header import FrameHeader, FrameKind
from zab_chaos.node.core.messages import Ack, Message, Propose, TxnRun, Vote
from zab_chaos.node.core.zxid import zxid

CLUSTER = frame.cluster_hash("ours")
LIMIT = 2**20
DECODER: msgspec.msgpack.Decoder[list[Any]] = msgspec.msgpack.Decoder(list[Message])
HEADER = FrameHeader(CLUSTER, FrameKind.MESSAGES, 2, 1, 5, 7, 3, 11)


def read(data: bytes) -> tuple[FrameHeader, list[Any]]:
    header = frame.parse(data, CLUSTER, 1, LIMIT)
    return header, frame.messages(data, header, DECODER)


def good() -> bytes:
    return bytes(frame.pack(HEADER, [Ack(1, zxid(1, 2)), Propose(1, TxnRun(zxid(1, 3), [b"a", b"bc"]), zxid(1, 2), 9)]))


def summed(data: bytes | bytearray) -> bytes:
    """Return the frame with a correct checksum."""
    return bytes(data[:4]) + crc32(data[8:]).to_bytes(4, "big") + bytes(data[8:])


def test_a_packed_frame_can_be_parsed() -> None:
    messages = [
        Vote(1, 2, zxid(3, 4), 3, 0, False),
        Ack(1, zxid(1, 2)),
        Propose(1, TxnRun(zxid(1, 3), [b""]), zxid(0, 0), 9),
    ]
    data = bytes(frame.pack(HEADER, messages))
    header, got = read(data)
    assert header == HEADER
    assert got == messages


def test_parts_of_a_payload_are_put_together() -> None:
    payload = frame.encode([Ack(1, zxid(1, 2)), Ack(1, zxid(1, 3))])
    data = frame.pack(HEADER, msgspec.Raw(payload[5:]))
    header = frame.parse(data, CLUSTER, 1, LIMIT)
    assert frame.messages(data, header, DECODER, [payload[:2], payload[2:5]]) == [
        Ack(1, zxid(1, 2)),
        Ack(1, zxid(1, 3)),
    ]


@pytest.mark.parametrize("kind", [FrameKind.HELLO, FrameKind.WELCOME, FrameKind.THANKS])
def test_a_greeting_is_an_empty_array(kind: FrameKind) -> None:
    data = bytes(frame.pack(replace(HEADER, kind=kind, to=0), []))
    header, got = read(data)
    assert (header.kind, header.to, len(data), got) == (kind, 0, HEADER_BYTES + 1, [])


def test_extreme_numbers_fit_the_header() -> None:
    widest = replace(
        HEADER,
        sender=2**32 - 1,
        incarnation=frame.NUMBER_MAX,
        to=frame.NUMBER_MAX,
        session=frame.NUMBER_MAX,
        sequence=2**64 - 1,
    )
    header, _ = read(bytes(frame.pack(widest, [])))
    assert header == widest


def test_the_cluster_hash_is_stable_and_differs_by_name() -> None:
    assert frame.cluster_hash("ours") == CLUSTER
    assert 0 <= CLUSTER < 2**64
    assert len({frame.cluster_hash(f"zab-{i}") for i in range(1000)}) == 1000
    assert frame.cluster_hash("zab") == 13253275119518806544


@pytest.mark.parametrize(
    ("data", "reason", "sender"),
    [
        (b"", "truncated: 0 bytes", None),
        (good()[: HEADER_BYTES - 1], "truncated", None),
        (b"GET / HTTP/1.1\r\n" * 8, "not a frame of this protocol", None),
        (b"ZAB\x02" + good()[4:], "not a frame of this protocol and version", None),
        (good()[:-1], "bytes of payload announced", 2),
        (good() + b"\x00", "bytes of payload announced", 2),
        (good()[:-1] + b"\x77", "the checksum does not fit", 2),
        (
            bytes(frame.pack(replace(HEADER, cluster=1), [])),
            "from another ensemble, or from a node of it with another digest",
            None,
        ),
        (bytes(frame.pack(replace(HEADER, receiver=3), [])), "addressed to node 3", 2),
        (bytes(frame.pack(replace(HEADER, session=2**63), [])), "session 9223372036854775808 is out of range", 2),
        (bytes(frame.pack(replace(HEADER, incarnation=2**62 + 1), [])), "life 4611686018427387905 is out of range", 2),
        (bytes(frame.pack(replace(HEADER, to=2**64 - 1), [])), "life 18446744073709551615 is out of range", 2),
        (bytes(frame.pack(replace(HEADER, kind=5), [])), "neither messages nor an empty greeting", 2),
        (bytes(frame.pack(replace(HEADER, kind=1), [Ack(1, zxid(1, 2))])), "neither messages nor an empty", 2),
        (bytes(frame.pack(HEADER, [Propose(1, TxnRun(zxid(1, 1), [bytes(LIMIT)]), zxid(0, 0), 0)])), "oversized", 2),
        (bytes(frame.pack(HEADER, [["NOSUCH", 1]])), "the messages cannot be decoded", 2),
        (bytes(frame.pack(HEADER, [["ACK", 1, "x"]])), "the messages cannot be decoded", 2),
        (bytes(frame.pack(HEADER, {"not": "an array"})), "the messages cannot be decoded", 2),  # type: ignore[arg-type]
    ],
)
def test_a_bad_frame_names_the_fault_and_the_claimed_sender(data: bytes, reason: str, sender: int | None) -> None:
    with pytest.raises(BadFrame) as caught:
        read(data)
    assert reason in caught.value.reason
    assert caught.value.sender == sender


def test_every_flipped_bit_is_detected() -> None:
    data = good()
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadFrame):
            read(bytes(flipped))


def test_noise_raises_only_bad_frame() -> None:
    rng = random.Random(11)
    read_well = 0
    for _ in range(20_000):
        data = bytearray(good()[: rng.randrange(len(good()) + 1)] if rng.random() < 0.3 else good())
        for _ in range(rng.randrange(4)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        data += rng.randbytes(rng.choice((0, 0, 0, 1, 50)))
        if len(data) > HEADER_BYTES and rng.random() < 0.8:  # get past the checks, into the decoder
            data[HEADER_BYTES - 4 : HEADER_BYTES] = struct.pack(">I", len(data) - HEADER_BYTES)
            data = bytearray(summed(data))
        try:
            read(bytes(data))
            read_well += 1
        except BadFrame:
            pass
    assert 0 < read_well < 20_000


def test_deeply_nested_and_huge_payloads_are_bad_frames() -> None:
    for payload in (b"\x91" * 100_000, b"\xdd\xff\xff\xff\xff", b"\x91\x93\xa3ACK\xcf" + b"\xff" * 8, b"\xc1", b""):
        data = bytearray(bytes(frame.pack(HEADER, []))[:HEADER_BYTES]) + payload
        data[HEADER_BYTES - 4 : HEADER_BYTES] = struct.pack(">I", len(payload))
        with pytest.raises(BadFrame, match="cannot be decoded"):
            read(summed(data))
