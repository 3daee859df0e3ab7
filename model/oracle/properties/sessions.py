"""What ZooKeeper promises to the holder of a session: its ephemeral znodes and its watches (programmer's guide).

Judged by sessions.jsonl: what clients with sessions were told, in the order in which their connections carried it, and, from
the servers' logs, at which zxid each session ended.
"""

from collections import Counter, defaultdict

from zab_chaos.model.events import Ask, Began, Ended, Fired, Look, Lost, Made, Over, packed
from zab_chaos.model.oracle.evidence import named, show
from zab_chaos.model.oracle.facts import Facts
from zab_chaos.model.oracle.properties.checker import Checker

GUIDE = "ZooKeeper programmer's guide"


class Ephemerals(Checker):
    """ZooKeeper programmer's guide, "Ephemeral Nodes": they exist as long as the session that created them is active.

    Verifies of every read of an ephemeral znode that it was there from the zxid of its creation to the zxid at which its
    session ended, at whichever server, and neither before nor after; and that no server has one in the end whose client has
    closed its session, or was silent for much longer than the session's timeout. Nobody but the end of the session deletes
    these znodes. Does not verify how soon a silent session ends.
    """

    name = "ephemerals"
    source = GUIDE
    statement = "An ephemeral znode is there as long as the session that made it, at every server alike, and no longer."

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._made: dict[str, Made] = {}
        self._ended: dict[int, Ended] = {}
        self._over: dict[int, Over] = {}
        self._looks: list[Look] = []

    def on_made(self, line: Made) -> None:
        self._made[line.path] = line

    def on_ended(self, line: Ended) -> None:
        self._ended.setdefault(line.session, line)

    def on_over(self, line: Over) -> None:
        self._over[line.session] = line

    def on_look(self, line: Look) -> None:
        if line.owner or line.changed is None:
            self._looks.append(line)

    def at_end(self) -> None:
        for look in self._looks:
            if look.changed is not None:
                self._present(look)
            elif look.path in self._made:
                self._absent(look, self._made[look.path])

    def _present(self, look: Look) -> None:
        """It is there: its session made it, and has not ended."""
        self.checked += 1
        owner = look.owner or 0
        made, ended, over = self._made.get(look.path), self._ended.get(owner), self._over.get(owner)
        where = f"{look.path} is there at {named([look.node])}, at {show(look.zxid)}"
        if made is not None and made.session != owner:
            self.found.add(f"{where}, as session {owner:#x}'s; session {made.session:#x} has made it", [made, look])
        elif ended is not None and packed(look.zxid) >= packed(ended.zxid):
            self.found.add(f"{where}, although its session {owner:#x} ended at {show(ended.zxid)}", [ended, look])
        elif look.last and over is not None:
            self.found.add(f"{where}, in the end, although its client's session {owner:#x} was over", [over, look])

    def _absent(self, look: Look, made: Made) -> None:
        """It is not there: not made yet, or its session has ended."""
        self.checked += 1
        ended, at = self._ended.get(made.session), packed(look.zxid)
        if packed(made.zxid) <= at and (ended is None or at < packed(ended.zxid)):
            why = f"which ended at {show(ended.zxid)}" if ended is not None else "which no log has ended"
            self.found.add(
                f"{look.path} is gone at {named([look.node])}, at {show(look.zxid)}; it was made at {show(made.zxid)} by "
                f"session {made.session:#x}, {why}",
                [made, look, ended],
            )


class Watches(Checker):
    """ZooKeeper programmer's guide, "What ZooKeeper Guarantees about Watches".

    Verifies that a server tells of a change only to whom has set a watch since it was told the last time ("one-time
    trigger"), and that a client sees no other state of a znode than the one at which it has set its watch before it is told
    ("a client will see a watch event for a znode it is watching before seeing the new data"). A watch goes with its
    connection: what a client misses while it is not connected is not promised. Does not verify that a change of which the
    client sees nothing is told at all.
    """

    name = "watches"
    source = GUIDE
    statement = "A watch fires at most once, and its client is told of the change before it sees it."

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._set: dict[int, dict[str, Look]] = defaultdict(dict)  # by client and path: what it saw
        self._asked: dict[int, Counter[str]] = defaultdict(Counter)  # reads on their way that set a watch
        self._early: dict[int, Counter[str]] = defaultdict(
            Counter
        )  # of these, whose watch has fired before they came back

    def on_began(self, line: Began) -> None:
        self._forget(line.client)

    def on_lost(self, line: Lost) -> None:
        self._forget(line.client)

    def on_over(self, line: Over) -> None:
        self._forget(line.client)

    def on_ask(self, line: Ask) -> None:
        self._asked[line.client][line.path] += 1

    def on_look(self, line: Look) -> None:
        before = self._set[line.client].get(line.path)
        if before is not None:
            self.checked += 1
        if before is not None and before.changed != line.changed:
            self.found.add(
                f"client {line.client} saw {_state(line)} before it was told of a change; it watches {line.path} since it has "
                f"seen {_state(before)}",
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
        if self._set[line.client].pop(line.path, None) is not None:
            return
        if self._asked[line.client][line.path] > self._early[line.client][line.path]:
            self._early[line.client][line.path] += 1
        else:
            self.found.add(f"client {line.client} was told of a change of {line.path} that it does not watch", [line])

    def _forget(self, client: int) -> None:
        self._set.pop(client, None)
        self._asked.pop(client, None)
        self._early.pop(client, None)


def _state(look: Look) -> str:
    return "that there is none" if look.changed is None else f"the state of {show(look.changed)}"
