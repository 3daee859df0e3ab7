"""Phase 0: FastLeaderElection. It decides who tries to lead; it never decides what is safe.

A vote is (current epoch, last zxid, id), and the highest one wins. Votes belong to rounds: a voter adopts a higher
round and starts its tally anew, and answers a lower one with its own vote. The zxid voted on is the log's last one,
also when it is not committed (ZOOKEEPER-2845). A node that lost its disk votes for nobody (ZOOKEEPER-261, 2325).
"""

from node.core.machine import Machine
from node.core.messages import Cepoch, Message, Phase, Ping, Role, Vote
from node.core.zxid import Zxid, pair


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
        self.vote = self.own_vote()
        for peer in partners:
            self.reset(peer, why)
        self.propose_vote(self.vote)

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

    @staticmethod
    def better(a: Vote, b: Vote) -> bool:
        """Whether `a` is for a better leader than `b`."""
        return (a.epoch, a.zxid, a.leader) > (b.epoch, b.zxid, b.leader)

    def propose_vote(self, vote: Vote) -> None:
        """Vote, and tell everybody."""
        self.vote = Vote(self.round, vote.leader, vote.zxid, vote.epoch, Role.LOOKING, self.amnesiac)
        self.tally = {peer: v for peer, v in self.tally.items() if v.round == self.round}
        if not self.amnesiac:
            self.tally[self.me] = self.vote
        self.finalize_at = None
        self.event("vote", round=self.round, leader=vote.leader, zxid=pair(vote.zxid), epoch=vote.epoch)
        self.send_all(self.vote)
        self.check_tally()

    def on_vote(self, source: int, vote: Vote) -> None:
        if self.role != Role.LOOKING:
            if vote.role == Role.LOOKING:
                self.send(source, self.standing_vote())
            return
        if vote.role != Role.LOOKING:
            self.settled[source] = vote
            self.check_settled(vote)
            return
        self.settled.pop(source, None)
        if vote.amnesiac:
            self.without_disk |= {source}
            return
        self.without_disk -= {source}
        if self.amnesiac:
            return
        if vote.round < self.round:
            self.send(source, self.vote)
            return
        if vote.round > self.round:
            self.round = vote.round
            own = self.own_vote()
            self.propose_vote(vote if self.better(vote, own) else own)
        elif self.better(vote, self.vote):
            self.propose_vote(vote)
        if self.role == Role.LOOKING:
            self.tally[source] = vote
            self.check_tally()

    def standing_vote(self) -> Vote:
        """What a node that follows or leads answers to one that looks."""
        assert self.leader is not None
        return Vote(self.round, self.leader, self.history.last, self.current_epoch, self.role, self.amnesiac)

    def supporters(self) -> set[int]:
        """Who votes as this node does, itself included."""
        mine = (self.vote.epoch, self.vote.zxid, self.vote.leader)
        return {peer for peer, v in self.tally.items() if (v.epoch, v.zxid, v.leader) == mine}

    def check_tally(self) -> None:
        """A quorum agrees: wait a moment for a better vote, but not if nobody in reach is left to bring one."""
        if self.role != Role.LOOKING or self.amnesiac:
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

    def check_settled(self, vote: Vote) -> None:
        """Join a leader that says itself that it leads, if a quorum stands behind it once this node has joined.

        Without this node in the count, the last one that a quorum needs stays away: 1, 2 and 3 of four are up, 2 and 3
        decide for 3 before 1 has heard of it, 1 finds two behind 3 and waits, 3 gives up without a third, and so on for ever.
        """
        leader = vote.leader
        behind = {peer for peer, v in self.settled.items() if v.leader == leader and not v.amnesiac}
        if not self.amnesiac:
            behind.add(self.me)
        head = self.settled.get(leader)
        if leader != self.me and head is not None and head.role == Role.LEADING and self.quorum.has(behind):
            self.round = max(self.round, head.round)
            self.follow(leader)

    def on_link_up(self, peer: int) -> None:
        if self.role == Role.LOOKING:
            self.send(peer, self.vote)
        elif self.role == Role.FOLLOWING and peer == self.leader:
            self.introduce()

    def on_link_down(self, peer: int, why: str) -> None:
        if self.role == Role.LOOKING:
            self.tally.pop(peer, None)
            self.settled.pop(peer, None)
            self.early.pop(peer, None)
            self.without_disk -= {peer}
            self.check_tally()
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
