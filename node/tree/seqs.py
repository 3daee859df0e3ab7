"""Tables of the highest seq of each client's writes, for a limited number of clients.

The least recently used client comes first and is forgotten first. The contents of a table depend on the calls only, so a
table that is part of the replicated state is equal on all nodes.
"""

from struct import Struct

from zab_chaos.node.core.digest import Hash

NO_SEQ = -1  # the seq of an unknown client

_PAIR = Struct(">QQ")


def raise_seq(seqs: dict[int, int], client: int, seq: int, clients_max: int) -> int | None:
    """Raise the client's seq to at least `seq`, and make it the most recently used client.

    Return the client that was forgotten for it, because there are at most `clients_max`, or None.
    """
    known = seqs.pop(client, NO_SEQ)
    seqs[client] = seq if seq > known else known
    if len(seqs) <= clients_max:
        return None
    oldest = next(iter(seqs))
    del seqs[oldest]
    return oldest


def session_share(client: int, seq: int, hash_bytes: Hash) -> int:
    """Return a client's share of the tree's digest. Its hash input is shorter than that of any znode."""
    return hash_bytes(_PAIR.pack(client, seq))
