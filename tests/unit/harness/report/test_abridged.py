"""Shortening of the events that a verdict cites."""

from typing import Any

from zab_chaos.harness.report.abridged import SHOWN, brief
from zab_chaos.node.core import digest as dg


def batch(first: int, *digests: int, epoch: int = 1, node: int = 1) -> dict[str, Any]:
    return {"event": "deliver", "node": node, "epoch": epoch, "first": first, "digests": dg.show_all(list(digests))}


def test_only_the_digests_that_differ_are_shown_with_their_zxids() -> None:
    one, other = brief([batch(1, *range(100, 200)), batch(41, 140, 7, 142, node=2)])
    assert one == batch(1) | {"digests": {"1:42": dg.show(141), "others": 99}}
    assert other == batch(41, node=2) | {"digests": {"1:42": dg.show(7), "others": 2}}


def test_equal_digests_are_a_long_list_like_any_other() -> None:
    whole = batch(1, *range(20))
    assert brief([whole, whole])[0]["digests"] == dg.show_all(list(range(SHOWN))) + " and 12 more"
    assert brief([batch(1, 5), batch(1, 6, epoch=2)]) == [batch(1, 5), batch(1, 6, epoch=2)]


def test_many_differences_are_cut_off_and_other_events_stay_as_they_are() -> None:
    boot = {"event": "boot", "last_zxid": [1, 4]}
    few = {f"1:{counter}": dg.show(counter - 1) for counter in range(1, SHOWN + 1)}
    one, _, kept = brief([batch(1, *range(100)), batch(1, *range(1, 101)), boot])
    assert one["digests"] == {**few, "others": 100 - SHOWN}
    assert kept == boot
