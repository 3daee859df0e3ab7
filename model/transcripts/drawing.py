"""A transcript as it is drawn: what went from where to where, and what happened at whom, one moment after the other.

There is no time in a transcript. Each thing that it tells is a moment of its own; a message leaves at the moment at which its
sender had done what comes before it.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from zab_chaos.model.transcripts.lockstep import Lockstep
from zab_chaos.node.core.messages import Message, Ping
from zab_chaos.node.core.ready import Deliver, Event, Install


class Arrow(NamedTuple):
    """`received` None: lost."""

    source: int
    target: int
    message: Message
    sent: int
    received: int | None


class Done(NamedTuple):
    """Something that a node did: an event of its trace."""

    at: int
    node: int
    event: str
    fields: dict[str, Any]


class State(NamedTuple):
    """What a node is from `at` on; an empty role: down."""

    at: int
    node: int
    role: str
    phase: str
    epoch: int


class Drawn(Lockstep):
    """Performs a transcript as `Lockstep` does, and keeps what is to be drawn. What is done quietly is not."""

    def __init__(self, nodes: int, **settings: int) -> None:
        super().__init__(nodes, **settings)
        self.clock = 0
        self.arrows: list[Arrow] = []
        self.done: list[Done] = []
        self.states: list[State] = []
        self.steps: list[tuple[int, str]] = []
        self._departures: dict[tuple[int, int, int], deque[int]] = defaultdict(deque)

    def begins(self, step: str) -> None:
        self.steps.append((self.clock, step))
        self.clock += 1

    def quietly(self, act: Callable[[], None]) -> None:
        arrows, done, states, clock = len(self.arrows), len(self.done), len(self.states), self.clock
        super().quietly(act)
        del self.arrows[arrows:], self.done[done:]
        self.states[states:] = [state._replace(at=clock) for state in self.states[states:]]
        self.clock = clock

    def start(self, *ids: int) -> None:
        for i in ids:
            self.states.append(State(self.clock, i, "LOOKING", "ELECTION", 0))
        super().start(*ids)

    def crash(self, *ids: int) -> None:
        self.clock += 1
        for i in ids:
            self.states.append(State(self.clock, i, "", "", 0))
        super().crash(*ids)

    def send(self, i: int, messages: Iterable[tuple[int, Message]]) -> None:
        for other, message in messages:
            if (i, other) in self.session:
                self._departures[i, other, id(message)].append(self.clock)
            super().send(i, [(other, message)])

    def arrive(self, source: int, target: int) -> bool:
        queue = self.queues[source, target]
        head = queue[0] if queue else None
        taken = head is not None and self.session.get((target, source)) == head[0]
        moved = super().arrive(source, target)
        if moved and head is not None:
            self._arrow(source, target, head[1], taken=taken)
        return moved

    def lost(self, source: int, target: int, message: Message) -> None:
        super().lost(source, target, message)
        self._arrow(source, target, message, taken=False)

    def _arrow(self, source: int, target: int, message: Message, *, taken: bool) -> None:
        sent = min(self._departures[source, target, id(message)].popleft(), self.clock)
        if not isinstance(message, Ping):
            self.clock += 1
            self.arrows.append(Arrow(source, target, message, sent, self.clock if taken else None))

    def tell_events(self, i: int, events: Iterable[Event]) -> None:
        for event in events:
            self._happened(i, event.name, event.fields)
            super().tell_events(i, [event])
            if event.name in ("role", "phase"):
                self._is_now(i, event.fields)

    def _is_now(self, i: int, fields: dict[str, Any]) -> None:
        """After a `role` or a `phase`, if that makes a difference: role and phase change one after the other."""
        before = next(state for state in reversed(self.states) if state.node == i)
        peer = self.peer(i)
        now = State(self.clock, i, peer.role.name, peer.phase.name, fields.get("epoch", before.epoch))
        if now[2:] != before[2:]:
            self.states.append(now)

    def apply(self, i: int, delivery: Deliver | Install) -> None:
        last = delivery.zxid if isinstance(delivery, Install) else delivery.first + len(delivery.txns) - 1
        first = 1 if isinstance(delivery, Install) else delivery.first
        self._happened(i, "restored" if isinstance(delivery, Install) else "deliver", {"from": first, "to": last})
        super().apply(i, delivery)

    def _happened(self, i: int, event: str, fields: dict[str, Any]) -> None:
        self.clock += 1
        self.done.append(Done(self.clock, i, event, fields))
