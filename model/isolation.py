"""The levels of isolation that a system may promise for its transactions, and which anomalies each forbids.

After Adya, Weak Consistency (1999), and Kingsbury and Alvaro, Elle (2020). A history of transactions is a graph: an edge leads
from a transaction to one that must come later. Each anomaly is a cycle, named for the edges that it needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType


class Order(IntEnum):
    """Which order of the calls the order of the transactions follows, besides what they have read and written."""

    NONE = 0
    SESSION = 1
    REAL_TIME = 2


class Strength(IntEnum):
    """How much of the others' work a transaction may see. Each forbids what the ones before it forbid, and more."""

    READ_COMMITTED = 1
    SNAPSHOT_ISOLATION = 2
    SERIALIZABLE = 3


@dataclass(frozen=True, slots=True)
class Level:
    """What a level of isolation promises."""

    strength: Strength
    order: Order = Order.NONE

    def implies(self, other: "Level") -> bool:
        """Return whether it forbids all that the other one forbids."""
        return self.strength >= other.strength and self.order >= other.order


DEFAULT_LEVEL = "strict-serializable"
# From the strongest to the weakest.
LEVELS: Mapping[str, Level] = MappingProxyType(
    {
        DEFAULT_LEVEL: Level(Strength.SERIALIZABLE, Order.REAL_TIME),
        "strong-session-serializable": Level(Strength.SERIALIZABLE, Order.SESSION),
        "serializable": Level(Strength.SERIALIZABLE),
        "strong-snapshot-isolation": Level(Strength.SNAPSHOT_ISOLATION, Order.REAL_TIME),
        "strong-session-snapshot-isolation": Level(Strength.SNAPSHOT_ISOLATION, Order.SESSION),
        "snapshot-isolation": Level(Strength.SNAPSHOT_ISOLATION),
        "read-committed": Level(Strength.READ_COMMITTED),
    }
)


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A kind of cycle, and the weakest level that forbids it."""

    name: str
    forbidden_by: Level

    @property
    def allowed_by(self) -> list[str]:
        """The names of the strongest levels that allow it: at most two, of which none implies the other."""
        allowing = {name: level for name, level in LEVELS.items() if not level.implies(self.forbidden_by)}
        return [
            name
            for name, level in allowing.items()
            if not any(other.implies(level) for other in allowing.values() if other != level)
        ]
