"""One znode, and its share of the tree's digest."""

from hashlib import blake2b
from zlib import crc32

_MASK = 2**64 - 1
# Odd 64-bit constants with well spread bits (from the golden ratio and from Stafford's mixers). Any would do.
_BY_DATA = 0x9E3779B97F4A7C15
_BY_VERSION = 0xC2B2AE3D27D4EB4F
_BY_SEQUENCE = 0x165667B19E3779F9
_MIX = 0xBF58476D1CE4E5B9


class Znode:
    """Data, version, the number of children ever created (`sequence`), and the children's names.

    Its share of the tree's digest is a function of path, data, version and sequence only; children add their own. `key`
    stands for the path in it, computed once. `share` is what it was when the tree last asked.
    """

    __slots__ = ("children", "data", "key", "sequence", "share", "version")

    def __init__(self, path: str, data: bytes, version: int, sequence: int) -> None:
        self.data = data
        self.version = version
        self.sequence = sequence
        self.children: set[str] = set()
        self.key = int.from_bytes(blake2b(path.encode(), digest_size=8).digest(), "big")
        self.share = 0

    def weigh(self) -> int:
        """The share now, 0 .. 2**64 - 1. Two states of one znode share it with a chance of 2**-32 (the data's CRC)."""
        mixed = self.key ^ (
            crc32(self.data) * _BY_DATA + self.version * _BY_VERSION + self.sequence * _BY_SEQUENCE & _MASK
        )
        mixed = (mixed ^ mixed >> 31) * _MIX & _MASK
        return mixed ^ mixed >> 29
