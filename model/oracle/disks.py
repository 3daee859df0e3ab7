"""The durable content of each node's disk, reconstructed from the traces. The checks of promises and quorums are based on
it.

A node traces `accept`, `truncate`, `snapshot` (installed), `accepted_epoch` and `current_epoch` once they are durable,
before any other process can see their effect. Together they give the content of its disk. The next `boot` shows what was
really there.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from zab_chaos.model.events import (
    AcceptedEpoch,
    Boot,
    CurrentEpoch,
    Deliver,
    Line,
    Member,
    Snapshot,
    Truncate,
    packed,
)

_NOTHING = (0, array("Q"))


class DurableHistory:
    """A durable history: everything up to `floor` (the zxid of a snapshot), and above it segments of consecutive zxids."""

    def __init__(self) -> None:
        self.floor = 0
        self.last = 0
        self._firsts: list[int] = []  # the first zxid of each segment, ascending
        self._digests: list[array[int]] = []  # the digests of each segment
        # (after, upto), ascending: found at a boot, but no event shows the digests.
        self._unreported: list[tuple[int, int]] = []
        self._newest: tuple[int, array[int]] = _NOTHING  # what was appended last, if it is still there

    def append(self, first: int, digests: "array[int]") -> None:
        """Append transactions that became durable. They replace what the log held from `first` on."""
        if first <= self.last:
            self.truncate(first - 1)
        if self._firsts and first == self._firsts[-1] + len(self._digests[-1]):
            self._digests[-1].extend(digests)
        else:
            self._firsts.append(first)
            self._digests.append(digests[:])
        self.last = first + len(digests) - 1
        self._newest = (first, digests)

    def held_above(self, keep: int) -> list[tuple[int, int]]:
        """Return the transactions above `keep` whose digests are known, as (first, last) of consecutive zxids."""
        ends = ((first, first + len(digests) - 1) for first, digests in zip(self._firsts, self._digests, strict=True))
        return [(max(first, keep + 1), last) for first, last in ends if last > keep]

    def truncate(self, keep: int) -> None:
        """Remove everything above `keep`."""
        while self._firsts and self._firsts[-1] > keep:
            self._firsts.pop()
            self._digests.pop()
        if self._firsts:
            del self._digests[-1][keep - self._firsts[-1] + 1 :]
        self._unreported = [(after, min(upto, keep)) for after, upto in self._unreported if after < keep]
        self.floor = min(self.floor, keep)
        self.last = min(self.last, keep)
        self._newest = _NOTHING

    def install(self, zxid: int) -> None:
        """Replace everything by a snapshot."""
        self._firsts, self._digests, self._unreported = [], [], []
        self._newest = _NOTHING
        self.floor = self.last = zxid

    def copy(self) -> "DurableHistory":
        """Return an independent copy."""
        log = DurableHistory()
        log.floor, log.last, log._unreported = self.floor, self.last, list(self._unreported)
        log._firsts, log._digests = list(self._firsts), [digests[:] for digests in self._digests]
        return log

    def recover(self, snapshot: int, last: int) -> None:
        """Adjust the log to what a boot found: it ends at `last`. Transactions that no event showed were durable all the
        same."""
        if last < self.last:
            self.truncate(last)
        elif last > self.last:
            self._unreported.append((self.last, last))
            self.last = last
        self.floor = max(self.floor, snapshot)

    def holds(self, first: int, digests: "array[int]") -> bool:
        """Return whether the log holds exactly these transactions, with consecutive zxids from `first` on."""
        if self._newest == (first, digests):  # most often
            return True
        last = first + len(digests) - 1
        if last > self.last:
            return False
        if first <= self.floor:
            digests, first = digests[max(0, self.floor + 1 - first) :], self.floor + 1
        if not digests:
            return True
        if self._unreported and self._is_unreported(first, last):
            return all(
                self._is_unreported(zxid, zxid) or self.holds(zxid, digests[zxid - first : zxid - first + 1])
                for zxid in range(first, last + 1)
            )
        number = bisect_right(self._firsts, first) - 1
        if number < 0:
            return False
        offset = first - self._firsts[number]
        return self._digests[number][offset : offset + len(digests)] == digests

    def _is_unreported(self, first: int, last: int) -> bool:
        """Return whether no event shows the digest of some of these transactions."""
        place = bisect_left(self._unreported, first, key=lambda span: span[1])
        return place < len(self._unreported) and self._unreported[place][0] < last


class JoinedEpoch(msgspec.Struct, frozen=True):
    """An epoch that a node made its current one (ACK-LD). `last` is the zxid at which the log on its disk ended then."""

    event: CurrentEpoch
    last: int


class EpochPromise(msgspec.Struct, frozen=True):
    """A promise of an epoch (ACK-E). `history` is the node's history then, as leaders compare histories: (f.a, last zxid)."""

    event: AcceptedEpoch
    amnesiac: bool
    history: tuple[int, int]


@dataclass(slots=True)
class DiskHistory:
    """One disk of one node, over all lives on it. A lost disk is followed by a new one.

    - `accepted_in`, `current_in`, `last_in`: the lines that show f.p, f.a and the end of the log.
    - `amnesiac`: the node does not count in quorums because of this disk.
    - `readmissions`: the event that shows that the node, after the loss of its disk, became a member again; a boot, if the life
      was killed before it could trace it.
    - `unreported_promises`: the boot that found a promise that no life traced: the power was cut when it was on the disk.
    - `highest_delivery`: the delivery on this disk that goes furthest, up to `highest_delivered`.
    - `truncated_from`: where the log ended before its last truncation. `truncated`: what that has removed, as of `held_above`.
    - `successor`: the first boot on the disk that replaced this one.
    """

    amnesiac: bool = False
    accepted_epoch: int = 0  # f.p
    current_epoch: int = 0  # f.a
    log: DurableHistory = field(default_factory=DurableHistory)
    accepted_in: Line | None = None
    current_in: Line | None = None
    last_in: Line | None = None
    highest_delivery: Deliver | None = None
    highest_delivered: int = 0
    truncated_from: int = 0
    truncated: Sequence[tuple[int, int]] = ()
    successor: Boot | None = None
    promises: dict[int, list[EpochPromise]] = field(default_factory=dict)  # by epoch
    unreported_promises: dict[int, Boot] = field(default_factory=dict)  # by epoch
    joined: dict[int, JoinedEpoch] = field(default_factory=dict)  # by epoch
    readmissions: dict[int, Member | Boot] = field(default_factory=dict)  # by epoch

    @property
    def empty(self) -> bool:
        """Return whether nothing was ever written to the disk."""
        return not (self.accepted_epoch or self.current_epoch or self.log.last)

    def boot(self, event: Boot) -> None:
        """Replace the reconstructed content by what a boot found."""
        if self.amnesiac and event.disk != "amnesiac":
            self.readmissions[event.current_epoch] = event
        self.amnesiac = event.disk == "amnesiac"
        if event.accepted_epoch > self.accepted_epoch:
            self.unreported_promises.setdefault(event.accepted_epoch, event)
        if event.accepted_epoch != self.accepted_epoch:
            self.accepted_epoch, self.accepted_in = event.accepted_epoch, event
        if event.current_epoch != self.current_epoch:
            self.current_epoch, self.current_in = event.current_epoch, event
        if packed(event.last_zxid) != self.log.last:
            self.last_in = event
        self.log.recover(packed(event.snapshot_zxid), packed(event.last_zxid))
        if self.highest_delivered > self.log.last:
            self.highest_delivery, self.highest_delivered = None, 0

    def truncate(self, event: Truncate) -> None:
        self.truncated_from, self.truncated = self.log.last, self.log.held_above(packed(event.keep))
        self.log.truncate(packed(event.keep))
        self.last_in = event

    def install(self, event: Snapshot) -> None:
        self.log.install(packed(event.zxid))
        self.last_in = event

    def promise(self, event: AcceptedEpoch) -> None:
        self.accepted_epoch, self.accepted_in = event.epoch, event
        self.promises.setdefault(event.epoch, []).append(
            EpochPromise(event, self.amnesiac, (self.current_epoch, self.log.last))
        )

    def join(self, event: CurrentEpoch) -> None:
        self.current_epoch, self.current_in = event.epoch, event
        self.joined[event.epoch] = JoinedEpoch(event, self.log.last)

    def readmit(self, event: Member) -> None:
        self.amnesiac = False
        self.readmissions[event.epoch] = event


@dataclass(frozen=True, slots=True)
class BootComparison:
    """A boot, compared with the content of the disk when the life before it ended.

    `new_disk`: the boot is on another, empty disk. `amnesiac`: because of the disk, the node did not count in quorums.
    `own_epoch`: the former life was in discovery as a leader, so it may have been about to promise an epoch of its own.
    `highest_delivery`: see `DiskHistory`.
    """

    boot: Boot
    before: Boot
    new_disk: bool
    amnesiac: bool
    own_epoch: bool
    accepted_epoch: int
    current_epoch: int
    last: int
    highest_delivery: Deliver | None
    highest_delivered: int
    accepted_in: Line | None
    current_in: Line | None
    last_in: Line | None


def compare(event: Boot, before: Boot, disk: DiskHistory, own_epoch: bool) -> BootComparison:
    """Compare a boot with its node's disk. Call this before `DiskHistory.boot` replaces the content."""
    return BootComparison(
        boot=event,
        before=before,
        new_disk=_is_new(event, disk),
        amnesiac=disk.amnesiac,
        own_epoch=own_epoch,
        accepted_epoch=disk.accepted_epoch,
        current_epoch=disk.current_epoch,
        last=disk.log.last,
        highest_delivery=disk.highest_delivery,
        highest_delivered=disk.highest_delivered,
        accepted_in=disk.accepted_in,
        current_in=disk.current_in,
        last_in=disk.last_in,
    )


def _is_new(event: Boot, disk: DiskHistory) -> bool:
    """Return whether a node that has lived before starts on another, empty disk. A node that was amnesiac stays amnesiac on the
    same disk until it is a member."""
    if event.disk == "amnesiac" and disk.amnesiac:
        return event.found_nothing and not disk.empty
    return event.starts_empty
