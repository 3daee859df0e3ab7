"""Derives which transactions each server has applied, and in which order, from what the disks of all servers hold."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Self

from zab_chaos.harness.backends.zookeeper.evidence import RunEvidence, ServerLife
from zab_chaos.harness.backends.zookeeper.txnlog import CLOSE, Transaction, TxnLog

COUNTER = 0xFFFFFFFF  # the part of a zxid that is not the epoch


def transactions_by_zxid(lives: Iterable[ServerLife]) -> dict[int, list[Transaction]]:
    """Return every transaction that any log has ever held, by zxid. A zxid with several transactions is a fork; the one that
    most logs hold comes first."""
    counts: Counter[tuple[int, int]] = Counter()
    found: dict[tuple[int, int], Transaction] = {}
    for life in lives:
        for txn in (*life.disk_before.transactions, *life.disk_after.transactions):
            counts[txn.zxid, txn.digest] += 1
            if txn.steps or (txn.zxid, txn.digest) not in found:  # of the ends of a session, one that lists its znodes
                found[txn.zxid, txn.digest] = txn
    by_zxid: dict[int, list[Transaction]] = {}
    for (zxid, _), txn in sorted(found.items(), key=lambda item: (item[0][0], -counts[item[0]])):
        by_zxid.setdefault(zxid, []).append(txn)
    return by_zxid


def session_ends(evidence: RunEvidence) -> dict[int, Transaction]:
    """Return the transaction that ended each session, in the final history: the first one, if the leader has let the session
    expire while its client's request to close it was under way."""
    ends: dict[int, Transaction] = {}
    for txn in final_history(evidence, transactions_by_zxid(evidence.lives)):
        if txn.type == CLOSE:
            ends.setdefault(txn.client, txn)
    return ends


def final_history(evidence: RunEvidence, by_zxid: Mapping[int, list[Transaction]]) -> list[Transaction]:
    """Return the history that the servers have at the end of the run. A transaction that only a former leader has logged is not
    part of it."""
    life = max(evidence.lives, key=lambda it: (it.tree is not None, it.disk_after.last), default=None)
    return applied_history(life, evidence, by_zxid) if life is not None else []


def add_ephemeral_deletes(by_zxid: dict[int, list[Transaction]], history: Sequence[Transaction]) -> None:
    """Add the steps that delete a session's ephemeral znodes to the transaction that ends it.

    Before 3.6 that transaction does not name the znodes: they are those that the session has created and nobody has deleted.
    """
    owners: dict[str, int] = {}  # session by path
    for txn in history:
        steps = txn.steps
        if txn.type == CLOSE and not steps:
            left = [path for path, owner in owners.items() if owner == txn.client]
            steps = tuple(("delete", path, None, None) for path in left)
            by_zxid[txn.zxid] = [
                replace(it, steps=steps) if it.digest == txn.digest else it for it in by_zxid[txn.zxid]
            ]
        for op, path, *_ in steps:
            if op == "delete":
                owners.pop(path, None)
        owners.update(dict.fromkeys(txn.ephemerals, txn.client))


def applied_history(
    life: ServerLife, evidence: RunEvidence, by_zxid: Mapping[int, list[Transaction]]
) -> list[Transaction]:
    """Return what a server can have applied in this life, in order."""
    known = _known_history(life.disk_after, evidence, _Zxids.of(evidence, by_zxid))
    last = max(life.disk_after.last, known[-1].zxid if known else 0)
    return [*known, *(forks[0] for zxid, forks in by_zxid.items() if zxid > last)]


@dataclass(frozen=True, slots=True)
class _Zxids:
    """The zxids of the transactions of all logs, ascending, and by epoch the end of the history that its leader began with."""

    logged: Sequence[int]
    begun_after: Mapping[int, int]

    @classmethod
    def of(cls, evidence: RunEvidence, by_zxid: Mapping[int, list[Transaction]]) -> Self:
        ends = {led.epoch: life.disk_after.last_before(led.epoch) for led, life in evidence.leaders()}
        return cls(list(by_zxid), ends)

    def are_logged(self, log: TxnLog, zxid: int) -> bool:
        """Return whether a log has what a snapshot of this zxid contains, and not only what came later.

        A log that goes on beyond the end of the history that an epoch began with has transactions that were not committed: its
        server has received the snapshot of e:0.
        """
        return log.last_logged(zxid) == self._transaction_at(zxid)

    def _transaction_at(self, zxid: int) -> int:
        """Return the transaction that a zxid stands for; 0 for none.

        The zxid e:0, with which an epoch begins, is no transaction. It stands for the last one of the history that the leader
        of that epoch began with, or, if no such leader is on record, for the last one before it in any log.
        """
        while not zxid & COUNTER and (end := self.begun_after.get(zxid >> 32)) is not None:
            zxid = end
        if zxid & COUNTER:
            return zxid
        before = bisect_left(self.logged, zxid)
        return self.logged[before - 1] if before else 0


def _known_history(log: TxnLog, evidence: RunEvidence, zxids: _Zxids, upto: float = inf) -> list[Transaction]:
    """Return the history of a log up to a zxid.

    Above the last snapshot that came from another server it is what the log itself holds. Below, it is taken from the log of a
    server that logged the snapshot's last transaction.
    """
    floor = _snapshot_floor(log, zxids, upto)
    donor = _donor(floor, evidence, zxids) if floor else None
    below = _known_history(donor.disk_after, evidence, zxids, floor) if donor is not None else []
    return [*below, *(txn for txn in log.transactions if floor < txn.zxid <= upto)]


def _donor(zxid: int, evidence: RunEvidence, zxids: _Zxids) -> ServerLife | None:
    """Return the life whose log has the history up to a zxid: preferably one that has logged that transaction itself, and so
    everything before it; if no log has it, one that goes on beyond it. A log may have lost some of that to a power cut since:
    the one that lacks the fewest transactions is taken."""

    def preference(life: ServerLife) -> tuple[bool, int, int, int]:
        log = life.disk_after
        floor = _snapshot_floor(log, zxids, zxid)
        logged = [txn.zxid for txn in log.transactions]
        lacks = _count_between(zxids.logged, floor, zxid) - _count_between(logged, floor, zxid)
        return not zxids.are_logged(log, zxid), floor, lacks, -life.ended

    candidates = [
        life for life in evidence.lives if _snapshot_floor(life.disk_after, zxids, zxid) < zxid <= life.disk_after.last
    ]
    return min(candidates, key=preference, default=None)


def _count_between(zxids: Sequence[int], above: int, upto: int) -> int:
    """Return how many of ascending zxids are above one and not above another."""
    return bisect_right(zxids, upto) - bisect_right(zxids, above)


def _snapshot_floor(log: TxnLog, zxids: _Zxids, upto: float) -> int:
    """Return the zxid of the last snapshot, of those up to `upto`, that came from another server: the log does not have that
    transaction. 0 if there is none."""
    return max((zxid for zxid in log.snapshots if zxid <= upto and not zxids.are_logged(log, zxid)), default=0)
