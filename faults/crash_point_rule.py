"""Crash points in scenario files: checks them, suggests the nearest name for a wrong one, and draws random ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from zab_chaos.faults.rules import InvalidValueError, Rule, suggest
from zab_chaos.node.crash_points import ANY, FAIL_STEPS, GRAMMAR, POINTS, InvalidCrashPoint, check_action

OFTEN = (
    "TXN",
    "PROPOSE",
    "ACK",
    "COMMIT",
    "PING",
    "VOTE",
)  # what comes again and again: so the first one is one of many
COUNTS = (1, 1, 1, 2, 3)
MANY = (1, 2, 5, 10, 30)
OF_ANY = (1, 2, 3, 4, 6, 9)


@dataclass(frozen=True, slots=True)
class DrawnPoint:
    """A placeholder for a point that is still to be drawn, at which `action` can happen."""

    action: str

    def draw(self, random: Random, weights: Mapping[str, float]) -> str:
        """`weights`: of points; 1 for one that is not in it."""
        points = [one for one in POINTS if self.action != "fail" or one.split(":")[0] in FAIL_STEPS]
        (drawn,) = random.choices(points, [weights.get(one, 1.0) for one in points])
        what = drawn.split(":")[1]
        count = random.choice(OF_ANY if what == ANY else MANY if what in OFTEN else COUNTS)
        return f"{drawn}#{count}" if count > 1 else drawn


def point(action: str = "crash") -> Rule:
    """The rule for a key that holds a point at which `action` is to happen; the value stays the text as written."""

    def read(value: object, _nodes: int) -> str:
        try:
            check_action(action, value)
        except InvalidCrashPoint as bad:
            raise InvalidValueError(bad.wrong, bad.allowed, suggest(bad.given, bad.choices)) from None
        return str(value)

    return Rule(GRAMMAR, read)
