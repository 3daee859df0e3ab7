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
