"""Phase 2, synchronization: a quorum makes initial history and epoch durable together (DSN 2011, section IV).

Steps: l.2.1 NEWLEADER, f.2.1 ACK-LD, l.2.2 COMMIT-LD, f.2.2 delivery of I_e'. Computing a follower's difference and
putting it on the list of those who get every PROPOSE is one step, so a joiner misses nothing and gets nothing twice
(ZOOKEEPER-962, 1264; the spot that DSN 2011 leaves open).
"""

from collections.abc import Callable

from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.discovery import Discovery
from zab_chaos.node.core.machine import SanityCheckFailed
from zab_chaos.node.core.messages import (
    AckEpoch,
    AckLeader,
    CommitLeader,
    Member,
    NewLeader,
    Phase,
    Role,
    Sync,
)
from zab_chaos.node.core.ready import MemberRecord, NewLeaderRecord, SnapRecord, TruncRecord
from zab_chaos.node.core.zxid import Zxid


class Synchronization(Discovery):
    """Both sides of phase 2."""

    established = False
    own_history_durable = False  # the leader's own ACK-LD
    admissions: dict[int, int]  # nodes that lost their disk and hold the history now; the inquiry about each

    def abandon(self) -> None:
        super().abandon()
        self.established = False
        self.own_history_durable = False
        self.admissions = {}

    # ---- both sides ----

    def adopt(self, sync: Sync, epoch: int) -> None:
        if sync.snapshot is None:
            self.cut_back(sync.keep)
        else:
            self.install(sync.snapshot)
        for run in sync.runs:
            if not self.history.is_next(run.first):
                raise SanityCheckFailed(f"{zx.show(run.first)} can not follow {zx.show(self.history.last)}")
            records = self.history.append(run)
            self.record(records)
            self.event_after_sync(
                "accept",
                in_epoch=epoch,
                epoch=zx.epoch_of(run.first),
                first=zx.counter_of(run.first),
                digests=dg.show_all(records.digests),
            )

    def cut_back(self, keep: Zxid) -> None:
        """Let go of what the new epoch skips (LADIS 2008, Figure 4). Never of anything that was delivered."""
        if keep not in self.history:
            raise SanityCheckFailed(f"the leader names {zx.show(keep)} as common, it is not in this history")
        if keep < self.delivered:
            raise SanityCheckFailed(f"a truncation to {zx.show(keep)} would undo delivered {zx.show(self.delivered)}")
        last = self.history.last
        self.record(TruncRecord(keep))  # also where nothing is cut: it opens the group that NEWLEADER closes
        if keep < last:
            self.history.truncate(keep)
            self.durable = min(self.durable, keep)
            self.event_after_sync("truncate", keep=zx.pair(keep), last=zx.pair(last))

    def install(self, snapshot: tuple[Zxid, int, bytes]) -> None:
        if snapshot[0] < self.delivered:
            raise SanityCheckFailed(
                f"a snapshot at {zx.show(snapshot[0])} would undo delivered {zx.show(self.delivered)}"
            )
        self.record(SnapRecord(*snapshot))
        self.history.replace(snapshot)
        self.durable = self.delivered
        zxid, digest, state = zx.pair(snapshot[0]), dg.show(snapshot[1]), snapshot[2]
        self.event_after_sync("snapshot", kind="installed", zxid=zxid, digest=digest, bytes=len(state))

    def close_group(self, epoch: int, effect: Callable[[], None]) -> None:
        """f.a := epoch, in the same sync as the history before it. `effect` happens when they are durable."""
        last = self.history.last
        guarded = self.in_this_iteration(effect)

        def durable() -> None:
            self.now_durable(last)
            guarded()

        self.current_epoch = epoch
        self.record(NewLeaderRecord(epoch), durable)
        self.event_after_sync("current_epoch", epoch=epoch, last_zxid=zx.pair(last))

    def now_durable(self, upto: Zxid) -> None:
        if upto in self.history:
            self.durable = max(self.durable, upto)
            self.deliver()

    # ---- leader ----

    def begin_synchronization(self, fetched: Sync | None) -> None:  # type: ignore[override]
        """The initial history is chosen: make it this node's own, and everybody's."""
        assert self.epoch is not None
        if fetched is not None:
            self.adopt(fetched, self.epoch)
            self.fetching = None
        self.close_group(self.epoch, self.own_ack_leader)
        self.initial_last = self.history.last
        self.enter(Role.LEADING, Phase.SYNCHRONIZATION, self.me, "history chosen")
        for peer in self.follower_ids():
            if self.followers[peer].ack_epoch is not None:
                self.send_new_leader(peer)

    def own_ack_leader(self) -> None:
        """The leader is a follower too: its own ACK-LD, when its disk is done."""
        self.own_history_durable = True
        self.try_establish()

    def send_new_leader(self, peer: int) -> None:
        """l.2.1 and l.3.3. From here on the follower gets every PROPOSE."""
        follower = self.followers[peer]
        assert self.epoch is not None
        assert follower.ack_epoch is not None
        self.flush()
        self.send(peer, NewLeader(self.epoch, self.difference_to(follower.ack_epoch)))
        follower.forwarding = True

    def difference_to(self, ack: AckEpoch) -> Sync:
        """What turns that follower's history into this one (ZOOKEEPER-1154, 1156)."""
        return self.history.difference(ack.shape)

    def on_ack_leader(self, source: int, message: AckLeader) -> None:
        follower = self.followers.get(source)
        if follower is None or not follower.forwarding or message.epoch != self.epoch:
            return
        if message.last_zxid > self.history.last:
            raise SanityCheckFailed(f"node {source} acknowledges {zx.show(message.last_zxid)}, never proposed")
        follower.amnesiac = message.amnesiac
        first, follower.active = not follower.active, True
        follower.acked = max(follower.acked, message.last_zxid)
        if self.established:
            if first:
                self.send(source, CommitLeader(self.epoch, self.delivered, self.digest))
            self.admit(source)
            self.commit_due = True
        else:
            self.try_establish()

    def admit(self, peer: int) -> None:
        """It holds the history. If it had lost its disk, the members are asked; if it is one, it is asked about the others."""
        if not self.followers[peer].amnesiac:
            for number in sorted(self.admissions.values()):
                self.ask(number, peer)
        elif peer not in self.admissions:
            number = self.inquire(self.members(), lambda confirmed: self.admitted(peer, confirmed))
            if number in self.inquiries:
                self.admissions[peer] = number

    def members(self) -> set[int]:
        """The followers that count and hold the history."""
        return {peer for peer in self.counted() - {self.me} if self.followers[peer].active}

    def admitted(self, peer: int, confirmed: set[int]) -> None:
        assert self.epoch is not None
        self.admissions.pop(peer, None)
        self.send(peer, Member(self.epoch, sorted(confirmed | {self.me})))

    def follower_gone(self, peer: int) -> None:
        number = self.admissions.pop(peer, None)
        if number is not None:
            del self.inquiries[number]
        super().follower_gone(peer)

    def acknowledged(self) -> set[int]:
        """Whose ACK-LD counts."""
        nodes = {p for p in self.promised_to_me() - {self.me} if self.followers[p].active}
        return nodes | {self.me} if self.own_history_durable else nodes

    def try_establish(self) -> None:
        """l.2.2: a quorum holds I_e' durably: all of it is committed, and the primary may broadcast: ready(e')."""
        if self.established or not self.own_history_durable or not self.quorum.has(self.acknowledged()):
            return
        assert self.epoch is not None
        self.established = True
        self.commit_due = True
        self.deadline = None
        self.committed = max(self.committed, self.initial_last)
        self.enter(Role.LEADING, Phase.BROADCAST, self.me, "established")
        self.event(
            "established",
            epoch=self.epoch,
            last_zxid=zx.pair(self.initial_last),
            quorum=sorted(self.acknowledged()),
        )
        self.deliver()
        for peer in self.follower_ids():
            if self.followers[peer].active:
                self.send(peer, CommitLeader(self.epoch, self.delivered, self.digest))
                self.admit(peer)

    # ---- follower ----

    def on_new_leader(self, source: int, message: NewLeader) -> None:
        if message.epoch != self.accepted_epoch or self.joined:
            self.look(f"NEWLEADER of epoch {message.epoch}; {self.accepted_epoch} is promised, joined: {self.joined}")
            return
        self.adopt(message.sync, message.epoch)
        self.close_group(message.epoch, self.deliver)
        self.joined = True
        self.acknowledge_leader(source)

    joined = False  # this follower has accepted its leader's NEWLEADER in this session

    def acknowledge_leader(self, leader: int) -> None:
        """f.2.1: only when history and epoch are durable (ZOOKEEPER-3911, 4646)."""
        self.send_after_sync(leader, AckLeader(self.current_epoch, self.history.last, self.amnesiac))

    def on_commit_leader(self, source: int, message: CommitLeader) -> None:
        if message.epoch != self.current_epoch or not self.joined or self.phase != Phase.SYNCHRONIZATION:
            return
        if message.committed > self.history.last:
            raise SanityCheckFailed(
                f"COMMIT-LD up to {zx.show(message.committed)}, beyond {zx.show(self.history.last)}"
            )
        self.deadline = None
        self.committed = message.committed
        self.enter(Role.FOLLOWING, Phase.BROADCAST, source, "established")
        self.deliver()
        self.check_digest(message.committed, message.digest, source)

    def on_member(self, source: int, message: Member) -> None:
        if self.amnesiac and message.epoch == self.current_epoch:
            quorum = message.quorum
            self.record(MemberRecord(), self.in_this_iteration(lambda: self.become_member(quorum)))

    def become_member(self, quorum: list[int]) -> None:
        """The disk holds an established leader's history: what this node promises from now on, it can keep."""
        self.amnesiac = False
        self.event("member", epoch=self.current_epoch, quorum=quorum)
        assert self.leader is not None
        self.send(self.leader, AckLeader(self.current_epoch, self.durable, amnesiac=False))

    # ---- the next phase's part ----

    commit_due = False
    initial_last: Zxid

    def flush(self) -> None:
        """Send the proposals that are still being gathered."""
        raise NotImplementedError
