"""Bugs of elections: which node is elected, and whose history the new leader spreads."""

import builtins

from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.discovery import Choosing
from zab_chaos.node.core.looking import Looking
from zab_chaos.node.core.messages import NOBODY, AckEpoch, Cepoch, Role, Vote
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.zxid import ZERO, Zxid


class ComparesZxids(Looking):
    """A looking node that compares votes by last zxid and id only."""

    @staticmethod
    def better(a: Vote, b: Vote) -> bool:
        return (a.zxid, a.leader) > (b.zxid, b.leader)


class VotesByZxid(Peer):
    """Votes compare (last zxid, id), without the epoch in which a history was last synchronized. One method.

    Masked when alone: in discovery the leader finds a better history in its quorum, and fetches it.
    """

    looking_type = ComparesZxids


class ChoosesItself(Choosing):
    """A prospective leader that always chooses its own history."""

    def best_history(self, acks: dict[int, AckEpoch]) -> int:
        return self.me


class PushesOwnHistory(Peer):
    """A leader spreads its own history, although a node of its quorum has a better one. One method.

    Masked when alone: the election picks the node with the best history of a quorum, so no other one is better.
    """

    choosing_type = ChoosesItself


class BestHistoryIgnored(VotesByZxid, PushesOwnHistory):
    """Both bugs, since neither shows without the other (in ZooKeeper: peerEpoch in votes, and waitForEpochAck)."""


class VotesForAnybody(Looking):
    """A looking node that ignores which nodes a candidate reaches."""

    @builtins.property
    def is_candidate(self) -> bool:
        return not self.peer.amnesiac

    def best_candidate(self) -> Vote:
        best = self.own_vote() if self.is_candidate else self.vote_for(NOBODY, ZERO, 0)
        for vote in self.votes.values() if self.is_candidate else ():
            if self.better(vote, best):
                best = vote
        return best

    def try_to_join(self, leader: int) -> None:
        behind = {peer for peer, vote in self.settled.items() if vote.leader == leader and not vote.amnesiac}
        head = self.settled.get(leader)
        if head is not None and head.role == Role.LEADING and self.quorum.has(behind | {self.me}):
            self.join(leader, head.round)


class VotesOutOfReach(Peer):
    """Every node is a candidate, and gets the vote of every node that hears of it, also of nodes that can't reach it.

    Three methods: a node is a candidate although it reaches no quorum; votes may be for a candidate that was only heard of
    through others; a leader is joined only when a quorum is known to have joined it.
    """

    looking_type = VotesForAnybody


class PrematureZxid(Peer):
    """The elected node raises its last zxid to <e,0> of the epoch that it wants to lead, before any node has promised it.

    After failed attempts its history seems newer than histories that have been established meanwhile (ZOOKEEPER-790). In
    ZooKeeper a vote's epoch is that of its zxid, so here the epoch is raised too. In memory only: a restart forgets it. Two
    methods.
    """

    raised: Zxid = ZERO

    def lead(self, early: dict[int, Cepoch]) -> None:
        self.raised = zx.zxid(max(zx.epoch_of(self.raised), self.accepted_epoch) + 1, 0)
        super().lead(early)

    def history_key(self) -> tuple[int, Zxid]:
        return max(super().history_key(), (zx.epoch_of(self.raised), self.raised))
