"""Phase 0: FastLeaderElection. It decides who tries to lead; it never decides what is safe.

A vote is (current epoch, last zxid, id), and the highest one wins. Votes belong to rounds: a voter adopts a higher
round and starts its tally anew, and answers a lower one with its own vote. The zxid voted on is the log's last one,
also when it is not committed (ZOOKEEPER-2845). A node that lost its disk votes for nobody (ZOOKEEPER-261, 2325).

Where not everybody reaches everybody, the best history may be at a node that can't lead. So a node stands only if it
reaches a quorum, and gets votes only from those that it reaches: they hear of it from itself. The best of those that
stand is then voted for by all that it reaches, which is a quorum.
"""

from zab_chaos.node.core.machine import Machine
from zab_chaos.node.core.messages import Cepoch, Message, Phase, Ping, Role, Vote
from zab_chaos.node.core.zxid import ZERO, Zxid, pair

NOBODY = 0  # in a vote; node ids begin at 1


class Election(Machine):
    """Looking for a leader."""

    round = 0
    vote: Vote
    tally: dict[int, Vote]  # votes of this round, one a voter
    settled: dict[int, Vote]  # what nodes say that follow or lead
    early: dict[int, Cepoch]  # from nodes that have decided for this one before it has itself
    without_disk: frozenset[int] = frozenset()  # peers that said so: they bring no vote

    def look(self, why: str) -> None:
        partners = self.partners()
        self.iteration += 1
        self.committed = self.delivered
        self.deadline = None
        self.abandon()
        self.enter(Role.LOOKING, Phase.ELECTION, None, why)
        self.round += 1
        self.tally, self.settled, self.early = {}, {}, {}
        for peer in partners:
            self.reset(peer, why)
        self.propose_vote(self.best_candidate())

    def partners(self) -> list[int]:
        """The peers of the iteration that is left."""
        if self.role == Role.FOLLOWING and self.leader is not None:
            return [self.leader]
        return self.follower_ids() if self.role == Role.LEADING else []

    def history_key(self) -> tuple[int, Zxid]:
        """How good this node's history is: (current epoch, last zxid), in elections and in discovery."""
        return self.current_epoch, self.history.last

    def own_vote(self) -> Vote:
        epoch, last = self.history_key()
        return Vote(self.round, self.me, last, epoch, Role.LOOKING, self.amnesiac)

    def no_vote(self) -> Vote:
        return Vote(self.round, NOBODY, ZERO, 0, Role.LOOKING, self.amnesiac)

    @property
    def stands(self) -> bool:
        """Whether this node could lead: it kept its disk, and reaches a quorum of those that kept theirs."""
        return not self.amnesiac and self.quorum.has((self.links - self.without_disk) | {self.me})

    def best_candidate(self) -> Vote:
        """The best of those that stand and can be reached: each is known from its vote for itself."""
        best = self.own_vote() if self.stands else self.no_vote()
        if not self.amnesiac:
            for peer, vote in self.tally.items():
                if vote.leader == peer != self.me and peer in self.links and self.better(vote, best):
                    best = vote
        return best

    @staticmethod
    def better(a: Vote, b: Vote) -> bool:
        """Whether `a` is for a better leader than `b`."""
        return (a.epoch, a.zxid, a.leader) > (b.epoch, b.zxid, b.leader)

    def propose_vote(self, vote: Vote) -> None:
        """Vote, and tell everybody."""
        self.vote = Vote(self.round, vote.leader, vote.zxid, vote.epoch, Role.LOOKING, self.amnesiac)
        if not self.amnesiac:
            self.tally[self.me] = self.vote
        self.finalize_at = None
        self.event("vote", round=self.round, leader=vote.leader or None, zxid=pair(vote.zxid), epoch=vote.epoch)
        self.send_all(self.vote)
        self.check_tally()

    def reconsider(self) -> None:
        """Something was heard: vote for somebody else if that one is better now."""
        if self.vote.round != self.round:
            return  # the first vote of this round is still to come
        best = self.best_candidate()
        if (best.leader, best.zxid, best.epoch) != (self.vote.leader, self.vote.zxid, self.vote.epoch):
            self.propose_vote(best)
        else:
            self.check_tally()
        for leader in sorted(self.settled):
            if self.role == Role.LOOKING:
                self.check_settled(leader)

    def on_vote(self, source: int, vote: Vote) -> None:
        if self.role != Role.LOOKING:
            if vote.role == Role.LOOKING:
                self.send(source, self.standing_vote())
            return
        if vote.role != Role.LOOKING:
            self.settled[source] = vote
            self.check_settled(vote.leader)
            return
        self.settled.pop(source, None)
        if vote.amnesiac:
            self.without_disk |= {source}
            self.tally.pop(source, None)
        else:
            self.without_disk -= {source}
            self.count(source, vote)
        if self.role == Role.LOOKING:
            self.reconsider()

    def count(self, source: int, vote: Vote) -> None:
        """A vote of another round begins this one anew, or is answered."""
        if self.amnesiac:
            return
        if vote.round < self.round:
            self.send(source, self.vote)
        elif vote.round > self.round:
            self.round = vote.round
            self.tally = {source: vote}
            self.propose_vote(self.best_candidate())
        else:
            self.tally[source] = vote

    def standing_vote(self) -> Vote:
        """What a node that follows or leads answers to one that looks."""
        assert self.leader is not None
        epoch, last = self.current_epoch, self.history.last
        established = self.role is Role.LEADING and self.in_broadcast
        return Vote(self.round, self.leader, last, epoch, self.role, self.amnesiac, established)

    def supporters(self) -> set[int]:
        """Who votes as this node does, itself included."""
        mine = (self.vote.epoch, self.vote.zxid, self.vote.leader)
        return {peer for peer, v in self.tally.items() if (v.epoch, v.zxid, v.leader) == mine}

    def check_tally(self) -> None:
        """A quorum agrees: wait a moment for a better vote, but not if nobody in reach is left to bring one."""
        if self.role != Role.LOOKING or self.vote.leader == NOBODY:
            return
        supporters = self.supporters()
        if not self.quorum.has(supporters):
            self.finalize_at = None
        elif supporters >= (self.links | {self.me}) - self.without_disk:
            self.settle()
        elif self.finalize_at is None:
            self.finalize_at = self.now + self.settings.finalize

    def settle(self) -> None:
        if self.vote.leader == self.me:
            self.lead()
        else:
            self.follow(self.vote.leader)

    def check_settled(self, leader: int) -> None:
        """Join a leader that says itself that it leads, if it is established, or this node votes for it, or a quorum
        stands behind it once this node has joined.

        Without this node in the count, the last one that a quorum needs stays away: 1, 2 and 3 of four are up, 2 and 3
        decide for 3 before 1 has heard of it, 1 finds two behind 3 and waits, 3 gives up without a third, and so on for ever.
        And who reaches nobody but the leader never hears of a quorum.
        """
        head = self.settled.get(leader)
        if head is None or head.leader != leader or head.role != Role.LEADING or leader not in self.links:
            return
        behind = {peer for peer, v in self.settled.items() if v.leader == leader and not v.amnesiac}
        if not self.amnesiac:
            behind.add(self.me)
        if head.established or self.vote.leader == leader or self.quorum.has(behind):
            self.round = max(self.round, head.round)
            self.follow(leader)

    def on_link_up(self, peer: int) -> None:
        if self.role == Role.LOOKING:
            self.send(peer, self.vote)
            self.reconsider()
        elif self.role == Role.FOLLOWING and peer == self.leader:
            self.introduce()

    def on_link_down(self, peer: int, why: str) -> None:
        if self.role == Role.LOOKING:
            self.tally.pop(peer, None)
            self.settled.pop(peer, None)
            self.early.pop(peer, None)
            self.without_disk -= {peer}
            self.reconsider()
        elif self.role == Role.FOLLOWING and peer == self.leader:
            self.look(f"leader {peer}: {why}")
        elif self.role == Role.LEADING:
            self.follower_gone(peer)

    def on_stray(self, source: int, message: Message) -> None:
        """Nothing is expected from an iteration that is over; dropping it is what a closed channel would do."""

    def on_heartbeat(self) -> None:
        if self.role == Role.LOOKING:
            self.send_all(self.vote)
        self.send_all(Ping(self.role, self.current_epoch, self.delivered, self.digest))

    def on_ping(self, source: int, ping: Ping) -> None:
        self.check_digest(ping.delivered, ping.digest, source)

    def on_tick(self) -> None:
        if self.finalize_at is not None and self.now >= self.finalize_at and self.role == Role.LOOKING:
            self.settle()
        if self.deadline is not None and self.now >= self.deadline:
            self.look(f"{self.phase.name.lower()} took too long")

    # ---- the other phases' part ----

    def abandon(self) -> None:
        """Forget what belonged to the iteration that is left."""
        raise NotImplementedError

    def follower_ids(self) -> list[int]:
        raise NotImplementedError

    def follower_gone(self, peer: int) -> None:
        raise NotImplementedError

    def introduce(self) -> None:
        """Open phase 1 towards the leader: CEPOCH (f.1.1)."""
        raise NotImplementedError
