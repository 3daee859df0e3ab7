"""Faults of disks at rest: a lost disk, a flipped bit, a cut tail. A node that runs is killed first: disks fail with
it."""

from pathlib import Path
from signal import SIGKILL
from typing import Any

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.kind import Confirmation, FaultError, HealOrder, Key, Kind, TargetState
from zab_chaos.faults.process import (
    CORRUPT_EXIT,
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
from zab_chaos.node.store.errors import CorruptLog
from zab_chaos.node.store.log_record import HEADER_BYTES, SECTOR
from zab_chaos.node.store.reader import SegmentReader
from zab_chaos.node.store.segment import segment_number

# The names of files: as zab_chaos.node.store gives them, and as ZooKeeper does, in its folder version-2.
_OURS = {"log": "log-*", "snapshot": "snapshot-*", "any": "[ls]*"}
_ZOOKEEPERS = {
    "log": "log.*",
    "snapshot": "snapshot.*",
    "any": "[ls]*.*",
    "accepted-epoch": "acceptedEpoch",
    "current-epoch": "currentEpoch",
}
VERSION_2 = "version-2"
_FILES = tuple(_OURS)
_FILE_HEAD, _LENGTH_AT, _RECORD_HEAD = 16, 8, 12  # of ZooKeeper's logs, in bytes


class DiskDamage(KillFault):
    """Base: kills all targets at one instant, then damages each disk; healed by a restart."""

    def inject(self) -> None:
        self.kill()
        self.damage = {node: self.damage_disk(node) for node in self.nodes}

    def damage_disk(self, node: int) -> dict[str, Any]:
        """Damage one disk, and return what was done, as evidence."""
        raise NotImplementedError

    def recovered(self) -> Confirmation:
        """Whether the nodes are up again; with `replace`, they may also have refused their disks."""
        if not self.params.get("replace"):
            return super().recovered()
        shown = wait_until_up(self.context, self.nodes, "may")
        self.refused_disks = [node for node in self.nodes if not self.cluster.alive(node)]
        return shown

    def injected(self) -> Confirmation:
        dead, evidence = self.deaths()
        for node, damage in self.damage.items():
            evidence[str(node)] = evidence.get(str(node), {}) | damage
        return Confirmation(dead and len(self.damage) == len(self.nodes), evidence)


class Wipe(DiskDamage):
    """Removes the disk, so that the node comes back amnesiac."""

    def damage_disk(self, node: int) -> dict[str, Any]:
        self.cluster.wipe(node)
        folder = Path(self.cluster.disk_folder(node))
        left = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        if left:
            raise FaultError(f"the disk of node {node} still holds {', '.join(left)} after wiping")
        return {"wiped": True}

    def describe(self) -> str:
        return f"{node_names(self.nodes)}: disk lost"


class Corrupt(DiskDamage):
    """Flips one bit of what was written, at a random place, or makes zeros of a sector."""

    expected_exits = (-SIGKILL, CORRUPT_EXIT)

    def damage_disk(self, node: int) -> dict[str, Any]:
        what = self.params["file"]
        path = newest_file(Path(self.cluster.disk_folder(node)), "log" if what == "record-header" else what)
        if self.params["zeros"] and (sectors := detectable_sectors(path)):
            return self._make_zeros(path, self.context.random.choice(sectors))
        content = bytearray(path.read_bytes())
        # Not in the last quarter: damage at the very end may be what a power cut leaves, and is legally cut off.
        offset = self.context.random.randrange(max(1, written(content) * 3 // 4))
        if what == "record-header":
            start, size = header_near(path, offset)
            offset = start + self.context.random.randrange(size)
        bit = self.context.random.randrange(8)
        content[offset] ^= 1 << bit
        path.write_bytes(content)
        return {"file": path.name, "offset": offset, "bit": bit}

    def _make_zeros(self, path: Path, offset: int) -> dict[str, Any]:
        with path.open("r+b") as file:
            file.seek(offset)
            file.write(bytes(SECTOR))
        return {"file": path.name, "offset": offset, "zeros": SECTOR}

    def describe(self) -> str:
        damage = "a sector of zeros" if self.params["zeros"] else "one bit flipped"
        return f"{node_names(self.nodes)}: {damage} in the {self.params['file']}"


def detectable_sectors(path: Path) -> list[int]:
    """Offsets of the sectors of which a reader can tell that they were lost: anywhere in a snapshot; in a log only before the
    last batch, for of that one a power cut may leave what it likes. None in a log that can't be read, or is ZooKeeper's."""
    content = path.read_bytes()
    number = segment_number(path.name)
    if number is None:
        ours = path.parent.name != VERSION_2
        return list(range(0, len(content) - SECTOR, SECTOR)) if ours else []
    try:
        records = list(SegmentReader(number, content).records(None))
    except CorruptLog:
        return []
    starts = [record.offset for record in records if record.batch == records[-1].batch]
    return [at for at in range(0, starts[0], SECTOR) if at + SECTOR <= starts[-1]] if starts else []


class TruncateFile(DiskDamage):
    """Cuts off the tail of what was written, together with the preallocated rest of the file."""

    expected_exits = (-SIGKILL, CORRUPT_EXIT)

    def damage_disk(self, node: int) -> dict[str, Any]:
        path = newest_file(Path(self.cluster.disk_folder(node)), self.params["file"])
        length = written(path.read_bytes())
        keep = max(0, length - self.params["bytes"])
        with path.open("r+b") as file:
            file.truncate(keep)
        return {"file": path.name, "was": length, "keep": keep}

    def describe(self) -> str:
        return f"{node_names(self.nodes)}: the {self.params['file']} cut by {self.params['bytes']} bytes"


class RemoveFile(DiskDamage):
    """Removes files: the newest of a kind, all older ones, or all."""

    expected_exits = (-SIGKILL, CORRUPT_EXIT)

    def damage_disk(self, node: int) -> dict[str, Any]:
        found = files(Path(self.cluster.disk_folder(node)), self.params["file"])
        gone = {"newest": found[-1:], "older": found[:-1], "all": found}[self.params["which"]]
        for path in gone:
            path.unlink()
        return {"files": [path.name for path in gone], "left": len(found) - len(gone)}

    def describe(self) -> str:
        return f"{node_names(self.nodes)}: {self.params['which']} of the {self.params['file']} files removed"


def files(folder: Path, kind: str) -> list[Path]:
    """The files of a kind that hold something, the oldest first, logs before snapshots. Raises FaultError if there are none."""
    theirs = (folder / VERSION_2).is_dir()
    pattern = (_ZOOKEEPERS if theirs else _OURS).get(kind)
    inside = folder / VERSION_2 if theirs else folder
    found = [path for path in inside.glob(pattern or "") if path.is_file() and written(path.read_bytes())]
    if not found:
        raise FaultError(f"there is no {kind} on the disk {folder.name} to damage")
    return sorted(found, key=lambda path: (path.name[0], len(path.name), path.name))  # a number is not always as long


def newest_file(folder: Path, kind: str) -> Path:
    """The newest file of a kind. Raises FaultError if there is none."""
    return files(folder, kind)[-1]


def header_near(path: Path, offset: int) -> tuple[int, int]:
    """The start of the record that contains this offset, and the size of its header. Raises FaultError if the log can't be
    read to there."""
    if path.parent.name == VERSION_2:
        return _their_header_near(path.read_bytes(), offset), _RECORD_HEAD
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


def _their_header_near(content: bytes, offset: int) -> int:
    at = start = _FILE_HEAD
    while at <= offset and at + _RECORD_HEAD <= len(content):
        start = at
        at += _RECORD_HEAD + int.from_bytes(content[at + _LENGTH_AT : at + _RECORD_HEAD]) + 1
    return start


def written(content: bytes | bytearray) -> int:
    """The end of the content: log segments are preallocated with zeros."""
    return len(content.rstrip(b"\0"))


_NEWEST = "log: the newest log segment; snapshot: the newest snapshot; any: the snapshot if there is one"
REPLACE = Key(
    name="replace",
    rule=boolean(),
    default=False,
    doc="whether a node that refuses its disk gets a new, empty one when the fault heals",
)

KINDS = (
    Kind(
        name="wipe",
        doc="remove the disk and kill the node; healed by a restart, after which the node is amnesiac",
        make=with_crash_at(Wipe),
        needs=frozenset({Ability.WIPE}),
        keys=(CRASH_AT, ENOUGH),
        target_state=TargetState.ANY,
        target_words=("leader", "follower", "one", "minority", "majority", "all"),
        leaves="down",
        heal_order=HealOrder.DOWN,
        check=check_enough,
        draw=draw_crash_at,
    ),
    Kind(
        name="corrupt",
        doc="kill the node and flip one bit of a file on its disk, or make zeros of a sector",
        make=Corrupt,
        needs=frozenset({Ability.DISK_FILES}),
        keys=(
            Key(
                name="file",
                rule=choice(*_FILES, "record-header"),
                default="log",
                doc=_NEWEST + "; record-header: the header of a record in the log",
            ),
            Key(
                name="zeros",
                rule=boolean(),
                default=False,
                doc="whether a sector becomes zeros, where a later sync shows that it was written. If there is none such, and "
                "in ZooKeeper's files, one bit is flipped all the same",
            ),
            REPLACE,
        ),
        target_state=TargetState.ANY,
        leaves="down",
        heal_order=HealOrder.DOWN,
        draw=lambda random: {
            "file": random.choice(("log", "any", "record-header")),
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
                rule=choice(*dict.fromkeys((*_FILES, *_ZOOKEEPERS))),
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
    ),
    Kind(
        name="truncate-file",
        doc="kill the node and cut off the tail of a file on its disk",
        make=TruncateFile,
        needs=frozenset({Ability.DISK_FILES}),
        keys=(
            Key(name="file", rule=choice(*_FILES), default="log", doc=_NEWEST),
            Key(name="bytes", rule=integer(1, 1_000_000, "bytes"), default=64, doc="how much is cut off"),
            REPLACE,
        ),
        target_state=TargetState.ANY,
        leaves="down",
        heal_order=HealOrder.DOWN,
        draw=lambda random: {"file": "any", "bytes": random.choice((1, 8, 64, 512)), "replace": True},
    ),
)
