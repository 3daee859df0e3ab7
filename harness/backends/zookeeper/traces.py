"""Makes the documented trace events (results/README.md) of a run on ZooKeeper's servers, so that the oracle can judge it.

A server writes no trace. From the disks, the log files and the clients' records follow all the same:

- `boot`: what the disk held when a life began, and the server's release in its own words; `left`: what the disk held when the
  life had ended, or at the end of the run.
- `broadcast`: every transaction that any log ever held, at the time that its leader's clock gave it. Who asked for it (`txns`)
  follows from its session, and for an acknowledged write from the zxid that the client was told.
- `deliver`: a server that answers a client at a zxid has applied everything up to that zxid. What that was is in its own log,
  from its last snapshot on. Of a snapshot only the name is read, and below it the log may even hold transactions that were
  never committed; so for these, and for what a server has applied but not logged yet, another server's log is used. At the
  end, each server that showed its tree has applied its whole log.
- `truncate`: transactions that a log held at one time and holds no more, on the same disk.
- `role`, `phase`: as they were sampled; `member`: a server that had lost its disk was seen to serve again.
- `established`: from the leader's log file; the history that it led with is what its disk has of the epochs before.
- `differs`: from the server's log file, in releases that compare trees.
- `fault`: a crash point that was reached, from the server's log file.
- `misanswered`: a wrong answer, as a client received it.

Nothing is known of promises, of other acknowledgements between servers, of when something became durable, and of what was in
flight.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import inf
from typing import Any

from zab_chaos.harness.backends.zookeeper.evidence import RunEvidence, ServerLife, life_key
from zab_chaos.harness.backends.zookeeper.histories import (
    add_ephemeral_deletes,
    applied_history,
    final_history,
    transactions_by_zxid,
)
from zab_chaos.harness.backends.zookeeper.request_matching import RequestMatcher
from zab_chaos.harness.backends.zookeeper.txnlog import Step, Transaction, TxnLog
from zab_chaos.model.events import Complete, packed
from zab_chaos.node.core import digest as dg
from zab_chaos.node.core.zxid import Zxid, pair

Event = dict[str, Any]


def traces(evidence: RunEvidence) -> dict[tuple[int, int], list[Event]]:
    """Return the trace of each life, by (node, life): its events, numbered, in the order of time."""
    by_zxid = transactions_by_zxid(evidence.lives)
    history = final_history(evidence, by_zxid)
    add_ephemeral_deletes(by_zxid, history)
    events = [*_disks(evidence), *_roles_and_phases(evidence), *_members(evidence), *_truncations(evidence)]
    events += [*_established(evidence), *_tree_mismatches(evidence), *_points(evidence), *_wrong_answers(evidence)]
    events += _broadcasts(evidence, by_zxid, history)
    events += _deliveries(evidence, by_zxid)
    found: dict[tuple[int, int], list[Event]] = {life_key(life): [] for life in evidence.lives}
    for event in sorted(events, key=_sort_key):
        trace = found[event["node"], event["life"]]
        trace.append(event | {"n": len(trace) + 1})
    return found


def _event(life: ServerLife, t: int, event: str, **fields: Any) -> Event:
    return {"t": min(max(t, life.began), life.ended), "node": life.node, "life": life.life, "event": event, **fields}


_ORDER = {"boot": 0, "left": 2, "exit": 3}  # of events at the same time; all others have 1


def _sort_key(event: Event) -> tuple[int, int]:
    return event["t"], _ORDER.get(event["event"], 1)


# Disks


def _disks(evidence: RunEvidence) -> Iterator[Event]:
    lives = evidence.lives_by_key()
    for life in evidence.lives:
        before = lives.get((life.node, life.life - 1))
        as_left = None if before is None else life.disk_before == before.disk_after
        yield _event(
            life, life.began, "boot", disk=_disk_condition(life), **_epochs_and_end(life.disk_before),
            snapshot_zxid=[0, 0], torn_bytes=life.disk_before.torn, faithful=False, nodes=evidence.nodes, defect=None,
            pid=None, as_left=as_left, release=evidence.versions.get(life_key(life)),
        )  # fmt: skip
        yield _event(life, life.ended, "left", **_epochs_and_end(life.disk_after), **_contents(life.disk_after))
        if life.code is not None:
            yield _event(life, life.ended, "exit", code=life.code, why=life.why or "it ended by itself")


def _epochs_and_end(log: TxnLog) -> Event:
    """Return the fields for the epochs on a disk and the end of its history."""
    accepted, current = (epoch or 0 for epoch in log.epochs)
    return {"accepted_epoch": accepted, "current_epoch": current, "last_zxid": pair(Zxid(log.last))}


def _contents(log: TxnLog) -> Event:
    """Return the fields for a disk's transactions (as the first and last of consecutive ones), snapshots and damage."""
    runs = [(batch[0].zxid, batch[-1].zxid) for batch in _consecutive(log.transactions)]
    return {
        "log": [[pair(Zxid(zxid)) for zxid in run] for run in runs],
        "snapshots": [pair(Zxid(zxid)) for zxid in sorted(log.snapshots)],
        "damage": list(log.damage),
        "disorder": [pair(Zxid(zxid)) for zxid in log.disorder] if log.disorder else None,
    }


def _disk_condition(life: ServerLife) -> str:
    """Return in which condition the disk was when the life began, as `boot` events name it."""
    log = life.disk_before
    if any(log.epochs) or log.last:
        return "torn" if log.torn else "recovered"
    return "fresh" if life.life == 1 else "amnesiac"


def _truncations(evidence: RunEvidence) -> Iterator[Event]:
    """Yield an event for each run of transactions that a life's log has lost, although it neither begins later nor is empty."""
    for life in evidence.lives:
        old, new = life.disk_before.transactions, life.disk_after.transactions
        if new or not life.disk_after.snapshots:
            for keep, last in _lost(old, new):
                after = next((pair(Zxid(txn.zxid)) for txn in new if txn.zxid > keep), None)
                yield _event(
                    life, life.ended, "truncate", keep=pair(Zxid(keep)), last=pair(Zxid(last)), followed_by=after
                )


def _lost(old: Sequence[Transaction], new: Sequence[Transaction]) -> Iterator[tuple[int, int]]:
    """Yield, for each run of transactions that `new` lacks, the zxid before it (0 if there is none) and its last one."""
    still = {(txn.zxid, txn.digest) for txn in new}
    first, keep = new[0].zxid if new else 0, 0
    for lost, run in groupby(old, lambda txn: txn.zxid >= first and (txn.zxid, txn.digest) not in still):
        last = [txn.zxid for txn in run][-1]
        if lost:
            yield keep, last
        keep = last


# Roles


def _roles_and_phases(evidence: RunEvidence) -> Iterator[Event]:
    """Yield an event for each change of a sampled role or phase, but none of a life that began after the last reading of the
    disks: that is not in evidence."""
    lives = evidence.lives_by_key()
    known = [sample for sample in evidence.role_samples if life_key(sample) in lives]
    in_order = sorted(known, key=lambda sample: (sample.node, sample.life, sample.t))
    for key, samples in groupby(in_order, life_key):
        role: tuple[str, int | None] | None = None
        phase: tuple[bool, int] | None = None
        for sample in samples:
            if (sample.role, sample.leader) != role:
                role = sample.role, sample.leader
                yield _event(lives[key], sample.t, "role", role=sample.role, leader=sample.leader, why="as it said")
            if (sample.serving, sample.epoch) != phase:
                phase = sample.serving, sample.epoch
                name = "BROADCAST" if sample.serving else "ELECTION"
                yield _event(lives[key], sample.t, "phase", phase=name, epoch=sample.epoch)


def _members(evidence: RunEvidence) -> Iterator[Event]:
    """Yield an event for each server that serves again after it had lost its disk: a leader has synchronized it, and it counts
    in quorums from then on."""
    for life in evidence.lives:
        served = [it for it in evidence.role_samples if life_key(it) == life_key(life) and it.serving]
        if _disk_condition(life) == "amnesiac" and served:
            yield _event(life, served[0].t, "member", epoch=served[0].epoch, quorum=[])


def _established(evidence: RunEvidence) -> Iterator[Event]:
    """Yield an event for each established leader, but none later than the last reading of its disk: that is not in evidence."""
    for led, life in evidence.leaders():
        t = evidence.monotonic(led.time)
        if t <= life.ended:
            last = Zxid(life.disk_after.last_before(led.epoch))
            yield _event(life, t, "established", epoch=led.epoch, last_zxid=pair(last), quorum=list(led.quorum))


def _tree_mismatches(evidence: RunEvidence) -> Iterator[Event]:
    """Yield an event for each mismatch, but not for one of a tree that was being received and equals the others in the end.

    If the life has ended before that, a difference that had remained would be on the server's disk: the next life would find
    it, and log another mismatch.
    """
    lives = evidence.lives_by_key()
    shown = {life.node for life in evidence.lives if life.tree is not None}
    for mismatch in evidence.mismatches:
        if mismatch.receiving and mismatch.node in shown and evidence.trees_equal:
            continue
        life, t = lives[life_key(mismatch)], evidence.monotonic(mismatch.time)
        if t <= life.ended:
            yield _event(life, t, "differs", zxid=pair(Zxid(mismatch.zxid)))


def _points(evidence: RunEvidence) -> Iterator[Event]:
    """Yield an event for each crash point that a server reached."""
    lives = evidence.lives_by_key()
    for reached in evidence.points:
        yield _event(
            lives[life_key(reached)], reached.time, "fault", do="crash-at", state="fired", detail=reached.point
        )


def _wrong_answers(evidence: RunEvidence) -> Iterator[Event]:
    """Yield an event for each wrong answer, in the life that sent it."""
    for wrong in evidence.wrong_answers:
        for life in evidence.lives:
            if life.node == wrong.node and life.began <= wrong.t < _next_began(life, evidence):
                yield _event(life, wrong.t, "misanswered", session=wrong.session, what=wrong.what)


# Broadcasts


def _broadcasts(
    evidence: RunEvidence, by_zxid: Mapping[int, list[Transaction]], history: Sequence[Transaction]
) -> Iterator[Event]:
    requests = RequestMatcher(evidence, history)
    known: set[tuple[int, int]] = set()
    for epoch, zxids in groupby(by_zxid, lambda zxid: zxid >> 32):
        forks = [by_zxid[zxid] for zxid in zxids]
        for txn, life in _with_primary(evidence, epoch, forks):
            t = evidence.monotonic(txn.time)
            client, seq = requests.match(txn)
            if not requests.is_recorded(client) and (client, life.node) not in known:
                known.add((client, life.node))
                yield _event(life, t, "client", state="connected", client=client)
            summary = [[client, seq, [_effect(step) for step in txn.steps]]] if txn.obscure is None else []
            yield _event(
                life, t, "broadcast", epoch=epoch, first=txn.zxid & 0xFFFFFFFF, digests=dg.show(txn.digest),
                delivered=[0, 0], txns=summary,
            )  # fmt: skip


def _with_primary(
    evidence: RunEvidence, epoch: int, forks: Sequence[Sequence[Transaction]]
) -> Iterator[tuple[Transaction, ServerLife]]:
    """Yield every transaction of an epoch with the life that made it. If several lives were established for the epoch, it is
    the last one that was established before the transaction."""
    established = [(led.time, life) for led, life in evidence.leaders() if led.epoch == epoch]
    primaries = _likely_primaries(evidence, epoch, [evidence.monotonic(fork[0].time) for fork in forks])
    for fork in forks:
        for n, txn in enumerate(fork):
            before = [life for time, life in established if time <= txn.time] if len(established) > 1 else []
            yield txn, before[-1] if before else primaries[min(n, len(primaries) - 1)]


def _likely_primaries(evidence: RunEvidence, epoch: int, times: Sequence[int]) -> list[ServerLife]:
    """Return one life of each node that can have led an epoch with transactions at these times, the likeliest first: one that
    was established, one that was seen to lead, one that lived at these times. The second is for the other side of a fork."""
    leaders = {it.node for it in evidence.role_samples if it.role == "LEADING" and it.epoch == epoch}
    established = {life_key(led) for led in evidence.established if led.epoch == epoch}

    def unlikely(life: ServerLife) -> tuple[bool, bool, int, int]:
        absent = sum(not life.began <= t <= life.ended for t in times)
        return life_key(life) not in established, life.node not in leaders, absent, life.began

    best = {life.node: life for life in sorted(evidence.lives, key=unlikely, reverse=True)}
    return sorted(best.values(), key=unlikely)


def _effect(step: Step) -> list[Any]:
    """Return a step as traces have it. The log has a check with the version after the one that was checked."""
    op, path, version, value = step
    return [op, path, version - 1 if op == "check" and version is not None else version, value]


# Deliveries


def _deliveries(evidence: RunEvidence, by_zxid: Mapping[int, list[Transaction]]) -> Iterator[Event]:
    answers: dict[int, list[tuple[int, int]]] = {}  # by node: (time, zxid)
    for it in evidence.operations:
        if isinstance(it, Complete) and it.outcome != "unknown" and it.zxid is not None and it.node is not None:
            answers.setdefault(it.node, []).append((it.t, packed(it.zxid)))
    trees = {life.disk_after.last: life.tree for life in evidence.lives if life.tree is not None}
    for life in evidence.lives:
        history = applied_history(life, evidence, by_zxid)
        zxids = [txn.zxid for txn in history]
        done, running = 0, dg.EMPTY
        until = _next_began(life, evidence)
        answered = [at for at in sorted(answers.get(life.node, [])) if life.began <= at[0] < until]
        end = [(life.ended, life.disk_after.last)] if life.tree is not None else []
        for t, zxid in [*answered, *end]:
            upto = bisect_right(zxids, zxid)
            for batch in _consecutive(history[done:upto]):
                for txn in batch:
                    running = dg.fold(running, txn.zxid, txn.digest)
                last = batch[-1].zxid
                tree = life.tree if last == life.disk_after.last else None  # nothing has changed it since
                yield _event(
                    life, t, "deliver", epoch=last >> 32, first=batch[0].zxid & 0xFFFFFFFF,
                    digests=dg.show_all([txn.digest for txn in batch]), digest=dg.show(running),
                    tree=tree or trees.get(last) or dg.show(running),  # if no server showed a tree, all get the same
                )  # fmt: skip
            done = max(done, upto)


def _next_began(life: ServerLife, evidence: RunEvidence) -> float:
    """Return when the server's next life began: a client may notice an answer after the server that gave it is gone."""
    return min((it.began for it in evidence.lives if life_key(it) == (life.node, life.life + 1)), default=inf)


def _consecutive(history: Sequence[Transaction]) -> Iterator[list[Transaction]]:
    """Split transactions into batches with consecutive zxids."""
    for _, group in groupby(enumerate(history), lambda item: item[1].zxid - item[0]):
        yield [txn for _, txn in group]
