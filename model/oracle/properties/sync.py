"""The checker of reads after a sync (ZooKeeper programmer's guide, internals)."""

from bisect import bisect_left
from operator import itemgetter

from zab_chaos.model.events import (
    ConnectionLost,
    Line,
    ReadAnswered,
    SessionBegan,
    SessionOver,
    SyncAnswered,
    packed,
)
from zab_chaos.model.oracle.evidence import node_names, show
from zab_chaos.model.oracle.facts import Facts
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.oracle.properties.sessions import GUIDE, WriteAcknowledged

Acked = tuple[int, int, Line]  # the time of an acknowledgement, the zxid, and the line that shows it


class Sync(Checker):
    """ZooKeeper programmer's guide: "If it is important that client A and client B read the same value, client B should
    call the sync() method ... before it performs its read."

    Verifies that the first read after a sync, in the same connection to a follower, is answered at a zxid that is not older
    than any write of the same epoch that was acknowledged, to any client, before the sync was sent. The leader sends the
    answer to a sync after every COMMIT that it sent before. Does not verify

    - reads beyond the epoch of their answer: "sync is not currently a quorum operation" (internals), so a leader that
      has been replaced and does not know it yet answers without what its successor has committed;
    - a sync at the leader itself: it sends COMMIT before it applies the transaction, and answers its own clients in
      between;
    - what a read shows at the zxid of its answer (sessions).
    """

    name = "sync"
    source = GUIDE
    statement = "A read after a sync shows whatever was acknowledged, in the same epoch, before the sync was sent."

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._synced: dict[int, SyncAnswered] = {}  # by client: its sync, until its next read
        self._reads: list[tuple[SyncAnswered, ReadAnswered]] = []

    def on_synced(self, line: SyncAnswered) -> None:
        self._synced[line.client] = line

    def on_look(self, line: ReadAnswered) -> None:
        synced = self._synced.pop(line.client, None)
        if synced is not None:
            self._reads.append((synced, line))

    def on_lost(self, line: ConnectionLost | SessionBegan | SessionOver) -> None:
        self._synced.pop(line.client, None)

    on_began = on_over = on_lost

    def at_end(self) -> None:
        acked = self._acknowledged()
        leaders = {(event.epoch, event.node) for event in self.facts.established}
        known = {epoch for epoch, _ in leaders}
        for synced, look in self._reads:
            epoch = look.zxid[0]
            if epoch in known and (epoch, look.node) not in leaders:
                self._check_up_to_date(acked.get(epoch, []), synced, look)

    def _check_up_to_date(self, acked: list[Acked], synced: SyncAnswered, look: ReadAnswered) -> None:
        self.checked += 1
        place = bisect_left(acked, synced.sent, key=itemgetter(0))
        _, zxid, line = acked[place - 1] if place else (0, 0, None)
        if zxid > packed(look.zxid):
            self.findings.add(
                f"client {look.client} read at {node_names([look.node])}, at {show(look.zxid)}, after a sync; {show(zxid)} had "
                "been acknowledged before it sent that",
                [line, synced, look],
            )

    def _acknowledged(self) -> dict[int, list[Acked]]:
        """Return for each epoch, in order of time, the acknowledgements that raised its highest acknowledged zxid."""
        acked: list[Acked] = [(write.complete.t, write.zxid, write.complete) for write in self.facts.acked]
        done = (line for line in self.facts.session_lines if isinstance(line, WriteAcknowledged))
        acked += [(line.t, packed(line.zxid), line) for line in done]
        epochs: dict[int, list[Acked]] = {}
        for one in sorted(acked, key=itemgetter(0)):
            highest = epochs.setdefault(one[1] >> 32, [])
            if not highest or one[1] > highest[-1][1]:
                highest.append(one)
        return epochs
