"""The judgement of runs by traces made from servers' logs: what it allows that our own nodes must not do."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.corpus.progress import (
    progress_nobody_leads_and_then_two_disks_are_lost,
    progress_nobody_leads_when_two_disks_are_lost,
)
from tests.corpus.story import Story, ensemble
from tests.corpus.values import values_refused_by_a_state_that_has_gone_by
from zab_chaos.model.oracle.oracle import judge
from zab_chaos.model.oracle.properties import judged_by
from zab_chaos.model.oracle.properties.logs import NOT_SHOWN
from zab_chaos.model.verdict import Judgement, Verdict


def judged(story: Story, evidence: str, folder: Path) -> Verdict:
    story.settle()
    return judge_settled(story, evidence, folder)


def judge_settled(story: Story, evidence: str, folder: Path) -> Verdict:
    story.run["evidence"] = evidence
    story.save(folder / evidence)
    return judge(folder / evidence)


def read_before_first_broadcast(**fields: object) -> Story:
    """Return a run in which a new leader answers a read at 2:0, before it has broadcast anything."""
    story = ensemble()
    story.elect(2, epoch=2)
    story.read(zxid=(2, 0), **fields)  # type: ignore[arg-type]
    story.write()
    return story


def multi_with_unversioned_check(told: list[list[object]]) -> Story:
    """Return a run with a multi that checks any version, and sets. `told` is the answer."""
    story = ensemble()
    steps = [{"op": "check", "path": "/a"}, {"op": "set", "path": "/a", "value": 7}]
    seq = story.invoke(op="multi", steps=steps)
    story.complete(1, seq, story.commit((1, seq)), version=3, steps=told)
    return story


def multi_with_versioned_check(told: list[list[object]]) -> Story:
    """Return a run with a multi that checks one version, and sets. `told` is the answer."""
    story = ensemble()
    steps = [{"op": "check", "path": "/a", "version": 2}, {"op": "set", "path": "/a", "value": 7}]
    seq = story.invoke(op="multi", steps=steps)
    story.complete(1, seq, story.commit((1, seq)), version=3, steps=told)
    return story


def assert_legal_for_servers_only(tell: Callable[[], Story], property_: str, folder: Path) -> None:
    assert judged(tell(), "logs", folder).violated == []
    assert judged(tell(), "traces", folder).violated == [property_]


def test_a_server_may_name_the_beginning_of_an_epoch(tmp_path: Path) -> None:
    assert_legal_for_servers_only(read_before_first_broadcast, "values and versions", tmp_path)


def answered(op: str, path: str, **answer: object) -> Callable[[], Story]:
    def tell() -> Story:
        story = ensemble()
        story.complete(1, story.invoke(1, op, path), story.servers[story.leader].delivered[-1][0], **answer)
        return story

    return tell


@pytest.mark.parametrize(
    "tell",
    [
        answered("children", "/", version=0, children=["zookeeper", "a"]),
        answered("children", "/zookeeper", version=0, children=["config", "quota"]),
        answered("get", "/zookeeper/config", version=-1, value=7),
        answered("exists", "/zookeeper", version=0),
    ],
)
def test_znodes_of_zookeeper_itself_are_in_no_log(tell: Callable[[], Story], tmp_path: Path) -> None:
    assert_legal_for_servers_only(tell, "values and versions", tmp_path)


def test_a_write_below_a_znode_of_zookeeper_itself_is_possible(tmp_path: Path) -> None:
    """A quota is a child of /zookeeper/quota, which no log shows."""

    def tell() -> Story:
        story = ensemble()
        story.write(path="/zookeeper/quota/a")
        return story

    assert_legal_for_servers_only(tell, "values and versions", tmp_path)


@pytest.mark.parametrize(
    "tell",
    [
        answered("children", "/", version=0, children=["zookeeper"]),
        answered("children", "/", version=0, children=["zookeeper", "a", "b"]),
        answered("get", "/zookeepers", version=0, value=7),
    ],
)
def test_other_znodes_must_be_in_the_logs(tell: Callable[[], Story], tmp_path: Path) -> None:
    assert judged(tell(), "logs", tmp_path).violated == ["values and versions"]


def test_a_read_at_the_beginning_of_an_epoch_must_be_true(tmp_path: Path) -> None:
    verdict = judged(read_before_first_broadcast(value=1), "logs", tmp_path)
    assert verdict.violated == ["values and versions"]


def test_a_refusal_is_based_on_all_writes_acknowledged_before_it(tmp_path: Path) -> None:
    """ZooKeeper's servers order refusals, too, as transactions that change nothing."""
    verdict = judge_settled(values_refused_by_a_state_that_has_gone_by(), "logs", tmp_path)
    assert verdict.violated == ["values and versions"]
    assert "was refused (bad version) in the light of 1:3" in verdict.reasons[0]


def test_the_answer_to_a_check_of_any_version_may_have_no_version(tmp_path: Path) -> None:
    assert_legal_for_servers_only(
        lambda: multi_with_unversioned_check([["/a", None], ["/a", 3]]), "exactly once", tmp_path
    )


@pytest.mark.parametrize(
    "story",
    [
        lambda: multi_with_unversioned_check([["/a", 1], ["/a", 3]]),
        lambda: multi_with_unversioned_check([["/a", None], ["/a", None]]),
        lambda: multi_with_unversioned_check([["/a", None]]),
        lambda: multi_with_unversioned_check([["/b", None], ["/a", 3]]),
        lambda: multi_with_versioned_check([["/a", None], ["/a", 3]]),
    ],
)
def test_all_other_answers_to_a_multi_must_be_right(story: Callable[[], Story], tmp_path: Path) -> None:
    assert judged(story(), "logs", tmp_path).violated == ["exactly once"]


def read_that_lacks_an_earlier_write(outcome: str) -> Story:
    """Return a run in which a client sends a write, goes to node 2, and reads there what was before the write."""
    story = ensemble()
    seq = story.invoke(op="set", path="/a", value=8)
    txn = [1, seq, [["set", "/a", 3, 8]]]
    if outcome == "ok":
        story.complete(1, seq, story.commit(txn=txn), version=3)
    else:
        story.complete(1, seq, outcome=outcome, error="the connection was lost")
    story.read(zxid=(1, 3), node=2)
    if outcome == "unknown":
        story.commit(txn=txn)
    return story


def test_a_read_at_another_server_need_not_show_a_write_without_an_answer(tmp_path: Path) -> None:
    assert_legal_for_servers_only(lambda: read_that_lacks_an_earlier_write("unknown"), "client order", tmp_path)


def test_a_read_at_another_server_shows_an_acknowledged_write(tmp_path: Path) -> None:
    assert "client order" in judged(read_that_lacks_an_earlier_write("ok"), "logs", tmp_path).violated


def test_the_verdict_names_what_was_not_judged_and_why(tmp_path: Path) -> None:
    verdict = judged(ensemble(), "logs", tmp_path)
    why = {item.name: item.why for item in verdict.properties if item.name not in judged_by("logs")}
    assert why == NOT_SHOWN
    assert {verdict.property(name).verdict for name in NOT_SHOWN} == {Judgement.NOT_APPLICABLE}


def established_twice() -> Story:
    story = ensemble()
    story.crash(1)
    story.elect(2, epoch=2, members=[2, 3])
    story.establish(3, 2)
    return story


def broadcast_by_two() -> Story:
    """Return a run in which two nodes seem to have broadcast 1:1; only one of them was established."""
    story = ensemble()
    story.broadcast(3, (1, 1), delivered=(0, 0))
    return story


def test_one_leader_is_judged_by_establishment_and_not_by_broadcasts(tmp_path: Path) -> None:
    verdict = judged(established_twice(), "logs", tmp_path / "twice")
    assert verdict.violated == ["one leader an epoch"]
    words = "node 3 (life 1) was established for epoch 2, as node 2 (life 1) had been"
    assert words in verdict.property("one leader an epoch").violations[0].words
    assert judged(broadcast_by_two(), "logs", tmp_path / "broadcast_by_two").violated == []
    assert judged(broadcast_by_two(), "traces", tmp_path / "broadcast_by_two").violated == [
        "primary integrity",
        "one leader an epoch",
    ]


# ---- the epochs on disks ----


def record_disk(story: Story, node: int, **fields: object) -> None:
    """Record the content of a server's disk after its life. `fields` replace parts of it."""
    server = story.servers[node]
    held = {"accepted_epoch": server.accepted_epoch, "current_epoch": server.current_epoch}
    story.event(node, "left", **{**held, "last_zxid": list(server.last), **fields})


def restarted(*faults: str, left: dict[str, object] | None = None, boot: dict[str, object] | None = None) -> Story:
    """Return a run in which node 2 counts in the quorum of epoch 1, dies, starts again and counts in that of epoch 2, led
    by node 3. `faults` come before it starts again."""
    story = ensemble()
    story.crash(2)
    record_disk(story, 2, **(left or {}))
    for fault in faults:
        story.inject(fault, [2])
        story.heal()
    story.boot(2, **(boot or {}))
    story.elect(3, epoch=2)
    story.write()
    for node in (1, 2, 3):
        record_disk(story, node)
    return story


def test_disks_that_keep_their_epochs_pass(tmp_path: Path) -> None:
    found = judged(restarted(), "logs", tmp_path).property("epochs")
    assert (found.verdict, found.violations) == (Judgement.PASS, [])
    assert found.checked > 20


@pytest.mark.parametrize(
    ("left", "boot", "words"),
    [
        ({"current_epoch": 2}, {}, "left on its disk f.a = 2, above f.p = 1"),
        ({"current_epoch": 0}, {}, "left on its disk f.a = 0, which had been 1"),
        ({"accepted_epoch": 0, "current_epoch": 0}, {}, "left on its disk f.p = 0, which had been 1"),
        ({}, {"current_epoch": 0}, "started with f.a = 0, which had been 1"),
        ({}, {"accepted_epoch": 3}, "started with f.p = 3, and counted in the quorum of node 3 for epoch 2"),
        ({"accepted_epoch": 2, "current_epoch": 2, "last_zxid": [1, 2]}, {}, "f.a = 2 and a log that ends at 1:2, without 1:3"),
        ({}, {"accepted_epoch": 2, "current_epoch": 2, "last_zxid": [1, 2]}, "f.a = 2 and a log that ends at 1:2, without 1:3"),
    ],
    ids=["above", "not-kept", "forgotten", "lost", "promised-more", "without-its-history", "with-less-history"],
)  # fmt: skip
def test_epochs_that_a_disk_loses_or_has_too_early_are_violations(
    left: dict[str, object], boot: dict[str, object], words: str, tmp_path: Path
) -> None:
    verdict = judged(restarted(left=left, boot=boot), "logs", tmp_path)
    assert verdict.violated == ["epochs"]
    assert any(words in violation.words for violation in verdict.property("epochs").violations)


@pytest.mark.parametrize("fault", ["power-cut", "wipe", "remove-file", "truncate-file"])
def test_a_disk_that_changes_while_its_server_is_down_needs_a_fault(fault: str, tmp_path: Path) -> None:
    changed = {"as_left": False}
    found = judged(restarted(boot=changed), "logs", tmp_path / "none").property("fault took effect")
    assert found.verdict is Judgement.UNKNOWN
    words = "somebody else changed the disk of node 2 before its life 2: the life before had left something else there"
    assert words in [violation.words for violation in found.violations]
    found = judged(restarted(fault, boot=changed), "logs", tmp_path / "fault").property("fault took effect")
    assert not any("changed the disk" in violation.words for violation in found.violations)


@pytest.mark.parametrize(
    ("started", "says", "right"),
    [
        ("3.9.5", "3.9.5-293c895a", True),
        ("3.9.5", "3.8.6-6df26081", False),
        ("3.9.5", None, True),  # it died before it said so
        ("/builds/mine", "3.10.0-SNAPSHOT-1", True),
    ],
)
def test_a_life_is_of_the_release_that_it_was_started_with(
    started: str, says: str | None, right: bool, tmp_path: Path
) -> None:
    story = restarted(boot={"release": says})
    for life, name in ((2, started), (3, "3.9.5")):  # no trace is left of life 3
        story.milestone("release", node=2, life=life, release=name)
    found = judged(story, "logs", tmp_path).property("fault took effect")
    words = f"node 2, life 2, was started with release {started}, and says that it is {says}"
    assert (words in [violation.words for violation in found.violations]) == (not right)


def damaged_between_lives(files: list[str], *, node: int = 2, do: str = "remove-file", **boot: object) -> Story:
    """Return a run in which node 2 dies in epoch 2, a fault damages or removes `files` of `node`, and node 2 starts again."""
    story = ensemble()
    story.elect(1, epoch=2)
    story.write()
    story.crash(2)
    record_disk(story, 2)
    shown = {"file": files[0]} if do in ("corrupt", "truncate-file") else {"files": files}
    story.inject(do, [node], evidence={str(node): shown})
    story.heal()
    story.boot(2, **boot)
    story.join(2)
    return story


@pytest.mark.parametrize(
    ("do", "files"), [("remove-file", ["snapshot.3"]), ("corrupt", ["log.1"]), ("truncate-file", ["log.1"])]
)
def test_damage_to_a_disk_is_still_there_when_its_server_starts(do: str, files: list[str], tmp_path: Path) -> None:
    words = "a fault damaged the disk of node 2, and its life 2 started with what there was before"
    for number, (found, undone) in enumerate([({"as_left": True}, True), ({"as_left": False}, False), ({}, False)]):
        verdict = judged(damaged_between_lives(files, do=do, **found), "logs", tmp_path / str(number))
        violations = verdict.property("fault took effect").violations
        assert (words in [violation.words for violation in violations]) is undone
    verdict = judged(
        damaged_between_lives([], as_left=True), "logs", tmp_path / "none"
    )  # it had found nothing to remove
    assert words not in [violation.words for violation in verdict.property("fault took effect").violations]


NO_PROMISE: dict[str, object] = {"accepted_epoch": 0}
NOT_JOINED: dict[str, object] = {"current_epoch": 0}
SHORT: dict[str, object] = {"last_zxid": [1, 2]}  # of an acknowledged history up to 1:3


@pytest.mark.parametrize(
    ("do", "files", "boot"),
    [
        ("remove-file", ["acceptedEpoch"], NO_PROMISE),
        ("remove-file", ["currentEpoch"], NOT_JOINED),
        ("remove-file", ["acceptedEpoch", "currentEpoch"], NO_PROMISE | NOT_JOINED),
        ("remove-file", ["log.100000001"], SHORT),
        ("truncate-file", ["snapshot.100000003"], SHORT),
        ("corrupt", ["log.100000001"], SHORT),
    ],
)
def test_a_fault_excuses_the_loss_of_what_its_files_held(
    do: str, files: list[str], boot: dict[str, object], tmp_path: Path
) -> None:
    assert judged(damaged_between_lives(files, do=do, **boot), "logs", tmp_path / "its").violated == []
    assert judged(damaged_between_lives(files, do=do, node=3, **boot), "logs", tmp_path / "another").violated == [
        "epochs"
    ]
    assert judged(damaged_between_lives([], **boot), "logs", tmp_path / "none").violated == ["epochs"]
    assert judged(damaged_between_lives(files, do="crash", **boot), "logs", tmp_path / "crash").violated == ["epochs"]


@pytest.mark.parametrize(
    ("files", "boot"),
    [
        (["acceptedEpoch"], NOT_JOINED),
        (["currentEpoch"], NO_PROMISE | NOT_JOINED),
        (["acceptedEpoch", "currentEpoch"], SHORT),
        (["log.100000001"], NOT_JOINED),
    ],
)
def test_a_fault_excuses_no_other_loss(files: list[str], boot: dict[str, object], tmp_path: Path) -> None:
    assert judged(damaged_between_lives(files, **boot), "logs", tmp_path).violated == ["epochs"]


def epoch_violations(story: Story, folder: Path) -> str:
    """Return the texts of the violations of the property epochs."""
    return " ".join(violation.words for violation in judged(story, "logs", folder).property("epochs").violations)


def test_a_removed_older_file_does_not_excuse_our_own_nodes(tmp_path: Path) -> None:
    verdict = judged(damaged_between_lives(["log-0000000001"], **SHORT), "traces", tmp_path)
    assert "node 2 started with a log that ends at 1:2, but on this disk it had delivered up to" in " ".join(
        violation.words for violation in verdict.property("disk").violations
    )


def test_a_fault_without_evidence_excuses_every_loss(tmp_path: Path) -> None:
    story = ensemble()
    story.elect(1, epoch=2)
    story.crash(2)
    record_disk(story, 2)
    story.inject("remove-file", [2], confirmed=False, evidence={"error": "it took too long"})
    story.heal()
    story.boot(2, **NO_PROMISE, **NOT_JOINED, **SHORT)
    story.join(2)
    assert epoch_violations(story, tmp_path) == ""


def test_a_fault_excuses_only_later_losses(tmp_path: Path) -> None:
    story = ensemble()
    story.crash(2)
    story.boot(2, **NO_PROMISE, **NOT_JOINED)
    story.crash(2)
    story.inject("remove-file", [2], evidence={"2": {"files": ["acceptedEpoch", "currentEpoch"]}})
    story.boot(2, **NO_PROMISE, **NOT_JOINED)
    assert "node 2 (life 2) started with f.a = 0, which had been 1" in epoch_violations(story, tmp_path / "before")
    story = damaged_between_lives(["acceptedEpoch"], accepted_epoch=1)
    record_disk(story, 2, **NO_PROMISE)
    assert "node 2 (life 2) left on its disk f.p = 0, which had been 1" in epoch_violations(story, tmp_path / "after")


def test_a_regained_epoch_must_stay(tmp_path: Path) -> None:
    story = damaged_between_lives(["acceptedEpoch"], **NO_PROMISE)
    story.crash(2)
    story.boot(2, accepted_epoch=1)
    story.crash(2)
    story.boot(2, **NO_PROMISE)
    assert epoch_violations(story, tmp_path) == "node 2 (life 4) started with f.p = 0, which had been 1"


def test_an_epoch_joined_after_the_loss_of_the_promise_must_be_promised(tmp_path: Path) -> None:
    story = damaged_between_lives(["acceptedEpoch"], **NO_PROMISE)
    story.crash(2)
    record_disk(story, 2, accepted_epoch=2, current_epoch=3)
    assert "node 2 (life 2) left on its disk f.a = 3, above f.p = 2" in epoch_violations(story, tmp_path)


def test_writes_acknowledged_after_damage_of_a_log_must_be_held(tmp_path: Path) -> None:
    story = damaged_between_lives(["log.100000001"], do="corrupt", **SHORT)
    story.write()
    story.crash(2)
    record_disk(story, 2, accepted_epoch=3, current_epoch=3, last_zxid=[2, 1])
    assert "a log that ends at 2:1, without 2:2, which was acknowledged" in epoch_violations(story, tmp_path)


@pytest.mark.parametrize(("lost", "violated"), [({}, []), (NOT_JOINED, ["epochs"])])
def test_a_new_disk_starts_anew_and_must_keep_counted_epochs(
    lost: dict[str, object], violated: list[str], tmp_path: Path
) -> None:
    story = ensemble()
    record_disk(story, 2)
    story.wipe(2)
    story.boot(2, "amnesiac")
    story.join(2)
    story.elect(1, epoch=2)
    story.crash(2)
    story.boot(2, **lost)
    story.join(2)
    assert judged(story, "logs", tmp_path).violated == violated


def test_the_loss_of_a_power_cut_may_show_after_the_next_life(tmp_path: Path) -> None:
    """The promise of node 2 in its first life was never synced, and is gone after its second life."""
    for do, cut, violated in (("power-cut", 2, []), ("power-cut", 3, ["epochs"]), ("crash", 2, ["epochs"])):
        story = ensemble()
        story.crash(2)
        story.boot(2, accepted_epoch=2)
        story.crash(cut, do=do)
        record_disk(story, 2, accepted_epoch=1)
        story.boot(2, accepted_epoch=1)
        story.join(2)
        assert judged(story, "logs", tmp_path / f"{do} of node {cut}").violated == violated


PROMISED_MORE = "node 2 (life 2) started with f.p = 3, and counted in the quorum of node 3 for epoch 2"


def test_the_later_loss_of_a_disk_excuses_no_promise(tmp_path: Path) -> None:
    story = restarted(boot={"accepted_epoch": 3})
    story.wipe(2)
    story.boot(2, "amnesiac")
    story.join(2)
    assert PROMISED_MORE in epoch_violations(story, tmp_path)


def test_a_leader_without_a_recorded_quorum_is_judged_alone(tmp_path: Path) -> None:
    """ZooKeeper did not record the quorum before 3.4.6."""
    story = ensemble()
    story.leader, story.members = 3, [2, 3]
    story.establish(3, 2, quorum=[])
    for node in (1, 2, 3):
        record_disk(story, node)
    assert epoch_violations(story, tmp_path).startswith("node 3 (life 1) left on its disk f.p = 1, which had been 2")


def counted_late(joined: int | None, *restarted: int) -> Story:
    """Return a run in which node 3 leads epoch 2 when node 2, a member of its quorum, is in another life already.

    In its life before, node 2 had `joined` an epoch (None: it is not known). The nodes in `restarted` begin another life
    before.
    """
    story = ensemble()
    story.crash(2)
    if joined is not None:
        record_disk(story, 2, accepted_epoch=3, current_epoch=joined)
    story.boot(2, accepted_epoch=3, current_epoch=2)
    for node in restarted:
        story.crash(node)
        record_disk(story, node)
        story.boot(node)
    story.leader, story.members = 3, [2, 3]
    story.establish(3, 2)
    record_disk(story, 2, accepted_epoch=3, current_epoch=3)
    return story


@pytest.mark.parametrize(
    ("story", "words"),
    [
        (lambda: counted_late(2), ""),
        (lambda: counted_late(None), ""),
        (lambda: counted_late(1), PROMISED_MORE),
        (lambda: counted_late(2, 3), PROMISED_MORE),
    ],
    ids=["joined-before", "nobody-knows", "not-joined-before", "before-its-leader-lived"],
)
def test_a_counted_node_may_have_died_and_promised_more_since(
    story: Callable[[], Story], words: str, tmp_path: Path
) -> None:
    assert epoch_violations(story(), tmp_path) == words


def promise_lost_by_power_cut(counts: bool) -> Story:
    """Return a run in which the power of node 2 is cut twice. It promised epoch 2 in its second life, and lost that in the
    third. `counts`: the leader of epoch 2 has counted it."""
    story = ensemble()
    story.crash(2, do="power-cut")
    story.boot(2)
    story.leader, story.members = 3, [2, 3] if counts else [1, 3]
    for node in (3, *(n for n in story.members if n != 3)):
        story.promise(node, 2)
        story.synchronize(node, 2)
    story.establish(3, 2)
    record_disk(story, 2, accepted_epoch=2, current_epoch=2)
    story.crash(2, do="power-cut")
    story.servers[2].accepted_epoch = story.servers[2].current_epoch = 1
    story.boot(2)
    story.join(2)
    return story


def test_a_power_cut_does_not_excuse_a_counted_epoch(tmp_path: Path) -> None:
    assert judged(promise_lost_by_power_cut(counts=False), "logs", tmp_path / "alone").violated == []
    verdict = judged(promise_lost_by_power_cut(counts=True), "logs", tmp_path / "counted")
    assert verdict.violated == ["epochs"]
    assert "node 2 (life 3) started with f.p = 1, which had been 2" in verdict.reasons[0]


def booted_twice(do: str) -> Story:
    """Return a run in which node 2 starts with a promise that no leader has counted on, and starts again without it."""
    story = ensemble()
    story.crash(2)
    story.boot(2, accepted_epoch=2)
    story.crash(2, do=do)
    story.boot(2, accepted_epoch=1)
    story.join(2)
    return story


def test_only_a_power_cut_excuses_an_epoch_that_a_server_started_with(tmp_path: Path) -> None:
    assert judged(booted_twice("power-cut"), "logs", tmp_path / "cut").violated == []
    assert judged(booted_twice("crash"), "logs", tmp_path / "killed").violated == ["epochs"]


def test_a_leader_had_promised_only_earlier_epochs_at_its_start(tmp_path: Path) -> None:
    """It takes one above all that its quorum has promised, itself included; a follower may have promised that very one."""
    for node, violated in ((2, []), (3, ["epochs"])):
        story = ensemble()
        story.crash(node)
        record_disk(story, node)
        story.boot(node, accepted_epoch=2)
        story.elect(3, epoch=2)
        story.write()
        assert judged(story, "logs", tmp_path / str(node)).violated == violated


def test_writes_that_wait_at_a_follower_are_no_progress(tmp_path: Path) -> None:
    """The logs do not show which nodes reach the leader, so all must."""
    story = ensemble(progress_within=4)
    for number in range(6):
        seq = story.invoke(node=2, op="create", path=f"/{number}")
        story.t += 900_000_000
        story.complete(1, seq, None, "unknown", node=2)
    story.write()
    assert judged(story, "logs", tmp_path).violated == ["progress"]


def test_servers_whose_disks_are_lost_need_not_serve_from_then_on(tmp_path: Path) -> None:
    before = judge_settled(progress_nobody_leads_and_then_two_disks_are_lost(), "logs", tmp_path / "before")
    assert before.violated == ["progress"]
    after = judge_settled(progress_nobody_leads_when_two_disks_are_lost(), "logs", tmp_path / "after")
    assert after.property("progress").verdict is Judgement.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("fault", "armed", "unknown"),
    [
        (None, False, True),
        ("pause", False, True),
        ("disk-full", False, False),
        ("remove-file", False, False),
        ("crash-at", False, False),
        ("crash", True, False),
    ],
)
def test_a_server_that_ended_by_itself_is_not_passed_over(
    fault: str | None, armed: bool, unknown: bool, tmp_path: Path
) -> None:
    """Its log does not have how it ended, but the harness has seen it."""
    story = ensemble()
    if fault is not None:
        story.inject(fault, [3])
    story.milestone("ended", node=3, life=1, code=143, armed=armed)
    if fault is not None:
        story.heal()
    story.boot(3)
    story.join(3)
    verdict = judged(story, "logs", tmp_path)
    said = [one.words for one in verdict.property("fault took effect").violations]
    assert ("node 3 ended by itself, with exit code 143, and not because of a fault" in said) is unknown, said
