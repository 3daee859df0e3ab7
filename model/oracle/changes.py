"""The changes of each znode, according to the delivered transactions.

The list of a znode's children has its own changes, under the znode's path with a trailing slash. The list exists as long as the
znode, and changes whenever a child is created or deleted.
"""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from zab_chaos.model.oracle.delivered_history import DeliveredHistory
from zab_chaos.model.oracle.effects import Effects
from zab_chaos.model.oracle.spans import FOREVER
from zab_chaos.model.oracle.znodes import name_of, parent_of

CHANGING = frozenset({"create", "set", "delete"})


class Change(NamedTuple):
    """A creation, set or deletion (`op`) at `zxid`.

    `created` is the zxid of the znode's latest creation, `version` the number of sets since then, `value` the CRC-32 of the
    data. `child` is the name that was added to a list of children or removed from it.
    """

    zxid: int
    op: str
    created: int
    version: int
    value: int | None
    child: str | None


class Changes:
    """The changes of all znodes, by path. They are known up to the zxid `known_upto`.

    If the run is not `complete`, its nodes may have delivered more than its records show.
    """

    def __init__(self, history: DeliveredHistory, effects: Effects, *, complete: bool) -> None:
        self.known_upto = FOREVER if complete else history.last
        self._by_path: dict[str, list[Change]] = {}
        for zxid, txn in zip(history.zxids, effects.txns, strict=True):
            if txn is None:
                self.known_upto = zxid - 1
                return
            for op, path, _, value in txn[2]:
                if op in CHANGING:
                    self._add(zxid, op, path, value)

    def _add(self, zxid: int, op: str, path: str, value: int | None) -> None:
        self._append(path, zxid, op, value)
        if op != "set":
            self._append(f"{path}/", zxid, op)
            self._append(f"{parent_of(path)}/", zxid, "set", child=name_of(path))

    def _append(self, path: str, zxid: int, op: str, value: int | None = None, child: str | None = None) -> None:
        changes = self._by_path.setdefault(path, [])
        created, version = (changes[-1].created, changes[-1].version + 1) if changes and op == "set" else (zxid, 0)
        changes.append(Change(zxid, op, created, version, value, child))

    def of(self, path: str) -> Sequence[Change]:
        """Return all changes of a znode, in order."""
        return self._by_path.get(path, [])

    def last_change(self, path: str, zxid: int) -> Change | None:
        """Return the znode's last change up to `zxid`, None if it does not exist at that point."""
        changes = self._by_path.get(path, [])
        place = bisect_right(changes, zxid, key=attrgetter("zxid"))
        return changes[place - 1] if place and changes[place - 1].op != "delete" else None

    def last_change_zxid(self, path: str, zxid: int) -> int | None:
        """Return the zxid of the znode's last change up to `zxid`, None if it does not exist at that point."""
        last = self.last_change(path, zxid)
        return last.zxid if last is not None else None

    def next_change(self, path: str, zxid: int) -> Change | None:
        """Return the znode's first change after `zxid`."""
        changes = self._by_path.get(path, [])
        place = bisect_right(changes, zxid, key=attrgetter("zxid"))
        return changes[place] if place < len(changes) else None
