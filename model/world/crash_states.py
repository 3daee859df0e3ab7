"""Crash states: what the end of a process, or of the power, would leave on a disk at some sync, tried on copies of the disk.

A run shows what one end of a life leaves. At the same instant it could have left something else, and it could have come at
any other sync (Pillai and others, OSDI 2014; Mohan and others, OSDI 2018). So at some syncs of a simulated run the disk is
copied; the copy's power goes, or its process dies, and a store is opened on it, which writes a little and ends in the same
way at one of its first syncs. What a start recovers must be what the store was told to keep. A trial has disk and chance of
its own: the run goes on as if there were none.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, get_args

from zab_chaos.model.log_records import Held, one_by_one, steps
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
from zab_chaos.node.core.zxid import Zxid, zxid
from zab_chaos.node.exit_codes import reason
from zab_chaos.node.store.disk_faults import Variant
from zab_chaos.node.store.errors import DiskFailed
from zab_chaos.node.store.recovery import RecoveryReport
from zab_chaos.node.store.store import Store

MOST_STARTS = 3  # of a trial
SMALL_SEGMENT = 2**9  # bytes
FAR = 2**16  # behind a zxid that a node has, a zxid of the same epoch that it has not
MOST_SYNCS = 6  # of a life in a trial, with those of its start
FAILING = 0.1  # of what such a life does
SIZES = (0, 20, 200, 2000)  # bytes of what it writes
VARIANTS: tuple[Variant, ...] = get_args(Variant)


class Promised:
    """What a node's store was told to keep: what has become durable, and what waits for that.

    `known`: false before the first start, and when somebody else has changed the disk, until the next start is over.
    `wrong`: what a start has recovered that it must not.
    """

    def __init__(self) -> None:
        self.known = False
        self.wrong: Held | None = None
        self.durable = Held()
        self.waiting: list[Record] = []
        self.snapshots: dict[int, set[tuple[int, int]]] = {}  # by zxid: digest of the history, hash of the state

    def copy(self) -> "Promised":
        other = Promised()
        other.known, other.durable, other.waiting = self.known, self.durable.copy(), self.waiting[:]
        other.snapshots = {zxid: set(taken) for zxid, taken in self.snapshots.items()}
        return other

    def start_with(self, found: Recovered) -> None:
        """A start has recovered this, and whatever comes next must find it."""
        held = Held.of(found)
        if self.known and not self.allows(found):
            self.wrong = held
            return
        self.known, self.durable = True, held
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
        done = list(chain.from_iterable(steps(self.waiting)))
        self.durable.apply(done)
        del self.waiting[: len(done)]

    def allows(self, found: Recovered) -> bool:
        """Whether a start may recover this: what is durable, with any number of the records that wait, and groups whole."""
        if found.snapshot is not None:
            zxid, digest, state = found.snapshot
            if (digest, blake2b(state)) not in self.snapshots.get(zxid, ()):
                return False
        told = Held.of(found)
        return any(state.is_what(told) for state in self._states())

    def in_words(self) -> str:
        records = len(list(one_by_one(self.waiting)))
        return f"its disk had held {self.durable}" + (f", and {records} records were on their way" if records else "")

    def _states(self) -> Iterator[Held]:
        state = self.durable.copy()
        yield state
        for step in steps(one_by_one(self.waiting)):
            state.apply(step)
            yield state


def noting(store_type: type[Store], promised: Promised) -> type[Store]:
    """The same store, which says what it is told and when it has said that it is durable."""

    class Noting(store_type):  # type: ignore[misc, valid-type]
        @classmethod
        def open(cls, *arguments: Any, **options: Any) -> tuple[Store, Recovered, RecoveryReport]:
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
    """The disk of a trial. `left`: the syncs after which the process ends; None: it goes on. `fails`: the next sync does."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.fails = False
        super().__init__(faithful=True, draw_sync=lambda: 0, die=die)

    def _spend(self) -> None:
        if self.left is not None:
            if self.left == 0:
                die()
            self.left -= 1
        self.faults.error, self.fails = "sync" if self.fails else None, False

    def end_life(self, variant: Variant, seed: int) -> None:
        with suppress(Died):
            self.cut(variant, seed)
        self.lose_power()
        self.new_life()
        self.fails = False


class Trial:
    """The life on a disk ends, and on a copy of it others begin, write as a node may, and end at a sync of theirs."""

    def __init__(self, node: "TriedNode", random: Random) -> None:
        self.disk = TrialDisk()
        node.disk.copy_to(self.disk)
        self.promised = node.promised.copy()
        self._store_type = noting(node.plain_store_type, self.promised)
        self._config = node.plan.config(node.id)
        self._random = random
        self._ends: list[str] = []

    def go(self) -> str | None:
        """None, or in words what went wrong."""
        for more in reversed(range(self._random.randint(1, MOST_STARTS))):
            self._end()
            self.disk.left = self._random.randrange(MOST_SYNCS) if more else None
            before = self.promised.in_words()
            try:
                store = self._start()
                if self.promised.wrong is not None:
                    return self._words(f"would have recovered {self.promised.wrong}", before)
                if more:
                    self._work(store)
            except Died:
                continue
            except Exception as error:
                return self._words(f"would have failed: {reason(error)}", before)
        return None

    def _end(self) -> None:
        variant = self._random.choice(VARIANTS)
        self.disk.end_life(variant, self._random.randrange(2**32))
        self._ends.append("a kill" if variant == "killed" else f"a power cut ({variant})")

    def _start(self) -> Store:
        limit = self._random.choice((self._config.limits.segment_bytes, SMALL_SEGMENT))
        return self._store_type.open(self.disk, bootstrap=False, segment_bytes=limit, digest=self._config.digest)[0]

    def _words(self, would: str, before: str) -> str:
        return f"after {', then '.join(self._ends)} at this sync it {would}; {before}"

    # ---- what a life does ----

    def _work(self, store: Store) -> None:
        """As a node may use its store, until the life ends at a sync. When the disk has failed once, nothing helps."""
        random, disk = self._random, self.disk
        for _ in range(MOST_SYNCS):
            step = random.choice((self._write, self._write, self._join, self._install, self._take_snapshot))
            disk.fails, disk.faults.stays_readable = random.random() < FAILING, random.random() < 0.5
            try:
                step(store)
                store.sync()
            except DiskFailed:
                with suppress(DiskFailed):
                    store.sync()
                return

    def _data(self) -> bytes:
        return self._random.randbytes(self._random.choice(SIZES))

    def _next_epoch(self, store: Store) -> int:
        held = self.promised.durable
        epoch = max(held.accepted_epoch, held.current_epoch, held.last >> 32) + 1
        store.append(EpochRecord(epoch))
        return epoch

    def _write(self, store: Store) -> None:
        held = self.promised.durable
        if not held.current_epoch:
            return
        in_epoch = held.last >> 32 == held.current_epoch
        first = Zxid(held.last + 1) if in_epoch else zxid(held.current_epoch, 1)
        store.append(TxnRecords(first, [self._data() for _ in range(self._random.randint(1, 4))], []))

    def _join(self, store: Store) -> None:
        """An epoch whose initial history has less at its end, and something else."""
        keeps = self._uncommitted()
        epoch = self._next_epoch(store)
        store.append(TruncRecord(Zxid(self._random.choice(keeps[-4:]))))
        if self._random.random() < 0.5:
            store.append(TxnRecords(zxid(epoch, 1), [self._data()], []))
        store.append(NewLeaderRecord(epoch))

    def _uncommitted(self) -> list[int]:
        """Where the history may be cut: what a snapshot was taken of is committed."""
        held = self.promised.durable
        floor = max((at for at in (held.base, *self.promised.snapshots) if at <= held.last), default=0)
        return [floor, *(at for at, _ in held.history if at > floor)]

    def _install(self, store: Store) -> None:
        """A history that parts from this one, and may end below it."""
        parts_at = self._random.choice(self._uncommitted())
        epoch = self._next_epoch(store)
        store.append(SnapRecord(Zxid(parts_at + FAR), epoch, self._data()))
        store.append(NewLeaderRecord(epoch))
        if self.promised.durable.amnesiac:
            store.append(MemberRecord())

    def _take_snapshot(self, store: Store) -> None:
        newest = max(self.promised.snapshots, default=0)
        free = [at for at, _ in self.promised.durable.history if at > newest]
        if free:
            store.take_snapshot(Zxid(self._random.choice(free)), len(free), self._data())


class TriedNode(SimNode):
    """A machine whose disk is tried."""

    disk: TriedDisk

    def __init__(
        self, number: int, world: World, net: SimNet, plan: Plan, sink: Sink, machines: Mapping[int, SimNode]
    ) -> None:
        self.promised = Promised()
        self.trials = 0
        self.plain_store_type = plan.store_type
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
        if self.promised.wrong is not None:
            self._tell(f"its start has recovered {self.promised.wrong}; {self.promised.in_words()}")
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
        self.trials += 1
        wrong = Trial(self, self._random).go()
        if wrong is not None:
            self._tell(wrong)

    def _tell(self, why: str) -> None:
        self._wrong = True
        self.sink.crash_state(self.id, self.life, why)
