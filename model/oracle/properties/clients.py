"""The checker of what each client sees (LADIS 2008, section 1: the requests of a client in FIFO order)."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from zab_chaos.model.events import TRACES, Boot, Complete, Invoke, Misanswered
from zab_chaos.model.oracle.evidence import show
from zab_chaos.model.oracle.facts import ORDERED, READS, Facts, Request
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.node.clients.claims import FALSE_CLAIM
from zab_chaos.node.clients.protocol import FORGOTTEN, REFUSED
from zab_chaos.node.clients.sessions import SHARE
from zab_chaos.node.tree.refusal import BAD_REQUEST, MAY_BE_FORGOTTEN, NO_LEADER, OVERLOADED, SUPERSEDED

UNSETTLING = frozenset({NO_LEADER, OVERLOADED})  # refusals after which an earlier write may still take effect
# After this time (ns) nodes do not have the requests of clients that left, nor are late for a fault.
SETTLES = 5_000_000_000
# Faults with which a leader's messages, or a node's clock, may be later than an honest client's claim is believed.
SLOWING = frozenset({"latency", "bandwidth", "pause", "pause-at", "slow-disk", "clock-rate", "clock-jump"})
# Operations whose success has a transaction that changes something. A multi may consist of checks only.
OWN_TRANSACTION = frozenset({"create", "set", "delete"})


@dataclass(slots=True)
class _Session:
    """What a client's answers showed so far: the highest zxid in any answer (`seen`), and that of the last write
    (`written`)."""

    answered: Complete | None = None  # the answer with the highest seq
    seen: int = 0
    seen_in: Complete | None = None
    written: int = 0
    written_in: Complete | None = None


class ClientOrder(Checker):
    """LADIS 2008: a client's requests are processed and answered in the order in which it sent them.

    Verifies for each session, across all nodes that it uses:

    - Answers (ok or failed) come in the order of `seq`, and none is left out: a client whose later request was answered waits
      for no earlier one.
    - The zxids of its writes ascend in that order, including those of unknown writes, and no write follows a fence of
      its seq.
    - The state that a read or a refusal names follows all its earlier writes that ever take effect, and precedes all
      its later ones. When a refusal names no state, its node has delivered the earlier writes by then.
    - No read or refusal shows an older state than an earlier answer did. A refusal that the state decides, but that
      names no zxid, shows the state before the first transaction.
    - No transaction answers two writes.
    - On ZooKeeper, each answer of a connection is the one to its oldest unanswered request, and none says that the server
      has failed.
    - Each client numbers what it is asked for, from 1 on, and nothing else.
    - No write is refused as superseded. That is for clients that do not send in order on one connection at a time; ours
      do.
    - If run.json says that `clients_are_kept`, no node says that it does not know a client that is connected to it, and the
      ensemble forgets none unless as many others as it remembers (`clients_max` in run.json) wrote since. As long as
      there is no fault, and all clients together ask for less than one may, no node says that it does not serve a client, or
      that it is overloaded (but by lists of children). Runs with large requests are not judged. Unless a fault slows nodes
      or links, no client of the load is taken for one of another ensemble.

    Verifies for each node, over all its lives: a read that was invoked after an answer of that node was known is not older
    than that answer, unless the node lost its disk in between; nor, where nodes record their deliveries, older than what
    its life had delivered when the read was sent. Does not verify the values that were read (values and
    versions does), nor, where `broadcast` does not record the clients of its transactions, when unknown writes took effect.
    """

    name = "client order"
    source = "LADIS 2008"
    statement = (
        "A client's answers and effects come in its order, also those of unknown writes and across nodes. What a session is "
        "shown, and the reads at a node, never go back in time."
    )
    rests_on_absence = False

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._sessions: dict[int, _Session] = defaultdict(_Session)
        self._owners: dict[int, Complete] = {}  # by zxid
        self._unserved: list[Complete] = []  # whose node did not serve the client, or was overloaded
        self._empty_starts: dict[int, list[int]] = {}  # by node: when it started on an empty disk

    def on_boot(self, event: Boot) -> None:
        if event.starts_empty:
            self._empty_starts.setdefault(event.node, []).append(event.t)

    def on_misanswered(self, event: Misanswered) -> None:
        self.findings.add(f"node {event.node} sent session {event.session:#x} {event.what}", [event], {event.node})

    # ---- answer by answer ----

    def on_complete(self, event: Complete, request: Request) -> None:
        op = request.invoke.op
        if event.outcome == "unknown":  # the client gave up; nobody answered
            if event.error is not None and REFUSED in event.error:
                self._unserved.append(event)
            return
        if event.error == OVERLOADED and op != "children":
            self._unserved.append(event)
        self.checked += 1
        session = self._sessions[event.client]
        if session.answered is not None and event.seq < session.answered.seq:
            self.findings.add(
                f"client {event.client} got the answer to seq {event.seq} after the one to seq {session.answered.seq}",
                [session.answered, event],
            )
        else:
            session.answered = event
        if request.zxid is not None:
            self._check_zxid(session, event, op, request.zxid)

    def _check_zxid(self, session: _Session, event: Complete, op: str, zxid: int) -> None:
        if (op in READS or event.outcome == "failed") and zxid < session.seen:
            self.findings.add(
                f"client {event.client} saw {show(zxid)} with seq {event.seq} ({op}), after it had seen "
                f"{show(session.seen)}",
                [session.seen_in, event],
            )
        if op in OWN_TRANSACTION and event.outcome == "ok":
            self._check_owner(event, zxid)
            if zxid <= session.written:
                self.findings.add(
                    f"client {event.client} wrote {show(zxid)} with seq {event.seq} ({op}), after it had written "
                    f"{show(session.written)}",
                    [session.written_in, event],
                )
            session.written, session.written_in = zxid, event
        if zxid >= session.seen:
            session.seen, session.seen_in = zxid, event

    def _check_owner(self, event: Complete, zxid: int) -> None:
        owner = self._owners.setdefault(zxid, event)
        if owner is not event and owner.client != event.client:
            self.findings.add(
                f"{show(zxid)} answers both the write of client {owner.client}, seq {owner.seq}, and that of client "
                f"{event.client}, seq {event.seq}",
                [owner, event],
            )

    # ---- at the end ----

    def at_end(self) -> None:
        self._check_unserved()
        self._check_effects()
        requests = self.facts.requests.values()
        for sent in self._requests_by_client.values():
            self._check_session(sent)
            self._check_left_out(sent)
            if not self.facts.damaged():
                self._check_numbers(sent)
        read = {request.complete.node for request in requests if request.invoke.op in READS and request.complete}
        nodes: dict[tuple[int, int], list[tuple[int, Request]]] = {}
        for request in requests:
            if request.zxid is not None and request.complete is not None and request.complete.node in read:
                self._assign_to_disk(request, request.complete, request.zxid, nodes)
        for answers in nodes.values():
            self._check_node(answers)
        if self.facts.run.evidence == TRACES:  # the times of ZooKeeper's logs are not exact enough
            for request in requests:
                if request.invoke.op in READS:
                    self._check_outdated(request)

    def _check_effects(self) -> None:
        """Check that the zxids of each client's transactions ascend with seq, and that none follows a fence of its seq."""
        last: dict[int, tuple[int, int, bool]] = {}  # by client: seq, zxid, whether it is a fence
        effects = self.facts.effects
        for zxid, (client, seq, _) in effects.known_txns():
            fence, before = zxid in effects.fences, last.get(client)
            if before is None or seq > before[0] or (fence and seq == before[0]):
                last[client] = (seq, zxid, fence)
            elif not fence and (seq < before[0] or before[2]):
                what = "the fence at" if before[2] else "that of"
                request = self.facts.requests.get((client, seq))
                self.findings.add(
                    f"the write of client {client}, seq {seq}, took effect at {show(zxid)}, after {what} its seq "
                    f"{before[0]} ({show(before[1])})",
                    [
                        effects.broadcast(before[1]),
                        effects.broadcast(zxid),
                        request.complete if request is not None else None,
                    ],
                )

    def _check_numbers(self, sent: Sequence[Request]) -> None:
        """Check that a client used no number for something that nobody had asked it for."""
        last, before = 0, None
        for request in sent:
            seq = request.invoke.seq
            if seq != last + 1:
                used = f"seq {last + 1}" + (f" to {seq - 1}" if seq > last + 2 else "")
                self.findings.add(
                    f"client {request.invoke.client} used {used} for something that nobody had asked it for",
                    [before, request.invoke],
                )
            last, before = seq, request.complete

    def _check_unserved(self) -> None:
        """Check that no node has forgotten or dropped a client that was connected to it, or was overloaded by little."""
        for event in self._unserved if self.facts.run.expect.get("clients_are_kept") else ():
            error = event.error or ""
            if MAY_BE_FORGOTTEN in error:
                last = self._last_acknowledged_write(event)
                if not self._may_be_forgotten(event, last):
                    words = (
                        f"client {event.client} was forgotten with seq {event.seq}, though too few others wrote since"
                    )
                    self.findings.add(words, [last, event])
            elif error.endswith(FORGOTTEN):
                words = f"did not know client {event.client} when that sent seq {event.seq} on its open connection"
                self.findings.add(f"node {event.node} {words}", [event])
            elif error.endswith(FALSE_CLAIM) and not self._is_slow(event.t):
                why = error.removesuffix(f": {FALSE_CLAIM}").rpartition(": ")[2]
                words = f"took client {event.client}, which moved there, for one of another ensemble: {why}"
                self.findings.add(f"node {event.node} {words}", [event])
            elif not self._may_refuse(event.t):
                words = f"client {event.client} had asked for little, and was not served with seq {event.seq}: {error}"
                self.findings.add(words, [event])

    def _is_slow(self, t: int) -> bool:
        """Return whether nodes or links may be slow at the time `t`: because of a fault, or always."""
        return self.facts.run.expect.get("waiting") is None or self._is_soon_after_fault(t, SLOWING)

    def _is_soon_after_fault(self, t: int, kinds: Collection[str] | None = None) -> bool:
        """Return whether there is a fault at the time `t`, of one of these kinds, or was shortly before."""
        return any(kinds is None or it.do in kinds for it in self.facts.faults_during(t - SETTLES, t))

    def _may_refuse(self, t: int) -> bool:
        """Return whether a node may refuse to serve at the time `t`: links are slow, or it may have been asked for too much."""
        waiting = self.facts.run.expect.get("waiting")
        if not isinstance(waiting, int) or self._asks_for_much or self._is_soon_after_fault(t):
            return True
        sent, answered = self._times
        return bisect_right(sent, t) - bisect_right(answered, t - SETTLES) > waiting // SHARE

    def _last_acknowledged_write(self, refusal: Complete) -> Invoke | None:
        """Return the last write of a client that was acknowledged before its node refused to serve it."""
        writes = [
            it.invoke for it in self.facts.acked if it.invoke.client == refusal.client and it.invoke.t < refusal.t
        ]
        return max(writes, key=lambda invoke: invoke.t, default=None)

    def _may_be_forgotten(self, refusal: Complete, last: Invoke | None) -> bool:
        """Return whether as many others as the ensemble remembers may have written since a client's last write, by the times of
        their requests."""
        limit = self.facts.run.expect.get("clients_max")
        if not isinstance(limit, int):
            return True
        since = last.t if last is not None else 0
        others = set(self._unrecorded_clients)
        for client, requests in self._requests_by_client.items():
            if client != refusal.client and any(
                it.invoke.t < refusal.t and (it.complete is None or not it.known or it.complete.t > since)
                for it in requests
                if it.invoke.op in ORDERED
            ):
                others.add(client)
        return len(others) >= limit

    @cached_property
    def _requests_by_client(self) -> dict[int, list[Request]]:
        """The requests of each client, by seq."""
        by_client: dict[int, list[Request]] = {}
        for request in self.facts.requests.values():
            by_client.setdefault(request.invoke.client, []).append(request)
        for sent in by_client.values():
            sent.sort(key=lambda request: request.invoke.seq)
        return by_client

    @cached_property
    def _unrecorded_clients(self) -> set[int]:
        """The clients whose writes were delivered, and that kept no record."""
        return {client for _, (client, _, _) in self.facts.effects.known_txns()} - self._requests_by_client.keys()

    @cached_property
    def _asks_for_much(self) -> bool:
        return any(request.invoke.size for request in self.facts.requests.values())

    @cached_property
    def _times(self) -> tuple[list[int], list[int]]:
        """The times of all requests, and of all answers, ascending."""
        requests = self.facts.requests.values()
        return sorted(it.invoke.t for it in requests), sorted(
            it.complete.t for it in requests if it.complete is not None
        )

    def _check_session(self, requests: Iterable[Request]) -> None:
        """Check that each state that a client was shown lies between its earlier writes and its later ones."""
        first = self.facts.effects.first_effects
        written, shown = 0, 0
        writer = viewer = None
        for request in requests:
            invoke = request.invoke
            if request.complete is not None and request.complete.error == SUPERSEDED:
                words = f"the write of client {invoke.client}, seq {invoke.seq}, was sent in order and refused as superseded"
                self.findings.add(words, [invoke, request.complete])
            effect = first.get(invoke.id)
            if effect is not None:
                if viewer is not None and effect <= shown:
                    self._report_order(request, effect, viewer, shown)
                if effect > written and self._reads_follow(request):
                    written, writer = effect, request
            elif (zxid := request.zxid) is not None:
                if writer is not None and zxid < written:
                    self._report_order(writer, written, request, zxid)
                if zxid >= shown:
                    shown, viewer = zxid, request
            elif writer is not None:
                self._check_refusal(writer, written, request)

    def _reads_follow(self, write: Request) -> bool:
        """Return whether what is read after a write must show it.

        ZooKeeper promises that updates of a client take effect in order, and a state that is no older than what the client has
        seen. So if a client has gone to another server before the answer, that one may serve it before it has the write.
        """
        return write.known or self.facts.run.evidence == TRACES

    def _check_left_out(self, requests: Sequence[Request]) -> None:
        """Check that no request of a session still waited for its answer when a later one was answered."""
        answer: Complete | None = None  # the earliest answer to a later request
        for request in reversed(requests):
            complete = request.complete
            if complete is None or complete.error == BAD_REQUEST:  # which the client itself may have refused
                continue
            if complete.outcome != "unknown":
                answer = complete if answer is None or complete.t < answer.t else answer
            elif answer is not None and answer.t < complete.t:
                self.findings.add(
                    f"client {complete.client} got an answer to seq {answer.seq}, and none to seq {complete.seq}, for which "
                    "it still waited",
                    [request.invoke, answer, complete],
                )

    def _check_refusal(self, writer: Request, written: int, request: Request) -> None:
        """Check a refusal that names no state: its node must have delivered the client's earlier write, which had the zxid
        `written`."""
        complete = request.complete
        if complete is None or complete.outcome != "failed" or complete.error in UNSETTLING or complete.node is None:
            return
        if self.facts.run.evidence != TRACES or self.facts.damaged():
            return  # it is not known what the node had delivered
        if not self.facts.nodes[complete.node].had_delivered(written, complete.t):
            self.findings.add(
                f"client {complete.client} was told {complete.error!r} with seq {complete.seq} by node {complete.node}, "
                f"which had not delivered yet its earlier write, seq {writer.invoke.seq}, at {show(written)}",
                [writer.invoke, writer.complete, complete, self.facts.effects.broadcast(written)],
            )

    def _report_order(self, writer: Request, effect: int, viewer: Request, shown: int) -> None:
        write, view = writer.invoke, viewer.invoke
        early = write.seq > view.seq
        self.findings.add(
            f"client {write.client} was shown {show(shown)} with seq {view.seq} ({view.op}), "
            f"{'with' if early else 'without'} its {'later' if early else 'earlier'} write, seq {write.seq}, which "
            f"took effect at {show(effect)}",
            [write, writer.complete, viewer.complete, self.facts.effects.broadcast(effect)],
        )

    def _assign_to_disk(
        self, request: Request, complete: Complete, zxid: int, nodes: dict[tuple[int, int], list[tuple[int, Request]]]
    ) -> None:
        """Add an answer to those that came from the same disk of the same node."""
        empty_starts = self._empty_starts.get(complete.node or 0, [])
        disk = bisect_left(empty_starts, complete.t)
        if disk == bisect_left(empty_starts, request.invoke.t):  # otherwise the disk of the answer is not known
            nodes.setdefault((complete.node or 0, disk), []).append((zxid, request))

    def _check_node(self, answers: list[tuple[int, Request]]) -> None:
        """Check that no read is older than an answer that its node had given before the read was invoked."""
        answers.sort(key=lambda answer: answer[0])
        latest: Request | None = None  # the last invoked read with a lower zxid
        for _, group in groupby(answers, key=lambda answer: answer[0]):
            older = latest
            for _, request in group:
                assert request.complete is not None
                if older is not None and request.complete.t < older.invoke.t:
                    self._report_older_read(request, older)
                if request.invoke.op in READS and (latest is None or request.invoke.t > latest.invoke.t):
                    latest = request

    def _check_outdated(self, request: Request) -> None:
        """Check that a read is not older than what that life of its node had delivered when the client sent it."""
        invoke, complete, shown = request.invoke, request.complete, request.zxid
        if complete is None or complete.node is None or shown is None:
            return
        node = self.facts.nodes[complete.node]
        life = node.life_at(invoke.t)
        if life is None or life.boot is None or life is not node.life_at(complete.t):
            return  # it is not known which life answered
        delivered = node.delivered_before(invoke.t, since=life.boot.t)
        if shown < delivered:
            self.findings.add(
                f"node {complete.node} showed {show(shown)} to client {invoke.client}, seq {invoke.seq}, and had delivered "
                f"{show(delivered)} before that was sent",
                [self.facts.effects.broadcast(delivered), invoke, complete],
            )

    def _report_older_read(self, before: Request, read: Request) -> None:
        assert before.zxid is not None
        assert read.zxid is not None
        assert read.complete is not None
        self.findings.add(
            f"node {read.complete.node} showed {show(read.zxid)} to client {read.invoke.client}, seq {read.invoke.seq}, after "
            f"it had shown {show(before.zxid)} to client {before.invoke.client}, seq {before.invoke.seq}",
            [before.complete, read.invoke, read.complete],
        )
