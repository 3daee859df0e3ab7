"""How far each client has come: the highest number of its writes, of a bounded number of clients."""

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b
from struct import Struct

CLIENTS_MAX = 2**14  # remembered at most; whoever has been idle for longest is forgotten first
NONE = -1  # of a client that is not known

_PAIR = Struct(">QQ")
_MASK = 2**64 - 1


class Seqs:
    """Client -> highest seq, the longest unused client first. Which clients are in it depends on the calls only."""

    def __init__(self) -> None:
        self._seqs: OrderedDict[int, int] = OrderedDict()

    def get(self, client: int) -> int:
        """`NONE` if the client is not known."""
        return self._seqs.get(client, NONE)

    def raise_to(self, client: int, seq: int) -> None:
        """The client has come to `seq` at least. It is the last to be forgotten now."""
        seqs = self._seqs
        known = seqs.get(client)
        if known is None:
            if len(seqs) >= CLIENTS_MAX:
                self._forgot(seqs.popitem(last=False)[0])
            seqs[client] = seq
        else:
            if seq > known:
                seqs[client] = seq
            seqs.move_to_end(client)

    def clear(self) -> None:
        self._seqs.clear()

    def _forgot(self, client: int) -> None:
        """A client was forgotten."""


class Delivered(Seqs):
    """The highest seq delivered, as a part of the tree: with a share in its digest, and in snapshots.

    `digest` is the sum of the clients' shares, each computed when it is asked for.
    """

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()) -> None:
        super().__init__()
        self._sum = 0
        self._shares: dict[int, int] = {}
        self._stale: set[int] = set()  # clients whose share is not, or not as it is now, in the sum
        for client, seq in pairs:
            self.raise_to(client, seq)

    def __len__(self) -> int:
        return len(self._seqs)

    def raise_to(self, client: int, seq: int) -> None:
        super().raise_to(client, seq)
        self._stale.add(client)

    def pairs(self) -> list[tuple[int, int]]:
        """Everything, in the order in which it would be forgotten."""
        return list(self._seqs.items())

    @property
    def digest(self) -> int:
        shares = self._shares
        for client in self._stale:
            share = _weigh(client, self._seqs[client])
            self._sum += share - shares.get(client, 0)
            shares[client] = share
        self._stale.clear()
        self._sum &= _MASK
        return self._sum

    def _forgot(self, client: int) -> None:
        self._sum -= self._shares.pop(client, 0)
        self._stale.discard(client)


def _weigh(client: int, seq: int) -> int:
    """A client's share: 64 bits of BLAKE2b. A znode's begins with other bytes, and is never so short."""
    return int.from_bytes(
        blake2b(_PAIR.pack(client & _MASK, seq & _MASK), digest_size=8, person=b"session").digest(), "big"
    )
