"""The epochs on the disks of servers that do not say themselves what they promise and join (DSN 2011, Table 1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, pairwise

from zab_chaos.model.events import Boot, DiskAfterLife, Established, Line, packed
from zab_chaos.model.oracle.evidence import show
from zab_chaos.model.oracle.facts import AckedWrite, Facts
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.oracle.properties.epochs import Epochs

Reading = Boot | DiskAfterLife  # of a disk: when a life began, and when it had ended
EPOCHS = {"accepted_epoch": "f.p", "current_epoch": "f.a"}


@dataclass(slots=True)
class _Disk:
    """What was read of one disk of one node, in time. `harmed`: what faults had taken of it when a life began, by its number:
    fields of a reading."""

    readings: list[Reading] = field(default_factory=list)
    harmed: dict[int, frozenset[str]] = field(default_factory=dict)

    def taken(self, name: str, old: Reading, new: Reading) -> bool:
        """Whether a fault took it between two readings."""
        return any(old.life < life <= new.life and name in what for life, what in self.harmed.items())

    def had(self, name: str, least: int, new: Reading) -> bool:
        """Whether it had at least that once, and a fault has taken it since."""
        return any(_value(old, name) >= least and self.taken(name, old, new) for old in self.readings)

    def steps(self) -> list[tuple[Boot, Reading]]:
        """Each reading but the first, after the boot before it."""
        found: list[tuple[Boot, Reading]] = []
        boot: Boot | None = None
        for reading in self.readings:
            found += [(boot, reading)] if boot is not None else []
            boot = reading if isinstance(reading, Boot) else boot
        return found


class EpochFiles(Checker):
    """DSN 2011, Table 1: f.p is the last epoch promised, f.a the last one joined. Of servers that say neither, the disks are
    read at the start and at the end of each life.

    Verifies that f.a <= f.p; that neither is lower than when the life, or the one before, began; that whoever counted in the
    quorum of a leader had promised no later epoch before, and the leader none as late, and that the disk has that epoch as
    both ever after; and that a disk whose f.a is e has what was acknowledged in the epochs before e, by where its log ends. A
    fault that has taken a file excuses what that file held, and a new disk begins anew. A power cut excuses an epoch that no
    leader has counted on. Does not verify who joins a leader that has its quorum.
    """

    name = Epochs.name
    source = Epochs.source
    statement = (
        "A node's f.a (current epoch) is at most its f.p (accepted epoch), and neither ever decreases. A quorum keeps the "
        "epoch of its leader, and who has joined an epoch holds what was acknowledged before it."
    )

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._readings: dict[int, list[Reading]] = {}  # by node, in time
        self._left: dict[tuple[int, int], DiskAfterLife] = {}  # by node and life
        self._acked: dict[int, AckedWrite] = {}  # by epoch: the last one

    def on_boot(self, event: Boot, _known: bool) -> None:
        self._readings.setdefault(event.node, []).append(event)

    def on_left(self, event: DiskAfterLife) -> None:
        self._left[event.node, event.life] = event
        self._readings.setdefault(event.node, []).append(event)

    def at_end(self) -> None:
        for write in self.facts.acked:
            epoch = write.zxid >> 32
            self._acked[epoch] = max(write, self._acked.get(epoch, write), key=_zxid)
        disks = {node: self._disks(readings) for node, readings in self._readings.items()}
        for disk in chain.from_iterable(disks.values()):
            for reading in disk.readings:
                self._in_order(disk, reading)
                self._holds_the_history(disk, reading)
            for boot, reading in disk.steps():
                if not self.facts.power_cut(boot, reading):
                    self._keeps(disk, boot, _epochs(boot), reading, boot)
        for event in self.facts.established:
            for node in sorted({event.node, *event.quorum} & disks.keys()):
                self._counted(event, disks[node])

    def _disks(self, readings: list[Reading]) -> list[_Disk]:
        """The disks of a node: each that a fault took was followed by a new one."""
        found, last = [_Disk()], None
        for reading in readings:
            if isinstance(reading, Boot):
                if last is not None and self.facts.disk_lost(last, reading):
                    found.append(_Disk())
                elif last is not None:
                    found[-1].harmed[reading.life] = self.facts.damaged_fields(last, reading)
                last = reading
            found[-1].readings.append(reading)
        return found

    def _in_order(self, disk: _Disk, reading: Reading) -> None:
        self.checked += 1
        accepted, current = reading.accepted_epoch, reading.current_epoch
        if current > accepted and not disk.had("accepted_epoch", current, reading):
            self._suspect(f"f.a = {current}, above f.p = {accepted}", reading)

    def _holds_the_history(self, disk: _Disk, reading: Reading) -> None:
        self.checked += 1
        earlier = [write for epoch, write in self._acked.items() if epoch < reading.current_epoch]
        last = max(earlier, key=_zxid, default=None)
        if last is None or last.zxid <= packed(reading.last_zxid) or disk.had("last_zxid", last.zxid, reading):
            return
        words = (
            f"f.a = {reading.current_epoch} and a log that ends at {show(reading.last_zxid)}, without {show(last.zxid)}"
        )
        self._suspect(f"{words}, which was acknowledged", reading, last.complete)

    def _keeps(self, disk: _Disk, since: Reading, least: Mapping[str, int], reading: Reading, line: Line) -> None:
        """It has at least these epochs, but for what a fault has taken `since`. `line`: what says that it had them."""
        self.checked += 1
        for name, words in EPOCHS.items():
            found = _value(reading, name)
            if found < least[name] and not disk.taken(name, since, reading):
                self._suspect(f"{words} = {found}, which had been {least[name]}", reading, line)

    def _counted(self, event: Established, disks: list[_Disk]) -> None:
        """Who counted in a quorum had promised no later epoch before, and keeps that one afterwards."""
        lives = self._counted_in(event, disks)
        if not lives:
            return
        self._free_to_promise(event, min(lives, key=lambda boot: boot.accepted_epoch))
        disk = next(it for it in disks if lives[0] in it.readings)
        for reading in disk.readings:
            if reading.t >= event.t:
                self._keeps(disk, lives[0], dict.fromkeys(EPOCHS, event.epoch), reading, event)

    def _counted_in(self, event: Established, disks: list[_Disk]) -> list[Boot]:
        """The lives in which it can have been counted: the one that it had then, or, if it has died since, one before."""
        boots = [it for disk in disks for it in disk.readings if isinstance(it, Boot) and it.t <= event.t]
        leader = next((it.t for it in self._readings.get(event.node, []) if it.life == event.life), event.t)
        lives = [boot for boot, after in pairwise(boots) if after.t > leader] + boots[-1:]
        return [boot for boot in lives if self._may_have_joined(boot, event.epoch)] or lives[-1:]

    def _may_have_joined(self, boot: Boot, epoch: int) -> bool:
        left = self._left.get((boot.node, boot.life))
        return left is None or left.current_epoch >= epoch

    def _free_to_promise(self, event: Established, boot: Boot) -> None:
        self.checked += 1
        most = event.epoch - 1 if boot.node == event.node else event.epoch
        if boot.accepted_epoch > most:
            words = (
                f"f.p = {boot.accepted_epoch}, and counted in the quorum of node {event.node} for epoch {event.epoch}"
            )
            self._suspect(words, boot, event)

    def _suspect(self, words: str, reading: Reading, *lines: Line) -> None:
        did = "started with" if isinstance(reading, Boot) else "left on its disk"
        self.findings.add(f"node {reading.node} (life {reading.life}) {did} {words}", [*lines, reading])


def _epochs(reading: Reading) -> dict[str, int]:
    return {name: _value(reading, name) for name in EPOCHS}


def _value(reading: Reading, name: str) -> int:
    """A field of a reading as one number."""
    value: int | tuple[int, int] = getattr(reading, name)
    return packed(value) if isinstance(value, tuple) else value


def _zxid(write: AckedWrite) -> int:
    return write.zxid
