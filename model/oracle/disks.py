"""What each node's disk holds durably, as far as the traces say: the evidence that promises and quorums rest on.

A node writes `accept`, `truncate`, `snapshot` (installed), `accepted_epoch` and `current_epoch` when they are durable,
before anybody hears of them. Put together they are its disk. The next `boot` says what was really there.
"""

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field

import msgspec

from zab_chaos.model.events import (
    Accept,
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
from zab_chaos.node.core import digest as dg


class Log:
    """A durable history: everything up to `floor` (a snapshot's zxid), and above it stretches of consecutive zxids."""

    def __init__(self) -> None:
        self.floor = 0
        self.last = 0
        self._firsts: list[int] = []  # each stretch's first zxid, ascending
        self._digests: list[array[int]] = []
        self._unseen: list[tuple[int, int]] = []  # (after, upto): recovered, but no event says what it is

    def append(self, first: int, digests: "array[int]") -> None:
        """Transactions that became durable; what the log held from `first` on is replaced."""
        if first <= self.last:
            self.cut(first - 1)
        if self._firsts and first == self._firsts[-1] + len(self._digests[-1]):
            self._digests[-1].extend(digests)
        else:
            self._firsts.append(first)
            self._digests.append(digests)
        self.last = first + len(digests) - 1

    def cut(self, keep: int) -> None:
        """Nothing above `keep` is held any more."""
        while self._firsts and self._firsts[-1] > keep:
            self._firsts.pop()
            self._digests.pop()
        if self._firsts:
            del self._digests[-1][keep - self._firsts[-1] + 1 :]
        self._unseen = [(after, min(upto, keep)) for after, upto in self._unseen if after < keep]
        self.floor = min(self.floor, keep)
        self.last = min(self.last, keep)

    def install(self, zxid: int) -> None:
        """A snapshot has replaced everything."""
        self._firsts, self._digests, self._unseen = [], [], []
        self.floor = self.last = zxid

    def copy(self) -> "Log":
        """What it holds now."""
        log = Log()
        log.floor, log.last, log._unseen = self.floor, self.last, list(self._unseen)
        log._firsts, log._digests = list(self._firsts), [digests[:] for digests in self._digests]
        return log

    def recover(self, snapshot: int, last: int) -> None:
        """What a boot found: it ends at `last`. What no event has told of was durable all the same."""
        if last < self.last:
            self.cut(last)
        elif last > self.last:
            self._unseen.append((self.last, last))
            self.last = last
        self.floor = max(self.floor, snapshot)

    def holds(self, first: int, digests: "array[int]") -> bool:
        """Whether exactly these transactions, of consecutive zxids from `first` on, are in it."""
        last = first + len(digests) - 1
        if last > self.last:
            return False
        if first <= self.floor:
            digests, first = digests[max(0, self.floor + 1 - first) :], self.floor + 1
        if not digests:
            return True
        if self._unseen and any(after < last and first <= upto for after, upto in self._unseen):
            return all(self._holds_one(first + offset, digests[offset : offset + 1]) for offset in range(len(digests)))
        return self._stretch(first, len(digests)) == digests

    def _holds_one(self, zxid: int, digest: "array[int]") -> bool:
        return any(after < zxid <= upto for after, upto in self._unseen) or self._stretch(zxid, 1) == digest

    def _stretch(self, first: int, count: int) -> "array[int] | None":
        number = bisect_right(self._firsts, first) - 1
        if number < 0:
            return None
        offset = first - self._firsts[number]
        return self._digests[number][offset : offset + count]


class Joined(msgspec.Struct, frozen=True):
    """An epoch that a node has made its current one: ACK-LD. `last`: where its log really ended then."""

    event: CurrentEpoch
    last: int
    amnesiac: bool


class Promised(msgspec.Struct, frozen=True):
    """A promise: ACK-E. `history`: how good the history was that it told of, as (f.a, last zxid)."""

    event: AcceptedEpoch
    amnesiac: bool
    history: tuple[int, int]


@dataclass(slots=True)
class Disk:
    """One disk of one node, over all lives that it has served. A lost disk is followed by a new one.

    `accepted_in`, `current_in`, `last_in`: the lines that say so. `amnesiac` as long as it keeps its node out of quorums.
    `admitted`: by what it is known that its node was a member again, when it had lost the disk before; the boot, if a life was
    killed before it could say so. `untold`: the boot that found a promise which no life had told of: the power was cut when
    it was on the disk. `top`: the highest delivery of a life on this disk, which ends at `top_last`. `cut_from`:
    where the log ended before it was truncated last. `successor`: the first boot on the disk that took its place.
    """

    amnesiac: bool = False
    accepted_epoch: int = 0  # f.p
    current_epoch: int = 0  # f.a
    log: Log = field(default_factory=Log)
    accepted_in: Line | None = None
    current_in: Line | None = None
    last_in: Line | None = None
    top: Deliver | None = None
    top_last: int = 0
    cut_from: int = 0
    successor: Boot | None = None
    promises: dict[int, list[Promised]] = field(default_factory=dict)  # by epoch
    untold: dict[int, Boot] = field(default_factory=dict)  # by epoch
    joined: dict[int, Joined] = field(default_factory=dict)  # by epoch
    admitted: dict[int, Member | Boot] = field(default_factory=dict)  # by epoch

    @property
    def empty(self) -> bool:
        """Whether nothing was ever written to it."""
        return not (self.accepted_epoch or self.current_epoch or self.log.last)

    def boot(self, event: Boot) -> None:
        """What a boot found takes the place of what the events said."""
        if self.amnesiac and event.disk != "amnesiac":
            self.admitted[event.current_epoch] = event
        self.amnesiac = event.disk == "amnesiac"
        if event.accepted_epoch > self.accepted_epoch:
            self.untold.setdefault(event.accepted_epoch, event)
        if event.accepted_epoch != self.accepted_epoch:
            self.accepted_epoch, self.accepted_in = event.accepted_epoch, event
        if event.current_epoch != self.current_epoch:
            self.current_epoch, self.current_in = event.current_epoch, event
        if packed(event.last_zxid) != self.log.last:
            self.last_in = event
        self.log.recover(packed(event.snapshot_zxid), packed(event.last_zxid))
        if self.top_last > self.log.last:
            self.top, self.top_last = None, 0

    def accept(self, event: Accept) -> None:
        if event.digests:
            self.log.append(event.zxid, dg.read_all(event.digests))
            self.last_in = event

    def truncate(self, event: Truncate) -> None:
        self.cut_from = self.log.last
        self.log.cut(packed(event.keep))
        self.last_in = event

    def install(self, event: Snapshot) -> None:
        self.log.install(packed(event.zxid))
        self.last_in = event

    def promise(self, event: AcceptedEpoch) -> None:
        self.accepted_epoch, self.accepted_in = event.epoch, event
        self.promises.setdefault(event.epoch, []).append(
            Promised(event, self.amnesiac, (self.current_epoch, self.log.last))
        )

    def join(self, event: CurrentEpoch) -> None:
        self.current_epoch, self.current_in = event.epoch, event
        self.joined[event.epoch] = Joined(event, self.log.last, self.amnesiac)

    def admit(self, event: Member) -> None:
        self.amnesiac = False
        self.admitted[event.epoch] = event


@dataclass(frozen=True, slots=True)
class Found:
    """A boot, and what the disk had held when the life before it ended.

    `new_disk`: the disk is another one, and empty. `amnesiac`: the disk kept its node out of quorums. `own_epoch`: the former
    life was about to promise an epoch of its own. `top`: see `Disk`.
    """

    boot: Boot
    before: Boot
    new_disk: bool
    amnesiac: bool
    own_epoch: bool
    accepted_epoch: int
    current_epoch: int
    last: int
    top: Deliver | None
    top_last: int
    accepted_in: Line | None
    current_in: Line | None
    last_in: Line | None


def compare(event: Boot, before: Boot, disk: Disk, own_epoch: bool) -> Found:
    """The comparison of a boot with the disk of the same node. Call it before the disk takes over what was found."""
    return Found(
        boot=event,
        before=before,
        new_disk=_is_new(event, disk),
        amnesiac=disk.amnesiac,
        own_epoch=own_epoch,
        accepted_epoch=disk.accepted_epoch,
        current_epoch=disk.current_epoch,
        last=disk.log.last,
        top=disk.top,
        top_last=disk.top_last,
        accepted_in=disk.accepted_in,
        current_in=disk.current_in,
        last_in=disk.last_in,
    )


def _is_new(event: Boot, disk: Disk) -> bool:
    """Whether a node that has lived before starts on another, empty disk. One that was amnesiac is still amnesiac on
    the disk that it had, until it is a member."""
    if event.disk == "amnesiac" and disk.amnesiac:
        return event.blank and not disk.empty
    return event.empty
