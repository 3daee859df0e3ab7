"""Phase 3, broadcast: proposals in zxid order, committed by a quorum of disks (DSN 2011, section IV).

Steps: l.3.1 PROPOSE, f.3.2 accept and ACK, l.3.2 COMMIT, f.3.3 deliver. ACK and COMMIT are cumulative, and everything
that gathered since the last `ready()` leaves as one message: batches, but nobody waits for a batch to fill.
"""

from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.machine import NotLeading, SanityCheckFailed
from zab_chaos.node.core.messages import Ack, Commit, Propose, Run
from zab_chaos.node.core.ready import TxnRecords
from zab_chaos.node.core.synchronization import Synchronization
from zab_chaos.node.core.zxid import ZERO, Zxid


class Broadcast(Synchronization):
    """The steady state."""

    gathered: list[bytes]  # submitted since the last PROPOSE
    ack_due = False
    announced: Zxid = ZERO  # the last commit point that was sent

    def abandon(self) -> None:
        super().abandon()
        self.gathered = []
        self.ack_due = False
        self.commit_due = False
        self.joined = False
        self.announced = ZERO

    # ---- leader ----

    @property
    def primary(self) -> bool:
        """Whether this node may broadcast: it leads an established epoch."""
        return self.established

    @property
    def room(self) -> int:
        """How many transactions may be submitted now; the rest must wait."""
        if not self.established:
            return 0
        assert self.epoch is not None
        proposed = self.next_counter() - 1
        in_flight = proposed - (zx.counter_of(self.committed) if zx.epoch_of(self.committed) == self.epoch else 0)
        return max(0, min(self.settings.outstanding - in_flight, self.settings.counter_max - proposed))

    def next_counter(self) -> int:
        """The counter of the next transaction of this leader's epoch."""
        last = self.history.last
        proposed = last & zx.COUNTER_MAX if last >> 32 == self.epoch else 0
        return proposed + len(self.gathered) + 1

    def next_zxid(self) -> Zxid:
        """The zxid that the next submitted transaction will have."""
        assert self.epoch is not None
        return zx.zxid(self.epoch, self.next_counter())

    def submit(self, txns: list[bytes]) -> Zxid:
        if not self.established:
            raise NotLeading("only the leader of an established epoch broadcasts")
        first = self.next_zxid()
        self.gathered += txns
        return first

    def flush(self) -> None:
        """l.3.1: one PROPOSE for all that was submitted; the own log is written in parallel."""
        if not self.gathered:
            return
        assert self.epoch is not None
        run = Run(zx.zxid(self.epoch, self.next_counter() - len(self.gathered)), self.gathered)
        self.gathered = []
        records = self.history.append(run)
        self.event(
            "broadcast",
            epoch=self.epoch,
            first=zx.counter_of(run.first),
            digests=dg.show_all(records.digests),
            delivered=zx.pair(self.delivered),
        )
        self.log_own(records)
        message = Propose(self.epoch, run, self.delivered, self.digest)
        for peer, follower in self.followers.items():
            if follower.forwarding:
                self.send(peer, message)

    def log_own(self, records: TxnRecords) -> None:
        """The leader is a follower too: its own log, and its own ACK when that is durable."""
        last = self.history.last
        self.record(records, lambda: self.own_ack(last))
        self.accepted(records.first, records.digests)

    def accepted(self, first: Zxid, digests: list[int]) -> None:
        self.event_after_sync(
            "accept",
            in_epoch=self.current_epoch,
            epoch=zx.epoch_of(first),
            first=zx.counter_of(first),
            digests=dg.show_all(digests),
        )

    def own_ack(self, last: Zxid) -> None:
        """The leader's own disk is done."""
        self.now_durable(last)
        self.commit_due = True

    def on_ack(self, source: int, message: Ack) -> None:
        follower = self.followers.get(source)
        if follower is None or not follower.active or message.epoch != self.epoch:
            return
        if message.zxid > self.history.last:
            raise SanityCheckFailed(f"node {source} acknowledges {zx.show(message.zxid)}, never proposed")
        follower.acked = max(follower.acked, message.zxid)
        self.commit_due = True

    def commit_point(self) -> Zxid:
        """The last zxid that a quorum of disks holds."""
        acked = [f.acked for f in self.followers.values() if f.active and not f.amnesiac]
        acked.append(self.durable)
        return self.quorum.reached(acked)

    def commit(self) -> None:
        """l.3.2: commit in order what a quorum holds, and say so."""
        self.commit_due = False
        point = self.commit_point()
        if point > self.committed:
            self.committed = point
            self.deliver()

    def announce(self) -> None:
        """One cumulative COMMIT for whatever was delivered since the last one."""
        assert self.epoch is not None
        self.announced = self.delivered
        message = Commit(self.epoch, self.delivered, self.digest)
        for peer, follower in self.followers.items():
            if follower.active:
                self.send(peer, message)

    # ---- follower ----

    def on_propose(self, source: int, message: Propose) -> None:
        if not self.joined or message.epoch != self.current_epoch:
            self.look(f"PROPOSE of epoch {message.epoch} in epoch {self.current_epoch}")
            return
        if zx.epoch_of(message.run.first) != message.epoch or not self.history.is_next(message.run.first):
            self.look(f"PROPOSE {zx.show(message.run.first)} does not follow {zx.show(self.history.last)}")
            return
        records = self.history.append(message.run)
        last = self.history.last
        self.record(records, lambda: self.now_durable(last))
        self.accepted(records.first, records.digests)
        self.ack_due = True
        self.check_digest(message.committed, message.digest, source)

    def on_commit(self, source: int, message: Commit) -> None:
        if message.epoch != self.current_epoch:
            return
        if message.zxid > self.history.last:
            raise SanityCheckFailed(f"COMMIT up to {zx.show(message.zxid)}, beyond {zx.show(self.history.last)}")
        self.committed = max(self.committed, message.zxid)
        self.deliver()
        self.check_digest(message.zxid, message.digest, source)

    # ---- both ----

    def on_ready(self) -> None:
        if self.established:
            if self.gathered:
                self.flush()
            if self.commit_due:
                self.commit()
            if self.delivered > self.announced:
                self.announce()
        elif self.ack_due and self.leader is not None:
            self.ack_due = False
            self.send_after_sync(self.leader, Ack(self.current_epoch, self.history.last))

    def on_tick(self) -> None:
        if self.deadline is not None or self.finalize_at is not None:
            super().on_tick()
        if self.established and self.committed == self.history.last and self.next_counter() > self.settings.counter_max:
            self.look("the epoch's counter is exhausted")


class Peer(Broadcast):
    """The whole protocol: what a node, a simulation and a replay run."""
