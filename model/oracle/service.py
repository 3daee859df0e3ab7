"""When each node served, under whom and for whom, and how much each life of it had to show from the start."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from zab_chaos.model.events import Boot, Client, Complete, CurrentEpoch, Established, Invoke, Phase, packed
from zab_chaos.model.oracle.facts import Facts, Request
from zab_chaos.model.oracle.spans import FOREVER, Span, common, merged

NONE = 0  # no epoch


@dataclass(slots=True)
class _Life:
    """One life of a node. `phases`: since when it was in broadcast, and the epoch, or was not; `follows`: where it became
    durable that it follows its first leader; `least`: the zxid up to which that one had delivered, once it was asked for."""

    boot: Boot
    phases: list[tuple[int, int]] = field(default_factory=list)
    follows: CurrentEpoch | None = None
    least: int | None = None

    @property
    def serves(self) -> int:
        """When it was in broadcast for the first time."""
        return next((t for t, epoch in self.phases if epoch != NONE), FOREVER)


@dataclass(frozen=True, slots=True)
class Stay:
    """A request at a node, from `start` to `end`."""

    node: int
    start: int
    end: int


class Service:
    """Told of the nodes' traces in order; asked at the end."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._visits: dict[tuple[int, int], list[tuple[int, bool]]] = {}  # by node and client: when it came, or left
        self._lives: dict[int, list[_Life]] = {}  # by node

    def boot(self, event: Boot) -> None:
        self._lives.setdefault(event.node, []).append(_Life(event))

    def phase(self, event: Phase) -> None:
        self._lives[event.node][-1].phases.append((event.t, event.epoch if event.phase == "BROADCAST" else NONE))

    def current_epoch(self, event: CurrentEpoch) -> None:
        life = self._lives[event.node][-1]
        if life.serves == FOREVER:
            life.follows = event

    def client(self, event: Client) -> None:
        self._visits.setdefault((event.node, event.client), []).append((event.t, event.state == "connected"))

    def lasted(self, invoke: Invoke, complete: Complete) -> bool:
        """Whether the node that answered was in broadcast from before the request to its answer."""
        life = self._life(invoke, complete)
        first = bisect_right(life.phases, (invoke.t, FOREVER)) - 1 if life is not None else -1
        return (
            life is not None
            and first >= 0
            and all(epoch != NONE for t, epoch in life.phases[first:] if t <= complete.t)
        )

    def had(self, request: Request) -> Stay | None:
        """When a node had a request: since its client came, until it was answered, or the one or the other gave up. None if it
        is not known of any node."""
        invoke, complete = request.invoke, request.complete
        if complete is None or complete.node is None:
            return None
        visits = self._visits.get((complete.node, invoke.client), [])
        last = bisect_left(visits, (complete.t, False)) - 1
        while last >= 0 and not visits[last][1]:
            last -= 1
        if last < 0:
            return None
        left = [t for t, came in visits[last + 1 : last + 2] if not came]
        return Stay(complete.node, max(visits[last][0], invoke.t), min([complete.t, *left]))

    def led(self, node: int) -> Iterator[tuple[int, list[Span]]]:
        """Under whom a node was in broadcast, and when that one was so, too."""
        leaders = {event.epoch: event.node for event in self._facts.established}
        for epoch, span in self._epochs(node):
            if epoch in leaders:
                yield (
                    leaders[epoch],
                    common([span], [led for other, led in self._epochs(leaders[epoch]) if other == epoch]),
                )

    def leading(self) -> list[Span]:
        """When some established leader was in broadcast."""
        spans = [
            span
            for event in self._facts.established
            for epoch, span in self._epochs(event.node)
            if epoch == event.epoch
        ]
        return merged(spans)

    def _epochs(self, node: int) -> Iterator[tuple[int, Span]]:
        for life in self._lives.get(node, []):
            end = self._facts.lives[node, life.boot.life].last.t
            for (start, epoch), (until, _) in pairwise([*life.phases, (end, NONE)]):
                if epoch != NONE:
                    yield epoch, (start, until)

    def least(self, invoke: Invoke, complete: Complete) -> int | None:
        """The zxid up to which the node that answered must have delivered, for the life that it is in: its first leader had
        delivered so much when it joined. 0 if that is not known, or it is not known which life has answered; None if that
        life had not joined a leader yet."""
        life = self._life(invoke, complete)
        if life is None:
            return 0
        if life.serves > complete.t:
            return None
        if life.least is None:
            life.least = max((self._delivered(it, life.follows) for it in self._facts.established), default=0)
        return life.least

    def _life(self, invoke: Invoke, complete: Complete) -> _Life | None:
        """The life that answered, if no other one can have."""
        lives = self._lives.get(complete.node or 0, [])
        place = bisect_right(lives, complete.t, key=lambda life: life.boot.t) - 1
        return lives[place] if place >= 0 and lives[place].boot.t <= invoke.t else None

    def _delivered(self, leader: Established, joined: CurrentEpoch | None) -> int:
        """What a leader had delivered when it took in a node, if it did: at least the history with which it was established."""
        if joined is None or joined.epoch != leader.epoch:
            return 0
        return max(packed(leader.last_zxid), self._facts.nodes[leader.node].delivered_before(joined.t))
