"""The content of a disk as the judge reconstructs it: what was appended last, which most questions are about."""

from array import array
from collections.abc import Callable

import pytest

from zab_chaos.model.oracle.disks import DurableHistory

FIRST = 1 << 32 | 1


@pytest.mark.parametrize(
    "cut",
    [lambda log: log.truncate(FIRST + 1), lambda log: log.install(FIRST + 1), lambda log: log.recover(0, FIRST + 1)],
    ids=["truncated", "replaced by a snapshot", "not found by a boot"],
)
def test_what_was_appended_last_is_held_as_long_as_it_is_there(cut: Callable[[DurableHistory], None]) -> None:
    log, batch = DurableHistory(), array("Q", [7, 8])
    log.append(FIRST, array("Q", [5, 6]))
    log.append(FIRST + 2, batch)
    assert log.holds(FIRST + 2, batch)
    assert not log.holds(FIRST + 2, array("Q", [7, 9]))
    cut(log)
    assert not log.holds(FIRST + 2, batch)
