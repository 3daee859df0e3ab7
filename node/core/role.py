"""The base of what a node holds and does in one role of one iteration.

A role object is made when the role begins and dropped when it ends, so nothing in it can be stale. What outlives an
iteration is in `Peer`. A leader changes its object when it has chosen its epoch, when it has chosen the initial history,
and when the epoch is established: each class holds only what exists from then on.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from zab_chaos.node.core.messages import NOBODY, Cepoch, Phase, Ping, Role, Vote

if TYPE_CHECKING:
    from zab_chaos.node.core.broadcast import Broadcasting
    from zab_chaos.node.core.peer import Peer


class RoleState:
    """A role of a node, with the behaviour that roles do not override."""

    role: ClassVar[Role]
    leader = NOBODY
    phase = Phase.ELECTION  # set by `Peer.enter`
    deadline: int | None = None  # when `expire` is to be called
    primary: "Broadcasting | None" = None  # this object, if the node leads an established epoch

    def __init__(self, peer: "Peer") -> None:
        self.peer = peer
        self.out = peer.out
        self.journal = peer.journal
        self.quorum = peer.quorum
        self.me = peer.me

    @property
    def is_current(self) -> bool:
        """Whether the node is still in this role."""
        return self.peer.state is self

    def while_current(self, effect: Callable[[], None]) -> Callable[[], None]:
        """Return a function that calls `effect` unless this role has ended by then."""

        def guarded() -> None:
            if self.is_current:
                effect()

        return guarded

    def partners(self) -> list[int]:
        """Return the peers whose sessions end when this role ends."""
        return []

    # ---- events ----

    def begin(self) -> None:
        """Begin the role: the node holds this object from now on."""

    def expire(self) -> None:
        """React to the deadline."""
        self.peer.start_election(f"{self.phase.name.lower()} took too long")

    def on_tick(self) -> None:
        if self.deadline is not None and self.peer.now >= self.deadline:
            self.expire()

    def on_heartbeat(self) -> None:
        pass

    def on_ready(self) -> None:
        """Ask for what has gathered since the last Ready."""

    def on_link_up(self, peer: int) -> None:
        pass

    def on_link_down(self, peer: int, why: str) -> None:
        pass

    def on_stray(self, source: int, message: Any) -> None:
        """Drop a message that is not expected here, as a closed channel would: it is from an iteration that has ended."""
        self.peer.note_drop(source, message)

    def on_ping(self, source: int, ping: Ping) -> None:
        self.peer.check_digest(ping.delivered, ping.digest, source)

    def on_vote(self, source: int, vote: Vote) -> None:
        """Tell a node that is looking which node leads (phase 0, seen from outside)."""
        if vote.role == Role.LOOKING:
            self.out.send(source, self.settled_vote())

    def settled_vote(self) -> Vote:
        """Return the answer of a node that follows or leads to a node that is looking."""
        peer = self.peer
        established = self.role is Role.LEADING and peer.in_broadcast
        last, epoch = self.journal.history.last, peer.current_epoch
        return Vote(peer.round, self.leader, last, epoch, self.role, peer.amnesiac, established)

    def on_cepoch(self, source: int, message: Cepoch) -> None:
        """Close the session: the sender follows this node, which does not lead."""
        self.peer.reset(source, "not leading")
