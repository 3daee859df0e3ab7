"""The checker of ZooKeeper's watches (programmer's guide). It judges by sessions.jsonl and the servers' logs."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from msgspec.structs import replace

from zab_chaos.model.events import (
    ConnectionLost,
    ReadAnswered,
    RequestRefused,
    SessionBegan,
    SessionOver,
    SetWatchesAnswered,
    SetWatchesSent,
    WatchFired,
    WatchReadSent,
    packed,
)
from zab_chaos.model.oracle.evidence import node_names, show
from zab_chaos.model.oracle.facts import Facts
from zab_chaos.model.oracle.properties.sessions import GUIDE, Answer, WriteAcknowledged, state
from zab_chaos.model.oracle.properties.subtree_watches import EVENT_OF, SubtreeWatches
from zab_chaos.model.oracle.spans import FOREVER


@dataclass(frozen=True, slots=True)
class _Watch:
    """A watch that is over: the read that set it, the last answer before it fired or its connection was lost, and its event."""

    look: ReadAnswered
    latest: Answer
    fired: WatchFired | None


@dataclass(frozen=True, slots=True)
class _Resetting:
    """Watches that are being set again: the reads that set them, by path, and those that have fired meanwhile."""

    reads: dict[str, ReadAnswered]
    fired: list[tuple[ReadAnswered, WatchFired]] = field(default_factory=list)


class Watches(SubtreeWatches):
    """ZooKeeper programmer's guide, "What ZooKeeper Guarantees about Watches".

    Verifies:

    - A watch event is sent only to a client that has set a watch since its last event ("one-time trigger").
    - The event is for the first change that the history has since then, and names its kind.
    - The event comes before any answer at the zxid of that change or a later one, whatever the answer is about
      ("watches are ordered with respect to other events, other watches, and asynchronous replies"; "a client will see a
      watch event for a znode it is watching before seeing the new data").
    - A watch ends with its connection. When a client asks its next server to set watches again, it gets events for
      exactly those znodes whose state differs from the one that it has seen, before the request is answered ("watches
      ... will be triggered if needed").
    - What clients that watch a whole subtree are told: `SubtreeWatches`.

    Does not verify that a change is reported to a client that gets no more answers, nor the event of a watch that fires
    before the read that sets it is answered.
    """

    name = "watches"
    source = GUIDE
    statement = "A watch fires at most once, and its client is told of the change before it sees it."

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._set: dict[int, dict[str, ReadAnswered]] = defaultdict(dict)  # by client and path: the read that set it
        self._latest: dict[int, Answer] = {}  # by client: the last answer on its connection
        self._finished: list[_Watch] = []
        self._lost: dict[int, dict[str, ReadAnswered]] = {}  # the watches of a lost connection
        self._resetting: dict[int, _Resetting] = {}
        # Watches that were set again: the read that set each, its event meanwhile, and the server's answer.
        self._reset: list[tuple[ReadAnswered, WatchFired | None, SetWatchesAnswered]] = []
        self._pending: dict[int, Counter[str]] = defaultdict(Counter)  # outstanding reads that set a watch, by path
        self._early: dict[int, Counter[str]] = defaultdict(Counter)  # those of them whose watch has fired already

    def on_began(self, line: SessionBegan) -> None:
        self._forget(line.client)

    def on_lost(self, line: ConnectionLost) -> None:
        resetting = self._resetting.pop(line.client, _Resetting({}))
        lost = {**resetting.reads, **self._set[line.client]}
        self._forget(line.client)
        self._lost[line.client] = lost

    def on_over(self, line: SessionOver) -> None:
        self._forget(line.client)

    def on_again(self, line: SetWatchesSent) -> None:
        lost = self._lost.pop(line.client, {})
        self._resetting[line.client] = _Resetting({path: lost[path] for path in line.paths if path in lost})

    def on_stand(self, line: SetWatchesAnswered) -> None:
        self._latest[line.client] = line
        resetting = self._resetting.pop(line.client, _Resetting({}))
        self._reset += [(look, fired, line) for look, fired in resetting.fired]
        self._reset += [(look, None, line) for look in resetting.reads.values()]
        self._set[line.client] |= {path: replace(look, zxid=line.zxid) for path, look in resetting.reads.items()}

    def on_ask(self, line: WatchReadSent) -> None:
        self._pending[line.client][line.path] += 1

    def on_made(self, line: WriteAcknowledged) -> None:
        self._latest[line.client] = line

    on_wrote = on_removed = on_made

    def on_refused(self, line: RequestRefused) -> None:
        """A read that is refused sets no watch."""
        self._latest[line.client] = line
        if line.watch:
            self._pending[line.client][line.path] -= 1
            if self._early[line.client][line.path] > self._pending[line.client][line.path]:
                self._early[line.client][line.path] -= 1
                self.findings.add(
                    f"client {line.client} was told of a change of {line.path} before its read was refused, and watched that "
                    "by no other one",
                    [line],
                )

    def on_look(self, line: ReadAnswered) -> None:
        self._latest[line.client] = line
        before = self._set[line.client].get(line.path)
        if before is not None:
            self.checked += 1
        if before is not None and before.changed != line.changed:
            self.findings.add(
                f"client {line.client} saw {state(line.changed)} before it was told of a change; it watches {line.path} "
                f"since it has seen {state(before.changed)}",
                [before, line],
            )
        if line.watch:
            self._pending[line.client][line.path] -= 1
            if self._early[line.client][line.path] > 0:
                self._early[line.client][line.path] -= 1
            else:
                self._set[line.client].setdefault(line.path, line)

    def on_fired(self, line: WatchFired) -> None:
        self.checked += 1
        look = self._set[line.client].pop(line.path, None)
        resetting = self._resetting.get(line.client)
        if resetting is not None and line.path in resetting.reads:
            resetting.fired.append((resetting.reads.pop(line.path), line))
        elif look is not None:
            self._finished.append(_Watch(look, self._latest[line.client], line))
        elif self._pending[line.client][line.path] > self._early[line.client][line.path]:
            self._early[line.client][line.path] += 1
        else:
            self.findings.add(
                f"client {line.client} was told of a change of {line.path} that it does not watch", [line]
            )

    def _forget(self, client: int) -> None:
        self._finished += [_Watch(look, self._latest[client], None) for look in self._set.pop(client, {}).values()]
        for waiting in (self._lost, self._resetting):
            waiting.pop(client, None)
        self._pending.pop(client, None)
        self._early.pop(client, None)
        self.end_stream(client)

    # ---- comparison with the delivered history ----

    def at_end(self) -> None:
        for client in list(self._set):
            self._forget(client)
        for watch in self._finished:
            change = self.facts.changes.next_change(watch.look.path, packed(watch.look.zxid))
            if change is not None:
                self._check_event(watch, change.zxid, change.op)
            elif watch.fired is not None and self.facts.changes.known_upto == FOREVER:
                self.findings.add(
                    f"{_watch_name(watch.look)} was told of a change, and there is none", [watch.look, watch.fired]
                )
        for look, fired, stand in self._reset:
            if packed(stand.zxid) <= self.facts.changes.known_upto:
                self._check_reset(look, fired, stand)
        super().at_end()

    def _check_event(self, watch: _Watch, zxid: int, op: str) -> None:
        """Check the event for the first change since a watch was set: it was sent, in time, and with the right kind."""
        fired, latest, by = watch.fired, watch.latest, self.facts.effects.broadcast(zxid)
        self.checked += 1
        if packed(latest.zxid) >= zxid:
            self.findings.add(
                f"{_watch_name(watch.look)} was answered at {show(latest.zxid)} before it was told of the change at "
                f"{show(zxid)}",
                [watch.look, by, latest, fired],
            )
        elif fired is not None and fired.what != EVENT_OF[op]:
            self.findings.add(
                f"{_watch_name(watch.look)} was told {fired.what!r}; {show(zxid)} is a {op}", [watch.look, by, fired]
            )

    def _check_reset(self, look: ReadAnswered, fired: WatchFired | None, stand: SetWatchesAnswered) -> None:
        self.checked += 1
        now = self.facts.changes.last_change_zxid(look.path, packed(stand.zxid))
        right, told = _expected_event(look, now), fired.what if fired is not None else None
        if told != right:
            self.findings.add(
                f"{_watch_name(look)} watches it again at {node_names([stand.node])}, at {show(stand.zxid)}, and was told "
                f"{told or 'nothing'!r}, where right was {right or 'nothing'!r}",
                [look, self.facts.effects.broadcast(now) if now is not None else None, fired, stand],
            )


def _expected_event(look: ReadAnswered, now: int | None) -> str | None:
    """Return the watch event that a client needs after this read if the znode's last change is now `now`; None for no event."""
    if now == (packed(look.changed) if look.changed is not None else None):
        return None
    return "deleted" if now is None else "created" if look.changed is None else "changed"


def _watch_name(look: ReadAnswered) -> str:
    return f"client {look.client}, which watches {look.path} since it saw {state(look.changed)}, at {show(look.zxid)},"
