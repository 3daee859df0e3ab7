"""Phase 3, broadcast: proposals in zxid order, committed by a quorum of disks (DSN 2011, section IV).

The leader's steps are here: l.3.1 PROPOSE, l.3.2 COMMIT, and l.3.3 and l.3.4 for a follower that joins later. The
follower's steps, f.3.2 accept and ACK and f.3.3 deliver, are in `following`. ACK and COMMIT are cumulative. Whatever has
gathered since the last `ready()` leaves as one message, but nothing waits for a batch to fill.
"""

from typing import TYPE_CHECKING

from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.followers import Followers, Inquiry
from zab_chaos.node.core.leading import Leading
from zab_chaos.node.core.messages import (
    Ack,
    AckEpoch,
    AckLeader,
    Commit,
    CommitLeader,
    Confirmed,
    Member,
    Propose,
    TxnRun,
)
from zab_chaos.node.core.ready import TxnRecords
from zab_chaos.node.core.zxid import ZERO, Zxid

if TYPE_CHECKING:
    from zab_chaos.node.core.peer import Peer

EXHAUSTED = "the epoch's counter is exhausted"  # why a leader resigns that has committed what it has


class Broadcasting(Leading):
    """The primary: the leader of an established epoch."""

    def __init__(self, peer: "Peer", followers: Followers, epoch: int, initial_last: Zxid) -> None:
        super().__init__(peer, followers, epoch)
        self.primary = self
        self.initial_last = initial_last  # the last zxid of the initial history I_e'
        self.unproposed: list[bytes] = []  # transactions submitted since the last PROPOSE
        self.before = zx.zxid(epoch, 0)  # the zxids of the epoch are above it, and up to the limit
        self.limit = zx.zxid(epoch, peer.settings.counter_max)
        last = self.journal.history.last
        self.submitted = last if zx.epoch_of(last) == epoch else self.before  # zxid of the last submitted transaction
        self.commit_due = True  # an ACK came since the commit point was computed
        self.announced: Zxid = ZERO  # the zxid of the last COMMIT
        self.admissions: dict[int, Inquiry] = {}  # by node that had lost its disk and holds the history now

    def begin(self) -> None:
        """l.2.2: commit all of I_e' and send COMMIT-LD."""
        self.journal.commit(self.initial_last)
        for peer in self.followers.active():
            self.send_commit_leader(peer)

    def supporting(self) -> set[int]:
        """Return the nodes that have joined this leader, itself included."""
        return {p for p in self.followers.counted() if p == self.me or self.followers[p].ack_epoch is not None}

    def on_tick(self) -> None:
        if self.submitted >= self.limit and self.journal.committed == self.journal.history.last:
            self.peer.start_election(EXHAUSTED)

    def on_ready(self) -> None:
        if self.unproposed:
            self.propose()
        if self.commit_due:
            self.commit()
        if self.journal.delivered > self.announced:
            self.announce()

    # ---- proposals ----

    @property
    def room(self) -> int:
        """How many transactions may be submitted now. The rest must wait."""
        committed, submitted = self.journal.committed, self.submitted
        in_flight = submitted - (committed if zx.epoch_of(committed) == self.epoch else self.before)
        room, left = self.peer.settings.outstanding - in_flight, self.limit - submitted
        if left < room:
            room = left
        return room if room > 0 else 0

    def submit(self, txns: list[bytes]) -> Zxid:
        """Accept transactions to propose, and return the zxid of the first one."""
        first = self.submitted + 1
        self.unproposed += txns
        self.submitted += len(txns)
        return first

    def propose(self) -> None:
        """l.3.1: send one PROPOSE for all submitted transactions. The leader's own log is written in parallel."""
        journal = self.journal
        run = TxnRun(self.submitted + (1 - len(self.unproposed)), self.unproposed)
        self.unproposed = []
        records = journal.history.append(run)
        self.out.event(
            "broadcast",
            epoch=self.epoch,
            first=zx.counter_of(run.first),
            digests=dg.show_all(records.digests),
            delivered=zx.pair(journal.delivered),
        )
        self.write_own_log(records)
        message = Propose(self.epoch, run, journal.delivered, journal.digest)
        for peer, follower in self.followers.items():
            if follower.forwarding:
                self.out.send(peer, message)

    def write_own_log(self, records: TxnRecords) -> None:
        """Log as a follower of itself: the leader's own ACK counts when its own disk has the transactions."""
        last = self.journal.history.last
        self.journal.write(records, self.epoch, lambda: self.own_ack(last))

    # ---- commits ----

    def own_ack(self, last: Zxid) -> None:
        """Count the leader's own ACK: its disk holds everything up to `last`."""
        self.journal.mark_durable(last)
        self.commit_due = True

    def on_ack(self, source: int, message: Ack) -> None:
        follower = self.followers.get(source)
        if follower is None or not follower.active or message.epoch != self.epoch:
            self.on_stray(source, message)
            return
        self.check_proposed(source, message.zxid)
        if message.zxid > follower.acked:
            follower.acked = message.zxid
        if message.zxid > self.journal.committed:
            self.commit_due = True

    def commit_point(self) -> Zxid:
        """Return the last zxid that a quorum of disks holds."""
        acked = [self.journal.durable]
        for follower in self.followers.values():
            if follower.active and not follower.amnesiac:
                acked.append(follower.acked)
        return self.quorum.reached(acked)

    def commit(self) -> None:
        """l.3.2: commit in zxid order what a quorum of disks holds."""
        self.commit_due = False
        self.journal.commit(self.commit_point())

    def announce(self) -> None:
        """l.3.2: send one cumulative COMMIT for everything delivered since the last one."""
        self.announced = self.journal.delivered
        message = Commit(self.epoch, self.journal.delivered, self.journal.digest)
        for peer, follower in self.followers.items():
            if follower.active:
                self.out.send(peer, message)

    # ---- followers that come later ----

    def send_new_leader(self, peer: int, ack: AckEpoch) -> None:
        """l.3.3: send the history including everything broadcast so far; unproposed transactions are proposed first."""
        if self.unproposed:
            self.propose()
        super().send_new_leader(peer, ack)

    def on_ack_leader(self, source: int, message: AckLeader) -> None:
        """l.3.4: the follower has joined."""
        follower = self.take_ack_leader(source, message)
        if follower is None:
            return
        if follower.active:
            self.update_admissions(source)
        else:
            follower.active = True
            self.send_commit_leader(source)
        self.commit_due = True

    def send_commit_leader(self, peer: int) -> None:
        """l.2.2 and l.3.4: send COMMIT-LD with the present commit point."""
        self.out.send(peer, CommitLeader(self.epoch, self.journal.delivered, self.journal.digest))
        self.update_admissions(peer)

    # ---- nodes that lost their disk ----

    def update_admissions(self, peer: int) -> None:
        """Take note that `peer` holds the history.

        If it had lost its disk, ask the members to confirm its admission. If it is a member, ask it about the admissions that
        are pending for other nodes.
        """
        if not self.followers[peer].amnesiac:
            for inquiry in self.admissions.values():
                self.ask(inquiry, peer)
        elif peer not in self.admissions:
            inquiry = self.admissions[peer] = self.inquire(self.members())
            self.conclude(peer, inquiry)

    def members(self) -> set[int]:
        """Return the followers that count in quorums and hold the history."""
        return self.followers.counted() & set(self.followers.active())

    def on_confirmed(self, source: int, message: Confirmed) -> None:
        for peer, inquiry in self.admissions.items():
            if inquiry.count_answer(source, message):
                self.conclude(peer, inquiry)
                return

    def conclude(self, peer: int, inquiry: Inquiry) -> None:
        confirmed = self.confirmed(inquiry)
        if confirmed is not None:
            self.send_member(peer, confirmed)

    def send_member(self, peer: int, confirmed: set[int]) -> None:
        """Tell a node that had lost its disk that a quorum of members has confirmed.

        It counts again once its disk holds the MEMBER record.
        """
        self.admissions.pop(peer, None)
        self.out.send(peer, Member(self.epoch, sorted(confirmed | {self.me})))

    def on_link_down(self, peer: int, why: str) -> None:
        self.admissions.pop(peer, None)
        for inquiry in self.admissions.values():
            inquiry.forget(peer)
        super().on_link_down(peer, why)
