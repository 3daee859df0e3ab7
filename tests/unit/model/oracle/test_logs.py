"""Runs that are judged by traces made of servers' logs: what is allowed there that our own nodes must not do."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.corpus.story import Story, ensemble
from tests.corpus.values import values_refused_by_a_state_that_has_gone_by
from zab_chaos.model.oracle.oracle import judge
from zab_chaos.model.oracle.properties import judged_by
from zab_chaos.model.oracle.properties.logs import NOT_SHOWN
from zab_chaos.model.verdict import Judgement, Verdict


def judged(story: Story, evidence: str, folder: Path) -> Verdict:
    story.settle()
    return judged_when_settled(story, evidence, folder)


def judged_when_settled(story: Story, evidence: str, folder: Path) -> Verdict:
    story.run["evidence"] = evidence
    story.save(folder / evidence)
    return judge(folder / evidence)


def read_before_the_epochs_first(**fields: object) -> Story:
    """A new leader answers a read before it has broadcast anything, at the zxid 2:0."""
    story = ensemble()
    story.elect(2, epoch=2)
    story.read(zxid=(2, 0), **fields)  # type: ignore[arg-type]
    story.write()
    return story


def unversioned_check(told: list[list[object]]) -> Story:
    """A multi that checks any version, and sets."""
    story = ensemble()
    steps = [{"op": "check", "path": "/a"}, {"op": "set", "path": "/a", "value": 7}]
    seq = story.invoke(op="multi", steps=steps)
    story.complete(1, seq, story.commit((1, seq)), version=3, steps=told)
    return story


def check_of_a_version(told: list[list[object]]) -> Story:
    """A multi that checks a version that it names, and sets."""
    story = ensemble()
    steps = [{"op": "check", "path": "/a", "version": 2}, {"op": "set", "path": "/a", "value": 7}]
    seq = story.invoke(op="multi", steps=steps)
    story.complete(1, seq, story.commit((1, seq)), version=3, steps=told)
    return story


def only_servers_may(tell: Callable[[], Story], property_: str, folder: Path) -> None:
    assert judged(tell(), "logs", folder).violated == []
    assert judged(tell(), "traces", folder).violated == [property_]


def test_a_read_may_name_the_beginning_of_an_epoch(tmp_path: Path) -> None:
    only_servers_may(read_before_the_epochs_first, "values and versions", tmp_path)


def test_what_it_shows_must_be_true_there(tmp_path: Path) -> None:
    verdict = judged(read_before_the_epochs_first(value=1), "logs", tmp_path)
    assert verdict.violated == ["values and versions"]


def test_what_refuses_a_write_is_as_new_as_what_was_acknowledged_before(tmp_path: Path) -> None:
    """ZooKeeper's servers order refusals, too, as transactions that change nothing."""
    verdict = judged_when_settled(values_refused_by_a_state_that_has_gone_by(), "logs", tmp_path)
    assert verdict.violated == ["values and versions"]
    assert "was refused (bad version) in the light of 1:3" in verdict.reasons[0]


def test_a_check_of_any_version_may_be_told_none(tmp_path: Path) -> None:
    only_servers_may(lambda: unversioned_check([["/a", None], ["/a", 3]]), "exactly once", tmp_path)


@pytest.mark.parametrize(
    "story",
    [
        lambda: unversioned_check([["/a", 1], ["/a", 3]]),
        lambda: unversioned_check([["/a", None], ["/a", None]]),
        lambda: unversioned_check([["/a", None]]),
        lambda: unversioned_check([["/b", None], ["/a", 3]]),
        lambda: check_of_a_version([["/a", None], ["/a", 3]]),
    ],
)
def test_whatever_else_is_told_must_be_right(story: Callable[[], Story], tmp_path: Path) -> None:
    assert judged(story(), "logs", tmp_path).violated == ["exactly once"]


def test_it_says_what_was_not_judged_and_why(tmp_path: Path) -> None:
    verdict = judged(ensemble(), "logs", tmp_path)
    why = {item.name: item.why for item in verdict.properties if item.name not in judged_by("logs")}
    assert why == NOT_SHOWN
    assert {verdict.property(name).verdict for name in NOT_SHOWN} == {Judgement.NOT_APPLICABLE}


def led_twice() -> Story:
    story = ensemble()
    story.crash(1)
    story.elect(2, epoch=2, members=[2, 3])
    story.establish(3, 2)
    return story


def forked() -> Story:
    """Two nodes are to have broadcast 1:1; only one of them was established."""
    story = ensemble()
    story.broadcast(3, (1, 1), delivered=(0, 0))
    return story


def test_an_epoch_has_one_leader_by_who_was_established_and_not_by_who_may_have_broadcast(tmp_path: Path) -> None:
    verdict = judged(led_twice(), "logs", tmp_path / "twice")
    assert verdict.violated == ["one leader an epoch"]
    words = "node 3 (life 1) was established for epoch 2, as node 2 (life 1) had been"
    assert words in verdict.property("one leader an epoch").violations[0].words
    assert judged(forked(), "logs", tmp_path / "forked").violated == []
    assert judged(forked(), "traces", tmp_path / "forked").violated == ["primary integrity", "one leader an epoch"]


# ---- what disks hold ----


def leave(story: Story, node: int, **fields: object) -> None:
    """What a server's disk is read to hold when its life has ended; `fields` replace it."""
    server = story.servers[node]
    held = {"accepted_epoch": server.accepted_epoch, "current_epoch": server.current_epoch}
    story.event(node, "left", **{**held, "last_zxid": list(server.last), **fields})


def restarted(*faults: str, left: dict[str, object] | None = None, boot: dict[str, object] | None = None) -> Story:
    """Node 2 counts in the quorum of epoch 1, dies, starts again and counts in that of epoch 2, whose leader is node 3.
    `faults` come before it starts again."""
    story = ensemble()
    story.crash(2)
    leave(story, 2, **(left or {}))
    for fault in faults:
        story.inject(fault, [2])
        story.heal()
    story.boot(2, **(boot or {}))
    story.elect(3, epoch=2)
    story.write()
    for node in (1, 2, 3):
        leave(story, node)
    return story


def test_disks_that_keep_their_epochs_are_read_and_judged(tmp_path: Path) -> None:
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
def test_epochs_that_a_disk_does_not_keep_or_has_too_early(
    left: dict[str, object], boot: dict[str, object], words: str, tmp_path: Path
) -> None:
    verdict = judged(restarted(left=left, boot=boot), "logs", tmp_path)
    assert verdict.violated == ["epochs"]
    assert any(words in violation.words for violation in verdict.property("epochs").violations)


def harmed(files: list[str], *, node: int = 2, do: str = "remove-file", **boot: object) -> Story:
    """Node 2 dies in epoch 2, a fault damages or removes `files` of `node`, and node 2 starts with what is left."""
    story = ensemble()
    story.elect(1, epoch=2)
    story.write()
    story.crash(2)
    leave(story, 2)
    shown = {"file": files[0]} if do in ("corrupt", "truncate-file") else {"files": files}
    story.inject(do, [node], evidence={str(node): shown})
    story.heal()
    story.boot(2, **boot)
    story.join(2)
    return story


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
def test_a_fault_excuses_what_the_files_held_that_it_took(
    do: str, files: list[str], boot: dict[str, object], tmp_path: Path
) -> None:
    assert judged(harmed(files, do=do, **boot), "logs", tmp_path / "its").violated == []
    assert judged(harmed(files, do=do, node=3, **boot), "logs", tmp_path / "another").violated == ["epochs"]
    assert judged(harmed([], **boot), "logs", tmp_path / "none").violated == ["epochs"]
    assert judged(harmed(files, do="crash", **boot), "logs", tmp_path / "crash").violated == ["epochs"]


@pytest.mark.parametrize(
    ("files", "boot"),
    [
        (["acceptedEpoch"], NOT_JOINED),
        (["currentEpoch"], NO_PROMISE | NOT_JOINED),
        (["acceptedEpoch", "currentEpoch"], SHORT),
        (["log.100000001"], NOT_JOINED),
    ],
)
def test_it_excuses_nothing_else(files: list[str], boot: dict[str, object], tmp_path: Path) -> None:
    assert judged(harmed(files, **boot), "logs", tmp_path).violated == ["epochs"]


def said(story: Story, folder: Path) -> str:
    """What is said of the epochs."""
    return " ".join(violation.words for violation in judged(story, "logs", folder).property("epochs").violations)


def test_our_own_nodes_do_not_go_on_without_a_file_that_was_removed(tmp_path: Path) -> None:
    verdict = judged(harmed(["log-0000000001"], **SHORT), "traces", tmp_path)
    assert "node 2 started with a log that ends at 1:2, but on this disk it had delivered up to" in " ".join(
        violation.words for violation in verdict.property("disk").violations
    )


def test_a_fault_that_does_not_show_what_it_did_may_have_taken_all(tmp_path: Path) -> None:
    story = ensemble()
    story.elect(1, epoch=2)
    story.crash(2)
    leave(story, 2)
    story.inject("remove-file", [2], confirmed=False, evidence={"error": "it took too long"})
    story.heal()
    story.boot(2, **NO_PROMISE, **NOT_JOINED, **SHORT)
    story.join(2)
    assert said(story, tmp_path) == ""


def test_it_excuses_what_came_after_it_only(tmp_path: Path) -> None:
    story = ensemble()
    story.crash(2)
    story.boot(2, **NO_PROMISE, **NOT_JOINED)
    story.crash(2)
    story.inject("remove-file", [2], evidence={"2": {"files": ["acceptedEpoch", "currentEpoch"]}})
    story.boot(2, **NO_PROMISE, **NOT_JOINED)
    assert "node 2 (life 2) started with f.a = 0, which had been 1" in said(story, tmp_path / "before")
    story = harmed(["acceptedEpoch"], accepted_epoch=1)
    leave(story, 2, **NO_PROMISE)
    assert "node 2 (life 2) left on its disk f.p = 0, which had been 1" in said(story, tmp_path / "after")


def test_what_is_there_again_must_stay(tmp_path: Path) -> None:
    story = harmed(["acceptedEpoch"], **NO_PROMISE)
    story.crash(2)
    story.boot(2, accepted_epoch=1)
    story.crash(2)
    story.boot(2, **NO_PROMISE)
    assert said(story, tmp_path) == "node 2 (life 4) started with f.p = 0, which had been 1"


def test_an_epoch_that_is_joined_after_its_promise_was_removed_is_promised(tmp_path: Path) -> None:
    story = harmed(["acceptedEpoch"], **NO_PROMISE)
    story.crash(2)
    leave(story, 2, accepted_epoch=2, current_epoch=3)
    assert "node 2 (life 2) left on its disk f.a = 3, above f.p = 2" in said(story, tmp_path)


def test_what_is_acknowledged_after_a_log_was_damaged_is_held(tmp_path: Path) -> None:
    story = harmed(["log.100000001"], do="corrupt", **SHORT)
    story.write()
    story.crash(2)
    leave(story, 2, accepted_epoch=3, current_epoch=3, last_zxid=[2, 1])
    assert "a log that ends at 2:1, without 2:2, which was acknowledged" in said(story, tmp_path)


@pytest.mark.parametrize(("lost", "violated"), [({}, []), (NOT_JOINED, ["epochs"])])
def test_a_new_disk_begins_anew_and_keeps_what_counts(
    lost: dict[str, object], violated: list[str], tmp_path: Path
) -> None:
    story = ensemble()
    leave(story, 2)
    story.wipe(2)
    story.boot(2, "amnesiac")
    story.join(2)
    story.elect(1, epoch=2)
    story.crash(2)
    story.boot(2, **lost)
    story.join(2)
    assert judged(story, "logs", tmp_path).violated == violated


def test_a_power_cut_may_show_before_the_life_is_over(tmp_path: Path) -> None:
    """What node 2 had promised in its first life was never synced, and is gone when its second one ends."""
    for do, cut, violated in (("power-cut", 2, []), ("power-cut", 3, ["epochs"]), ("crash", 2, ["epochs"])):
        story = ensemble()
        story.crash(2)
        story.boot(2, accepted_epoch=2)
        story.crash(cut, do=do)
        leave(story, 2, accepted_epoch=1)
        story.boot(2, accepted_epoch=1)
        story.join(2)
        assert judged(story, "logs", tmp_path / f"{do} of node {cut}").violated == violated


PROMISED_MORE = "node 2 (life 2) started with f.p = 3, and counted in the quorum of node 3 for epoch 2"


def test_a_disk_that_is_lost_later_excuses_no_promise(tmp_path: Path) -> None:
    story = restarted(boot={"accepted_epoch": 3})
    story.wipe(2)
    story.boot(2, "amnesiac")
    story.join(2)
    assert PROMISED_MORE in said(story, tmp_path)


def test_a_leader_counts_where_it_does_not_say_who_else_does(tmp_path: Path) -> None:
    """As before 3.4.6."""
    story = ensemble()
    story.leader, story.members = 3, [2, 3]
    story.establish(3, 2, quorum=[])
    for node in (1, 2, 3):
        leave(story, node)
    assert said(story, tmp_path).startswith("node 3 (life 1) left on its disk f.p = 1, which had been 2")


def counted_late(joined: int | None, *restarted: int) -> Story:
    """Node 3 leads epoch 2 when it has heard of a quorum. By then node 2, which is of it, is in another life; in the one before
    it had `joined` an epoch, None: nobody knows. The `restarted` begin another life before."""
    story = ensemble()
    story.crash(2)
    if joined is not None:
        leave(story, 2, accepted_epoch=3, current_epoch=joined)
    story.boot(2, accepted_epoch=3, current_epoch=2)
    for node in restarted:
        story.crash(node)
        leave(story, node)
        story.boot(node)
    story.leader, story.members = 3, [2, 3]
    story.establish(3, 2)
    leave(story, 2, accepted_epoch=3, current_epoch=3)
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
def test_who_was_counted_may_have_died_and_promised_more_since(
    story: Callable[[], Story], words: str, tmp_path: Path
) -> None:
    assert said(story(), tmp_path) == words


def promised(counts: bool) -> Story:
    """The power of node 2 is cut twice. In its second life it has promised epoch 2, and has forgotten that in the third one.
    `counts`: the leader of epoch 2 has counted it."""
    story = ensemble()
    story.crash(2, do="power-cut")
    story.boot(2)
    story.leader, story.members = 3, [2, 3] if counts else [1, 3]
    for node in (3, *(n for n in story.members if n != 3)):
        story.promise(node, 2)
        story.synchronize(node, 2)
    story.establish(3, 2)
    leave(story, 2, accepted_epoch=2, current_epoch=2)
    story.crash(2, do="power-cut")
    story.servers[2].accepted_epoch = story.servers[2].current_epoch = 1
    story.boot(2)
    story.join(2)
    return story


def test_a_power_cut_takes_no_epoch_that_a_leader_has_counted_on(tmp_path: Path) -> None:
    assert judged(promised(counts=False), "logs", tmp_path / "alone").violated == []
    verdict = judged(promised(counts=True), "logs", tmp_path / "counted")
    assert verdict.violated == ["epochs"]
    assert "node 2 (life 3) started with f.p = 1, which had been 2" in verdict.reasons[0]


def booted_twice(do: str) -> Story:
    """Node 2 starts with a promise that no leader has counted on, and starts again without it."""
    story = ensemble()
    story.crash(2)
    story.boot(2, accepted_epoch=2)
    story.crash(2, do=do)
    story.boot(2, accepted_epoch=1)
    story.join(2)
    return story


def test_what_a_server_has_started_with_goes_with_its_power_only(tmp_path: Path) -> None:
    assert judged(booted_twice("power-cut"), "logs", tmp_path / "cut").violated == []
    assert judged(booted_twice("crash"), "logs", tmp_path / "killed").violated == ["epochs"]


def test_a_leader_starts_below_the_epoch_that_it_leads(tmp_path: Path) -> None:
    """It takes one above all that its quorum has promised, itself included; a follower may have promised that very one."""
    for node, violated in ((2, []), (3, ["epochs"])):
        story = ensemble()
        story.crash(node)
        leave(story, node)
        story.boot(node, accepted_epoch=2)
        story.elect(3, epoch=2)
        story.write()
        assert judged(story, "logs", tmp_path / str(node)).violated == violated
