"""What a power cut may leave of a volume, and what it must not, without mounting anything."""

import errno
from collections.abc import Callable
from random import Random
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab_chaos.faults.filesystem.volume import File, Losses, Names, Volume
from zab_chaos.node.store.disk_faults import PAGE, Variant

CUTS: tuple[Variant, ...] = tuple(one for one in get_args(Variant) if one != "killed")


def seen(volume: Volume) -> dict[str, bytes | None]:
    """All files with their bytes; folders with None."""
    return {
        path: bytes(inode.contents.visible) if isinstance(inode, File) else None
        for path, inode in volume.walk()
        if path
    }


def laid(volume: Volume, path: str, data: bytes) -> File:
    """A file that is durable, and so is its name."""
    file = volume.create(path, 0o644)
    volume.write(file, data, 0)
    volume.sync(file)
    volume.sync(volume.folder(path.rpartition("/")[0]))
    return file


# ---- names ----

Act = Callable[[Volume], Any]


def make(volume: Volume) -> None:
    volume.create("/b", 0o644)


def move(volume: Volume) -> None:
    volume.rename("/a", "/c")


def drop(volume: Volume) -> None:
    volume.remove("/a")


def folder(volume: Volume) -> None:
    volume.make_folder("/d", 0o755)


@pytest.mark.parametrize(
    ("act", "before", "after"),
    [
        (make, {"/a"}, {"/a", "/b"}),
        (move, {"/a"}, {"/c"}),
        (drop, {"/a"}, set()),
        (folder, {"/a"}, {"/a", "/d"}),
    ],
)
@pytest.mark.parametrize("names", get_args(Names))
def test_a_name_is_durable_when_its_folder_is_synced_and_not_before(
    act: Act, before: set[str], after: set[str], names: Names
) -> None:
    volume = Volume(names)
    laid(volume, "/a", b"x")
    act(volume)
    assert set(seen(volume)) == after
    assert volume.cut("plain", 1) == Losses(0, 1)
    assert set(seen(volume)) == before
    act(volume)
    volume.sync(volume.root)
    assert volume.cut("plain", 1) == Losses(0, 0)
    assert set(seen(volume)) == after


@pytest.mark.parametrize(("names", "found"), [("folder", {"/a"}), ("journal", {"/c", "/b"})])
def test_the_sync_of_any_file_makes_all_earlier_names_durable_only_with_a_journal(
    names: Names, found: set[str]
) -> None:
    volume = Volume(names)
    laid(volume, "/a", b"x")
    move(volume)
    volume.sync(volume.create("/b", 0o644))
    volume.create("/later", 0o644)
    volume.cut("plain", 1)
    assert set(seen(volume)) == found


def test_a_file_in_a_folder_whose_own_name_is_not_durable_is_lost_with_it() -> None:
    volume = Volume("folder")
    volume.make_folder("/d", 0o755)
    laid(volume, "/d/a", b"x")
    volume.cut("plain", 1)
    assert seen(volume) == {}


def test_a_rename_between_folders_is_durable_as_a_whole_or_not_at_all() -> None:
    for synced in ("/one", "/two"):
        volume = Volume("folder")
        for path in ("/one", "/two"):
            volume.make_folder(path, 0o755)
        volume.sync(volume.root)
        laid(volume, "/one/a", b"x")
        volume.rename("/one/a", "/two/b")
        volume.sync(volume.folder(synced))
        volume.cut("plain", 1)
        assert seen(volume) == {"/one": None, "/two": None, "/two/b": b"x"}


MOVES = st.lists(
    st.tuples(st.sampled_from(["create", "rename", "remove", "sync"]), *[st.sampled_from(["/1/a", "/1/b", "/2/a"])] * 2)
)


@given(moves=MOVES, last=st.permutations(["/1", "/2"]))
def test_when_all_folders_are_synced_in_any_order_a_power_cut_leaves_all_names_as_they_were(
    moves: list[tuple[str, str, str]], last: list[str]
) -> None:
    volume = Volume("folder")
    for path in last:
        volume.make_folder(path, 0o755)
    volume.sync(volume.root)
    for number, (do, path, other) in enumerate(moves):
        if do == "create" and path not in seen(volume):
            file = volume.create(path, 0o644)
            volume.write(file, bytes([number]), 0)
            volume.sync(file)
        elif do == "sync":
            volume.sync(volume.folder(path[:2]))
        elif path in seen(volume):
            volume.remove(path) if do == "remove" else volume.rename(path, other)
    before = seen(volume)
    for path in last:
        volume.sync(volume.folder(path))
    assert volume.cut("plain", 1) == Losses(0, 0)
    assert seen(volume) == before


def test_a_file_that_replaces_another_may_be_there_without_its_bytes() -> None:
    """The name was synced, and the bytes were not: what programs forget that rename without fsync."""
    volume = Volume("folder")
    laid(volume, "/a", b"old")
    new = volume.create("/a.tmp", 0o644)
    volume.write(new, b"new", 0)
    volume.rename("/a.tmp", "/a")
    volume.sync(volume.root)
    volume.cut("plain", 1)
    assert seen(volume) == {"/a": b""}


def test_with_pages_a_later_change_of_names_may_be_there_without_an_earlier_one() -> None:
    def left(variant: Variant, seed: int) -> frozenset[str]:
        volume = Volume("folder")
        for name in "abc":
            volume.create(f"/{name}", 0o644)
        volume.cut(variant, seed)
        return frozenset(seen(volume))

    prefixes = {frozenset(f"/{name}" for name in "abc"[:n]) for n in range(4)}
    assert {left("plain", seed) for seed in range(50)} == {frozenset()}
    assert {left("torn", seed) for seed in range(50)} == prefixes
    assert {left("reordered", seed) for seed in range(50)} == prefixes
    assert len({left("pages", seed) for seed in range(100)}) == 8


def test_no_cut_leaves_one_file_under_two_names_or_brings_a_removed_one_back() -> None:
    for seed in range(200):
        volume = Volume("folder")
        file = laid(volume, "/a", b"x")
        volume.rename("/a", "/b")
        volume.rename("/b", "/c")
        volume.cut("pages", seed)
        assert [bytes(found.contents.visible) for _, found in volume.walk() if found is file] == [b"x"]
        volume.remove(next(iter(seen(volume))))
        volume.sync(volume.root)
        volume.cut("pages", seed)
        assert seen(volume) == {}


# ---- bytes and sizes ----


def test_what_was_synced_is_there_and_what_was_not_is_gone() -> None:
    volume = Volume("folder")
    file = laid(volume, "/a", b"abcdef")
    volume.write(file, b"XY", 2)
    volume.resize(file, 3)
    volume.write(file, b"end", 6)
    assert seen(volume) == {"/a": b"abX\0\0\0end"}
    assert volume.cut("plain", 1) == Losses(5, 0)
    assert seen(volume) == {"/a": b"abcdef"}


@pytest.mark.parametrize("variant", CUTS)
def test_the_bytes_and_names_that_are_said_to_be_lost_are_those_that_are_gone(variant: Variant) -> None:
    for seed in range(40):
        volume = Volume("journal")
        file = laid(volume, "/a", b"")
        for number in range(1, 7):
            volume.write(file, bytes([number]) * PAGE, (number - 1) * PAGE)
        new = [volume.create(f"/new-{number}", 0o644) for number in range(4)]
        volume.write(new[0], b"x" * 10, 0)
        lost = volume.cut(variant, seed)
        left = seen(volume)
        there = (left["/a"] or b"") + (left.get("/new-0") or b"")
        assert lost == Losses(6 * PAGE + 10 - len(there.replace(b"\0", b"")), 5 - len(left))
        assert variant != "plain" or lost == Losses(6 * PAGE + 10, 4)


@pytest.mark.parametrize("variant", ["torn", "reordered", "pages"])
def test_every_kind_of_cut_leaves_something_and_takes_something(variant: Variant) -> None:
    """Of three writes, each a page: what is left differs from seed to seed."""
    found = set()
    for seed in range(100):
        volume = Volume("folder")
        file = laid(volume, "/a", bytes(3 * PAGE))
        for page, byte in enumerate(b"abc"):
            volume.write(file, bytes([byte]) * PAGE, page * PAGE)
        volume.cut(variant, seed)
        data = seen(volume)["/a"]
        assert data is not None
        found.add("".join(chr(data[end]) if data[end] else "." for end in (PAGE - 1, 2 * PAGE - 1, 3 * PAGE - 1)))
    assert (
        found
        == {
            "torn": {"...", "a..", "ab."},
            "reordered": {a + b + c for a in "a." for b in "b." for c in "c."} - {"abc"},
            "pages": {a + b + c for a in "a." for b in "b." for c in "c."},
        }[variant]
    )


def test_a_torn_cut_is_inside_of_a_write_and_across_files_in_the_order_of_time() -> None:
    ends = set()
    for seed in range(100):
        volume = Volume("folder")
        one, two = laid(volume, "/one", b""), laid(volume, "/two", b"")
        for file, data, offset in ((one, b"12", 0), (two, b"ab", 0), (one, b"34", 2)):
            volume.write(file, data, offset)
        volume.cut("torn", seed)
        ends.add((seen(volume)["/one"], seen(volume)["/two"]))
    assert ends == {(b"", b""), (b"1", b""), (b"12", b""), (b"12", b"a"), (b"12", b"ab"), (b"123", b"ab")}


def test_where_names_are_as_on_ext4_a_torn_write_ends_with_a_sector() -> None:
    ends = set()
    for seed in range(200):
        volume = Volume("journal")
        file = laid(volume, "/a", b"old" * 100)
        volume.write(file, b"b" * 100, 300)
        volume.write(file, b"c" * 1500, 400)
        volume.write(file, b"d" * 10, 1900)
        volume.cut("torn", seed)
        ends.add(len(seen(volume)["/a"] or b""))
    assert ends == {300, 400, 512, 1024, 1536, 1900}


def test_with_pages_the_size_may_be_there_without_the_bytes_and_the_other_way_round() -> None:
    found = set()
    for seed in range(100):
        volume = Volume("folder")
        file = laid(volume, "/a", b"old")
        volume.write(file, b"new!!", 0)
        volume.cut("pages", seed)
        found.add(seen(volume)["/a"])
    assert found == {b"old", b"old\0\0", b"new", b"new!!"}


def test_a_truncation_that_is_there_brings_no_older_bytes_back() -> None:
    for seed in range(100):
        volume = Volume("folder")
        file = laid(volume, "/a", b"secret")
        volume.resize(file, 0)
        volume.write(file, b"x", 5)
        volume.cut("pages", seed)
        assert seen(volume)["/a"] in (b"secret", b"", bytes(6), b"\0\0\0\0\0x", b"")


def test_a_failed_sync_leaves_what_is_seen_and_nobody_writes_it_any_more() -> None:
    volume = Volume("folder")
    file = laid(volume, "/a", b"old")
    volume.write(file, b"new", 0)
    volume.fail_sync(file)
    assert seen(volume) == {"/a": b"new"}
    volume.sync(file)
    assert volume.cut("plain", 1) == Losses(0, 0)
    assert seen(volume) == {"/a": b"old"}


def test_a_killed_process_leaves_what_it_has_written_unsynced_as_before() -> None:
    left = []
    for seed in range(40):
        volume = Volume("folder")
        file = laid(volume, "/a", b"")
        volume.create("/b", 0o644)
        volume.write(file, b"12", 0)
        volume.write(file, b"34", 2)
        volume.cut("killed", seed)
        left.append(seen(volume)["/a"])
        assert "/b" in seen(volume)
        volume.cut("plain", seed)
        assert seen(volume) == {"/a": b""}
    assert set(left) == {b"", b"1", b"12", b"123", b"1234"}
    assert 10 <= left.count(b"1234") <= 30  # it may have written everything


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 3 * PAGE), st.integers(1, 2 * PAGE)),
        st.tuples(st.just("resize"), st.integers(0, 3 * PAGE), st.just(0)),
        st.tuples(st.just("sync"), st.just(0), st.just(0)),
    ),
    max_size=12,
)


@given(steps=STEPS, variant=st.sampled_from(CUTS), seed=st.integers(0, 2**32))
def test_each_byte_is_one_that_it_had_since_the_last_sync_or_zero(
    steps: list[tuple[str, int, int]], variant: Variant, seed: int
) -> None:
    """A model of its own: the contents at each step since the last sync. A size is one of theirs; so is each byte, or zero
    where it was not there at some time."""
    volume = Volume("folder")
    file = laid(volume, "/a", bytes(range(1, 200)))
    now = bytearray(range(1, 200))
    past = [bytes(now)]
    for number, (do, offset, length) in enumerate(steps):
        if do == "write":
            data = bytes([200 + number]) * length
            volume.write(file, data, offset)
            now.extend(bytes(max(0, offset - len(now))))
            now[offset : offset + length] = data
        elif do == "resize":
            volume.resize(file, offset)
            now = now[:offset] + bytes(max(0, offset - len(now)))
        else:
            volume.sync(file)
            past.clear()
        past.append(bytes(now))
        assert bytes(file.contents.visible) == bytes(now)
    volume.cut(variant, seed)
    found = bytes(file.contents.visible)
    if variant == "plain":
        assert found == past[0]
    if variant == "pages":
        assert len(found) in {len(one) for one in past}
    longest = max(len(one) for one in past)
    assert len(found) <= longest
    allowed = [one.ljust(longest, b"\0") for one in past]
    step = Random(seed)
    for at in {0, len(found) - 1, *(step.randrange(len(found)) for _ in range(50) if found)} & set(range(len(found))):
        assert found[at] in {0, *(one[at] for one in allowed)}


# ---- what can't be done ----


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(OSError) as raised:
        act()
    return errno.errorcode[raised.value.errno or 0]


def test_errors_are_those_of_the_system_calls() -> None:
    volume = Volume("folder", capacity=100)
    file = laid(volume, "/a", b"x" * 60)
    volume.make_folder("/d", 0o755)
    volume.create("/d/b", 0o644)
    assert refused(lambda: volume.create("/a", 0)) == "EEXIST"
    assert refused(lambda: volume.create("/none/b", 0)) == "ENOENT"
    assert refused(lambda: volume.create("/a/b", 0)) == "ENOTDIR"
    assert refused(lambda: volume.create("/" + "n" * 256, 0)) == "ENAMETOOLONG"
    assert refused(lambda: volume.remove("/d")) == "EISDIR"
    assert refused(lambda: volume.remove_folder("/d")) == "ENOTEMPTY"
    assert refused(lambda: volume.remove_folder("/a")) == "ENOTDIR"
    assert refused(lambda: volume.rename("/a", "/d")) == "EISDIR"
    assert refused(lambda: volume.rename("/d", "/a")) == "ENOTDIR"
    other = volume.file("/d/b")
    assert refused(lambda: volume.write(other, b"y" * 41, 0)) == "ENOSPC"
    assert refused(lambda: volume.resize(file, 101)) == "EFBIG"
    volume.write(other, b"y" * 40, 0)
    volume.remove("/a")
    volume.remove("/d/b")
    assert volume.used == 0
