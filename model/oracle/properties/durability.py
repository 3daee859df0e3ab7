"""The checkers that acknowledged and delivered transactions stay (LADIS 2008, section 2; Remix, EuroSys 2025)."""

from zab_chaos.model.events import Deliver, Established, Truncate, packed
from zab_chaos.model.oracle.delivered_history import Delivery
from zab_chaos.model.oracle.evidence import loss_words, node_names, show, zxid_range
from zab_chaos.model.oracle.facts import BY_NODES, AckedWrite, Node
from zab_chaos.model.oracle.properties.checker import Checker


class Durability(Checker):
    """LADIS 2008: a write that a client saw succeed is never forgotten.

    Verifies that the transaction of every acknowledged write was delivered by some node, and is in the history of every
    node that is up to date at the end. If the run converged, these are all nodes that are up. If it did not, these are the
    nodes that have reached the end of the delivered history, have diverged from it, or take part in an epoch later than
    that of the write. Does not verify writes whose outcome is unknown, nor what a write did.
    """

    name = "durability"
    source = "LADIS 2008"
    statement = "Every acknowledged write is delivered by every node that is up to date at the end."
    judged_from = BY_NODES

    def at_end(self) -> None:
        if self.facts.beyond_fault_model():
            self.not_applicable = "a quorum of disks was lost"
            return
        self.checked = len(self.facts.acked)
        nodes = self.facts.up_at_end()
        regular = not any(node.position.holes for node in nodes)
        delivered_by_all = min((node.position.reached for node in nodes), default=0) if regular else 0
        settled = self.facts.settled()
        for write in self.facts.acked:
            index = self.facts.history.index(write.zxid)
            if index is None:
                self._report_undelivered(write)
            elif index >= delivered_by_all and (settled is None or write.complete.t <= settled.t):
                self._check_nodes(write, index, nodes)

    def _report_undelivered(self, write: AckedWrite) -> None:
        forked = self.facts.history.forked_delivery(write.zxid)
        where = "no node ever delivered it"
        if forked is not None:
            where = f"the history of node {forked.node}, which has it, forked"
        self.findings.add(f"{_write_words(write)}, but {where}", [write.complete, forked])

    def _check_nodes(self, write: AckedWrite, index: int, nodes: list[Node]) -> None:
        without = [node for node in nodes if not node.position.has(index) and self._up_to_date(node, write)]
        if without:
            named = node_names([node.id for node in without])
            lack = "lacks" if len(without) == 1 else "lack"
            self.findings.add(
                f"{_write_words(write)}, but {named}, up to date at the end, {lack} it",
                [write.complete, self.facts.history.first_delivery(index), *(node.boot for node in without)],
                None if any(node.position.diverged for node in without) else {node.id for node in without},
            )

    def _up_to_date(self, node: Node, write: AckedWrite) -> bool:
        if "converged" in self.facts.milestones or node.position.diverged:
            return True
        at_the_end = node.position.reached == len(self.facts.history)
        return at_the_end or (node.phase == "BROADCAST" and node.disk.current_epoch > write.zxid >> 32)


def _write_words(write: AckedWrite) -> str:
    complete, paths = write.complete, dict.fromkeys(step.path for step in write.invoke.requested_steps)
    by = f"client {complete.client}, seq {complete.seq}"
    return f"the write of {' and '.join(paths)} by {by} ({show(write.zxid)}) was acknowledged"


class CommittedStays(Checker):
    """Remix (EuroSys 2025): committed log monotonicity, leader log completeness and durability; ZOOKEEPER-1156, 4643.

    Verifies, against the delivered history, which survives all crashes: no truncation removes any of it, and the initial
    history of every established leader includes all of it from older epochs. Does not verify which transactions an initial
    history contains, only where it ends (agreement does, once they are delivered), nor what a disk still holds after a
    restart (disk does).
    """

    name = "committed stays"
    source = "Remix"
    statement = "A delivered transaction is never truncated, and never missing from the history of a new epoch."
    rests_on_absence = False

    def on_truncate(self, event: Truncate) -> None:
        self.checked += 1
        self._check_removed(event, packed(event.keep) + 1, packed(event.last))

    def _check_removed(self, event: Truncate, lowest: int, highest: int) -> None:
        """Report a truncation that removed these zxids if any of them was delivered."""
        history = self.facts.history
        first, end = history.count_below(lowest), history.count_below(highest + 1)
        if first < end:
            author = history.first_delivery(first)
            self.findings.add(
                f"node {event.node} {loss_words(event.keep, event.last, event.followed_by)}, but node {author.node} had "
                f"delivered {zxid_range(history.zxids[first], history.zxids[end - 1])}",
                [author, event],
            )

    def on_established(self, event: Established) -> None:
        self.checked += 1
        history = self.facts.history
        older = history.count_below(event.epoch << 32)
        if older and history.zxids[older - 1] > packed(event.last_zxid):
            first = history.count_below(packed(event.last_zxid) + 1)
            self._report_incomplete(
                event, history.first_delivery(first), zxid_range(history.zxids[first], history.zxids[older - 1])
            )

    def on_new_delivery(self, delivery: Delivery) -> None:
        self.checked += 1
        event = delivery.event
        if event.epoch >= self.facts.highest_established:
            return
        for established in self.facts.established:
            if established.epoch > event.epoch and packed(established.last_zxid) < delivery.last:
                self._report_incomplete(established, event, show(delivery.last))
                return

    def _report_incomplete(self, event: Established, delivery: Deliver, what: str) -> None:
        self.findings.add(
            f"node {event.node} was established for epoch {event.epoch} with a history that ends at "
            f"{show(event.last_zxid)}, but node {delivery.node} delivered {what}",
            [delivery, event],
        )
