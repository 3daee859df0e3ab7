"""Crash states: what the end of a process, or of the power, would leave on a disk at some sync, tried on copies of the disk.

A run shows what one end of a life leaves. At the same instant it could have left something else, and it could have come at
any other sync (Pillai and others, OSDI 2014; Mohan and others, OSDI 2018). So at some syncs of a simulated run the disk is
copied; the copy's power goes, or its process dies, and a store is opened on it, which may end in the same way at a sync of
its start. What it recovers must be what the node's store was told to keep. A trial has disk and chance of its own: the run
goes on as if there were none.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Self, get_args

from zab_chaos.model.world.disk import SimDisk
from zab_chaos.model.world.machine import SimNode
from zab_chaos.model.world.network import SimNet
from zab_chaos.model.world.server import Died, die
from zab_chaos.model.world.world import Plan, Sink, World
from zab_chaos.node.core.digest import blake2b
from zab_chaos.node.core.ready import (
    EpochRecord,
    MemberRecord,
    NewLeaderRecord,
    Record,
    Recovered,
    SnapRecord,
    TruncRecord,
    TxnRecords,
)
from zab_chaos.node.core.zxid import Zxid, show
from zab_chaos.node.exit_codes import reason
from zab_chaos.node.store.disk_faults import Variant
from zab_chaos.node.store.recovery import Report
from zab_chaos.node.store.store import Store

MOST_STARTS = 3  # of a trial
LAST_SYNC = 5  # of a start, at which it may end
VARIANTS: tuple[Variant, ...] = get_args(Variant)


@dataclass(slots=True)
class Held:
    """What a store may have recovered: the meaning of log records, written down without files.

    `base`: the zxid of the snapshot that the history rests on, 0 for none. `history`: what stands above it.
    """

    accepted_epoch: int = 0
    current_epoch: int = 0
    amnesiac: bool = False
    base: int = 0
    history: list[tuple[int, bytes]] = field(default_factory=list)

    @classmethod
    def of(cls, found: Recovered) -> Self:
        base = found.snapshot[0] if found.snapshot is not None else 0
        history = [entry for first, txns in found.runs for entry in enumerate(txns, first)]
        return cls(found.accepted_epoch, found.current_epoch, found.amnesiac, base, history)

    def copy(self) -> "Held":
        return replace(self, history=self.history[:])

    def apply(self, record: Record) -> None:
        match record:
            case EpochRecord(epoch):
                self.accepted_epoch = epoch
            case TxnRecords():
                self.history += enumerate(record.txns, record.first)
            case TruncRecord(keep):
                while self.history and self.history[-1][0] > keep:
                    self.history.pop()
            case SnapRecord(zxid):
                self.base, self.history = zxid, []
            case NewLeaderRecord(epoch):
                self.current_epoch = epoch
            case MemberRecord():
                self.amnesiac = False

    def is_what(self, found: "Held") -> bool:
        """Whether a store that recovered `found` recovered this. Its snapshot may be one that was taken since."""
        epochs = (self.accepted_epoch, self.current_epoch, self.amnesiac)
        if epochs != (found.accepted_epoch, found.current_epoch, found.amnesiac) or self.last != found.last:
            return False
        if found.base == self.base:
            return self.history == found.history
        place = next((place for place, (zxid, _) in enumerate(self.history, 1) if zxid == found.base), None)
        return place is not None and self.history[place:] == found.history

    @property
    def last(self) -> int:
        return self.history[-1][0] if self.history else self.base

    def __str__(self) -> str:
        kept = f"f.p = {self.accepted_epoch}, f.a = {self.current_epoch} and a history up to {show(Zxid(self.last))}"
        return kept + (f" above a snapshot at {show(Zxid(self.base))}" if self.base else "")


class Promised:
    """What a node's store was told to keep: what has become durable, and what waits for that.

    `known`: false before the first start, and when somebody else has changed the disk, until the next start is over.
    """

    def __init__(self) -> None:
        self.known = False
        self.durable = Held()
        self.waiting: list[Record] = []
        self.snapshots: dict[int, set[tuple[int, int]]] = {}  # by zxid: digest of the history, hash of the state

    def start_with(self, found: Recovered) -> None:
        self.known, self.durable = True, Held.of(found)
        self.waiting.clear()
        if found.snapshot is not None:
            self.add_snapshot(*found.snapshot)

    def forget(self) -> None:
        self.known = False

    def append(self, record: Record) -> None:
        self.waiting.append(record)
        if type(record) is SnapRecord:
            self.add_snapshot(record.zxid, record.digest, record.state)

    def add_snapshot(self, zxid: int, digest: int, state: bytes) -> None:
        self.snapshots.setdefault(zxid, set()).add((digest, blake2b(state)))

    def synced(self) -> None:
        """All that waits, but for a group that is still open."""
        done = max(_closed(self.waiting), default=0)
        for record in self.waiting[:done]:
            self.durable.apply(record)
        del self.waiting[:done]

    def allows(self, found: Recovered) -> bool:
        """Whether a start may recover this: what is durable, with any number of the records that wait, and groups whole."""
        if found.snapshot is not None:
            zxid, digest, state = found.snapshot
            if (digest, blake2b(state)) not in self.snapshots.get(zxid, ()):
                return False
        told = Held.of(found)
        return any(state.is_what(told) for state in self._states())

    def _states(self) -> Iterator[Held]:
        state, done = self.durable.copy(), 0
        yield state
        records = _one_by_one(self.waiting)
        for number in _closed(records):
            for record in records[done:number]:
                state.apply(record)
            done = number
            yield state


def _one_by_one(records: list[Record]) -> list[Record]:
    """As the log stores them: a record for each transaction."""
    found: list[Record] = []
    for record in records:
        if type(record) is TxnRecords:
            found += [TxnRecords(Zxid(record.first + at), [txn], []) for at, txn in enumerate(record.txns)]
        else:
            found.append(record)
    return found


def _closed(records: list[Record]) -> Iterator[int]:
    """How many records come up to, and with, each one behind which no group is open."""
    group = False
    for number, record in enumerate(records, 1):
        group = (group or type(record) in (TruncRecord, SnapRecord)) and type(record) is not NewLeaderRecord
        if not group:
            yield number


def noting(store_type: type[Store], promised: Promised) -> type[Store]:
    """The same store, which says what it is told and when it has said that it is durable."""

    class Noting(store_type):  # type: ignore[misc, valid-type]
        @classmethod
        def open(cls, *arguments: Any, **options: Any) -> tuple[Store, Recovered, Report]:
            store, recovered, report = super().open(*arguments, **options)
            promised.start_with(recovered)
            return store, recovered, report

        def append(self, record: Record) -> None:
            promised.append(record)
            super().append(record)

        def sync(self) -> None:
            super().sync()
            promised.synced()

        def take_snapshot(self, zxid: Zxid, digest: int, state: bytes) -> None:
            promised.add_snapshot(zxid, digest, state)
            super().take_snapshot(zxid, digest, state)

    return Noting


class TriedDisk(SimDisk):
    """A disk that says when it is about to sync, and when it is changed from outside."""

    node: "TriedNode"

    def _spend(self) -> None:
        self.node.about_to_sync()
        super()._spend()

    def import_from(self, folder: Path) -> None:
        self.node.promised.forget()
        super().import_from(folder)

    def wipe(self) -> None:
        self.node.promised.forget()
        super().wipe()


class TrialDisk(SimDisk):
    """The disk of a trial. `left`: the syncs after which the process ends; None: it goes on."""

    def __init__(self) -> None:
        self.left: int | None = None
        super().__init__(faithful=True, draw_sync=lambda: 0, die=die)

    def _spend(self) -> None:
        if self.left is not None:
            if self.left == 0:
                die()
            self.left -= 1

    def end_life(self, variant: Variant, seed: int) -> None:
        with suppress(Died):
            self.cut(variant, seed)
        self.lose_power()
        self.new_life()


class TriedNode(SimNode):
    """A machine whose disk is tried."""

    disk: TriedDisk

    def __init__(
        self, number: int, world: World, net: SimNet, plan: Plan, sink: Sink, machines: Mapping[int, SimNode]
    ) -> None:
        self.promised = Promised()
        self.trials = 0
        self._store_type = plan.store_type
        self._random = Random(f"crash states of node {number}, {world.seed}")
        self._alike: Counter[Hashable] = Counter()
        self._wrong = False  # one is enough
        plan = replace(plan, store_type=noting(plan.store_type, self.promised))
        super().__init__(number, world, net, plan, sink, machines)

    def make_disk(self) -> TriedDisk:
        disk = TriedDisk(faithful=True, draw_sync=self.world.chance.sync, die=die)
        disk.node = self
        return disk

    def about_to_sync(self) -> None:
        """Try some of the syncs: of those that are alike the first, and then whenever their number has doubled."""
        if not self.promised.known or self._wrong:
            return
        likeness = self._likeness()
        self._alike[likeness] += 1
        if self._alike[likeness].bit_count() == 1:
            self._try()

    def _likeness(self) -> Hashable:
        """What a sync is about: which names change, which records wait; and whether a life begins."""
        waiting = self.promised.waiting
        kinds = (type(waiting[0]), type(waiting[-1])) if waiting else None
        return self.up, self.disk.changing(), kinds

    def _try(self) -> None:
        """End the life here, start, and so on; whatever a start tells must be kept by the next one."""
        random, ends = self._random, []
        disk = TrialDisk()
        self.disk.copy_to(disk)
        told: Held | None = None
        self.trials += 1
        for more in reversed(range(random.randint(1, MOST_STARTS))):
            variant = random.choice(VARIANTS)
            disk.end_life(variant, random.randrange(2**32))
            ends.append("a kill" if variant == "killed" else f"a power cut ({variant})")
            disk.left = random.randrange(LAST_SYNC) if more else None
            try:
                found = self._start(disk)
            except Died:
                continue
            except Exception as error:
                self._tell(ends, f"would not have started: {reason(error)}", told)
                return
            now = Held.of(found)
            if not (self.promised.allows(found) if told is None else told.is_what(now)):
                self._tell(ends, f"would have recovered {now}", told)
                return
            told = now

    def _start(self, disk: SimDisk) -> Recovered:
        config = self.plan.config(self.id)
        limit = config.limits.segment_bytes
        return self._store_type.open(disk, bootstrap=False, segment_bytes=limit, digest=config.digest)[1]

    def _tell(self, ends: list[str], would: str, told: Held | None) -> None:
        self._wrong = True
        kept = f"the start before had recovered {told}" if told else f"its disk held {self.promised.durable}"
        self.sink.crash_state(self.id, self.life, f"after {', then '.join(ends)} at this sync it {would}; {kept}")
