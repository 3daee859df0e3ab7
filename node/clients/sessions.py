"""The clients' sessions on one node: requests in, answers out, in the order of each client's requests. No sockets.

A write is passed to the leader at once; it is answered when its transaction is delivered here. A read is executed here when
every earlier request of its client is answered, on the state of that moment. So `deliver` applies the transactions itself,
and between two of them executes the reads that were requested between the two writes. A read shows its client's earlier
writes and none of its later ones.

A session is held (its reads wait and its writes are kept back) as long as this node could show it less than it may see:

- until the node has joined a leader once in its life and delivered up to that leader's commit point: before, the recovered
  state may be older than what the node showed in an earlier life;
- until the node has delivered what the client has seen at another node;
- until the session's fence is delivered. The fence is the highest seq of the client's writes whose outcome is unknown. Once
  the tree says that the client has come so far, each of these writes has taken effect or never will. The client names it in
  HELLO; when the leader is lost, the node raises it itself.
"""

import itertools
from collections.abc import Iterable
from typing import cast

from zab_chaos.node.clients.protocol import FORGOTTEN
from zab_chaos.node.clients.session import ClientSession, PendingRequest
from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.tree.outcomes import Failed, Outcome, Unknown, answer_size, outcome_of
from zab_chaos.node.tree.refusal import FORGOTTEN_CLIENT, NO_LEADER, OVERLOADED, too_large
from zab_chaos.node.tree.requests import READS, Fence, ForwardedRequest, Read, Request, Write, request_size
from zab_chaos.node.tree.seqs import NO_SEQ
from zab_chaos.node.tree.tree import Tree
from zab_chaos.node.tree.txns import FenceTxn, Txn, decode

ForwardedWrite = tuple[
    int, int, Zxid, ForwardedRequest
]  # (client, seq, since, request): a write on its way to the leader, as FORWARD carries it
ClientAnswers = tuple[int, list[tuple[int, Outcome]]]  # (client, [(seq, outcome)])
FORWARD_BYTES = 2**24  # bytes of requests that are forwarded at once
FORWARDED_BYTES = 64  # more than a forwarded request has beside its path and data
WAITING_BYTES = 256 * 2**20  # bytes of requests that wait on a node
SHARE = 4  # one client may hold a quarter of what may wait on a node, so that a stuck client does not block the others


class ClientSessions:
    """All clients of the node `node` in its life `life`.

    `waiting` and `waiting_bytes` limit the unanswered requests of all clients together. Each client may hold one `SHARE`-th
    of that; further requests fail with "overloaded". A client that keeps sending despite that is dropped (see `receive`).
    `waiting_bytes` also limits what is read for the clients before answers are sent: many small requests may read much.
    `request_bytes` limits one write. A larger one is refused here: a FORWARD with it might not fit into a frame.
    """

    def __init__(
        self,
        node: int,
        life: int,
        tree: Tree,
        waiting: int = 20000,
        waiting_bytes: int = WAITING_BYTES,
        request_bytes: int = 2**20,
    ) -> None:
        self._node = node
        self._life = life
        self._tree = tree
        self._limit = waiting
        self._limit_bytes = waiting_bytes
        self._request_bytes = request_bytes
        self._share = max(1, waiting // SHARE)
        self._share_bytes = max(1, waiting_bytes // SHARE)
        self._count = 0  # requests in all queues, and their size in bytes
        self._bytes = 0
        self._answer_bytes = 0  # of the answers to reads that are not sent yet
        self._sessions: dict[int, ClientSession] = {}
        self.joined = False  # whether `join` was called in this life
        self._shown: Zxid | None = None  # the oldest zxid that may be shown; None before this node has joined a leader
        self._watched: dict[int, ClientSession] = {}  # sessions that a delivery may resume: held, or with refusals
        self._refused: dict[
            int, list[ClientSession]
        ] = {}  # by undelivered zxid: the sessions with refusals that rest on it
        self._unfenced: dict[int, ClientSession] = {}  # sessions whose fence was not requested from the present leader
        self._unforwarded: list[tuple[int, PendingRequest]] = []
        self._answers: dict[int, list[tuple[int, Outcome]]] = {}
        self.forgotten: dict[int, str] = {}  # clients that the caller must drop, as after `receive`, with the reason
        self._miscounted = 0  # sessions that ended without a request in their queue, and counted some

    @property
    def waiting(self) -> int:
        """How many requests are not answered yet."""
        return self._count

    @property
    def has_writes(self) -> bool:
        """Whether `writes` would return something."""
        return bool(self._unforwarded or self._unfenced)

    def idle(self) -> bool:
        """Return whether `writes` and `answers` would return nothing, and no session waits for a delivery."""
        return not (self._unforwarded or self._answers or self._watched)

    def leftovers(self) -> dict[str, int]:
        """Return how much is held, by what it is. Without clients and requests on the way, each number must be 0."""
        return {
            "sessions": len(self._sessions),
            "sessions that wait for a delivery": len(self._watched),
            "zxids that refusals wait for": len(self._refused),
            "fences to request": len(self._unfenced),
            "clients to drop": len(self.forgotten),
            "writes to forward": len(self._unforwarded),
            "clients with unsent answers": len(self._answers),
            "bytes of requests": self._bytes,
            "sessions that ended and counted requests that they did not have": self._miscounted,
        }

    def join(self, committed: Zxid) -> None:
        """Take note that this node has joined its first leader in this life, whose commit point is `committed`."""
        self.joined, self._shown = True, committed

    def hello(self, client: int, seen: Zxid, fence: int = 0) -> None:
        """Open a session for a client. A former session of the client ends; the client counts its open requests as unknown.

        `seen`: the last zxid that it knows of. `fence`: the highest seq of its writes whose outcome it does not know; 0 for
        none.
        """
        self.gone(client)
        session = self._sessions[client] = ClientSession(client, seen, self._tree.zxid, fence or NO_SEQ)
        self._hold(session)

    def gone(self, client: int) -> None:
        """End the session of a client that left.

        Forwarded writes may still take effect; the others are forgotten.
        """
        session = self._sessions.pop(client, None)
        if session is None:
            return
        self._watched.pop(client, None)
        self._unfenced.pop(client, None)
        self._answers.pop(client, None)
        self.forgotten.pop(client, None)
        self._miscounted += session.miscounted
        for entry in session.queue:
            self._count -= 1
            self._bytes -= entry.size
            entry.outcome = entry.outcome or Unknown("the client is gone")

    def receive(self, client: int, batch: list[tuple[int, Request]]) -> str | None:
        """Queue a client's requests.

        Return None, or in words why the client must be dropped; the caller then calls `gone`.
        """
        session = self._sessions.get(client)
        if session is None:
            return FORGOTTEN
        if len(session.queue) + len(batch) > 2 * self._share:
            return (
                f"{len(session.queue)} of the client's requests are waiting here and it sends {len(batch)} more; "
                f"{self._share} of one client may wait"
            )
        if session.queue and self._count + len(batch) > 2 * self._limit:  # with an empty queue it is answered at once
            return f"{self._count} requests are waiting here and the client sends {len(batch)} more; {self._limit} may wait"
        for seq, request in batch:
            if seq <= session.last_seq:
                return f"request {seq} came after request {session.last_seq}; a client's numbers must ascend"
            session.last_seq = seq
            self._accept(session, seq, request)
        self._advance(session)
        return None

    def writes(self, size: int = FORWARD_BYTES) -> list[ForwardedWrite]:
        """Return the fences and then the writes to forward to the leader now, in order. Beyond `size` bytes the rest waits
        for the next call.

        From here on they are the leader's: only a delivery, an ANSWER or the loss of that leader settles them.
        """
        self._resume()
        forwarded: list[ForwardedWrite] = self._take_fences(size // FORWARDED_BYTES) if self._unfenced else []
        size -= len(forwarded) * FORWARDED_BYTES
        if self._unfenced or (forwarded and size <= 0):
            return forwarded
        taken = 0
        for client, entry in self._unforwarded:
            taken += 1
            if entry.outcome is None:
                entry.forwarded = True
                since = self._sessions[client].since
                forwarded.append((client, entry.seq, since, cast("Write", entry.request)))
                size -= entry.size + FORWARDED_BYTES
                if size <= 0:
                    break
        del self._unforwarded[:taken]
        return forwarded

    def _take_fences(self, most: int) -> list[ForwardedWrite]:
        """Return the fences to request now: `most`, but at least one."""
        fences = list(itertools.islice(self._unfenced.items(), max(1, most)))
        for client, _ in fences:
            del self._unfenced[client]
        return [(client, session.fence, session.since, Fence()) for client, session in fences]

    def deliver(self, first: Zxid, txns: list[bytes]) -> None:
        """Apply committed transactions of zxids `first`, `first + 1`, ... and settle the writes that came from here.

        Raises msgspec.DecodeError if one of them is no transaction.
        """
        zxid = first
        for data in txns:
            txn = decode(data)
            origin = txn.origin
            session = self._sessions.get(origin.client)
            if session is None or origin.node != self._node or origin.life != self._life:
                self._tree.perform(zxid, txn)
            else:
                self._deliver_own(session, zxid, txn)
            if self._refused:
                self._answer_refusals(zxid)
            zxid += 1

    def install(self, zxid: Zxid, state: bytes) -> None:
        """Replace the tree by a snapshot of another node.

        Reads between two writes of unknown outcome fail: the state that they should show is skipped.
        """
        self._tree.load(state, zxid)
        for session in self._watched.values():
            between = [entry for entry in session.queue if entry.seq < session.fence]
            self._fail(session, between, "this node was sent a snapshot")

    def refused_by_leader(self, client: int, seq: int, error: str, words: str, after: Zxid) -> None:
        """Record the leader's refusal of a write (ANSWER). It is answered once `after` is delivered here.

        If the leader does not know the client any more, the session ends. The client connects again, and a session that
        begins now is accepted.
        """
        session = self._sessions.get(client)
        if session is None:
            return
        entry = session.open_writes.get(seq)
        if error == FORGOTTEN_CLIENT:
            if entry is not None or seq == session.fence:  # otherwise it is for a former session
                self.forgotten[client] = words
            return
        if entry is None or entry.refusal is not None:
            return
        self._refuse(session, entry, Failed(error, words, after))
        if after > self._tree.zxid:
            self._refused.setdefault(after, []).append(session)
        self._advance(session)

    def leader_lost(self, why: str = "the leader was lost") -> None:
        """Settle all writes after the leader was lost. Sessions with unknown outcomes are held until these are decided.

        A forwarded write becomes unknown; the others fail. A refusal whose state was not delivered yet still means
        "certainly without effect", but its reason may rest on transactions that will never be: the error is then that the
        leader was lost.
        """
        for session in self._sessions.values():
            for entry in [each for each in session.open_writes.values() if each.forwarded]:
                if entry.refusal is None:
                    session.fence = max(session.fence, entry.seq)
                refused = Failed(NO_LEADER, f"{why} before its refusal of the request was confirmed")
                self._settle(session, entry, refused if entry.refusal else Unknown(why))
            self._fail(session, session.open_writes.values(), f"{why}; the request had not been passed on")
            self._hold(session)
            self._advance(session)
        self._unforwarded.clear()
        self._refused.clear()

    def fail_waiting(self) -> None:
        """Fail all writes that were not forwarded, and all held reads: there has been no leader for too long."""
        for session in self._sessions.values():
            waiting = session.queue if session.held else session.open_writes.values()
            self._fail(session, waiting, "this node has no leader")
            self._advance(session)
        self._unforwarded.clear()

    def answers(self) -> list[ClientAnswers]:
        """Return the answers that can be sent now, each outcome once, in the order of each client's requests.

        Call it after every `receive`, `refused_by_leader` and `deliver`, when the delivery is traced.
        """
        self._resume()
        if self._answer_bytes:
            self._answer_bytes = 0
            for client in self._answers:
                self._sessions[client].answer_bytes = 0
        if not self._answers:
            return []
        answers = list(self._answers.items())
        self._answers = {}
        return answers

    def _accept(self, session: ClientSession, seq: int, request: Request) -> None:
        size, is_read = request_size(request), type(request) in READS
        entry = PendingRequest(seq, request, size, is_read)
        queue = session.queue
        queue.append(entry)
        session.bytes += size
        self._count += 1
        self._bytes += size
        if size > self._request_bytes and not is_read:  # a held session is told so when it is served
            refusal = too_large(size, self._request_bytes)
            self._refuse(session, entry, Failed(refusal.error, refusal.words))
        elif len(queue) > self._share or session.bytes > self._share_bytes:
            entry.outcome = Failed(OVERLOADED, _overload_words(len(queue), session.bytes, size, " of this client"))
        elif self._count > self._limit or self._bytes > self._limit_bytes:
            entry.outcome = Failed(OVERLOADED, _overload_words(self._count, self._bytes, size, ""))
        elif not is_read:
            session.open_writes[seq] = entry
            if not session.held:
                self._unforwarded.append((session.client, entry))

    def _refuse(self, session: ClientSession, entry: PendingRequest, refusal: Failed) -> None:
        entry.refusal = refusal
        session.refusals += 1
        self._watched[session.client] = session

    def _hold(self, session: ClientSession) -> None:
        """Hold a session that may not be served yet, and make sure that its fence is requested if it needs one.

        If it needs none now, it never will: the tree may forget the client, and what is decided stays so.
        """
        if self._fenced(session):
            self._end_fence(session)
        session.held = not self._may_serve(session)
        if session.held:
            self._watched[session.client] = session
            if session.fence != NO_SEQ:
                self._unfenced[session.client] = session

    def _end_fence(self, session: ClientSession) -> None:
        """Forget the session's fence, also if it is still to be requested: every write up to it is decided."""
        session.fence = NO_SEQ
        self._unfenced.pop(session.client, None)

    def _fenced(self, session: ClientSession) -> bool:
        return self._tree.sessions.get(session.client) >= session.fence

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
                self._end_fence(session)
            return
        entry = session.open_writes.get(txn.origin.seq)
        if entry is not None:
            self._settle(session, entry, outcome_of(zxid, txn.change))
            self._advance(session)

    def _answer_refusals(self, zxid: int) -> None:
        """Answer what was refused in the light of `zxid`, which is delivered, before the next transaction is applied.

        The reads behind a refusal are executed on this state too. On a later one they could show what a refusal after them,
        in the light of the next zxid, denies.
        """
        for session in self._refused.pop(zxid, ()):
            if self._sessions.get(session.client) is session:
                self._advance(session)

    def _fail(self, session: ClientSession, entries: Iterable[PendingRequest], words: str) -> None:
        """Fail the open entries that were not forwarded; they certainly had no effect."""
        for entry in [each for each in entries if each.outcome is None and not each.forwarded]:
            self._settle(session, entry, Failed(NO_LEADER, words))

    def _settle(self, session: ClientSession, entry: PendingRequest, outcome: Outcome) -> None:
        session.open_writes.pop(entry.seq, None)
        entry.outcome = outcome
        if entry.refusal is not None:
            session.refusals -= 1

    def _advance(self, session: ClientSession, before: int = NO_SEQ) -> None:
        """Answer from the head of the queue, up to the first request without an outcome.

        `before`: the seq of the client's transaction that is delivered next. Everything that it requested earlier has taken
        effect or never will, so reads up to there are answered although the session is held.
        """
        queue = session.queue
        while queue:
            entry = queue[0]
            outcome = entry.outcome
            if outcome is None and (entry.is_read or entry.refusal) and (not session.held or entry.seq < before):
                outcome = self._resolve(session, entry)
            if outcome is None:
                return
            queue.popleft()
            self._count -= 1
            self._bytes -= entry.size
            session.bytes -= entry.size
            self._answers.setdefault(session.client, []).append((entry.seq, outcome))

    def _resolve(self, session: ClientSession, entry: PendingRequest) -> Outcome | None:
        """Return the outcome of the head of the queue, if the delivered state determines it."""
        if isinstance(entry.request, Read):
            return self._read(session, entry.request)
        refusal = entry.refusal
        if refusal is None or refusal.zxid > self._tree.zxid:
            return None
        self._settle(session, entry, refusal)
        return refusal

    def _read(self, session: ClientSession, request: Read) -> Outcome:
        """Execute a read, unless the answers that are to be sent have too many bytes already."""
        if session.answer_bytes >= self._share_bytes or self._answer_bytes >= self._limit_bytes:
            return Failed(OVERLOADED, f"{self._answer_bytes} bytes of answers are about to be sent already")
        outcome = self._tree.read(request)
        size = answer_size(outcome)
        session.answer_bytes += size
        self._answer_bytes += size
        return outcome

    def _resume(self) -> None:
        """Resume the sessions that waited for a delivery."""
        if not self._watched:
            return
        for client, session in list(self._watched.items()):
            if session.held and self._may_serve(session):
                session.held = False
                self._end_fence(session)
                self._unforwarded.extend((client, entry) for entry in session.open_writes.values())
            self._advance(session)
            if not session.held and not session.refusals:
                del self._watched[client]


def _overload_words(count: int, total: int, size: int, whose: str) -> str:
    """Return why one more request, of `size` bytes, is too much."""
    return f"{count - 1} requests{whose} of {total - size} bytes are waiting on this node already"
