"""The checkers of primary order (local and global), of primary integrity, and of one leader an epoch (DSN 2011, section
III)."""

import itertools

from zab_chaos.model.events import BEFORE_START, Broadcast, Established, packed
from zab_chaos.model.oracle.broadcasts import PrimaryBroadcast
from zab_chaos.model.oracle.delivered_history import Delivery
from zab_chaos.model.oracle.evidence import show, zxid_range
from zab_chaos.model.oracle.facts import BY_NODES, Facts
from zab_chaos.model.oracle.properties.checker import Checker, DeliveryChecker


class LocalPrimaryOrder(DeliveryChecker):
    """DSN 2011, III-A: if a primary broadcasts a before b, a process that delivers b delivers a before it.

    Verifies it for all pairs: a primary broadcasts counters 1, 2, 3, ..., and a node delivers the counters of an epoch in
    that order, from 1 on, without a gap. (The public TLA+ specifications say "there is a pair", which is vacuous.) No
    counter is above the limit of the nodes, if run.json has it: where the limit is the counter's width, the next zxid would
    belong to the next epoch. Transactions from before the run may have had another limit. Does not verify which epochs follow
    each other.
    """

    name = "local primary order"
    source = "DSN 2011"
    statement = "Within an epoch, delivery follows the order of broadcast, without gaps, for all pairs."

    def on_broadcast(self, broadcast: PrimaryBroadcast) -> None:
        event = broadcast.event
        if event.first == broadcast.expected:
            return
        earlier = broadcast.primary.events[-2] if len(broadcast.primary.events) > 1 else None
        what = "again" if event.first < broadcast.expected else f"where {event.epoch}:{broadcast.expected} was next"
        words = f"node {event.node} broadcast {event.epoch}:{event.first} {what}"
        self.findings.add(words, [earlier, event], {event.node})

    def at_end(self) -> None:
        super().at_end()
        limit = self.facts.run.expect.get("counter_max")
        if isinstance(limit, int):
            for primary in itertools.chain.from_iterable(self.facts.broadcasts.epochs.values()):
                if primary.node != BEFORE_START and len(primary.digests) > limit:
                    words = (
                        f"node {primary.node} broadcast {primary.epoch}:{len(primary.digests)}, above the limit {limit}"
                    )
                    self.findings.add(words, [primary.events[-1]])

    def on_nonconsecutive_delivery(self, delivery: Delivery) -> None:
        event, before, expected = delivery.event, delivery.before, self.facts.next_counter(delivery)
        if event.epoch < before >> 32 or event.first == expected:
            return
        if event.first < expected:
            words = f"node {event.node} delivered {show(event.zxid)} after {show(before)}"
            self.findings.add(words, [event], {event.node})
            return
        missing = zxid_range(event.epoch << 32 | expected, event.zxid - 1)
        self.findings.add(
            f"node {event.node} delivered {show(event.zxid)} after {show(before)}, without {missing} of the same epoch",
            [*self._broadcast_of(event.epoch, expected), event],
            {event.node},
        )

    def _broadcast_of(self, epoch: int, counter: int) -> list[Broadcast | None]:
        return [primary.event_of(counter) for primary in self.facts.broadcasts.epochs.get(epoch, ())][:1]


class GlobalPrimaryOrder(DeliveryChecker):
    """DSN 2011, III-A: broadcasts of an earlier primary are delivered before those of a later one.

    Verifies that epochs never go back in the sequence that a node delivers in one life. Does not verify the order within an
    epoch.
    """

    name = "global primary order"
    source = "DSN 2011"
    statement = "Epochs never go back in a delivered sequence."
    rests_on_absence = False

    def on_nonconsecutive_delivery(self, delivery: Delivery) -> None:
        event = delivery.event
        if event.epoch < delivery.before >> 32:
            self.findings.add(
                f"node {event.node} delivered {show(event.zxid)} of epoch {event.epoch} after {show(delivery.before)}",
                [event],
            )


class PrimaryIntegrity(Checker):
    """DSN 2011, III-A: before it broadcasts, the primary of e has delivered whatever any process ever delivers of epochs <
    e.

    Verifies, by the primary's own `deliver` and `snapshot` (restored) events before its first `broadcast` in e, that no
    node had delivered a later transaction of an older epoch by then, and that none ever does afterwards. Also that the
    epoch had been established (ready(e), step l.2.2) before, and that the `delivered` field of each broadcast is exactly
    what those events show by then. Does not verify on which state the primary judged its clients' requests (values and
    versions does).
    """

    name = "primary integrity"
    source = "DSN 2011"
    statement = (
        "Before its first broadcast, the primary of epoch e has delivered every transaction of earlier epochs that any node "
        "ever delivers."
    )
    judged_from = BY_NODES

    def on_broadcast(self, broadcast: PrimaryBroadcast) -> None:
        event, primary = broadcast.event, broadcast.primary
        self._check_delivered_field(event)
        if event is not primary.events[0]:
            return
        self.checked += 1
        if not any(
            (it.epoch, it.node, it.life) == (event.epoch, event.node, event.life)
            for it in reversed(self.facts.established)
        ):
            self.findings.add(
                f"node {event.node} broadcast {show(event.zxid)} before it was established for epoch {event.epoch}",
                [event],
                {event.node},
            )
        history = self.facts.history
        older = history.count_below(event.epoch << 32)
        if older and history.zxids[older - 1] > primary.delivered:
            first = history.count_below(primary.delivered + 1)
            author = history.first_delivery(first)
            self.findings.add(
                f"node {event.node} broadcast {show(event.zxid)} when it had delivered up to {show(primary.delivered)} "
                f"only, but node {author.node} had delivered {zxid_range(history.zxids[first], history.zxids[older - 1])}",
                [author, event],
                {event.node},
            )

    def on_new_delivery(self, delivery: Delivery) -> None:
        event = delivery.event
        broadcasts = self.facts.broadcasts
        if broadcasts.highest <= event.epoch:
            return
        for epoch in sorted(epoch for epoch in broadcasts.epochs if epoch > event.epoch):
            for primary in broadcasts.epochs[epoch]:
                if primary.delivered < delivery.last:
                    self.findings.add(
                        f"node {event.node} delivered {show(delivery.last)}, but node {primary.node} had broadcast in "
                        f"epoch {epoch} after it had delivered up to {show(primary.delivered)} only",
                        [primary.events[0], event],
                        {primary.node},
                    )
                    return

    def _check_delivered_field(self, event: Broadcast) -> None:
        """Check the `delivered` field of a broadcast against the trace of its node."""
        traced = self.facts.nodes[event.node].position.last
        if packed(event.delivered) != traced:
            self.findings.add(
                f"node {event.node} broadcast {show(event.zxid)} and said that it had delivered up to "
                f"{show(event.delivered)}; its trace shows {show(traced)}",
                [event],
                {event.node},
            )


class OneEstablished(Checker):
    """DSN 2011, III: the value of an epoch belongs to at most one process.

    Verifies that an epoch is established at most once, by one life of one node. Does not verify how many nodes believe that
    they lead: elections need not be safe.
    """

    name = "one leader an epoch"
    source = "DSN 2011"
    statement = "At most one process is ever established as the leader of an epoch."
    rests_on_absence = False

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._first: dict[int, Established] = {}  # by epoch

    def on_established(self, event: Established) -> None:
        self.checked += 1
        other = self._first.setdefault(event.epoch, event)
        if other is not event:
            self.findings.add(
                f"node {event.node} (life {event.life}) was established for epoch {event.epoch}, as node "
                f"{other.node} (life {other.life}) had been",
                [other, event],
            )


class OneLeader(OneEstablished):
    """The same property, for nodes that trace their own broadcasts.

    Verifies in addition that only the process that is established for an epoch broadcasts in it.
    """

    def on_broadcast(self, broadcast: PrimaryBroadcast) -> None:
        self.checked += 1
        primaries = self.facts.broadcasts.epochs[broadcast.event.epoch]
        if len(primaries) > 1 and broadcast.event is broadcast.primary.events[0]:
            self.findings.add(
                f"node {broadcast.primary.node} (life {broadcast.primary.life}) broadcast in epoch {broadcast.event.epoch}, as "
                f"node {primaries[0].node} (life {primaries[0].life}) had done",
                [primaries[0].events[0], broadcast.event],
            )
