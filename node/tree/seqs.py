"""Tables of the highest seq of each client's writes, for a limited number of clients.

The least recently used client comes first and is forgotten first. The contents of a table depend on the calls only, so a
table that is part of the replicated state is equal on all nodes.
"""

from collections.abc import Iterable
from struct import Struct

from zab_chaos.node.core.digest import Hash
from zab_chaos.node.core.zxid import ZERO, Zxid

NO_SEQ = -1  # the seq of an unknown client

_PAIR = Struct(">QQ")


class Seqs:
    """The highest seq of each client, and the zxid of its last use, for the `clients_max` clients that were used last.

    `forgotten`: the highest zxid of the last use of a client that was forgotten; ZERO if none was. Nothing is known of an
    absent client up to this zxid, and it was not used after it.
    """

    __slots__ = ("_entries", "_limit", "forgotten")

    def __init__(self, clients_max: int, entries: Iterable[tuple[int, int, Zxid]] = (), forgotten: Zxid = ZERO) -> None:
        self._limit = clients_max
        self._entries = {client: (seq, used) for client, seq, used in entries}
        self.forgotten = forgotten

    def __contains__(self, client: int) -> bool:
        return client in self._entries

    def get(self, client: int) -> int:
        """Return the client's highest seq, or NO_SEQ."""
        entry = self._entries.get(client)
        return NO_SEQ if entry is None else entry[0]

    def clients(self) -> Iterable[int]:
        return self._entries.keys()

    def entries(self) -> list[tuple[int, int, Zxid]]:
        """Return (client, seq, zxid of the last use), the least recently used first."""
        return [(client, seq, used) for client, (seq, used) in self._entries.items()]

    def use(self, client: int, seq: int, zxid: Zxid) -> int | None:
        """Raise the client's seq to at least `seq`, and make it the most recently used client. Zxids ascend.

        Return the client that was forgotten for it, or None. A use that is repeated, with the same zxid or after later ones,
        changes nothing.
        """
        entries = self._entries
        known = entries.get(client)
        if known is not None:
            if zxid >= known[1]:
                del entries[client]
                entries[client] = (seq if seq > known[0] else known[0], zxid)
            return None
        if zxid <= self.forgotten:
            return client
        entries[client] = (seq, zxid)
        if len(entries) <= self._limit:
            return None
        oldest = next(iter(entries))
        self.forgotten = entries.pop(oldest)[1]
        return oldest

    def clear(self) -> None:
        self._entries.clear()
        self.forgotten = ZERO


# Shares of the tree's digest. Their hash inputs have lengths of their own, shorter than that of any znode.


def session_share(client: int, seq: int, hash_bytes: Hash) -> int:
    return hash_bytes(_PAIR.pack(client, seq))


def forgotten_share(forgotten: Zxid, hash_bytes: Hash) -> int:
    return hash_bytes(forgotten.to_bytes(8))
