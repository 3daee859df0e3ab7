"""Phase 1, discovery: an epoch that no node has promised yet, and the best history of a quorum (DSN 2011, section IV).

The leader's steps are here: l.1.1 NEWEPOCH, and l.1.2, the choice of the initial history I_e'. If the best history is not
the leader's own, the leader fetches it first (section V-A). The follower's steps, f.1.1 CEPOCH and f.1.2 ACK-E, are in
`following`.

Lost disks: the paper's proof intersects the quorum that promised e' with every quorum that acknowledged a transaction of an
older epoch, and assumes that promises are kept. A node that lost its disk keeps none, and a leader that counts its ACK-E
may not have noticed. So before the choice the leader asks the nodes that promised once more (CONFIRM). It chooses from the
histories of a quorum that answers, each in the session of its ACK-E: when CONFIRM was sent, all those promises were on
disks that had not been lost. The second rule is in `broadcast`: a node that lost its disk counts again only after it got
the history and a quorum of members has then confirmed that it still follows this leader. So no leader of an older epoch can
bring it back. docs/protocol.md has the argument.
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
        self.early = early  # CEPOCHs that came before this node was elected

    def begin(self) -> None:
        self.out.send_all(self.settled_vote())  # a node that reaches only this one learns it from no other
        self.choose_epoch()  # in an ensemble of one the leader alone is a quorum
        for peer in sorted(self.early):
            self.peer.state.on_cepoch(peer, self.early[peer])  # each one may end this role

    def partners(self) -> list[int]:
        return sorted(self.followers)

    def on_link_down(self, peer: int, why: str) -> None:
        self.followers.pop(peer, None)

    def on_cepoch(self, source: int, message: Cepoch) -> None:
        self.peer.note_promise(message.accepted_epoch)
        self.followers.add(source, message)
        self.choose_epoch()

    on_ack_epoch = on_history = on_confirmed = RoleState.on_stray  # nothing was requested yet

    def choose_epoch(self) -> None:
        """l.1.1: once the promises of a quorum are known, choose an epoch above all of them."""
        counted = self.followers.counted()
        if not self.quorum.has(counted):
            return
        promises = [f.accepted_epoch for peer, f in self.followers.items() if peer in counted]
        epoch = max([self.peer.accepted_epoch, self.peer.highest_promise, *promises]) + 1
        self.peer.become(self.peer.choosing_type(self.peer, self.followers, epoch), Phase.DISCOVERY)


class Choosing(Leading):
    """A prospective leader that has proposed its epoch and chooses the initial history.

    The deadline is when the epoch must be established.
    """

    def __init__(self, peer: "Peer", followers: Followers, epoch: int) -> None:
        super().__init__(peer, followers, epoch)
        self.deadline = peer.now + peer.settings.sync_timeout
        self.epoch_durable = False  # the leader's own promise is on its disk
        self.inquiry: Inquiry | None = None  # the open CONFIRM inquiry
        self.fetching: int | None = None  # the follower whose history is being fetched

    def begin(self) -> None:
        """l.1.1: send NEWEPOCH, after the leader's own promise is on disk (ZOOKEEPER-1291)."""
        self.promise()
        for peer in sorted(self.followers):
            self.out.send_after_sync(peer, NewEpoch(self.epoch))

    def promise(self) -> None:
        self.peer.accepted_epoch = self.epoch
        self.out.record(EpochRecord(self.epoch), self.while_current(self.own_epoch_durable))
        self.out.event_after_sync("accepted_epoch", epoch=self.epoch, leader=self.me)

    def own_epoch_durable(self) -> None:
        """Count the leader's own ACK-E: its promise is durable."""
        self.epoch_durable = True
        self.choose_history()

    def too_low_for(self, message: Cepoch) -> bool:
        """Return whether the follower can't promise this leader's epoch.

        A follower that has promised the same epoch may have promised it to another leader, so waiting for it would be in vain.
        """
        return super().too_low_for(message) or (message.accepted_epoch == self.epoch and not message.amnesiac)

    def on_link_down(self, peer: int, why: str) -> None:
        if self.inquiry is not None:
            self.inquiry.forget(peer)
        if peer == self.fetching:
            self.peer.start_election(f"node {peer}, whose history was to be fetched, is gone")
            return
        super().on_link_down(peer, why)
        if self.is_current:
            self.choose_history()  # ask others if the open inquiry can't succeed without the lost peer

    # ---- the choice ----

    def on_ack_epoch(self, source: int, message: AckEpoch) -> None:
        if self.take_promise(source, message):
            self.choose_history()

    def choose_history(self) -> None:
        """l.1.2: once a quorum has promised, ask it to confirm; the best confirmed history becomes I_e'."""
        promised = self.followers.promised()
        if not self.epoch_durable or self.fetching is not None or not self.quorum.has(promised):
            return
        if self.inquiry is None or not self.quorum.has(self.inquiry.asked | {self.me}):
            self.inquiry = self.inquire(promised - {self.me})
            self.conclude(self.inquiry)

    def on_confirmed(self, source: int, message: Confirmed) -> None:
        if self.inquiry is not None and self.inquiry.count_answer(source, message):
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
        """Return the node whose history has the highest (current epoch, last zxid); this node if none is better."""
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
        """Begin phase 2 with this node's history as the initial history."""
        synchronizing = self.peer.synchronizing_type(self.peer, self.followers, self.epoch, self.deadline)
        self.peer.become(synchronizing, Phase.SYNCHRONIZATION)
