"""The times in which each node could have led, by lives, links, lost disks and faults. Elections do not matter here."""

from bisect import bisect_right
from collections.abc import Iterator

import msgspec

from zab_chaos.model.events import Boot, Inject
from zab_chaos.model.oracle.facts import LINK_FAULTS, Facts
from zab_chaos.model.oracle.spans import FOREVER, Span, difference, intersection, merged, shared

MILD_SHARE = 200  # a delay of at most this part of the bound is mild: an election with it takes a fraction of the bound
MILD_RATES = (0.75, 1.25)  # of clocks: timeouts are at least four heartbeats long


class LeaderWindow(msgspec.Struct, frozen=True):
    """A time (`start`, `end`) in which `node` could have led. It and `peers`, together a quorum, were alive and members, were
    connected to it all the time, and no fault affected them."""

    node: int
    peers: frozenset[int]
    start: int
    end: int


class PossibleLeaders:
    """Finds the times in which each node could have led. It is computed once, at the end of a run.

    `bound` (ns): how soon there must be progress. A link that the nodes close and open again within a fifth of it counts as
    open, because a new iteration begins with new sessions. A fault that only makes disks, links or clocks slightly slower,
    compared with the bound, affects nobody.
    """

    def __init__(self, facts: Facts, bound: int) -> None:
        self._facts = facts
        self._faults = [inject for inject in facts.faults if not _is_mild(inject, bound)]
        # A node counts from its first admission in a life.
        self._admitted = {(event.node, event.life): event.t for event in reversed(facts.members)}
        self._undisturbed = {
            node: difference(spans, self._node_faults(node)) for node, spans in self._membership().items()
        }
        self._open = {pair: merged(spans, bound // 5) for pair, spans in self._open_links().items()}
        self._cuts = self._link_faults()
        self._connected: dict[tuple[int, int], list[Span]] = {}  # what `connected` has computed

    def windows(self) -> Iterator[LeaderWindow]:
        """Find the windows of all nodes."""
        for node in sorted(self._undisturbed):
            yield from self._windows(node)

    def unsupported(self, node: int) -> list[Span]:
        """Return the times in which a node was alive and undisturbed, and had its links to fewer members open than are a
        quorum together with it. Peers that are no longer alive count while the node has its link to them open. There are at
        least two nodes."""
        peers = self._undisturbed.keys() - {node}
        open_links = [span for peer in peers for span in self._open_to_member(node, peer)]
        return difference(self._undisturbed.get(node, []), shared(open_links, self._facts.quorum() - 1))

    def _windows(self, node: int) -> Iterator[LeaderWindow]:
        changes = [(t, change, peer) for peer in self._undisturbed for t, change in self._changes(node, peer)]
        changes += [(t, 0, node) for t in self._leader_disturbances()]
        present: set[int] = set()
        core: frozenset[int] | None = None
        start = 0
        for t, change, peer in sorted(changes):
            if change > 0:
                present.add(peer)
            elif change < 0:
                present.discard(peer)
            if core is not None and (change == 0 or len(core & present) < self._facts.quorum()):
                yield LeaderWindow(node, core - {node}, start, t)
                core = None
            if core is not None:
                core = core & present
            elif len(present) >= self._facts.quorum():
                core, start = frozenset(present), t

    def _changes(self, node: int, peer: int) -> Iterator[tuple[int, int]]:
        for start, end in self.connected(node, peer):
            yield start, 1
            yield end, -1

    def connected(self, one: int, other: int) -> list[Span]:
        """Return the times in which both nodes were alive, members and undisturbed, with the undisturbed link between them open
        on both sides. There are none if one of them never counted in a quorum, or is no node of this ensemble."""
        if one == other:
            return self._undisturbed.get(one, [])
        if (one, other) not in self._connected:
            self._connected[one, other] = intersection(self._undisturbed.get(one, []), self._reached(other, one))
        return self._connected[one, other]

    def greeting_clients(self, node: int) -> list[Span]:
        """Return the times in which a node was alive and could greet clients, with or without links to others."""
        lives = [(life.boot.t, life.last.t) for life in self._facts.nodes[node].lives if life.boot is not None]
        return difference(lives, self._node_faults(node, besides=LINK_FAULTS))

    def waiting_for_admission(self, node: int, leader: int) -> list[Span]:
        """Return the times in which a node that had lost its disk was no member yet and reached a leader: as `connected`, but
        only the leader was a member."""
        spans = [
            (boot.t, min(self._counts_from(boot), life.last.t))
            for life in self._facts.nodes[node].lives
            if (boot := life.boot) is not None and boot.disk == "amnesiac"
        ]
        return intersection(difference(spans, self._node_faults(node)), self._reached(leader, node))

    def _reached(self, member: int, node: int) -> list[Span]:
        """Return the times in which a member was alive and undisturbed, with the undisturbed link to a node open on both
        sides."""
        linked = intersection(self._open.get((member, node), []), self._open.get((node, member), []))
        uncut = difference(linked, self._cuts.get(frozenset((member, node)), []))
        return intersection(uncut, self._undisturbed.get(member, []))

    def _membership(self) -> dict[int, list[Span]]:
        """Return the times in which each node was alive and counted in quorums."""
        spans: dict[int, list[Span]] = {}
        for (node, _), life in self._facts.lives.items():
            if life.boot is not None and (begun := self._counts_from(life.boot)) < life.last.t:
                spans.setdefault(node, []).append((begun, life.last.t))
        return {node: merged(each) for node, each in spans.items()}

    def _counts_from(self, boot: Boot) -> int:
        """Return when a life began to count in quorums, FOREVER if it never did. An amnesiac counts once it is a member."""
        return self._admitted.get((boot.node, boot.life), FOREVER) if boot.disk == "amnesiac" else boot.t

    def _open_to_member(self, node: int, peer: int) -> list[Span]:
        """Return the times in which a node had its link to a peer open, without those in which the peer was amnesiac."""
        boots = self._facts.nodes[peer].boots
        ends = [*(boot.t for boot in boots[1:]), FOREVER]
        spans = zip(boots, ends, strict=True)
        amnesiac = [(boot.t, min(end, self._counts_from(boot))) for boot, end in spans if boot.disk == "amnesiac"]
        return difference(self._open.get((node, peer), []), amnesiac)

    def _open_links(self) -> dict[tuple[int, int], list[Span]]:
        """Return the times in which each node had its link to a peer open, by (node, peer), according to its own trace."""
        spans: dict[tuple[int, int], list[Span]] = {}
        opened: dict[tuple[int, int, int], int] = {}
        for event in self._facts.links:
            key = event.node, event.life, event.peer
            begun = opened.pop(key, None)
            if begun is not None:
                spans.setdefault((event.node, event.peer), []).append((begun, event.t))
            if event.state == "opened":
                opened[key] = event.t
        for (node, life, peer), begun in opened.items():
            spans.setdefault((node, peer), []).append((begun, self._facts.lives[node, life].last.t))
        return spans

    def _node_faults(self, node: int, besides: frozenset[str] = frozenset()) -> list[Span]:
        """Return the times in which a fault affected this node, besides some kinds. Faults of named links are left to
        `_link_faults`."""
        hit = [it for it in self._faults if node in it.nodes and not it.pairs and it.do not in besides]
        return [self._facts.span_of(inject) for inject in hit]

    def _link_faults(self) -> dict[frozenset[int], list[Span]]:
        """Return the times in which a fault affected the links between two nodes, in one direction or both."""
        spans: dict[frozenset[int], list[Span]] = {}
        for inject in self._faults:
            for pair in inject.pairs or ():
                spans.setdefault(frozenset(pair), []).append(self._facts.span_of(inject))
        return spans

    def _leader_disturbances(self) -> list[int]:
        """Return the times at which a fault of the leader of that time began or ended: a new election may follow. A fault that
        begins when the last leader leads no more is none of these."""
        found, leads = [], sorted((event.t, event.node) for event in self._facts.established)
        led = {node: self._led(node) for node in {node for _, node in leads}}
        for inject in self._faults:
            touched = {end for pair in inject.pairs or () for end in pair} or set(inject.nodes)
            began_with: int | None = None  # the leader that was hit
            for t in self._facts.span_of(inject):
                place = bisect_right(leads, (t, FOREVER))
                leader = leads[place - 1][1] if place else None
                if leader in touched and t < FOREVER and (leader == began_with or _is_in(t, led[leader])):
                    began_with = leader
                    found.append(t)
        return found

    def _led(self, node: int) -> list[Span]:
        """Return the times from each election of a node as leader until it gives up or starts again: it may be killed later
        than its trace shows."""
        lives = self._facts.nodes[node].lives
        boots = [boot.t for boot in self._facts.nodes[node].boots]
        given_up = {life.last.life: [it.t for it in life.phases if it.phase == "ELECTION"] for life in lives}
        led = [event for event in self._facts.began_to_lead if event.node == node]
        return merged((event.t, min(_next(boots, event.t), _next(given_up[event.life], event.t))) for event in led)


def _next(times: list[int], t: int) -> int:
    """Return the first of these ascending times that is after `t`, FOREVER if none is."""
    place = bisect_right(times, t)
    return times[place] if place < len(times) else FOREVER


def _is_in(t: int, spans: list[Span]) -> bool:
    place = bisect_right(spans, (t, FOREVER))
    return place > 0 and t <= spans[place - 1][1]


def _is_mild(inject: Inject, bound: int) -> bool:
    """Return whether an ensemble must work as well as without this fault."""
    rate, ms, jitter = (_number(inject.params.get(name, 0)) for name in ("rate", "ms", "jitter_ms"))
    if inject.do == "clock-rate":
        return MILD_RATES[0] <= rate <= MILD_RATES[1]
    return inject.do in ("latency", "slow-disk") and 0 < (ms + jitter) * 1_000_000 * MILD_SHARE <= bound


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else 0.0
