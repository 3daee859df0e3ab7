"""A follower, in phases 1 to 3 (DSN 2011, section IV).

Steps: f.1.1 CEPOCH, f.1.2 ACK-E, f.2.1 ACK-LD, f.2.2 delivery of I_e', f.3.2 accept and ACK, f.3.3 deliver.
"""

from typing import TYPE_CHECKING

from zab_chaos.node.core import messages as m
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.errors import SanityCheckFailed
from zab_chaos.node.core.messages import Phase, Role
from zab_chaos.node.core.ready import EpochRecord, MemberRecord
from zab_chaos.node.core.role import RoleState

if TYPE_CHECKING:
    from zab_chaos.node.core.peer import Peer


class Following(RoleState):
    """A node that follows an elected leader. The deadline is when that leader's epoch must be established."""

    role = Role.FOLLOWING

    def __init__(self, peer: "Peer", leader: int) -> None:
        super().__init__(peer)
        self.leader = leader
        self.deadline: int | None = peer.now + peer.settings.timeout
        self.joined = False  # the leader's NEWLEADER was accepted
        self.ack_due = False  # proposals were accepted since the last ACK

    def partners(self) -> list[int]:
        return [self.leader]

    def on_link_up(self, peer: int) -> None:
        if peer == self.leader:
            self.begin()

    def on_link_down(self, peer: int, why: str) -> None:
        if peer == self.leader:
            self.peer.start_election(f"leader {peer}: {why}")

    def on_vote(self, source: int, vote: m.Vote) -> None:
        """Return to the election if the leader itself now votes for another node.

        It has heard of a better one since, so it will not lead, and the other nodes may need this one.
        """
        if source == self.leader and vote.role == Role.LOOKING and vote.leader != self.leader:
            self.peer.start_election(f"node {source} votes for somebody else")
            return
        super().on_vote(source, vote)

    # ---- phase 1, discovery ----

    def begin(self) -> None:
        """f.1.1: send CEPOCH as soon as there is a session with the leader."""
        if self.phase == Phase.DISCOVERY and self.leader in self.peer.links:
            self.deadline = self.peer.now + self.peer.settings.sync_timeout
            self.out.send(self.leader, m.Cepoch(self.peer.accepted_epoch, self.peer.amnesiac))

    def on_new_epoch(self, source: int, message: m.NewEpoch) -> None:
        """f.1.2: promise an epoch above every earlier promise. A repeated NEWEPOCH of the same epoch is answered again."""
        accepted = self.peer.accepted_epoch
        if message.epoch < accepted:
            self.peer.start_election(f"leader {source} proposes epoch {message.epoch}, {accepted} is promised")
            return
        if message.epoch > accepted:
            self.promise(message.epoch)
            self.peer.promised = (message.epoch, source)
        self.peer.enter(self, Phase.SYNCHRONIZATION)
        self.acknowledge_epoch()

    def promise(self, epoch: int) -> None:
        """Set f.p to `epoch`, durable before any message mentions it (ZOOKEEPER-335, 1082)."""
        self.peer.accepted_epoch = epoch
        self.out.record(EpochRecord(epoch))
        self.out.event_after_sync("accepted_epoch", epoch=epoch, leader=self.leader)

    def acknowledge_epoch(self) -> None:
        peer, history = self.peer, self.journal.history
        ack = m.AckEpoch(
            peer.accepted_epoch,
            peer.current_epoch,
            history.last,
            history.shape(),
            promised=peer.promised == (peer.accepted_epoch, self.leader),
            amnesiac=peer.amnesiac,
        )
        self.out.send_after_sync(self.leader, ack)

    def on_confirm(self, source: int, message: m.Confirm) -> None:
        """Confirm that this node still follows.

        In the session with its leader, and since its promise, a follower has promised no later epoch.
        """
        if message.epoch == self.peer.accepted_epoch and not self.peer.amnesiac:
            self.out.send(source, m.Confirmed(message.epoch, message.number))

    def on_fetch(self, source: int, message: m.Fetch) -> None:
        if message.epoch == self.peer.accepted_epoch:
            sync = self.journal.history.difference(message.shape)
            self.out.send_after_sync(source, m.History(message.epoch, self.peer.current_epoch, sync))

    # ---- phase 2, synchronization ----

    def on_new_leader(self, source: int, message: m.NewLeader) -> None:
        """f.2.1: store the initial history and the epoch, both or neither."""
        peer = self.peer
        if message.epoch != peer.accepted_epoch or self.joined:
            peer.start_election(
                f"NEWLEADER of epoch {message.epoch}; {peer.accepted_epoch} is promised, joined: {self.joined}"
            )
            return
        self.journal.adopt(message.sync, message.epoch)
        peer.set_current_epoch(message.epoch)
        self.joined = True
        self.acknowledge_leader()

    def acknowledge_leader(self) -> None:
        """f.2.1: send ACK-LD when history and epoch are durable (ZOOKEEPER-3911, 4646)."""
        peer = self.peer
        self.out.send_after_sync(self.leader, m.AckLeader(peer.current_epoch, self.journal.history.last, peer.amnesiac))

    def on_commit_leader(self, source: int, message: m.CommitLeader) -> None:
        """f.2.2: deliver the initial history."""
        if message.epoch != self.peer.current_epoch or not self.joined or self.phase != Phase.SYNCHRONIZATION:
            self.on_stray(source, message)
            return
        self.check_committed("COMMIT-LD", message.committed)
        self.deadline = None
        self.peer.enter(self, Phase.BROADCAST)
        self.journal.commit(message.committed)
        self.peer.check_digest(message.committed, message.digest, source)

    def on_member(self, source: int, message: m.Member) -> None:
        if self.peer.amnesiac and message.epoch == self.peer.current_epoch:
            self.out.record(MemberRecord(), lambda: self.become_member(message.epoch))
            self.out.event_after_sync("member", epoch=message.epoch, quorum=message.quorum)

    def become_member(self, epoch: int) -> None:
        """Count in quorums again, also if the leader was lost meanwhile.

        The disk holds an established leader's history, so this node can keep what it promises from now on.
        """
        self.peer.amnesiac = False
        if not self.is_current:
            self.peer.start_election("this node counts again")
            return
        self.out.send(self.leader, m.AckLeader(epoch, self.journal.durable, amnesiac=False))

    # ---- phase 3, broadcast ----

    def on_propose(self, source: int, message: m.Propose) -> None:
        """f.3.2: accept the next transactions of the epoch. Anything else ends the iteration."""
        epoch, history, first = self.peer.current_epoch, self.journal.history, message.run.first
        if not self.joined or message.epoch != epoch:
            self.peer.start_election(f"PROPOSE of epoch {message.epoch} in epoch {epoch}")
            return
        if zx.epoch_of(first) != epoch or not history.is_next(first):
            self.peer.start_election(f"PROPOSE {zx.show(first)} does not follow {zx.show(history.last)}")
            return
        self.accept(message)
        self.peer.check_digest(message.committed, message.digest, source)

    def accept(self, message: m.Propose) -> None:
        self.journal.append(message.run, self.peer.current_epoch)
        self.ack_due = True

    def on_ready(self) -> None:
        """f.3.2: send one ACK for everything accepted, when it is durable."""
        if self.ack_due:
            self.ack_due = False
            self.out.send_after_sync(self.leader, m.Ack(self.peer.current_epoch, self.journal.history.last))

    def on_commit(self, source: int, message: m.Commit) -> None:
        """f.3.3: deliver in zxid order what is committed."""
        if message.epoch == self.peer.current_epoch:
            self.check_committed("COMMIT", message.zxid)
            self.journal.commit(message.zxid)
            self.peer.check_digest(message.zxid, message.digest, source)
        else:
            self.on_stray(source, message)

    def check_committed(self, name: str, upto: zx.Zxid) -> None:
        """Raise SanityCheckFailed if `upto` is beyond this history: channels are FIFO, so that can't be committed."""
        last = self.journal.history.last
        if upto > last:
            raise SanityCheckFailed(f"{name} up to {zx.show(upto)}, beyond {zx.show(last)}")
