"""The delivered history: every transaction that any node ever delivered, in order, and each node's position in it.

It is a ghost variable: no node has it, it survives every crash, and it never shrinks (Remix, EuroSys 2025, calls it
`committedLog`). The first node that delivers beyond its end extends it. Every other node must find its own deliveries in it.
The zxids show Zab's order, so a batch is compared with one comparison of slices, and the whole check is linear in the number
of events.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from dataclasses import dataclass, field

import msgspec

from zab_chaos.model.events import Deliver
from zab_chaos.node.core import digest as dg


@dataclass(slots=True)
class HistoryPosition:
    """How far one node has come in the delivered history, in its present life.

    `cursor` is the index of the transaction that the node should deliver next. `reached` is the highest value that the
    cursor had in this life: the node has delivered all transactions below that index, or received them in a snapshot,
    except those in `holes` (ranges of indexes that it skipped). Once the node has `diverged`, both stay where its path left
    the history.
    """

    cursor: int = 0
    reached: int = 0
    last: int = 0  # zxid of the last delivered transaction
    diverged: bool = False
    holes: list[tuple[int, int]] = field(default_factory=list)

    def has(self, index: int) -> bool:
        """Return whether the node has delivered the transaction at `index`."""
        return index < self.reached and not any(start <= index < end for start, end in self.holes)


@dataclass(frozen=True, slots=True)
class Conflict:
    """The first transaction of a batch that differs from the next one of the delivered history.

    `kind` says how: `bytes` (the zxid is equal, the digest is not), `other` (the transaction is not in the history), `skipped`
    (it comes later in the history) or `again` (it comes earlier).
    """

    kind: str
    index: int  # where the node was in the history
    zxid: int
    digest: int
    first_delivery: Deliver  # of the history's transaction at `index`; for `again`, of the repeated transaction


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """One `deliver` event, compared with the delivered history."""

    event: Deliver
    digests: "array[int]"
    before: int  # zxid that the node had delivered last in this life; 0: none
    first: int  # zxid of the batch's first transaction
    last: int  # zxid of the batch's last transaction
    appended: int  # how many of its transactions (the last ones) extended the history
    all_known: bool  # the history had all of it already, and the node delivered it in order
    conflict: Conflict | None
    running_digest: int | None  # of the history up to `last`; None if the history does not have `last`


class DeliveredHistory:
    """All delivered transactions: their zxids (strictly ascending), their digests, and the running digest after each."""

    def __init__(self) -> None:
        self.zxids = array("Q")
        self.digests = array("Q")
        self.running_digests = array("Q")
        self._segment_starts: list[int] = []  # index at which each of `_first_deliveries` extended the history
        self._first_deliveries: list[Deliver] = []
        self._forked: list[Delivery] = []  # batches in which, or before which, their node diverged

    def __len__(self) -> int:
        return len(self.zxids)

    @property
    def last(self) -> int:
        """Return the highest delivered zxid, 0 if nothing was delivered."""
        return self.zxids[-1] if self.zxids else 0

    def index(self, zxid: int) -> int | None:
        """Return the index of a zxid, None if it was never delivered."""
        index = bisect_left(self.zxids, zxid)
        return index if index < len(self.zxids) and self.zxids[index] == zxid else None

    def count_below(self, zxid: int) -> int:
        """Return how many delivered transactions have a lower zxid."""
        return bisect_left(self.zxids, zxid)

    def digest_at(self, zxid: int) -> int | None:
        """Return the running digest of the history up to `zxid`, None if `zxid` was never delivered."""
        if zxid == 0:
            return dg.EMPTY
        index = self.index(zxid)
        return None if index is None else self.running_digests[index]

    def zxid_with(self, running_digest: int) -> int | None:
        """Return the zxid up to which the history has this running digest, None if it never had."""
        found = running_digest in self.running_digests
        return self.zxids[self.running_digests.index(running_digest)] if found else None

    def first_delivery(self, index: int) -> Deliver:
        """Return the event with which some node was the first to deliver the transaction at `index`."""
        return self._first_deliveries[bisect_right(self._segment_starts, index) - 1]

    def forked_delivery(self, zxid: int) -> Deliver | None:
        """Return the first delivery of `zxid` by a node that had diverged from the history, None if there is none."""
        return next((it.event for it in self._forked if it.first <= zxid <= it.last), None)

    def length_at(self, t: int) -> int:
        """Return how many transactions some node had delivered by the time `t` (ns)."""
        number = bisect_right(self._first_deliveries, t, key=lambda event: event.t)
        return self._segment_starts[number] if number < len(self._segment_starts) else len(self.zxids)

    def growth_times(self, besides: Collection[int] = ()) -> list[int]:
        """Return the times (ns) at which the history grew by more than the zxids `besides`: some node delivered something as
        the first one."""
        ends = [*self._segment_starts[1:], len(self.zxids)]
        return [
            event.t
            for event, start, end in zip(self._first_deliveries, self._segment_starts, ends, strict=False)
            if not besides or any(zxid not in besides for zxid in self.zxids[start:end])
        ]

    def deliver(self, position: HistoryPosition, event: Deliver) -> Delivery:
        """Compare a node's next deliveries with the history, extend the history, and move the node's cursor."""
        digests = dg.read_all(event.digests)
        first, before = event.epoch << 32 | event.first, position.last
        position.last = last = first + len(digests) - 1
        matching = 0 if position.diverged else self._count_matching(position.cursor, first, digests)
        position.cursor += matching
        known = matching == len(digests)
        appended, conflict = (
            (0, None) if known or position.diverged else self._extend(position, event, first, digests, matching)
        )
        if position.cursor > position.reached:
            position.reached = position.cursor
        running_digest = self.running_digests[position.cursor - 1] if known or appended else self.digest_at(last)
        delivery = Delivery(event, digests, before, first, last, appended, known, conflict, running_digest)
        if position.diverged:
            self._forked.append(delivery)
        return delivery

    def restore(self, position: HistoryPosition, zxid: int) -> None:
        """Move a node to `zxid`, whose snapshot replaced its state. It has diverged if the history does not have that zxid."""
        index = self.index(zxid) if zxid else -1
        position.last = zxid
        position.holes = []
        position.diverged = index is None
        if index is not None:
            position.cursor = position.reached = index + 1

    def _extend(
        self, position: HistoryPosition, event: Deliver, first: int, digests: "array[int]", done: int
    ) -> tuple[int, Conflict | None]:
        """Extend the history by what follows the first `done` transactions of the batch, which it has. Return how many
        transactions extended it, and the first conflict.

        After a conflict the comparison goes on where the node is in the history now, unless it has diverged.
        """
        conflict: Conflict | None = None
        count = len(digests)
        while done < count and not position.diverged:
            zxid = first + done
            if position.cursor == len(self.zxids) and zxid > self.last:
                self._append(zxid, digests[done:] if done else digests, event)
                position.cursor += count - done
                return count - done, conflict
            found = self._resolve_conflict(position, zxid, digests[done])
            conflict = conflict or found
            matching = self._count_matching(position.cursor, zxid, digests[done:])
            position.cursor += matching
            done += matching
        return 0, conflict

    def _count_matching(self, cursor: int, zxid: int, digests: "array[int]") -> int:
        """Return how many transactions, from `zxid` on, are equal to those of the history from `cursor` on."""
        remaining = len(self.zxids) - cursor
        if remaining <= 0 or self.zxids[cursor] != zxid:
            return 0
        if len(digests) == 1:
            return int(self.digests[cursor] == digests[0])
        known = min(len(digests), remaining)
        # Strictly ascending zxids are consecutive if the first and the last differ by their number less one.
        consecutive = self.zxids[cursor + known - 1] == zxid + known - 1
        if consecutive and self.digests[cursor : cursor + known] == digests[:known]:
            return known
        matching = 0
        while (
            matching < known
            and self.zxids[cursor + matching] == zxid + matching
            and self.digests[cursor + matching] == digests[matching]
        ):
            matching += 1
        return matching

    def _resolve_conflict(self, position: HistoryPosition, zxid: int, digest: int) -> Conflict:
        """Return how the transaction differs from the one at the cursor, and move the cursor to where the comparison goes
        on."""
        at = position.cursor
        first_delivery = self.first_delivery(min(at, len(self) - 1))
        index = self.index(zxid)
        if index is None:
            position.diverged = True
            return Conflict("other", at, zxid, digest, first_delivery)
        if index == at:
            position.diverged = True
            return Conflict("bytes", at, zxid, digest, first_delivery)
        position.cursor = index
        if index > at:
            position.holes.append((at, index))
            return Conflict("skipped", at, zxid, digest, first_delivery)
        return Conflict("again", at, zxid, digest, self.first_delivery(index))

    def _append(self, zxid: int, digests: "array[int]", event: Deliver) -> None:
        self._segment_starts.append(len(self.zxids))
        self._first_deliveries.append(event)
        self.zxids.extend([zxid + number for number in range(len(digests))])
        self.digests.extend(digests)
        self.running_digests.extend(
            dg.fold_all(self.running_digests[-1] if self.running_digests else dg.EMPTY, zxid, digests)
        )
