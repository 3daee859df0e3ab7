"""What ZooKeeper asked of its broadcast (LADIS 2008, section 2): prefix, causal order, reliable delivery."""

from zab_chaos.model.events import packed
from zab_chaos.model.oracle.broadcasts import PrimaryBroadcast
from zab_chaos.model.oracle.delivered_history import Delivery
from zab_chaos.model.oracle.evidence import show, zxid_range
from zab_chaos.model.oracle.properties.checker import Checker, DeliveryChecker


class Prefix(DeliveryChecker):
    """LADIS 2008: if m is the last message delivered for a leader L, any message proposed before m by L is delivered.

    Verifies, for each node and each epoch, that what it delivered of what was broadcast in the epoch is a prefix: no
    broadcast transaction below the last delivered one is missing. Does not verify the order (local primary order), nor
    that the rest of what a leader proposed is ever delivered: it may be skipped, and then stays skipped.
    """

    name = "prefix"
    source = "LADIS 2008"
    statement = "The delivered proposals of a leader are a prefix of its proposals."

    def on_nonconsecutive_delivery(self, delivery: Delivery) -> None:
        event, before = delivery.event, delivery.before
        begin = (before & 0xFFFFFFFF) + 1 if before >> 32 == event.epoch else 1
        if event.epoch < before >> 32 or event.first <= begin:
            return
        for primary in self.facts.broadcasts.epochs.get(event.epoch, ()):
            broadcast = primary.event_of(begin)
            if broadcast is not None:
                missing = zxid_range(event.epoch << 32 | begin, event.zxid - 1)
                self.findings.add(
                    f"node {event.node} delivered {show(event.zxid)}, but not {missing}, which the leader, node "
                    f"{primary.node}, had proposed before it",
                    [broadcast, event],
                )
                return


class CausalOrder(DeliveryChecker):
    """LADIS 2008: if a causally precedes b and both are delivered, a is delivered before b.

    Both of the paper's causal relations (one leader's order of proposals; an earlier leader's proposals before a later
    one's) are the order of zxids. Verifies that each life of each node delivers in strictly ascending order of zxids,
    and that a leader's proposals come after everything it had delivered. Does not verify causality through clients that
    talk to each other outside.
    """

    name = "causal order"
    source = "LADIS 2008"
    statement = "If a causally precedes b and both are delivered, a is delivered before b."
    rests_on_absence = False

    def on_broadcast(self, step: PrimaryBroadcast) -> None:
        epoch, counter = step.event.delivered
        if (epoch, counter) >= (step.event.epoch, step.event.first):
            self.findings.add(
                f"node {step.event.node} broadcast {show(step.event.zxid)} after it had delivered "
                f"{show(step.event.delivered)}, which follows it",
                [step.event],
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

    Verifies, after everything was healed, that each node that is up at the end has, in its last life, delivered
    everything that anyone had delivered when the run was settled: up to where the nodes came together (`converged`;
    that it is not too early is checked where copies of a fact are compared), or else by the time of `not-converged`.
    Does not verify servers that are down at the end, nor how fast it went; recovery does.
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
            self.unknown.append("the run has neither `converged` nor `not-converged`")
            return
        history = self.facts.history
        target = history.length_at(settled.t)
        if settled.zxid is not None:  # a fence that was under way may be delivered while the milestone is written
            target = min(target, history.count_below(packed(settled.zxid) + 1))
        for node in self.facts.up_at_end():
            self.checked += 1
            index = node.position.reached
            if index >= target:
                continue
            author = history.first_delivery(index)
            self.findings.add(
                f"node {author.node} delivered {zxid_range(history.zxids[index], history.zxids[target - 1])}, but node "
                f"{node.id}, up at the end, has delivered up to {show(node.position.last)} only"
                + (", on another path" if node.position.diverged else ""),
                [author, node.boot, settled],
            )
