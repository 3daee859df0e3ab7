"""Detects clients that claim to have seen a zxid that this ensemble has not reached.

A client that comes from another node may be ahead of this node and then waits until this node has caught up. With a false
claim it would wait for ever, and its requests would stay here.
"""

from dataclasses import dataclass

from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.zxid import Zxid

FALSE_CLAIM = "was the client connected to another ensemble?"  # the end of the reason why a client is dropped


@dataclass(slots=True)
class _Claim:
    """A claim of one client."""

    seen: Zxid
    iteration: int = -1
    due: int | None = None  # when it must be true, ns; None: not known in this iteration yet
    upto: Zxid | None = None  # the last zxid in the log at that time; None: likewise


class Claims:
    """The claims of one node's clients that are not known to be true yet.

    A leader's messages arrive in order, and a follower that receives nothing new for the timeout leaves its leader. So when
    a node has been in broadcast for `patience` (nanoseconds) since a client came, its log holds what an honest client has
    seen. A claim is false if it is still ahead when all of that log is delivered. Where messages take longer than
    `patience`, as on a very slow link, an honest client is dropped too; it goes on at another node.
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self.open: dict[int, _Claim] = {}  # by client

    def add(self, client: int, seen: Zxid, delivered: Zxid) -> None:
        """Add the claim of a new client. `seen`: what it claims; `delivered`: what this node has delivered."""
        self.remove(client)
        if seen > delivered:
            self.open[client] = _Claim(seen)

    def remove(self, client: int) -> None:
        """Forget the claim of a client that is gone."""
        self.open.pop(client, None)

    def leftovers(self) -> dict[str, int]:
        """Return how many claims are open. Without clients there must be none."""
        return {"claims": len(self.open)}

    def find_false(self, core: Peer, delivered: Zxid, now: int) -> list[tuple[int, str]]:
        """Return the clients with false claims, with the reason in words. Claims that have come true are forgotten."""
        found = []
        for client, claim in list(self.open.items()):
            if claim.seen <= delivered:
                del self.open[client]
            elif self._is_false(claim, core, delivered, now):
                found.append((client, _reason(claim.seen, delivered)))
        return found

    def _is_false(self, claim: _Claim, core: Peer, delivered: Zxid, now: int) -> bool:
        if not core.in_broadcast or core.iteration != claim.iteration:
            claim.iteration, claim.due, claim.upto = core.iteration, None, None
        if not core.in_broadcast:
            return False
        if claim.due is None:
            claim.due = now + self._patience
        if claim.upto is None and now > claim.due:
            claim.upto = core.history.last
        return claim.upto is not None and delivered >= claim.upto


def _reason(seen: Zxid, delivered: Zxid) -> str:
    return (
        f"the client says that it has seen {zx.show(seen)}, but this ensemble has come to {zx.show(delivered)}: "
        f"{FALSE_CLAIM}"
    )
