"""Faults of disks at rest: a lost disk, a flipped bit, a truncated or removed file. A node that runs is killed first."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from signal import SIGKILL
from types import MappingProxyType
from typing import Any

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.kind import Confirmation, FaultError, HealOrder, Key, Kind, TargetState
from zab_chaos.faults.process import (
    CRASH_AT,
    ENOUGH,
    KillFault,
    check_enough,
    draw_crash_at,
    node_names,
    wait_until_up,
    with_crash_at,
)
from zab_chaos.faults.rules import boolean, choice, integer
from zab_chaos.node.store.damage import detectable_sectors
from zab_chaos.node.store.errors import CORRUPT_EXIT, CorruptLog
from zab_chaos.node.store.log_record import HEADER_BYTES, SECTOR
from zab_chaos.node.store.os_files import clear_volatile
from zab_chaos.node.store.reader import SegmentReader
from zab_chaos.node.store.segment import TEMPORARY, segment_number

LOG, SNAPSHOT, ANY = "log", "snapshot", "any"  # values of the key `file`
OUR_FILES: Mapping[str, str] = MappingProxyType({LOG: "log-*", SNAPSHOT: "snapshot-*"})  # as in `Cluster.disk_files`
ZOOKEEPER_FILES: Mapping[str, str] = MappingProxyType(
    {
        LOG: "version-2/log.*",
        SNAPSHOT: "version-2/snapshot.*",
        "accepted-epoch": "version-2/acceptedEpoch",
        "current-epoch": "version-2/currentEpoch",
    }
)
_ZOOKEEPER_LOG = "log."  # how the names of its logs begin
RECORD_HEADER = "record-header"  # a value of the key `file`
# Of ZooKeeper's logs, in bytes: the size of the file header, the offset of the length in a record header, and its size.
_FILE_HEADER, _LENGTH_AT, _RECORD_HEADER = 16, 8, 12


class DiskDamage(KillFault):
    """Base of these faults: kills all targets at one instant, then damages each disk; healed by a restart."""

    def inject(self) -> None:
        self.kill()
        self.damage: dict[int, dict[str, Any]] = {}
        self.failures: list[str] = []  # what happened to the other disks is evidence all the same
        for node in self.nodes:
            try:
                self.damage[node] = self.damage_disk(node)
            except FaultError as error:
                self.failures.append(str(error))

    @abstractmethod
    def damage_disk(self, node: int) -> dict[str, Any]:
        """Damage one disk, and return what was done, as evidence. Raises FaultError if that fails."""

    def recovered(self) -> Confirmation:
        """Return whether the nodes are up again; with `replace`, they may also have refused their disks."""
        if not self.params.get("replace"):
            return super().recovered()
        up = wait_until_up(self.context, self.nodes, "may")
        self.refused_disks = [node for node in self.nodes if not self.cluster.alive(node)]
        return up

    def injected(self) -> Confirmation:
        dead, evidence = self.deaths()
        for node, damage in self.damage.items():
            evidence[str(node)] = evidence.get(str(node), {}) | damage
        if self.failures:
            evidence["error"] = "; ".join(self.failures)
        return Confirmation(dead and not self.failures, evidence)


class FileDamage(DiskDamage):
    """Base of faults that damage files. The files must differ afterwards; a drawn fault may find none to damage.

    What a killed process had not synced, and a crash with `keeps_cache` has kept for the next life, is lost first: it would
    cover the damage, or belong to a file that is gone.
    """

    expected_exits = (-SIGKILL, CORRUPT_EXIT)

    def damage_disk(self, node: int) -> dict[str, Any]:
        folder = Path(self.cluster.disk_folder(node))
        clear_volatile(folder)
        files = files_of_kind(folder, self.cluster.disk_files, self.params["file"])
        before = _digests(files)
        damage = self.damage_files(folder, files)
        if _digests(files) != before:
            self.cluster.note_damage(node)
            return damage
        if self.context.drawn:
            return damage | {"unchanged": True}
        raise FaultError(f"the disk of node {node} is as it was before the damage {damage}")

    @property
    def files_in_words(self) -> str:
        return "log or snapshot" if self.params["file"] == ANY else self.params["file"]

    @abstractmethod
    def damage_files(self, folder: Path, files: list[Path]) -> dict[str, Any]:
        """Damage some of the files of a kind, and return what was done. Raises FaultError if that fails."""


class Wipe(DiskDamage):
    """A lost disk: the node comes back amnesiac."""

    def damage_disk(self, node: int) -> dict[str, Any]:
        self.cluster.wipe(node)
        folder = Path(self.cluster.disk_folder(node))
        left = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        if left:
            raise FaultError(f"the disk of node {node} still holds {', '.join(left)} after wiping")
        return {"wiped": True}

    def describe(self) -> str:
        return f"{node_names(self.nodes)}: disk lost"


class Corrupt(FileDamage):
    """Bit rot: one bit of what was written is flipped at a random place, or a sector becomes zeros."""

    def damage_files(self, folder: Path, files: list[Path]) -> dict[str, Any]:
        path = files[-1]
        if self.params["zeros"] and (sectors := detectable_sectors(path.name, path.read_bytes())):
            return self._zero_sector(path, self.context.random.choice(sectors))
        content = bytearray(path.read_bytes())
        # Not in the last quarter: damage at the very end may come from a power cut, and recovery may cut it off.
        offset = self.context.random.randrange(max(1, content_end(content) * 3 // 4))
        if self.params["file"] == RECORD_HEADER:
            start, size = record_header_at(path, offset)
            offset = start + self.context.random.randrange(size)
        bit = self.context.random.randrange(8)
        content[offset] ^= 1 << bit
        path.write_bytes(content)
        return {"file": path.name, "offset": offset, "bit": bit}

    def _zero_sector(self, path: Path, offset: int) -> dict[str, Any]:
        with path.open("r+b") as file:
            file.seek(offset)
            file.write(bytes(SECTOR))
        return {"file": path.name, "offset": offset, "zeros": SECTOR}

    def describe(self) -> str:
        damage = "a sector of zeros" if self.params["zeros"] else "one bit flipped"
        return f"{node_names(self.nodes)}: {damage} in the {self.files_in_words}"


class TruncateFile(FileDamage):
    """A truncated file: the tail of what was written is cut off, together with the preallocated rest."""

    def damage_files(self, folder: Path, files: list[Path]) -> dict[str, Any]:
        path = files[-1]
        length = content_end(path.read_bytes())
        keep = max(0, length - self.params["bytes"])
        with path.open("r+b") as file:
            file.truncate(keep)
        return {"file": path.name, "was": length, "keep": keep}

    def describe(self) -> str:
        return f"{node_names(self.nodes)}: the {self.files_in_words} cut by {self.params['bytes']} bytes"


class RemoveFile(FileDamage):
    """Removed files: the newest of a kind, all older ones, or all."""

    def damage_files(self, folder: Path, files: list[Path]) -> dict[str, Any]:
        gone = {"newest": files[-1:], "older": files[:-1], "all": files}[self.params["which"]]
        for path in gone:
            path.unlink()
        shown = {"files": [path.name for path in gone], "left": len(files) - len(gone)}
        holds = [path for path in folder.rglob("*") if path.is_file() and path.suffix != TEMPORARY]
        return shown if holds else shown | {"wiped": True}

    def describe(self) -> str:
        return f"{node_names(self.nodes)}: {self.params['which']} of the {self.files_in_words} files removed"


def _digests(files: Iterable[Path]) -> dict[Path, bytes]:
    """Return a digest of each of these files that is there."""
    return {path: blake2b(path.read_bytes()).digest() for path in files if path.is_file()}


def files_of_kind(folder: Path, patterns: Mapping[str, str], kind: str) -> list[Path]:
    """Return the files of a kind that are not empty: logs before snapshots, the oldest first. Raises FaultError if none is.

    `patterns`: as in `Cluster.disk_files`.
    """
    kinds = {ANY: (LOG, SNAPSHOT), RECORD_HEADER: (LOG,)}.get(kind, (kind,))
    found: list[Path] = []
    for each in kinds:
        matching = folder.glob(patterns[each]) if each in patterns else ()
        full = (path for path in matching if path.is_file() and content_end(path.read_bytes()))
        # By length first: the numbers in the names may have no leading zeros.
        found += sorted(full, key=lambda path: (len(path.name), path.name))
    if not found:
        raise FaultError(f"there is no {kind} on the disk {folder.name} to damage")
    return found


def record_header_at(path: Path, offset: int) -> tuple[int, int]:
    """Return the start of the record that contains this offset, and the size of its header. Raises FaultError if the log
    can't be read up to there."""
    if path.name.startswith(_ZOOKEEPER_LOG):
        return _zookeeper_record_at(path.read_bytes(), offset), _RECORD_HEADER
    number = segment_number(path.name)
    start = 0  # the segment's first record is its CHECKPOINT
    try:
        for record in SegmentReader(number or 0, path.read_bytes()).records(None):
            if record.offset > offset:
                break
            start = record.offset
    except CorruptLog as error:
        raise FaultError(f"{path.name} is damaged already: {error}") from None
    return start, HEADER_BYTES


def _zookeeper_record_at(content: bytes, offset: int) -> int:
    at = start = _FILE_HEADER
    while at <= offset and at + _RECORD_HEADER <= len(content):
        start = at
        at += _RECORD_HEADER + int.from_bytes(content[at + _LENGTH_AT : at + _RECORD_HEADER]) + 1
    return start


def content_end(content: bytes | bytearray) -> int:
    """Return the length without the zeros at the end, with which log segments are preallocated."""
    return len(content.rstrip(b"\0"))


_NEWEST = "log: the newest log segment; snapshot: the newest snapshot; any: the snapshot if there is one"
REPLACE = Key(
    name="replace",
    rule=boolean(),
    default=False,
    needs=Ability.WIPE,
    doc="whether a node that refuses its disk gets a new, empty one when the fault heals; else it stays down, and recovery is "
    "not judged",
)

KINDS = (
    Kind(
        name="wipe",
        doc="remove the disk and kill the node; healed by a restart, after which the node is amnesiac",
        make=with_crash_at(Wipe),
        needs=frozenset({Ability.WIPE}),
        keys=(CRASH_AT, ENOUGH),
        target_state=TargetState.ANY,
        leaves="down",
        heal_order=HealOrder.DOWN,
        check=check_enough,
        draw=draw_crash_at,
    ),
    Kind(
        name="corrupt",
        doc="kill the node and flip one bit of a file on its disk, or overwrite a sector with zeros",
        make=Corrupt,
        needs=frozenset({Ability.DISK_FILES}),
        keys=(
            Key(
                name="file",
                rule=choice(LOG, SNAPSHOT, ANY, RECORD_HEADER),
                default=LOG,
                needs=Ability.LOG_RECORDS,
                needs_if=lambda params: params["file"] == RECORD_HEADER,
                doc=_NEWEST + "; record-header: the header of a record in the log",
            ),
            Key(
                name="zeros",
                rule=boolean(),
                default=False,
                doc="overwrite a sector of which a later sync proves that it was durable. If there is none, and in files of "
                "other systems, one bit is flipped instead",
            ),
            REPLACE,
        ),
        target_state=TargetState.ANY,
        leaves="down",
        heal_order=HealOrder.DOWN,
        draw=lambda random: {
            "file": random.choice((LOG, ANY, RECORD_HEADER)),
            "zeros": random.random() < 0.5,
            "replace": True,
        },
    ),
    Kind(
        name="remove-file",
        doc="kill the node and remove files from its disk",
        make=RemoveFile,
        needs=frozenset({Ability.DISK_FILES}),
        keys=(
            Key(
                name="file",
                rule=choice(*dict.fromkeys((LOG, SNAPSHOT, ANY, *ZOOKEEPER_FILES))),
                doc=_NEWEST + "; accepted-epoch, current-epoch: those of ZooKeeper's servers",
            ),
            Key(
                name="which",
                rule=choice("newest", "older", "all"),
                default="newest",
                doc="the newest file of the kind, all but that one, or all",
            ),
            REPLACE,
        ),
        target_state=TargetState.ANY,
        leaves="down",
        heal_order=HealOrder.DOWN,
        draw=lambda random: {
            "file": random.choice((LOG, ANY)),
            "which": random.choice(("newest", "newest", "older", "all")),
            "replace": True,
        },
    ),
    Kind(
        name="truncate-file",
        doc="kill the node and cut off the tail of a file on its disk",
        make=TruncateFile,
        needs=frozenset({Ability.DISK_FILES}),
        keys=(
            Key(name="file", rule=choice(LOG, SNAPSHOT, ANY), default=LOG, doc=_NEWEST),
            Key(name="bytes", rule=integer(1, 1_000_000, "bytes"), default=64, doc="how much is cut off"),
            REPLACE,
        ),
        target_state=TargetState.ANY,
        leaves="down",
        heal_order=HealOrder.DOWN,
        draw=lambda random: {"file": ANY, "bytes": random.choice((1, 8, 64, 512)), "replace": True},
    ),
)
