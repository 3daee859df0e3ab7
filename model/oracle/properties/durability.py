"""What was acknowledged or delivered stays (LADIS 2008, section 2; Remix, EuroSys 2025)."""

from zab_chaos.model.events import Deliver, Established, Truncate, packed
from zab_chaos.model.oracle.delivered_history import Delivery
from zab_chaos.model.oracle.evidence import show, zxid_range
from zab_chaos.model.oracle.facts import AckedWrite, Node
from zab_chaos.model.oracle.properties.checker import Checker


class Durability(Checker):
    """LADIS 2008: a write that a client saw succeed is never forgotten.

    Verifies that every acknowledged write's transaction was delivered somewhere, and is part of the history of every
    node that is up to date at the end. If the run converged, that is every node that is up. If not, it is a node that
    stands at the end of the history, has left it, or takes part in an epoch later than the write's. Does not verify
    writes whose answer was "unknown", nor what the write did.
    """

    name = "durability"
    source = "LADIS 2008"
    statement = "Every acknowledged write is delivered by every node that is up to date at the end."

    def at_end(self) -> None:
        if self.facts.beyond_fault_model():
            self.not_applicable = "a quorum of disks was lost"
            return
        self.checked = len(self.facts.acked)
        nodes = self.facts.up_at_end()
        sound = all(not node.position.diverged and not node.position.holes for node in nodes)
        everywhere = min((node.position.reached for node in nodes), default=0) if sound else 0
        settled = self.facts.settled()
        for write in self.facts.acked:
            index = self.facts.history.index(write.zxid)
            if index is None:
                self._outside(write)
            elif index >= everywhere and (settled is None or write.complete.t <= settled.t):
                self._missing(write, index, nodes)

    def _outside(self, write: AckedWrite) -> None:
        forked_delivery = self.facts.history.forked_delivery(write.zxid)
        where = "no node ever delivered it"
        if forked_delivery is not None:
            where = f"the history of node {forked_delivery.node}, which has it, forked"
        self.findings.add(f"{_write(write)}, but {where}", [write.complete, forked_delivery])

    def _missing(self, write: AckedWrite, index: int, nodes: list[Node]) -> None:
        without = [node for node in nodes if not node.position.has(index) and self._up_to_date(node, write)]
        if without:
            named = " and ".join(f"node {node.id}" for node in without)
            self.findings.add(
                f"{_write(write)}, but {named}, up to date at the end, never delivered it",
                [write.complete, self.facts.history.first_delivery(index), *(node.boot for node in without)],
            )

    def _up_to_date(self, node: Node, write: AckedWrite) -> bool:
        if "converged" in self.facts.milestones or node.position.diverged:
            return True
        at_the_end = node.position.reached == len(self.facts.history)
        return at_the_end or (node.phase == "BROADCAST" and node.disk.current_epoch > write.zxid >> 32)


def _write(write: AckedWrite) -> str:
    complete, paths = write.complete, dict.fromkeys(step.path for step in write.invoke.requested_steps)
    by = f"client {complete.client}, seq {complete.seq}"
    return f"the write of {' and '.join(paths)} by {by} ({show(write.zxid)}) was acknowledged"


class CommittedStays(Checker):
    """Remix (EuroSys 2025), committed log monotonicity, leader log completeness and durability; ZOOKEEPER-1156, 4643.

    Verifies against the history of everything ever delivered, which survives all crashes: no truncation cuts into it, and
    whoever is established for an epoch has all of it (of older epochs) in the initial history. Does not verify which
    transactions an initial history contains, only where it ends (agreement does, once they are delivered), nor what a
    disk still holds after a restart (disk does).
    """

    name = "committed stays"
    source = "Remix"
    statement = "A delivered transaction is never truncated, and never missing from the history of a new epoch."
    rests_on_absence = False

    def on_truncate(self, event: Truncate) -> None:
        self.checked += 1
        history = self.facts.history
        first, end = history.count_below(packed(event.keep) + 1), history.count_below(packed(event.last) + 1)
        if first < end:
            author = history.first_delivery(first)
            self.findings.add(
                f"node {event.node} truncated its log from {show(event.last)} to {show(event.keep)}, but node "
                f"{author.node} had delivered {zxid_range(history.zxids[first], history.zxids[end - 1])}",
                [author, event],
            )

    def on_established(self, event: Established) -> None:
        self.checked += 1
        history = self.facts.history
        older = history.count_below(event.epoch << 32)
        if older and history.zxids[older - 1] > packed(event.last_zxid):
            first = history.count_below(packed(event.last_zxid) + 1)
            self._incomplete(
                event, history.first_delivery(first), zxid_range(history.zxids[first], history.zxids[older - 1])
            )

    def on_new_delivery(self, delivery: Delivery) -> None:
        self.checked += 1
        event = delivery.event
        if event.epoch >= self.facts.highest_established:
            return
        for established in self.facts.established:
            if established.epoch > event.epoch and packed(established.last_zxid) < delivery.last:
                self._incomplete(established, event, show(delivery.last))
                return

    def _incomplete(self, event: Established, delivery: Deliver, what: str) -> None:
        self.findings.add(
            f"node {event.node} was established for epoch {event.epoch} with a history that ends at "
            f"{show(event.last_zxid)}, but node {delivery.node} delivered {what}",
            [delivery, event],
        )
