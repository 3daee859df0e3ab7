"""The ledger: everything that was ever delivered, in order, and how each node's deliveries compare with it.

The ledger is a ghost: no node has it, it survives every crash and it never shrinks (Remix, EuroSys 2025, calls it
`committedLog`). The first node that delivers beyond its end lengthens it; whoever comes later must find its own
deliveries there. Each node has a cursor into it. Because Zab's order is visible in the zxids, comparing is one slice
comparison a batch, and the whole check is linear in the events.
"""

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

import msgspec

from zab_chaos.model.events import Deliver
from zab_chaos.node.core import digest as dg


@dataclass(slots=True)
class Place:
    """Where one node stands in its present life.

    `cursor` is where in the ledger it expects its next delivery, `reached` the farthest that was in this life: it has
    delivered everything before that (or got it with a snapshot), less the `holes`, index ranges that it skipped. Once it
    has `diverged` both stay where the paths parted.
    """

    cursor: int = 0
    reached: int = 0
    last: int = 0  # the zxid that it delivered last
    diverged: bool = False
    holes: list[tuple[int, int]] = field(default_factory=list)

    def has(self, index: int) -> bool:
        """Whether it has delivered the ledger's transaction at `index`."""
        return index < self.reached and not any(start <= index < end for start, end in self.holes)


@dataclass(frozen=True, slots=True)
class Conflict:
    """The first transaction of a batch that is not the one that the ledger has next.

    `kind`: `bytes` (the same zxid, another digest), `other` (a transaction that is not in the ledger), `skipped` (one
    that is, but later) or `again` (one that is, but earlier).
    """

    kind: str
    index: int  # of the ledger: where the node stood
    zxid: int
    digest: int
    author: Deliver  # the delivery that put the ledger's transaction there


class Delivery(msgspec.Struct, frozen=True):
    """One `deliver` event, held against the ledger."""

    event: Deliver
    digests: "array[int]"
    before: int  # zxid that the node had delivered last in this life; 0: none
    first: int  # zxid of the batch's first transaction
    last: int  # zxid of the batch's last transaction
    fresh: int  # how many of its transactions (the last ones) lengthened the ledger
    known: bool  # all of it was in the ledger already, at the right place
    conflict: Conflict | None
    running: int | None  # the digest of the ledger up to `last`, None if that is no point of it


class Ledger:
    """Strictly ascending zxids, their transactions' digests and the running digest after each."""

    def __init__(self) -> None:
        self.zxids = array("Q")
        self.digests = array("Q")
        self.running = array("Q")
        self._starts: list[int] = []
        self._authors: list[Deliver] = []
        self._beside: list[Delivery] = []  # batches of nodes that had diverged, or did so in them

    def __len__(self) -> int:
        return len(self.zxids)

    @property
    def last(self) -> int:
        """The last delivered zxid; 0 when nothing was delivered."""
        return self.zxids[-1] if self.zxids else 0

    def index(self, zxid: int) -> int | None:
        """Where a zxid stands, None if it was never delivered."""
        place = bisect_left(self.zxids, zxid)
        return place if place < len(self.zxids) and self.zxids[place] == zxid else None

    def below(self, zxid: int) -> int:
        """How many transactions of the ledger have a lower zxid."""
        return bisect_left(self.zxids, zxid)

    def digest_at(self, zxid: int) -> int | None:
        """The running digest of the history up to `zxid`, None if that is no point of the ledger."""
        if zxid == 0:
            return dg.EMPTY
        index = self.index(zxid)
        return None if index is None else self.running[index]

    def author(self, index: int) -> Deliver:
        """The event that put the transaction at `index` there: the first delivery of it anywhere."""
        return self._authors[bisect_right(self._starts, index) - 1]

    def beside(self, zxid: int) -> Deliver | None:
        """The first delivery of it by a node whose history had parted from the ledger."""
        return next((it.event for it in self._beside if it.first <= zxid <= it.last), None)

    def length_at(self, t: int) -> int:
        """How many transactions had been delivered somewhere by the time `t`."""
        number = bisect_right(self._authors, t, key=lambda event: event.t)
        return self._starts[number] if number < len(self._starts) else len(self.zxids)

    def growth(self) -> list[int]:
        """The times at which the ledger became longer: somewhere something was delivered for the first time."""
        return [event.t for event in self._authors]

    def deliver(self, place: Place, event: Deliver) -> Delivery:
        """Compare a node's next deliveries with the ledger, lengthen it, and move the node's cursor."""
        digests = dg.read_all(event.digests)
        first, before = event.epoch << 32 | event.first, place.last
        place.last = first + len(digests) - 1
        lost = place.diverged
        fresh, conflict = (0, None) if lost else self._compare(place, event, first, digests)
        if place.cursor > place.reached:
            place.reached = place.cursor
        known = not lost and not fresh and conflict is None
        running = self.running[place.cursor - 1] if known or fresh else self.digest_at(place.last)
        found = Delivery(event, digests, before, first, place.last, fresh, known, conflict, running)
        if place.diverged:
            self._beside.append(found)
        return found

    def restore(self, place: Place, zxid: int) -> bool:
        """A snapshot has replaced a node's state. False if that state is no point of the ledger."""
        index = self.index(zxid) if zxid else -1
        place.last = zxid
        place.holes = []
        place.diverged = index is None
        if index is not None:
            place.cursor = place.reached = index + 1
        return index is not None

    def _compare(self, place: Place, event: Deliver, first: int, digests: "array[int]") -> tuple[int, Conflict | None]:
        """Walk the batch along the ledger; where it leaves the path, note the first conflict and find the way back."""
        conflict: Conflict | None = None
        done, count = 0, len(digests)
        while done < count:
            agreed = self._agreeing(place.cursor, first + done, digests[done:] if done else digests)
            place.cursor += agreed
            done += agreed
            if done == count:
                break
            zxid = first + done
            if place.cursor == len(self.zxids) and zxid > self.last:
                self._append(zxid, digests[done:] if done else digests, event)
                place.cursor += count - done
                return count - done, conflict
            parted = self._part(place, zxid, digests[done])
            conflict = conflict or parted
            if place.diverged:
                break
        return 0, conflict

    def _agreeing(self, cursor: int, zxid: int, digests: "array[int]") -> int:
        """How many transactions from `zxid` on are exactly the ledger's from `cursor` on."""
        left = len(self.zxids) - cursor
        if left <= 0 or self.zxids[cursor] != zxid:
            return 0
        if len(digests) == 1:
            return int(self.digests[cursor] == digests[0])
        known = min(len(digests), left)
        # Ascending zxids whose ends lie as far apart as their number are consecutive.
        consecutive = self.zxids[cursor + known - 1] == zxid + known - 1
        if consecutive and self.digests[cursor : cursor + known] == digests[:known]:
            return known
        agreed = 0
        while (
            agreed < known
            and self.zxids[cursor + agreed] == zxid + agreed
            and self.digests[cursor + agreed] == digests[agreed]
        ):
            agreed += 1
        return agreed

    def _part(self, place: Place, zxid: int, digest: int) -> Conflict:
        """The ledger has something else at the cursor: say what, and set the cursor where it can go on."""
        at = place.cursor
        author = self.author(min(at, len(self) - 1))
        index = self.index(zxid)
        if index is None:
            place.diverged = True
            return Conflict("other", at, zxid, digest, author)
        if index == at:
            place.diverged = True
            return Conflict("bytes", at, zxid, digest, author)
        place.cursor = index
        if index > at:
            place.holes.append((at, index))
            return Conflict("skipped", at, zxid, digest, author)
        return Conflict("again", at, zxid, digest, self.author(index))

    def _append(self, zxid: int, digests: "array[int]", event: Deliver) -> None:
        self._starts.append(len(self.zxids))
        self._authors.append(event)
        self.zxids.extend(range(zxid, zxid + len(digests)))
        self.digests.extend(digests)
        self.running.extend(dg.fold_all(self.running[-1] if self.running else dg.EMPTY, zxid, digests))
