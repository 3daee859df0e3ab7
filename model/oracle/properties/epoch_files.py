"""The checker of epochs for servers that do not trace what they promise and join: it reads their disks (DSN 2011, Table 1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, pairwise
from operator import attrgetter

from zab_chaos.model.events import Boot, DiskAfterLife, Established, Line, packed
from zab_chaos.model.oracle.evidence import show
from zab_chaos.model.oracle.facts import BY_NODES, AckedWrite, Facts
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.oracle.properties.epochs import Epochs

Reading = Boot | DiskAfterLife  # the content of a disk, at the start or after the end of a life
EPOCHS = {"accepted_epoch": "f.p", "current_epoch": "f.a"}


@dataclass(slots=True)
class _Disk:
    """The readings of one disk of one node, in order of time.

    `harmed` has the fields of a reading that faults may have changed since the boot before, by the number of the life that
    began.
    """

    readings: list[Reading] = field(default_factory=list)
    harmed: dict[int, frozenset[str]] = field(default_factory=dict)

    def was_harmed(self, name: str, old: Reading, new: Reading) -> bool:
        """Return whether a fault may have changed the field `name` between two readings."""
        return any(old.life < life <= new.life and name in fields for life, fields in self.harmed.items())

    def had_before_fault(self, name: str, least: int, new: Reading) -> bool:
        """Return whether the field was at least `least` in an earlier reading, and a fault may have changed it since."""
        return any(_value(old, name) >= least and self.was_harmed(name, old, new) for old in self.readings)

    def steps(self) -> list[tuple[Boot, Reading]]:
        """Return each reading that follows a boot, with the latest boot before it."""
        found: list[tuple[Boot, Reading]] = []
        boot: Boot | None = None
        for reading in self.readings:
            found += [(boot, reading)] if boot is not None else []
            boot = reading if isinstance(reading, Boot) else boot
        return found


class EpochFiles(Checker):
    """DSN 2011, Table 1: f.p is the last epoch promised, f.a the last one joined. Where servers do not trace them, their
    disks are read at the start and after the end of each life.

    Verifies on every disk:

    - f.a <= f.p.
    - Neither is lower than at the start of the life, or of the life before.
    - A node that counted in the quorum of a leader had promised no later epoch before, and the leader itself not even
      that epoch. From then on f.p and f.a of the disk are at least that epoch.
    - A disk with f.a = e has what was acknowledged in the epochs before e, by where its log ends.

    A fault that damaged or removed a file excuses what that file held, and a new disk starts anew. A power cut excuses the
    loss of an epoch that no leader has counted on. Does not verify who joins a leader that already has its quorum.
    """

    name = Epochs.name
    source = Epochs.source
    statement = (
        "A node's f.a (current epoch) is at most its f.p (accepted epoch), and neither ever decreases. A quorum keeps the "
        "epoch of its leader, and a server that has joined an epoch holds what was acknowledged before it."
    )
    judged_from = BY_NODES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._readings: dict[int, list[Reading]] = {}  # by node, in order of time
        self._after_life: dict[tuple[int, int], DiskAfterLife] = {}  # by (node, life)
        self._acked: dict[int, AckedWrite] = {}  # by epoch: the last acknowledged write

    def on_boot(self, event: Boot) -> None:
        self._readings.setdefault(event.node, []).append(event)

    def on_left(self, event: DiskAfterLife) -> None:
        self._after_life[event.node, event.life] = event
        self._readings.setdefault(event.node, []).append(event)

    def at_end(self) -> None:
        for write in self.facts.acked:
            epoch = write.zxid >> 32
            self._acked[epoch] = max(write, self._acked.get(epoch, write), key=attrgetter("zxid"))
        disks = {node: self._disks(readings) for node, readings in self._readings.items()}
        for disk in chain.from_iterable(disks.values()):
            for reading in disk.readings:
                self._check_epoch_order(disk, reading)
                self._check_history(disk, reading)
            for boot, reading in disk.steps():
                if not self.facts.power_cut(boot, reading):
                    self._check_kept(disk, boot, _epochs(boot), reading, boot)
        for event in self.facts.established:
            for node in sorted({event.node, *event.quorum} & disks.keys()):
                self._check_quorum_member(event, disks[node])

    def _disks(self, readings: list[Reading]) -> list[_Disk]:
        """Split a node's readings by disk: a disk that a fault took is followed by a new one."""
        disks, last = [_Disk()], None
        for reading in readings:
            if isinstance(reading, Boot):
                if last is not None and self.facts.disk_lost(last, reading):
                    disks.append(_Disk())
                elif last is not None:
                    disks[-1].harmed[reading.life] = self.facts.damaged_fields(last, reading)
                last = reading
            disks[-1].readings.append(reading)
        return disks

    def _check_epoch_order(self, disk: _Disk, reading: Reading) -> None:
        self.checked += 1
        accepted, current = reading.accepted_epoch, reading.current_epoch
        if current > accepted and not disk.had_before_fault("accepted_epoch", current, reading):
            self._report_reading(f"f.a = {current}, above f.p = {accepted}", reading)

    def _check_history(self, disk: _Disk, reading: Reading) -> None:
        self.checked += 1
        earlier = [write for epoch, write in self._acked.items() if epoch < reading.current_epoch]
        last = max(earlier, key=attrgetter("zxid"), default=None)
        if (
            last is None
            or last.zxid <= packed(reading.last_zxid)
            or disk.had_before_fault("last_zxid", last.zxid, reading)
        ):
            return
        words = (
            f"f.a = {reading.current_epoch} and a log that ends at {show(reading.last_zxid)}, without {show(last.zxid)}"
        )
        self._report_reading(f"{words}, which was acknowledged", reading, last.complete)

    def _check_kept(self, disk: _Disk, since: Reading, least: Mapping[str, int], reading: Reading, line: Line) -> None:
        """Check that a reading has at least the epochs `least`, unless a fault may have changed them since the reading `since`.
        `line` shows that the disk had them."""
        self.checked += 1
        for name, words in EPOCHS.items():
            found = _value(reading, name)
            if found < least[name] and not disk.was_harmed(name, since, reading):
                self._report_reading(f"{words} = {found}, which had been {least[name]}", reading, line)

    def _check_quorum_member(self, event: Established, disks: list[_Disk]) -> None:
        """Check that a member of a leader's quorum had promised no later epoch before, and keeps this epoch afterwards."""
        boots = self._boots_in_quorum(event, disks)
        if not boots:
            return
        self._check_free_to_promise(event, min(boots, key=lambda boot: boot.accepted_epoch))
        disk = next(it for it in disks if boots[0] in it.readings)
        for reading in disk.readings:
            if reading.t >= event.t:
                self._check_kept(disk, boots[0], dict.fromkeys(EPOCHS, event.epoch), reading, event)

    def _boots_in_quorum(self, event: Established, disks: list[_Disk]) -> list[Boot]:
        """Return the boots of the lives in which the node can have been counted in the leader's quorum: its life at that
        time, or an earlier one that ended since the leader's life began."""
        boots = [it for disk in disks for it in disk.readings if isinstance(it, Boot) and it.t <= event.t]
        leader = next((it.t for it in self._readings.get(event.node, []) if it.life == event.life), event.t)
        lives = [boot for boot, after in pairwise(boots) if after.t > leader] + boots[-1:]
        return [boot for boot in lives if self._may_have_joined(boot, event.epoch)] or lives[-1:]

    def _may_have_joined(self, boot: Boot, epoch: int) -> bool:
        after = self._after_life.get((boot.node, boot.life))
        return after is None or after.current_epoch >= epoch

    def _check_free_to_promise(self, event: Established, boot: Boot) -> None:
        self.checked += 1
        most = event.epoch - 1 if boot.node == event.node else event.epoch
        if boot.accepted_epoch > most:
            words = (
                f"f.p = {boot.accepted_epoch}, and counted in the quorum of node {event.node} for epoch {event.epoch}"
            )
            self._report_reading(words, boot, event)

    def _report_reading(self, words: str, reading: Reading, *lines: Line) -> None:
        did = "started with" if isinstance(reading, Boot) else "left on its disk"
        self.findings.add(f"node {reading.node} (life {reading.life}) {did} {words}", [*lines, reading])


def _epochs(reading: Reading) -> dict[str, int]:
    return {name: _value(reading, name) for name in EPOCHS}


def _value(reading: Reading, name: str) -> int:
    """Return a field of a reading as one number."""
    value: int | tuple[int, int] = getattr(reading, name)
    return packed(value) if isinstance(value, tuple) else value
