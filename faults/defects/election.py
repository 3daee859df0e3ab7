"""Bugs in who is elected and whose history wins."""

import builtins

from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.discovery import Choosing
from zab_chaos.node.core.looking import Looking
from zab_chaos.node.core.messages import NOBODY, AckEpoch, Cepoch, Role, Vote
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.zxid import ZERO, Zxid


class ComparesZxids(Looking):
    @staticmethod
    def better(a: Vote, b: Vote) -> bool:
        return (a.zxid, a.leader) > (b.zxid, b.leader)


class VotesByZxid(Peer):
    """Votes compare (last zxid, id), and leave out the epoch that a history was last synchronized in. One method.

    Masked: a leader elected so finds the better history of a quorum in discovery, and fetches it.
    """

    looking_type = ComparesZxids


class ChoosesItself(Choosing):
    def best_history(self, acks: dict[int, AckEpoch]) -> int:
        return self.me


class PushesOwnHistory(Peer):
    """A leader pushes its own history, although one of its quorum has a better one. One method.

    Masked: the voters of a quorum elect the best of them, so nobody has a better one.
    """

    choosing_type = ChoosesItself


class BestHistoryIgnored(VotesByZxid, PushesOwnHistory):
    """Both: neither bug shows without the other (ZooKeeper's peerEpoch in votes, and waitForEpochAck)."""


class VotesForAnybody(Looking):
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
    """Everybody stands, and is voted for by whoever hears of it, also by those that can't reach it.

    Three methods: a candidate stands whomever it reaches, is heard of from anybody, and is joined only when a quorum is known
    to have joined it.
    """

    looking_type = VotesForAnybody


class PrematureZxid(Peer):
    """Who is elected raises its last zxid to <e,0> of the epoch that it wants to lead, before anybody has promised it.

    After failed attempts its history seems newer than those that have been established meanwhile (ZOOKEEPER-790). A
    vote's epoch is that of its zxid there, so here it is raised with it. Memory only: a restart forgets it. Two methods.
    """

    raised: Zxid = ZERO

    def lead(self, early: dict[int, Cepoch]) -> None:
        self.raised = zx.zxid(max(zx.epoch_of(self.raised), self.accepted_epoch) + 1, 0)
        super().lead(early)

    def history_key(self) -> tuple[int, Zxid]:
        return max(super().history_key(), (zx.epoch_of(self.raised), self.raised))
