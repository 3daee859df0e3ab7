"""Crash points in scenario files: the rule that checks them, and random ones for the nemesis."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from zab_chaos.faults.rules import InvalidValueError, Rule, suggest
from zab_chaos.node.crash_points import ANY, FAIL_STEPS, GRAMMAR, POINTS, InvalidCrashPoint, check_action

# Records and messages that occur again and again.
FREQUENT = ("TXN", "PROPOSE", "ACK", "COMMIT", "PING", "VOTE")
# The k of `#k` that may be drawn, for most points, for frequent ones, and for ANY.
COUNTS = (1, 1, 1, 2, 3)
FREQUENT_COUNTS = (1, 2, 5, 10, 30)
ANY_COUNTS = (1, 2, 3, 4, 6, 9)


@dataclass(frozen=True, slots=True)
class DrawnPoint:
    """A placeholder in drawn params for a crash point that is still to be drawn. `action`: what is to happen there."""

    action: str

    def draw(self, random: Random, weights: Mapping[str, float]) -> str:
        """Draw a point. `weights`: of points; a point that is not in it has weight 1."""
        points = [one for one in POINTS if self.action != "fail" or one.split(":")[0] in FAIL_STEPS]
        (drawn,) = random.choices(points, [weights.get(one, 1.0) for one in points])
        what = drawn.split(":")[1]
        count = random.choice(ANY_COUNTS if what == ANY else FREQUENT_COUNTS if what in FREQUENT else COUNTS)
        return f"{drawn}#{count}" if count > 1 else drawn


def point(action: str = "crash") -> Rule:
    """Return the rule for a key that holds a point at which `action` is to happen. The value stays the text as written."""

    def read(value: object, _nodes: int) -> str:
        try:
            check_action(action, value)
        except InvalidCrashPoint as bad:
            raise InvalidValueError(bad.wrong, bad.allowed, suggest(bad.given, bad.choices)) from None
        return str(value)

    return Rule(GRAMMAR, read)
