"""A node's history, and how far it is durable, committed and delivered here.

Every change of the history is made in memory and recorded for the log at once, and traced when it is durable.
"""

from collections.abc import Callable

from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.digest_check import DigestCheck
from zab_chaos.node.core.errors import SanityCheckFailed
from zab_chaos.node.core.history import History
from zab_chaos.node.core.messages import Sync, TxnRun
from zab_chaos.node.core.outbox import Outbox
from zab_chaos.node.core.ready import Deliver, Install, SnapRecord, TruncRecord, TxnRecords
from zab_chaos.node.core.zxid import ZERO, Zxid


class Journal:
    """The history h_f, including records that are not durable yet.

    `durable` is the last zxid on this node's disk, `committed` the last one that this node knows to be committed, and
    `delivered` the last one that the application got. `digest` is the running digest up to `delivered`. The digest check
    remembers the digests of earlier points.
    """

    def __init__(self, history: History, out: Outbox, digest_check: DigestCheck) -> None:
        self.history = history
        self.durable = history.last
        snapshot = history.snapshot
        self.delivered, self.digest = (snapshot[0], snapshot[1]) if snapshot else (ZERO, dg.EMPTY)
        self.committed = self.delivered
        self._out = out
        self._digest_check = digest_check

    # ---- appending ----

    def append(self, run: TxnRun, epoch: int) -> None:
        """Append transactions that follow the last zxid, in this epoch."""
        records = self.history.append(run)
        last = self.history.last
        self.write(records, epoch, lambda: self.mark_durable(last))

    def write(self, records: TxnRecords, epoch: int, effect: Callable[[], None] | None = None) -> None:
        """Log transactions that were added to the history in this epoch; `effect` runs when they are durable."""
        self._out.record(records, effect)
        of_epoch, first = zx.pair(records.first)
        digests = dg.show_all(records.digests)
        self._out.event_after_sync("accept", in_epoch=epoch, epoch=of_epoch, first=first, digests=digests)

    # ---- adopting another node's history ----

    def adopt(self, sync: Sync, epoch: int) -> None:
        """Make this history equal to the one that differs from it by `sync`, to begin `epoch` with.

        Opens a group of log records, which the caller closes with NEWLEADER.
        """
        if sync.snapshot is None:
            self.truncate(sync.keep)
        else:
            self.install(sync.snapshot)
        for run in sync.runs:
            if not self.history.is_next(run.first):
                raise SanityCheckFailed(f"{zx.show(run.first)} can not follow {zx.show(self.history.last)}")
            self.write(self.history.append(run), epoch)

    def truncate(self, keep: Zxid) -> None:
        """Cut off what the new epoch skips (LADIS 2008, Figure 4).

        Raises SanityCheckFailed if that would undo a delivered transaction.
        """
        if keep not in self.history:
            raise SanityCheckFailed(f"the leader names {zx.show(keep)} as common, it is not in this history")
        if keep < self.delivered:
            raise SanityCheckFailed(f"a truncation to {zx.show(keep)} would undo delivered {zx.show(self.delivered)}")
        last = self.history.last
        self._out.record(TruncRecord(keep))  # written even if nothing is cut: it opens the group that NEWLEADER closes
        if keep < last:
            self.history.truncate(keep)
            self.durable = min(self.durable, keep)
            self._out.event_after_sync("truncate", keep=zx.pair(keep), last=zx.pair(last))

    def install(self, snapshot: tuple[Zxid, int, bytes]) -> None:
        """Replace the history by a snapshot.

        Raises SanityCheckFailed if the snapshot lacks a delivered transaction.
        """
        if snapshot[0] < self.delivered:
            raise SanityCheckFailed(
                f"a snapshot at {zx.show(snapshot[0])} would undo delivered {zx.show(self.delivered)}"
            )
        self._out.record(SnapRecord(*snapshot))
        self.history.replace(snapshot)
        self.durable = self.delivered
        zxid, digest, state = zx.pair(snapshot[0]), dg.show(snapshot[1]), snapshot[2]
        self._out.event_after_sync("snapshot", kind="installed", zxid=zxid, digest=digest, bytes=len(state))

    # ---- delivering ----

    def mark_durable(self, upto: Zxid) -> None:
        """Record that the disk holds everything up to `upto`. A zxid that was truncated meanwhile is ignored."""
        if upto > self.durable and (upto == self.history.last or upto in self.history):
            self.durable = upto
            self.deliver()

    def commit(self, upto: Zxid) -> None:
        """Record that a quorum of disks holds everything up to `upto`."""
        if upto > self.committed:
            self.committed = upto
            self.deliver()

    def deliver(self) -> None:
        """Hand out what is committed and durable here, in zxid order (f.3.3)."""
        target = self.committed if self.committed < self.durable else self.durable  # `min` takes four times as long
        if target <= self.delivered:
            return
        if self.delivered < self.history.base:
            snapshot = self.history.snapshot
            if snapshot is None:
                raise SanityCheckFailed(f"the history begins above {zx.show(self.history.base)}, without a snapshot")
            self._out.deliver(Install(*snapshot))
            self._set_delivered(snapshot[0], snapshot[1])
            target = max(self.delivered, target)
        for batch in self.history.between(self.delivered, target):
            digest = dg.fold_all(self.digest, batch.first, batch.digests)[-1]
            self._out.deliver(Deliver(batch.first, batch.txns, batch.digests, digest))
            self._set_delivered(batch.first + (len(batch.txns) - 1), digest)

    def _set_delivered(self, zxid: Zxid, digest: int) -> None:
        self.delivered, self.digest = zxid, digest
        self._digest_check.remember(zxid, digest)
