"""Phase 1, discovery: an epoch that nobody has promised yet, and the best history of a quorum (DSN 2011, section IV).

Steps, the leader's: l.1.1 NEWEPOCH, l.1.2 the choice of the initial history I_e'. If the best history is not the leader's
own, it is fetched first (section V-A). The follower's, f.1.1 CEPOCH and f.1.2 ACK-E, are in `following`.

Disks that are lost. The paper's proof intersects the quorum that promised e' with every quorum that acknowledged a
transaction of an older epoch, and takes for granted that a promise is kept. A node that lost its disk keeps none, and the
leader that counts its ACK-E may not have noticed. So before the choice the leader asks those that promised once more
(CONFIRM), and chooses from the histories of a quorum that answers, each in the session of its ACK-E: when the question
left, all those promises were on disks that were whole. The other half is in `broadcast`: a node that lost its disk
counts again only when a quorum of members has confirmed, after it got the history, that it follows this leader still; so no
leader of an older epoch can bring it back. docs/protocol.md has the argument.
"""

from typing import TYPE_CHECKING

from zab_chaos.node.core.followers import Followers, Inquiry
from zab_chaos.node.core.leading import Leading
from zab_chaos.node.core.messages import AckEpoch, Cepoch, Confirmed, Fetch, History, NewEpoch, Phase, Role
from zab_chaos.node.core.ready import EpochRecord
from zab_chaos.node.core.role import RoleState

if TYPE_CHECKING:
    from zab_chaos.node.core.peer import Peer


class Elected(RoleState):
    """A prospective leader that has no epoch yet. The deadline is when it must have one."""

    role = Role.LEADING

    def __init__(self, peer: "Peer", early: dict[int, Cepoch]) -> None:
        super().__init__(peer)
        self.leader = peer.me
        self.deadline = peer.now + peer.settings.timeout
        self.followers = Followers(peer.me, peer.follower_type)
        self.early = early  # who has introduced itself already

    def begin(self) -> None:
        self.out.send_all(self.standing_vote())  # who reaches nobody else hears it from nobody else
        self.choose_epoch()  # alone it is a quorum
        for peer in sorted(self.early):
            self.peer.state.on_cepoch(peer, self.early[peer])  # each may end this role

    def partners(self) -> list[int]:
        return sorted(self.followers)

    def on_link_down(self, peer: int, why: str) -> None:
        self.followers.pop(peer, None)

    def on_cepoch(self, source: int, message: Cepoch) -> None:
        self.peer.heard_promise(message.accepted_epoch)
        self.followers.meet(source, message)
        self.choose_epoch()

    on_ack_epoch = on_history = on_confirmed = RoleState.on_stray  # nothing was asked yet

    def choose_epoch(self) -> None:
        """l.1.1: with a quorum's promises known, an epoch above all of them."""
        counted = self.followers.counted()
        if not self.quorum.has(counted):
            return
        promises = [f.accepted_epoch for peer, f in self.followers.items() if peer in counted]
        epoch = max([self.peer.accepted_epoch, self.peer.highest_promise, *promises]) + 1
        self.peer.begin(self.peer.choosing_type(self.peer, self.followers, epoch), Phase.DISCOVERY)


class Choosing(Leading):
    """A prospective leader that has proposed its epoch, and chooses the initial history.

    The deadline is when the epoch must be established.
    """

    def __init__(self, peer: "Peer", followers: Followers, epoch: int) -> None:
        super().__init__(peer, followers, epoch)
        self.deadline = peer.now + peer.settings.sync_timeout
        self.epoch_durable = False  # its own promise is on disk
        self.inquiry: Inquiry | None = None  # the open one before the choice
        self.fetching: int | None = None  # the follower whose history is being fetched

    def begin(self) -> None:
        """l.1.1: NEWEPOCH; first the own promise is on disk (ZOOKEEPER-1291)."""
        self.promise()
        for peer in sorted(self.followers):
            self.out.send_after_sync(peer, NewEpoch(self.epoch))

    def promise(self) -> None:
        self.peer.accepted_epoch = self.epoch
        self.out.record(EpochRecord(self.epoch), self.while_current(self.own_epoch_durable))
        self.out.event_after_sync("accepted_epoch", epoch=self.epoch, leader=self.me)

    def own_epoch_durable(self) -> None:
        """The leader is a follower too: its own ACK-E."""
        self.epoch_durable = True
        self.choose_history()

    def too_low_for(self, message: Cepoch) -> bool:
        """The same epoch may have been promised to somebody else, and waiting for that follower would be in vain."""
        return super().too_low_for(message) or (message.accepted_epoch == self.epoch and not message.amnesiac)

    def on_link_down(self, peer: int, why: str) -> None:
        if self.inquiry is not None:
            self.inquiry.forget(peer)
        if peer == self.fetching:
            self.peer.look(f"node {peer}, whose history was to be fetched, is gone")
            return
        super().on_link_down(peer, why)
        if self.is_current:
            self.choose_history()  # if the open inquiry can't succeed without the one that is gone, others are asked

    # ---- the choice ----

    def on_ack_epoch(self, source: int, message: AckEpoch) -> None:
        if self.take_promise(source, message):
            self.choose_history()

    def choose_history(self) -> None:
        """l.1.2: with a quorum's promises known, and confirmed, the best of their histories becomes I_e'."""
        promised = self.followers.promised()
        if not self.epoch_durable or self.fetching is not None or not self.quorum.has(promised):
            return
        if self.inquiry is None or not self.quorum.has(self.inquiry.asked | {self.me}):
            self.inquiry = self.inquire(promised - {self.me})
            self.conclude(self.inquiry)

    def on_confirmed(self, source: int, message: Confirmed) -> None:
        if self.inquiry is not None and self.inquiry.takes(source, message):
            self.conclude(self.inquiry)

    def conclude(self, inquiry: Inquiry) -> None:
        confirmed = self.confirmed(inquiry)
        if confirmed is not None:
            self.inquiry = None
            self.choose_from(confirmed)

    def choose_from(self, confirmed: set[int]) -> None:
        acks = {peer: ack for peer in sorted(confirmed) if (ack := self.followers[peer].ack_epoch) is not None}
        best = self.best_history(acks)
        if best == self.me:
            self.begin_synchronization()
        else:
            self.fetching = best
            self.out.send(best, Fetch(self.epoch, self.journal.history.shape()))

    def best_history(self, acks: dict[int, AckEpoch]) -> int:
        """Whose history has the highest (current epoch, last zxid); this node's own if no other is better."""
        best, best_key = self.me, self.peer.history_key()
        for peer, ack in acks.items():
            if (ack.current_epoch, ack.last_zxid) > best_key:
                best, best_key = peer, (ack.current_epoch, ack.last_zxid)
        return best

    def on_history(self, source: int, message: History) -> None:
        if source == self.fetching and message.epoch == self.epoch:
            self.journal.adopt(message.sync, self.epoch)
            self.begin_synchronization()

    def begin_synchronization(self) -> None:
        """This node's history is the initial one."""
        synchronizing = self.peer.synchronizing_type(self.peer, self.followers, self.epoch, self.deadline)
        self.peer.begin(synchronizing, Phase.SYNCHRONIZATION)
