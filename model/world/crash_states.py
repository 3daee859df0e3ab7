"""Crash states: tries, on copies of a disk, what a kill or a power cut at a sync could have left on it.

A run shows one way in which a life ends. At the same instant the end could have left something else, and it could have come
at any other sync (Pillai and others, OSDI 2014; Mohan and others, OSDI 2018). So at some syncs of a simulated run the disk is
copied. On the copy, the power is cut or the process is killed, and a store is opened, which writes a little and ends in the
same way at one of its first syncs. Each start must recover what the store was told to keep. A trial has its own disk and its
own source of randomness: the run goes on as if there were no trials.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain, groupby
from pathlib import Path
from random import Random
from typing import Any, get_args

from zab_chaos.model.log_records import LogContents, atomic_groups, one_by_one
from zab_chaos.model.world.disk import SimDisk
from zab_chaos.model.world.machine import SimNode
from zab_chaos.model.world.network import SimNet
from zab_chaos.model.world.server import Died, die
from zab_chaos.model.world.world import SimPlan, Sink, World
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
from zab_chaos.node.store.damage import detectable_sectors
from zab_chaos.node.store.disk_faults import Variant
from zab_chaos.node.store.errors import Corrupt, DiskFailed
from zab_chaos.node.store.log_record import SECTOR
from zab_chaos.node.store.recovery import RecoveryReport
from zab_chaos.node.store.store import Store

STARTS_MAX = 3  # in one trial
SMALL_SEGMENT = 2**9  # bytes
ZXID_DISTANCE = 2**16  # added to a zxid that a node has, gives a zxid of the same epoch that it does not have
STEPS_MAX = 6  # in one life of a trial
SYNCS_MAX = 10  # in one such life, with those of its start
SYNC_FAILURE_PROBABILITY = 0.1  # for each step of such a life
SYNCS_BEFORE_FAILURE = (0, 0, 0, 1, 2, 3)  # the syncs of that step that succeed
PAYLOAD_SIZES = (0, 20, 200, 2000)  # in bytes, of what such a life writes
VARIANTS: tuple[Variant, ...] = get_args(Variant)


class ReferenceStore:
    """A reference model of a node's store: the records that are durable, and those that are waiting for a sync.

    `known`: whether the content of the disk is known. False before the first start, and after something else than a wipe has
    changed the disk, until the next start. `wrong`: the illegal state that a start has recovered, if one did.
    """

    def __init__(self) -> None:
        self.known = False
        self.wrong: LogContents | None = None
        self.durable = LogContents()
        self.waiting: list[Record] = []
        self.snapshots: dict[int, set[tuple[int, int]]] = {}  # by zxid: (digest of the history, hash of the state)

    def copy(self) -> "ReferenceStore":
        other = ReferenceStore()
        other.known, other.durable, other.waiting = self.known, self.durable.copy(), self.waiting[:]
        other.snapshots = {zxid: set(taken) for zxid, taken in self.snapshots.items()}
        return other

    def on_recovery(self, found: Recovered) -> None:
        """A start has recovered this state. Later starts must recover it too."""
        held = LogContents.of(found)
        if self.known and not self.allows(found):
            self.wrong = held
            return
        self.known, self.durable = True, held
        self.waiting.clear()
        if found.snapshot is not None:
            self.add_snapshot(*found.snapshot)

    def forget(self) -> None:
        self.known = False

    def on_wipe(self) -> None:
        """The disk is empty: until a start has written something, each one finds that this node lost its disk."""
        self.known, self.durable = True, LogContents(amnesiac=True)
        self.waiting.clear()
        self.snapshots.clear()

    def append(self, record: Record) -> None:
        self.waiting.append(record)
        if type(record) is SnapRecord:
            self.add_snapshot(record.zxid, record.digest, record.state)

    def add_snapshot(self, zxid: int, digest: int, state: bytes) -> None:
        self.snapshots.setdefault(zxid, set()).add((digest, blake2b(state)))

    def on_sync(self) -> None:
        """A sync made all waiting records durable, except those of an incomplete group."""
        done = list(chain.from_iterable(atomic_groups(self.waiting)))
        self.durable.apply(done)
        del self.waiting[: len(done)]

    def allows(self, found: Recovered) -> bool:
        """Return whether a start may recover this: the durable records and the first of the waiting ones, any number of them,
        but no part of a group."""
        if found.snapshot is not None:
            zxid, digest, state = found.snapshot
            if (digest, blake2b(state)) not in self.snapshots.get(zxid, ()):
                return False
        held = LogContents.of(found)
        return any(state.matches(held) for state in self._states())

    def describe(self) -> str:
        """Return what the disk held, as a clause of a message."""
        runs = [(kind, len(list(run))) for kind, run in groupby(one_by_one(self.waiting), key=_kind)]
        waiting = ", ".join(f"{count} {kind}" if count > 1 else kind for kind, count in runs)
        return f"its disk had held {self.durable}" + (
            f", and these records were not yet synced: {waiting}" if waiting else ""
        )

    def _states(self) -> Iterator[LogContents]:
        """Yield all states that a start may recover."""
        state = self.durable.copy()
        yield state
        for step in atomic_groups(one_by_one(self.waiting)):
            state.apply(step)
            yield state


def _kind(record: Record) -> str:
    """Return the name of a record's kind, as `RecordKind` has it."""
    return type(record).__name__.partition("Record")[0].upper()


def reporting_store(store_type: type[Store], reference: ReferenceStore) -> type[Store]:
    """Return a subclass of the store that reports each record, sync, snapshot and recovery to `reference`."""

    class ReportingStore(store_type):  # type: ignore[misc, valid-type]
        @classmethod
        def open(cls, *arguments: Any, **options: Any) -> tuple[Store, Recovered, RecoveryReport]:
            store, recovered, report = super().open(*arguments, **options)
            reference.on_recovery(recovered)
            return store, recovered, report

        def append(self, record: Record) -> None:
            reference.append(record)
            super().append(record)

        def sync(self) -> None:
            super().sync()
            reference.on_sync()

        def take_snapshot(self, zxid: Zxid, digest: int, state: bytes) -> None:
            reference.add_snapshot(zxid, digest, state)
            super().take_snapshot(zxid, digest, state)

    return ReportingStore


class CrashTestedDisk(SimDisk):
    """A node's disk that tells the node before each sync, and tells the reference model when it is changed from outside."""

    node: "CrashTestedNode"

    def _spend(self) -> None:
        self.node.about_to_sync()
        super()._spend()

    def import_from(self, folder: Path) -> None:
        super().import_from(folder)
        if any(folder.iterdir()):
            self.node.reference.forget()

    def wipe(self) -> None:
        if self.node.life:
            self.node.reference.on_wipe()
        else:  # the first life of a node begins on an empty disk as a member
            self.node.reference.forget()
        super().wipe()


class TrialDisk(SimDisk):
    """The disk of a trial.

    `syncs_left`: how many syncs succeed before the process is killed at the next one; None: it is not killed.
    `syncs_before_failure`: how many succeed before one fails; None: none fails. Those after it succeed again.
    """

    def __init__(self) -> None:
        self.syncs_left: int | None = None
        self.syncs_before_failure: int | None = None
        super().__init__(faithful=True, draw_sync=lambda: 0, die=die)

    def _spend(self) -> None:
        if self.syncs_left is not None:
            if self.syncs_left == 0:
                die()
            self.syncs_left -= 1
        self.faults.error = "sync" if self.syncs_before_failure == 0 else None
        self.syncs_before_failure = self.syncs_before_failure - 1 if self.syncs_before_failure else None

    def end_life(self, variant: Variant, seed: int) -> None:
        """Cut the power, or kill the process, and begin a new life."""
        with suppress(Died):
            self.cut(variant, seed)
        self.lose_power()
        self.new_life()
        self.syncs_before_failure = None

    def damage(self, random: Random) -> str:
        """Flip a bit of one file, or turn a sector of it into zeros if its loss can be detected. Return what was done."""
        name = random.choice(sorted(self.list()))
        content = self._names[name].durable_bytes
        sectors = detectable_sectors(name, self.read(name)) if random.random() < 0.5 else []
        if sectors:
            offset = random.choice(sectors)
            content[offset : offset + SECTOR] = bytes(len(content[offset : offset + SECTOR]))
            return f"a sector of zeros in {name}, at {offset}"
        if not content:
            return f"nothing in {name}, which is empty"
        offset, bit = divmod(random.randrange(8 * len(content)), 8)
        content[offset] ^= 1 << bit
        return f"bit {bit} flipped in {name}, at {offset}"


class Trial:
    """A series of lives on a copy of a node's disk. Each starts, writes as a node may, and ends at one of its syncs."""

    def __init__(self, node: "CrashTestedNode", random: Random) -> None:
        self.disk = TrialDisk()
        node.disk.copy_to(self.disk)
        self.reference = node.reference.copy()
        self._store_type = reporting_store(node.plain_store_type, self.reference)
        self._config = node.plan.config(node.id)
        self._random = random
        self._ways_to_end: list[str] = []

    def run(self) -> str | None:
        """Execute the trial. Return None, or a description of what went wrong."""
        for lives_left in reversed(range(self._random.randint(1, STARTS_MAX))):
            changes = self.disk.describe_changes()
            self._end_life()
            self.disk.syncs_left = self._random.randrange(SYNCS_MAX) if lives_left else None
            before = self.reference.describe() + (
                f"; changes of its folder that were not yet synced when that life ended: {changes}" if changes else ""
            )
            try:
                store = self._start()
                if self.reference.wrong is not None:
                    return self._failure(f"would have recovered {self.reference.wrong}", before)
                if lives_left:
                    self._work(store)
            except Died:
                continue
            except Corrupt as error:
                return self._failure(f"would have refused {error.file}, offset {error.offset}: {error.why}", before)
            except Exception as error:
                return self._failure(f"would have failed: {reason(error)}", before)
        return None

    def run_damaged(self) -> str | None:
        """Start once on a disk that is damaged after the life has ended. The start must refuse it, or recover what it may."""
        self._end_life()
        if not self.disk.list():
            return None
        damage = self.disk.damage(self._random)
        before = self.reference.describe()
        try:
            self._start()
        except Corrupt:
            return None
        except Exception as error:
            return self._failure(f"would have failed on a damaged disk ({damage}): {reason(error)}", before)
        if self.reference.wrong is not None:
            return self._failure(f"would have recovered {self.reference.wrong} from a damaged disk ({damage})", before)
        return None

    def _end_life(self) -> None:
        variant = self._random.choice(VARIANTS)
        self.disk.end_life(variant, self._random.randrange(2**32))
        self._ways_to_end.append("a kill" if variant == "killed" else f"a power cut ({variant})")

    def _start(self) -> Store:
        limit = self._random.choice((self._config.limits.segment_bytes, SMALL_SEGMENT))
        return self._store_type.open(self.disk, bootstrap=False, segment_bytes=limit, digest=self._config.digest)[0]

    def _failure(self, would: str, before: str) -> str:
        first, *more = self._ways_to_end
        lives = f" and then, in lives that wrote records made up for the trial, {', '.join(more)}" if more else ""
        return f"after {first} at this sync{lives}, the next start {would}; {before}"

    # ---- what a life writes ----

    def _work(self, store: Store) -> None:
        """Use the store as a node may, until the life ends at a sync or the disk has failed, which no later sync can mend."""
        random, disk = self._random, self.disk
        for _ in range(STEPS_MAX):
            step = random.choice((self._write, self._write, self._join, self._install, self._take_snapshot))
            fails = random.random() < SYNC_FAILURE_PROBABILITY
            disk.syncs_before_failure = random.choice(SYNCS_BEFORE_FAILURE) if fails else None
            disk.faults.stays_readable = random.random() < 0.5
            try:
                step(store)
                store.sync()
            except DiskFailed:
                with suppress(DiskFailed):
                    store.sync()
                return

    def _data(self) -> bytes:
        return self._random.randbytes(self._random.choice(PAYLOAD_SIZES))

    def _next_epoch(self, store: Store) -> int:
        held = self.reference.durable
        epoch = max(held.accepted_epoch, held.current_epoch, held.last >> 32) + 1
        store.append(EpochRecord(epoch))
        return epoch

    def _write(self, store: Store) -> None:
        held = self.reference.durable
        if not held.current_epoch:
            return
        in_epoch = held.last >> 32 == held.current_epoch
        first = Zxid(held.last + 1) if in_epoch else zxid(held.current_epoch, 1)
        store.append(TxnRecords(first, [self._data() for _ in range(self._random.randint(1, 4))], []))

    def _join(self, store: Store) -> None:
        """Join an epoch whose initial history lacks the end of this one, and may have something else instead."""
        keeps = self._uncommitted()
        epoch = self._next_epoch(store)
        store.append(TruncRecord(Zxid(self._random.choice(keeps[-4:]))))
        if self._random.random() < 0.5:
            store.append(TxnRecords(zxid(epoch, 1), [self._data()], []))
        store.append(NewLeaderRecord(epoch))

    def _uncommitted(self) -> list[int]:
        """Return the zxids up to which the history may be truncated. What is in a snapshot is committed and must stay."""
        held = self.reference.durable
        floor = max((at for at in (held.base, *self.reference.snapshots) if at <= held.last), default=0)
        return [floor, *(at for at, _ in held.history if at > floor)]

    def _install(self, store: Store) -> None:
        """Install a snapshot of another history, which leaves this one at an earlier zxid."""
        fork_at = self._random.choice(self._uncommitted())
        epoch = self._next_epoch(store)
        store.append(SnapRecord(Zxid(fork_at + ZXID_DISTANCE), epoch, self._data()))
        store.append(NewLeaderRecord(epoch))
        if self.reference.durable.amnesiac:
            store.append(MemberRecord())

    def _take_snapshot(self, store: Store) -> None:
        newest = max(self.reference.snapshots, default=0)
        free = [at for at, _ in self.reference.durable.history if at > newest]
        if free:
            store.take_snapshot(Zxid(self._random.choice(free)), len(free), self._data())


class CrashTestedNode(SimNode):
    """A node whose disk is tested for its crash states."""

    disk: CrashTestedDisk

    def __init__(
        self, number: int, world: World, net: SimNet, plan: SimPlan, sink: Sink, machines: Mapping[int, SimNode]
    ) -> None:
        self.reference = ReferenceStore()
        self.trials = 0
        self.plain_store_type = plan.parts.store
        self._random = Random(f"crash states of node {number}, {world.seed}")
        self._damage_random = Random(f"damaged states of node {number}, {world.seed}")
        self._syncs_of_kind: Counter[Hashable] = Counter()
        self._reported = False  # one report is enough
        parts = replace(plan.parts, store=reporting_store(plan.parts.store, self.reference))
        super().__init__(number, world, net, replace(plan, parts=parts), sink, machines)

    def make_disk(self) -> CrashTestedDisk:
        disk = CrashTestedDisk(faithful=True, draw_sync=self.world.chance.sync, die=die)
        disk.node = self
        return disk

    def about_to_sync(self) -> None:
        """Try some of the syncs: the first of each kind, then each time that the number of its kind has doubled."""
        if not self.reference.known or self._reported:
            return
        if self.reference.wrong is not None:
            self._report(f"its start has recovered {self.reference.wrong}; {self.reference.describe()}")
            return
        kind = self._kind_of_sync()
        self._syncs_of_kind[kind] += 1
        if self._syncs_of_kind[kind].bit_count() == 1:
            self._try()

    def _kind_of_sync(self) -> Hashable:
        """Return the kind of the coming sync: whether the life has booted, which names change, and which records wait."""
        waiting = self.reference.waiting
        kinds = (type(waiting[0]), type(waiting[-1])) if waiting else None
        return self.up, self.disk.changing(), kinds

    def _try(self) -> None:
        self.trials += 1
        wrong = Trial(self, self._random).run() or Trial(self, self._damage_random).run_damaged()
        if wrong is not None:
            self._report(wrong)

    def _report(self, why: str) -> None:
        self._reported = True
        self.sink.crash_state(self.id, self.life, why)
