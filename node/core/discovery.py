"""Phase 1, discovery: an epoch that nobody has promised yet, and the best history of a quorum (DSN 2011, section IV).

Steps: f.1.1 CEPOCH, l.1.1 NEWEPOCH, f.1.2 ACK-E, l.1.2 the choice of the initial history I_e'. If the best history is
not the leader's own, it is fetched first (section V-A).

Disks that are lost. The paper's proof intersects the quorum that promised e' with every quorum that acknowledged a
transaction of an older epoch, and takes for granted that a promise is kept. A node that lost its disk keeps none, and the
leader that counts its ACK-E may not have noticed. So before the choice the leader asks those that promised once more
(CONFIRM), and chooses from the histories of a quorum that answers, each in the session of its ACK-E: when the question
left, all those promises were on disks that were whole. The other half is in `synchronization`: a node that lost its disk
counts again only when a quorum of members has confirmed, after it got the history, that it follows this leader still; so no
leader of an older epoch can bring it back. docs/protocol.md has the argument.
"""

from collections.abc import Callable

from zab_chaos.node.core.election import Election
from zab_chaos.node.core.machine import Follower, Inquiry
from zab_chaos.node.core.messages import AckEpoch, Cepoch, Confirm, Confirmed, Fetch, History, NewEpoch, Phase, Role
from zab_chaos.node.core.ready import EpochRecord


class Discovery(Election):
    """Both sides of phase 1."""

    followers: dict[int, Follower]
    epoch: int | None = None  # the epoch that this leader has proposed: e'
    epoch_durable = False  # its own promise is on disk
    promised: tuple[int, int] | None = None  # (epoch, leader): to whom this life gave its last promise
    fetching: int | None = None  # the follower whose history is being fetched
    highest_promise = 0  # the highest promise heard of; keeps a new epoch above promises outside the quorum
    inquiries: dict[int, Inquiry]  # open ones by number
    last_inquiry = 0  # numbers go on over iterations
    choice: int | None = None  # the inquiry before the choice of a history

    def abandon(self) -> None:
        self.followers = {}
        self.inquiries = {}
        self.choice = None
        self.epoch = None
        self.epoch_durable = False
        self.fetching = None

    def follower_ids(self) -> list[int]:
        return sorted(self.followers)

    # ---- follower ----

    def follow(self, leader: int) -> None:
        self.finalize_at = None
        self.deadline = self.now + self.settings.sync_timeout
        self.enter(Role.FOLLOWING, Phase.DISCOVERY, leader, "elected")
        for peer in sorted(self.early):
            self.reset(peer, "not leading")
        if leader in self.links:
            self.introduce()
        else:
            self.deadline = self.now + self.settings.timeout

    def introduce(self) -> None:
        if self.phase == Phase.DISCOVERY and self.leader is not None:
            self.deadline = self.now + self.settings.sync_timeout
            self.send(self.leader, Cepoch(self.accepted_epoch, self.amnesiac))

    def on_new_epoch(self, source: int, message: NewEpoch) -> None:
        if message.epoch < self.accepted_epoch:
            self.look(f"leader {source} proposes epoch {message.epoch}, {self.accepted_epoch} is promised")
            return
        if message.epoch > self.accepted_epoch:
            self.promise(message.epoch)
            self.promised = (message.epoch, source)
        self.enter(Role.FOLLOWING, Phase.SYNCHRONIZATION, source, "promised")
        self.acknowledge_epoch(source)

    def promise(self, epoch: int) -> None:
        """f.p := epoch, durable before anybody hears of it (ZOOKEEPER-335, 1082)."""
        self.accepted_epoch = epoch
        self.record(EpochRecord(epoch))
        self.event_after_sync("accepted_epoch", epoch=epoch, leader=self.leader)

    def acknowledge_epoch(self, leader: int) -> None:
        ack = AckEpoch(
            self.accepted_epoch,
            self.current_epoch,
            self.history.last,
            self.history.shape(),
            promised=self.promised == (self.accepted_epoch, leader),
            amnesiac=self.amnesiac,
        )
        self.send_after_sync(leader, ack)

    def on_confirm(self, source: int, message: Confirm) -> None:
        """In its leader's session and since its promise a follower has promised no later epoch."""
        if message.epoch == self.accepted_epoch and not self.amnesiac:
            self.send(source, Confirmed(message.epoch, message.number))

    def on_fetch(self, source: int, message: Fetch) -> None:
        if message.epoch == self.accepted_epoch:
            sync = self.history.difference(message.shape)
            self.send_after_sync(source, History(message.epoch, self.current_epoch, sync))

    # ---- leader ----

    def lead(self) -> None:
        self.finalize_at = None
        self.deadline = self.now + self.settings.timeout
        self.enter(Role.LEADING, Phase.DISCOVERY, self.me, "elected")
        self.send_all(self.standing_vote())  # who reaches nobody else hears it from nobody else
        early, self.early = self.early, {}
        for peer in sorted(early):
            self.on_cepoch(peer, early[peer])
        if self.epoch is None:  # alone it is a quorum, or those that were early were none yet
            self.choose_epoch()

    def on_cepoch(self, source: int, message: Cepoch) -> None:
        if self.role == Role.LOOKING:
            self.early[source] = message
            self.elected_by_others()
            return
        if self.role == Role.FOLLOWING:
            self.reset(source, "not leading")
            return
        self.highest_promise = max(self.highest_promise, message.accepted_epoch)
        self.followers[source] = Follower(message.accepted_epoch, message.amnesiac)
        if self.epoch is None:
            self.choose_epoch()
        elif self.too_low_for(message):
            self.look(f"node {source} has promised epoch {message.accepted_epoch}")
        else:
            self.send_after_sync(source, NewEpoch(self.epoch))

    def elected_by_others(self) -> None:
        """A quorum has decided for this node before it has itself: then it leads. It may prefer somebody else, but whoever
        follows it waits for it, and would answer nobody else."""
        decided = {peer for peer, cepoch in self.early.items() if not cepoch.amnesiac}
        if not self.amnesiac and self.quorum.has(decided | {self.me}):
            self.vote = self.own_vote()
            self.lead()

    def too_low_for(self, message: Cepoch) -> bool:
        """Whether this leader's epoch is one that the follower can't promise, so that the next one must be above it.

        The same epoch will do once the history is chosen: the follower is then bound to this leader's history and counts
        in no choice. Before, it may have promised that epoch to somebody else, and waiting for it would be in vain.
        """
        assert self.epoch is not None
        promised = message.accepted_epoch
        return promised > self.epoch or (
            promised == self.epoch and self.phase == Phase.DISCOVERY and not message.amnesiac
        )

    def counted(self) -> set[int]:
        """Who counts in a quorum: followers that have kept their disk, and this node if it has."""
        nodes = {peer for peer, f in self.followers.items() if not f.amnesiac}
        return nodes if self.amnesiac else nodes | {self.me}

    def choose_epoch(self) -> None:
        """l.1.1: with a quorum's promises known, an epoch above all of them; first on the own disk (ZOOKEEPER-1291)."""
        if not self.quorum.has(self.counted()):
            return
        promises = [f.accepted_epoch for peer, f in self.followers.items() if peer in self.counted()]
        self.epoch = max([self.accepted_epoch, self.highest_promise, *promises]) + 1
        self.deadline = self.now + self.settings.sync_timeout
        self.promise_as_leader(self.epoch)
        for peer in self.follower_ids():
            self.send_after_sync(peer, NewEpoch(self.epoch))

    def promise_as_leader(self, epoch: int) -> None:
        self.accepted_epoch = epoch
        self.record(EpochRecord(epoch), self.in_this_iteration(self.own_epoch_durable))
        self.event_after_sync("accepted_epoch", epoch=epoch, leader=self.me)

    def own_epoch_durable(self) -> None:
        self.epoch_durable = True
        self.choose_history()

    def on_ack_epoch(self, source: int, message: AckEpoch) -> None:
        follower = self.followers.get(source)
        if follower is None or message.epoch != self.epoch:
            return
        follower.ack_epoch = message
        self.highest_promise = max(self.highest_promise, message.epoch)
        if self.phase == Phase.DISCOVERY:
            self.choose_history()
        else:
            self.send_new_leader(source)

    def choose_history(self) -> None:
        """l.1.2: with a quorum's promises known, and confirmed, the best of their histories becomes I_e'."""
        if not self.epoch_durable or self.fetching is not None or not self.quorum.has(self.promised_to_me()):
            return
        inquiry = self.inquiries.get(self.choice) if self.choice is not None else None
        if inquiry is None or not self.quorum.has(inquiry.asked | {self.me}):
            self.choice = self.inquire(self.promised_to_me() - {self.me}, self.choose_from)

    def promised_to_me(self) -> set[int]:
        """Who counts and has promised this leader's epoch to it, itself included."""
        return {p for p in self.counted() if p == self.me or ((ack := self.followers[p].ack_epoch) and ack.promised)}

    def choose_from(self, confirmed: set[int]) -> None:
        acks = {peer: ack for peer in sorted(confirmed) if (ack := self.followers[peer].ack_epoch) is not None}
        best = self.best_history(acks)
        assert self.epoch is not None
        if best == self.me:
            self.begin_synchronization(None)
        else:
            self.fetching = best
            self.send(best, Fetch(self.epoch, self.history.shape()))

    def best_history(self, acks: dict[int, AckEpoch]) -> int:
        """Whose history has the highest (current epoch, last zxid); this node's own if no other is better."""
        best, best_key = self.me, self.history_key()
        for peer, ack in acks.items():
            if (ack.current_epoch, ack.last_zxid) > best_key:
                best, best_key = peer, (ack.current_epoch, ack.last_zxid)
        return best

    def on_history(self, source: int, message: History) -> None:
        if source == self.fetching and message.epoch == self.epoch:
            self.begin_synchronization(message.sync)

    def follower_gone(self, peer: int) -> None:
        self.followers.pop(peer, None)
        for inquiry in self.inquiries.values():
            inquiry.asked.discard(peer)
            inquiry.confirmed.discard(peer)
        if peer == self.fetching:
            self.look(f"node {peer}, whose history was to be fetched, is gone")
        elif self.epoch is not None and not self.quorum.has(self.supporting()):
            self.look("lost the quorum")
        elif self.phase == Phase.DISCOVERY and self.epoch is not None:
            self.choose_history()  # if the open inquiry can't succeed without the one that is gone, others are asked

    def supporting(self) -> set[int]:
        """Whom this leader still has in its present phase, itself included: those that answered CEPOCH; those that
        promised its epoch to it, and so can establish it; those that joined it."""
        if self.phase == Phase.DISCOVERY:
            return self.counted()
        if self.phase == Phase.SYNCHRONIZATION:
            return self.promised_to_me()
        return {p for p in self.counted() if p == self.me or self.followers[p].ack_epoch is not None}

    # ---- inquiries ----

    def inquire(self, followers: set[int], done: Callable[[set[int]], None]) -> int:
        """Ask them whether they follow this leader in its epoch still. With this leader's own word a quorum has to."""
        self.last_inquiry += 1
        self.inquiries[self.last_inquiry] = Inquiry(set(), done)
        for peer in sorted(followers):
            self.ask(self.last_inquiry, peer)
        self.conclude(self.last_inquiry)
        return self.last_inquiry

    def ask(self, number: int, peer: int) -> None:
        assert self.epoch is not None
        self.inquiries[number].asked.add(peer)
        self.send(peer, Confirm(self.epoch, number))

    def on_confirmed(self, source: int, message: Confirmed) -> None:
        inquiry = self.inquiries.get(message.number)
        if inquiry is not None and message.epoch == self.epoch and source in inquiry.asked:
            inquiry.confirmed.add(source)
            self.conclude(message.number)

    def conclude(self, number: int) -> None:
        inquiry = self.inquiries[number]
        if self.quorum.has(inquiry.confirmed & self.counted() | {self.me}):
            del self.inquiries[number]
            inquiry.done(inquiry.confirmed & self.counted())

    # ---- the next phase's part ----

    def begin_synchronization(self, fetched: object) -> None:
        raise NotImplementedError

    def send_new_leader(self, peer: int) -> None:
        raise NotImplementedError
