"""The application above Zab on one node: clients' requests to the primary, committed transactions to the tree, answers back.

It connects `ClientSessions` (this node's clients), `Primary` (the leader's view of the future) and `Tree` (delivered state),
and it never touches a socket.
"""

from collections import deque
from dataclasses import dataclass

from zab_chaos.node.clients.sessions import ClientSessions, ForwardedWrite
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.broadcast import Broadcasting
from zab_chaos.node.core.digest import Hash
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.ready import Deliver, Install
from zab_chaos.node.core.zxid import ZERO, Zxid
from zab_chaos.node.tree.forwarding import Answer, Forward
from zab_chaos.node.tree.primary import Primary
from zab_chaos.node.tree.refusal import BY_STATE, OVERLOADED, Refusal
from zab_chaos.node.tree.requests import Asked, Fence
from zab_chaos.node.tree.tree import Tree
from zab_chaos.node.tree.txns import Origin, Summary

FRAME_SHARE = 8  # of a frame may be in flight: a follower may lack twice that, and what is logged between snapshots


class Application:
    """One life's application. `patience` (nanoseconds): how long writes wait for a leader before they fail.

    `flight`: bytes of what is passed on to a leader at once, and of what a leader has proposed and not delivered.
    `share`: by what the tree computes its digest. `ordered`, a hook for a known bug: the refusals that become transactions.
    """

    ordered = BY_STATE

    def __init__(
        self,
        node: int,
        life: int,
        layers: "Layers",
        *,
        share: Hash,
        waiting: int,
        request_bytes: int,
        flight: int,
        patience: int,
    ) -> None:
        self.tree = layers.tree(share)
        self.sessions = layers.sessions(node, life, self.tree, waiting)
        self.primary = layers.primary(self.tree, request_bytes)
        self._node = node
        self._life = life
        self._limit = waiting
        self._flight = flight
        self._patience = patience
        self._iteration = -1
        self._leaderless_since: int | None = None
        self._waiting: deque[tuple[Origin, Asked]] = deque()  # at the leader: until there is room
        self._refusals: dict[tuple[int, int], list[tuple[int, int, str, str, Zxid]]] = {}

    @property
    def waiting(self) -> int:
        """Requests of this node's clients that are not answered, and at the leader of all nodes' that are not judged yet."""
        return self.sessions.waiting + len(self._waiting)

    def idle(self, machine: Peer) -> bool:
        """Whether there is nothing to pass on, to answer, or to notice: as between two heartbeats without clients."""
        return (
            machine.in_broadcast
            and machine.iteration == self._iteration
            and self._leaderless_since is None
            and not (self._waiting or self._refusals)
            and self.sessions.idle()
        )

    def follow_machine(self, machine: Peer, now: int) -> None:
        """Notice what happened to the leadership. Call after the core has moved."""
        if machine.iteration != self._iteration:
            self._iteration = machine.iteration
            self.sessions.leader_lost()
            self.primary.reset()
            self._waiting.clear()
            self._refusals.clear()
        if machine.in_broadcast:
            self._leaderless_since = None
            if not self.sessions.joined:
                self.sessions.join(machine.journal.committed)
        elif self._leaderless_since is None:
            self._leaderless_since = now
        elif now - self._leaderless_since > self._patience:
            self.sessions.refuse()

    def wakes_at(self) -> int | None:
        """When writes that wait for a leader will have waited too long; None while there is one."""
        return None if self._leaderless_since is None else self._leaderless_since + self._patience + 1

    def forwarded(self, source: int, message: Forward, machine: Peer) -> None:
        """Writes from another node's clients. If this node is not the primary, the origin will notice by itself."""
        if machine.primary:
            self._take(source, message.life, message.writes)

    def refused(self, message: Answer) -> None:
        """The leader's refusals of this node's clients' writes."""
        if message.life == self._life:
            for client, seq, error, words, after in message.refusals:
                self.sessions.answered(client, seq, error, words, after)

    def pending(self, machine: Peer) -> bool:
        """Whether there is something to pass on now: after a delivery, what has waited for it."""
        if not machine.in_broadcast or not self.may_prepare(machine):
            return False
        return self.sessions.unpassed or bool(
            self._waiting and machine.primary and machine.primary.room and not self._full
        )

    def summaries(self) -> list[Summary]:
        """What the transactions do that `pass_on` gave out last."""
        return self.primary.summaries()

    def pass_on(self, machine: Peer) -> tuple[Forward | None, list[bytes]]:
        """This node's writes: a FORWARD for the leader or, at the primary, the transactions to submit now."""
        if not machine.in_broadcast or not self.may_prepare(machine):
            return None, []
        writes: list[ForwardedWrite] = self.sessions.writes(self._flight)
        primary = machine.primary
        if primary is None:
            return (Forward(self._life, writes) if writes else None), []
        self._take(self._node, self._life, writes)
        return None, self._prepare(primary)

    def may_prepare(self, machine: Peer) -> bool:
        """False at a primary whose tree lacks a part of its epoch's initial history: it would judge by an old state."""
        primary = machine.primary
        return primary is None or self.tree.zxid >= primary.initial_last

    def _take(self, node: int, life: int, writes: list[ForwardedWrite]) -> None:
        for client, seq, write in writes:
            if (
                len(self._waiting) >= self._limit and type(write) is not Fence
            ):  # one a session: what it holds waits there
                words = f"{self._limit} requests are waiting at the leader already"
                self._refuse(Origin(node, life, client, seq), Refusal(OVERLOADED, words), ZERO)
            else:
                self._waiting.append((Origin(node, life, client, seq), write))

    @property
    def _full(self) -> bool:
        """Whether so many bytes are in flight that the next transaction must wait."""
        return self.primary.outstanding_bytes >= self._flight

    def _prepare(self, primary: Broadcasting) -> list[bytes]:
        """The transactions for as many waiting writes as there is room for.

        What is refused by the state becomes a fence: when that is delivered, a quorum has followed this leader after the
        judgement. A leader that was deposed, and does not know it yet, would judge by a state that others have left.
        """
        room = primary.room
        txns: list[bytes] = []
        last = Zxid(primary.next_zxid() - 1)
        while self._waiting and len(txns) < room and not self._full:
            origin, write = self._waiting.popleft()
            prepared = self.primary.prepare(write, origin)
            if isinstance(prepared, Refusal):
                if prepared.error in self.ordered:
                    txns.append(self.primary.fence(origin))
                self._refuse(origin, prepared, self._outstanding_last(last, len(txns)))
            else:
                txns.append(prepared)
        return txns

    def _outstanding_last(self, last: Zxid, more: int) -> Zxid:
        """The last transaction in whose light a condition was judged; before an epoch's first there is the delivered one."""
        z = Zxid(last + more)
        return z if zx.counter_of(z) else self.tree.zxid

    def _refuse(self, origin: Origin, refusal: Refusal, after: Zxid) -> None:
        if origin.node == self._node:
            self.sessions.answered(origin.client, origin.seq, refusal.error, refusal.words, after)
        else:
            refusals = self._refusals.setdefault((origin.node, origin.life), [])
            refusals.append((origin.client, origin.seq, refusal.error, refusal.words, after))

    def answers_for_nodes(self) -> list[tuple[int, Answer]]:
        """ANSWERs to send now, before any COMMIT of what was prepared after them."""
        if not self._refusals:
            return []
        answers = [(node, Answer(life, refusals)) for (node, life), refusals in self._refusals.items()]
        self._refusals.clear()
        return answers

    def deliver(self, delivery: Deliver | Install) -> None:
        """Committed transactions, or committed state, for the tree."""
        if type(delivery) is Install:
            self.sessions.install(delivery.zxid, delivery.state)
            return
        self.sessions.deliver(delivery.first, delivery.txns)
        if self.primary.outstanding:
            for txn in delivery.txns:
                self.primary.delivered(txn)


@dataclass(slots=True)
class Layers:
    """The classes that an application is built from."""

    application: type[Application] = Application
    sessions: type[ClientSessions] = ClientSessions
    primary: type[Primary] = Primary
    tree: type[Tree] = Tree
