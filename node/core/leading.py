"""A leader of an epoch e': what it does in more than one phase. Each phase has a subclass."""

from typing import TYPE_CHECKING

from zab_chaos.node.core.errors import SanityCheckFailed
from zab_chaos.node.core.followers import Follower, Followers, Inquiry
from zab_chaos.node.core.messages import AckEpoch, AckLeader, Cepoch, Confirm, NewEpoch, NewLeader, Role
from zab_chaos.node.core.role import RoleState
from zab_chaos.node.core.zxid import Zxid, show

if TYPE_CHECKING:
    from zab_chaos.node.core.peer import Peer


class Leading(RoleState):
    """A leader that has chosen its epoch."""

    role = Role.LEADING

    def __init__(self, peer: "Peer", followers: Followers, epoch: int) -> None:
        super().__init__(peer)
        self.leader = peer.me
        self.followers = followers
        self.epoch = epoch

    def partners(self) -> list[int]:
        return sorted(self.followers)

    # ---- followers that come and go ----

    def on_cepoch(self, source: int, message: Cepoch) -> None:
        """l.1.1 and l.3.3: propose the epoch to another follower."""
        self.peer.note_promise(message.accepted_epoch)
        self.followers.add(source, message)
        if self.too_low_for(message):
            self.peer.start_election(f"node {source} has promised epoch {message.accepted_epoch}")
        else:
            self.out.send_after_sync(source, NewEpoch(self.epoch))

    def too_low_for(self, message: Cepoch) -> bool:
        """Return whether the follower can't promise this leader's epoch, so that the next epoch must be above it.

        A follower that has promised the same epoch is accepted once the history is chosen: it then has to take this leader's
        history, and it counts in no choice.
        """
        return message.accepted_epoch > self.epoch

    def on_link_down(self, peer: int, why: str) -> None:
        self.followers.pop(peer, None)
        if not self.quorum.has(self.supporting()):
            self.peer.start_election("lost the quorum")

    def supporting(self) -> set[int]:
        """Return the nodes that still support this leader in its present phase, itself included.

        At first these are the nodes that sent CEPOCH.
        """
        return self.followers.counted()

    # ---- synchronizing followers ----

    def on_ack_epoch(self, source: int, message: AckEpoch) -> None:
        """l.2.1 and l.3.3, for a follower that comes after the history was chosen."""
        if self.take_promise(source, message):
            self.send_new_leader(source, message)

    def take_promise(self, source: int, message: AckEpoch) -> bool:
        """Store the follower's ACK-E. Return False if it is not of this epoch or the follower is unknown."""
        follower = self.followers.get(source)
        if follower is None or message.epoch != self.epoch:
            self.on_stray(source, message)
            return False
        follower.ack_epoch = message
        self.peer.note_promise(message.epoch)
        return True

    def send_new_leader(self, peer: int, ack: AckEpoch) -> None:
        """l.2.1 and l.3.3: send NEWLEADER. From here on the follower gets every PROPOSE."""
        follower = self.followers[peer]
        self.out.send(peer, NewLeader(self.epoch, follower.difference(self.journal.history, ack)))
        follower.forwarding = True

    def take_ack_leader(self, source: int, message: AckLeader) -> Follower | None:
        """Store an ACK-LD, and return the follower, which holds the history now.

        Return None if this leader sent it no NEWLEADER of this epoch.
        """
        follower = self.followers.get(source)
        if follower is None or not follower.forwarding or message.epoch != self.epoch:
            self.on_stray(source, message)
            return None
        self.check_proposed(source, message.last_zxid)
        follower.amnesiac = message.amnesiac
        follower.acked = max(follower.acked, message.last_zxid)
        return follower

    def check_proposed(self, source: int, acknowledged: Zxid) -> None:
        if acknowledged > self.journal.history.last:
            raise SanityCheckFailed(f"node {source} acknowledges {show(acknowledged)}, never proposed")

    # ---- inquiries ----

    def inquire(self, followers: set[int]) -> Inquiry:
        """Ask the followers whether they still follow this leader in its epoch.

        The inquiry succeeds when the followers that confirm are a quorum together with this leader.
        """
        self.peer.last_inquiry += 1
        inquiry = Inquiry(self.epoch, self.peer.last_inquiry)
        for peer in sorted(followers):
            self.ask(inquiry, peer)
        return inquiry

    def ask(self, inquiry: Inquiry, peer: int) -> None:
        inquiry.asked.add(peer)
        self.out.send(peer, Confirm(inquiry.epoch, inquiry.number))

    def confirmed(self, inquiry: Inquiry) -> set[int] | None:
        """Return the followers that confirmed and count, or None unless they are a quorum with this leader."""
        followers = inquiry.confirmed & self.followers.counted()
        return followers if self.quorum.has(followers | {self.me}) else None
