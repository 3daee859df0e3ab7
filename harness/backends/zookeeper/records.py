"""What servers and clients leave, as the documented trace events (results/README.md), so that the oracle can judge a run.

A server writes no trace. What can be said of it all the same:

- `boot`: what its disk held when a life began; `left`: when it had ended, or at the end of the run.
- `broadcast`: every transaction that any log ever held, when the leader's clock says it was made. By whom the client's
  session tells, and for a write that was acknowledged the zxid that its client was told: from that comes `txns`.
- `deliver`: a server that answers a client at a zxid has applied everything up to there. What that was its own log says,
  from its last snapshot on. For what is older the snapshot stands, of which only the name is read, and the log may even
  hold what was never committed: there nothing is known but what another server's log says; and so it is with what a
  server has applied, but has not logged yet. At the end, each server that showed its tree has applied its whole log.
- `truncate`: what a log held at one time and holds no more, on the same disk.
- `role`, `phase`: as they were seen; `member`: a server whose disk was lost was seen to serve again.
- `established`: as the leader says in its log; the history that it led with is what its disk has of the epochs before.
- `differs`: as the server says in its log, where its releases compare their trees.

Nothing is said of promises, of other acknowledgements between servers, of when something became durable, of what was in flight.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import inf
from operator import attrgetter
from typing import Any

import msgspec

from zab_chaos.harness.backends.zookeeper.server_log import Differs, Led
from zab_chaos.harness.backends.zookeeper.txnlog import CLOSE, SESSION, Log, Step, Transaction
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.events import Complete, Invoke, packed, trace_name
from zab_chaos.model.oracle.facts import ORDERED
from zab_chaos.node.core import digest as dg
from zab_chaos.node.core.zxid import Zxid, pair

Event = dict[str, Any]
NUMBER = re.compile(r"\d{10}$")  # of a sequential znode
NOBODY = 0  # as in the servers' own transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One life of a server. Times are monotonic nanoseconds. `before`, `after`: its disk when it began and when it had ended;
    `code`: its exit status, if it ended by itself, and `why`, in its words; `tree`: the digest of the tree that it showed at
    the very end."""

    node: int
    life: int
    began: int
    ended: int
    before: Log
    after: Log
    code: int | None = None
    why: str | None = None
    tree: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What a server was at a time, as it said: `Status.role`, its epoch, its leader, and whether it served."""

    t: int
    node: int
    life: int
    role: str
    epoch: int
    leader: int | None
    serving: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Of a whole run. `sessions`: client number to the sessions that it had. `led`, `differs`: what the servers say in their
    logs of the epochs that they led, and of trees that are not as their leader's. `clock`: what is to be added to nanoseconds
    of the wall clock to have monotonic ones. `nodes`: of the ensemble."""

    nodes: int
    lives: Sequence[Life]
    operations: Sequence[Invoke | Complete] = ()
    sessions: Mapping[int, Sequence[int]] = field(default_factory=dict)
    seen: Sequence[Seen] = ()
    led: Sequence[Led] = ()
    differs: Sequence[Differs] = ()
    clock: int = 0

    def monotonic(self, milliseconds: int) -> int:
        """A time of the wall clock as the traces have it."""
        return milliseconds * 1_000_000 + self.clock

    def leaders(self) -> list[tuple[Led, Life]]:
        """Who was established as a leader, in time."""
        lives = self.numbered()
        return [(led, lives[_life_of(led)]) for led in sorted(self.led, key=attrgetter("time"))]

    def numbered(self) -> dict[tuple[int, int], Life]:
        """The lives by (node, life)."""
        return {(life.node, life.life): life for life in self.lives}


def traces(evidence: Evidence) -> dict[tuple[int, int], list[Event]]:
    """The trace of each life, by (node, life): events in time, numbered."""
    union = _union(evidence.lives)
    history = _last(evidence, union)
    _tell_ends(union, history)
    events = [*_boots(evidence), *_roles(evidence), *_members(evidence), *_truncations(evidence)]
    events += [*_established(evidence), *_differs(evidence)]
    events += _broadcasts(evidence, union, history)
    events += _deliveries(evidence, union)
    found: dict[tuple[int, int], list[Event]] = {(life.node, life.life): [] for life in evidence.lives}
    for event in sorted(events, key=_when):
        trace = found[event["node"], event["life"]]
        trace.append(event | {"n": len(trace) + 1})
    return found


def write_traces(evidence: Evidence, folder: RunFolder) -> None:
    """Write them into a run's folder."""
    for (node, life), events in traces(evidence).items():
        lines = b"".join(msgspec.json.encode(event) + b"\n" for event in events)
        folder.file(trace_name(node, life)).write_bytes(lines)


# What a disk held


def _boots(evidence: Evidence) -> Iterator[Event]:
    for life in evidence.lives:
        yield _event(
            life, life.began, "boot", disk=_found(life), **_held(life.before), snapshot_zxid=[0, 0],
            torn_bytes=life.before.torn, faithful=False, nodes=evidence.nodes, defect=None, pid=None,
        )  # fmt: skip
        yield _event(life, life.ended, "left", **_held(life.after), **_files(life.after))
        if life.code is not None:
            yield _event(life, life.ended, "exit", code=life.code, why=life.why or "it ended by itself")


def _held(log: Log) -> Event:
    """The epochs of a disk, and where its history ends."""
    accepted, current = (epoch or 0 for epoch in log.epochs)
    return {"accepted_epoch": accepted, "current_epoch": current, "last_zxid": pair(Zxid(log.last))}


def _files(log: Log) -> Event:
    """What its transactions are, the first and the last of consecutive ones, which snapshots it has, and what is damaged."""
    runs = [(batch[0].zxid, batch[-1].zxid) for batch in _batches(log.transactions)]
    return {
        "log": [[pair(Zxid(zxid)) for zxid in run] for run in runs],
        "snapshots": [pair(Zxid(zxid)) for zxid in sorted(log.snapshots)],
        "damage": list(log.damage),
    }


def _found(life: Life) -> str:
    """What the life began with."""
    log = life.before
    if any(log.epochs) or log.last:
        return "torn" if log.torn else "recovered"
    return "fresh" if life.life == 1 else "amnesiac"


def _truncations(evidence: Evidence) -> Iterator[Event]:
    """What one reading of a disk has and the next one has not, although it neither begins later nor is empty."""
    for life in evidence.lives:
        old, new = life.before.transactions, life.after.transactions
        kept = {(one.zxid, one.digest) for one in new}
        first = new[0].zxid if new else 0
        gone = [one.zxid for one in old if (one.zxid, one.digest) not in kept and one.zxid >= first]
        if gone and (new or not life.after.snapshots):
            keep = max((one.zxid for one in old if one.zxid < gone[0]), default=0)
            yield _event(life, life.ended, "truncate", keep=pair(Zxid(keep)), last=pair(Zxid(gone[-1])))


# What servers were


def _roles(evidence: Evidence) -> Iterator[Event]:
    lives = evidence.numbered()
    for key, samples in groupby(sorted(evidence.seen, key=lambda one: (one.node, one.life, one.t)), _life_of):
        role: tuple[str, int | None] | None = None
        phase: tuple[bool, int] | None = None
        for one in samples:
            if (one.role, one.leader) != role:
                role = one.role, one.leader
                yield _event(lives[key], one.t, "role", role=one.role, leader=one.leader, why="as it said")
            if (one.serving, one.epoch) != phase:
                phase = one.serving, one.epoch
                yield _event(
                    lives[key], one.t, "phase", phase="BROADCAST" if one.serving else "ELECTION", epoch=one.epoch
                )


def _members(evidence: Evidence) -> Iterator[Event]:
    """Whose disk was lost counts again when a leader has synchronized it: then it serves."""
    for life in evidence.lives:
        served = [one for one in evidence.seen if _life_of(one) == (life.node, life.life) and one.serving]
        if _found(life) == "amnesiac" and served:
            yield _event(life, served[0].t, "member", epoch=served[0].epoch, quorum=[])


def _life_of(seen: Seen | Led | Differs) -> tuple[int, int]:
    return seen.node, seen.life


def _established(evidence: Evidence) -> Iterator[Event]:
    """What a server says after its disk was read for the last time is not part of the evidence."""
    for led, life in evidence.leaders():
        t = evidence.monotonic(led.time)
        if t <= life.ended:
            last = Zxid(life.after.last_before(led.epoch))
            yield _event(life, t, "established", epoch=led.epoch, last_zxid=pair(last), quorum=list(led.quorum))


def _differs(evidence: Evidence) -> Iterator[Event]:
    lives = evidence.numbered()
    for one in evidence.differs:
        life, t = lives[_life_of(one)], evidence.monotonic(one.time)
        if t <= life.ended:
            yield _event(life, t, "differs", zxid=pair(Zxid(one.zxid)))


# What was broadcast


def _union(lives: Iterable[Life]) -> dict[int, list[Transaction]]:
    """Every transaction that any log has ever held, by zxid, the one that most logs hold first; more than one: a fork."""
    counts: Counter[tuple[int, int]] = Counter()
    found: dict[tuple[int, int], Transaction] = {}
    for life in lives:
        for one in (*life.before.transactions, *life.after.transactions):
            counts[one.zxid, one.digest] += 1
            found[one.zxid, one.digest] = one
    union: dict[int, list[Transaction]] = {}
    for (zxid, _), one in sorted(found.items(), key=lambda item: (item[0][0], -counts[item[0]])):
        union.setdefault(zxid, []).append(one)
    return union


def ended(evidence: Evidence) -> dict[int, Transaction]:
    """The sessions that have ended, and by which transaction, in the history that the servers have in the end."""
    return {one.client: one for one in _last(evidence, _union(evidence.lives)) if one.type == CLOSE}


def _last(evidence: Evidence, union: Mapping[int, list[Transaction]]) -> list[Transaction]:
    """The history that the servers have in the end. What a leader logged and nobody else has is not part of it."""
    life = max(evidence.lives, key=lambda it: (it.tree is not None, it.after.last), default=None)
    return _history(life, evidence, union) if life is not None else []


def _tell_ends(union: dict[int, list[Transaction]], history: Sequence[Transaction]) -> None:
    """Before 3.6 the end of a session does not say which ephemeral znodes go with it: those that are left of what it made."""
    owners: dict[str, int] = {}  # by path
    for one in history:
        steps = one.steps
        if one.type == CLOSE and not steps:
            left = [path for path, owner in owners.items() if owner == one.client]
            steps = tuple(("delete", path, None, None) for path in left)
            union[one.zxid] = [replace(it, steps=steps) if it.digest == one.digest else it for it in union[one.zxid]]
        for op, path, *_ in steps:
            if op == "delete":
                owners.pop(path, None)
        owners.update(dict.fromkeys(one.ephemerals, one.client))


def _broadcasts(
    evidence: Evidence, union: Mapping[int, list[Transaction]], history: Sequence[Transaction]
) -> Iterator[Event]:
    owners = _Owners(evidence, history)
    known: set[tuple[int, int]] = set()
    for epoch, zxids in groupby(union, lambda zxid: zxid >> 32):
        forks = [union[zxid] for zxid in zxids]
        for one, life in _by_primary(evidence, epoch, forks):
            t = evidence.monotonic(one.time)
            client, seq = owners.of(one)
            if not owners.ours(client) and (client, life.node) not in known:
                known.add((client, life.node))
                yield _event(life, t, "client", state="connected", client=client)
            does = [[client, seq, [_effect(step) for step in one.steps]]] if one.obscure is None else []
            yield _event(
                life, t, "broadcast", epoch=epoch, first=one.zxid & 0xFFFFFFFF, digests=dg.show(one.digest),
                delivered=[0, 0], txns=does,
            )  # fmt: skip


def _by_primary(
    evidence: Evidence, epoch: int, forks: Sequence[Sequence[Transaction]]
) -> Iterator[tuple[Transaction, Life]]:
    """Every transaction of an epoch and the life that made it. Where several were established for the epoch, it is the last
    of them that was established before."""
    led = [(led.time, life) for led, life in evidence.leaders() if led.epoch == epoch]
    primaries = _primaries(evidence, epoch, [evidence.monotonic(fork[0].time) for fork in forks])
    for fork in forks:
        for n, one in enumerate(fork):
            before = [life for time, life in led if time <= one.time] if len(led) > 1 else []
            yield one, before[-1] if before else primaries[min(n, len(primaries) - 1)]


def _primaries(evidence: Evidence, epoch: int, times: Sequence[int]) -> list[Life]:
    """Who can have led an epoch in which transactions were made at these times, the likeliest first: who was established for
    it, who was seen to lead it, who lived then. The second is for the other side of a fork."""
    leaders = {seen.node for seen in evidence.seen if seen.role == "LEADING" and seen.epoch == epoch}
    established = {_life_of(led) for led in evidence.led if led.epoch == epoch}

    def unlikely(life: Life) -> tuple[bool, bool, int, int]:
        led = (life.node, life.life) in established
        absent = sum(not life.began <= t <= life.ended for t in times)
        return not led, life.node not in leaders, absent, life.began

    best = {life.node: life for life in sorted(evidence.lives, key=unlikely, reverse=True)}
    return sorted(best.values(), key=unlikely)


def _effect(step: Step) -> list[Any]:
    """A check stands in the log with the version that comes after the one that it has found."""
    op, path, version, value = step
    return [op, path, version - 1 if op == "check" and version is not None else version, value]


@dataclass(frozen=True, slots=True)
class _Open:
    """A request of which nobody knows what became, or whose client was told that it had failed."""

    invoke: Invoke
    refused: bool

    def allows(self, steps: Sequence[Step]) -> bool:
        """Whether these steps hold what it makes a condition: a check and a set stand in the log with the version after it."""
        pairs = zip(self.invoke.requested_steps, steps, strict=True)
        return all(asked.version in (None, version - 1) for asked, (_, _, version, _) in pairs if version)


class _Owners:
    """Whose a transaction is: an operation's (client, seq), or, for what nobody asked for in ops.jsonl, its session's.
    `history`: the one that the servers have in the end; it tells when sessions begin and end."""

    def __init__(self, evidence: Evidence, history: Sequence[Transaction]) -> None:
        self._began = {one.client: one.zxid for one in reversed(history) if one.type == SESSION}
        self._ended = {one.client: one.zxid for one in history if one.type == CLOSE}
        self._clients = {session: client for client, sessions in evidence.sessions.items() for session in sessions}
        self._numbers = set(evidence.sessions)
        answers = {(it.client, it.seq): it for it in evidence.operations if isinstance(it, Complete)}
        self._told: dict[int, tuple[int, int]] = {}
        self._open: dict[tuple[int, Asked], list[_Open]] = {}  # by what was asked
        self._done: dict[tuple[int, Asked], int] = {}
        self._last: dict[int, int] = {}  # by client: the highest seq that has taken effect so far
        for invoke in evidence.operations:
            if not isinstance(invoke, Invoke) or invoke.op not in ORDERED:
                continue
            key = invoke.client, invoke.seq
            answer = answers.get(key)
            if answer is None or answer.outcome != "ok":
                refused = answer is not None and answer.outcome == "failed"
                self._open.setdefault((invoke.client, _asked(invoke)), []).append(_Open(invoke, refused))
            elif answer.zxid is not None:
                self._told[packed(answer.zxid)] = key
                self._done[invoke.client, _asked(invoke)] = invoke.seq

    def of(self, one: Transaction) -> tuple[int, int]:
        """(client, seq), asked for in the order of the zxids. What was asked for once and is there a second time has the same
        as the first time; what a client of ours has never asked for has a seq that no request has."""
        client, seq = self._of(one)
        if self.ours(client) and seq != one.zxid:
            self._last[client] = max(seq, self._last.get(client, 0))
        return client, seq

    def _of(self, one: Transaction) -> tuple[int, int]:
        if one.zxid < self._began.get(one.client, 0):  # no session has written it
            return NOBODY, one.zxid
        if one.ephemerals or one.zxid > self._ended.get(one.client, one.zxid):
            return one.client, one.zxid  # no client of ours asks for a znode that goes with its session
        client = self._clients.get(one.client)
        told = self._told.get(one.zxid)
        if told is not None and (client is None or told[0] == client):
            return told
        if client is None or not one.steps or one.type == CLOSE:
            return one.client, one.zxid
        candidates = [(client, asked) for asked in _possibly_asked(one.steps)]
        for did in candidates:
            if self._open.get(did):
                return client, self._likeliest(client, self._open[did], one.steps)
        return client, next((self._done[did] for did in candidates if did in self._done), one.zxid)

    def _likeliest(self, client: int, waiting: list[_Open], steps: Sequence[Step]) -> int:
        """Of requests that ask for the same, the one whose condition holds, that nobody was told to have failed, and that is
        not before what has taken effect already: only if there is no such one has a promise been broken."""
        passed = self._last.get(client, 0)
        best = min(waiting, key=lambda it: (not it.allows(steps), it.refused, it.invoke.seq <= passed, it.invoke.seq))
        waiting.remove(best)
        return best.invoke.seq

    def ours(self, client: int) -> bool:
        """Whether it is the number of a client that keeps a record."""
        return client in self._numbers


Asked = tuple[tuple[str, str, int | None], ...]  # op, path, value of each step


def _asked(invoke: Invoke) -> Asked:
    return tuple((step.op, step.path, step.value) for step in invoke.requested_steps)


def _possibly_asked(steps: Sequence[Step]) -> list[Asked]:
    """What can have been asked for to have this done: the paths as they are, or without a sequential znode's number."""
    exact = tuple((op, path, value) for op, path, _, value in steps)
    numbered = tuple((op, NUMBER.sub("", path) if op == "create" else path, value) for op, path, _, value in steps)
    return [exact] if numbered == exact else [exact, numbered]


# What was delivered


def _deliveries(evidence: Evidence, union: Mapping[int, list[Transaction]]) -> Iterator[Event]:
    answers: dict[int, list[tuple[int, int]]] = {}
    for it in evidence.operations:
        if isinstance(it, Complete) and it.outcome != "unknown" and it.zxid is not None and it.node is not None:
            answers.setdefault(it.node, []).append((it.t, packed(it.zxid)))
    shown = {life.after.last: life.tree for life in evidence.lives if life.tree is not None}
    for life in evidence.lives:
        history = _history(life, evidence, union)
        zxids = [one.zxid for one in history]
        done, running = 0, dg.EMPTY
        told = [at for at in sorted(answers.get(life.node, [])) if life.began <= at[0] < _next(life, evidence)]
        end = [(life.ended, life.after.last)] if life.tree is not None else []
        for t, zxid in [*told, *end]:
            upto = bisect_right(zxids, zxid)
            for batch in _batches(history[done:upto]):
                for one in batch:
                    running = dg.fold(running, one.zxid, one.digest)
                last = batch[-1].zxid
                tree = life.tree if last == life.after.last else None  # nothing has changed it since
                yield _event(
                    life, t, "deliver", epoch=last >> 32, first=batch[0].zxid & 0xFFFFFFFF,
                    digests=dg.show_all([one.digest for one in batch]), digest=dg.show(running),
                    tree=tree or shown.get(last) or dg.show(running),  # where nobody has shown one, all have the same
                )  # fmt: skip
            done = max(done, upto)


def _next(life: Life, evidence: Evidence) -> float:
    """When the life after this one began: an answer may be noticed when its server is gone already."""
    return min((it.began for it in evidence.lives if (it.node, it.life) == (life.node, life.life + 1)), default=inf)


def _history(life: Life, evidence: Evidence, union: Mapping[int, list[Transaction]]) -> list[Transaction]:
    """What a server can have applied in this life, in order."""
    known = _known(life.after, evidence, list(union))
    last = max(life.after.last, known[-1].zxid if known else 0)
    return [*known, *(forks[0] for zxid, forks in union.items() if zxid > last)]


def _known(log: Log, evidence: Evidence, made: Sequence[int], upto: float = inf) -> list[Transaction]:
    """What a log says up to a zxid, from the last snapshot of another server on; and below that, what the log says of a server
    that logged the snapshot's last transaction. `made`: the zxids of all logs, ascending."""
    floor = _floor(log, made, upto)
    donor = _donor(floor, evidence, made) if floor else None
    below = _known(donor.after, evidence, made, floor) if donor is not None else []
    return [*below, *(one for one in log.transactions if floor < one.zxid <= upto)]


def _donor(zxid: int, evidence: Evidence, made: Sequence[int]) -> Life | None:
    """Whose log tells the history up to there: it has logged that transaction itself, and so what is before it; or, where no
    log has it, one that goes on beyond it."""

    def worth(life: Life) -> tuple[bool, int, int]:
        return not _logged(life.after, made, zxid), _floor(life.after, made, zxid), -life.ended

    fit = [life for life in evidence.lives if _floor(life.after, made, zxid) < zxid <= life.after.last]
    return min(fit, key=worth, default=None)


def _floor(log: Log, made: Sequence[int], upto: float) -> int:
    """The zxid of the last snapshot, of those up to `upto`, that came from another server: the log does not have that
    transaction."""
    return max((zxid for zxid in log.snapshots if zxid <= upto and not _logged(log, made, zxid)), default=0)


def _logged(log: Log, made: Sequence[int], zxid: int) -> bool:
    """Whether a log has a transaction. An epoch that begins (e:0) is none: there it is the one before."""
    if zxid & 0xFFFFFFFF == 0:
        before = bisect_left(made, zxid)
        return before > 0 and _has(log, made[before - 1])
    return _has(log, zxid)


def _has(log: Log, zxid: int) -> bool:
    at = bisect_left(log.transactions, zxid, key=lambda one: one.zxid)
    return at < len(log.transactions) and log.transactions[at].zxid == zxid


def _batches(history: Sequence[Transaction]) -> Iterator[list[Transaction]]:
    """Of consecutive zxids."""
    for _, group in groupby(enumerate(history), lambda item: item[1].zxid - item[0]):
        yield [one for _, one in group]


# Events


def _event(life: Life, t: int, event: str, **fields: Any) -> Event:
    return {"t": min(max(t, life.began), life.ended), "node": life.node, "life": life.life, "event": event, **fields}


_ORDER = {"boot": 0, "left": 2, "exit": 3}


def _when(event: Event) -> tuple[int, int]:
    return event["t"], _ORDER.get(event["event"], 1)
