"""The core properties of atomic broadcast (DSN 2011, section III-A): integrity, total order, agreement."""

from zab_chaos.model.events import Accept, Batch, Broadcast, DiskAfterLife
from zab_chaos.model.oracle.delivered_history import Conflict, Delivery
from zab_chaos.model.oracle.evidence import show, zxid_range
from zab_chaos.model.oracle.properties.checker import DeliveryChecker
from zab_chaos.node.core import digest as dg
from zab_chaos.node.tree.refusal import brief


class Integrity(DeliveryChecker):
    """DSN 2011, III-A: if some process delivers <v,z>, some process has broadcast <v,z>.

    Verifies for every delivery that the delivered history did not have yet: before it, the primary of its epoch wrote a
    `broadcast` of the same zxid with the same digest. So a transaction that all nodes deliver is reported once. The same for
    every transaction that a node accepts: it may be delivered after the next election (channel integrity, DSN 2011, II, and
    invariant 4). Does not verify bytes beyond their 64-bit digest, nor the content of snapshots (state equality does).
    """

    name = "integrity"
    source = "DSN 2011"
    statement = (
        "Every accepted and delivered transaction was broadcast by the primary of its epoch, with the same bytes."
    )

    def on_accept(self, event: Accept) -> None:
        digests = dg.read_all(event.digests)
        if digests and not self.facts.broadcasts.matches(event.epoch, event.first, digests):
            last = event.zxid + len(digests) - 1
            words = f"node {event.node} accepted {zxid_range(event.zxid, last)}, which nobody had broadcast with these bytes"
            self.findings.add(words, [event])

    def on_new_delivery(self, delivery: Delivery) -> None:
        event = delivery.event
        if self.facts.broadcasts.matches(event.epoch, event.first, delivery.digests):
            return
        offset = self._first_unbroadcast(delivery)
        if offset is None:
            self._add_mixture(delivery)
            return
        zxid, digest = event.zxid + offset, delivery.digests[offset]
        for primary in self.facts.broadcasts.epochs.get(event.epoch, ()):
            broadcast = primary.event_of(event.first + offset)
            if broadcast is not None:
                self.findings.add(
                    f"node {event.node} delivered {show(zxid)} {_content(event, digest)}, but node {primary.node}, the "
                    f"primary, had broadcast it {_content(broadcast, primary.digests[event.first + offset - 1])}"
                    + self._whose(digest),
                    [broadcast, event],
                    self._whose_traces(event),
                )
                return
        self.findings.add(
            f"node {event.node} delivered {show(zxid)} {_content(event, digest)}, which nobody had broadcast"
            + self._whose(digest),
            [event],
            self._whose_traces(event),
        )

    def _whose_traces(self, _event: Batch) -> set[int] | None:
        """Return the nodes whose traces must be complete for a delivery to prove that nobody had broadcast it; None: all."""
        return None

    def _whose(self, digest: int) -> str:
        """Name the transaction that was broadcast with this digest, as the end of a sentence; empty if there is none."""
        zxid = None if self.findings.full else self.facts.broadcasts.zxid_with(digest)
        return f"; {show(zxid)} was broadcast with the digest {dg.show(digest)}" if zxid is not None else ""

    def _add_mixture(self, delivery: Delivery) -> None:
        """Report a batch of which several processes have broadcast parts, and none has broadcast all of it."""
        event = delivery.event
        parts: dict[str, Broadcast] = {}  # the first event of each who broadcast some of it
        for offset, digest in enumerate(delivery.digests):
            counter = event.first + offset
            for primary in self.facts.broadcasts.epochs[event.epoch]:
                broadcast = primary.event_of(counter)
                if broadcast is not None and primary.digests[counter - 1] == digest:
                    parts.setdefault(f"node {primary.node} (life {primary.life})", broadcast)
        batch = zxid_range(event.zxid, event.zxid + len(delivery.digests) - 1)
        self.findings.add(
            f"node {event.node} delivered {batch}, of which {' and '.join(parts)} had broadcast a part each",
            [*parts.values(), event],
        )

    def _first_unbroadcast(self, delivery: Delivery) -> int | None:
        """Return the offset in the batch of the first transaction that was not broadcast as it was delivered.

        None: each was broadcast, but not all by the same process.
        """
        event = delivery.event
        for offset in range(len(delivery.digests)):
            one = delivery.digests[offset : offset + 1]
            if not self.facts.broadcasts.matches(event.epoch, event.first + offset, one):
                return offset
        return None


class TotalOrder(DeliveryChecker):
    """DSN 2011, III-A: if some process delivers a before b, every process that delivers b has delivered a before it.

    Verifies that a node neither skips a transaction of the delivered history nor goes back in it. After a restart a node
    may deliver again, from the beginning or from a snapshot, in the same order (LADIS 2008, section 2). A server's log, which
    it reads at its next start, has the transactions in this order. Does not verify transactions that are not in the
    history; agreement does.
    """

    name = "total order"
    source = "DSN 2011"
    statement = "If one node delivers a before b, every node that delivers b delivers a before it."

    def on_left(self, event: DiskAfterLife) -> None:
        if event.disorder is not None:
            before, after = (show(zxid) for zxid in event.disorder)
            self.findings.add(f"node {event.node} has {after} after {before} in its log", [event], {event.node})

    def on_delivery_conflict(self, delivery: Delivery, conflict: Conflict) -> None:
        if conflict.kind == "skipped":
            self._skipped(delivery, conflict)
        elif conflict.kind == "again":
            self.findings.add(
                f"node {delivery.event.node} delivered {show(conflict.zxid)} again, out of order and without a "
                f"restart: it had already delivered up to {show(delivery.before)}",
                [conflict.first_delivery, delivery.event],
                {delivery.event.node},
            )

    def remark(self, delivery: Delivery) -> str:
        """Return what is to be said of a delivery that skips others."""
        return ""

    def _skipped(self, delivery: Delivery, conflict: Conflict) -> None:
        history = self.facts.history
        end = history.index(conflict.zxid) or 0
        missing = zxid_range(history.zxids[conflict.index], history.zxids[end - 1])
        self.findings.add(
            f"node {delivery.event.node} delivered {show(conflict.zxid)} without {missing}, which node "
            f"{conflict.first_delivery.node} had delivered before it{self.remark(delivery)}",
            [conflict.first_delivery, delivery.event],
            {delivery.event.node},
        )


class Agreement(DeliveryChecker):
    """DSN 2011, III-A: if p delivers a and q delivers b, then p delivers b or q delivers a. With total order this means that
    of two delivered sequences one is a prefix of the other.

    Verifies that a node never delivers a transaction that the delivered history does not have, or has with other bytes, at
    a place where the history has a transaction. Each node is compared with the longest sequence, and so with all other
    nodes. Does not verify that all nodes reach the end of the history; reliable delivery does.
    """

    name = "agreement"
    source = "DSN 2011"
    statement = (
        "If one node delivers a and another b, then one of them delivers both. With total order: of any two delivered "
        "sequences one is a prefix of the other."
    )

    def on_delivery_conflict(self, delivery: Delivery, conflict: Conflict) -> None:
        if conflict.kind not in ("other", "bytes"):
            return
        history, author = self.facts.history, conflict.first_delivery
        at = min(conflict.index, len(history) - 1)
        expected = f"{show(history.zxids[at])} {_content(author, history.digests[at])}"
        after = delivery.before if conflict.zxid == delivery.event.zxid else conflict.zxid - 1
        who = f"node {author.node}" if author.node != delivery.event.node else f"in its life {author.life} it"
        self.findings.add(
            f"node {delivery.event.node} delivered {show(conflict.zxid)} {_content(delivery.event, conflict.digest)} after "
            f"{show(after)}, but {who} had delivered {expected} " + ("there" if at == conflict.index else "last"),
            [author, delivery.event],
            frozenset() if conflict.kind == "bytes" else None,
        )


def _content(event: Batch, digest: int) -> str:
    """Return how a transaction of the event differs from others: by what a foreign system calls it, or by its digest."""
    return f"with digest {dg.show(digest)}" if event.data is None else f"as {brief(event.data)!r}"
