"""Bugs in who counts, and when: quorums that are none."""

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
    def commit_point(self) -> Zxid:
        acked = [self.journal.durable, *(f.acked for f in self.followers.values() if f.active and not f.amnesiac)]
        acked.sort(reverse=True)
        return acked[min(self.quorum.size - 2, len(acked) - 1)]


class CommitWithoutQuorum(Peer):
    """The leader commits at n/2 acknowledgements, which is one too few. One method."""

    broadcasting_type = CountsOneLess


class BroadcastsEarly(Synchronizing):
    """Is the primary that it would be when the epoch is established."""

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
    """The primary broadcasts as soon as NEWLEADER is out, without waiting for a quorum of ACK-LD.

    Five methods, all of the leader in synchronization: it makes the primary and shows it, flushes and hears ACKs for it, and
    goes on with it when the epoch is established.
    """

    synchronizing_type = BroadcastsEarly


class AmnesiacVotes(Peer):
    """A node that lost its disk takes part as if it had always been empty. One method."""

    def __init__(self, settings: Settings, recovered: Recovered) -> None:
        super().__init__(settings, replace(recovered, amnesiac=False))


class AdmitsAlone(Broadcasting):
    def update_admissions(self, peer: int) -> None:
        if self.followers[peer].amnesiac:
            self.send_member(peer, set())


class StaleAdmission(Peer):
    """A leader makes a node that lost its disk a member as soon as it holds the history, and asks no other member.

    One method. A leader that is over, and does not know it yet, so gets a quorum for its old epoch again.
    """

    broadcasting_type = AdmitsAlone
