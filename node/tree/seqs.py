"""How far each client has come: the highest number of its writes, of a bounded number of clients.

The longest unused client stands first, and is forgotten first. Which clients are in a table depends on the calls only, so
that it is the same on all nodes when it is a part of the replicated state.
"""

from struct import Struct

from zab_chaos.node.core.digest import Hash

CLIENTS_MAX = 2**14  # remembered at most
NO_SEQ = -1  # of a client that is not known

_PAIR = Struct(">QQ")


def raise_seq(seqs: dict[int, int], client: int, seq: int) -> int | None:
    """The client has come to `seq` at least, and is the last to be forgotten now. Returns whom that made forgotten."""
    known = seqs.pop(client, NO_SEQ)
    seqs[client] = seq if seq > known else known
    if len(seqs) <= CLIENTS_MAX:
        return None
    oldest = next(iter(seqs))
    del seqs[oldest]
    return oldest


def session_share(client: int, seq: int, hash_bytes: Hash) -> int:
    """A client's share of the tree's digest. What is hashed is shorter than for any znode."""
    return hash_bytes(_PAIR.pack(client, seq))
