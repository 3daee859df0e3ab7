"""A recorded run replays equal. Every change to it is found, with its place."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.model.replay.conftest import InMemoryEnsemble, eventful
from zab_chaos.faults.defects.durability import AckBeforeSync, PromiseNotDurable
from zab_chaos.model.oracle import oracle
from zab_chaos.model.replay.difference import Difference
from zab_chaos.model.replay.life import ReplayStop, Rerun
from zab_chaos.model.replay.replay import ReplayResult, equality_property, recorded_lives, replay, replay_life
from zab_chaos.model.replay.trace import CORE_EVENTS
from zab_chaos.model.verdict import Judgement
from zab_chaos.node.append_file import NodeFile
from zab_chaos.node.core.following import Following
from zab_chaos.node.core.messages import Commit, CommitLeader, Phase, Propose, Role
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.recording import (
    MAGIC,
    LinkClosed,
    ReadyTaken,
    RecordedCall,
    RecordingReader,
    SnapshotTaken,
    Stepped,
    Submitted,
    Synced,
    block_header,
)

pytestmark = pytest.mark.slow

LIVES = [(1, 1), (1, 2), (2, 1), (3, 1), (3, 2)]  # 3 leads first; 1 is killed, then 3


def recording(run: Path, node: int, life: int) -> Path:
    return run / "record" / f"node-{node}-{life}.bin"


def trace(run: Path, node: int, life: int) -> Path:
    return run / "trace" / f"node-{node}-{life}.jsonl"


def blocks(path: Path) -> list[list[RecordedCall]]:
    return [list(block) for block in RecordingReader(path).blocks()]


def write(path: Path, content: list[list[RecordedCall]]) -> None:
    """Write a forged recording, whose checksums are correct."""
    running, parts = 0, [MAGIC]
    for block in content:
        body = msgspec.msgpack.encode(block)
        header, running = block_header(body, running)
        parts += [header, body]
    path.write_bytes(b"".join(parts))


def difference(run: Path, node: int, life: int, peer_type: type[Peer] = Peer) -> Difference:
    found = replay_life(run, node, life, peer_type).difference
    assert found is not None
    return found


# ---- equal ----


def test_every_life_of_an_eventful_run_is_equal(original: Path) -> None:
    lives = list(replay(original))
    assert [(one.node, one.life) for one in lives] == LIVES == recorded_lives(original)
    assert [one.difference for one in lives] == [None] * 5
    assert all(one.inputs > 20 and one.outputs > 15 and one.events > 20 for one in lives)
    found = equality_property(lives)
    assert found.verdict is Judgement.PASS
    assert found.checked == sum(one.inputs + one.outputs + one.events for one in lives)


def test_the_bytes_that_are_read_are_told(original: Path) -> None:
    judged: list[int] = []
    oracle.judge(original, on_read=judged.append)
    assert sum(judged) == sum(file.stat().st_size for file in [*original.glob("trace/*"), *original.glob("*.jsonl")])
    replayed: list[int] = []
    lives = list(replay(original, on_read=replayed.append))
    size = sum(file.stat().st_size for file in original.glob("record/*"))
    assert len(replayed) == sum(len(blocks(recording(original, one.node, one.life))) for one in lives)
    assert 0.9 * size < sum(replayed) <= size


def test_the_run_has_all_that_the_tests_need(original: Path) -> None:
    """Otherwise the tests below would show little: snapshots are taken, installed and restored, and a life leads."""
    names = set()
    for file in (original / "trace").iterdir():
        for line in map(json.loads, file.read_text().splitlines()):
            names.add(line["event"] + (":" + line["kind"] if line["event"] == "snapshot" else ""))
    assert {"snapshot:taken", "snapshot:installed", "snapshot:restored", "established", "broadcast", "deliver"} <= names
    kinds = {type(entry) for life in LIVES for block in blocks(recording(original, *life)) for entry in block}
    assert len(kinds) == 11


def test_writing_a_recording_anew_gives_the_same_bytes(run: Path) -> None:
    """So the forged recordings below differ only where they are meant to."""
    path = recording(run, 2, 1)
    before = path.read_bytes()
    write(path, blocks(path))
    assert path.read_bytes() == before


def test_without_recordings_the_property_is_not_applicable() -> None:
    assert equality_property([]).verdict is Judgement.NOT_APPLICABLE


# ---- damage that checksums show ----


@pytest.mark.parametrize("life", LIVES)
def test_any_changed_byte_is_caught(run: Path, life: tuple[int, int]) -> None:
    path = recording(run, *life)
    good = path.read_bytes()
    step = max(1, len(good) // 40)
    for place in {*range(40), *range(0, len(good), step), *range(len(good) - 20, len(good))}:
        path.write_bytes(good[:place] + bytes([good[place] ^ 1 << place % 8]) + good[place + 1 :])
        found = difference(run, *life)
        assert found.file == f"record/node-{life[0]}-{life[1]}.bin"
        assert found.place <= place, "the offset is where the damaged block begins"


def raw_entries(body: bytes) -> tuple[bytes, list[bytes]]:
    """Return the header of the array, and the bytes of each entry."""
    entries = [msgspec.msgpack.encode(each) for each in msgspec.msgpack.decode(body)]
    header = body[: len(body) - sum(map(len, entries))]
    assert header + b"".join(entries) == body
    return header, entries


def bodies(path: Path) -> Iterator[tuple[int, bytes]]:
    data, end = path.read_bytes(), len(MAGIC)
    while end < len(data):
        length = int.from_bytes(data[end : end + 4], "little")
        yield end + 12, data[end + 12 : end + 12 + length]
        end += 12 + length


@pytest.mark.parametrize("life", LIVES)
def test_two_swapped_inputs_of_one_block_are_caught(run: Path, life: tuple[int, int]) -> None:
    path = recording(run, *life)
    good, swapped = path.read_bytes(), 0
    for start, body in list(bodies(path))[:: 1 + len(list(bodies(path))) // 60]:
        header, entries = raw_entries(body)
        if len(entries) > 1 and entries[0] != entries[1]:
            forged = header + b"".join([entries[1], entries[0], *entries[2:]])
            path.write_bytes(good[:start] + forged + good[start + len(body) :])
            assert difference(run, *life).place == start - 12
            swapped += 1
    assert swapped > 8


@pytest.mark.parametrize("life", LIVES)
def test_a_dropped_and_a_doubled_and_two_swapped_blocks_are_caught(run: Path, life: tuple[int, int]) -> None:
    path = recording(run, *life)
    good = path.read_bytes()
    whole = [good[start - 12 : start + len(body)] for start, body in bodies(path)]
    for i in range(0, len(whole) - 2, 1 + len(whole) // 30):
        for forged in (
            [*whole[:i], *whole[i + 1 :]],
            [*whole[: i + 1], *whole[i:]],
            [*whole[:i], whole[i + 1], whole[i], *whole[i + 2 :]],
        ):
            path.write_bytes(MAGIC + b"".join(forged))
            assert "checksum" in difference(run, *life).what


@pytest.mark.parametrize("life", [(1, 2), (2, 1), (3, 2)])
def test_a_life_that_ended_by_itself_must_be_recorded_to_its_end(run: Path, life: tuple[int, int]) -> None:
    path = recording(run, *life)
    good = path.read_bytes()
    last = list(bodies(path))[-1][0] - 12
    for size in (0, 1, len(MAGIC), 100, last // 2, last, last + 5, last + 12, len(good) - 1):
        path.write_bytes(good[:size])
        assert difference(run, *life)


@pytest.mark.parametrize("life", [(1, 1), (3, 1)])
def test_a_killed_life_may_stop_in_its_last_block_and_not_before(run: Path, life: tuple[int, int]) -> None:
    path = recording(run, *life)
    good, places = path.read_bytes(), [start - 12 for start, _ in bodies(path)]
    lines = trace(run, *life).read_text().splitlines(keepends=True)
    untold = [n for n in range(1, 8) if "exit" not in lines[-n]]
    assert len(untold) == 7, "the node was killed"
    silent = Rerun(run, *life, Peer)
    silent.run()
    for place in places[-3:]:  # only heartbeats follow, so no event is missing
        for cut in (place, place + 3, place + 12):
            path.write_bytes(good[:cut])
            one = replay_life(run, *life)
            assert one.difference is None or "goes on" in one.difference.what
    path.write_bytes(good[: places[len(places) // 2]])
    assert "the trace goes on where the recording ends" in difference(run, *life).what


@dataclass
class Written:
    """A run, and the writes to the recording and the trace of a node's first life, in order: the file, and its size then."""

    run: Path
    node: int
    order: list[tuple[Path, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.recording, self.trace = recording(self.run, self.node, 1), trace(self.run, self.node, 1)

    def keep(self) -> None:
        self.content = {path: path.read_bytes() for path in (self.recording, self.trace)}

    def difference(self, recorded: int, traced: int) -> Difference | None:
        """Replay the life with only the first bytes of its files."""
        for path, size in ((self.recording, recorded), (self.trace, traced)):
            path.write_bytes(self.content[path][:size])
        return replay_life(self.run, self.node, 1).difference


def alone(folder: Path) -> None:
    """Record a run of one node, which leads as soon as it is started."""
    ensemble = InMemoryEnsemble(folder, 1)
    ensemble.start(1)
    ensemble.until_led()
    ensemble.rounds(20, writes=2, at=1)
    ensemble.stop()


@pytest.fixture(params=[(eventful, 2), (alone, 1)], ids=["three nodes", "one node"])
def written(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Written:
    """A life of a node that follows and leads, or of one that is alone."""
    make, node = request.param
    made, write = Written(tmp_path / "run", node), NodeFile.write

    def note(file: NodeFile, data: bytes) -> None:
        write(file, data)
        path = Path(f"/proc/self/fd/{file._fd}").readlink()
        if path in (made.recording, made.trace):
            made.order.append((path, path.stat().st_size))

    monkeypatch.setattr(NodeFile, "write", note)
    make(made.run)
    made.keep()
    return made


def test_a_life_may_be_killed_between_any_two_writes_and_lacks_no_line_of_an_earlier_one(written: Written) -> None:
    recorded = traced = before = missing = 0
    for path, size in written.order[:-1]:  # with the last one the life ends by itself
        if path == written.recording:
            recorded = size
            lost = written.content[written.trace][before:traced].splitlines()
            if any(json.loads(line)["event"] in CORE_EVENTS for line in lost):
                found = written.difference(recorded, before)
                assert found is not None, (recorded, before, traced, lost)
                assert found.what == "the trace ends, the recording goes on"
                missing += 1
        else:
            before, traced = traced, size
        assert written.difference(recorded, traced) is None
    assert missing > 10


@pytest.mark.parametrize("life", [(1, 1), (3, 1)])
def test_a_killed_life_whose_trace_lacks_more_than_its_last_block_is_caught(run: Path, life: tuple[int, int]) -> None:
    path = trace(run, *life)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: len(lines) // 2]))
    assert difference(run, *life).what == "the trace ends, the recording goes on"


def test_the_trace_of_a_life_that_ended_by_itself_lacks_no_line_of_its_last_block(run: Path) -> None:
    path, content = recording(run, 2, 1), blocks(recording(run, 2, 1))
    last = max(b for b, block in enumerate(content) if any(isinstance(entry, LinkClosed) for entry in block))
    write(path, content[: last + 1])
    following = difference(run, 2, 1).place  # the first line of the trace that is not of these blocks

    def lose_a_line(lines: list[dict[str, Any]]) -> None:
        lost = max(i for i, line in enumerate(lines[: following - 1]) if line["event"] in CORE_EVENTS)
        lines[lost:] = [{"t": 1, "node": 2, "life": 1, "n": 0, "event": "exit", "code": 74}]

    edit(trace(run, 2, 1), lose_a_line)
    assert difference(run, 2, 1).what == "the trace has no line of it, and the node was not killed"


@pytest.mark.parametrize("code", [0, 74])
def test_a_life_that_ended_by_itself_leaves_no_incomplete_block(run: Path, code: int) -> None:
    lines = trace(run, 2, 1).read_text().splitlines(keepends=True)
    end = json.loads(lines[-1])
    trace(run, 2, 1).write_text("".join([*lines[:-1], json.dumps(end | {"code": code}) + "\n"]))
    path = recording(run, 2, 1)
    path.write_bytes(path.read_bytes()[:-3])
    assert f"the block is incomplete, and the node was not killed: exit code {code}" in difference(run, 2, 1).what


def test_entries_after_the_end_are_caught(run: Path) -> None:
    path = recording(run, 2, 1)
    content = blocks(path)
    write(path, [*content, content[-2]])
    assert "after the end" in difference(run, 2, 1).what


def test_another_lifes_recording_is_caught(run: Path) -> None:
    recording(run, 1, 2).write_bytes(recording(run, 2, 1).read_bytes())
    assert "another life" in difference(run, 1, 2).what


def test_a_missing_recording_and_a_missing_trace_are_caught(run: Path) -> None:
    recording(run, 1, 1).unlink()
    trace(run, 2, 1).unlink()
    found = {(one.node, one.life): one.difference for one in replay(run)}
    assert "no recording" in str(found[1, 1])
    assert "no trace" in str(found[2, 1])
    assert found[3, 1] is None


def test_a_block_that_no_node_writes_is_caught(run: Path) -> None:
    path = recording(run, 2, 1)
    for body in (b"\x91\x92\xa4tick\xa1x", b"\xc1", b"\x91\x91\xa5vote!"):
        path.write_bytes(MAGIC + block_header(body, 0)[0] + body)
        found = difference(run, 2, 1)
        assert "no node writes" in found.what
        assert found.place == len(MAGIC)


# ---- forged recordings with correct checksums, which the re-execution finds ----


def matters(entry: RecordedCall) -> bool:
    """Return whether the core would do something else without this input."""
    if isinstance(entry, Stepped):
        return isinstance(entry.message, Propose | Commit)
    return isinstance(entry, Submitted | Synced | ReadyTaken | SnapshotTaken)


@pytest.mark.parametrize("life", LIVES)
def test_a_forged_recording_without_one_input_is_caught(run: Path, life: tuple[int, int]) -> None:
    path = recording(run, *life)
    content = blocks(path)
    places = [(b, e) for b, block in enumerate(content) for e, entry in enumerate(block) if matters(entry)]
    assert len(places) > 20
    for b, e in places[: -1 : 1 + len(places) // 40]:  # a killed life has no output after the last one
        if content[b][e] == ReadyTaken(b""):
            continue  # an answer without obligations may be left out
        if e and isinstance(before := content[b][e - 1], Stepped) and isinstance(before.message, CommitLeader):
            continue  # so may a COMMIT that repeats COMMIT-LD
        forged = list(content)
        forged[b] = [*content[b][:e], *content[b][e + 1 :]]
        write(path, forged)
        assert difference(run, *life)


def test_forged_arguments_are_caught(run: Path) -> None:
    path = recording(run, 2, 1)
    content = blocks(path)
    caught = 0
    for b, block in enumerate(content):
        for e, entry in enumerate(block):
            if isinstance(entry, Stepped) and isinstance(entry.message, Propose) and caught < 40:
                run_ = entry.message.run
                other = msgspec.structs.replace(run_, txns=[run_.txns[0][:-1] + b"?", *run_.txns[1:]])
                forged = Stepped(entry.source, msgspec.structs.replace(entry.message, run=other))
                write(path, [*content[:b], [*block[:e], forged, *block[e + 1 :]], *content[b + 1 :]])
                found = difference(run, 2, 1)
                assert "differs" in found.what
                caught += 1
    assert caught > 10


@pytest.mark.parametrize(("kind", "field"), [(Synced, "upto"), (SnapshotTaken, "digest"), (SnapshotTaken, "checksum")])
def test_a_forged_answer_of_the_disk_is_caught(run: Path, kind: type[Synced | SnapshotTaken], field: str) -> None:
    content = blocks(recording(run, 3, 1))
    b, e = max((b, e) for b, block in enumerate(content) for e, it in enumerate(block) if isinstance(it, kind))
    content[b][e] = msgspec.structs.replace(content[b][e], **{field: getattr(content[b][e], field) + 1})
    write(recording(run, 3, 1), content)
    assert difference(run, 3, 1).what in ("the disk finished what was not asked of it", "the snapshot differs")


def test_an_input_in_another_place_is_caught(run: Path) -> None:
    """Swap two PROPOSEs, and leave what is between them in place."""
    path = recording(run, 2, 1)
    content = blocks(path)
    places = [
        (b, e)
        for b, block in enumerate(content)
        for e, entry in enumerate(block)
        if isinstance(entry, Stepped) and isinstance(entry.message, Propose)
    ]
    assert len(places) > 10
    for (b1, e1), (b2, e2) in pairwise(places):
        forged = [list(block) for block in content]
        forged[b1][e1], forged[b2][e2] = forged[b2][e2], forged[b1][e1]
        write(path, forged)
        assert difference(run, 2, 1)


# ---- traces that differ from what the core did ----


def edit(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    for n, line in enumerate(lines, 1):
        line["n"] = n
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


EDITS: list[tuple[str, str, Any]] = [
    ("role", "why", "elected by nobody"),
    ("phase", "epoch", 99),
    ("vote", "round", 99),
    ("accepted_epoch", "leader", 1),
    ("current_epoch", "last_zxid", [9, 9]),
    ("established", "quorum", [1, 2, 3]),
    ("broadcast", "delivered", [0, 9]),
    ("accept", "digests", "0" * 16),
    ("deliver", "digest", "0" * 16),
    ("deliver", "tree", "0" * 16),
    ("snapshot", "digest", "0" * 16),
    ("link", "peer", 9),
    ("boot", "accepted_epoch", 9),
    ("boot", "current_epoch", 9),
    ("boot", "digest", "0" * 16),
    ("boot", "nodes", 9),
    ("boot", "snapshot_zxid", [9, 9]),
]


@pytest.mark.parametrize(("event", "name", "value"), EDITS)
def test_a_changed_field_of_an_event_is_caught(run: Path, event: str, name: str, value: Any) -> None:
    life = (3, 1)

    def change(lines: list[dict[str, Any]]) -> None:
        line = next(line for line in lines if line["event"] == event)
        assert line[name] != value
        line[name] = value

    edit(trace(run, *life), change)
    found = difference(run, *life)
    assert found.file == "trace/node-3-1.jsonl"
    assert str(value).strip("[]") in found.expected.replace(",", ", ")
    assert found.got != found.expected


def test_another_reason_for_the_end_of_a_session_is_caught(run: Path) -> None:
    def change(lines: list[dict[str, Any]]) -> None:
        next(line for line in lines if line["event"] == "link" and line["state"] == "closed")["why"] = "boredom"

    edit(trace(run, 2, 1), change)
    assert "boredom" in difference(run, 2, 1).expected


def test_a_field_that_is_not_there_and_one_too_many_are_caught(run: Path) -> None:
    edit(trace(run, 2, 1), lambda lines: next(line for line in lines if line["event"] == "vote").update(more=1))
    edit(trace(run, 1, 2), lambda lines: next(line for line in lines if line["event"] == "deliver").pop("tree"))
    assert "differs" in difference(run, 2, 1).what
    assert "differs" in difference(run, 1, 2).what


@pytest.mark.parametrize("life", LIVES)
def test_a_dropped_and_an_invented_line_of_the_core_are_caught(run: Path, life: tuple[int, int]) -> None:
    path = trace(run, *life)
    good = path.read_text()
    names = [json.loads(line)["event"] for line in good.splitlines()]
    places = [i for i, name in enumerate(names) if name in ("role", "accept", "deliver", "link", "vote")]
    for i in places[: -1 : 1 + len(places) // 20]:  # the last line of a killed life may be missing
        edit(path, lambda lines, i=i: lines.pop(i))  # type: ignore[misc]
        assert difference(run, *life)
        path.write_text(good)
        edit(path, lambda lines, i=i: lines.insert(i, dict(lines[i])))  # type: ignore[misc]
        assert difference(run, *life)
        path.write_text(good)


def test_the_order_of_json_and_its_blanks_do_not_matter(run: Path) -> None:
    path = trace(run, 2, 1)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line, sort_keys=True) + "\n" for line in lines))
    assert replay_life(run, 2, 1).difference is None


def test_lines_that_are_not_readable_or_of_another_life_or_miscounted_are_caught(run: Path) -> None:
    path = trace(run, 2, 1)
    good = path.read_bytes().splitlines(keepends=True)
    for line, words in (
        (b"{\n", "not readable"),
        (good[9], "event number"),
        (good[7].replace(b'"life":1', b'"life":2'), "life 2"),
    ):
        path.write_bytes(b"".join([*good[:7], line, *good[8:]]))
        found = difference(run, 2, 1)
        assert words in found.what
        assert found.place == 8


def test_an_exit_that_is_not_readable_is_caught(run: Path) -> None:
    """A name with a byte that is no UTF-8 is passed over by the first, fast look at a line. So is a code that is no number."""
    path = trace(run, 2, 1)
    *good, last = path.read_bytes().splitlines(keepends=True)
    head = b"".join(good) + last.split(b',"event"')[0]
    for text, words in (
        (b',"event":"exit","code":0,"w\xe8y":""}', "not readable"),
        (b',"event":"exit","code":[]}', "exit code []"),
    ):
        path.write_bytes(head + text + b"\n")
        assert words in difference(run, 2, 1).what


# ---- another core ----


def test_a_defects_recording_replays_with_that_defect_and_with_no_other(
    record: Callable[[type[Peer]], Path],
) -> None:
    run = record(AckBeforeSync)
    assert all(one.difference is None for one in replay(run, AckBeforeSync))
    found = [one.difference for one in replay(run) if one.difference is not None]
    assert found
    assert {one.what for one in found} == {"an output differs"}
    assert any("message: to 3: ACK e=1" in one.expected for one in found)
    assert not all(one.difference is None for one in replay(run, PromiseNotDurable))


def test_a_difference_shows_the_last_twenty_inputs(original: Path) -> None:
    """They are those before it. The core here leaves out its third ACK."""

    class Unsaid(Following):
        acks = 0

        def on_propose(self, source: int, message: Propose) -> None:
            super().on_propose(source, message)
            self.acks += 1
            self.ack_due = self.acks != 3

    class Forgetful(Peer):
        following_type = Unsaid

    found = difference(original, 2, 1, Forgetful)
    assert found.expected == "message after sync: to 3: ACK e=1 upto=1:6"
    assert found.got.startswith("delivery: 1:3..1:4, digest"), "what comes next instead"
    assert len(found.inputs) == 20
    assert found.inputs[-1].startswith(f"{found.input}: tick ")
    assert any(words.endswith("from 3: PROPOSE e=1 1:5..1:6") for words in found.inputs[-3:])


def test_an_error_of_the_core_is_a_difference(original: Path) -> None:
    class Dividing(Following):
        def on_commit(self, source: int, message: Commit) -> None:
            raise ZeroDivisionError("a bug")

    class Failing(Peer):
        following_type = Dividing

    assert "ZeroDivisionError: a bug" in difference(original, 2, 1, Failing).what


# ---- stopping at an event or input ----


def test_until_stops_after_the_input_that_led_to_the_event(original: Path) -> None:
    lines = [json.loads(line) for line in trace(original, 3, 1).read_text().splitlines()]
    n = next(line["n"] for line in lines if line["event"] == "established")
    rerun = Rerun(original, 3, 1, Peer)
    assert rerun.run(ReplayStop(n))
    assert (rerun.machine.role, rerun.machine.phase) == (Role.LEADING, Phase.BROADCAST)
    before = Rerun(original, 3, 1, Peer)
    assert before.run(ReplayStop(n - 3))
    assert before.machine.phase is not Phase.BROADCAST
    assert rerun.recent_inputs()[-1].split(":")[0] == str(rerun.inputs)
    assert rerun.next_inputs(3)[0].split(":")[0] == str(rerun.inputs + 1)


def test_until_an_input_counts_from_the_boot(original: Path) -> None:
    rerun = Rerun(original, 3, 2, Peer)
    assert rerun.run(ReplayStop(2, input=True))
    assert rerun.inputs == 2
    assert rerun.recent_inputs()[0].startswith("1: node 3 boots its life 2")
    assert rerun.run(ReplayStop(50, input=True)), "it can go on"
    assert rerun.inputs == 50
    assert not rerun.run(ReplayStop(10**9, input=True))
    assert rerun.difference is None


def test_json_shows_the_results_of_the_lives(original: Path) -> None:
    one = replay_life(original, 2, 1)
    assert msgspec.convert(msgspec.to_builtins(one), ReplayResult) == one
