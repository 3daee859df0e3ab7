"""A leader's view of its followers, and its inquiries to them."""

from dataclasses import dataclass, field

from zab_chaos.node.core.history import History
from zab_chaos.node.core.messages import AckEpoch, Cepoch, Confirmed, Sync
from zab_chaos.node.core.zxid import ZERO, Zxid


@dataclass(slots=True)
class Follower:
    """A leader's view of one follower in one session. None means that the follower has not sent it yet."""

    accepted_epoch: int
    amnesiac: bool
    ack_epoch: AckEpoch | None = None
    forwarding: bool = False  # NEWLEADER and every PROPOSE since then were sent to it
    active: bool = False  # it sent ACK-LD; COMMIT-LD was sent to it, or will be when the epoch is established
    acked: Zxid = ZERO  # the last zxid that is durable at the follower

    @staticmethod
    def difference(history: History, ack: AckEpoch) -> Sync:
        """Return what turns the follower's history, as outlined in its ACK-E, into `history` (ZOOKEEPER-1154, 1156)."""
        return history.difference(ack.shape)


class Followers(dict[int, Follower]):
    """A leader's followers by id, each from its CEPOCH to the end of its session.

    A node that lost its disk counts in no quorum until it is a member again. The leader itself always counts: a node that lost
    its disk is never elected.
    """

    def __init__(self, leader: int, follower_type: type[Follower] = Follower) -> None:
        super().__init__()
        self.leader = leader
        self._follower_type = follower_type

    def add(self, source: int, message: Cepoch) -> None:
        self[source] = self._follower_type(message.accepted_epoch, message.amnesiac)

    def counted(self) -> set[int]:
        """Return the nodes that count in quorums."""
        return {self.leader, *(peer for peer, f in self.items() if not f.amnesiac)}

    def promised(self) -> set[int]:
        """Return the nodes that count in quorums and have promised the leader's epoch to it."""
        promises = {peer for peer, f in self.items() if f.ack_epoch is not None and f.ack_epoch.promised}
        return self.counted() & (promises | {self.leader})

    def active(self) -> list[int]:
        """Return the followers that hold the initial history, ascending."""
        return [peer for peer in sorted(self) if self[peer].active]


@dataclass(slots=True)
class Inquiry:
    """A leader's CONFIRM to some followers: do they still follow it in its epoch?"""

    epoch: int
    number: int
    asked: set[int] = field(default_factory=set)
    confirmed: set[int] = field(default_factory=set)

    def count_answer(self, source: int, answer: Confirmed) -> bool:
        """Count the answer if it belongs to this inquiry. Return whether it does."""
        if (answer.epoch, answer.number) != (self.epoch, self.number) or source not in self.asked:
            return False
        self.confirmed.add(source)
        return True

    def forget(self, peer: int) -> None:
        """Drop the answer of a peer whose session has ended."""
        self.asked.discard(peer)
        self.confirmed.discard(peer)
