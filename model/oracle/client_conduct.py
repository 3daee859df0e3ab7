"""What clients of the client library must do, and what must not happen to their connections, seen from the whole run."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain

from zab_chaos.model.events import Client, Complete, Invoke, Line
from zab_chaos.model.oracle.facts import ORDERED, Facts, in_time
from zab_chaos.model.oracle.possible_leaders import PossibleLeaders
from zab_chaos.model.oracle.spans import FOREVER, SECOND, Span, difference, gaps, intersection, longer, merged
from zab_chaos.node.clients.protocol import BROKE, NO_ANSWER, UNREAD
from zab_chaos.node.tree.refusal import NO_LEADER

STAYS = 2 * SECOND  # twice the time after which a client leaves a node that has no leader (docs/client.md)
GREETS = SECOND  # the time that a client gives a node to greet it (docs/client.md)
LEAVES = 4 * SECOND  # twice the silence after which a client leaves its node (docs/client.md)
NOTICES = SECOND  # a client does not notice a silence sooner
FORGETS = SECOND  # longer than a message is on its way, and the answer to it
STALLS = SECOND  # a load that sends nothing for longer may have stood still itself, with the machine

Misconduct = tuple[str, Sequence[Line]]  # in words, and the lines that show it


class ClientConduct:
    """Finds the clients that stay where nobody can serve them, and those that lose a good connection, at the end of a run."""

    def __init__(self, facts: Facts, possible: PossibleLeaders) -> None:
        self._facts, self._possible = facts, possible

    def staying_without_leader(self) -> Iterator[Misconduct]:
        """Find the clients that do not leave a node that has no leader: others may have one."""
        refused: dict[int, tuple[Complete, Complete]] = {}  # by client: the first and the last such refusal in a row
        for request in self._facts.requests.values():
            invoke, answer = request.invoke, request.complete
            if answer is None or invoke.op not in ORDERED:
                continue
            first, last = refused.pop(invoke.client, (answer, answer))
            if answer.error != NO_LEADER:
                continue
            if self._has_moved(first, answer):
                first = answer
            elif last.t - first.t >= STAYS and invoke.t > last.t:
                yield (
                    f"client {invoke.client} sent seq {invoke.seq} to node {answer.node}, which had refused its writes for "
                    f"{(last.t - first.t) / 1e9:.1f} s for want of a leader, instead of leaving it",
                    [first, last, invoke, answer],
                )
                continue
            refused[invoke.client] = first, answer

    def staying_without_connection(self) -> Iterator[Misconduct]:
        """Find the clients that wait for a node that does not greet them, instead of trying all."""
        connected: dict[int, list[Span]] = {}  # by client
        for (node, client), events in self._facts.connections.items():
            for event, following in zip(events, [*events[1:], None], strict=True):
                if event.state == "connected":
                    last = self._facts.lives[node, event.life].last.t
                    end = min(last, following.t) if following is not None else last
                    connected.setdefault(client, []).append((event.t, end))
        waits: dict[int, list[Span]] = {}  # by client
        for invoke, wait in self._facts.unserved_requests:
            waits.setdefault(invoke.client, []).append(wait)
        bound = GREETS * (self._facts.run.nodes + 1)
        lonely = {
            client: alone
            for client, spans in waits.items()
            if (alone := longer(difference(merged(spans, GREETS), connected.get(client, [])), bound))
        }
        greeting = merged(self._could_greet(bound)) if lonely else []
        for client, alone in lonely.items():
            for start, end in longer(intersection(alone, greeting), bound):
                yield (
                    f"client {client} was without a connection for {(end - start) / 1e9:.1f} s "
                    f"({self._facts.in_load(start, end)}), although some node could have greeted it",
                    self._waiting_alone(client, start, end),
                )

    def _waiting_alone(self, client: int, start: int, end: int) -> list[Line]:
        """Return the last change of the client's connections until `start`, its first request that was not served since, and
        the first change after `end`."""
        changes = [event for (_, one), events in self._facts.connections.items() if one == client for event in events]
        changes.sort(key=lambda event: event.t)
        before = [event for event in changes if event.t <= start]
        after = [event for event in changes if event.t >= end]
        waiting = [
            invoke for invoke, wait in self._facts.unserved_requests if invoke.client == client and wait[1] > start
        ]
        return [*before[-1:], *sorted(waiting, key=lambda invoke: invoke.t)[:1], *after[:1]]

    def staying_at_silent_node(self) -> Iterator[Misconduct]:
        """Find the clients that do not leave a node that can't answer what they have sent to it."""
        silences = self._silences()
        arrivals: dict[int, list[Client]] = {}  # by client
        for (_, client), events in self._facts.connections.items():
            arrivals.setdefault(client, []).extend(events)
        for request in self._facts.requests.values():
            invoke, end = request.invoke, request.complete
            if end is None or end.node != invoke.node or end.t - invoke.t <= LEAVES:
                continue
            for latest, start, until in silences.get(end.node or 0, ()):
                span = max(start, invoke.t), min(until, end.t)
                waited = span[1] - span[0]
                stayed = invoke.t < latest and waited > LEAVES and _stayed(arrivals.get(invoke.client, ()), invoke, end)
                if stayed and not any(gaps(span, self._sent, STALLS)):
                    yield (
                        f"client {invoke.client} waited for {waited / 1e9:.1f} s for an answer of node {end.node}, which could "
                        f"not send one",
                        [invoke, end],
                    )
                    break

    def losing_connection(self) -> Iterator[Misconduct]:
        """Find the connections that break although their node goes on undisturbed."""
        broken: dict[tuple[int, int], Complete] = {}  # by client and time: one of the requests that waited
        for end in (request.complete for request in self._facts.requests.values()):
            if end is not None and end.outcome == "unknown" and (end.error or "").startswith(BROKE):
                broken.setdefault((end.client, end.t), end)
        for end in broken.values():
            span = end.t - LEAVES, end.t
            if self._undisturbed(end.node or 0, span):
                words = f"client {end.client} lost its connection to node {end.node}, which went on, and no fault affected it"
                yield words, [end]

    def waiting_where_forgotten(self) -> Iterator[Misconduct]:
        """Find the clients that wait until their timeout at a node that has forgotten them, which must say so.

        A node forgets a client without a word if there is no room for one. `FORGETS` later there is. When the client sends a
        request then, it is told within `FORGETS`.
        """
        for request in self._facts.requests.values():
            invoke, end = request.invoke, request.complete
            if end is None or end.node != invoke.node or NO_ANSWER not in (end.error or ""):
                continue
            events = self._facts.connections.get((end.node or 0, invoke.client), [])
            before = bisect_left(events, invoke.t, key=lambda event: event.t)
            forgotten = events[before - 1] if before else None
            if forgotten is None or forgotten.why != UNREAD or in_time(events, invoke.t, end.t):
                continue
            span = invoke.t - FORGETS, invoke.t + FORGETS
            if forgotten.t <= span[0] and span[1] <= end.t and self._undisturbed(end.node or 0, span):
                yield (
                    f"client {invoke.client} waited for {(end.t - invoke.t) / 1e9:.1f} s for an answer of node {end.node}, "
                    f"which had forgotten it and did not say so",
                    [forgotten, invoke, end],
                )

    def _undisturbed(self, node: int, span: Span) -> bool:
        """Return whether the node ran all the time and for a while longer, no fault affected it, and the machine did not stand
        still."""
        until = span[1] + SECOND
        active = self._facts.faults_during(*span)
        affected = any(node in {*inject.nodes, *chain.from_iterable(inject.pairs or ())} for inject in active)
        ran = any(
            life.boot is not None and life.boot.t <= span[0] and until < (life.exit or life.last).t
            for life in self._facts.nodes[node].lives
        )
        return ran and not affected and not any(gaps(span, self._sent, STALLS))

    @cached_property
    def _sent(self) -> list[int]:
        """When clients sent their requests."""
        return sorted(request.invoke.t for request in self._facts.requests.values())

    def _silences(self) -> dict[int, list[tuple[int, int, int]]]:
        """Return the times (start, until) in which each node can't answer what was sent to it before `latest`: it has started
        again, or is paused."""
        found = {
            number: [(boot.t, boot.t, FOREVER) for boot in node.boots] for number, node in self._facts.nodes.items()
        }
        for inject in self._facts.injects:
            for node in inject.nodes if inject.do == "pause" and inject.confirmed else ():
                found.setdefault(node, []).append((inject.t + NOTICES, *self._facts.span_of(inject)))
        return found

    def _could_greet(self, bound: int) -> Iterator[Span]:
        """Find the times longer than the bound in which one node could greet clients."""
        for node in self._facts.nodes:
            yield from longer(self._possible.greeting_clients(node), bound)

    def _has_moved(self, before: Complete, after: Complete) -> bool:
        """Return whether these two answers did not come over one connection."""
        if before.node is None or before.node != after.node:
            return True
        events = self._facts.connections.get((before.node, before.client), [])
        return bool(in_time(events, before.t + 1, after.t))


def _stayed(events: Iterable[Client], invoke: Invoke, end: Complete) -> bool:
    """Return whether a client was connected to a node when it sent a request there, and connected to none until its end."""
    before = max((it for it in events if it.node == invoke.node and it.t < invoke.t), key=lambda it: it.t, default=None)
    if before is None or before.state != "connected":
        return False
    return not any(it.state == "connected" and before.t < it.t < end.t for it in events)
