"""Bugs in who counts, and when: quorums that are none."""

import builtins
from dataclasses import replace

from zab_chaos.node.core.broadcast import Peer
from zab_chaos.node.core.machine import Settings
from zab_chaos.node.core.messages import Phase, Role
from zab_chaos.node.core.ready import Recovered
from zab_chaos.node.core.zxid import Zxid


class CommitWithoutQuorum(Peer):
    """The leader commits at n/2 acknowledgements, which is one too few."""

    def commit_point(self) -> Zxid:
        acked = [self.durable, *(f.acked for f in self.followers.values() if f.active and not f.amnesiac)]
        acked.sort(reverse=True)
        return acked[min(self.quorum.size - 2, len(acked) - 1)]


class EarlyReady(Peer):
    """The primary broadcasts as soon as NEWLEADER is out, without waiting for a quorum of ACK-LD."""

    @builtins.property
    def room(self) -> int:
        return super().room if self.established or not self.synchronizing else self.settings.outstanding

    @builtins.property
    def synchronizing(self) -> bool:
        return self.role == Role.LEADING and self.phase == Phase.SYNCHRONIZATION

    @builtins.property
    def primary(self) -> bool:
        return self.established or self.synchronizing

    def enter(self, role: Role, phase: Phase, leader: int | None, why: str) -> None:
        super().enter(role, phase, leader, why)
        self.in_broadcast = self.in_broadcast or self.synchronizing

    def submit(self, txns: list[bytes]) -> Zxid:
        first = self.next_zxid()
        self.gathered += txns
        return first

    def on_ready(self) -> None:
        if self.synchronizing:
            self.flush()
        super().on_ready()


class AmnesiacVotes(Peer):
    """A node that lost its disk takes part as if it had always been empty."""

    def __init__(self, settings: Settings, recovered: Recovered) -> None:
        super().__init__(settings, replace(recovered, amnesiac=False))


class StaleAdmission(Peer):
    """A leader makes a node that lost its disk a member as soon as it holds the history, and asks no other member.

    One method. A leader that is over, and does not know it yet, so gets a quorum for its old epoch again.
    """

    def admit(self, peer: int) -> None:
        if self.followers[peer].amnesiac:
            self.admitted(peer, set())
