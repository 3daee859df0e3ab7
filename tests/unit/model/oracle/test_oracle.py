"""The oracle in process: fed with records, it gives the same verdict as for the folder."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.corpus.build import CASES
from tests.corpus.cases import Case
from tests.corpus.conduct import channels_a_frame_that_is_too_large
from tests.corpus.delivery import agreement_fork
from tests.corpus.progress import SECOND, progress_nobody_leads
from tests.corpus.promises import beyond_quorum_of_disks_lost
from tests.corpus.story import Story, digest, ensemble
from zab_chaos.model.events import Run
from zab_chaos.model.oracle.evidence import LISTED
from zab_chaos.model.oracle.oracle import Oracle, judge
from zab_chaos.model.runfiles import decoder
from zab_chaos.model.verdict import Judgement, Outcome, Verdict

# The other cases have damage in the bytes of their files.
READABLE = [case for case in CASES if case.property != "trace integrity"]


def records(name: str, lines: Iterable[str]) -> list[Any]:
    return [decoder(name)(line.encode()) for line in lines]


def events(story: Story) -> list[Any]:
    every = [event for trace in story.traces.values() for event in records("trace", trace)]
    return sorted(every, key=lambda event: event.t)


def feed(story: Story, *, faults_first: bool) -> Oracle:
    oracle = Oracle()
    takers = {
        "harness.jsonl": oracle.add_milestone,
        "faults.jsonl": oracle.add_fault,
        "ops.jsonl": oracle.add_operation,
    }
    others = [(take, records(name, story.files[name])) for name, take in takers.items()]
    for _, lines in others[:1]:  # what was on the disks before the start comes first
        while lines and lines[0].event == "disk":
            oracle.add_milestone(lines.pop(0))
    order = (
        [*others, (oracle.add_event, events(story))] if faults_first else [(oracle.add_event, events(story)), *others]
    )
    for add, what in order:
        for line in what:
            add(line)
    return oracle


def finish(oracle: Oracle, story: Story) -> Verdict:
    return oracle.finish(msgspec.convert(story.run, Run))


@pytest.mark.slow
@pytest.mark.parametrize("case", READABLE, ids=lambda case: case.name)
def test_a_fed_oracle_and_the_judge_of_the_folder_agree(case: Case, tmp_path: Path) -> None:
    story = case.tell()
    story.save(tmp_path / "run")
    stored = judge(tmp_path / "run")
    for faults_first in (False, True):
        fed = finish(feed(story, faults_first=faults_first), story)
        assert fed.verdict == stored.verdict
        assert fed.reasons == stored.reasons
        assert [(it.name, it.verdict, it.checked) for it in fed.properties] == [
            (it.name, it.verdict, it.checked) for it in stored.properties
        ]
        assert fed.metrics == stored.metrics


def test_a_violation_is_known_as_soon_as_it_happens() -> None:
    story = ensemble()
    oracle = feed(story, faults_first=False)
    assert oracle.violated == []
    before = len(events(story))
    story.broadcast(2, (1, 9))
    for event in events(story)[before:]:
        oracle.add_event(event)
    assert set(oracle.violated) == {"one leader an epoch", "primary integrity", "local primary order"}


def test_a_question_during_the_run_changes_no_judgement() -> None:
    """The limits of the run are known only at its end, and so is whether what was too large to be sent had to fit."""
    story = channels_a_frame_that_is_too_large()
    story.broadcast(2, (1, 99))
    oracle = feed(story, faults_first=False)
    assert "one leader an epoch" in oracle.violated
    assert finish(oracle, story).property("channels").verdict is Judgement.VIOLATION


def test_an_answer_without_a_request_makes_the_run_unknown() -> None:
    story = ensemble()
    story.complete(7, 1, (1, 3))
    story.settle()
    assert finish(feed(story, faults_first=False), story).verdict is Outcome.UNKNOWN


def test_unjudged_events_are_counted() -> None:
    story = ensemble()
    story.event(2, "refused", what="stranger", why="unknown key", peer=None, count=1)
    story.event(2, "a-later-version's-event", novelty=True)
    story.write()
    story.settle()
    assert finish(feed(story, faults_first=False), story).verdict is Outcome.PASS


def test_violations_are_capped_and_counted() -> None:
    story = ensemble()
    for session in range(2, 12):
        story.event(2, "channel", peer=1, incarnation=1, session=session, first=5, last=6, ended="closed")
    for _ in range(10):
        story.deliver(1, story.propose(to=[1]))
    story.settle()
    verdict = finish(feed(story, faults_first=False), story)
    for name in ("channels", "quorum durability"):
        found = verdict.property(name)
        assert (len(found.violations), found.more) == (LISTED, 10 - LISTED)
        assert [words.endswith(" (and 9 more)") for words in verdict.reasons if words.startswith(name)] == [True]


def test_every_stall_is_reported_once_whoever_could_have_led() -> None:
    story = progress_nobody_leads(stalls=2)
    assert len(finish(feed(story, faults_first=False), story).property("progress").violations) == 2


def test_a_lost_write_that_is_in_a_fork_is_reported_with_the_fork() -> None:
    """Nodes 2 and 3 go on in epoch 2; node 1 delivers and acknowledges 1:4 by itself."""
    story = ensemble()
    story.elect(2, epoch=2, members=[2, 3])
    story.write()
    seq = story.invoke()
    story.leader, story.members = 1, [1]
    story.propose(to=[1])
    story.deliver(1, (1, 4))
    story.complete(1, seq, (1, 4))
    story.settle(converged=False)
    durability = finish(feed(story, faults_first=False), story).property("durability")
    words = "the write of /a by client 1, seq 5 (1:4) was acknowledged, but the history of node 1, which has it, forked"
    assert words in [it.words for it in durability.violations]


def test_what_a_fork_has_delivered_is_not_called_undelivered() -> None:
    """Node 1 delivers 1:4 on its own disk alone; nodes 2 and 3 deliver 2:1 instead, show it, and converge there."""
    story = agreement_fork(read=True)
    verdict = finish(feed(story, faults_first=False), story)
    words = {item.name: [it.words for it in item.violations] for item in verdict.properties}
    assert words["values and versions"] == [
        "the answer to client 1, seq 6 (get), names 2:1, which node 2 delivered after its history had forked"
    ]
    assert words["reliable delivery"][0].endswith("node 2, up at the end, has delivered up to 2:1, on another path")
    assert words["durability"][0].endswith("(1:4) was acknowledged, but nodes 2 and 3, up to date at the end, lack it")
    assert words["trace integrity"] == ["the nodes converged, and node 1 had ended before"]


def test_a_node_is_not_said_to_have_delivered_what_others_delivered_after_it() -> None:
    """Node 1 is the first to deliver 1:4, and crashes; nodes 2 and 3 deliver 2:1 too. Node 1 restarts, and delivers nothing."""
    story = ensemble()
    zxid = story.propose()
    for node in (1, 2, 3):
        story.deliver(node, zxid)
    story.crash(1)
    story.elect(2, epoch=2, members=[2, 3])
    story.write()
    story.boot(1)
    story.settle()
    [found] = finish(feed(story, faults_first=False), story).property("reliable delivery").violations
    assert found.words == (
        "1:1 to 2:1 were delivered, the first of them by node 1, "
        "but node 1, up at the end, has delivered up to 0:0 (nothing) only"
    )


def test_a_later_leader_of_the_same_epoch_is_not_the_first_leader_of_a_node() -> None:
    """Epoch 1 is given twice. What its second leader had delivered says nothing about the reads under its first."""
    story = ensemble(writes=0)
    story.write()
    story.read(2, node=3)
    story.elect(2, epoch=2)
    story.write()
    story.establish(2, 1)
    story.settle()
    verdict = finish(feed(story, faults_first=False), story)
    assert verdict.property("one leader an epoch").verdict is Judgement.VIOLATION
    assert verdict.property("values and versions").verdict is Judgement.PASS


def test_the_disks_of_observers_do_not_count() -> None:
    story = ensemble(5)
    story.wipe(4, 5)
    for node in (4, 5):
        story.boot(node, "amnesiac")
        story.join(node)
    story.write()
    story.settle()
    story.run["observers"] = 2
    assert finish(feed(story, faults_first=False), story).verdict is Outcome.PASS


@pytest.mark.parametrize(("lost", "beyond"), [((3, 4, 5), False), ((2, 3), True)])
def test_a_quorum_of_disks_is_one_of_voters(lost: tuple[int, ...], beyond: bool) -> None:
    story = ensemble(5)
    story.wipe(*lost)
    for node in lost:
        story.boot(node, "amnesiac")
    story.settle(converged=False)
    story.run["observers"] = 2
    oracle = feed(story, faults_first=False)
    finish(oracle, story)
    assert oracle.facts.beyond_fault_model() is beyond
    if beyond:
        assert 0 < oracle.facts.quorum_of_disks_lost_at() < story.t


def test_only_what_is_not_judged_has_a_reason_for_that() -> None:
    story = beyond_quorum_of_disks_lost()
    verdict = finish(feed(story, faults_first=False), story)
    assert verdict.property("durability").why == "a quorum of disks was lost"
    assert verdict.property("agreement").why is msgspec.UNSET


def test_a_node_without_a_trace_makes_the_run_unknown() -> None:
    story = ensemble()
    story.settle()
    story.run["nodes"] = 4
    verdict = finish(feed(story, faults_first=False), story)
    assert verdict.verdict is Outcome.UNKNOWN
    assert any("node 4" in reason for reason in verdict.reasons)


def test_a_node_that_follows_one_that_does_not_exist_can_be_judged() -> None:
    story = ensemble()
    story.event(3, "role", role="LOOKING", leader=None, why="nothing was heard")
    story.event(3, "phase", phase="ELECTION", epoch=1)
    story.event(3, "role", role="FOLLOWING", leader=9, why="elected")
    story.t += 20 * SECOND
    story.event(3, "role", role="LOOKING", leader=None, why="discovery took too long")
    story.event(3, "phase", phase="ELECTION", epoch=1)
    story.join(3)
    story.settle()
    assert not finish(feed(story, faults_first=False), story).property("progress").violations


def test_a_readmitted_member_counts() -> None:
    """Two of three disks are lost one after the other, each healed in between: nothing is beyond the fault model."""
    story = ensemble()
    for node in (2, 3):
        story.wipe(node)
        story.boot(node, "amnesiac")
        story.join(node)
        story.write()
    story.settle()
    assert finish(feed(story, faults_first=False), story).verdict is Outcome.PASS


def test_a_failed_convergence_is_reported_with_its_reason_and_the_nodes_that_had_ended() -> None:
    story = ensemble()
    story.crash(3)
    story.boot(3)
    story.event(3, "exit", code=1, why="the current epoch is older than the last zxid")
    story.servers[3].up = False
    story.settle(converged=False, why="no answer from node-3")
    (found,) = finish(feed(story, faults_first=False), story).property("recovery").violations
    assert found.words == "the nodes did not converge after everything was healed: no answer from node-3"
    assert [it.event["event"] for it in found.evidence] == ["safety-ended", "not-converged", "exit"]


def test_min_acked_can_be_given() -> None:
    story = ensemble(writes=2, min_acked=3)
    story.settle()
    verdict = finish(feed(story, faults_first=False), story)
    assert verdict.verdict is Outcome.UNKNOWN
    assert "2 writes were acknowledged; at least 3 are needed to judge" in verdict.reasons


def test_by_default_one_acknowledged_write_is_needed() -> None:
    story = ensemble(writes=0)
    story.settle()
    verdict = finish(feed(story, faults_first=False), story)
    assert "0 writes were acknowledged; at least 1 is needed to judge" in verdict.reasons


@pytest.mark.parametrize("least", ["100", 2.0, True, None])
def test_a_min_acked_that_is_no_whole_number_leaves_the_run_unknown(least: Any) -> None:
    story = ensemble(writes=2, min_acked=least)
    story.settle()
    verdict = finish(feed(story, faults_first=False), story)
    assert verdict.verdict is Outcome.UNKNOWN
    assert f"run.json, expect.min_acked: {least!r} is no number of writes" in verdict.reasons


def finish_with_tampered_link(story: Story) -> Verdict:
    """Return the verdict on the run if the harness found that a link was cut from outside."""
    words = ["link 1-2: enabled is False and was asked to be True"]
    story.heal(id=0, confirmed=False, evidence={"tampered": words})
    return finish(feed(story, faults_first=False), story)


def test_a_link_cut_from_outside_is_reported_and_the_run_is_unknown() -> None:
    story = ensemble()
    story.settle()
    verdict = finish_with_tampered_link(story)
    assert verdict.verdict is Outcome.UNKNOWN
    took = verdict.property("fault took effect")
    assert took.violations[0].words == (
        "somebody else changed the links: link 1-2: enabled is False and was asked to be True"
    )


def test_a_final_healing_that_failed_is_reported_with_the_error() -> None:
    story = ensemble()
    story.settle()
    story.heal(id=0, confirmed=False, evidence={"node-3": "it did not start"})
    verdict = finish(feed(story, faults_first=False), story)
    assert verdict.verdict is Outcome.UNKNOWN
    (failed,) = verdict.property("fault took effect").violations
    assert failed.words == "the final healing failed: node-3: it did not start"


def test_the_healing_of_a_fault_that_failed_is_reported_with_the_error() -> None:
    story = ensemble()
    story.inject("pause", [1])
    story.heal(confirmed=False, evidence={"error": "no such process"})
    story.settle()
    verdict = finish(feed(story, faults_first=False), story)
    (failed,) = verdict.property("fault took effect").violations
    assert failed.words == "the healing of fault 1 (pause) was not confirmed: no such process"


def test_a_point_that_was_not_reached_is_the_reason_why_a_healing_is_not_confirmed() -> None:
    story = ensemble()
    story.inject("crash-at", [1, 2])
    story.heal(confirmed=False, evidence={"1": {"reached": False}, "2": {"reached": True}, "up": True})
    story.settle()
    (failed,) = finish(feed(story, faults_first=False), story).property("fault took effect").violations
    assert failed.words == "the healing of fault 1 (crash-at) was not confirmed: its point was not reached on node 1"


def test_a_state_that_was_waited_for_in_vain_is_named() -> None:
    story = ensemble()
    story.inject("wait", [1, 2], params={"state": "serves", "within": 3.0})
    story.heal(confirmed=False)
    story.settle()
    (failed,) = finish(feed(story, faults_first=False), story).property("fault took effect").violations
    assert failed.words == "fault 1 (wait): within 3.0 s, nodes 1 and 2 did not reach the state 'serves'"


@pytest.mark.parametrize("outcome", ["finished", "interrupted"])
def test_the_first_reason_is_what_is_violated_then_why_the_run_ended_then_what_is_uncertain(outcome: str) -> None:
    story = ensemble()
    story.skip_at(3)
    story.inject("pause", [1], confirmed=False)
    story.settle()
    story.run["outcome"] = outcome
    reasons = finish(feed(story, faults_first=False), story).reasons
    unfinished = ["the run did not finish: interrupted"] * (outcome == "interrupted")
    kinds = [
        "violated" if " is violated: " in why else "uncertain" if " is not certain: " in why else why for why in reasons
    ]
    assert "uncertain" in kinds
    assert kinds[0] == "violated"
    assert [*dict.fromkeys(kinds)][:3] == ["violated", *unfinished, "uncertain"][:3]


def test_how_a_process_ended_is_the_reason_why_a_stop_is_not_confirmed() -> None:
    story = ensemble()
    story.inject("stop", [1, 2], confirmed=False, evidence={"1": {"pid": 7, "exit": 0}, "2": {"pid": 8, "exit": 1}})
    story.heal()
    story.settle()
    first, *_ = finish(feed(story, faults_first=False), story).property("fault took effect").violations
    assert first.words == "fault 1 (stop) was not confirmed; exit status: node 2 with 1, where 0 was expected"


def test_a_process_that_does_not_end_when_it_is_asked_is_named() -> None:
    """The exit status, -9, is only that of the harness."""
    story = ensemble()
    story.inject("stop", [2], confirmed=False, evidence={"2": {"pid": 8, "exit": -9}})
    story.heal()
    story.settle()
    first, *_ = finish(feed(story, faults_first=False), story).property("fault took effect").violations
    assert first.words == "fault 1 (stop) was not confirmed: asked to end, node 2 did not, and had to be killed"


def test_under_unknown_faults_missing_recovery_is_unknown() -> None:
    story = ensemble()
    story.crash(3)
    story.boot(3)
    story.settle(converged=False)
    assert finish(feed(story, faults_first=False), story).verdict is Outcome.VIOLATION
    verdict = finish_with_tampered_link(story)
    assert verdict.verdict is Outcome.UNKNOWN
    assert verdict.property("recovery").verdict is verdict.property("reliable delivery").verdict is Judgement.UNKNOWN


@pytest.mark.parametrize(("pairs", "judgement"), [([[1, 3]], Judgement.UNKNOWN), ([], Judgement.VIOLATION)])
def test_only_where_links_were_not_healed_missing_recovery_is_unknown(
    pairs: list[list[int]], judgement: Judgement
) -> None:
    """A node that can't be healed may be at fault itself, so a pause that does not end is no excuse."""
    story = ensemble()
    story.crash(3)
    story.boot(3)
    story.inject("partition" if pairs else "pause", [3], pairs=pairs)
    story.heal(confirmed=False, evidence={"error": "no answer"})
    story.settle(converged=False)
    verdict = finish(feed(story, faults_first=False), story)
    assert verdict.property("recovery").verdict is verdict.property("reliable delivery").verdict is judgement


def test_under_unknown_faults_missing_progress_is_unknown() -> None:
    verdict = finish_with_tampered_link(progress_nobody_leads())
    assert verdict.verdict is Outcome.UNKNOWN
    assert verdict.property("progress").verdict is Judgement.UNKNOWN


def test_safety_is_judged_under_unknown_faults() -> None:
    story = ensemble()
    zxid = story.propose()
    story.deliver(1, zxid)
    story.deliver(2, zxid, 7)
    story.settle()
    verdict = finish_with_tampered_link(story)
    assert verdict.verdict is Outcome.VIOLATION
    assert verdict.property("agreement").verdict is Judgement.VIOLATION


def test_a_node_that_delivers_something_else_in_its_next_life_is_told_apart_by_its_lives() -> None:
    story = ensemble()
    zxid = story.propose()
    story.deliver(3, zxid)
    story.crash(3)
    story.boot(3)
    for counter in (1, 2, 3):
        story.deliver(3, (1, counter))
    story.deliver(3, zxid, digest(zxid, "changed"))
    story.deliver(2, zxid, digest(zxid, "changed"))
    words = [it.words for it in finish(feed(story, faults_first=False), story).property("agreement").violations]
    assert ["node 3 had" in each for each in words] == [False, True]
    assert ["in its life 1 it had" in each for each in words] == [True, False]


def test_a_run_without_an_end_is_unknown() -> None:
    story = ensemble()
    story.run["outcome"] = "unfinished"
    story.settle()
    verdict = finish(feed(story, faults_first=False), story)
    assert verdict.verdict is Outcome.UNKNOWN
    assert verdict.reasons[0] == "the run has not finished: it still goes on, or its harness was killed"


def test_after_an_interruption_one_reason_says_that_recovery_is_not_judged() -> None:
    story = ensemble()
    story.run["outcome"] = "interrupted"
    assert finish(feed(story, faults_first=False), story).reasons == [
        "the run did not finish: interrupted",
        "the run was interrupted before the nodes could recover, so recovery is not judged",
    ]
    story.run["outcome"] = "finished"
    assert finish(feed(story, faults_first=False), story).reasons == [
        "harness.jsonl has no `safety-ended`: it is not known whether the nodes recovered"
    ]


def test_without_any_trace_the_record_is_incomplete_and_no_write_is_named() -> None:
    story = ensemble()
    story.settle()
    story.traces.clear()
    verdict = finish(feed(story, faults_first=False), story)
    assert verdict.verdict is Outcome.UNKNOWN
    assert verdict.reasons[:2] == [
        "trace integrity is not certain: trace has no file of node 1 (and 4 more)",
        "the record is incomplete: it has no trace of any node",
    ]
    durability = verdict.property("durability")
    assert (durability.verdict, durability.violations, durability.more) == (Judgement.UNKNOWN, [], 0)


def test_a_batch_of_two_primaries_is_described_by_both() -> None:
    """Each transaction was broadcast as it was delivered, so no two digests differ."""
    story = ensemble()
    first = story.propose()
    second = (first[0], first[1] + 1)
    story.broadcast(3, second)
    story.accept(2, second)
    story.deliver_batch(2, first, second)
    integrity = next(it for it in finish(feed(story, faults_first=False), story).properties if it.name == "integrity")
    assert [it.words for it in integrity.violations] == [
        "node 2 delivered 1:4 to 1:5, of which node 1 (life 1) and node 3 (life 1) had broadcast a part each"
    ]
