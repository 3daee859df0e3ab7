"""The data of a run's page as read from its folder: lanes, faults, latency, lag, and damage."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.story import STEP, Story
from zab_chaos.harness.report.html import run_data, tables
from zab_chaos.harness.report.html.lag import Lag, lags
from zab_chaos.harness.report.html.lifetimes import KILLED, TracedLife, times_up
from zab_chaos.harness.report.html.operations import OPS
from zab_chaos.harness.report.html.run_data import RunData as Read
from zab_chaos.harness.report.html.run_data import have_own_clocks, read_run_data
from zab_chaos.harness.results.fault_spans import FaultSpan
from zab_chaos.harness.results.source import MilestoneLine, TraceLine
from zab_chaos.harness.runs.judgement import judge
from zab_chaos.model.oracle import oracle
from zab_chaos.model.oracle.facts import WRITES

SECOND = 10**9


def lane(read: Read, node: int) -> list[Any]:
    return [stretch for stretch in read.lanes if stretch.node == node]


def test_a_lane_has_no_gaps_and_shows_role_phase_and_epoch(folder: Path) -> None:
    read = read_run_data(folder)
    for node in (1, 2, 3):
        lane_segments = lane(read, node)
        assert all(one.end == other.begin for one, other in pairwise(lane_segments))
        assert lane_segments[-1].end == read.end
    states = [(one.state, one.role, one.phase, one.epoch, one.life, one.leader) for one in lane(read, 2)]
    assert ("up", "FOLLOWING", "BROADCAST", 1, 1, 3) in states
    assert ("up", "LEADING", "BROADCAST", 1, 1, 2) in states  # until its next phase begins, it is in the last one
    assert ("up", "LEADING", "BROADCAST", 2, 1, 2) in states


def test_a_killed_node_is_down_from_the_kill_to_its_next_life(folder: Path) -> None:
    read = read_run_data(folder)
    (down,) = [one for one in lane(read, 3) if one.state == "down" and one.life == 1]
    kill = read.spans[0]
    assert (kill.do, down.begin) == ("crash", kill.at)
    assert down.end == next(life.begin for life in read.lives if (life.node, life.number) == (3, 2))
    assert down.why == "crash (fault 1)"


def test_the_reason_of_a_node_that_ended_itself_and_the_end_of_one_whose_process_disappeared(
    told: Story, tmp_path: Path
) -> None:
    told.boot(2)
    told.milestone("ended", node=2, life=2, code=74, armed=False)
    told.save(tmp_path / "run")
    lives = {(life.node, life.number): life for life in read_run_data(tmp_path / "run").lives}
    assert lives[1, 2].why == "ended itself: asked to"
    assert lives[2, 2].why == "ended with exit code 74"


@pytest.mark.parametrize("other", ["3.8.6", "3.9.5"])
def test_lanes_show_the_release_of_each_life_if_there_are_several(told: Story, tmp_path: Path, other: str) -> None:
    for life, release in ((1, "3.8.6"), (2, other)):
        told.milestone("release", node=2, life=life, release=release)
    told.boot(2)
    told.save(tmp_path / "run")
    read = read_run_data(tmp_path / "run")
    several = other != "3.8.6"
    shown = {(one.life, one.release) for one in lane(read, 2) if one.state == "up"}
    assert shown == ({(1, "3.8.6"), (2, "3.9.5")} if several else {(1, ""), (2, "")})
    words = [one["words"] for one in json.loads(json.dumps(read.as_json()))["milestones"]]
    assert ("node 2: release 3.9.5" in words) == several
    assert "release" not in words
    lives = str(tables.lives(read))
    assert ("3.9.5" in lives, "release" in lives) == (several, several)


def end_of_life(told: Story, folder: Path) -> tuple[int | None, str]:
    """Return when and why node 2's first life ended. settle() ended every node that was up; the story goes on after it, so that
    exit is taken out."""
    told.traces[2, 1] = [line for line in told.traces[2, 1] if '"exit"' not in line]
    told.save(folder)
    life = next(one for one in read_run_data(folder).lives if (one.node, one.number) == (2, 1))
    return life.end, life.why


def test_a_node_that_reached_its_crash_point_ends_there(told: Story, tmp_path: Path) -> None:
    told.inject("crash-at", [2])
    told.event(2, "fault", do="crash-at", state="fired", detail="before-sync:TXN")
    fired = told.t
    told.milestone("ended", node=2, life=1, code=-9, armed=True)
    told.heal()
    told.boot(2)
    assert end_of_life(told, tmp_path / "run") == (fired, "killed at before-sync:TXN (crash-at)")


@pytest.mark.parametrize("do", ["crash", "remove-file"])
def test_a_node_that_a_fault_ended_for_good_ends_with_it(do: str, told: Story, tmp_path: Path) -> None:
    told.crash(2, do=do, heal=False)
    assert end_of_life(told, tmp_path / "run") == (told.t, f"{do} (fault {told.fault_ids})")


def test_a_life_ends_with_the_fault_that_ended_it_and_not_with_one_that_it_survived(
    told: Story, tmp_path: Path
) -> None:
    told.inject("disk-full", [2])
    told.heal()
    told.milestone("ended", node=1, life=2, code=-9)
    told.event(2, "role", role="LOOKING", leader=None, why="")
    told.crash(2, heal=False)
    told.event(2, "vote")  # a fault is logged when it is confirmed; the node may write until then
    assert end_of_life(told, tmp_path / "run") == (told.t, f"crash (fault {told.fault_ids})")


def test_a_node_that_aborted_and_wrote_no_exit_has_ended_itself(told: Story, tmp_path: Path) -> None:
    told.event(2, "abort", why="its disk failed")
    assert end_of_life(told, tmp_path / "run") == (told.t, "ended itself: its disk failed")


def test_a_life_is_not_ended_by_a_fault_before_or_after_it(told: Story, tmp_path: Path) -> None:
    """Life 1 disappears without a record, life 2 is crashed, life 3 goes on."""
    last = told.t
    told.event(2, "vote")
    told.boot(2)
    told.crash(2)
    told.boot(2)
    assert end_of_life(told, tmp_path / "run") == (last + STEP, KILLED)
    lives = {life.number: life for life in read_run_data(tmp_path / "run").lives if life.node == 2}
    assert lives[2].why == f"crash (fault {told.fault_ids})"
    assert lives[3].end is None


def test_a_crash_point_that_is_not_reached_ends_nothing(told: Story, tmp_path: Path) -> None:
    told.inject("crash-at", [2])
    told.heal(confirmed=False)
    assert end_of_life(told, tmp_path / "run") == (None, "")


def test_a_resume_ends_the_pause_before_it_only(told: Story, tmp_path: Path) -> None:
    times = []
    for do in ("pause", "resume", "pause"):
        told.inject(do, [2])
        times.append(told.t)
    told.heal()
    told.save(tmp_path / "run")
    assert read_run_data(tmp_path / "run").pauses[2] == [(times[0], times[1]), (times[2], told.t)]


def test_the_sign_of_a_loss_inside_a_log_says_what_follows_now(told: Story, tmp_path: Path) -> None:
    told.event(2, "truncate", keep=[1, 2], last=[1, 3], followed_by=[1, 4])
    told.save(tmp_path / "run")
    read = read_run_data(tmp_path / "run")
    (sign,) = [event for event in read.as_json()["events"] if event["kind"] == "truncate"]
    assert sign["words"] == "node 2 (life 1) lost what followed 1:2 in its log, up to 1:3 (now 1:4 follows)"


def test_pauses_amnesia_and_cut_links_have_their_times(folder: Path) -> None:
    read = read_run_data(folder)
    crash, pause, wipe, cut = read.spans
    assert read.pauses == {3: [(pause.at, pause.healed)]}
    amnesiac = next(life for life in read.lives if (life.node, life.number) == (1, 2))
    assert amnesiac.amnesiac_until is not None
    assert amnesiac.begin < amnesiac.amnesiac_until < cut.at
    assert not have_own_clocks({"backend": "processes"}, read.spans)
    assert read.links == {(2, 1): [(cut.at, cut.healed, True)], (2, 3): [(cut.at, cut.healed, True)]}
    assert (crash.on, wipe.on) == ("one = 3", "one = 1")


def test_an_amnesiac_life_that_is_killed_is_amnesiac_until_then(told: Story, tmp_path: Path) -> None:
    told.wipe(1)
    told.boot(1, "amnesiac")
    told.crash(1, heal=False)
    killed = told.t
    told.boot(1)
    told.save(tmp_path / "run")
    read = read_run_data(tmp_path / "run")
    assert [one["end"] for one in read.as_json()["amnesia"]][-1] == (killed - read.zero) // 1000


def test_the_nodes_of_a_run_with_a_clock_fault_have_clocks_of_their_own(told: Story, tmp_path: Path) -> None:
    told.inject("clock-jump", [1])
    told.save(tmp_path / "run")
    assert have_own_clocks({"backend": "processes"}, read_run_data(tmp_path / "run").spans)
    assert have_own_clocks({"backend": "sim"}, [])


def test_a_pause_at_a_point_begins_when_the_point_is_reached(told: Story, tmp_path: Path) -> None:
    told.inject("pause-at", [1, 2])
    told.event(1, "fault", do="crash-at", state="fired", detail="before-send:ACK")
    fired = told.t
    told.heal()
    told.save(tmp_path / "run")
    read = read_run_data(tmp_path / "run")
    assert read.pauses[1] == [(fired, read.spans[-1].healed)]
    assert 2 not in read.pauses


def test_a_fault_that_was_never_healed_lasts_and_a_restart_is_a_moment(told: Story, tmp_path: Path) -> None:
    told.inject("restart", [3])
    told.heal()
    told.inject("partition", [1], pairs=[[1, 2]], confirmed=False)
    told.save(tmp_path / "run")
    read = read_run_data(tmp_path / "run")
    restart, cut = read.spans[-2:]
    assert restart.end is None
    assert [(one["mends"], one["end"]) for one in read.as_json()["faults"][-2:]] == [(True, None), (False, None)]
    assert (cut.healed, cut.confirmed) == (None, False)
    assert read.links[1, 2] == [(cut.at, read.end, True)]


def operation(
    due: float, took: float | None, outcome: str = "ok", op: str = "set", **said: Any
) -> list[dict[str, Any]]:
    key = {"client": 1, "seq": int(due * 1000), "node": 2}
    begin = int(due * SECOND)
    lines: list[dict[str, Any]] = [{"type": "invoke", "t": begin + 5, "due": begin, "op": op, "path": "/a", **key}]
    if took is not None:
        lines.append({"type": "complete", "t": begin + int(took * SECOND), "outcome": outcome, **key, **said})
    return lines


def write_operations(folder: Path, *operations: list[dict[str, Any]], stopped: float = 20) -> None:
    folder.mkdir(exist_ok=True)
    folder.joinpath("run.json").write_text('{"nodes": 3, "outcome": "finished"}')
    lines = sorted((line for one in operations for line in one), key=lambda line: line["t"])
    folder.joinpath("ops.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    times = {"workload-started": 1, "workload-stopped": stopped, "stopped": stopped + 3}
    milestones = [{"t": int(t * SECOND), "event": event} for event, t in times.items()]
    folder.joinpath("harness.jsonl").write_text("".join(json.dumps(line) + "\n" for line in milestones))


def test_latency_counts_from_the_due_time_of_successful_operations(tmp_path: Path) -> None:
    write_operations(
        tmp_path,
        *(operation(1 + i / 100, (i + 1) / 1000) for i in range(100)),
        operation(3, 0.5, op="get"),
        operation(4, 9.0, "failed"),
        operation(5, None),
    )
    read = read_run_data(tmp_path)
    rows = {name: (count, values) for name, count, values in read.operations.quantiles()}
    assert rows["writes"][0] == 100
    assert rows["writes"][1] == pytest.approx([50, 90, 99, 100, 100])
    assert rows["reads"] == (1, pytest.approx([500] * 5))
    assert rows["all"][1][-1] == pytest.approx(500)
    assert read.operations.counts() == {"ok": 101, "failed": 1, "unknown": 1}


def test_outages_equal_those_that_the_oracle_measures(tmp_path: Path) -> None:
    write_operations(
        tmp_path,
        operation(1, 0.01),
        operation(2, 1.5),  # due at 2, done at 3.5: nothing succeeded for 1.5 s
        operation(2.5, 0.5, "failed", error="no leader"),  # nor was it served
        operation(3, 0.6, op="get"),  # a read does not end it
        operation(4, None),  # due at 4 and never answered: it waits also after the last success, to the end, at 6
        operation(4.5, 0.5, "failed", error="bad version"),  # an answer like any other
        stopped=6,
    )
    read = read_run_data(tmp_path)
    assert read.outages == [(2 * SECOND, 3.5 * SECOND), (4 * SECOND, 5 * SECOND), (5 * SECOND, 6 * SECOND)]
    assert (
        max(end - begin for begin, end in read.outages) / SECOND
        == oracle.judge(tmp_path).metrics["longest_unavailability_s"]
    )


def test_lag_counts_what_others_delivered_and_a_restart_keeps_the_position(told: Story, tmp_path: Path) -> None:
    told.save(tmp_path / "run")
    found = {(lag.node, lag.life): lag for lag in read_run_data(tmp_path / "run").lags}
    assert max(found[3, 1].before) <= 1
    assert found[3, 2].before[0] == 3  # it delivers again what it had, and is three writes behind
    assert found[3, 2].after[-1] == 0
    assert found[1, 2].before[0] == 7  # its disk was lost: it is behind by everything
    assert found[1, 2].after[-1] == 0


def test_lag_is_counted_over_all_epochs_and_a_restored_snapshot_counts_as_delivered() -> None:
    ahead = TracedLife(1, 1, 0, 60, delivered=[(10, 1, 5), (20, 1, 7), (40, 2, 2), (60, 3, 1)])
    restored = TraceLine(t=30, event="snapshot", kind="restored", zxid=[1, 6])
    behind = TracedLife(2, 1, 0, 70, events=[restored], delivered=[(50, 2, 2), (70, 3, 1)])
    _, lag = lags([ahead, behind], 0)
    assert (lag.t, lag.before, lag.after) == ([30, 50, 70], [7, 3, 1], [1, 0, 0])


def test_of_deliveries_that_are_too_close_to_draw_the_highest_lag_is_shown() -> None:
    lag = Lag(1, 1)
    for t, before, after in ((0, 1, 0), (5, 4, 3), (9, 2, 1), (10, 0, 0)):
        lag.add(t, before, after, 10)
    assert (lag.t, lag.before, lag.after) == ([0, 10], [4, 0], [1, 0])


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        ("run.json", "{", "does not describe a run"),
        ("verdict.json", "[]", "is not readable"),
        (
            "ops.jsonl",
            '{"t":1,"type":"invoke","client":1,"seq":1,"due":99999999999999999999,"op":"set"}\n',
            "not readable",
        ),
        ("ops.jsonl", '{"t":1,"type":"complete","client":1,"seq":1,"outcome":"ok"}\n', "unexpected"),
        ("ops.jsonl", '{"t":1,"type":"inv', "is incomplete"),
        ("faults.jsonl", '{"t":1,"type":"heal","id":7}\n', "which was not injected"),
        ("faults.jsonl", '{"t":1,"type":"inject","id":[7],"nodes":"all"}\n', "is not readable"),
        ("harness.jsonl", "\x00\n", "is not readable"),
        ("trace/node-1-1.jsonl", '{"t":-5,"event":"boot"}\n', "is not readable"),
        ("trace/node-1-1.jsonl", '{"t":5,"event":"deliver","epoch":"x"}\n', "is not readable"),
    ],
)
def test_damage_is_listed_and_the_rest_is_shown(folder: Path, file: str, content: str, why: str) -> None:
    folder.joinpath(file).write_text(content)
    read = read_run_data(folder)
    (damage,) = [one for one in read.source.damages if why in one.why]
    assert damage.file == file
    assert read.nodes == [1, 2, 3]
    assert lane(read, 2)


def test_a_trace_cut_off_by_a_kill_is_no_damage_and_a_folder_for_a_file_is(folder: Path) -> None:
    with folder.joinpath("trace/node-3-1.jsonl").open("a") as file:
        file.write('{"t":12')
    folder.joinpath("faults.jsonl").unlink()
    folder.joinpath("faults.jsonl").mkdir()
    (damage,) = read_run_data(folder).source.damages
    assert damage.file == "faults.jsonl"


def test_a_million_bad_lines_are_counted_not_listed(folder: Path) -> None:
    folder.joinpath("harness.jsonl").write_text("?\n" * 200)
    source = read_run_data(folder).source
    assert (len(source.damages), source.more) == (50, 150)


def test_a_violation_has_its_evidence_on_the_lanes_each_line_once(tmp_path: Path) -> None:
    from tests.corpus.delivery import agreement_fork

    agreement_fork().save(tmp_path / "run")
    verdict = judge(tmp_path / "run")
    tmp_path.joinpath("run/verdict.json").write_bytes(verdict.to_json())
    judged = read_run_data(tmp_path / "run").judged
    assert "agreement" in [item.name for item, _ in judged.violations]
    assert [mark.number for mark in judged.marks] == list(range(1, len(judged.marks) + 1))
    assert len({(mark.file, mark.line) for mark in judged.marks}) == len(judged.marks)
    delivered = [mark for mark in judged.marks if " delivered " in mark.words]
    assert delivered
    assert all(mark.node in (1, 2, 3) and mark.t for mark in delivered)


@pytest.mark.parametrize("later", [0, 60])
def test_a_chain_far_shorter_than_the_run_is_shown_first(tmp_path: Path, later: int) -> None:
    from tests.corpus.delivery import agreement_fork

    story = agreement_fork()
    story.t += later * SECOND
    story.milestone("converged")
    story.save(tmp_path)
    tmp_path.joinpath("verdict.json").write_bytes(judge(tmp_path).to_json())
    run = read_run_data(tmp_path)
    assert run.chain is not None
    shown = run.as_json()["open"]
    if not later:
        assert shown is None
        return
    begin, end = ((run.chain.events[at].t - run.zero) // 1000 for at in (0, -1))
    assert shown[0] < begin - 10_000
    assert end + 10_000 < shown[1]
    assert shown[1] - shown[0] < 0.1 * (run.end - run.begin) / 1000


def test_the_run_begins_with_its_first_process(tmp_path: Path) -> None:
    """Time in which the harness fetched or built something before is not part of the run."""
    story = Story()
    story.t += 300 * SECOND
    story.start()
    story.elect(3, 1)
    story.milestone("workload-started")
    story.write()
    started = json.loads(story.files["harness.jsonl"][0])
    story.files["harness.jsonl"][0] = json.dumps(started | {"t": started["t"] - 300 * SECOND}) + "\n"
    story.save(tmp_path / "run")
    read = read_run_data(tmp_path / "run")
    assert read.source.damages == []
    assert read.begin == min(life.begin for life in read.lives)
    assert read.end - read.begin < SECOND


@pytest.mark.parametrize(
    ("faults", "up"),
    [
        ([], [(0, 100)]),
        ([("crash", 10, 20), ("slow-disk", 5, 15)], [(0, 10), (20, 100)]),  # the disk's healing starts nothing
        ([("stop", 10, None), ("restart", 30, 31), ("wipe", 60, None)], [(0, 10), (30, 60)]),
        ([("disk-error", 40, 70), ("slow-disk", 10, 60)], [(0, 50), (70, 100)]),  # it ended by itself at 50
    ],
)
def test_a_node_without_traces_is_down_from_what_ended_it_to_a_healing(
    faults: list[tuple[str, int, int | None]], up: list[tuple[int, int]]
) -> None:
    spans = [FaultSpan(number, do, "one", [1], {}, [], at, healed) for number, (do, at, healed) in enumerate(faults)]
    spans += [FaultSpan(8, "crash", "one", [2], {}, [], 70), FaultSpan(9, "crash", "one", [1], {}, [], 80, None, False)]
    ended = [MilestoneLine(t=50, event="ended", node=1)] if up[0][1] == 50 else []
    assert times_up(1, spans, [*ended, MilestoneLine(t=60, event="ended", node=2)], 0, 100) == up


def test_an_empty_folder_gives_empty_data(tmp_path: Path) -> None:
    read = read_run_data(tmp_path)
    assert (read.nodes, read.lanes, len(read.operations)) == ([], [], 0)
    assert read.begin < read.end


def test_the_page_and_the_data_name_the_same_operations() -> None:
    """The data have an operation's index, of one hexadecimal digit."""
    script = Path(run_data.__file__).with_name("assets").joinpath("data.js").read_text()
    names, writes = (
        json.loads(listed) for listed in re.findall(r"^const (?:OPS|WRITES) = .*?(\[.*?\])", script, re.MULTILINE)
    )
    assert tuple(names) == OPS
    assert set(writes) == WRITES
    assert len(OPS) <= 16
