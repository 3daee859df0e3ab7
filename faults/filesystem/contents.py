"""The bytes of one file: as programs see them, and as a power cut leaves them."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from zab_chaos.node.store.disk_faults import FULLY_WRITTEN_PROBABILITY, PAGE, Variant


@dataclass(frozen=True, slots=True)
class Write:
    """An unsynced write. `order`: its position among all the unsynced changes of a volume."""

    order: int
    offset: int
    data: bytes

    def apply(self, image: bytearray) -> None:
        if self.offset > len(image):
            image.extend(bytes(self.offset - len(image)))
        image[self.offset : self.offset + len(self.data)] = self.data

    def resize(self, image: bytearray) -> None:
        """Apply only the change of the file's size."""
        image.extend(bytes(max(0, self.offset + len(self.data) - len(image))))

    def bytes_between(self, start: int, end: int) -> int:
        """Return how many of its bytes lie between two offsets of the file."""
        return max(0, min(end, self.offset + len(self.data)) - max(start, self.offset))


@dataclass(frozen=True, slots=True)
class Resize:
    """An unsynced truncation, or extension by zeros."""

    order: int
    size: int
    data: bytes = b""

    def apply(self, image: bytearray) -> None:
        del image[self.size :]
        image.extend(bytes(self.size - len(image)))

    resize = apply

    def bytes_between(self, start: int, end: int) -> int:
        return 0


Unsynced = Write | Resize


class Contents:
    """The bytes of a file. `visible`: for programs; `durable`: on the disk; `unsynced`: the changes in between, in order.

    `durable` with `unsynced` applied equals `visible`, unless a sync has failed.
    """

    __slots__ = ("durable", "unsynced", "visible")

    def __init__(self) -> None:
        self.visible = bytearray()
        self.durable = bytearray()
        self.unsynced: list[Unsynced] = []

    def change(self, one: Unsynced) -> None:
        one.apply(self.visible)
        self.unsynced.append(one)

    def sync(self) -> None:
        for one in self.unsynced:
            one.apply(self.durable)
        self.unsynced.clear()

    def fail_sync(self) -> None:
        """Fail a sync: what it was to write stays visible, but no later sync writes it."""
        self.unsynced.clear()

    def lose_unsynced(self) -> None:
        """Lose everything that was not synced."""
        self.unsynced.clear()
        self.visible = bytearray(self.durable)

    def unsynced_bytes(self) -> int:
        return sum(len(one.data) for one in self.unsynced)

    def keep_some_pages(self, random: Random) -> int:
        """Make durable what a power cut leaves: each unsynced page survives or not, and the changes of size up to some point.
        Return how many unsynced bytes survive."""
        kept = 0
        image = bytearray(self.durable)
        for one in self.unsynced[: random.randrange(len(self.unsynced) + 1)]:
            one.resize(image)
        for page in sorted(set(self._unsynced_pages())):
            if random.random() < 0.5:
                start, end = page * PAGE, min((page + 1) * PAGE, len(image), len(self.visible))
                if start < end:
                    image[start:end] = self.visible[start:end]
                    kept += sum(one.bytes_between(start, end) for one in self.unsynced)
        self.durable = image
        return kept

    def _unsynced_pages(self) -> Iterator[int]:
        for one in self.unsynced:
            if one.data and isinstance(one, Write):
                yield from range(one.offset // PAGE, -(-(one.offset + len(one.data)) // PAGE))


def surviving(unsynced: list[Unsynced], variant: Variant, random: Random, whole: int = 1) -> list[Unsynced]:
    """Return the unsynced changes that survive a power cut; see `Variant`, and for `pages` `Contents.keep_some_pages`.

    `unsynced`: all unsynced changes of a volume, in order. `whole`: a `torn` write ends at a multiple of it in its file.
    """
    if variant == "plain" or not unsynced:
        return []
    if variant == "reordered":
        return [unsynced[i] for i in sorted(random.sample(range(len(unsynced)), random.randrange(len(unsynced))))]
    total = sum(len(one.data) for one in unsynced)
    everything = variant == "killed" and random.random() < FULLY_WRITTEN_PROBABILITY
    kept = total if everything else random.randrange(total) if total else 0
    return list(_prefix(unsynced, kept, whole if variant == "torn" else 1))


def _prefix(unsynced: list[Unsynced], left: int, whole: int) -> Iterator[Unsynced]:
    """Yield the changes up to the first `left` bytes; the last write may be cut off in the middle, at a multiple of `whole`."""
    for one in unsynced:
        if isinstance(one, Resize):
            yield one
            continue
        if left < len(one.data):
            left -= (one.offset + left) % whole
            if left > 0:
                yield Write(one.order, one.offset, one.data[:left])
            return
        left -= len(one.data)
        yield one
