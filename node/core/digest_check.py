"""Decides which node is wrong when two nodes have different digests of the same history (LADIS 2008, section 2: a failed
sanity check stops the server).

PROPOSE, COMMIT and heartbeats carry the digest of the sender's history at some zxid. A different digest shows that one of
the two nodes is wrong, but not which one. So a node that finds a difference waits for the digests of the other nodes:

- It stops when a majority of the ensemble contradicts it.
- It stops when its leader contradicts it and no majority has settled the matter in time.
- It continues when a majority agrees with it. The node that differs then finds the same majority against itself.
"""

from zab_chaos.node.core.digest import show as show_digest
from zab_chaos.node.core.zxid import Zxid, show

REMEMBERED = 1024  # own digests at earlier zxids: peers are ahead or behind by some batches


class DigestCheck:
    """Compares this node's digests with those that its peers report.

    `quorum`: how many nodes, this one included, are a majority. `patience`: nanoseconds to wait for the other nodes' digests
    before the leader's alone is believed.
    """

    def __init__(self, quorum: int, patience: int) -> None:
        self._quorum = quorum
        self._patience = patience
        self._own_digests: dict[Zxid, int] = {}
        self._agrees: dict[int, bool] = {}  # by peer: whether it agreed at the last comparison
        self._disputed_since: int | None = None  # when the first difference of the open dispute was found
        self.disputed = False  # whether a difference was found and is not settled yet
        self._difference = ""

    def remember(self, zxid: Zxid, digest: int) -> None:
        """Store the digest of this node's history up to `zxid`, which it has delivered."""
        self._own_digests[zxid] = digest
        if len(self._own_digests) > REMEMBERED:
            del self._own_digests[next(iter(self._own_digests))]

    def forget(self, peer: int) -> None:
        """Forget whether `peer` agreed: a new session may be with another life of it."""
        self._agrees.pop(peer, None)

    def compare(self, peer: int, zxid: Zxid, digest: int, delivered: Zxid, own: int, now: int) -> None:
        """Compare the digest that `peer` reports of its history up to `zxid` with this node's.

        `own` is this node's digest up to `delivered`. Nothing is compared at a zxid whose digest is not remembered.
        """
        mine = own if zxid == delivered else self._own_digests.get(zxid)
        if mine is None:
            return
        if mine == digest:
            if self._disputed_since is not None:
                self._agrees[peer] = True
            return
        if self._disputed_since is None:
            self._disputed_since, self.disputed = now, True
            self._agrees = {}
        self._agrees[peer] = False
        here, there = show_digest(mine), show_digest(digest)
        self._difference = f"digest of the history up to {show(zxid)} is {here} here but {there} at node {peer}"

    def reason_to_abort(self, leader: int | None, now: int) -> str | None:
        """Return why this node must stop, or None.

        `leader`: the leader that this node follows, or None. A dispute ends when a majority agrees with this node.
        """
        if self._disputed_since is None:
            return None
        against = [peer for peer, agrees in self._agrees.items() if not agrees]
        if len(against) >= self._quorum:
            return f"{self._difference}; {len(against)} nodes contradict this one"
        if 1 + len(self._agrees) - len(against) >= self._quorum:
            self._disputed_since, self.disputed, self._agrees = None, False, {}
        elif leader in against and now - self._disputed_since >= self._patience:
            return f"{self._difference}; the leader is believed"
        return None
