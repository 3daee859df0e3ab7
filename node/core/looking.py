"""Phase 0: FastLeaderElection. It decides which node tries to lead; safety never depends on it.

A vote is (current epoch, last zxid, id), and the highest one wins. Votes belong to rounds: a voter that sees a higher round
adopts it and starts its count anew, and answers a lower one with its own vote. The zxid in a vote is the last one in the
log, committed or not (ZOOKEEPER-2845). A node that lost its disk votes for no node (ZOOKEEPER-261, 2325).

In a network where some nodes can't reach each other, the best history may be at a node that can't lead. So a node is a
candidate only if it reaches a quorum, and only nodes that it reaches vote for it: they get its vote from itself. All nodes
that the best candidate reaches, which are a quorum, then vote for it.
"""

from typing import TYPE_CHECKING

from zab_chaos.node.core.messages import NOBODY, Cepoch, Role, Vote
from zab_chaos.node.core.role import RoleState
from zab_chaos.node.core.zxid import ZERO, Zxid, pair

if TYPE_CHECKING:
    from zab_chaos.node.core.peer import Peer


class Looking(RoleState):
    """A node that looks for a leader. While a quorum agrees, the deadline is when the election is decided."""

    role = Role.LOOKING

    def __init__(self, peer: "Peer") -> None:
        super().__init__(peer)
        self.votes: dict[int, Vote] = {}  # by voter, in this round
        self.settled: dict[int, Vote] = {}  # by node that follows or leads: its answer
        self.early: dict[int, Cepoch] = {}  # from nodes that decided for this one before it did
        self.vote = self.best_candidate()

    def begin(self) -> None:
        self.cast_vote(self.vote)

    # ---- whom to vote for ----

    def own_vote(self) -> Vote:
        epoch, last = self.peer.history_key()
        return self.vote_for(self.me, last, epoch)

    def vote_for(self, leader: int, zxid: Zxid, epoch: int) -> Vote:
        return Vote(self.peer.round, leader, zxid, epoch, Role.LOOKING, self.peer.amnesiac)

    @property
    def is_candidate(self) -> bool:
        """Whether this node could lead: it kept its disk, and reaches a quorum of nodes that kept theirs."""
        peer = self.peer
        return not peer.amnesiac and self.quorum.has((peer.links - peer.without_disk) | {self.me})

    def best_candidate(self) -> Vote:
        """Return a vote for the best candidate in reach. A candidate is known by its vote for itself."""
        best = self.own_vote() if self.is_candidate else self.vote_for(NOBODY, ZERO, 0)
        if not self.peer.amnesiac:
            for peer, vote in self.votes.items():
                if vote.leader == peer != self.me and peer in self.peer.links and self.better(vote, best):
                    best = vote
        return best

    @staticmethod
    def better(a: Vote, b: Vote) -> bool:
        """Return whether the leader that `a` votes for is better than that of `b`."""
        return (a.epoch, a.zxid, a.leader) > (b.epoch, b.zxid, b.leader)

    def cast_vote(self, vote: Vote) -> None:
        """Vote, and tell all peers."""
        self.vote = self.vote_for(vote.leader, vote.zxid, vote.epoch)
        if not self.peer.amnesiac:
            self.votes[self.me] = self.vote
        self.deadline = None
        leader = vote.leader or None
        self.out.event("vote", round=self.peer.round, leader=leader, zxid=pair(vote.zxid), epoch=vote.epoch)
        self.out.send_all(self.vote)
        self.check_tally()

    def reconsider(self) -> None:
        """Vote for another candidate if it is better now; then check whether the election is decided."""
        best = self.best_candidate()
        if (best.leader, best.zxid, best.epoch) != (self.vote.leader, self.vote.zxid, self.vote.epoch):
            self.cast_vote(best)
        else:
            self.check_tally()
        for leader in sorted(self.settled):
            if self.is_current:
                self.try_to_join(leader)

    # ---- votes ----

    def on_vote(self, source: int, vote: Vote) -> None:
        if vote.role != Role.LOOKING:
            self.settled[source] = vote
            self.try_to_join(vote.leader)
            return
        self.settled.pop(source, None)
        if vote.amnesiac:
            self.peer.without_disk |= {source}
            self.votes.pop(source, None)
        else:
            self.peer.without_disk -= {source}
            self.count_vote(source, vote)
        if self.is_current:
            self.reconsider()

    def count_vote(self, source: int, vote: Vote) -> None:
        """Count a vote of this round. A higher round restarts the count; a lower one is answered with the own vote."""
        if self.peer.amnesiac:
            return
        if vote.round < self.peer.round:
            self.out.send(source, self.vote)
        elif vote.round > self.peer.round:
            self.peer.round = vote.round
            self.votes = {source: vote}
            self.cast_vote(self.best_candidate())
        else:
            self.votes[source] = vote

    def supporters(self) -> set[int]:
        """Return the nodes whose votes equal this node's, itself included."""
        mine = (self.vote.epoch, self.vote.zxid, self.vote.leader)
        return {peer for peer, v in self.votes.items() if (v.epoch, v.zxid, v.leader) == mine}

    def check_tally(self) -> None:
        """Check whether a quorum agrees with this node's vote.

        If so, wait for a better vote until the deadline, or decide at once if every node in reach agrees.
        """
        if self.vote.leader == NOBODY:
            return
        peer, supporters = self.peer, self.supporters()
        if not self.quorum.has(supporters):
            self.deadline = None
        elif supporters >= (peer.links | {self.me}) - peer.without_disk:
            self.decide()
        elif self.deadline is None:
            self.deadline = peer.now + peer.settings.finalize

    def try_to_join(self, leader: int) -> None:
        """Follow `leader` if it says itself that it leads, and if one of these holds: it is established, this node votes
        for it, or it has a quorum together with this node.

        This node must be counted. Otherwise: 1, 2 and 3 of four are up. 2 and 3 decide for 3 before 1 has heard of it. 1
        finds two nodes behind 3 and waits. 3 gives up without a third node, and so on for ever. A node that reaches only
        the leader would never hear of a quorum either.
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
        """Decide: a quorum has agreed until the deadline."""
        self.decide()

    def decide(self) -> None:
        if self.vote.leader == self.me:
            self.peer.lead(self.early)
        else:
            self.peer.follow(self.vote.leader, self.early)

    def join(self, leader: int, its_round: int) -> None:
        """Follow a leader that has already decided."""
        self.peer.round = max(self.peer.round, its_round)
        self.peer.follow(leader, self.early)

    def on_cepoch(self, source: int, message: Cepoch) -> None:
        """Keep a CEPOCH that comes before this node has decided.

        When a quorum has decided for this node, it leads, even if it prefers another one: the nodes that follow it wait for
        it and answer no other node.
        """
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
