"""The forms of a zxid: a number, a pair, and text."""

from zab_chaos.node.core.zxid import from_pair, pair, show, zxid


def test_a_zxid_is_shown_as_epoch_and_counter() -> None:
    assert show(zxid(7, 3)) == "7:3"


def test_a_pair_is_read_back() -> None:
    assert pair(zxid(7, 3)) == [7, 3]
    assert from_pair([7, 3]) == zxid(7, 3)
