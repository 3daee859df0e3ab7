"""What a node holds and does in one role of one iteration.

The object is made when the role begins and dropped when it ends, so nothing in it can be stale. What outlives an
iteration is `Peer`'s. A leader's object is followed by another one when it has chosen its epoch, its initial history, and
when the epoch is established: what exists only from then on is in the class that begins then.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from zab_chaos.node.core.messages import NOBODY, Cepoch, Phase, Ping, Role, Vote

if TYPE_CHECKING:
    from zab_chaos.node.core.broadcast import Broadcasting
    from zab_chaos.node.core.peer import Peer


class RoleState:
    """What every role does if it does not say otherwise."""

    role: ClassVar[Role]
    leader = NOBODY
    phase = Phase.ELECTION  # until `Peer.enter` says otherwise
    deadline: int | None = None  # when `expire` is to be called
    primary: "Broadcasting | None" = None  # itself, if the node leads an established epoch

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
        """`effect`, unless this role is over by then."""

        def guarded() -> None:
            if self.is_current:
                effect()

        return guarded

    def partners(self) -> list[int]:
        """The peers with which the sessions end when this role does."""
        return []

    # ---- what happens ----

    def begin(self) -> None:
        """The node holds this from now on."""

    def expire(self) -> None:
        """The deadline has come."""
        self.peer.look(f"{self.phase.name.lower()} took too long")

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
        """Nothing is expected from an iteration that is over; dropping it is what a closed channel would do."""

    def on_ping(self, source: int, ping: Ping) -> None:
        self.peer.check_digest(ping.delivered, ping.digest, source)

    def on_vote(self, source: int, vote: Vote) -> None:
        """Phase 0, seen from outside: one that looks hears who leads."""
        if vote.role == Role.LOOKING:
            self.out.send(source, self.standing_vote())

    def standing_vote(self) -> Vote:
        """What a node that follows or leads answers to one that looks."""
        peer = self.peer
        established = self.role is Role.LEADING and peer.in_broadcast
        last, epoch = self.journal.history.last, peer.current_epoch
        return Vote(peer.round, self.leader, last, epoch, self.role, peer.amnesiac, established)

    def on_cepoch(self, source: int, message: Cepoch) -> None:
        """Who follows this node is told that it does not lead."""
        self.peer.reset(source, "not leading")
