"""`seldom_collected` changes the threshold of the garbage collector only for its block."""

import gc

import pytest

from zab_chaos.model.garbage import COLLECT_AFTER, seldom_collected


def test_the_threshold_is_restored_afterwards() -> None:
    usual = gc.get_threshold()
    with seldom_collected():
        assert gc.get_threshold() == (COLLECT_AFTER, *usual[1:])
        with seldom_collected():
            assert gc.get_threshold()[0] == COLLECT_AFTER
        assert gc.get_threshold()[0] == COLLECT_AFTER
    assert gc.get_threshold() == usual


def test_the_threshold_is_restored_after_an_error() -> None:
    usual = gc.get_threshold()
    with pytest.raises(ValueError, match="broken"), seldom_collected():
        raise ValueError("broken")
    assert gc.get_threshold() == usual
