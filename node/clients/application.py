"""The application above Zab on one node: it passes clients' requests to the primary, applies committed transactions to the
tree, and produces the answers.

It connects `ClientSessions` (this node's clients), `Primary` (the leader's view of the future state) and `Tree` (the
delivered state), and does no I/O.
"""

from collections import deque
from dataclasses import dataclass

from zab_chaos.node.clients.sessions import WAITING_BYTES, ClientSessions, ForwardedWrite
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.broadcast import Broadcasting
from zab_chaos.node.core.digest import Hash
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.ready import Deliver, Install
from zab_chaos.node.core.role import RoleState
from zab_chaos.node.core.zxid import ZERO, Zxid
from zab_chaos.node.tree.forwarding import Answer, Forward
from zab_chaos.node.tree.primary import Primary
from zab_chaos.node.tree.refusal import OVERLOADED, STATE_ERRORS, Refusal, brief
from zab_chaos.node.tree.requests import Fence, ForwardedRequest, request_size
from zab_chaos.node.tree.tree import Tree
from zab_chaos.node.tree.txns import Origin

REFUSAL_BYTES = 500  # a refusal has about so many bytes in an ANSWER if its words are long; see `brief`


class Application:
    """The application of one life of a node.

    `patience` (nanoseconds): how long writes wait for a leader before they fail. `flight`: how many bytes are forwarded to
    a leader at once, and how many a leader may have proposed and not delivered. `hash_bytes`: the hash of the tree's
    digest. `clients_max`: how many clients the tree remembers. `waiting`: how many requests may wait, with `WAITING_BYTES`
    at most. `request_bytes`: the size of the largest write. `fenced_errors` (a defect overrides it): the errors whose
    refusals become transactions.
    """

    fenced_errors = STATE_ERRORS

    def __init__(
        self,
        node: int,
        life: int,
        layers: "Layers",
        *,
        hash_bytes: Hash,
        clients_max: int,
        waiting: int,
        request_bytes: int,
        flight: int,
        patience: int,
    ) -> None:
        self.tree = layers.tree(hash_bytes, clients_max)
        self.sessions = layers.sessions(node, life, self.tree, waiting, request_bytes=request_bytes)
        self.primary = layers.primary(self.tree, request_bytes)
        self._node = node
        self._life = life
        self._limit = waiting
        self._flight = flight
        self._patience = patience
        self._iteration = -1
        self._settled: RoleState | None = None  # the core's role, if it was in broadcast when it was last looked at
        self._leaderless_since: int | None = None
        # Writes that wait at the leader, with the `since` of their sessions and their sizes.
        self._waiting: deque[tuple[Origin, Zxid, ForwardedRequest, int]] = deque()
        self._waiting_bytes = 0
        self._refusals: dict[tuple[int, int], list[tuple[int, int, str, str, Zxid]]] = {}

    @property
    def waiting(self) -> int:
        """The unanswered requests of this node's clients plus, at the leader, those of any node that are not judged."""
        return self.sessions.waiting + len(self._waiting)

    def leftovers(self) -> dict[str, int]:
        """Return how much is held, by what it is. Without clients and requests on the way, each number must be 0."""
        at_the_leader = {
            "refusals to send to other nodes": len(self._refusals),
            "bytes of requests that wait at the leader": self._waiting_bytes,
        }
        return self.sessions.leftovers() | self.primary.leftovers() | at_the_leader

    def idle(self, machine: Peer) -> bool:
        """Return whether there is nothing to forward, to answer or to notice, as between heartbeats without clients."""
        return machine.state is self._settled and not (self._waiting or self._refusals) and self.sessions.idle()

    def follow_machine(self, machine: Peer, now: int) -> None:
        """React to changes of the leadership. Call after the core has processed its input."""
        self._settled = machine.state if machine.in_broadcast else None
        if machine.iteration != self._iteration:
            self._iteration = machine.iteration
            self.sessions.leader_lost()
            self.primary.reset()
            self._waiting_bytes = 0
            self._waiting.clear()
            self._refusals.clear()
        if machine.in_broadcast:
            self._leaderless_since = None
            if not self.sessions.joined:
                self.sessions.join(machine.journal.committed)
        elif self._leaderless_since is None:
            self._leaderless_since = now
        elif now - self._leaderless_since > self._patience:
            self.sessions.fail_waiting()

    def wakes_at(self) -> int | None:
        """Return when writes that wait for a leader will have waited too long, or None if there is a leader."""
        return None if self._leaderless_since is None else self._leaderless_since + self._patience + 1

    def on_forward(self, source: int, message: Forward, machine: Peer) -> None:
        """Take writes from another node's clients.

        Unless this node is the primary they are dropped; the sender will notice.
        """
        if machine.primary:
            self._enqueue(source, message.life, message.writes)

    def on_answer(self, message: Answer) -> None:
        """Take the leader's refusals of writes of this node's clients."""
        if message.life == self._life:
            for client, seq, error, words, after in message.refusals:
                self.sessions.refused_by_leader(client, seq, error, words, after)

    def pending(self, machine: Peer) -> bool:
        """Return whether writes can be forwarded or prepared now, for instance after a delivery they waited for."""
        if not machine.in_broadcast or not self.may_prepare(machine):
            return False
        return self.sessions.has_writes or bool(
            self._waiting and machine.primary and machine.primary.room and self.primary.outstanding_bytes < self._flight
        )

    def forward_writes(self, machine: Peer) -> tuple[Forward | None, list[bytes]]:
        """Return this node's writes: a FORWARD for the leader or, at the primary, the transactions to submit now."""
        if not machine.in_broadcast or not self.may_prepare(machine):
            return None, []
        writes: list[ForwardedWrite] = self.sessions.writes(self._flight)
        primary = machine.primary
        if primary is None:
            return (Forward(self._life, writes) if writes else None), []
        self._enqueue(self._node, self._life, writes)
        return None, self._prepare(primary)

    def may_prepare(self, machine: Peer) -> bool:
        """Return False at a primary whose tree lacks a part of its epoch's initial history.

        It would judge conditions by an old state.
        """
        primary = machine.primary
        return primary is None or self.tree.zxid >= primary.initial_last

    def _enqueue(self, node: int, life: int, writes: list[ForwardedWrite]) -> None:
        for client, seq, since, write in writes:
            full = len(self._waiting) >= self._limit or self._waiting_bytes >= WAITING_BYTES
            # Fences are exempt: there is one for each session, and the session's requests wait for it.
            if full and type(write) is not Fence:
                words = (
                    f"{len(self._waiting)} requests of {self._waiting_bytes} bytes are waiting at the leader already"
                )
                self._refuse(Origin(node, life, client, seq), Refusal(OVERLOADED, words), ZERO)
            else:
                size = 0 if type(write) is Fence else request_size(write)
                self._waiting.append((Origin(node, life, client, seq), since, write, size))
                self._waiting_bytes += size

    def _prepare(self, primary: Broadcasting) -> list[bytes]:
        """Return transactions for as many waiting writes as there is room for.

        A refusal that depends on the state also becomes a transaction, a fence. When the fence is delivered, a quorum has
        followed this leader after the judgement. A leader that was deposed and does not know it yet would otherwise refuse
        by a state that the others have left.
        """
        room = primary.room
        txns: list[bytes] = []
        last = primary.submitted
        while self._waiting and len(txns) < room and self.primary.outstanding_bytes < self._flight:
            origin, since, write, size = self._waiting.popleft()
            self._waiting_bytes -= size
            prepared = self.primary.prepare(write, origin, since, last + len(txns) + 1)
            if type(prepared) is Refusal:
                if prepared.error in self.fenced_errors:
                    txns.append(self.primary.fence(origin))
                self._refuse(origin, prepared, self._outstanding_last(last, len(txns)))
            else:
                txns.append(prepared)
        return txns

    def _outstanding_last(self, last: Zxid, more: int) -> Zxid:
        """Return the last zxid in whose light a condition was judged.

        Before the first transaction of an epoch that is the last delivered one.
        """
        z = last + more
        return z if zx.counter_of(z) else self.tree.zxid

    def _refuse(self, origin: Origin, refusal: Refusal, after: Zxid) -> None:
        words = brief(refusal.words)
        if origin.node == self._node:
            self.sessions.refused_by_leader(origin.client, origin.seq, refusal.error, words, after)
        else:
            refusals = self._refusals.setdefault((origin.node, origin.life), [])
            refusals.append((origin.client, origin.seq, refusal.error, words, after))

    def answers_for_nodes(self) -> list[tuple[int, Answer]]:
        """Return the ANSWERs to send now, before any COMMIT of a transaction that was prepared after them."""
        if not self._refusals:
            return []
        most = max(1, self._flight // REFUSAL_BYTES)
        answers = [
            (node, Answer(life, refusals[start : start + most]))
            for (node, life), refusals in self._refusals.items()
            for start in range(0, len(refusals), most)
        ]
        self._refusals.clear()
        return answers

    def deliver(self, delivery: Deliver | Install) -> None:
        """Apply committed transactions, or committed state, to the tree."""
        if type(delivery) is Install:
            self.sessions.install(delivery.zxid, delivery.state)
            return
        self.sessions.deliver(delivery.first, delivery.txns)
        if self.primary.outstanding_bytes:
            for txn in delivery.txns:
                self.primary.delivered(txn)


@dataclass(slots=True)
class Layers:
    """The classes that an application is built from."""

    application: type[Application] = Application
    sessions: type[ClientSessions] = ClientSessions
    primary: type[Primary] = Primary
    tree: type[Tree] = Tree
