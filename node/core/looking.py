"""Phase 0: FastLeaderElection. It decides who tries to lead; it never decides what is safe.

A vote is (current epoch, last zxid, id), and the highest one wins. Votes belong to rounds: a voter adopts a higher
round and starts its count anew, and answers a lower one with its own vote. The zxid voted on is the log's last one,
also when it is not committed (ZOOKEEPER-2845). A node that lost its disk votes for nobody (ZOOKEEPER-261, 2325).

Where not everybody reaches everybody, the best history may be at a node that can't lead. So a node stands only if it
reaches a quorum, and gets votes only from those that it reaches: they hear of it from itself. The best of those that
stand is then voted for by all that it reaches, which is a quorum.
"""

from typing import TYPE_CHECKING

from zab_chaos.node.core.messages import NOBODY, Cepoch, Role, Vote
from zab_chaos.node.core.role import RoleState
from zab_chaos.node.core.zxid import ZERO, Zxid, pair

if TYPE_CHECKING:
    from zab_chaos.node.core.peer import Peer


class Looking(RoleState):
    """Looking for a leader. The deadline is when the election is decided, while a quorum agrees."""

    role = Role.LOOKING

    def __init__(self, peer: "Peer") -> None:
        super().__init__(peer)
        self.votes: dict[int, Vote] = {}  # votes of this round, one a voter
        self.settled: dict[int, Vote] = {}  # what nodes say that follow or lead
        self.early: dict[int, Cepoch] = {}  # from nodes that have decided for this one before it has itself
        self.vote = self.best_candidate()

    def begin(self) -> None:
        self.propose_vote(self.vote)

    # ---- whom to vote for ----

    def own_vote(self) -> Vote:
        epoch, last = self.peer.history_key()
        return self.vote_for(self.me, last, epoch)

    def vote_for(self, leader: int, zxid: Zxid, epoch: int) -> Vote:
        return Vote(self.peer.round, leader, zxid, epoch, Role.LOOKING, self.peer.amnesiac)

    @property
    def stands(self) -> bool:
        """Whether this node could lead: it kept its disk, and reaches a quorum of those that kept theirs."""
        peer = self.peer
        return not peer.amnesiac and self.quorum.has((peer.links - peer.without_disk) | {self.me})

    def best_candidate(self) -> Vote:
        """The best of those that stand and can be reached: each is known from its vote for itself."""
        best = self.own_vote() if self.stands else self.vote_for(NOBODY, ZERO, 0)
        if not self.peer.amnesiac:
            for peer, vote in self.votes.items():
                if vote.leader == peer != self.me and peer in self.peer.links and self.better(vote, best):
                    best = vote
        return best

    @staticmethod
    def better(a: Vote, b: Vote) -> bool:
        """Whether `a` is for a better leader than `b`."""
        return (a.epoch, a.zxid, a.leader) > (b.epoch, b.zxid, b.leader)

    def propose_vote(self, vote: Vote) -> None:
        """Vote, and tell everybody."""
        self.vote = self.vote_for(vote.leader, vote.zxid, vote.epoch)
        if not self.peer.amnesiac:
            self.votes[self.me] = self.vote
        self.deadline = None
        leader = vote.leader or None
        self.out.event("vote", round=self.peer.round, leader=leader, zxid=pair(vote.zxid), epoch=vote.epoch)
        self.out.send_all(self.vote)
        self.check_tally()

    def reconsider(self) -> None:
        """Something was heard: vote for somebody else if that one is better now."""
        best = self.best_candidate()
        if (best.leader, best.zxid, best.epoch) != (self.vote.leader, self.vote.zxid, self.vote.epoch):
            self.propose_vote(best)
        else:
            self.check_tally()
        for leader in sorted(self.settled):
            if self.is_current:
                self.check_settled(leader)

    # ---- votes ----

    def on_vote(self, source: int, vote: Vote) -> None:
        if vote.role != Role.LOOKING:
            self.settled[source] = vote
            self.check_settled(vote.leader)
            return
        self.settled.pop(source, None)
        if vote.amnesiac:
            self.peer.without_disk |= {source}
            self.votes.pop(source, None)
        else:
            self.peer.without_disk -= {source}
            self.count(source, vote)
        if self.is_current:
            self.reconsider()

    def count(self, source: int, vote: Vote) -> None:
        """A vote of another round begins this one anew, or is answered."""
        if self.peer.amnesiac:
            return
        if vote.round < self.peer.round:
            self.out.send(source, self.vote)
        elif vote.round > self.peer.round:
            self.peer.round = vote.round
            self.votes = {source: vote}
            self.propose_vote(self.best_candidate())
        else:
            self.votes[source] = vote

    def supporters(self) -> set[int]:
        """Who votes as this node does, itself included."""
        mine = (self.vote.epoch, self.vote.zxid, self.vote.leader)
        return {peer for peer, v in self.votes.items() if (v.epoch, v.zxid, v.leader) == mine}

    def check_tally(self) -> None:
        """A quorum agrees: wait a moment for a better vote, but not if nobody in reach is left to bring one."""
        if self.vote.leader == NOBODY:
            return
        peer, supporters = self.peer, self.supporters()
        if not self.quorum.has(supporters):
            self.deadline = None
        elif supporters >= (peer.links | {self.me}) - peer.without_disk:
            self.settle()
        elif self.deadline is None:
            self.deadline = peer.now + peer.settings.finalize

    def check_settled(self, leader: int) -> None:
        """Join a leader that says itself that it leads, if it is established, or this node votes for it, or a quorum
        stands behind it once this node has joined.

        Without this node in the count, the last one that a quorum needs stays away: 1, 2 and 3 of four are up, 2 and 3
        decide for 3 before 1 has heard of it, 1 finds two behind 3 and waits, 3 gives up without a third, and so on for ever.
        And who reaches nobody but the leader never hears of a quorum.
        """
        head = self.settled.get(leader)
        if head is None or head.leader != leader or head.role != Role.LEADING or leader not in self.peer.links:
            return
        behind = {peer for peer, v in self.settled.items() if v.leader == leader and not v.amnesiac}
        if not self.peer.amnesiac:
            behind.add(self.me)
        if head.established or self.vote.leader == leader or self.quorum.has(behind):
            self.join(leader, head.round)

    # ---- the decision ----

    def expire(self) -> None:
        """A quorum has agreed for long enough."""
        self.settle()

    def settle(self) -> None:
        if self.vote.leader == self.me:
            self.peer.lead(self.early)
        else:
            self.peer.follow(self.vote.leader, self.early)

    def join(self, leader: int, its_round: int) -> None:
        """Follow a leader that has decided already."""
        self.peer.round = max(self.peer.round, its_round)
        self.peer.follow(leader, self.early)

    def on_cepoch(self, source: int, message: Cepoch) -> None:
        """Keep it. When a quorum has decided for this node before it has itself, it leads: it may prefer somebody else, but
        whoever follows it waits for it, and would answer nobody else."""
        self.early[source] = message
        decided = {peer for peer, cepoch in self.early.items() if not cepoch.amnesiac}
        if not self.peer.amnesiac and self.quorum.has(decided | {self.me}):
            self.peer.lead(self.early)

    # ---- sessions ----

    def on_heartbeat(self) -> None:
        self.out.send_all(self.vote)

    def on_link_up(self, peer: int) -> None:
        self.out.send(peer, self.vote)
        self.reconsider()

    def on_link_down(self, peer: int, why: str) -> None:
        self.votes.pop(peer, None)
        self.settled.pop(peer, None)
        self.early.pop(peer, None)
        self.peer.without_disk -= {peer}
        self.reconsider()
