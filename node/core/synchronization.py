"""Phase 2, synchronization: a quorum makes initial history and epoch durable together (DSN 2011, section IV).

The leader's steps are here: l.2.1 NEWLEADER, l.2.2 COMMIT-LD. The follower's, f.2.1 ACK-LD and f.2.2 delivery of I_e', are
in `following`. Computing a follower's difference and putting it on the list of the nodes that get every PROPOSE is one
step, so a joiner misses nothing and gets nothing twice (ZOOKEEPER-962, 1264; DSN 2011 leaves this open).
"""

from typing import TYPE_CHECKING

from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.followers import Followers
from zab_chaos.node.core.leading import Leading
from zab_chaos.node.core.messages import AckLeader, Phase
from zab_chaos.node.core.role import RoleState

if TYPE_CHECKING:
    from zab_chaos.node.core.broadcast import Broadcasting
    from zab_chaos.node.core.peer import Peer


class Synchronizing(Leading):
    """A prospective leader that has chosen the initial history and makes it durable at a quorum."""

    def __init__(self, peer: "Peer", followers: Followers, epoch: int, deadline: int | None) -> None:
        super().__init__(peer, followers, epoch)
        self.deadline = deadline
        self.initial_last = self.journal.history.last
        self.own_history_durable = False  # the leader's own disk holds epoch and history

    on_ack = on_confirmed = RoleState.on_stray  # nothing was proposed or requested yet

    def begin(self) -> None:
        self.peer.set_current_epoch(self.epoch, self.while_current(self.own_ack_leader))
        for peer in sorted(self.followers):
            ack = self.followers[peer].ack_epoch
            if ack is not None:
                self.send_new_leader(peer, ack)

    def own_ack_leader(self) -> None:
        """Count the leader's own ACK-LD: its disk holds epoch and history."""
        self.own_history_durable = True
        self.try_establish()

    def on_ack_leader(self, source: int, message: AckLeader) -> None:
        follower = self.take_ack_leader(source, message)
        if follower is not None:
            follower.active = True
            self.try_establish()

    def supporting(self) -> set[int]:
        """Return the nodes that promised this epoch to this leader, and so can establish it."""
        return self.followers.promised()

    def acknowledged(self) -> set[int]:
        """Return the nodes whose ACK-LD counts."""
        nodes = self.followers.promised() & set(self.followers.active())
        return nodes | {self.me} if self.own_history_durable else nodes

    def try_establish(self) -> None:
        """l.2.2: once a quorum holds I_e' durably, commit all of it and let the primary broadcast: ready(e')."""
        quorum = self.acknowledged()
        if not self.own_history_durable or not self.quorum.has(quorum):
            return
        self.peer.become(self.established(), Phase.BROADCAST)
        self.out.event("established", epoch=self.epoch, last_zxid=zx.pair(self.initial_last), quorum=sorted(quorum))

    def established(self) -> "Broadcasting":
        """Return the role object of this leader in its established epoch."""
        return self.peer.broadcasting_type(self.peer, self.followers, self.epoch, self.initial_last)
