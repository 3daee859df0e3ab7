"""A znode, and its share of the tree's digest."""

from struct import Struct

from zab_chaos.node.core.digest import Hash

_HEAD = Struct(">QQI")  # version, sequence, bytes of the path


class Znode:
    """Data, version, the number of children ever created (`sequence`), and the children's names.

    Its share of the tree's digest is a function of path, data, version and sequence only; children have shares of their
    own. `path` is kept encoded. `share` is the share that the tree's digest includes at present.
    """

    __slots__ = ("children", "data", "path", "sequence", "share", "version")

    def __init__(self, path: str, data: bytes, version: int, sequence: int) -> None:
        self.data = data
        self.version = version
        self.sequence = sequence
        self.children: set[str] = set()
        self.path = path.encode()
        self.share = 0

    def digest_share(self, hash_bytes: Hash) -> int:
        """Return the share of the tree's digest for the present state."""
        path = self.path
        return hash_bytes(b"".join((_HEAD.pack(self.version, self.sequence, len(path)), path, self.data)))
