"""The page cache of a faithful disk, stored in a file.

A killed process leaves it to the next one; a power cut loses it.
"""

from pathlib import Path

import msgspec

from zab_chaos.node.store.os_files import VOLATILE

_NAME = "page-cache"
_UNFINISHED = "page-cache-unfinished"


class CachedInode(msgspec.Struct, array_like=True):
    """One file, durable or not. `path` is relative to the disk's folder."""

    path: str
    reserve: int
    linked: bool
    zeros_written: bool
    unsynced: list[tuple[int, bytes]]
    stale: list[tuple[int, bytes]]


class PageCache(msgspec.Struct, array_like=True):
    """The cached files. `names` and `changes` (file, name, whether it removes) refer to them by index in `inodes`."""

    inodes: list[CachedInode]
    names: dict[str, int]
    changes: list[tuple[int, str, bool]]


def save(root: Path, cache: PageCache) -> None:
    """Save the page cache. A process that is killed meanwhile leaves the one that it had saved before, if any."""
    unfinished = root / VOLATILE / _UNFINISHED
    unfinished.write_bytes(msgspec.msgpack.encode(cache))
    unfinished.replace(root / VOLATILE / _NAME)


def take(root: Path) -> PageCache | None:
    """Return the saved page cache and delete it; None if the power was cut or nothing was left."""
    path = root / VOLATILE / _NAME
    if not path.exists():
        return None
    cache = msgspec.msgpack.decode(path.read_bytes(), type=PageCache)
    path.unlink()
    return cache
