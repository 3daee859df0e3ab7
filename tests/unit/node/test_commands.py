"""The commands of the control port that take effect later."""

from unittest.mock import MagicMock

from zab_chaos.node.clock import Clock
from zab_chaos.node.commands import ARMING_DELAY, Commands
from zab_chaos.node.crash_points import CrashPoints


def test_a_point_is_not_lifted_before_it_was_armed() -> None:
    """A fault that is healed at once has been there all the same."""
    now = 0
    crash = CrashPoints(MagicMock())
    commands = Commands(MagicMock(crash=crash), Clock(lambda: now), MagicMock(), print)
    commands.handle("arm", {"point": "after-sync:TXN"})
    for which in ({"point": "after-sync:TXN"}, {"point": "after-sync:TXN", "action": "crash"}, {}):
        assert commands.handle("disarm", which) == {"armed": False, "arming": True}
    assert commands.handle("disarm", {"point": "before-sync:TXN"}) == {"armed": False, "arming": False}
    assert commands.handle("disarm", {"point": "after-sync:TXN", "action": "pause"}) == {
        "armed": False,
        "arming": False,
    }
    commands.due(ARMING_DELAY)
    assert crash.armed == ["after-sync:TXN"]
    assert commands.handle("disarm", {"point": "after-sync:TXN"}) == {"armed": True, "arming": False}
    assert crash.armed == []


def test_one_of_two_points_of_a_name_is_lifted_while_the_other_is_not_armed_yet() -> None:
    crash = CrashPoints(MagicMock())
    commands = Commands(MagicMock(crash=crash), Clock(lambda: 0), MagicMock(), print)
    commands.handle("arm", {"point": "after-sync:TXN"})
    commands.due(ARMING_DELAY)
    commands.handle("arm", {"point": "after-sync:TXN"})
    assert commands.handle("disarm", {"point": "after-sync:TXN"}) == {"armed": True, "arming": False}
    assert commands.handle("disarm", {"point": "after-sync:TXN"}) == {"armed": False, "arming": True}
