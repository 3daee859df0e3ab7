"""Cases in which the records of a run were edited afterwards."""

import json
from collections.abc import Callable
from typing import Any

from tests.corpus.cases import ends, leaves_unknown, legal, violates
from tests.corpus.delivery import agreement_same_zxid_other_bytes, total_order_skipped
from tests.corpus.requests import once_answered_before_delivery
from tests.corpus.story import STEP, Story, ensemble

Line = dict[str, Any]


def edit(lines: list[str], change: Callable[[list[Line]], None], *, numbered: bool = False) -> None:
    """Edit the lines of a file in place. `numbered`: they belong to a trace, and are numbered again."""
    records = [json.loads(line) for line in lines]
    change(records)
    for number, line in enumerate(records, 1):
        line |= {"n": number} if numbered else {}
    lines[:] = [json.dumps(line) + "\n" for line in records]


def index_of(lines: list[Line], **fields: Any) -> int:
    """Return the index of the last line with these fields."""
    return max(number for number, line in enumerate(lines) if fields.items() <= line.items())


def drop(lines: list[Line], **fields: Any) -> None:
    """Remove the last line with these fields."""
    del lines[index_of(lines, **fields)]


def put(new: Line, **fields: Any) -> Callable[[list[Line]], None]:
    """Return an edit that puts `new` into the last line with these fields."""
    return lambda lines: lines[index_of(lines, **fields)].update(new)


def eventful_run() -> Story:
    """Return the run that is edited: node 1 leads epoch 1 and dies with 1:4 on its disk alone; nodes 2 and 3 go on in epoch
    2; node 1 truncates and joins."""
    story = ensemble()
    story.propose(to=[1])
    story.crash(1)
    story.elect(2, epoch=2, members=[2, 3])
    story.write()
    story.boot(1)
    story.join(1)
    story.write()
    story.settle()
    return story


def with_edited_file(file: str, change: Callable[[list[Line]], None]) -> Story:
    """Return the eventful run with an edit of a file."""
    story = eventful_run()
    edit(story.files[file], change)
    return story


def with_edited_trace(node: int, life: int, change: Callable[[list[Line]], None]) -> Story:
    """Return the eventful run with an edit of a trace."""
    story = eventful_run()
    edit(story.traces[node, life], change, numbered=True)
    return story


# ---- a node's log ----


@legal("disk")
def edited_not_at_all() -> Story:
    """The run that the following ones are made of."""
    return eventful_run()


@violates("disk")
def edited_truncation_dropped() -> Story:
    """Node 1 joins epoch 2 and goes on with 2:1 where its log has 1:4, as if it had never truncated that."""
    return with_edited_trace(1, 2, lambda lines: drop(lines, event="truncate"))


@violates("disk")
def edited_truncation_of_more() -> Story:
    """Node 1 says that its log ended at 1:5 before it truncated it, and that was 1:4."""
    return with_edited_trace(1, 2, put({"last": [1, 5]}, event="truncate"))


@violates("disk")
def edited_joined_with_less() -> Story:
    """Node 1, which no leader needed any more, says that it has joined epoch 2 with the history up to 1:3."""
    return with_edited_trace(1, 2, put({"last_zxid": [1, 3]}, event="current_epoch"))


# ---- what a primary says, and what clients asked for ----


@violates("primary integrity")
def edited_delivered_in_mid_epoch() -> Story:
    """The primary broadcasts 2:2, and says that it had delivered up to 1:3, though it had delivered 2:1."""
    return with_edited_trace(2, 1, put({"delivered": [1, 3]}, event="broadcast", first=2))


@violates("promises")
def edited_member_of_nobody() -> Story:
    """Node 3, which lost its disk, becomes a member of epoch 2, and no leader of that epoch was ever established."""
    story = ensemble()
    story.wipe(3)
    story.elect(2, epoch=2, members=[1, 2], deliver=False)
    edit(story.traces[2, 1], lambda lines: drop(lines, event="established"), numbered=True)
    story.servers[2].n -= 1
    for node in (1, 2):
        story.event(node, "phase", phase="BROADCAST", epoch=2)
    story.boot(3, "amnesiac")
    story.join(3)
    story.settle()
    return story


@violates("exactly once")
def edited_value_that_nobody_read() -> Story:
    """1:4 was proposed and is lost: the leader's broadcast names another value than its client had asked to write."""

    def change(lines: list[Line]) -> None:
        lines[index_of(lines, event="broadcast", first=4)]["txns"][0][2][0][3] += 1

    return with_edited_trace(1, 1, change)


# ---- records that are damaged ----


def _unreadable(lines: list[str]) -> None:
    lines.append("[\n")


@ends(
    "VIOLATION",
    "trace integrity",
    "UNKNOWN",
    "agreement",
    "integrity",
    "state equality",
    "durability",
    "quorum durability",
)
def edited_operations_of_a_run_without_agreement() -> Story:
    """Node 3 delivers 1:4 with other bytes than the others do, and ops.jsonl has an unreadable line. The nodes' traces are
    whole."""
    story = agreement_same_zxid_other_bytes()
    _unreadable(story.files["ops.jsonl"])
    return story


@ends("VIOLATION", "trace integrity", "UNKNOWN", "agreement", "state equality", "quorum durability")
def edited_trace_of_a_node_that_agrees() -> Story:
    """The same, and what is unreadable is a line of node 2's trace. What nodes 1 and 3 delivered is still there."""
    story = agreement_same_zxid_other_bytes()
    _unreadable(story.traces[2, 1])
    return story


@ends(
    "VIOLATION",
    "trace integrity",
    "UNKNOWN",
    "total order",
    "local primary order",
    "prefix",
    "state equality",
    "durability",
)
def edited_trace_of_a_node_that_skips_nothing() -> Story:
    """Node 3 delivers 1:5 without 1:4, and a line of node 1's trace is unreadable. It can't be what node 3 delivered."""
    story = total_order_skipped()
    _unreadable(story.traces[1, 1])
    return story


@ends("VIOLATION", "trace integrity", "UNKNOWN", "exactly once")
def edited_trace_of_a_node_that_did_not_answer() -> Story:
    """Node 2 answers a write before it delivers it, and a line of node 3's trace is unreadable."""
    story = once_answered_before_delivery()
    _unreadable(story.traces[3, 1])
    return story


@leaves_unknown("trace integrity")
def edited_trace_of_the_node_that_answered() -> Story:
    """The same with node 2's trace: it may have delivered the write before."""
    story = once_answered_before_delivery()
    _unreadable(story.traces[2, 1])
    return story


@leaves_unknown("trace integrity")
def edited_trace_of_the_node_that_checked() -> Story:
    """Node 1 answers a check at 1:4, which no trace has, and a line of node 1's trace is unreadable."""
    story = ensemble()
    story.complete(1, story.invoke(op="check", path="/a", version=2), (1, 4), version=2)
    story.settle()
    _unreadable(story.traces[1, 1])
    return story


# ---- evidence of faults ----


@leaves_unknown("fault took effect")
def edited_evidence_of_another_node() -> Story:
    """Node 1 was paused, and the evidence is that node 2 slept."""
    story = ensemble()
    story.inject("pause", [1], evidence={"2": {"state": "stopped"}})
    story.heal(evidence={"1": {"state": "running"}})
    story.settle()
    return story


@leaves_unknown("fault took effect")
def edited_evidence_of_another_process() -> Story:
    """The evidence names a process that node 1 never had."""
    return with_edited_file("faults.jsonl", put({"evidence": {"1": {"pid": 4711, "exit": -9}}}, type="inject"))


@legal("fault took effect")
def edited_not_in_containers() -> Story:
    """The same in containers, where each process has a number of its own."""
    story = with_edited_file("faults.jsonl", put({"evidence": {"1": {"pid": 4711, "exit": -9}}}, type="inject"))
    story.run["backend"] = "containers"
    return story


@ends("PASS", "fault took effect", "NOT-APPLICABLE")
def edited_by_nobody_who_walked_it() -> Story:
    """Somebody else has killed node 3 and started it, as with docker-compose, where the harness runs no workload."""
    story = ensemble()
    story.servers[3].up = False
    story.boot(3)
    story.join(3)
    story.write()
    story.settle()
    edit(story.files["harness.jsonl"], lambda lines: drop(lines, event="workload-stopped"))
    return story


@leaves_unknown("fault took effect")
def edited_kill_of_the_dead() -> Story:
    """The second fault is to have killed the process that the first one had killed, long before."""
    story = ensemble()
    story.crash(3)
    story.boot(3)
    story.join(3)
    story.crash(3, evidence={"3": {"pid": 3001, "exit": -9}})
    story.boot(3)
    story.join(3)
    story.write()
    story.settle()
    return story


@leaves_unknown("fault took effect")
def edited_pause_of_another_process() -> Story:
    """Node 1 was paused, and the evidence names a process that it never had."""
    story = ensemble()
    story.inject("pause", [1], evidence={"1": {"pid": 4711}})
    story.heal()
    story.settle()
    return story


@leaves_unknown("fault took effect")
def edited_pause_of_the_dead() -> Story:
    """Node 3 was paused in its second life, and the evidence names the process of its first one."""
    story = ensemble()
    story.crash(3)
    story.boot(3)
    story.join(3)
    story.inject("pause", [3], evidence={"3": {"pid": 3001}})
    story.heal()
    story.settle()
    return story


@leaves_unknown("fault took effect")
def edited_pause_of_a_process_to_come() -> Story:
    """Node 3 was paused in its first life, and the evidence names the process of its second one."""
    story = ensemble()
    story.inject("pause", [3], evidence={"3": {"pid": 3002}})
    story.heal()
    story.crash(3)
    story.boot(3)
    story.join(3)
    story.settle()
    return story


@leaves_unknown("fault took effect")
def edited_killed_with_another_status() -> Story:
    """The process that was killed is to have ended with 0, and its trace has no exit."""
    return with_edited_file("faults.jsonl", put({"evidence": {"1": {"pid": 1001, "exit": 0}}}, type="inject"))


@leaves_unknown("fault took effect")
def edited_killed_with_two_statuses() -> Story:
    """The process ended with -9 when it was killed, and with -15 when that was healed."""
    return with_edited_file("faults.jsonl", put({"evidence": {"1": {"pid": 1001, "exit": -15}}}, type="heal"))


@leaves_unknown("fault took effect")
def edited_killed_with_a_second_status() -> Story:
    """The same, with -2 when that was healed."""
    return with_edited_file("faults.jsonl", put({"evidence": {"1": {"pid": 1001, "exit": -2}}}, type="heal"))


@leaves_unknown("fault took effect")
def edited_ended_before_it_was_killed() -> Story:
    """The harness saw that node 1 had ended by itself, with 70; then it is to have been killed."""
    story = ensemble()
    story.milestone("ended", node=1, life=1, code=70, armed=False)
    story.crash(1)
    story.boot(1)
    story.elect(2, epoch=2)
    story.write()
    story.settle()
    return story


@leaves_unknown("fault took effect")
def edited_evidence_of_other_links() -> Story:
    """The links between nodes 1 and 2 were cut, and the frames that were counted are those of another link."""
    story = ensemble()
    story.inject("partition", [1], pairs=[[1, 2], [2, 1]])
    story.heal(evidence={"links": [{"from": 3, "to": 2, "at_inject": 7, "at_heal": 7}]})
    story.settle()
    return story


@leaves_unknown("fault took effect")
def edited_number_of_links() -> Story:
    """Two links were cut, and the evidence is of three."""
    story = ensemble()
    story.inject("partition", [1], pairs=[[1, 2], [2, 1]], evidence={"links": 3})
    story.heal()
    story.settle()
    return story


@legal("fault took effect")
def edited_number_of_links_that_fits() -> Story:
    """Two links were cut, and the evidence is of two."""
    story = ensemble()
    story.inject("partition", [1], pairs=[[1, 2], [2, 1]], evidence={"links": 2})
    story.heal()
    story.settle()
    return story


@leaves_unknown("fault took effect")
def edited_healed_against_its_evidence() -> Story:
    """That node 3 was started again is confirmed, though it is not up."""
    story = ensemble()
    story.inject("pause", [3])
    story.heal(evidence={"up": False})
    story.settle()
    return story


@leaves_unknown("fault took effect")
def edited_confirmed_against_its_evidence() -> Story:
    """A partition is confirmed, though frames went on."""
    story = ensemble()
    story.inject("partition", [1], pairs=[[1, 2], [2, 1]], evidence={"how": "timeout", "quiet": False})
    story.heal()
    story.settle()
    return story


@leaves_unknown("fault took effect")
def edited_node_that_is_none() -> Story:
    """A fault of node 4, in an ensemble of three."""
    story = ensemble()
    story.inject("slow-disk", [4])
    story.heal()
    story.settle()
    return story


@leaves_unknown("fault took effect")
def edited_link_to_a_node_that_is_none() -> Story:
    """The link from node 1 to node 4 was cut, in an ensemble of three."""
    story = ensemble()
    story.inject("partition", [1], pairs=[[1, 4]])
    story.heal()
    story.settle()
    return story


@leaves_unknown("fault took effect")
def edited_end_of_a_life() -> Story:
    """Node 3, which nobody killed, ends without an exit."""
    return with_edited_trace(3, 1, lambda lines: drop(lines, event="exit"))


@leaves_unknown("fault took effect")
def edited_end_of_a_second_life() -> Story:
    """Node 1 was killed once. Its second life, which nobody killed, ends without an exit."""
    return with_edited_trace(1, 2, lambda lines: drop(lines, event="exit"))


def _died(*, armed: bool) -> Story:
    """Return a run in which node 3 dies by a signal that the harness has not sent, and is started again."""
    story = ensemble()
    story.inject("clock-jump", [1])
    story.heal()
    story.milestone("ended", node=3, life=1, code=-9 if armed else -11, armed=armed)
    story.boot(3)
    story.join(3)
    story.settle()
    return story


@leaves_unknown("fault took effect")
def edited_end_by_a_signal_of_nobody() -> Story:
    """Node 3's process crashes (SIGSEGV) without a fault. Whatever did that is not part of the experiment."""
    return _died(armed=False)


def _ended(code: int, fault: str | None = None, after: int | None = None) -> Story:
    """Return a run in which node 3 ends with an exit status that the harness has not asked for, and is started again. `after`:
    so many seconds after the healing of the fault."""
    story = ensemble()
    if fault is not None:
        story.inject(fault, [3])
    if after is not None:
        story.heal()
        story.t += after * 1000 * STEP
    story.event(3, "exit", code=code, why="as in a test")
    story.milestone("ended", node=3, life=1, code=code, armed=False)
    if fault is not None and after is None:
        story.heal()
    story.boot(3)
    story.join(3)
    story.settle()
    return story


@leaves_unknown("fault took effect")
def edited_end_by_a_disk_that_no_fault_made_fail() -> Story:
    """Node 3's disk fails, and no fault made it: the machine's own disk is full or broken."""
    return _ended(74)


@leaves_unknown("fault took effect")
def edited_end_by_a_disk_that_fails_under_another_fault() -> Story:
    """Node 3's disk fails while it is slow. A slow disk fails nothing."""
    return _ended(74, "slow-disk")


@legal("fault took effect")
def edited_end_by_a_full_disk() -> Story:
    """Node 3's disk is made full."""
    return _ended(74, "disk-full")


@legal("fault took effect")
def edited_end_by_a_disk_that_had_failed() -> Story:
    """Node 3's disk was full, and the node has noticed a write that failed when there was room again."""
    return _ended(74, "disk-full", after=1)


@leaves_unknown("fault took effect")
def edited_end_by_a_disk_that_had_been_repaired() -> Story:
    """Node 3's disk fails 3 s after the fault that made it fail was healed."""
    return _ended(74, "disk-full", after=3)


@leaves_unknown("fault took effect")
def edited_end_that_nobody_asked_for() -> Story:
    """Somebody else than the harness stops node 3."""
    return _ended(0)


@leaves_unknown("fault took effect")
def edited_end_by_a_wrong_configuration() -> Story:
    """Node 3 refuses its configuration, and is started again."""
    return _ended(78)


@legal("fault took effect")
def edited_end_at_a_crash_point_that_was_armed_at_the_start() -> Story:
    """Node 3's process kills itself at a crash point with which it was started."""
    return _died(armed=True)


@leaves_unknown("fault took effect")
def edited_end_of_the_life_after_one_that_ended_by_itself() -> Story:
    """The harness saw how node 3's first life ended. Its second life ends without an exit, and nobody killed it."""
    story = ensemble()
    story.event(3, "exit", code=74, why="disk full")
    story.milestone("ended", node=3, life=1, code=74, armed=False)
    story.boot(3)
    story.join(3)
    story.settle()
    edit(story.traces[3, 2], lambda lines: drop(lines, event="exit"), numbered=True)
    return story


@leaves_unknown("fault took effect")
def edited_life_after_its_end() -> Story:
    """Node 3 says that it has ended, and goes on."""

    def change(lines: list[Line]) -> None:
        lines.append({**lines[-1], "event": "vote"})

    return with_edited_trace(3, 1, change)


# ---- what is told twice, and in an order ----


@leaves_unknown("trace integrity")
def edited_settings_of_a_node() -> Story:
    """Node 2 started in an ensemble of five, and run.json says three."""
    return with_edited_trace(2, 1, put({"nodes": 5}, event="boot"))


@leaves_unknown("trace integrity")
def edited_defect_in_the_description() -> Story:
    """run.json names a defect that the nodes did not have."""
    story = eventful_run()
    story.run["defect"] = "early-ready"
    return story


@leaves_unknown("trace integrity")
def edited_disk_in_the_description() -> Story:
    """run.json says that the disk was an ordinary one; the nodes started on a faithful one."""
    story = eventful_run()
    story.run["disk"] = "ordinary"
    return story


@leaves_unknown("trace integrity")
def edited_seed() -> Story:
    """The run began with another seed than run.json names."""
    story = eventful_run()
    story.run["seed"] = 7
    edit(story.files["harness.jsonl"], put({"seed": 8}, event="started"))
    return story


@leaves_unknown("trace integrity")
def edited_times_of_faults() -> Story:
    """A fault is healed before it was injected."""
    return with_edited_file("faults.jsonl", put({"t": STEP}, type="heal"))


@leaves_unknown("trace integrity")
def edited_order_of_faults() -> Story:
    """The second fault was injected before the first one."""
    story = ensemble()
    for node in (2, 3):
        story.inject("pause", [node])
        story.heal()
    lines = story.files["faults.jsonl"]
    lines[:] = [*lines[2:], *lines[:2]]
    story.settle()
    return story


@leaves_unknown("trace integrity")
def edited_fault_before_the_run() -> Story:
    """A fault was injected before the run began."""
    return with_edited_file("faults.jsonl", put({"t": STEP}, type="inject"))


@leaves_unknown("trace integrity")
def edited_order_of_milestones() -> Story:
    """The time in which only safety is judged ends before the workload is stopped."""
    return with_edited_file("harness.jsonl", lambda lines: lines.insert(1, lines.pop(2)))


def _with_a_line_of_another_life(**whose: int) -> Story:
    """Let the trace of node 3's first life end with what is said to be the first line of another life."""
    story = ensemble()
    story.settle()
    story.event(3, "vote", round=1, leader=1, zxid=[1, 3], epoch=1)
    edit(story.traces[3, 1], put({**whose, "n": 1, "t": story.t - STEP}, event="vote"))
    return story


@leaves_unknown("trace integrity")
def edited_line_of_another_node() -> Story:
    """The trace of node 3 ends with a line that is said to be the first one of a node 4."""
    return _with_a_line_of_another_life(node=4)


@leaves_unknown("trace integrity")
def edited_line_of_another_life() -> Story:
    """The trace of node 3's first life ends with a line that is said to be the first one of its second life."""
    return _with_a_line_of_another_life(life=2)


@leaves_unknown("trace integrity")
def edited_start_of_the_run() -> Story:
    """The run starts when its nodes have long been there."""
    story = eventful_run()
    edit(story.files["harness.jsonl"], lambda lines: lines[0].update(t=lines[1]["t"]))
    return story


@leaves_unknown("trace integrity")
def edited_end_of_the_run() -> Story:
    """The run has stopped when its nodes are still there."""
    return with_edited_file("harness.jsonl", lambda lines: lines[-1].update(t=lines[-2]["t"]))


@leaves_unknown("trace integrity")
def edited_start_of_a_node() -> Story:
    """Node 3 starts before the run does."""
    story = eventful_run()
    edit(story.traces[3, 1], lambda lines: lines[0].update(t=STEP))
    return story


@leaves_unknown("trace integrity")
def edited_milestone_twice() -> Story:
    """The workload stops a second time."""
    return with_edited_file("harness.jsonl", lambda lines: lines.insert(1, dict(lines[1])))


@leaves_unknown("trace integrity")
def edited_first_leader() -> Story:
    """Node 3 is to have been the first leader; no trace shows it."""
    story = eventful_run()
    edit(
        story.files["harness.jsonl"],
        lambda lines: lines.insert(1, {"t": lines[0]["t"], "event": "established", "leader": 3, "epoch": 1}),
    )
    return story


@leaves_unknown("trace integrity")
def edited_convergence() -> Story:
    """The nodes are to have converged at 2:9, which nobody has delivered."""
    return with_edited_file("harness.jsonl", put({"zxid": [2, 9]}, event="converged"))


@leaves_unknown("trace integrity")
def edited_convergence_in_the_past() -> Story:
    """The nodes are to have converged at 1:3, and had long gone on from there when the faults were over."""
    return with_edited_file("harness.jsonl", put({"zxid": [1, 3]}, event="converged"))


@leaves_unknown("trace integrity")
def edited_counts() -> Story:
    """The workload counted three writes that failed; ops.jsonl has none."""
    return with_edited_file("harness.jsonl", put({"failed": 3}, event="workload-stopped"))


@leaves_unknown("trace integrity")
def edited_count_of_successes() -> Story:
    """The workload counted more successful operations than ops.jsonl has."""
    return with_edited_file("harness.jsonl", put({"ok": 99}, event="workload-stopped"))


@leaves_unknown("trace integrity")
def edited_count_of_unknown_ones() -> Story:
    """The workload counted three operations of unknown outcome; ops.jsonl has one."""
    return with_edited_file("harness.jsonl", put({"unknown": 3}, event="workload-stopped"))


@leaves_unknown("trace integrity")
def edited_answer_before_its_question() -> Story:
    """A client is answered before it asks."""
    return with_edited_file("ops.jsonl", lambda lines: lines[-1].update(t=lines[-2]["t"] - 1))


@leaves_unknown("trace integrity")
def edited_request_before_it_was_due() -> Story:
    """A client asks before the workload wants it to."""
    return with_edited_file("ops.jsonl", lambda lines: lines[-2].update(due=lines[-2]["t"] + 1))


@leaves_unknown("trace integrity")
def edited_node_that_was_asked() -> Story:
    """A client asks node 4 of three."""
    return with_edited_file("ops.jsonl", lambda lines: lines[-2].update(node=4))


@leaves_unknown("trace integrity")
def edited_second_boot() -> Story:
    """Node 3 starts twice in one life, as the same process."""
    return with_edited_trace(3, 1, lambda lines: lines.insert(1, dict(lines[0])))


@leaves_unknown("trace integrity")
def edited_epoch_below_all() -> Story:
    """Node 3 starts with an epoch of -1."""
    return with_edited_trace(3, 1, put({"current_epoch": -1}, event="boot"))


@leaves_unknown("trace integrity")
def edited_a_stranger_among_the_nodes() -> Story:
    """The folder has a trace of node 3, and run.json says that the ensemble has two nodes."""
    story = ensemble()
    story.run["nodes"] = 2
    for lines in story.traces.values():
        edit(lines, lambda records: records[0].update(nodes=2))
    story.settle()
    return story


def _without_node_3(end: Callable[[Story], None]) -> Story:
    """Return a run in which node 3 ends and does not come back, and all nodes converge all the same."""
    story = ensemble()
    end(story)
    story.servers[3].up = False
    story.members = [1, 2]
    story.write()
    story.settle()
    return story


@leaves_unknown("trace integrity")
def edited_converged_without_a_killed_node() -> Story:
    """Node 3 is killed, and nobody starts it again."""
    return _without_node_3(lambda story: story.crash(3))


@leaves_unknown("trace integrity")
def edited_converged_without_a_node_that_ended() -> Story:
    """Node 3 ends as if it had been asked to."""
    return _without_node_3(lambda story: story.event(3, "exit", code=0, why="asked to"))


@leaves_unknown("trace integrity")
def edited_converged_and_not() -> Story:
    """The harness says that the nodes converged, and then that they did not."""
    story = eventful_run()
    story.milestone("not-converged", nodes={"1": [2, 2]}, why="different zxids")
    return story


def _answered_while_dead(read: Callable[[Story], int], *, exits: bool = False) -> Story:
    """Let client 2 ask node 3, which has ended, and get an answer before it starts again. `read` sends the request."""
    story = ensemble()
    if exits:
        story.inject("stop", [3], evidence={"3": {"pid": story.pid(3), "exit": 0}})
        story.event(3, "exit", code=0, why="asked to")
    else:
        story.crash(3, heal=False)
    seq = read(story)
    story.answer_read(2, seq, (1, 3), node=3)
    story.boot(3)
    story.heal()
    story.join(3)
    story.settle()
    return story


def _sent_after(seconds: int) -> Callable[[Story], int]:
    def send(story: Story) -> int:
        story.t += seconds * 1_000_000_000
        return story.invoke(2, "get", node=3)

    return send


@leaves_unknown("fault took effect")
def edited_answer_of_a_killed_node() -> Story:
    """Node 3 answers a request that was sent 3 s after it was killed."""
    return _answered_while_dead(_sent_after(3))


@leaves_unknown("fault took effect")
def edited_answer_of_a_node_that_has_exited() -> Story:
    """Node 3 answers a request that was sent just after its exit."""
    return _answered_while_dead(_sent_after(0), exits=True)


@legal("fault took effect")
def edited_answer_of_a_node_that_is_being_killed() -> Story:
    """Node 3 answers a request that was sent 1 s after its killing had begun."""
    return _answered_while_dead(_sent_after(1))
