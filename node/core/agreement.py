"""Who is wrong when two digests of the same history differ (LADIS 2008, section 2: sanity checks abort the server).

A node hears from its peers, with PROPOSE, COMMIT and heartbeats, the digests of their histories at some zxid. One that
differs shows that somebody is wrong, not who. So a node that finds a difference asks what the others say: it ends when a
majority of the ensemble contradicts it, and when its leader does and nobody settles the matter in time. It goes on when a
majority agrees with it; then whoever differs finds the same majority against itself.
"""

from zab_chaos.node.core.digest import show as show_digest
from zab_chaos.node.core.zxid import Zxid, show

REMEMBERED = 1024  # digests of this node at earlier points: peers are ahead or behind by some batches


class Agreement:
    """What the others said of this node's history. `quorum`: how many nodes, this one included, are a majority."""

    def __init__(self, quorum: int, patience: int) -> None:
        self._quorum = quorum
        self._patience = patience  # nanoseconds for the others to be heard
        self._own: dict[Zxid, int] = {}
        self._agrees: dict[int, bool] = {}  # peer: whether it agreed when it was last compared
        self._since: int | None = None  # when the first of the present differences was found
        self.disputed = False  # whether a difference is not settled yet
        self._words = ""

    def remember(self, zxid: Zxid, digest: int) -> None:
        """This node has delivered up to `zxid`."""
        self._own[zxid] = digest
        if len(self._own) > REMEMBERED:
            del self._own[next(iter(self._own))]

    def forget(self, peer: int) -> None:
        """A new session: what the peer said before was said by another life, perhaps."""
        self._agrees.pop(peer, None)

    def hear(self, peer: int, zxid: Zxid, digest: int, delivered: Zxid, own: int, now: int) -> None:
        """`peer` says that its history up to `zxid` has this digest; this node's has `own` up to `delivered`."""
        mine = own if zxid == delivered else self._own.get(zxid)
        if mine is None:
            return
        if mine == digest:
            if self._since is not None:
                self._agrees[peer] = True
            return
        if self._since is None:
            self._since, self.disputed = now, True
            self._agrees = {}
        self._agrees[peer] = False
        here, there = show_digest(mine), show_digest(digest)
        self._words = f"digest of the history up to {show(zxid)} is {here} here but {there} at node {peer}"

    def wrong(self, leader: int | None, now: int) -> str | None:
        """Why this node must end, or None. `leader`: the one that it follows. What a majority settles is settled."""
        if self._since is None:
            return None
        against = [peer for peer, agrees in self._agrees.items() if not agrees]
        if len(against) >= self._quorum:
            return f"{self._words}; {len(against)} nodes contradict this one"
        if 1 + len(self._agrees) - len(against) >= self._quorum:
            self._since, self.disputed, self._agrees = None, False, {}
        elif leader in against and now - self._since >= self._patience:
            return f"{self._words}; the leader is believed"
        return None
