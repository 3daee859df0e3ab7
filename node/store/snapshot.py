"""Snapshots of committed state (ZOOKEEPER-1549): `snapshot-<zxid as 16 hex digits>`.

Format: magic 8 bytes, version u32, zxid u64, digest u64, length u64, the state, CRC-32 of all of it u32. The version names
the digest's algorithm (`VERSIONS`); the formats are otherwise equal.
"""

import re
from struct import Struct

from zlib_ng.zlib_ng import crc32

from zab_chaos.node.core.digest import Algorithm
from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.store.crash_hooks import CrashHook, rename_durably, step_hook, write_durably
from zab_chaos.node.store.disk import Disk
from zab_chaos.node.store.errors import CorruptSnapshot, DigestMismatch, disk_operation
from zab_chaos.node.store.segment import TEMPORARY

MAGIC = b"ZABSNAP\n"
VERSIONS: dict[Algorithm, int] = {"blake2b": 1, "xxh3": 2}
_HEAD = Struct("<8sIQQQ")
_CRC = Struct("<I")
_NAME = re.compile(r"snapshot-([0-9a-f]{16})")


def snapshot_name(zxid: Zxid) -> str:
    return f"snapshot-{zxid:016x}"


def snapshot_zxid(name: str) -> Zxid | None:
    """Return the zxid of the snapshot with that name, or None if it is not a snapshot's name."""
    match = _NAME.fullmatch(name)
    return Zxid(int(match[1], 16)) if match else None


def write_snapshot(
    disk: Disk, zxid: Zxid, digest: int, state: bytes, crash: CrashHook | None, algorithm: Algorithm
) -> None:
    """Write a snapshot. It is durable when this returns, and never visible in part. Raises DiskFailed."""
    name = snapshot_name(zxid)
    head = _HEAD.pack(MAGIC, VERSIONS[algorithm], zxid, digest, len(state))
    data = b"".join((head, state, _CRC.pack(crc32(state, crc32(head)))))
    point = step_hook(crash, "SNAPSHOT")
    with disk_operation(f"writing {name}"):
        file = disk.create(name + TEMPORARY)
        write_durably(file, data, (len(head), len(head) + len(state), len(data)), point)
        file.close()
        rename_durably(disk, name + TEMPORARY, name, point)


def read_snapshot(disk: Disk, zxid: Zxid, algorithm: Algorithm | None = None) -> tuple[Zxid, int, bytes]:
    """Return (zxid, digest, state).

    Raises CorruptSnapshot with file and offset, and DigestMismatch if the snapshot was not written with `algorithm`.
    """
    name = snapshot_name(zxid)
    data = disk.read(name)
    if len(data) < _HEAD.size + _CRC.size:
        raise CorruptSnapshot(name, len(data), "the file was cut: not even its header is whole")
    magic, version, inside, digest, length = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise CorruptSnapshot(name, 0, "this is not a snapshot: its first bytes are wrong")
    end = len(data) - _CRC.size
    if _CRC.unpack_from(data, end)[0] != crc32(memoryview(data)[:end]):
        raise CorruptSnapshot(name, end, f"the checksum of the {len(data)} bytes is wrong: damaged or cut")
    made = next((known for known, number in VERSIONS.items() if number == version), None)
    if made is None:
        raise CorruptSnapshot(name, 8, f"format version {version}; this program knows {sorted(VERSIONS.values())}")
    if algorithm is not None and made != algorithm:
        raise DigestMismatch(name, made, algorithm)
    if inside != zxid:
        raise CorruptSnapshot(name, 12, f"the file is named for another zxid than it holds ({inside:016x})")
    if length != end - _HEAD.size:
        raise CorruptSnapshot(name, 28, f"it says {length} bytes of state and holds {end - _HEAD.size}")
    return zxid, digest, data[_HEAD.size : end]
