"""The bytes of one file: as programs see them, and as a power cut leaves them."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from zab_chaos.node.store.disk_faults import PAGE, Variant


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes that were written, not synced. `order`: among all the unsynced changes of a volume."""

    order: int
    offset: int
    data: bytes

    def apply(self, image: bytearray) -> None:
        if self.offset > len(image):
            image.extend(bytes(self.offset - len(image)))
        image[self.offset : self.offset + len(self.data)] = self.data

    def resize(self, image: bytearray) -> None:
        """What it does to the size alone."""
        image.extend(bytes(max(0, self.offset + len(self.data) - len(image))))


@dataclass(frozen=True, slots=True)
class Resize:
    """A truncation, or an extension by zeros."""

    order: int
    size: int
    data: bytes = b""

    def apply(self, image: bytearray) -> None:
        del image[self.size :]
        image.extend(bytes(self.size - len(image)))

    resize = apply


Unsynced = Write | Resize


class Contents:
    """`seen` is what a reader gets; `durable` with `unsynced` applied in order is the same, unless a sync has failed."""

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

    def fail(self) -> None:
        """A sync has failed: what was to be written is still seen, and nobody will write it any more."""
        self.unsynced.clear()

    def lose(self) -> None:
        """What was not synced is gone."""
        self.unsynced.clear()
        self.visible = bytearray(self.durable)

    def lost_bytes(self) -> int:
        return sum(len(one.data) for one in self.unsynced)

    def some_pages(self, random: Random) -> bytearray:
        """A file after a power cut, of which each unsynced page may be there, and a part of the changes of size."""
        image = bytearray(self.durable)
        for one in self.unsynced[: random.randrange(len(self.unsynced) + 1)]:
            one.resize(image)
        for page in sorted(set(self._pages())):
            if random.random() < 0.5:
                start, end = page * PAGE, min((page + 1) * PAGE, len(image), len(self.visible))
                if start < end:
                    image[start:end] = self.visible[start:end]
        return image

    def _pages(self) -> Iterator[int]:
        for one in self.unsynced:
            if one.data and isinstance(one, Write):
                yield from range(one.offset // PAGE, -(-(one.offset + len(one.data)) // PAGE))


def surviving(unsynced: list[Unsynced], variant: Variant, random: Random) -> list[Unsynced]:
    """Which of all unsynced changes of a volume, in their order, a power cut leaves; see `Variant`. Not for `pages`."""
    if variant == "plain" or not unsynced:
        return []
    if variant == "reordered":
        return [unsynced[i] for i in sorted(random.sample(range(len(unsynced)), random.randrange(len(unsynced))))]
    total = sum(len(one.data) for one in unsynced)
    left = random.randrange(total) if total else 0
    return list(_torn(unsynced, left))


def _torn(unsynced: list[Unsynced], left: int) -> Iterator[Unsynced]:
    """The changes up to the byte of this number."""
    for one in unsynced:
        if isinstance(one, Resize):
            yield one
            continue
        if left < len(one.data):
            if left:
                yield Write(one.order, one.offset, one.data[:left])
            return
        left -= len(one.data)
        yield one
