"""The clients' sessions on one node: requests in, answers out, in the order of each client's requests. No sockets.

A write is passed on to the leader at once; its answer comes when its transaction is delivered here. A read is executed
here when every earlier request of its client is answered, on the state of exactly that moment: `deliver` therefore
applies the transactions itself, and executes, between two of them, the reads that stand between two writes. So a read
shows its client's earlier writes and none of its later ones.

A session is held, its reads waiting and its writes kept back, as long as this node could show it less than it may see:

- until the node has joined a leader once in its life and delivered up to that leader's commit point: before, what it has
  recovered may be older than what it had shown in an earlier life;
- until it has delivered what the client has seen at another node;
- until the session's fence is delivered: of the client's writes whose outcome is unknown, the highest number. Once the tree
  says that the client has come so far, each of them has taken effect or never will. The client names it in HELLO; when the
  leader is lost, the node raises it itself.
"""

from collections.abc import Iterable
from typing import cast

from zab_chaos.node.clients.session import ClientSession, PendingRequest
from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.tree.outcomes import Failed, Outcome, Unknown, outcome_of
from zab_chaos.node.tree.refusal import NO_LEADER, OVERLOADED
from zab_chaos.node.tree.requests import READS, Fence, ForwardedRequest, Request, Write, request_size
from zab_chaos.node.tree.seqs import NO_SEQ
from zab_chaos.node.tree.tree import Tree
from zab_chaos.node.tree.txns import FenceTxn, Txn, decode

ForwardedWrite = tuple[
    int, int, ForwardedRequest
]  # (client, seq, request): a write on its way to the leader, as FORWARD carries it
ClientAnswers = tuple[int, list[tuple[int, Outcome]]]  # (client, [(seq, outcome)])
FORWARD_BYTES = 2**24  # of requests that are passed on at once
SHARE = 4  # one client may hold a quarter of what may wait on a node: when it is stuck, the others go on


class ClientSessions:
    """All clients of the node `node` in its life `life`.

    `waiting` and `waiting_bytes` bound the requests that are not answered yet, of all clients together, and each client
    may hold one `SHARE`-th of that; what goes beyond fails with "overloaded". A client that sends on and on without
    listening to that is dropped (see `receive`).
    """

    def __init__(
        self, node: int, life: int, tree: Tree, waiting: int = 20000, waiting_bytes: int = 256 * 2**20
    ) -> None:
        self._node = node
        self._life = life
        self._tree = tree
        self._limit = waiting
        self._limit_bytes = waiting_bytes
        self._share = max(1, waiting // SHARE)
        self._share_bytes = max(1, waiting_bytes // SHARE)
        self._count = 0  # entries in all queues, and their size
        self._bytes = 0
        self._sessions: dict[int, ClientSession] = {}
        self._shown: Zxid | None = None  # the least that is shown; None before this node has joined a leader
        self._watched: dict[int, ClientSession] = {}  # those that some delivery may set going: held, or with refusals
        self._refused: dict[
            int, list[ClientSession]
        ] = {}  # whose refusals rest on a zxid that is not delivered yet, by that
        self._unfenced: dict[int, ClientSession] = {}  # whose fence the present leader has not been asked for
        self._unforwarded: list[tuple[int, PendingRequest]] = []
        self._answers: dict[int, list[tuple[int, Outcome]]] = {}

    @property
    def waiting(self) -> int:
        """Requests that are not answered yet."""
        return self._count

    @property
    def has_writes(self) -> bool:
        """Whether `writes` has something."""
        return bool(self._unforwarded or self._unfenced)

    def idle(self) -> bool:
        """Whether `writes` and `answers` have nothing, and nobody waits for a delivery to change that."""
        return not (self._unforwarded or self._answers or self._watched)

    @property
    def joined(self) -> bool:
        """Whether `join` was called in this life."""
        return self._shown is not None

    def join(self, committed: Zxid) -> None:
        """This node has joined a leader, the first one in its life, whose commit point is `committed`."""
        self._shown = committed

    def hello(self, client: int, seen: Zxid, fence: int = 0) -> None:
        """A client came. If it was here before, that is over: it counts what it asked for then as unknown.

        `seen`: the last zxid that it knows of. `fence`: the highest number of its writes whose outcome it does not know; 0
        for none.
        """
        self.gone(client)
        session = self._sessions[client] = ClientSession(client, seen, fence)
        self._hold(session)

    def gone(self, client: int) -> None:
        """A client left. What was passed on may still take effect; what was not is forgotten."""
        session = self._sessions.pop(client, None)
        if session is None:
            return
        self._watched.pop(client, None)
        self._unfenced.pop(client, None)
        self._answers.pop(client, None)
        for entry in session.queue:
            self._count -= 1
            self._bytes -= entry.size
            entry.outcome = entry.outcome or Unknown("the client is gone")

    def receive(self, client: int, batch: list[tuple[int, Request]]) -> str | None:
        """A client's requests. None, or in words why this client must be dropped (the caller then calls `gone`)."""
        session = self._sessions.get(client)
        if session is None:
            return "requests came before HELLO, or after this node had forgotten the client"
        if len(session.queue) + len(batch) > 2 * self._share:
            return (
                f"{len(session.queue)} of the client's requests are waiting here and it sends {len(batch)} more; "
                f"{self._share} of one client may wait"
            )
        if self._count + len(batch) > 2 * self._limit:
            return f"{self._count} requests are waiting here and the client sends {len(batch)} more; {self._limit} may wait"
        for seq, request in batch:
            if seq <= session.last_seq:
                return f"request {seq} came after request {session.last_seq}; a client's numbers must ascend"
            session.last_seq = seq
            self._accept(session, seq, request)
        self._advance(session)
        return None

    def writes(self, size: int = FORWARD_BYTES) -> list[ForwardedWrite]:
        """The writes to pass on to the leader now, in order; before them, the fences. When they come to `size` bytes, the
        rest waits for the next call.

        From here on they are the leader's: only a delivery, an ANSWER or the loss of that leader settles them.
        """
        self._resume()
        forwarded: list[ForwardedWrite] = [
            (client, session.fence, Fence()) for client, session in self._unfenced.items()
        ]
        self._unfenced.clear()
        taken = 0
        for client, entry in self._unforwarded:
            taken += 1
            if entry.outcome is None:
                entry.forwarded = True
                forwarded.append((client, entry.seq, cast("Write", entry.request)))
                size -= entry.size
                if size <= 0:
                    break
        del self._unforwarded[:taken]
        return forwarded

    def deliver(self, first: Zxid, txns: list[bytes]) -> None:
        """Apply committed transactions of zxids `first`, `first + 1`, ... and settle those that were asked for here.

        Raises msgspec.DecodeError if one of them is no transaction.
        """
        zxid: int = first
        for data in txns:
            txn = decode(data)
            origin = txn.origin
            session = self._sessions.get(origin.client)
            if session is None or origin.node != self._node or origin.life != self._life:
                self._tree.perform(Zxid(zxid), txn)
            else:
                self._deliver_own(session, Zxid(zxid), txn)
            if self._refused:
                self._answer_refusals(zxid)
            zxid += 1

    def install(self, zxid: Zxid, state: bytes) -> None:
        """Replace the tree by a snapshot of another node. What is to be read between two unknown writes can't be, any more."""
        self._tree.load(state, zxid)
        for session in self._watched.values():
            between = [entry for entry in session.queue if entry.seq < session.fence]
            self._fail(session, between, "this node was sent a snapshot")

    def refused_by_leader(self, client: int, seq: int, error: str, words: str, after: Zxid) -> None:
        """The leader refused a write (ANSWER). The client is told when `after` is delivered here."""
        session = self._sessions.get(client)
        entry = session.open.get(seq) if session else None
        if session is None or entry is None or entry.refusal is not None:
            return
        entry.refusal = Failed(error, words, after)
        session.refusals += 1
        self._watched[client] = session
        if after > self._tree.zxid:
            self._refused.setdefault(after, []).append(session)
        self._advance(session)

    def leader_lost(self, why: str = "the leader was lost") -> None:
        """What was passed on is unknown from now on; what was not fails. Whoever is told so is held until it is decided.

        A refusal whose state was not delivered yet still means "certainly without effect", but its reason may rest on
        transactions that will never be: the error told is that the leader was lost.
        """
        for session in self._sessions.values():
            for entry in [each for each in session.open.values() if each.forwarded]:
                if entry.refusal is None:
                    session.fence = max(session.fence, entry.seq)
                refused = Failed(NO_LEADER, f"{why} before its refusal of the request was confirmed")
                self._settle(session, entry, refused if entry.refusal else Unknown(why))
            self._fail(session, session.open.values(), f"{why}; the request had not been passed on")
            self._hold(session)
            self._advance(session)
        self._unforwarded.clear()
        self._refused.clear()

    def fail_waiting(self) -> None:
        """There has been no leader for too long: fail all writes that were not passed on, and the reads that are held."""
        for session in self._sessions.values():
            waiting = session.queue if session.held else session.open.values()
            self._fail(session, waiting, "this node has no leader")
            self._advance(session)
        self._unforwarded.clear()

    def answers(self) -> list[ClientAnswers]:
        """What can be told now, each outcome once, in the order of each client's requests.

        To be called after every `receive`, `answered` and `deliver`, when what was delivered is traced.
        """
        self._resume()
        if not self._answers:
            return []
        answers = list(self._answers.items())
        self._answers = {}
        return answers

    def _accept(self, session: ClientSession, seq: int, request: Request) -> None:
        size, reads = request_size(request), type(request) in READS
        entry = PendingRequest(seq, request, size, reads)
        queue = session.queue
        queue.append(entry)
        session.bytes += size
        self._count += 1
        self._bytes += size
        if len(queue) > self._share or session.bytes > self._share_bytes:
            entry.outcome = Failed(OVERLOADED, _waiting(len(queue), session.bytes, size, " of this client"))
        elif self._count > self._limit or self._bytes > self._limit_bytes:
            entry.outcome = Failed(OVERLOADED, _waiting(self._count, self._bytes, size, ""))
        elif not reads:
            session.open[seq] = entry
            if not session.held:
                self._unforwarded.append((session.client, entry))

    def _hold(self, session: ClientSession) -> None:
        """Hold a session that may not be served yet, and see to it that its fence is asked for."""
        session.held = not self._may_serve(session)
        if session.held:
            self._watched[session.client] = session
            if not self._fenced(session):
                self._unfenced[session.client] = session

    def _fenced(self, session: ClientSession) -> bool:
        return self._tree.sessions.get(session.client, NO_SEQ) >= session.fence

    def _may_serve(self, session: ClientSession) -> bool:
        if self._shown is None or self._tree.zxid < max(self._shown, session.seen):
            return False
        return self._fenced(session)

    def _deliver_own(self, session: ClientSession, zxid: Zxid, txn: Txn) -> None:
        if session.refusals or session.held:  # reads behind refused or unknown writes must not see this transaction
            self._advance(session, before=txn.origin.seq)
        self._tree.perform(zxid, txn)
        if type(txn.change) is FenceTxn:
            if txn.origin.seq >= session.fence:
                session.fence = NO_SEQ
            return
        entry = session.open.get(txn.origin.seq)
        if entry is not None:
            self._settle(session, entry, outcome_of(zxid, txn.change))
            self._advance(session)

    def _answer_refusals(self, zxid: int) -> None:
        """What was refused in the light of `zxid`, which is delivered, is told before the next transaction is applied.

        The reads behind it are executed on this state, too: on a later one they could show what a refusal after them, in
        the light of the next zxid, denies.
        """
        for session in self._refused.pop(zxid, ()):
            if self._sessions.get(session.client) is session:
                self._advance(session)

    def _fail(self, session: ClientSession, entries: Iterable[PendingRequest], words: str) -> None:
        """What is open and was not passed on certainly had no effect."""
        for entry in [each for each in entries if each.outcome is None and not each.forwarded]:
            self._settle(session, entry, Failed(NO_LEADER, words))

    def _settle(self, session: ClientSession, entry: PendingRequest, outcome: Outcome) -> None:
        session.open.pop(entry.seq, None)
        entry.outcome = outcome
        if entry.refusal is not None:
            session.refusals -= 1

    def _advance(self, session: ClientSession, before: int = NO_SEQ) -> None:
        """Answer from the head of the queue, until a request's outcome is open.

        `before`: the number of the client's transaction that is delivered next: of what it asked for earlier, all has taken
        effect or never will, so that reads up to there are answered although the session is held.
        """
        queue = session.queue
        while queue:
            entry = queue[0]
            outcome = entry.outcome
            if outcome is None and (entry.reads or entry.refusal) and (not session.held or entry.seq < before):
                outcome = self._resolve(session, entry)
            if outcome is None:
                return
            queue.popleft()
            self._count -= 1
            self._bytes -= entry.size
            session.bytes -= entry.size
            self._answers.setdefault(session.client, []).append((entry.seq, outcome))

    def _resolve(self, session: ClientSession, entry: PendingRequest) -> Outcome | None:
        """The outcome of the head of the queue, if the delivered state allows one."""
        if isinstance(entry.request, READS):
            return self._tree.read(entry.request)
        refusal = entry.refusal
        if refusal is None or refusal.zxid > self._tree.zxid:
            return None
        self._settle(session, entry, refusal)
        return refusal

    def _resume(self) -> None:
        """Set going what waited for a delivery."""
        if not self._watched:
            return
        for client, session in list(self._watched.items()):
            if session.held and self._may_serve(session):
                session.held = False
                self._unfenced.pop(client, None)
                self._unforwarded.extend((client, entry) for entry in session.open.values())
            self._advance(session)
            if not session.held and not session.refusals:
                del self._watched[client]


def _waiting(count: int, total: int, size: int, whose: str) -> str:
    """Why one more request, of `size` bytes, is too much."""
    return f"{count - 1} requests{whose} of {total - size} bytes are waiting on this node already"
