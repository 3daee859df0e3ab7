"""What ZooKeeper promises to whom watches a znode (programmer's guide). Judged by sessions.jsonl and the servers' logs."""

from collections import Counter, defaultdict
from dataclasses import dataclass

from zab_chaos.model.events import Ask, Began, Fired, Look, Lost, Made, Over, packed
from zab_chaos.model.oracle.evidence import show
from zab_chaos.model.oracle.facts import Facts
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.oracle.properties.sessions import GUIDE, state
from zab_chaos.model.oracle.spans import FOREVER

TOLD = {"create": "created", "set": "changed", "delete": "deleted"}  # by what has happened


@dataclass(frozen=True, slots=True)
class _Watch:
    """One that is over: what the read showed that set it, the last answer before it fired or its connection went, and how it
    fired."""

    look: Look
    latest: Look | Made
    fired: Fired | None


class Watches(Checker):
    """ZooKeeper programmer's guide, "What ZooKeeper Guarantees about Watches".

    Verifies that a server tells of a change only to whom has set a watch since it was told the last time ("one-time
    trigger"); that it tells of the first change that the history has since then, and what that was; and that it does so
    before it answers at the zxid of that change or a later one, whatever the answer is about ("watches are ordered with
    respect to other events, other watches, and asynchronous replies"; "a client will see a watch event for a znode it is
    watching before seeing the new data"). A watch goes with its connection: what a client misses while it is not connected
    is not promised. Does not verify that a change is told to a client that is answered nothing any more, nor what a watch
    tells that fires before the read that sets it is answered.
    """

    name = "watches"
    source = GUIDE
    statement = "A watch fires at most once, and its client is told of the change before it sees it."

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._set: dict[int, dict[str, Look]] = defaultdict(dict)  # by client and path: what it saw
        self._latest: dict[int, Look | Made] = {}  # by client: the last answer that its connection carried
        self._gone: list[_Watch] = []
        self._asked: dict[int, Counter[str]] = defaultdict(Counter)  # reads on their way that set a watch
        self._early: dict[int, Counter[str]] = defaultdict(Counter)  # of these, those whose watch has fired already

    def on_began(self, line: Began) -> None:
        self._forget(line.client)

    def on_lost(self, line: Lost) -> None:
        self._forget(line.client)

    def on_over(self, line: Over) -> None:
        self._forget(line.client)

    def on_ask(self, line: Ask) -> None:
        self._asked[line.client][line.path] += 1

    def on_made(self, line: Made) -> None:
        self._latest[line.client] = line

    def on_look(self, line: Look) -> None:
        self._latest[line.client] = line
        before = self._set[line.client].get(line.path)
        if before is not None:
            self.checked += 1
        if before is not None and before.changed != line.changed:
            self.found.add(
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

    def on_fired(self, line: Fired) -> None:
        self.checked += 1
        look = self._set[line.client].pop(line.path, None)
        if look is not None:
            self._gone.append(_Watch(look, self._latest[line.client], line))
        elif self._asked[line.client][line.path] > self._early[line.client][line.path]:
            self._early[line.client][line.path] += 1
        else:
            self.found.add(f"client {line.client} was told of a change of {line.path} that it does not watch", [line])

    def _forget(self, client: int) -> None:
        self._gone += [_Watch(look, self._latest[client], None) for look in self._set.pop(client, {}).values()]
        self._asked.pop(client, None)
        self._early.pop(client, None)

    # ---- with the history ----

    def at_end(self) -> None:
        for client in list(self._set):
            self._forget(client)
        for watch in self._gone:
            change = self.facts.changes.after(watch.look.path, packed(watch.look.zxid))
            if change is not None:
                self._changed(watch, *change)
            elif watch.fired is not None and self.facts.changes.upto == FOREVER:
                self.found.add(f"{_named(watch)} was told of a change, and there is none", [watch.look, watch.fired])

    def _changed(self, watch: _Watch, zxid: int, op: str) -> None:
        """The first change since a watch was set: told at all, in time, and as what it was?"""
        fired, latest, by = watch.fired, watch.latest, self.facts.effects.broadcast(zxid)
        self.checked += 1
        if packed(latest.zxid) >= zxid:
            self.found.add(
                f"{_named(watch)} was answered at {show(latest.zxid)} before it was told of the change at {show(zxid)}",
                [watch.look, by, latest, fired],
            )
        elif fired is not None and fired.what != TOLD[op]:
            self.found.add(f"{_named(watch)} was told {fired.what!r}; {show(zxid)} is a {op}", [watch.look, by, fired])


def _named(watch: _Watch) -> str:
    look = watch.look
    return f"client {look.client}, which watches {look.path} since it saw {state(look.changed)}, at {show(look.zxid)},"
