"""The checker that a quorum of disks holds what is delivered (DSN 2011, steps f.3.2 and l.3.2)."""

from array import array

from zab_chaos.model.events import FOREIGN, Broadcast
from zab_chaos.model.oracle.broadcasts import PrimaryBroadcast
from zab_chaos.model.oracle.delivered_history import Delivery
from zab_chaos.model.oracle.evidence import LISTED, node_names, zxid_range
from zab_chaos.model.oracle.facts import BY_NODES, Facts, Node
from zab_chaos.model.oracle.properties.checker import Checker


class QuorumDurability(Checker):
    """DSN 2011, l.3.2: a leader commits what a quorum of followers has accepted.

    Verifies, when transactions are delivered for the first time by any node, that exactly these (zxid and digest) are on
    the disks of a quorum, by the nodes' own `accept` and `snapshot` events and by what they found at their boots. Every
    delivered transaction must also be on the disk of the node that delivers it. A disk that a fault takes later still
    counts. A node that has lost its disk does not count until it is a member again. Does not verify quorums for later
    deliveries (agreement compares them with the first), nor the bytes in a snapshot (state equality does) or those that a
    boot recovered.

    Verifies for each broadcast, if run.json has the nodes' limit `outstanding`, that no more transactions of its epoch are
    in flight: broadcast, and not held by a quorum of the nodes that have started. Disks in a later epoch count as if they
    held all of them. A foreign system does not have this limit.
    """

    name = "quorum durability"
    source = "DSN 2011"
    statement = (
        "When a transaction is first delivered, a quorum holds it durably. So does every node that delivers it. A primary is "
        "ahead of a quorum by no more transactions than the limit."
    )
    judged_from = BY_NODES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._examples: dict[int, list[tuple[Delivery, list[int]]]] = {}  # by number of holders: the first deliveries
        self._counts: dict[int, int] = {}  # by number of holders: how many deliveries
        self._in_flight = 0  # the most transactions in flight, and the broadcast with which they were so many
        self._most_ahead: Broadcast | None = None

    def on_broadcast(self, broadcast: PrimaryBroadcast) -> None:
        event = broadcast.event
        last = event.first + event.count - 1
        epoch, delivered = event.delivered
        if last - (delivered if epoch == event.epoch else 0) <= self._in_flight:
            return  # a quorum holds what is delivered, so there are no more than there were before
        held = sorted((_counter_held(node, event.epoch) for node in self.facts.nodes.values()), reverse=True)
        in_flight = last - held[len(held) // 2]
        if in_flight > self._in_flight:
            self._in_flight, self._most_ahead = in_flight, event

    def on_deliver(self, delivery: Delivery) -> None:
        event, first = delivery.event, delivery.first
        disk = self.facts.nodes[event.node].disk
        durable = disk.log.holds(first, delivery.digests)
        if delivery.appended:
            self._count_holders(delivery, event.node if durable and not disk.amnesiac else None)
        if not durable:
            held = "had another digest" if delivery.last <= disk.log.last else "was not durable"
            self.findings.add(
                f"node {event.node} delivered {zxid_range(first, delivery.last)}, which {held} on its own disk",
                [event],
                {event.node},
            )

    def _count_holders(self, delivery: Delivery, known: int | None) -> None:
        """Count the nodes that hold what is delivered for the first time. One of them may be known already."""
        self.checked += delivery.appended
        first, digests = delivery.first, delivery.digests
        if delivery.appended < len(digests):
            first, digests = delivery.last - delivery.appended + 1, digests[-delivery.appended :]
        holders = [node.id for node in self.facts.nodes.values() if node.id == known or _holds(node, first, digests)]
        number = len(holders)
        seen = self._counts[number] = self._counts.get(number, 0) + 1
        if seen <= LISTED:
            self._examples.setdefault(number, []).append((delivery, holders))

    def at_end(self) -> None:
        quorum = self.facts.quorum()
        for number in sorted(number for number in self._counts if number < quorum):
            for delivery, holders in self._examples[number]:
                self._report(delivery, sorted(holders), quorum)
            self.findings.more += self._counts[number] - len(self._examples[number])
        self._check_in_flight()

    def _check_in_flight(self) -> None:
        if self.facts.run.evidence in FOREIGN:
            return
        event, limit = self._most_ahead, self.facts.run.expect.get("outstanding")
        if event is not None and isinstance(limit, int) and self._in_flight > limit:
            last = event.first + event.count - 1
            self.findings.add(
                f"node {event.node} broadcast up to {event.epoch}:{last} when no quorum held the last {self._in_flight} of "
                f"them; at most {limit} may be in flight",
                [event],
            )

    def _report(self, delivery: Delivery, holders: list[int], quorum: int) -> None:
        event, first = delivery.event, delivery.last - delivery.appended + 1
        held = f"which only {node_names(holders)} had on disk" if holders else "which was on no disk that counts"
        self.findings.add(
            f"node {event.node} was the first to deliver {zxid_range(first, delivery.last)}, {held}; a quorum is {quorum}",
            [event],
        )


def _counter_held(node: Node, epoch: int) -> int:
    """Return the highest counter of the epoch that a disk of the node held. For a disk in a later epoch, which may have held
    more, the result is above all counters."""
    last = max((disk.log.last for disk in node.disks if not disk.amnesiac), default=0)
    return max(0, last - (epoch << 32))


def _holds(node: Node, first: int, digests: "array[int]") -> bool:
    """Return whether a disk of the node that counts in quorums held these transactions."""
    disk = node.disk
    if not disk.amnesiac and disk.log.holds(first, digests):
        return True
    return any(not disk.amnesiac and disk.log.holds(first, digests) for disk in node.former_disks)
