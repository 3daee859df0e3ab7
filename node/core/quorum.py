"""The quorum system: majorities of a fixed ensemble (DSN 2011, definition II.1)."""

from collections.abc import Iterable

from zab_chaos.node.core.zxid import ZERO, Zxid


class Majority:
    """Majorities of `members`. Any two of them intersect."""

    def __init__(self, members: Iterable[int]) -> None:
        self.members = frozenset(members)
        self.size = len(self.members) // 2 + 1

    def has(self, nodes: Iterable[int]) -> bool:
        """Return whether `nodes` contain a quorum."""
        return len(self.members.intersection(nodes)) >= self.size

    def reached(self, zxids: Iterable[Zxid]) -> Zxid:
        """Return the highest zxid that a quorum has reached, or 0:0 if too few are given.

        `zxids`: the zxid that each node has reached.
        """
        ordered = sorted(zxids)
        return ordered[-self.size] if len(ordered) >= self.size else ZERO
