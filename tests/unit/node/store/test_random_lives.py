"""Random records, syncs, snapshots and power cuts: a store is always in a legal state."""

from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.node.store.shelf import (
    SEGMENT,
    History,
    Legal,
    Model,
    PowerGone,
    faithful,
    files,
    freeze,
    lay_out,
    prefixes,
    recover,
    snap,
    told,
    txns,
)
from zab_chaos.node.core.ready import EpochRecord, MemberRecord, NewLeaderRecord, Record, TruncRecord
from zab_chaos.node.core.zxid import Zxid, zxid
from zab_chaos.node.store.disk import Variant
from zab_chaos.node.store.store import Store

Cut = tuple[Variant, int]

payloads = st.lists(st.binary(max_size=60) | st.just(b"Z" * 26 + b"\xa5"), min_size=1, max_size=4)
cut = st.tuples(st.sampled_from(get_args(Variant)), st.integers(0, 99))
step = st.one_of(
    st.tuples(st.just("promise"), st.none()),
    st.tuples(st.just("broadcast"), payloads),
    st.tuples(st.just("synchronize"), st.tuples(st.integers(0, 4), payloads)),
    st.tuples(st.just("install"), payloads),
    st.tuples(st.just("member"), st.none()),
    st.tuples(st.just("sync"), st.none()),
    st.tuples(st.just("snapshot"), st.integers(0, 3)),
    st.tuples(st.just("cut"), st.lists(cut, min_size=1, max_size=3)),
    st.tuples(st.just("cut_snapshot"), st.tuples(st.integers(0, 3), st.lists(cut, min_size=1, max_size=2))),
)


class Life:
    """A node's store through power cuts, beside the model of what it may have kept."""

    def __init__(self, folder: Path, segment_bytes: int) -> None:
        self.segment_bytes = segment_bytes
        self.folder = folder
        self.model = Model()  # what is synced
        self.waiting: list[Record] = []
        self.floor: History = []  # committed and durable
        self.rising: History = []  # the same, once what waits is durable
        self.store, _, _ = Store.open(faithful(folder), bootstrap=True, segment_bytes=segment_bytes)

    def ahead(self) -> Model:
        """The state once everything appended is durable."""
        model = deepcopy(self.model)
        for record in self.waiting:
            model.apply(record)
        return model

    def append(self, *records: Record) -> None:
        for record in records:
            self.store.append(record)
            self.waiting.append(record)

    def settle(self) -> None:
        self.model, self.floor = self.ahead(), self.rising
        self.waiting.clear()

    def do(self, what: str, argument: object) -> None:
        getattr(self, what)(argument)

    def promise(self, _: None) -> None:
        self.append(EpochRecord(self.ahead().accepted + 1))

    def next_epoch(self) -> int:
        ahead = self.ahead()
        return max(ahead.accepted, ahead.current, ahead.last >> 32) + 1

    def broadcast(self, data: list[bytes]) -> None:
        last = self.ahead().last
        self.append(txns(Zxid(last + 1) if last else zxid(1, 1), *data))

    def synchronize(self, argument: tuple[int, list[bytes]]) -> None:
        history, epoch = self.ahead().history, self.next_epoch()
        committed = len(self.committed())
        keep_zxid = Zxid(([(0, b""), *history][max(committed, len(history) - argument[0])])[0])
        self.append(TruncRecord(keep_zxid), txns(zxid(epoch, 1), *argument[1]), NewLeaderRecord(epoch))

    def install(self, data: list[bytes]) -> None:
        epoch = self.next_epoch()
        history = [*self.committed(), *enumerate(data, zxid(epoch, 1))]
        self.append(snap(history), NewLeaderRecord(epoch))
        self.rising = history

    def committed(self) -> History:
        """How much of the history is committed: Zab never truncates below that."""
        return self.rising

    def member(self, _: None) -> None:
        self.append(MemberRecord())

    def sync(self, _: None) -> None:
        self.store.sync()
        assert self.store.unsynced == 0
        self.settle()

    def snapshot(self, below: int) -> None:
        history = self.ahead().history
        at = max(len(self.committed()), len(history) - below)
        if at:
            self.rising = history[:at]
            self.store.take_snapshot(Zxid(history[at - 1][0]), 1, freeze(history[:at]))
            self.settle()

    def cut(self, cuts: list[Cut]) -> None:
        """Cut the power at the next sync, and again while the store recovers."""
        self.store.disk.faults.power_cut = cuts[0]  # type: ignore[attr-defined]
        legal = prefixes(self.model, self.waiting) if self.waiting else [self.model.legal()]
        try:
            self.store.sync()
        except PowerGone:
            pass
        else:
            assert not self.waiting
        self.recover(legal, cuts[1:])

    def cut_snapshot(self, argument: tuple[int, list[Cut]]) -> None:
        """Cut the power while a snapshot is taken: while its file is written, or while the folder changes."""
        self.sync(None)
        below, cuts = argument
        self.store.disk.faults.power_cut = cuts[0]  # type: ignore[attr-defined]
        with suppress(PowerGone):
            self.snapshot(below)
        self.recover([self.model.legal()], cuts[1:])

    def recover(self, legal: list[Legal], cuts: list[Cut]) -> None:
        found = None
        for again in [*cuts, None]:
            self.store.close()
            disk = faithful(self.folder)
            disk.faults.power_cut = again
            with suppress(PowerGone):
                self.store, recovered, _ = Store.open(disk, bootstrap=False, segment_bytes=self.segment_bytes)
                found = told(recovered)
                assert found in legal
                legal = [found]  # from here on it is durable
        assert found is not None
        self.model = Model(*found[:3], list(found[3]))
        assert found[3][: len(self.floor)] == self.floor
        if found[3][: len(self.rising)] == self.rising:
            self.floor = self.rising  # the snapshot's group was complete before the power went
        self.rising = self.floor
        self.waiting.clear()


def live(folder: Path, steps: list[tuple[str, Any]], segment_bytes: int) -> None:
    life = Life(lay_out(folder / "disk", {}), segment_bytes)
    try:
        for what, argument in steps:
            life.do(what, argument)
        life.sync(None)
        assert recover(lay_out(folder / "copy", files(life.folder))) == life.model.legal()
    finally:
        life.store.close()


@pytest.mark.slow
@settings(max_examples=80, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(step, max_size=20))
def test_any_history_of_records_and_power_cuts_stays_legal(steps: list[tuple[str, Any]], tmp_path: Path) -> None:
    live(tmp_path, steps, SEGMENT)


@pytest.mark.parametrize("seed", range(6))
def test_small_snapshots_under_heavy_load(seed: int, tmp_path: Path) -> None:
    """Batches of several pages, a snapshot after every few, segments for two of them, and frequent power cuts."""
    random = Random(seed)
    variants = get_args(Variant)

    def cuts() -> list[Cut]:
        return [(random.choice(variants), random.randrange(100)) for _ in range(random.randrange(1, 4))]

    def drawn() -> tuple[str, Any]:
        data = [random.randbytes(random.choice((16, 100, 1000))) for _ in range(random.randrange(1, 12))]
        match random.randrange(12):
            case 0:
                return "cut", cuts()
            case 1:
                return "cut_snapshot", (random.randrange(4), cuts())
            case 2 | 3:
                return "snapshot", random.randrange(4)
            case 4:
                return "synchronize", (random.randrange(4), data)
            case 5 | 6:
                return "sync", None
        return "broadcast", data

    live(tmp_path, [drawn() for _ in range(60)], 8192)
