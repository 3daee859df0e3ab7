"""Transaction logs: those that real servers wrote (tests/testdata/zookeeper), and damaged ones."""

import struct
from collections.abc import Callable
from functools import partialmethod
from pathlib import Path
from zlib import adler32, crc32

import pytest

from zab_chaos.harness.backends.zookeeper import txnlog
from zab_chaos.harness.backends.zookeeper.txnlog import TxnLog, read, read_disk

SAMPLES = Path(__file__).parents[4] / "testdata" / "zookeeper"
VERSIONS = ["3.4.10", "3.8.4", "3.9.4"]
HEAD = struct.pack("!4siq", b"ZKLG", 2, 0)
ZEROS = bytes(256)


def body(zxid: int, kind: int = txnlog.ERROR, rest: bytes = struct.pack("!i", -101)) -> bytes:
    return struct.pack("!qiqqi", 7, 1, zxid, 1000, kind) + rest


def record(data: bytes, checksum: int | None = None) -> bytes:
    return struct.pack("!qi", adler32(data) if checksum is None else checksum, len(data)) + data + b"B"


def snapshot(data: bytes) -> bytes:
    return data + struct.pack("!qi", adler32(data), 1) + b"/"


def zxids(log: TxnLog) -> list[int]:
    return [one.zxid for one in log.transactions]


@pytest.mark.parametrize("version", VERSIONS)
def test_logs_of_real_servers_are_read_to_their_end(version: str) -> None:
    log = read((SAMPLES / version / "log.100000001").read_bytes())
    assert zxids(log) == [(1 << 32) + number for number in range(1, 12)]
    assert (log.torn, log.damage) == (0, ())
    steps = {one.zxid & 0xFFFF: one.steps for one in log.transactions}
    assert steps[1] == ()  # the session
    assert steps[2] == (("create", "/a", 0, crc32(b"1")),)
    assert steps[3] == (("set", "/a", 1, crc32(b"22")),)
    assert steps[4] == (("create", "/a/s-0000000000", 0, 0),)
    assert [step[:3] for step in steps[5]] == [
        ("create", "/b", 0), ("check", "/a", 2), ("set", "/a", 2), ("delete", "/b", None)
    ]  # fmt: skip
    assert steps[6] == ()  # a multi that was refused as a whole
    assert steps[7] == steps[8] == ()  # refused
    assert steps[9] == (("delete", "/a/s-0000000000", None, None),)
    assert len({one.client for one in log.transactions}) == 1
    assert [one.cxid for one in log.transactions][:4] == [0, 1, 2, 3]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_log_cut_anywhere_is_read_to_the_last_complete_transaction(version: str) -> None:
    data = (SAMPLES / version / "log.100000001").read_bytes()
    whole = zxids(read(data))
    length = len(data.rstrip(b"\0"))
    seen = set()
    for cut in range(len(HEAD), length + 1):
        log = read(data[:cut] + ZEROS)
        assert log.damage == ()
        assert zxids(log) == whole[: len(log.transactions)]
        seen.add(len(log.transactions))
    assert seen == set(range(12))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_flipped_bit_is_damage(version: str) -> None:
    data = bytearray((SAMPLES / version / "log.100000001").read_bytes())
    first = 16 + 12 + 20  # within the first transaction's bytes
    data[first] ^= 1
    log = read(bytes(data), "log.1")
    assert zxids(log) == []
    assert log.damage == ("log.1: the transaction at byte 16 can't be read: its checksum or its length is wrong",)


def creation(path: str, kept: int) -> bytes:
    text = path.encode()
    return struct.pack("!i", len(text)) + text + struct.pack("!ii?i", 0, 0, not kept, 1)


def test_the_ephemeral_znodes_of_a_transaction_or_a_multi_are_listed() -> None:
    parts = [creation("/kept", 1), creation("/e-1", 0), creation("/e-2", 0)]
    multi = struct.pack("!i", len(parts)) + b"".join(struct.pack("!ii", txnlog.CREATE, len(one)) + one for one in parts)
    log = read(HEAD + record(body(5, txnlog.CREATE, parts[1])) + record(body(6, txnlog.MULTI, multi)) + ZEROS)
    assert [one.ephemerals for one in log.transactions] == [("/e-1",), ("/e-1", "/e-2")]
    assert [step[1] for step in log.transactions[1].steps] == ["/kept", "/e-1", "/e-2"]


def test_zeros_end_a_log_and_other_bytes_after_the_last_transaction_are_torn() -> None:
    data = HEAD + record(body(5))
    assert read(data + ZEROS).torn == 0
    torn = read(data + record(body(6))[:-5] + ZEROS)
    assert (zxids(torn), torn.damage) == ([5], ())
    assert torn.torn == len(record(body(6))[:-5].rstrip(b"\0"))
    assert read(b"") == read(HEAD) == TxnLog()
    assert read(HEAD[:3]) == TxnLog(torn=3)


def test_a_wrong_checksum_ends_the_reading_and_is_damage() -> None:
    log = read(HEAD + record(body(5)) + record(body(6), checksum=1) + record(body(7)) + ZEROS, "log.5")
    assert zxids(log) == [5]
    assert "checksum" in log.damage[0]


def test_a_transaction_that_was_logged_twice_counts_once(tmp_path: Path) -> None:
    """A server of 3.8.4 has done this with transactions that its leader sent twice."""
    log = tmp_path / "version-2" / "log.5"
    log.parent.mkdir()
    log.write_bytes(HEAD + b"".join(record(body(at)) for at in (5, 6, 5, 6, 7)) + ZEROS)
    assert zxids(txnlog.read_disk(tmp_path)) == [5, 6, 7]


SAME_TEXT = struct.pack("!i", 2) + b"/a" + struct.pack("!i", 0)


@pytest.mark.parametrize(
    ("kind", "rest", "why"),
    [
        (txnlog.SET, struct.pack("!i", 400) + b"/a", "a field is longer than the transaction"),
        (
            txnlog.SET,
            struct.pack("!i", 2) + b"/\xff" + SAME_TEXT[-4:] + bytes(4),
            "'utf-8' codec can't decode byte 0xff",
        ),
        (txnlog.SET, SAME_TEXT + struct.pack("!i", 1) + bytes(5), "5 bytes follow the fields of type 5"),
        (txnlog.DELETE, SAME_TEXT, "4 bytes follow the fields of type 2"),
        (99, bytes(8), "type 99 is not known"),
        (txnlog.MULTI, struct.pack("!iii", 1, 99, 0), "type 99 is not known"),
    ],
)
def test_a_transaction_that_cannot_be_decoded_is_kept_and_reported_as_damage(kind: int, rest: bytes, why: str) -> None:
    log = read(HEAD + record(body(6, kind, rest)) + record(body(7)) + ZEROS, "log.6")
    assert zxids(log) == [6, 7]
    (told,) = log.damage
    assert told.startswith("log.6: the transaction at byte 16 can't be decoded: ")
    assert why in told
    assert [one.obscure is None for one in log.transactions] == [False, True]
    assert log.transactions[0] != read(HEAD + record(body(6, kind, rest + b"\0"))).transactions[0]


def test_a_transaction_without_a_header_ends_the_reading() -> None:
    log = read(HEAD + record(bytes(31)) + record(body(7)) + ZEROS, "log.6")
    assert (zxids(log), log.damage) == (
        [],
        ("log.6: the transaction at byte 16 can't be read: its checksum or its length is wrong",),
    )


def test_a_file_that_is_no_log_is_damage() -> None:
    assert "is no transaction log" in read(b"SQLite format 3\0" + ZEROS, "log.1").damage[0]
    assert "is no transaction log" in read(HEAD[:3] + ZEROS).damage[0]  # a server refuses to start with it


@pytest.mark.parametrize("version", [0, 1, 3, -1])
def test_the_version_in_the_header_is_ignored_as_servers_do(version: int) -> None:
    """`FileTxnIterator.inStreamCreated` compares the magic number, and nothing else."""
    head = struct.pack("!4siq", b"ZKLG", version, 0)
    assert read(head + record(body(5)) + ZEROS) == read(HEAD + record(body(5)) + ZEROS)


@pytest.mark.parametrize("digest", [b"", struct.pack("!iq", 2, 5)])
@pytest.mark.parametrize("paths", [[], ["/e"], ["/e-1"], ["/e", "/f"]])
def test_the_deletes_of_a_closed_session_are_read_if_the_log_lists_them(paths: list[str], digest: bytes) -> None:
    """There is no digest with zookeeper.digest.enabled=false."""
    listed = b"".join(struct.pack("!i", len(path)) + path.encode() for path in paths)
    log = read(HEAD + record(body(9, txnlog.CLOSE, struct.pack("!i", len(paths)) + listed + digest)))
    assert log.damage == ()
    assert log.transactions[0].steps == tuple(("delete", path, None, None) for path in paths)


@pytest.mark.parametrize("digest", [b"", struct.pack("!iq", 2, 5)])
def test_a_closed_session_without_a_list_has_no_steps(digest: bytes) -> None:
    """Before 3.6, and with zookeeper.closeSessionTxn.enabled=false."""
    (old,) = read(HEAD + record(body(9, txnlog.CLOSE, digest))).transactions
    assert (old.steps, old.obscure) == ((), None)


def test_the_digest_of_the_tree_is_no_part_of_a_transaction() -> None:
    (one,) = read(HEAD + record(body(9) + bytes(12))).transactions
    (other,) = read(HEAD + record(body(9) + b"x" * 12)).transactions
    (third,) = read(HEAD + record(body(9, rest=struct.pack("!i", -110)))).transactions
    assert one == other
    assert third.digest != one.digest


def test_the_arbitrary_bytes_of_a_refused_multi_are_ignored() -> None:
    def multi(first: int, error: int) -> bytes:
        steps = struct.pack("!iii", first, 4, 0) + struct.pack("!iii", txnlog.ERROR, 4, error)
        return body(9, txnlog.MULTI, struct.pack("!i", 2) + steps)

    (one,) = read(HEAD + record(multi(txnlog.CHECK, 0))).transactions
    (other,) = read(HEAD + record(multi(txnlog.ERROR, -2))).transactions
    assert one == other
    assert one.steps == ()


def test_the_files_of_a_disk_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    inside = tmp_path / "version-2"
    inside.mkdir()
    (inside / "log.5").write_bytes(HEAD + record(body(5)) + record(body(6)) + record(body(7)) + ZEROS)
    (inside / "log.7").write_bytes(HEAD + record(body(7, rest=struct.pack("!i", 0))) + record(body(8)) + b"\1")
    (inside / "snapshot.6").write_bytes(snapshot(b"a tree"))
    (inside / "snapshot.a").write_bytes(snapshot(b"another one"))
    (inside / "acceptedEpoch").write_text("3")
    log = read_disk(tmp_path)
    assert zxids(log) == [5, 6, 7, 8]
    assert (log.snapshots, log.epochs, log.torn, log.last) == ((6, 10), (3, None), 1, 10)
    assert read_disk(tmp_path / "none") == TxnLog()


def test_a_disk_of_which_any_byte_changes_is_not_the_same(tmp_path: Path) -> None:
    inside = tmp_path / "version-2"
    inside.mkdir()
    (inside / "log.5").write_bytes(HEAD + record(body(5)))
    (inside / "snapshot.6").write_bytes(b"an incomplete one")
    before = read_disk(tmp_path)
    assert before == read_disk(tmp_path)
    (inside / "snapshot.6").write_bytes(b"An incomplete one")
    assert read_disk(tmp_path) != before
    (inside / "snapshot.6").rename(inside / "snapshot.7")
    assert read_disk(tmp_path) != before


def test_an_incomplete_snapshot_does_not_count(tmp_path: Path) -> None:
    """A server then reads the snapshot before. Since 3.6 the data after the tree has its own checksum."""
    inside = tmp_path / "version-2"
    inside.mkdir()
    whole = snapshot(b"a tree")
    parts = [whole, b"", whole[:9], whole[:-1], b"\0" * len(whole), b"\0" * 6 + whole[6:], snapshot(whole + b"digest")]
    for number, data in enumerate(parts, 1):
        (inside / f"snapshot.{number}").write_bytes(data)
    (inside / "snapshot.8.gz").write_bytes(b"")
    assert read_disk(tmp_path).snapshots == (1, 7, 8)


def test_the_epochs_of_a_running_server_never_seem_ahead_of_its_promise_or_its_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server joins another epoch after each file that is read."""
    inside = tmp_path / "version-2"
    inside.mkdir()

    def join(epoch: int) -> None:
        (inside / "acceptedEpoch").write_text(str(epoch))
        (inside / f"log.{epoch}00000001").write_bytes(HEAD + record(body((epoch << 32) + 1)))
        (inside / "currentEpoch").write_text(str(epoch))

    def reading(once: Callable[[Path], object], path: Path) -> object:
        found = once(path)
        join(1 + sum(1 for _ in inside.glob("log.*")))
        return found

    join(1)
    for name in ("read_text", "read_bytes"):
        monkeypatch.setattr(Path, name, partialmethod(lambda path, once: reading(once, path), getattr(Path, name)))
    log = read_disk(tmp_path)
    assert log.epochs == (2, 1)
    assert log.last >> 32 > 1


def test_a_log_that_two_threads_have_written_is_read_in_the_order_of_the_zxids(tmp_path: Path) -> None:
    """A server may follow again before the thread that logged for it has ended. It warns of `Current zxid ... is <= ...`."""
    folder = tmp_path / txnlog.VERSION_2
    folder.mkdir()
    for name, logged in (("log.1", [1, 2, 1, 2]), ("log.3", [3, 5, 4, 7, 6])):
        (folder / name).write_bytes(HEAD + b"".join(record(body(zxid)) for zxid in logged) + ZEROS)
    log = read_disk(tmp_path)
    assert (zxids(log), log.last, log.disorder) == ([1, 2, 3, 4, 5, 6, 7], 7, (5, 4))
    (folder / "log.3").unlink()
    assert read_disk(tmp_path).disorder is None  # what is logged twice is in order


def test_a_file_replaces_what_older_files_have_from_its_first_transaction_on(tmp_path: Path) -> None:
    """The older ones were truncated there. What a server has dropped at the end of one is not torn any more, either."""
    inside = tmp_path / "version-2"
    inside.mkdir()
    (inside / "log.5").write_bytes(HEAD + b"".join(record(body(at)) for at in (5, 6, 7)) + record(body(8))[:-5])
    (inside / "log.6").write_bytes(HEAD + record(body(6, rest=struct.pack("!i", 0))) + record(body(9)) + ZEROS)
    log = read_disk(tmp_path)
    assert (zxids(log), log.torn, log.disorder) == ([5, 6, 9], 0, None)
