"""The commands of the control port that take effect later."""

from unittest.mock import MagicMock

from zab_chaos.node.clock import Clock
from zab_chaos.node.commands import ARMING_DELAY, Commands
from zab_chaos.node.crash_points import CrashPoints


def test_a_point_that_is_disarmed_before_it_was_armed_stays_so() -> None:
    now = 0
    crash = CrashPoints(MagicMock())
    commands = Commands(MagicMock(crash=crash), Clock(lambda: now), MagicMock(), print)
    for point in ("after-sync:TXN", "before-sync:TXN", "after-sync:TXN"):
        commands.handle("arm", {"point": point})
    assert commands.handle("disarm", {"point": "after-sync:TXN"}) == {"armed": True}
    commands.due(ARMING_DELAY)
    assert crash.armed == ["before-sync:TXN", "after-sync:TXN"]
    commands.handle("arm", {"point": "after-sync:ANY"})
    assert commands.handle("disarm", {}) == {"armed": True}
    commands.due(2 * ARMING_DELAY)
    assert crash.armed == []
    assert commands.handle("disarm", {}) == {"armed": False}
