"""The checkers of ZooKeeper's requirements on its broadcast (LADIS 2008, section 2): prefix, causal order, reliable
delivery."""

from zab_chaos.model.events import packed
from zab_chaos.model.oracle.broadcasts import PrimaryBroadcast
from zab_chaos.model.oracle.delivered_history import Delivery
from zab_chaos.model.oracle.evidence import show, zxid_range
from zab_chaos.model.oracle.properties.checker import Checker, DeliveryChecker


class Prefix(DeliveryChecker):
    """LADIS 2008: if m is the last message delivered for a leader L, any message proposed before m by L is delivered.

    Verifies for each node and each epoch that the delivered transactions are a prefix of the broadcast ones: no broadcast
    transaction below the last delivered one is missing. Does not verify the order (local primary order does), nor that the rest
    of a leader's proposals is ever delivered: it may be skipped, and then stays skipped.
    """

    name = "prefix"
    source = "LADIS 2008"
    statement = "The delivered proposals of a leader are a prefix of its proposals."

    def on_nonconsecutive_delivery(self, delivery: Delivery) -> None:
        event, begin = delivery.event, self.facts.next_counter(delivery)
        if event.epoch < delivery.before >> 32 or event.first <= begin:
            return
        for primary in self.facts.broadcasts.epochs.get(event.epoch, ()):
            broadcast = primary.event_of(begin)
            if broadcast is not None:
                missing = zxid_range(event.epoch << 32 | begin, event.zxid - 1)
                self.findings.add(
                    f"node {event.node} delivered {show(event.zxid)}, but not {missing}, which the leader, node "
                    f"{primary.node}, had proposed before it",
                    [broadcast, event],
                    {event.node},
                )
                return


class CausalOrder(DeliveryChecker):
    """LADIS 2008: if a causally precedes b and both are delivered, a is delivered before b.

    Both causal relations of the paper (the order of one leader's proposals; the proposals of an earlier leader before those
    of a later one) are the order of zxids. Verifies that each life of each node delivers in strictly ascending order of
    zxids, and that the proposals of a leader follow everything that it had delivered. Does not verify causality through
    communication between clients.
    """

    name = "causal order"
    source = "LADIS 2008"
    statement = "If a causally precedes b and both are delivered, a is delivered before b."
    rests_on_absence = False

    def on_broadcast(self, broadcast: PrimaryBroadcast) -> None:
        epoch, counter = broadcast.event.delivered
        if (epoch, counter) >= (broadcast.event.epoch, broadcast.event.first):
            self.findings.add(
                f"node {broadcast.event.node} broadcast {show(broadcast.event.zxid)} after it had delivered "
                f"{show(broadcast.event.delivered)}, which follows it",
                [broadcast.event],
            )

    def on_nonconsecutive_delivery(self, delivery: Delivery) -> None:
        event = delivery.event
        if event.zxid <= delivery.before:
            self.findings.add(
                f"node {event.node} delivered {show(event.zxid)} after {show(delivery.before)}, which it precedes",
                [event],
            )


class ReliableDelivery(Checker):
    """LADIS 2008: if a message is delivered by one server, it is eventually delivered by all correct servers.

    Verifies, after everything was healed, that each node that is up at the end has delivered, in its last life, everything
    that any node had delivered when the run was settled: up to the zxid of `converged` (trace integrity checks that it is
    not too low), or by the time of `not-converged`. Does not verify servers that are down at the end, nor how long it took
    (recovery does).
    """

    name = "reliable delivery"
    source = "LADIS 2008"
    statement = "After healing, every node that is up delivers what any node delivered."
    liveness = True

    def at_end(self) -> None:
        if self.facts.beyond_fault_model():
            self.not_applicable = "a quorum of disks was lost"
            return
        settled = self.facts.settled()
        if settled is None:
            self.unknown.append(self.facts.why_unsettled())
            return
        history = self.facts.history
        target = history.length_at(settled.t)
        if settled.zxid is not None:  # a late fence may be delivered while the milestone is written
            target = min(target, history.count_below(packed(settled.zxid) + 1))
        for node in self.facts.up_at_end():
            self.checked += 1
            index = node.position.reached
            if index >= target:
                continue
            author = history.first_delivery(index)
            first, last = history.zxids[index], history.zxids[target - 1]
            delivered = f"node {author.node} delivered {show(first)}"
            if first < last:
                delivered = f"{zxid_range(first, last)} were delivered, the first of them by node {author.node}"
            self.findings.add(
                f"{delivered}, but node {node.id}, up at the end, has delivered up to {show(node.position.last)}"
                + (", on another path" if node.position.diverged else " only"),
                [author, node.boot, settled],
            )
