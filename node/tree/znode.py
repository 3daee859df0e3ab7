"""One znode, and its share of the tree's digest."""

from hashlib import blake2b
from struct import Struct

_HEAD = Struct(">QQI")  # version, sequence, bytes of the path


class Znode:
    """Data, version, the number of children ever created (`sequence`), and the children's names.

    Its share of the tree's digest is a function of path, data, version and sequence only; children add their own. `path` is
    kept encoded. `share` is what it was when the tree last asked.
    """

    __slots__ = ("children", "data", "path", "sequence", "share", "version")

    def __init__(self, path: str, data: bytes, version: int, sequence: int) -> None:
        self.data = data
        self.version = version
        self.sequence = sequence
        self.children: set[str] = set()
        self.path = path.encode()
        self.share = 0

    def weigh(self) -> int:
        """The share now: 64 bits of BLAKE2b."""
        path = self.path
        whole = blake2b(_HEAD.pack(self.version, self.sequence, len(path)) + path, digest_size=8)
        whole.update(self.data)
        return int.from_bytes(whole.digest(), "big")
