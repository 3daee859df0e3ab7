"""The format of recordings: entries are read as they were written, and a Ready is decoded as it was encoded."""

from pathlib import Path

import pytest

from zab_chaos.model.replay import descriptions as words
from zab_chaos.node.core.messages import Commit, Propose, TxnRun
from zab_chaos.node.core.ready import (
    Deliver,
    EpochRecord,
    Event,
    Install,
    MemberRecord,
    NewLeaderRecord,
    Ready,
    SnapRecord,
    TruncRecord,
    TxnRecords,
)
from zab_chaos.node.core.zxid import zxid
from zab_chaos.node.recording import (
    WHOLE_BYTES,
    DamagedRecording,
    LinkClosed,
    Recording,
    RecordingReader,
    Submitted,
    Ticked,
    decode_ready,
    encode_ready,
)

FULL = Ready(
    resets=[2],
    events=[Event("role", {"role": "LOOKING", "leader": None, "why": "start"})],
    messages=[(2, Propose(1, TxnRun(zxid(1, 1), [b"a"]), zxid(0, 0), 2**64 - 1)), (3, Commit(1, zxid(1, 1), 7))],
    records=[
        EpochRecord(1),
        TruncRecord(zxid(1, 0)),
        SnapRecord(zxid(1, 1), 2**64 - 1, b"state"),
        TxnRecords(zxid(1, 2), [b"a", b""], [1, 0]),
        NewLeaderRecord(2),
        MemberRecord(),
    ],
    upto=9,
    events_after_sync=[Event("accept", {"digests": "0" * 16})],
    messages_after_sync=[(1, Commit(1, zxid(1, 1), 7))],
    deliveries=[Install(zxid(1, 1), 3, b"state"), Deliver(zxid(1, 2), [b"a"], [1], 4)],
    abort="a sanity check",
)


def test_a_ready_is_decoded_as_it_was_encoded() -> None:
    data = encode_ready(FULL)
    assert isinstance(data, bytes)
    again = decode_ready(data)
    assert again == FULL
    assert words.obligations(again) == words.obligations(FULL)


def test_a_ready_without_obligations_is_encoded_as_nothing() -> None:
    assert encode_ready(None) == b""
    assert decode_ready(b"") is None


def test_a_large_ready_is_its_length_and_checksum() -> None:
    small = encode_ready(Ready(deliveries=[Deliver(zxid(1, 1), [b"x" * (WHOLE_BYTES - 100)], [1], 4)]))
    large = encode_ready(Ready(deliveries=[Deliver(zxid(1, 1), [b"x" * WHOLE_BYTES], [1], 4)]))
    other = encode_ready(Ready(deliveries=[Deliver(zxid(1, 1), [b"x" * (WHOLE_BYTES - 1) + b"y"], [1], 4)]))
    assert isinstance(small, bytes)
    assert isinstance(large, tuple)
    assert isinstance(other, tuple)
    assert large[0] == other[0] > WHOLE_BYTES
    assert large[1] != other[1]


def test_entries_are_read_block_by_block(tmp_path: Path) -> None:
    recording = Recording(str(tmp_path), 2, 3)
    recording.flush()
    recording.add(Ticked(1))
    recording.add(LinkClosed(3, "gap"))
    recording.flush()
    recording.add(Submitted([b"a", b"b"]))
    recording.close()
    reader = RecordingReader(tmp_path / "node-2-3.bin")
    found = list(reader.blocks())
    assert [len(block) for block in found] == [2, 2]
    assert found[0] == [Ticked(1), LinkClosed(3, "gap")]
    assert found[1][0] == Submitted([b"a", b"b"])
    assert reader.torn is None


@pytest.mark.parametrize("size", [0, 5, 8, 12, 20, 25])
def test_a_truncated_recording_is_torn_but_not_damaged(tmp_path: Path, size: int) -> None:
    recording = Recording(str(tmp_path), 1, 1)
    recording.add(Ticked(1))
    recording.close()
    path = tmp_path / "node-1-1.bin"
    path.write_bytes(path.read_bytes()[:size])
    reader = RecordingReader(path)
    assert list(reader.blocks()) == []
    assert reader.torn == (None if size == 8 else 0 if size < 8 else 8)


def test_a_file_of_another_kind_is_damaged_at_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(b"\x93\xa4boot")
    with pytest.raises(DamagedRecording, match="does not begin as a recording"):
        list(RecordingReader(path).blocks())
