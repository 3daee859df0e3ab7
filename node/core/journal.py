"""This node's history, and how far it is durable here, committed, and delivered.

Every change of the history is made in three places at once: in memory, in the log, and in the trace when it is durable.
"""

from collections.abc import Callable

from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.agreement import Agreement
from zab_chaos.node.core.errors import SanityCheckFailed
from zab_chaos.node.core.history import History
from zab_chaos.node.core.messages import Run, Sync
from zab_chaos.node.core.outbox import Outbox
from zab_chaos.node.core.ready import Deliver, Install, SnapRecord, TruncRecord, TxnRecords
from zab_chaos.node.core.zxid import ZERO, Zxid


class Journal:
    """The history h_f as of the records handed out; `durable` says how far the disk has come.

    `committed` is what this node knows to be committed, `delivered` what the application was given, and `digest` is of
    that prefix. `agreement` remembers the digests.
    """

    def __init__(self, history: History, out: Outbox, agreement: Agreement) -> None:
        self.history = history
        self.durable = history.last
        snapshot = history.snapshot
        self.delivered, self.digest = (snapshot[0], snapshot[1]) if snapshot else (ZERO, dg.EMPTY)
        self.committed = self.delivered
        self._out = out
        self._agreement = agreement

    # ---- taking transactions ----

    def append(self, run: Run, epoch: int) -> None:
        """Take what `is_next`, in this epoch."""
        records = self.history.append(run)
        last = self.history.last
        self.write(records, epoch, lambda: self.now_durable(last))

    def write(self, records: TxnRecords, epoch: int, effect: Callable[[], None] | None = None) -> None:
        """Log what the history has taken in this epoch; `effect` happens when it is durable."""
        self._out.record(records, effect)
        self._out.event_after_sync(
            "accept",
            in_epoch=epoch,
            epoch=zx.epoch_of(records.first),
            first=zx.counter_of(records.first),
            digests=dg.show_all(records.digests),
        )

    # ---- becoming another's history ----

    def adopt(self, sync: Sync, epoch: int) -> None:
        """Make this history equal to the one that differs from it by `sync`, to begin this epoch with.

        Opens a group of records, which the caller closes with NEWLEADER.
        """
        if sync.snapshot is None:
            self.cut_back(sync.keep)
        else:
            self.install(sync.snapshot)
        for run in sync.runs:
            if not self.history.is_next(run.first):
                raise SanityCheckFailed(f"{zx.show(run.first)} can not follow {zx.show(self.history.last)}")
            self.write(self.history.append(run), epoch)

    def cut_back(self, keep: Zxid) -> None:
        """Let go of what the new epoch skips (LADIS 2008, Figure 4). Never of anything that was delivered."""
        if keep not in self.history:
            raise SanityCheckFailed(f"the leader names {zx.show(keep)} as common, it is not in this history")
        if keep < self.delivered:
            raise SanityCheckFailed(f"a truncation to {zx.show(keep)} would undo delivered {zx.show(self.delivered)}")
        last = self.history.last
        self._out.record(TruncRecord(keep))  # also where nothing is cut: it opens the group that NEWLEADER closes
        if keep < last:
            self.history.truncate(keep)
            self.durable = min(self.durable, keep)
            self._out.event_after_sync("truncate", keep=zx.pair(keep), last=zx.pair(last))

    def install(self, snapshot: tuple[Zxid, int, bytes]) -> None:
        """Start from a snapshot. Never from one that lacks anything that was delivered."""
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

    def now_durable(self, upto: Zxid) -> None:
        """The disk has come so far. What was cut off meanwhile does not count."""
        if upto in self.history:
            self.durable = max(self.durable, upto)
            self.deliver()

    def commit(self, upto: Zxid) -> None:
        """A quorum of disks holds everything up to here."""
        self.committed = max(self.committed, upto)
        self.deliver()

    def deliver(self) -> None:
        """Hand out what is committed and durable here, in zxid order (f.3.3)."""
        target = min(self.committed, self.durable)
        if target <= self.delivered:
            return
        if self.delivered < self.history.base:
            snapshot = self.history.snapshot
            if snapshot is None:
                raise SanityCheckFailed(f"the history begins above {zx.show(self.history.base)}, without a snapshot")
            self._out.deliver(Install(*snapshot))
            self._reach(snapshot[0], snapshot[1])
        for batch in self.history.between(self.delivered, max(self.delivered, target)):
            digest = dg.fold_all(self.digest, batch.first, batch.digests)[-1]
            self._out.deliver(Deliver(batch.first, batch.txns, batch.digests, digest))
            self._reach(Zxid(batch.first + len(batch.txns) - 1), digest)

    def _reach(self, zxid: Zxid, digest: int) -> None:
        self.delivered, self.digest = zxid, digest
        self._agreement.remember(zxid, digest)
