"""What the nodes of a foreign system record becomes traces, and is judged."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from zab_chaos.harness.backends.system.mistakes import BackendMistake
from zab_chaos.harness.backends.system.records import Records
from zab_chaos.harness.report.html.lanes import lane_segments
from zab_chaos.harness.report.html.lifetimes import read_lives
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.results.source import Source
from zab_chaos.model.events import RECORDS_OF
from zab_chaos.model.oracle.oracle import judge
from zab_chaos.model.verdict import Judgement, Verdict

Zxid = tuple[int, int]


class Recording:
    """A run whose nodes record what a test says, in this order."""

    def __init__(self, folder: Path, nodes: int = 2) -> None:
        folder.joinpath("trace").mkdir()
        self.folder = RunFolder(folder)
        self.records = Records(self.folder, nodes)
        self.nodes = nodes
        self.milestones: list[dict[str, Any]] = []
        self.files = {node: self.records.begin(node, 1) for node in range(1, nodes + 1)}
        self._last = 0

    def restart(self, node: int, life: int) -> None:
        self.files[node] = self.records.begin(node, life)

    def line(self, node: int, text: str) -> None:
        with self.files[node].open("a") as file:
            file.write(text)

    def says(self, node: int, event: str, **fields: Any) -> None:
        while (now := time.time_ns()) <= self._last:
            pass
        self._last = now
        self.line(node, json.dumps({"time": now, "event": event, **fields}) + "\n")

    def establish(self, node: int, epoch: int, last: Zxid = (0, 0)) -> None:
        self.says(node, "established", epoch=epoch, last=last)

    def write(self, leader: int, *zxids: Zxid, by: tuple[int, ...] = ()) -> None:
        """Broadcast transactions, and deliver them at the nodes `by` (all, if it is empty)."""
        for zxid in zxids:
            self.says(leader, "broadcast", zxid=zxid, data=str(zxid))
            self.deliver(zxid, *(by or range(1, self.nodes + 1)))

    def deliver(self, zxid: Zxid, *nodes: int, **fields: Any) -> None:
        for node in nodes:
            self.says(node, "deliver", zxid=zxid, **{"data": str(zxid), **fields})

    def judged(self, order: str = "zab") -> Verdict:
        self.records.write_traces()
        facts = {"nodes": self.nodes, "expect": {"min_acked": 0, "outstanding": 3}, "evidence": RECORDS_OF[order]}
        self.folder.file("run.json").write_text(json.dumps(facts))
        now = time.monotonic_ns()
        told = [*self.milestones, {"event": "safety-ended"}, {"event": "converged"}]
        lines = (json.dumps({"t": now, **line}) + "\n" for line in told)
        self.folder.file("harness.jsonl").write_text("".join(lines))
        return judge(self.folder.path, stored=False)


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording(tmp_path)


def violated(verdict: Verdict) -> set[str]:
    return {item.name for item in verdict.properties if item.verdict is Judgement.VIOLATION}


def why(verdict: Verdict, name: str) -> object:
    return next(item.why for item in verdict.properties if item.name == name)


@pytest.mark.parametrize(
    ("order", "second", "broken"),
    [
        ("zab", (2, 1), set()),
        ("zab", (2, 3), {"local primary order"}),
        ("raft", (2, 3), set()),
        ("raft", (2, 1), {"local primary order"}),
    ],
)
def test_counters_begin_anew_in_each_epoch_of_zab_and_go_on_in_raft(
    recording: Recording, order: str, second: Zxid, broken: set[str]
) -> None:
    recording.establish(1, 1)
    recording.write(1, (1, 1), (1, 2))
    recording.establish(2, 2, last=(1, 2))
    recording.write(2, second)
    assert violated(recording.judged(order)) == broken


def test_a_leader_of_raft_may_broadcast_before_it_has_delivered_its_log(recording: Recording) -> None:
    recording.establish(1, 1)
    recording.write(1, (1, 1), by=(1,))
    recording.establish(2, 2, last=(1, 1))
    recording.says(2, "broadcast", zxid=(2, 2), data="no-op")
    recording.deliver((1, 1), 2)
    recording.deliver((2, 2), 1, 2, data="no-op")
    verdict = recording.judged("raft")
    assert violated(verdict) == set()
    assert "a leader of Raft" in str(why(verdict, "primary integrity"))


def test_a_leader_of_zab_delivers_the_epochs_before_it_broadcasts(recording: Recording) -> None:
    recording.establish(1, 1)
    recording.write(1, (1, 1), by=(1,))
    recording.establish(2, 2, last=(1, 1))
    recording.says(2, "broadcast", zxid=(2, 1), data="early")
    recording.deliver((1, 1), 2)
    recording.deliver((2, 1), 1, 2, data="early")
    assert violated(recording.judged()) == {"primary integrity"}


def test_a_new_leader_without_a_delivered_transaction_is_found(recording: Recording) -> None:
    recording.establish(1, 1)
    recording.write(1, (1, 1), (1, 2))
    recording.establish(2, 2, last=(1, 1))
    assert violated(recording.judged()) == {"committed stays"}


def test_what_nobody_records_is_not_judged(recording: Recording) -> None:
    recording.deliver((1, 1), 1, 2)
    verdict = recording.judged()
    assert violated(verdict) == set()
    assert why(verdict, "integrity") == "no node has recorded a `broadcast`"
    assert why(verdict, "primary integrity") == "no node has recorded that it was `established`"
    assert "does not show it" in str(why(verdict, "disk"))


def test_a_broadcast_without_an_established_leader_is_none_of_primary_integrity(recording: Recording) -> None:
    recording.write(1, (1, 1))
    assert violated(recording.judged()) == set()


@pytest.mark.parametrize(
    ("states", "broken"), [(("s", "s"), set()), (("s", "t"), {"state equality"}), ((None, "t"), set())]
)
def test_states_that_are_recorded_are_compared(
    recording: Recording, states: tuple[str | None, str | None], broken: set[str]
) -> None:
    for node, state in enumerate(states, 1):
        recording.deliver((1, 1), node, **({} if state is None else {"state": state}))
    assert violated(recording.judged()) == broken


def test_a_restarted_node_delivers_from_the_beginning_or_from_a_state(recording: Recording) -> None:
    for counter in (1, 2, 3):
        recording.deliver((1, counter), 1, 2, state=f"after {counter}")
    recording.restart(1, 2)
    for counter in (1, 2, 3):
        recording.deliver((1, counter), 1)
    recording.restart(2, 2)
    recording.says(2, "restore", zxid=(1, 2), state="after 2")
    recording.deliver((1, 3), 2)
    assert violated(recording.judged()) == set()


@pytest.mark.parametrize(("zxid", "state"), [((1, 2), "after 2"), ((1, 1), "other")])
def test_a_restored_state_must_be_one_that_was_delivered(recording: Recording, zxid: Zxid, state: str) -> None:
    recording.deliver((1, 1), 1, 2, state="after 1")
    recording.restart(2, 2)
    recording.says(2, "restore", zxid=zxid, state=state)
    assert "state equality" in violated(recording.judged())


@pytest.mark.parametrize("recorded", [None, 1, 10**15])
def test_a_node_that_ended_by_itself_need_not_deliver_everything(recording: Recording, recorded: int | None) -> None:
    """The end of a process is recorded when it is noticed, which may be after the run has given up."""
    recording.deliver((1, 1), 1, 2)
    recording.deliver((1, 2), 1)
    if recorded is not None:
        recording.milestones = [{"t": recorded, "event": "ended", "node": 2, "life": 1, "code": 3, "armed": False}]
    assert violated(recording.judged()) == ({"reliable delivery"} if recorded is None else set())


def test_an_incomplete_last_line_had_no_effect(recording: Recording) -> None:
    recording.deliver((1, 1), 1, 2)
    recording.line(2, '{"time": 17')
    verdict = recording.judged()
    assert violated(verdict) == set()
    assert next(item for item in verdict.properties if item.name == "trace integrity").verdict is Judgement.PASS


def test_lines_that_do_not_end_are_a_mistake(recording: Recording) -> None:
    """A whole file without a newline is not the incomplete line of a killed node."""
    line = json.dumps({"time": time.time_ns(), "event": "deliver", "zxid": [1, 1], "data": "a"})
    recording.line(2, line * 1000)
    with pytest.raises(BackendMistake, match=r"node 2, life 1, line 1: .*trailing characters") as raised:
        recording.records.write_traces()
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("newline", ["", "\n"])
def test_a_line_without_its_newline_is_no_mistake(recording: Recording, newline: str) -> None:
    """A node may be killed before the newline is written."""
    recording.deliver((1, 1), 1, 2)
    line = json.dumps({"time": time.time_ns(), "event": "deliver", "zxid": [1, 2], "data": "a"})
    recording.line(1, line + newline)
    assert violated(recording.judged()) == ({"reliable delivery"} if newline else set())


def test_the_verdict_says_that_nothing_was_recorded(recording: Recording) -> None:
    invoke = {
        "type": "invoke",
        "t": 1,
        "due": 1,
        "client": 1,
        "seq": 1,
        "node": 1,
        "op": "set",
        "path": "/a",
        "value": 1,
    }
    complete = {"type": "complete", "t": 2, "client": 1, "seq": 1, "node": 1, "outcome": "ok"}
    recording.folder.file("ops.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (invoke, complete)))
    assert "no node has recorded a `deliver`" in recording.judged().reasons


def test_the_files_of_the_nodes_are_gone_when_their_traces_are_written(recording: Recording) -> None:
    recording.deliver((1, 1), 1)
    recording.judged()
    names = sorted(path.name for path in recording.folder.file("trace").iterdir())
    assert names == ["node-1-1.jsonl", "node-2-1.jsonl"]


def test_all_wrong_lines_are_named(recording: Recording) -> None:
    now = time.time_ns()
    for text in (
        "no JSON",
        json.dumps({"time": now, "event": "deliver", "zxid": [1, 0], "data": "a"}),
        json.dumps({"time": now, "event": "deliver", "zxid": [1, 1]}),
        json.dumps({"time": now, "event": "commit", "zxid": [1, 1], "data": "a"}),
        json.dumps({"time": now // 10**9, "event": "deliver", "zxid": [1, 1], "data": "a"}),
        json.dumps({"time": now, "event": "restore", "zxid": [1, 1], "data": "a"}),
    ):
        recording.line(2, text + "\n")
    with pytest.raises(BackendMistake) as raised:
        recording.records.write_traces()
    words = str(raised.value).splitlines()
    assert "docs/backends.md" in words[0]
    assert words[1].startswith("node 2, life 1, line 1: JSON is malformed")
    assert words[2].startswith("node 2, life 1, line 2: Expected `int` >= 1")
    assert "`data`" in words[3]
    assert "'commit'" in words[4]
    assert "nanoseconds" in words[5]
    assert words[6:] == ["and 1 more"]


def test_the_last_delivered_zxid_of_a_running_node_is_known(recording: Recording) -> None:
    assert recording.records.delivered(1) == (0, 0)
    recording.write(1, (1, 1))
    recording.says(1, "broadcast", zxid=(1, 2), data="b")
    recording.line(1, '{"time"')
    assert recording.records.delivered(1) == (1, 1)
    recording.restart(1, 2)
    assert recording.records.delivered(1) == (0, 0)
    recording.says(1, "restore", zxid=(1, 1))
    assert recording.records.delivered(1) == (1, 1)


def test_the_last_delivered_zxid_is_found_before_long_lines(recording: Recording) -> None:
    """A state, or data, may be a long text."""
    recording.deliver((1, 1), 1, state="s" * 300_000)
    recording.says(1, "broadcast", zxid=(1, 2), data="d" * 100_000)
    assert recording.records.delivered(1) == (1, 1)


def test_the_report_shows_who_led_and_followed_which_epoch(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zab_chaos.harness.report.html.lanes.SAME_CHANGE", -1)
    recording.establish(1, 1)
    recording.write(1, (1, 1))
    recording.establish(2, 2, last=(1, 1))
    recording.write(2, (2, 1))
    recording.judged()
    lanes = lane_segments(read_lives(Source(recording.folder.path)), time.monotonic_ns())
    states = [(one.node, one.role, one.epoch) for one in lanes if one.phase == "BROADCAST"]
    assert states == [(1, "LEADING", 1), (1, "FOLLOWING", 2), (2, "FOLLOWING", 1), (2, "LEADING", 2)]


def test_nodes_that_deliver_other_data_disagree(recording: Recording) -> None:
    recording.write(1, (1, 1), by=(1,))
    recording.deliver((1, 1), 2, data="other")
    verdict = recording.judged()
    assert violated(verdict) == {"integrity", "agreement", "reliable delivery"}
    assert verdict.property("integrity").violations[0].words == (
        "node 2 delivered 1:1 as 'other', but node 1, the primary, had broadcast it as '(1, 1)'"
    )


@pytest.mark.parametrize("counter", [1, 3])
def test_a_leader_of_raft_neither_skips_nor_repeats_an_index(recording: Recording, counter: int) -> None:
    recording.establish(1, 1)
    recording.write(1, (1, 1))
    recording.says(1, "broadcast", zxid=(1, counter), data=str((1, counter)))
    assert "local primary order" in violated(recording.judged("raft"))


def test_a_clock_that_was_set_back_changes_no_order(recording: Recording) -> None:
    recording.deliver((1, 1), 1, 2)
    for counter, ago in ((2, 0.2), (3, 0.5), (4, -0.5)):
        line = {"time": time.time_ns() - int(ago * 1e9), "event": "deliver", "zxid": (1, counter), "data": "d"}
        recording.line(1, json.dumps(line) + "\n")
    recording.restart(1, 2)
    for counter in (2, 3, 4):
        recording.deliver((1, counter), 2, data="d")
    recording.deliver((1, 1), 1)
    for counter in (2, 3, 4):
        recording.deliver((1, counter), 1, data="d")
    verdict = recording.judged()
    assert violated(verdict) == set()
    assert not [item.name for item in verdict.properties if item.verdict is Judgement.UNKNOWN]


def accepted(recording: Recording, zxid: Zxid, *nodes: int) -> None:
    for node in nodes:
        recording.says(node, "accept", zxid=zxid, data=str(zxid))


@pytest.mark.parametrize(
    ("by", "broken"), [((1, 2), set()), ((1,), {"quorum durability"}), ((2,), {"quorum durability"})]
)
def test_a_quorum_of_logs_has_what_is_delivered(tmp_path: Path, by: tuple[int, ...], broken: set[str]) -> None:
    recording = Recording(tmp_path, nodes=3)
    recording.says(1, "broadcast", zxid=(1, 1), data="(1, 1)")
    accepted(recording, (1, 1), *by)
    recording.deliver((1, 1), 1, 2, 3)
    assert violated(recording.judged()) == broken


def test_a_leader_of_raft_may_have_any_number_of_transactions_in_flight_and_indices_before_it(
    recording: Recording,
) -> None:
    """The limit `outstanding` is that of our own nodes, and an index counts the entries of all terms."""
    for index in range(1, 6):
        recording.says(1, "broadcast", zxid=(1, index), data=f"(1, {index})")
    for index in range(1, 6):
        accepted(recording, (1, index), 1, 2)
        recording.deliver((1, index), 1, 2)
    recording.says(2, "broadcast", zxid=(2, 6), data="(2, 6)")
    accepted(recording, (2, 6), 1, 2)
    recording.deliver((2, 6), 1, 2)
    assert violated(recording.judged("raft")) == set()


def test_a_life_that_begins_in_the_middle_is_told_that_a_restore_is_missing(recording: Recording) -> None:
    recording.write(1, (1, 1), (1, 2))
    recording.restart(2, 2)
    recording.deliver((1, 2), 2)
    verdict = recording.judged()
    (found,) = next(item.violations for item in verdict.properties if item.name == "total order")
    assert found.words.endswith("(node 2 had recorded no `restore` in this life, so it began with the empty state)")


def unknown(verdict: Verdict) -> set[str]:
    return {item.name for item in verdict.properties if item.verdict is Judgement.UNKNOWN}


def test_a_node_that_records_nothing_is_named_and_what_it_may_have_broadcast_is_no_violation(tmp_path: Path) -> None:
    recording = Recording(tmp_path, nodes=3)
    recording.says(2, "broadcast", zxid=(2, 2), data="(2, 2)")
    for zxid in ((1, 1), (2, 2)):
        recording.deliver(zxid, 2, 3)
    verdict = recording.judged("raft")
    assert violated(verdict) == set()
    assert unknown(verdict) == {"integrity", "reliable delivery", "trace integrity"}
    assert any("node 1 has recorded nothing in any life" in words for words in verdict.reasons)


def test_what_a_life_that_records_nothing_may_have_broadcast_is_no_violation(recording: Recording) -> None:
    recording.write(1, (1, 1))
    recording.restart(1, 2)  # which leads epoch 2, without a word
    recording.restart(1, 3)
    recording.says(1, "restore", zxid=(1, 1))
    recording.deliver((2, 1), 1, 2)
    verdict = recording.judged()
    assert (violated(verdict), unknown(verdict)) == (set(), {"integrity"})
    assert any("but node 1 (life 2) recorded nothing at all" in words for words in verdict.reasons)


def test_a_life_that_records_nothing_explains_no_delivery_in_an_epoch_of_another_primary(recording: Recording) -> None:
    recording.write(1, (1, 1))
    recording.restart(1, 2)  # without a word
    recording.establish(2, 2, last=(1, 1))
    recording.says(2, "broadcast", zxid=(2, 1), data="(2, 1)")
    recording.deliver((2, 1), 2)
    recording.deliver((2, 2), 2)
    assert "integrity" in violated(recording.judged())


def figure_8(recording: Recording, *, delivered_by: int = 0, truncates: Zxid = (1, 1)) -> Verdict:
    """Raft, figure 8: node 1 has (1, 2) alone when node 2 leads term 2 without it; then node 1 leads term 3, and commits it.

    `delivered_by`: the node that has delivered (1, 2) when node 2 is established. `truncates`: what node 2 keeps in the end.
    """
    recording.establish(1, 1)
    for zxid, nodes in (((1, 1), (1, 2, 3)), ((1, 2), (1,))):
        recording.says(1, "broadcast", zxid=zxid, data=str(zxid))
        accepted(recording, zxid, *nodes)
    recording.deliver((1, 1), 1, 2, 3)
    if delivered_by:
        recording.deliver((1, 2), delivered_by)
    recording.establish(2, 2, last=(1, 1))
    recording.says(2, "broadcast", zxid=(2, 2), data="lost")
    recording.says(2, "accept", zxid=(2, 2), data="lost")
    recording.establish(1, 3, last=(1, 2))
    recording.says(1, "broadcast", zxid=(3, 3), data="(3, 3)")
    accepted(recording, (1, 2), 3)
    accepted(recording, (3, 3), 1, 3)
    for zxid in ((1, 2), (3, 3)):
        recording.deliver(zxid, *(node for node in (1, 3) if (node, zxid) != (delivered_by, (1, 2))))
    recording.says(2, "log", last=truncates)
    for zxid in ((1, 2), (3, 3)):
        accepted(recording, zxid, 2)
        recording.deliver(zxid, 2)
    return recording.judged("raft")


def test_a_later_leader_of_raft_may_commit_what_one_in_between_did_not_have(tmp_path: Path) -> None:
    assert violated(figure_8(Recording(tmp_path, nodes=3))) == set()


def test_a_leader_of_raft_without_what_was_delivered_before_is_found(tmp_path: Path) -> None:
    verdict = figure_8(Recording(tmp_path, nodes=3), delivered_by=1)
    assert violated(verdict) == {"committed stays", "quorum durability"}


def test_a_truncation_of_what_a_node_of_raft_held_and_had_delivered_is_found(tmp_path: Path) -> None:
    assert violated(figure_8(Recording(tmp_path, nodes=3), truncates=(0, 0))) >= {"committed stays"}


def test_without_a_record_of_the_logs_quorums_are_not_judged(recording: Recording) -> None:
    recording.write(1, (1, 1))
    assert why(recording.judged(), "quorum durability") == "no node has recorded an `accept`"


@pytest.mark.parametrize(("lost", "broken"), [(False, set()), (True, {"quorum durability"})])
def test_a_log_keeps_what_it_has_until_it_is_truncated(recording: Recording, lost: bool, broken: set[str]) -> None:
    accepted(recording, (1, 1), 1, 2)
    accepted(recording, (1, 2), 1, 2)
    if lost:
        recording.says(2, "log", last=(1, 1))
    recording.restart(2, 2)
    recording.deliver((1, 1), 1, 2)
    recording.deliver((1, 2), 1, 2)
    assert violated(recording.judged()) == broken


@pytest.mark.parametrize("wiped", [False, True])
def test_a_log_and_a_lost_disk_last_until_the_next_start(recording: Recording, wiped: bool) -> None:
    accepted(recording, (1, 1), 1, 2)
    recording.deliver((1, 1), 1, 2)
    if wiped:
        recording.records.wipe(2)
        recording.restart(2, 2)
        recording.says(2, "log", last=(0, 0))  # this is no truncation
        accepted(recording, (1, 1), 2)
    recording.restart(2, 3 if wiped else 2)
    accepted(recording, (1, 2), 1, 2)
    recording.deliver((1, 1), 2)
    recording.deliver((1, 2), 1, 2)
    assert violated(recording.judged()) == set()


def test_a_truncation_of_what_was_delivered_is_found(recording: Recording) -> None:
    accepted(recording, (1, 1), 1, 2)
    recording.deliver((1, 1), 1, 2)
    recording.says(1, "log", last=(0, 0))
    assert violated(recording.judged()) == {"committed stays"}


def test_a_snapshot_of_another_node_counts_as_its_log(recording: Recording) -> None:
    accepted(recording, (1, 1), 1, 2)
    recording.deliver((1, 1), 1, 2, state="s")
    recording.records.wipe(2)
    recording.restart(2, 2)
    recording.says(2, "restore", zxid=(1, 1), state="s")
    accepted(recording, (1, 2), 1, 2)
    recording.deliver((1, 2), 1, 2)
    assert violated(recording.judged()) == set()


def test_a_state_from_the_nodes_own_disk_leaves_its_log(recording: Recording) -> None:
    accepted(recording, (1, 1), 1, 2)
    recording.deliver((1, 1), 1, 2, state="s")
    accepted(recording, (1, 2), 1, 2)
    recording.restart(2, 2)
    recording.says(2, "restore", zxid=(1, 1), state="s")
    recording.deliver((1, 2), 1, 2)
    assert violated(recording.judged()) == set()


@pytest.mark.parametrize(("found", "broken"), [(True, set()), (False, {"quorum durability"})])
def test_what_a_node_finds_at_its_start_was_durable(recording: Recording, found: bool, broken: set[str]) -> None:
    """It may be killed after a sync, and before it has recorded that."""
    accepted(recording, (1, 1), 1, 2)
    accepted(recording, (1, 2), 1)
    recording.restart(2, 2)
    recording.says(2, "log", last=(1, 2) if found else (1, 1))
    recording.deliver((1, 1), 1, 2)
    recording.deliver((1, 2), 1, 2)
    assert violated(recording.judged()) == broken


def test_a_log_that_was_not_synced_is_found_at_the_next_start(recording: Recording) -> None:
    accepted(recording, (1, 1), 1, 2)
    recording.deliver((1, 1), 1, 2)
    recording.restart(2, 2)
    recording.says(2, "log", last=(0, 0))
    recording.deliver((1, 1), 2)
    assert violated(recording.judged()) == {"committed stays"}


def test_a_truncation_says_nothing_of_what_the_log_had_at_the_start(recording: Recording) -> None:
    accepted(recording, (1, 1), 1)
    recording.deliver((1, 1), 1)
    accepted(recording, (1, 1), 2)
    accepted(recording, (1, 2), 2)
    recording.says(2, "log", last=(1, 1))
    recording.deliver((1, 1), 2)
    assert violated(recording.judged()) == {"quorum durability"}


def test_a_truncation_below_the_snapshot_of_another_node_is_found(recording: Recording) -> None:
    recording.write(1, (1, 1), (1, 2), by=(1,))
    recording.says(2, "restore", zxid=(1, 2))
    recording.says(2, "log", last=(1, 1))
    assert violated(recording.judged()) == {"committed stays"}


def test_a_log_that_is_as_it_was_left_is_no_truncation(recording: Recording) -> None:
    accepted(recording, (1, 1), 1)
    recording.restart(1, 2)
    recording.says(1, "log", last=(1, 1))
    recording.judged()
    events = [json.loads(line) for line in recording.folder.file("trace/node-1-2.jsonl").read_text().splitlines()]
    assert [(one["event"], one["last_zxid"]) for one in events] == [("boot", [1, 1])]
