"""Phase 3, broadcast: proposals in zxid order, committed by a quorum of disks (DSN 2011, section IV).

Steps, the leader's: l.3.1 PROPOSE, l.3.2 COMMIT, l.3.3 and l.3.4 for a follower that comes later. The follower's, f.3.2
accept and ACK, and f.3.3 deliver, are in `following`. ACK and COMMIT are cumulative, and everything that gathered since the
last `ready()` leaves as one message: batches, but nobody waits for a batch to fill.
"""

from typing import TYPE_CHECKING

from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.followers import Followers, Inquiry
from zab_chaos.node.core.leading import Leading
from zab_chaos.node.core.messages import Ack, AckEpoch, AckLeader, Commit, CommitLeader, Confirmed, Member, Propose, Run
from zab_chaos.node.core.ready import TxnRecords
from zab_chaos.node.core.zxid import ZERO, Zxid

if TYPE_CHECKING:
    from zab_chaos.node.core.peer import Peer


class Broadcasting(Leading):
    """The primary: the leader of an established epoch, in the steady state."""

    def __init__(self, peer: "Peer", followers: Followers, epoch: int, initial_last: Zxid) -> None:
        super().__init__(peer, followers, epoch)
        self.primary = self
        self.initial_last = initial_last  # of the initial history I_e'
        self.gathered: list[bytes] = []  # submitted since the last PROPOSE
        last = self.journal.history.last
        self.counter = zx.counter_of(last) if zx.epoch_of(last) == epoch else 0  # of the last one that was submitted
        self.commit_due = True  # something was acknowledged since the commit point was looked at
        self.announced: Zxid = ZERO  # the last commit point that was sent
        self.admissions: dict[int, Inquiry] = {}  # nodes that lost their disk and hold the history now

    def begin(self) -> None:
        """l.2.2: all of I_e' is committed."""
        self.journal.commit(self.initial_last)
        for peer in self.followers.active():
            self.welcome(peer)

    def supporting(self) -> set[int]:
        """Those that joined this leader."""
        return {p for p in self.followers.counted() if p == self.me or self.followers[p].ack_epoch is not None}

    def on_tick(self) -> None:
        if self.counter >= self.peer.settings.counter_max and self.journal.committed == self.journal.history.last:
            self.peer.look("the epoch's counter is exhausted")

    def on_ready(self) -> None:
        if self.gathered:
            self.flush()
        if self.commit_due:
            self.commit()
        if self.journal.delivered > self.announced:
            self.announce()

    # ---- proposals ----

    @property
    def room(self) -> int:
        """How many transactions may be submitted now; the rest must wait."""
        settings, committed, proposed = self.peer.settings, self.journal.committed, self.counter
        in_flight = proposed - (zx.counter_of(committed) if zx.epoch_of(committed) == self.epoch else 0)
        return max(0, min(settings.outstanding - in_flight, settings.counter_max - proposed))

    def next_zxid(self) -> Zxid:
        """The zxid that the next submitted transaction will have."""
        return zx.zxid(self.epoch, self.counter + 1)

    def submit(self, txns: list[bytes]) -> Zxid:
        """Take transactions to propose; the zxid of the first."""
        first = self.next_zxid()
        self.gathered += txns
        self.counter += len(txns)
        return first

    def flush(self) -> None:
        """l.3.1: one PROPOSE for all that was submitted; the own log is written in parallel."""
        journal = self.journal
        run = Run(zx.zxid(self.epoch, self.counter - len(self.gathered) + 1), self.gathered)
        self.gathered = []
        records = journal.history.append(run)
        self.out.event(
            "broadcast",
            epoch=self.epoch,
            first=zx.counter_of(run.first),
            digests=dg.show_all(records.digests),
            delivered=zx.pair(journal.delivered),
        )
        self.log_own(records)
        message = Propose(self.epoch, run, journal.delivered, journal.digest)
        for peer, follower in self.followers.items():
            if follower.forwarding:
                self.out.send(peer, message)

    def log_own(self, records: TxnRecords) -> None:
        """The leader is a follower too: its own log, and its own ACK when that is durable."""
        last = self.journal.history.last
        self.journal.write(records, self.epoch, lambda: self.own_ack(last))

    # ---- commits ----

    def own_ack(self, last: Zxid) -> None:
        """The leader's own disk is done."""
        self.journal.now_durable(last)
        self.commit_due = True

    def on_ack(self, source: int, message: Ack) -> None:
        follower = self.followers.get(source)
        if follower is None or not follower.active or message.epoch != self.epoch:
            return
        self.check_proposed(source, message.zxid)
        follower.acked = max(follower.acked, message.zxid)
        if message.zxid > self.journal.committed:
            self.commit_due = True

    def commit_point(self) -> Zxid:
        """The last zxid that a quorum of disks holds."""
        acked = [f.acked for f in self.followers.values() if f.active and not f.amnesiac]
        acked.append(self.journal.durable)
        return self.quorum.reached(acked)

    def commit(self) -> None:
        """l.3.2: commit in order what a quorum holds."""
        self.commit_due = False
        point = self.commit_point()
        if point > self.journal.committed:
            self.journal.commit(point)

    def announce(self) -> None:
        """l.3.2: one cumulative COMMIT for whatever was delivered since the last one."""
        self.announced = self.journal.delivered
        message = Commit(self.epoch, self.journal.delivered, self.journal.digest)
        for peer, follower in self.followers.items():
            if follower.active:
                self.out.send(peer, message)

    # ---- followers that come later ----

    def send_new_leader(self, peer: int, ack: AckEpoch) -> None:
        """l.3.3: the history and what was broadcast so far; what was gathered before is in it."""
        if self.gathered:
            self.flush()
        super().send_new_leader(peer, ack)

    def on_ack_leader(self, source: int, message: AckLeader) -> None:
        """l.3.4: it has joined."""
        follower = self.take_ack_leader(source, message)
        if follower is None:
            return
        if follower.active:
            self.admit(source)
        else:
            follower.active = True
            self.welcome(source)
        self.commit_due = True

    def welcome(self, peer: int) -> None:
        """l.2.2 and l.3.4: COMMIT-LD, with the commit point of now."""
        self.out.send(peer, CommitLeader(self.epoch, self.journal.delivered, self.journal.digest))
        self.admit(peer)

    # ---- nodes that lost their disk ----

    def admit(self, peer: int) -> None:
        """It holds the history. If it had lost its disk, the members are asked; if it is one, it is asked about the others."""
        if not self.followers[peer].amnesiac:
            for inquiry in self.admissions.values():
                self.ask(inquiry, peer)
        elif peer not in self.admissions:
            inquiry = self.admissions[peer] = self.inquire(self.members())
            self.conclude(peer, inquiry)

    def members(self) -> set[int]:
        """The followers that count and hold the history."""
        return self.followers.counted() & set(self.followers.active())

    def on_confirmed(self, source: int, message: Confirmed) -> None:
        for peer, inquiry in self.admissions.items():
            if inquiry.takes(source, message):
                self.conclude(peer, inquiry)
                return

    def conclude(self, peer: int, inquiry: Inquiry) -> None:
        confirmed = self.confirmed(inquiry)
        if confirmed is not None:
            self.admitted(peer, confirmed)

    def admitted(self, peer: int, confirmed: set[int]) -> None:
        """A quorum of members has confirmed: the node counts again when it has this on its disk."""
        self.admissions.pop(peer, None)
        self.out.send(peer, Member(self.epoch, sorted(confirmed | {self.me})))

    def on_link_down(self, peer: int, why: str) -> None:
        self.admissions.pop(peer, None)
        for inquiry in self.admissions.values():
            inquiry.forget(peer)
        super().on_link_down(peer, why)
