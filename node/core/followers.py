"""A leader's followers, and what it asks them."""

from dataclasses import dataclass, field

from zab_chaos.node.core.history import History
from zab_chaos.node.core.messages import AckEpoch, Cepoch, Confirmed, Sync
from zab_chaos.node.core.zxid import ZERO, Zxid


@dataclass(slots=True)
class Follower:
    """A leader's view of one follower, in one session. What a follower has not sent yet is None."""

    accepted_epoch: int
    amnesiac: bool
    ack_epoch: AckEpoch | None = None
    forwarding: bool = False  # was sent NEWLEADER, and every PROPOSE since
    active: bool = False  # sent ACK-LD, was sent COMMIT-LD (or will be, when the epoch is established)
    acked: Zxid = ZERO  # durable at the follower up to here

    @staticmethod
    def difference(history: History, ack: AckEpoch) -> Sync:
        """What turns the follower's history, of which its ACK-E tells, into this one (ZOOKEEPER-1154, 1156)."""
        return history.difference(ack.shape)


class Followers(dict[int, Follower]):
    """By id, from a follower's CEPOCH to the end of its session.

    A node that lost its disk counts in no quorum until it is a member again. The leader itself always counts: who lost its
    disk is not elected.
    """

    def __init__(self, leader: int, follower_type: type[Follower] = Follower) -> None:
        super().__init__()
        self.leader = leader
        self._follower_type = follower_type

    def meet(self, source: int, message: Cepoch) -> None:
        self[source] = self._follower_type(message.accepted_epoch, message.amnesiac)

    def counted(self) -> set[int]:
        """Who counts in a quorum."""
        return {self.leader, *(peer for peer, f in self.items() if not f.amnesiac)}

    def promised(self) -> set[int]:
        """Who counts and has promised the leader's epoch to it."""
        promises = {peer for peer, f in self.items() if f.ack_epoch is not None and f.ack_epoch.promised}
        return self.counted() & (promises | {self.leader})

    def active(self) -> list[int]:
        """The followers that hold the initial history, in order."""
        return [peer for peer in sorted(self) if self[peer].active]


@dataclass(slots=True)
class Inquiry:
    """A leader's question to followers, CONFIRM: whether they follow it in its epoch still."""

    epoch: int
    number: int
    asked: set[int] = field(default_factory=set)
    confirmed: set[int] = field(default_factory=set)

    def takes(self, source: int, answer: Confirmed) -> bool:
        """Whether that answers this question; if so, it counts."""
        if (answer.epoch, answer.number) != (self.epoch, self.number) or source not in self.asked:
            return False
        self.confirmed.add(source)
        return True

    def forget(self, peer: int) -> None:
        """Its session is over: its answer counts no more."""
        self.asked.discard(peer)
        self.confirmed.discard(peer)
