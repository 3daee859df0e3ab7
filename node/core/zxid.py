"""Transaction identifiers: (epoch: u32, counter: u32), ordered lexicographically (DSN 2011, section III).

A zxid is one int with the epoch in the high half, so that comparison is the paper's order and the wire carries a u64.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a type of its own for the checker only: each call of a `NewType` costs as much as two of functions

    class Zxid(int):
        def __add__(self, number: int, /) -> "Zxid": ...
else:
    Zxid = int

COUNTER_MAX = 2**32 - 1
ZERO = Zxid(0)  # the zxid of an empty history; no transaction has it


def zxid(epoch: int, counter: int) -> Zxid:
    """Return the zxid (epoch, counter)."""
    return Zxid(epoch << 32 | counter)


def epoch_of(z: Zxid) -> int:
    return z >> 32


def counter_of(z: Zxid) -> int:
    return z & COUNTER_MAX


def pair(z: Zxid) -> list[int]:
    """Return [epoch, counter], the form that traces use."""
    return [z >> 32, z & COUNTER_MAX]


def from_pair(value: list[int]) -> Zxid:
    return zxid(value[0], value[1])


def show(z: Zxid) -> str:
    """Return `epoch:counter`, the form that people read."""
    return f"{z >> 32}:{z & COUNTER_MAX}"
