"""Finds clients that claim to have seen more than this ensemble has.

A client that comes from another node may be ahead of this one: it waits until this node has caught up. If the claim is
false, it would wait for ever, and hold its requests here.
"""

from typing import Protocol

from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.zxid import Zxid


class History(Protocol):
    @property
    def last(self) -> Zxid: ...


class Core(Protocol):
    """The core, as far as it tells whether this node has caught up."""

    iteration: int

    @property
    def history(self) -> History: ...
    @property
    def in_broadcast(self) -> bool: ...


class _Claim:
    """`due`: when it must be true, ns; `upto`: what was in the log then. None: not known in this iteration yet."""

    __slots__ = ("due", "iteration", "seen", "upto")

    def __init__(self, seen: Zxid) -> None:
        self.seen = seen
        self.iteration = -1
        self.due: int | None = None
        self.upto: Zxid | None = None


class Claims:
    """The claims of one node's clients that are not known to be true.

    A leader's messages arrive in order, and a follower that hears nothing new for the timeout leaves its leader. So what
    an honest client has seen is in the log of a node that has been in broadcast for `patience` (nanoseconds) since the
    client came, and a claim is false if it is still ahead when all of that log is delivered. Where messages are under way
    for longer than `patience`, as on a very slow link, an honest client is accused, too: it goes on at another node.
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self.open: dict[int, _Claim] = {}  # by client; a round looks whether there is any

    def made(self, client: int, seen: Zxid, delivered: Zxid) -> None:
        """A client came. `seen`: what it claims; `delivered`: what this node has."""
        self.dropped(client)
        if seen > delivered:
            self.open[client] = _Claim(seen)

    def dropped(self, client: int) -> None:
        """A client is gone."""
        self.open.pop(client, None)

    def false(self, core: Core, delivered: Zxid, now: int) -> list[tuple[int, str]]:
        """The clients whose claims are false, and why, in words. Forgets what has come true."""
        found = []
        for client, claim in list(self.open.items()):
            if claim.seen <= delivered:
                del self.open[client]
            elif self._is_false(claim, core, delivered, now):
                found.append((client, _words(claim.seen, delivered)))
        return found

    def _is_false(self, claim: _Claim, core: Core, delivered: Zxid, now: int) -> bool:
        if not core.in_broadcast or core.iteration != claim.iteration:
            claim.iteration, claim.due, claim.upto = core.iteration, None, None
        if not core.in_broadcast:
            return False
        if claim.due is None:
            claim.due = now + self._patience
        if claim.upto is None and now > claim.due:
            claim.upto = core.history.last
        return claim.upto is not None and delivered >= claim.upto


def _words(seen: Zxid, delivered: Zxid) -> str:
    return (
        f"the client says that it has seen {zx.show(seen)}, but this ensemble has come to {zx.show(delivered)}: "
        "was the client connected to another ensemble?"
    )
