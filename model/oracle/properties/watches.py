"""What ZooKeeper promises to whom watches a znode (programmer's guide). Judged by sessions.jsonl and the servers' logs."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from msgspec.structs import replace

from zab_chaos.model.events import (
    ConnectionLost,
    EphemeralCreated,
    ReadAnswered,
    RequestRefused,
    SessionBegan,
    SessionOver,
    SetAcknowledged,
    SetWatchesAnswered,
    SetWatchesSent,
    WatchFired,
    WatchReadSent,
    packed,
)
from zab_chaos.model.oracle.evidence import node_names, show
from zab_chaos.model.oracle.facts import Facts
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.oracle.properties.sessions import GUIDE, state
from zab_chaos.model.oracle.spans import FOREVER

Answer = ReadAnswered | EphemeralCreated | SetAcknowledged | RequestRefused | SetWatchesAnswered
TOLD = {"create": "created", "set": "changed", "delete": "deleted"}  # by what has happened


@dataclass(frozen=True, slots=True)
class _Watch:
    """One that is over: what the read showed that set it, the last answer before it fired or its connection went, and how it
    fired."""

    look: ReadAnswered
    latest: Answer
    fired: WatchFired | None


@dataclass(frozen=True, slots=True)
class _Again:
    """Watches that are being set again: what they rest on, by path, and those that have fired meanwhile."""

    looks: dict[str, ReadAnswered]
    fired: list[tuple[ReadAnswered, WatchFired]] = field(default_factory=list)


class Watches(Checker):
    """ZooKeeper programmer's guide, "What ZooKeeper Guarantees about Watches".

    Verifies that a server tells of a change only to whom has set a watch since it was told the last time ("one-time
    trigger"); that it tells of the first change that the history has since then, and what that was; and that it does so
    before it answers at the zxid of that change or a later one, whatever the answer is about ("watches are ordered with
    respect to other events, other watches, and asynchronous replies"; "a client will see a watch event for a znode it is
    watching before seeing the new data"). A watch goes with its connection. Where a client asks its next server to watch
    again, it must be told of what is another state then than the one that it has seen, and of nothing else, before that is
    answered ("watches ... will be triggered if needed"). Does not verify that a change is told to a client that is
    answered nothing any more, nor what a watch tells that fires before the read that sets it is answered.
    """

    name = "watches"
    source = GUIDE
    statement = "A watch fires at most once, and its client is told of the change before it sees it."

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._set: dict[int, dict[str, ReadAnswered]] = defaultdict(dict)  # by client and path: what it saw
        self._latest: dict[int, Answer] = {}  # by client: the last answer that its connection carried
        self._gone: list[_Watch] = []
        self._kept: dict[int, dict[str, ReadAnswered]] = {}  # those of a connection that was lost
        self._again: dict[int, _Again] = {}
        self._stood: list[tuple[ReadAnswered, WatchFired | None, SetWatchesAnswered]] = []  # those that were set again
        self._asked: dict[int, Counter[str]] = defaultdict(Counter)  # reads on their way that set a watch
        self._early: dict[int, Counter[str]] = defaultdict(Counter)  # of these, those whose watch has fired already

    def on_began(self, line: SessionBegan) -> None:
        self._forget(line.client)

    def on_lost(self, line: ConnectionLost) -> None:
        again = self._again.pop(line.client, _Again({}))
        kept = {**again.looks, **self._set[line.client]}
        self._forget(line.client)
        self._kept[line.client] = kept

    def on_over(self, line: SessionOver) -> None:
        self._forget(line.client)

    def on_again(self, line: SetWatchesSent) -> None:
        kept = self._kept.pop(line.client, {})
        self._again[line.client] = _Again({path: kept[path] for path in line.paths if path in kept})

    def on_stand(self, line: SetWatchesAnswered) -> None:
        self._latest[line.client] = line
        again = self._again.pop(line.client, _Again({}))
        self._stood += [(look, fired, line) for look, fired in again.fired]
        self._stood += [(look, None, line) for look in again.looks.values()]
        self._set[line.client] |= {path: replace(look, zxid=line.zxid) for path, look in again.looks.items()}

    def on_ask(self, line: WatchReadSent) -> None:
        self._asked[line.client][line.path] += 1

    def on_made(self, line: EphemeralCreated | SetAcknowledged | RequestRefused) -> None:
        self._latest[line.client] = line

    on_wrote = on_refused = on_made

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
            self._asked[line.client][line.path] -= 1
            if self._early[line.client][line.path] > 0:
                self._early[line.client][line.path] -= 1
            else:
                self._set[line.client].setdefault(line.path, line)

    def on_fired(self, line: WatchFired) -> None:
        self.checked += 1
        look = self._set[line.client].pop(line.path, None)
        again = self._again.get(line.client)
        if again is not None and line.path in again.looks:
            again.fired.append((again.looks.pop(line.path), line))
        elif look is not None:
            self._gone.append(_Watch(look, self._latest[line.client], line))
        elif self._asked[line.client][line.path] > self._early[line.client][line.path]:
            self._early[line.client][line.path] += 1
        else:
            self.findings.add(
                f"client {line.client} was told of a change of {line.path} that it does not watch", [line]
            )

    def _forget(self, client: int) -> None:
        self._gone += [_Watch(look, self._latest[client], None) for look in self._set.pop(client, {}).values()]
        for waiting in (self._kept, self._again):
            waiting.pop(client, None)
        self._asked.pop(client, None)
        self._early.pop(client, None)

    # ---- with the history ----

    def at_end(self) -> None:
        for client in list(self._set):
            self._forget(client)
        for watch in self._gone:
            change = self.facts.changes.next_change(watch.look.path, packed(watch.look.zxid))
            if change is not None:
                self._changed(watch, change.zxid, change.op)
            elif watch.fired is not None and self.facts.changes.known_upto == FOREVER:
                self.findings.add(
                    f"{_named(watch.look)} was told of a change, and there is none", [watch.look, watch.fired]
                )
        for look, fired, stand in self._stood:
            if packed(stand.zxid) <= self.facts.changes.known_upto:
                self._set_again(look, fired, stand)

    def _changed(self, watch: _Watch, zxid: int, op: str) -> None:
        """The first change since a watch was set: told at all, in time, and as what it was?"""
        fired, latest, by = watch.fired, watch.latest, self.facts.effects.broadcast(zxid)
        self.checked += 1
        if packed(latest.zxid) >= zxid:
            self.findings.add(
                f"{_named(watch.look)} was answered at {show(latest.zxid)} before it was told of the change at {show(zxid)}",
                [watch.look, by, latest, fired],
            )
        elif fired is not None and fired.what != TOLD[op]:
            self.findings.add(
                f"{_named(watch.look)} was told {fired.what!r}; {show(zxid)} is a {op}", [watch.look, by, fired]
            )

    def _set_again(self, look: ReadAnswered, fired: WatchFired | None, stand: SetWatchesAnswered) -> None:
        self.checked += 1
        now = self.facts.changes.last_change_zxid(look.path, packed(stand.zxid))
        right, told = _difference(look, now), fired.what if fired is not None else None
        if told != right:
            self.findings.add(
                f"{_named(look)} watches it again at {node_names([stand.node])}, at {show(stand.zxid)}, and was told "
                f"{told or 'nothing'!r}, where right was {right or 'nothing'!r}",
                [look, self.facts.effects.broadcast(now) if now is not None else None, fired, stand],
            )


def _difference(look: ReadAnswered, now: int | None) -> str | None:
    """What is to be told to whom has seen this, if the znode's last change is `now`; None: nothing."""
    if now == (packed(look.changed) if look.changed is not None else None):
        return None
    return "deleted" if now is None else "created" if look.changed is None else "changed"


def _named(look: ReadAnswered) -> str:
    return f"client {look.client}, which watches {look.path} since it saw {state(look.changed)}, at {show(look.zxid)},"
