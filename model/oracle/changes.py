"""Each znode's changes, as the delivered transactions have them.

The list of a znode's children has a history of its own, below the znode's path with a slash at its end: it is there as long
as the znode, and the creation or deletion of a child changes it.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from zab_chaos.model.oracle.effects import Effects
from zab_chaos.model.oracle.ledger import Ledger
from zab_chaos.model.oracle.spans import FOREVER
from zab_chaos.model.oracle.znodes import name_of, parent_of

CHANGING = frozenset({"create", "set", "delete"})


class Change(NamedTuple):
    """`zxid`: of a creation, set or deletion (`op`); `created`: the zxid of the creation before; `version`: the sets since;
    `child`: whom a list has from then on, or has no more."""

    zxid: int
    op: str
    created: int
    version: int
    child: str | None


class Changes:
    """By path. `upto`: the zxid up to which it is known what has changed; behind it nothing is said. A run that is not `whole`
    may have delivered more than its records show."""

    def __init__(self, ledger: Ledger, effects: Effects, *, whole: bool) -> None:
        self.upto = FOREVER if whole else ledger.last
        self._by_path: dict[str, list[Change]] = {}
        for zxid, txn in zip(ledger.zxids, effects.txns, strict=True):
            if txn is None:
                self.upto = zxid - 1
                return
            for op, path, *_ in txn[2]:
                if op in CHANGING:
                    self._add(zxid, op, path)

    def _add(self, zxid: int, op: str, path: str) -> None:
        self._append(path, zxid, op)
        if op != "set":
            self._append(f"{path}/", zxid, op)
            self._append(f"{parent_of(path)}/", zxid, "set", name_of(path))

    def _append(self, path: str, zxid: int, op: str, child: str | None = None) -> None:
        changes = self._by_path.setdefault(path, [])
        created, version = (changes[-1].created, changes[-1].version + 1) if changes and op == "set" else (zxid, 0)
        changes.append(Change(zxid, op, created, version, child))

    def of(self, path: str) -> Sequence[Change]:
        """All of a znode, in order."""
        return self._by_path.get(path, [])

    def last(self, path: str, zxid: int) -> Change | None:
        """The znode's last change up to `zxid`; None: there is no such znode then."""
        changes = self._by_path.get(path, [])
        place = bisect_right(changes, zxid, key=_zxid)
        return changes[place - 1] if place and changes[place - 1].op != "delete" else None

    def state(self, path: str, zxid: int) -> int | None:
        """The zxid of that."""
        last = self.last(path, zxid)
        return last.zxid if last is not None else None

    def after(self, path: str, zxid: int) -> Change | None:
        """The znode's first change after `zxid`."""
        changes = self._by_path.get(path, [])
        place = bisect_right(changes, zxid, key=_zxid)
        return changes[place] if place < len(changes) else None


def _zxid(change: Change) -> int:
    return change.zxid
