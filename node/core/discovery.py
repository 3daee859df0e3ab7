"""Phase 1, discovery: an epoch that nobody has promised yet, and the best history of a quorum (DSN 2011, section IV).

Steps: f.1.1 CEPOCH, l.1.1 NEWEPOCH, f.1.2 ACK-E, l.1.2 the choice of the initial history I_e'. If the best history is
not the leader's own, it is fetched first (section V-A).
"""

from node.core.election import Election
from node.core.machine import Follower
from node.core.messages import AckEpoch, Cepoch, Fetch, History, NewEpoch, Phase, Role
from node.core.ready import EpochRecord


class Discovery(Election):
    """Both sides of phase 1."""

    followers: dict[int, Follower]
    epoch: int | None = None  # the epoch that this leader has proposed: e'
    epoch_durable = False  # its own promise is on disk
    promised: tuple[int, int] | None = None  # (epoch, leader): to whom this life gave its last promise
    fetching: int | None = None  # the follower whose history is being fetched
    highest_promise = 0  # the highest promise heard of; keeps a new epoch above promises outside the quorum

    def abandon(self) -> None:
        self.followers = {}
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

    def on_fetch(self, source: int, message: Fetch) -> None:
        if message.epoch == self.accepted_epoch:
            sync = self.history.difference(message.shape)
            self.send_after_sync(source, History(message.epoch, self.current_epoch, sync))

    # ---- leader ----

    def lead(self) -> None:
        self.finalize_at = None
        self.deadline = self.now + self.settings.timeout
        self.enter(Role.LEADING, Phase.DISCOVERY, self.me, "elected")
        early, self.early = self.early, {}
        for peer in sorted(early):
            self.on_cepoch(peer, early[peer])
        self.choose_epoch()

    def on_cepoch(self, source: int, message: Cepoch) -> None:
        if self.role == Role.LOOKING:
            self.early[source] = message
            return
        if self.role == Role.FOLLOWING:
            self.reset(source, "not leading")
            return
        if not message.amnesiac:
            self.highest_promise = max(self.highest_promise, message.accepted_epoch)
        self.followers[source] = Follower(message.accepted_epoch, message.amnesiac)
        if self.epoch is None:
            self.choose_epoch()
        elif message.accepted_epoch > self.epoch and not message.amnesiac:
            # It can never follow this epoch, and the next one must be above its promise.
            self.look(f"node {source} has promised epoch {message.accepted_epoch}")
        else:
            self.send_after_sync(source, NewEpoch(self.epoch))

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
        if self.phase == Phase.DISCOVERY:
            self.choose_history()
        else:
            self.send_new_leader(source)

    def choose_history(self) -> None:
        """l.1.2: with a quorum's histories known, the best of them becomes I_e'."""
        acks = {p: f.ack_epoch for p, f in self.followers.items() if f.ack_epoch and f.ack_epoch.promised}
        if not self.epoch_durable or self.fetching is not None:
            return
        if not self.quorum.has({*acks, self.me} & self.counted()):
            return
        best = self.best_history({peer: acks[peer] for peer in sorted(acks.keys() & self.counted())})
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
        if peer == self.fetching:
            self.look(f"node {peer}, whose history was to be fetched, is gone")
        elif self.phase != Phase.DISCOVERY and not self.quorum.has(self.supporting()):
            self.look("lost the quorum")

    def supporting(self) -> set[int]:
        """Who has promised this leader's epoch and is still connected, this node included."""
        return {p for p in self.counted() if p == self.me or self.followers[p].ack_epoch is not None}

    # ---- the next phase's part ----

    def begin_synchronization(self, fetched: object) -> None:
        raise NotImplementedError

    def send_new_leader(self, peer: int) -> None:
        raise NotImplementedError
