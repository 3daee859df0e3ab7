"""Bugs of quorums: which nodes are counted, and when."""

from dataclasses import replace

from zab_chaos.node.core.broadcast import Broadcasting
from zab_chaos.node.core.followers import Followers
from zab_chaos.node.core.messages import Ack
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.ready import Recovered
from zab_chaos.node.core.settings import Settings
from zab_chaos.node.core.synchronization import Synchronizing
from zab_chaos.node.core.zxid import Zxid


class CountsOneLess(Broadcasting):
    """A primary whose quorum of ACKs is one node too small."""

    def commit_point(self) -> Zxid:
        acked = [self.journal.durable, *(f.acked for f in self.followers.values() if f.active and not f.amnesiac)]
        acked.sort(reverse=True)
        return acked[min(self.quorum.size - 2, len(acked) - 1)]


class CommitWithoutQuorum(Peer):
    """The leader commits at n/2 acknowledgements, which is one too few. One method."""

    broadcasting_type = CountsOneLess


class BroadcastsEarly(Synchronizing):
    """A leader in synchronization that already acts as the primary which it will be when the epoch is established."""

    def __init__(self, peer: Peer, followers: Followers, epoch: int, deadline: int | None) -> None:
        super().__init__(peer, followers, epoch, deadline)
        self.primary = self.early = super().established()

    def begin(self) -> None:
        self.peer.in_broadcast = True
        super().begin()

    def on_ready(self) -> None:
        if self.early.unproposed:
            self.early.propose()

    def on_ack(self, source: int, message: Ack) -> None:
        self.early.on_ack(source, message)

    def established(self) -> Broadcasting:
        return self.early


class EarlyReady(Peer):
    """The primary broadcasts as soon as NEWLEADER is sent, without waiting for a quorum of ACK-LD.

    Five methods, all of the leader in synchronization: it creates the primary early and exposes it, flushes its proposals,
    passes ACKs to it, and continues with it when the epoch is established.
    """

    synchronizing_type = BroadcastsEarly


class AmnesiacVotes(Peer):
    """A node that lost its disk takes part as if it had always been empty. One method."""

    def __init__(self, settings: Settings, recovered: Recovered) -> None:
        super().__init__(settings, replace(recovered, amnesiac=False))


class AdmitsAlone(Broadcasting):
    """A primary that readmits nodes without asking other members."""

    def update_admissions(self, peer: int) -> None:
        if self.followers[peer].amnesiac:
            self.send_member(peer, set())


class StaleAdmission(Peer):
    """A leader readmits a node that lost its disk as soon as the node has the history, and asks no other member.

    One method. In this way a leader that was deposed, and does not know it yet, gets a quorum for its old epoch again.
    """

    broadcasting_type = AdmitsAlone
