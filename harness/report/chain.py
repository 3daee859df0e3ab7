"""Reconstructs how a violation came about: the faults that may have caused it, and the shortest chain of events to it.

The chain has the events that the verdict cites, the client requests behind the transactions concerned, and the messages by
which one event can have caused the next. Of all message paths that are possible in time (happened-before, Lamport 1978) the
cheapest is taken: the one with the fewest messages, where messages about the same transactions cost least. Times are in
nanoseconds. The terminal report, the summary and the HTML page show the chain.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from zab_chaos.harness.report.headline import first_violation
from zab_chaos.harness.report.html.diagram import STEP_KINDS, Diagram, NodeStep
from zab_chaos.harness.report.html.evidence import ZXID
from zab_chaos.harness.report.messages import NEVER, MessageContent, Messages, SentMessage
from zab_chaos.harness.report.sentences import describe_line, describe_transactions, fence_words
from zab_chaos.harness.results.fault_spans import MENDS, WAITS, FaultSpan
from zab_chaos.model.events import TRACE_FILE
from zab_chaos.model.oracle.evidence import node_names, show, zxid_range
from zab_chaos.model.oracle.facts import CRASH_STATE
from zab_chaos.model.verdict import Evidence, Property, Verdict, Violation
from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx

CLIENT = re.compile(r"client (\d+), seq (\d+)")
SEQ = re.compile(r"\bseq (\d+)")
BROADCAST, DELIVER = STEP_KINDS.index("broadcast"), STEP_KINDS.index("deliver")
DELIVERY_TRIGGERS = ("ACK", "COMMIT", "COMMIT-LD")  # the messages upon which a node delivers
ACKNOWLEDGES, CARRIES = ("ACK", "ACK-LD"), ("PROPOSE", "NEWLEADER", "HISTORY")
QUORUM_DURABILITY = "quorum durability"
DURABLE = ("accept", "accepted_epoch", "current_epoch", "truncate", "restored")
SAME_COST, OTHER_COST, PING_COST = 1, 3, 12  # of a message about the chain's transactions, about others, of a heartbeat
LAST_DEEDS = {"deliver": "delivered", "abort": "stopped"}
SHORT = 10_000_000  # a chain that takes less time is shown in microseconds
MAX_FAULTS = 5  # faults that may have caused the violation and are named
MAX_ZXIDS = 6  # transactions that a chain follows at most: in a batch of hundreds, any few of them show the same


class ChainEvent(NamedTuple):
    """One event of the chain. `message`, `step` or `request` is its index in that list of the diagram, if it is one of these.
    `mark`: whether the verdict cites it.
    """

    t: int
    words: str
    message: int | None = None
    step: int | None = None
    request: int | None = None
    mark: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """The events that led to a violation, in order of time. `zxids` are the transactions concerned."""

    suspects: "Suspects"
    events: list[ChainEvent] = field(default_factory=list)
    zxids: list[int] = field(default_factory=list)

    @property
    def fault(self) -> FaultSpan | None:
        """The fault at which the chain begins, or None."""
        return self.suspects.faults[0] if self.suspects.faults and self.suspects.related else None


class Suspects(NamedTuple):
    """The faults that may have caused a violation, in order of time, and the words that introduce them.

    `related`: whether they are known to touch what the violation is about.
    """

    words: str
    faults: list[FaultSpan]
    related: bool = True


def chain_of(verdict: Verdict, diagram: Diagram, spans: Sequence[FaultSpan]) -> Chain | None:
    """Return the chain of the headline's violation; None if nothing is violated, or no event with a time is cited."""
    broken = first_violation(verdict)
    cited = sorted((one for one in broken[1].evidence if _time(one)), key=_time) if broken is not None else []
    if broken is None or not cited:
        return None
    return _Search(diagram, spans, *broken, cited).chain()


def preceding_fault(chain: Chain, zero: int) -> str:
    """Say which faults preceded the violation, as text without a full stop. `zero`: the time that is shown as 0 s."""
    words, faults, _ = chain.suspects
    if not faults:
        return words
    named = "; ".join(f"{fault.do} of {fault.on}, at {(fault.at - zero) / 1e9:.3f} s" for fault in faults[:MAX_FAULTS])
    more = f"; and {len(faults) - MAX_FAULTS} more" if len(faults) > MAX_FAULTS else ""
    return f"{words}: {named}{more}"


def moments(events: Sequence[ChainEvent], zero: int) -> list[str]:
    """Return the times of events in seconds, in milliseconds or, if all of it took only a few of these, in microseconds."""
    short = bool(events) and 0 < events[-1].t - events[0].t < SHORT
    return [f"{(event.t - zero) / 1e9:.{6 if short else 3}f} s" for event in events]


def _time(cited: Evidence) -> int:
    t = cited.event.get("t")
    return t if isinstance(t, int) else 0


class Point(NamedTuple):
    """A moment on one line of the space-time diagram. `line` is the node's id, or 0 for the clients' line."""

    line: int
    t: int


class _Search:
    """Builds the chain of one violation. `cited` is its evidence, in order of time."""

    def __init__(
        self, diagram: Diagram, spans: Sequence[FaultSpan], broken: Property, violation: Violation, cited: list[Evidence]
    ) -> None:  # fmt: skip
        self._diagram = diagram
        self._property = broken.name
        self._cited = cited
        self._end = _time(cited[-1])
        self._is_crash_state = any(one.event.get("event") == CRASH_STATE for one in cited)  # a disk's: no request's
        self._requests = self._named_requests(violation.words) if not self._is_crash_state else []
        self._zxids = self._named_zxids(violation.words) if not self._is_crash_state else []
        self._suspects = self._find_suspects(
            [
                span
                for span in spans
                if span.at <= self._end and span.nodes and span.reached and span.do not in MENDS | WAITS
            ]
        )

    def chain(self) -> Chain:
        events = [
            *self._healing(), *self._client_requests(), *self._forwards(), *self._broadcasts(), *self._messages_between(),
            *self._received_in_vain(), *self._acknowledgements(), *self._later_deliveries(),
        ]  # fmt: skip
        cited = [self._cited_event(one) for one in self._cited]
        marked = {_shown_as(event) for event in cited}
        more = [event for event in dict.fromkeys(events) if _shown_as(event) not in marked]
        return Chain(self._suspects, sorted([*more, *cited], key=_order), self._zxids)

    # ---- the faults ----

    def _find_suspects(self, before: list[FaultSpan]) -> Suspects:
        """Return the faults that may have caused the violation, of those `before` its end."""
        if self._is_crash_state:
            return Suspects("It needs no fault: the crash was only tried, on a copy of the disk", [])
        if not before:
            return Suspects("No fault preceded it", [])
        if len(self._cited) > 2 and self._only_clients_saw:
            answered = _time(self._cited[-3])  # then come the request, and the answer that contradicts the others
            meanwhile = [span for span in before if answered < (span.healed or self._end)]
            if len(meanwhile) > 1:
                return Suspects("The faults between these answers", meanwhile)
        nodes = self._nodes_concerned()
        touching = [span for span in before if not nodes or _touches(span, nodes)]
        begin = _time(self._cited[0])
        last = next((one for one in reversed(touching) if one.at <= begin), None)
        related = [
            one for one in touching if one is last or one.at > begin or (last and (one.healed or one.at) > last.at)
        ]
        if not related:
            active = [one for one in before if one.healed is None or one.healed > begin]
            if active:
                return Suspects(
                    f"No fault touched {node_names(nodes)} before it. At other nodes", active, related=False
                )
            return Suspects("No fault is known to be related. The last one before it", before[-1:], related=False)
        if related == before[-1:]:
            return Suspects("The last fault before it", related)
        fault = "faults" if len(related) > 1 else "fault"
        touched = f" that touched {node_names(nodes)}" if nodes else ""
        return Suspects(f"The last {fault} before it{touched}", related)

    @property
    def _only_clients_saw(self) -> bool:
        return all(one.file == "ops.jsonl" for one in self._cited)

    def _nodes_concerned(self) -> list[int]:
        """Return the nodes of the cited lines and of the requests and broadcasts concerned; none if it may be any node, since
        nothing but clients' requests is known."""
        diagram = self._diagram
        if self._only_clients_saw and not self._zxids:
            return []
        shown = [one.event.get(name) for one in self._cited for name in ("node", "peer")]
        shown += [diagram.requests[at].node for at in self._requests]
        shown += [diagram.steps[at].node for zxid in self._zxids if (at := self._find_broadcast(zxid)) is not None]
        return sorted({node for node in shown if isinstance(node, int) and node > 0})

    # ---- the requests and transactions concerned ----

    def _named_requests(self, words: str) -> list[int]:
        """Return the indices of the requests that the violation's text names (`client 2, seq 35 ... its seq 83`) or cites."""
        named = {(int(client), int(seq)) for client, seq in CLIENT.findall(words)}
        clients = {client for client, _ in named}
        if len(clients) == 1:
            named |= {(client, int(seq)) for client in clients for seq in SEQ.findall(words)}
        for one in self._cited:
            match one.event:
                case {"client": int(client), "seq": int(seq)} if one.file == "ops.jsonl":
                    named.add((client, seq))
        self._named = named
        return [at for at, one in enumerate(self._diagram.requests) if (one.client, one.seq) in named]

    def _named_zxids(self, words: str) -> list[int]:
        owners, requests = self._diagram.owners, set(self._requests)
        named: list[int] = [zx.zxid(int(epoch), int(counter)) for epoch, counter in ZXID.findall(words) if int(epoch)]
        named += [zxid for zxid, request in owners if request in requests]
        named += [zxid for zxid, client, seq in self._diagram.fences if (client, seq) in self._named]
        named += [self._first_zxid(one) for one in self._cited] if not named else []
        return [zxid for zxid in dict.fromkeys(named) if zxid][:MAX_ZXIDS]

    @staticmethod
    def _first_zxid(cited: Evidence) -> int:
        match cited.event:
            case {"epoch": int(epoch), "first": int(first)}:
                return zx.zxid(epoch, first)
        return 0

    # ---- the events of the chain ----

    def _cited_event(self, cited: Evidence) -> ChainEvent:
        t, request, step = _time(cited), None, None
        match cited.event:
            case {"client": int(client), "seq": int(seq)}:
                request = next(
                    (i for i, it in enumerate(self._diagram.requests) if (it.client, it.seq) == (client, seq)), None
                )
            case {"event": str(event), "node": int(node)}:
                step = self._step_at(t, node, event)
        words = describe_line(cited.file, cited.event)
        if cited.event.get("event") == "broadcast":
            words = "; ".join([words, *describe_transactions(cited.event, self._zxids)])
        return ChainEvent(t, words, step=step, request=request, mark=True)

    def _step_at(self, t: int, node: int, kind: str) -> int | None:
        steps = self._diagram.steps
        at = bisect_left(steps, t, key=lambda step: step.t)
        while at < len(steps) and steps[at].t == t:
            if (steps[at].node, steps[at].kind) == (node, kind):
                return at
            at += 1
        return None

    def _healing(self) -> Iterator[ChainEvent]:
        for fault in self._suspects.faults[:MAX_FAULTS] if self._suspects.related else ():
            if fault.healed is not None and fault.at < fault.healed <= self._end:
                yield ChainEvent(fault.healed, f"the {fault.do} of {fault.on} ended")

    def _client_requests(self) -> Iterator[ChainEvent]:
        """Yield the client requests for the transactions concerned."""
        fenced = {(client, seq) for zxid, client, seq in self._diagram.fences if zxid in self._zxids}
        behind_fences = [at for at, one in enumerate(self._diagram.requests) if (one.client, one.seq) in fenced]
        owning = [request for _, request in self._known_owners()]
        for at in dict.fromkeys([*self._requests, *owning, *behind_fences]):
            one = self._diagram.requests[at]
            if one.sent <= self._end:
                words = f"client {one.client} sent {one.op} {one.path} to node {one.node} (seq {one.seq})"
                yield ChainEvent(one.sent, words, request=at)

    def _known_owners(self) -> list[tuple[int, int]]:
        """Return (zxid, index of the request) for each transaction concerned whose request is known."""
        return [(zxid, request) for zxid, request in self._diagram.owners if zxid in self._zxids]

    def _forwards(self) -> Iterator[ChainEvent]:
        """Yield the forwarding of requests from the node that was asked to the leader. The FORWARD itself is not recorded."""
        for zxid, request in self._known_owners():
            one, at = self._diagram.requests[request], self._find_broadcast(zxid)
            if at is not None and self._diagram.steps[at].node != one.node:
                step = self._diagram.steps[at]
                asked = f"client {one.client}'s request (seq {one.seq})"
                words = f"node {one.node} forwarded {asked} to node {step.node} (not recorded)"
                yield ChainEvent(step.t, words, request=request)

    def _broadcasts(self) -> Iterator[ChainEvent]:
        for zxid in self._zxids:
            at = self._find_broadcast(zxid)
            if at is not None and self._diagram.steps[at].t <= self._end:
                step = self._diagram.steps[at]
                words = f"node {step.node} broadcast {zxid_range(step.first, step.last)}"
                yield ChainEvent(step.t, words + self._fences_in(step), step=at)

    def _fences_in(self, step: NodeStep) -> str:
        """Return `, a fence for client 1, seq 2` for a step with a fence that is concerned, or `; 2:1 is a fence ...`."""
        fences = [one for one in self._diagram.fences if one[0] in self._zxids and step.first <= one[0] <= step.last]
        if step.first == step.last:
            return "".join(f", {fence_words(client, seq)}" for _, client, seq in fences)
        return "".join(f"; {show(zxid)} is {fence_words(client, seq)}" for zxid, client, seq in fences)

    def _find_broadcast(self, zxid: int) -> int | None:
        return self._find_step(BROADCAST, zxid)

    def _find_step(self, wanted: int, zxid: int, at_node: int | None = None) -> int | None:
        """Return the index of the first step of a kind, at any node or at one, with this transaction."""
        _, nodes, kinds, _, firsts, lasts = self._diagram.steps.columns
        found = (
            at
            for at, (node, kind, first, last) in enumerate(zip(nodes, kinds, firsts, lasts, strict=True))
            if kind == wanted and first <= zxid <= last and at_node in (None, node)
        )
        return next(found, None)

    def _later_deliveries(self) -> Iterator[ChainEvent]:
        """Yield what the node of a wrong broadcast, the last cited line, delivered only after it: it took effect, or should
        have come first.
        """
        point = _point_of(self._cited[-1])
        if point is None or self._cited[-1].event.get("event") != "broadcast":
            return
        for zxid in sorted(self._zxids):
            at = self._find_step(DELIVER, zxid, point.line)
            if at is not None and (step := self._diagram.steps[at]).t > self._end:
                yield ChainEvent(step.t, f"node {point.line} delivered {zxid_range(step.first, step.last)}", step=at)

    # ---- the messages between the cited events ----

    def _messages_between(self) -> Iterator[ChainEvent]:
        """Yield the messages from the fault to the first cited event and on to each next one, with the durable steps."""
        messages = self._diagram.exchange.messages
        before = self._start()
        for one in self._cited:
            if (target := _point_of(one)) is None:
                continue
            cause = self._trigger(one, target)
            note = ""
            if cause is None and (deed := LAST_DEEDS.get(one.event.get("event", ""))) is not None:
                cause, note = self._last_received(target, one.event), f", the last message before it {deed}"
            if cause is None:
                path = shortest_path(messages, before, target, self._zxids)
            else:
                asked = Point(messages[cause].source, messages[cause].sent)
                path = [*shortest_path(messages, before, asked, self._zxids), cause]
            for at, following in pairwise([*path, None]):
                assert at is not None
                yield self._message_event(at, note if at == cause else "")
                yield from self._made_durable(at, following, target)
            before = [target]

    def _start(self) -> list[Point]:
        """Return where the chain begins: at the fault, or else at the first broadcast of what is concerned, or at any fault."""
        faults = self._suspects.faults[:1]
        if self._suspects.related or not (broadcast := self._first_broadcast()):
            return [Point(node, fault.at) for fault in faults for node in fault.nodes] or self._first_broadcast()
        return broadcast

    def _first_broadcast(self) -> list[Point]:
        steps = self._diagram.steps
        found = [steps[at] for zxid in self._zxids if (at := self._find_broadcast(zxid)) is not None]
        return [Point(step.node, step.t) for step in sorted(found, key=lambda step: step.t)[:1]]

    def _trigger(self, cited: Evidence, point: Point) -> int | None:
        """Return the index of the message that let a node accept or deliver: by then the last one with these transactions, or
        the last ACK or COMMIT of them."""
        match cited.event:
            case {"event": "deliver" | "accept" as event, "epoch": int(epoch), "first": int(first)}:
                wanted = zx.zxid(epoch, first)
            case _:
                return None
        words = CARRIES if event == "accept" else DELIVERY_TRIGGERS
        messages = self._diagram.exchange.messages
        triggers = {number for number, word in enumerate(messages.words.all) if word in words}
        _, targets, kinds, epochs, firsts, lasts, _, _, received = messages.columns
        found = [
            (there, at)
            for at, (target, kind, e, low, last, there) in enumerate(
                zip(targets, kinds, epochs, firsts, lasts, received, strict=True)
            )
            if target == point.line and there != NEVER and there <= point.t and kind in triggers and last >= wanted
            and (low <= wanted if event == "accept" else e == epoch)
        ]  # fmt: skip
        return max(found)[1] if found else None

    def _last_received(self, point: Point, event: dict[str, Any]) -> int | None:
        """Return the index of the last message that a node received by then. A PING counts only if digests differed."""
        messages = self._diagram.exchange.messages
        ping = messages.words.number("PING") if "digest of" not in str(event.get("why")) else None
        _, targets, kinds, *_, received = messages.columns
        found = [
            (there, at)
            for at, (target, kind, there) in enumerate(zip(targets, kinds, received, strict=True))
            if target == point.line and there != NEVER and there <= point.t and kind != ping
        ]
        return max(found)[1] if found else None

    def _received_in_vain(self) -> Iterator[ChainEvent]:
        """Yield the messages about the transactions concerned that came to nothing: nodes dropped them, or the node that
        stopped itself did not accept what they carried.
        """
        exchange, stopped = self._diagram.exchange, self._cited[-1].event.get("event") == "abort"
        drops = defaultdict(list)
        for it in exchange.drops:
            drops[it.source, it.target, it.content].append(it)
        for at in self._about(self._zxids) if drops or stopped else ():
            one = exchange.messages[at]
            same = drops.get((one.source, one.target, one.content), ())
            drop = next((it for it in same if max(it.t, one.sent) == one.received), None)
            if drop is not None and drop.t <= self._end:
                yield self._message_event(at)
                yield ChainEvent(
                    drop.t, f"node {drop.target} received {_said(drop.content)} and dropped it: {drop.why}"
                )
            elif stopped and one.target == self._cited[-1].event.get("node") and one.content.kind in CARRIES:
                accepted = list(self._made_durable(at, None, Point(one.target, self._end)))
                yield self._message_event(at, "" if accepted else self._lost(one))
                yield from accepted

    def _about(self, zxids: Sequence[int]) -> Iterator[int]:
        """Yield the indices of the messages, except PINGs, that were sent by then and name one of these transactions."""
        messages = self._diagram.exchange.messages
        ping = messages.words.number("PING")
        _, _, kinds, _, firsts, lasts, _, sent, _ = messages.columns
        for at, (kind, first, last, t) in enumerate(zip(kinds, firsts, lasts, sent, strict=True)):
            if first and t <= self._end and kind != ping and any(first <= zxid <= last for zxid in zxids):
                yield at

    def _lost(self, message: SentMessage) -> str:
        """Say what became of a message with transactions that were not accepted."""
        if message.received is None:
            return ", which never received it"
        return f", which {'had not received' if message.received > self._end else 'received and did not accept'} it by then"

    def _acknowledgements(self) -> Iterator[ChainEvent]:
        """Yield which nodes had acknowledged a transaction when it was delivered, if too few did."""
        if self._property != QUORUM_DURABILITY or self._diagram.gaps:
            return
        for one in self._cited:
            match one.event:
                case {"event": "deliver", "epoch": int(epoch), "first": int(first), "digests": str(digests)}:
                    batch = range(zx.zxid(epoch, first), zx.zxid(epoch, first + dg.count(digests)))
                    zxid = next((it for it in self._zxids if it in batch), batch[0])
                    sources = {
                        it.source
                        for it in self._diagram.exchange.messages
                        if it.content.kind in ACKNOWLEDGES and it.content.last >= zxid
                        and it.received is not None and it.received <= _time(one)
                    }  # fmt: skip
                    who = node_names(sorted(sources)) if sources else "no other node"
                    yield ChainEvent(_time(one), f"by then {who} had acknowledged {show(zxid)}")

    def _message_event(self, at: int, note: str = "") -> ChainEvent:
        one = self._diagram.exchange.messages[at]
        return ChainEvent(
            one.sent, f"node {one.source} sent {_said(one.content)} to node {one.target}{note}", message=at
        )

    def _made_durable(self, at: int, following: int | None, target: Point) -> Iterator[ChainEvent]:
        """Yield the first thing that the receiver made durable because of the message, before its own next message."""
        messages, steps = self._diagram.exchange.messages, self._diagram.steps
        one = messages[at]
        until = target.t if following is None else messages[following].sent
        for index in range(bisect_left(steps, one.received or 0, key=lambda step: step.t), len(steps)):
            step = steps[index]
            if step.t > until:
                return
            if step.node == one.target and step.kind in DURABLE and _concerns(step, one):
                yield ChainEvent(step.t, _step_words(step), step=index)
                return


def _said(content: MessageContent) -> str:
    these = zxid_range(content.first, content.last) if content.last else f"of epoch {content.epoch}"
    return content.words or f"{content.kind} {these}"


def _touches(span: FaultSpan, nodes: Collection[int]) -> bool:
    """Return whether a fault is one of these nodes, or of a link between two of them."""
    return any(node in nodes for node in span.nodes) or any(
        one in nodes and other in nodes for one, other in span.pairs
    )


def _shown_as(event: ChainEvent) -> tuple[int, int | None, int | None, int | None]:
    """Return what two events have in common if they are the same one."""
    return event.t, event.message, event.step, event.request


def _order(event: ChainEvent) -> tuple[int, bool]:
    """Return the key by which events are sorted. The time of a message is that of the last trace line before it was sent."""
    return event.t, event.message is not None


def _point_of(cited: Evidence) -> Point | None:
    match = TRACE_FILE.fullmatch(cited.file)
    return Point(int(match[1]), _time(cited)) if match is not None else None


def _concerns(step: NodeStep, message: SentMessage) -> bool:
    if step.first and message.content.first:
        return step.first <= message.content.last and message.content.first <= step.last
    return step.epoch == message.content.epoch


def _step_words(step: NodeStep) -> str:
    these = zxid_range(step.first, step.last)
    return {
        "accept": f"node {step.node} accepted {these}, durably",
        "accepted_epoch": f"node {step.node} promised epoch {step.epoch}, durably",
        "current_epoch": f"node {step.node} adopted epoch {step.epoch}, durably",
        "truncate": f"node {step.node} truncated {these}",
    }.get(step.kind, f"node {step.node} restored a snapshot up to {show(step.last)}")


# ---- the shortest path ----

START, ARRIVAL, DEPARTURE, INSTANT_ARRIVAL = range(4)  # in the order in which they count at the same time


def shortest_path(messages: Messages, starts: Iterable[Point], target: Point, zxids: Sequence[int]) -> list[int]:
    """Return the indices of the cheapest messages that lead from one of the starts to the target.

    Empty if no message is needed, or if no path exists. The search is one sweep in order of time: `reached` has, for each
    node, the cheapest path by which a start can have influenced it by then. Staying on a line costs nothing, so a node that
    was reached stays reached.
    """
    reached: dict[int, _Path] = {}
    moments = [(start.t, START, -1, start.line) for start in starts]
    begin = min((start[0] for start in moments), default=0)
    sources, targets, *_, departures, arrivals = messages.columns
    for index, (source, sent, received) in enumerate(zip(sources, departures, arrivals, strict=True)):
        if received != NEVER and sent >= begin and received <= target.t:
            arrival = INSTANT_ARRIVAL if received == sent else ARRIVAL
            moments += [(sent, DEPARTURE, index, source), (received, arrival, index, 0)]
    in_flight: dict[int, _Path] = {}
    for _, kind, index, line in sorted(moments):
        if kind == START:
            reached[line] = _Path(0, -1, None)
        elif kind == DEPARTURE:
            if (path := reached.get(line)) is not None:
                in_flight[index] = _Path(path.cost + _cost(messages, index, zxids), index, path)
        elif (arrived := in_flight.pop(index, None)) is not None:
            node = targets[index]
            if node not in reached or arrived.cost < reached[node].cost:
                reached[node] = arrived
    return reached[target.line].messages() if target.line in reached else []


class _Path(NamedTuple):
    """A path of messages: its last message, and the path before that message."""

    cost: int
    message: int
    before: "_Path | None"

    def messages(self) -> list[int]:
        """Return the indices of the path's messages, from the first to the last."""
        found: list[int] = []
        path: _Path | None = self
        while path is not None and path.message >= 0:
            found.append(path.message)
            path = path.before
        return found[::-1]


def _cost(messages: Messages, index: int, zxids: Sequence[int]) -> int:
    _, _, kinds, _, firsts, lasts, *_ = messages.columns
    if messages.words.all[kinds[index]] == "PING":
        return PING_COST
    first, last = firsts[index], lasts[index]
    return SAME_COST if first and any(first <= zxid <= last for zxid in zxids) else OTHER_COST
