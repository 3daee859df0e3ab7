"""Collects what is drawn of a transcript: messages, events and states of nodes, each with a moment.

A transcript has no time. Each of its lines counts as one moment. A message is sent at the moment of the line before it at its
sender.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from zab_chaos.model.transcripts.disk import recover
from zab_chaos.model.transcripts.scripted_ensemble import ScriptedEnsemble
from zab_chaos.node.core.messages import Message, Ping
from zab_chaos.node.core.ready import Deliver, Event, Install


class Arrow(NamedTuple):
    """A message from node to node. `sent`, `received`: moments; `received` is None if the message is lost."""

    source: int
    target: int
    message: Message
    sent: int
    received: int | None


class NodeEvent(NamedTuple):
    """An event of a node's trace, or a delivery, at the moment `at`."""

    at: int
    node: int
    event: str
    fields: dict[str, Any]


class NodeState(NamedTuple):
    """The state of a node from moment `at` on. The role is empty while the node is down."""

    at: int
    node: int
    role: str
    phase: str
    epoch: int


class DrawnEnsemble(ScriptedEnsemble):
    """Executes a transcript as `ScriptedEnsemble` does, and records what is to be drawn. `quietly` leaves nothing to draw."""

    def __init__(self, nodes: int, **settings: int) -> None:
        super().__init__(nodes, **settings)
        self.clock = 0
        self.arrows: list[Arrow] = []
        self.events: list[NodeEvent] = []
        self.states: list[NodeState] = []
        self.steps: list[tuple[int, str]] = []
        self._departures: dict[tuple[int, int, int], deque[int]] = defaultdict(deque)

    def on_step(self, step: str) -> None:
        self.steps.append((self.clock, step))
        self.clock += 1

    def quietly(self, act: Callable[[], None]) -> None:
        arrows, events, states, clock = len(self.arrows), len(self.events), len(self.states), self.clock
        super().quietly(act)
        del self.arrows[arrows:], self.events[events:]
        self.states[states:] = [state._replace(at=clock) for state in self.states[states:]]
        self.clock = clock

    def start(self, *ids: int) -> None:
        for i in ids:
            disk = self.nodes[i]
            epoch = recover(disk.disk, disk.snapshot, disk.amnesiac).accepted_epoch
            self.states.append(NodeState(self.clock, i, "LOOKING", "ELECTION", epoch))
        super().start(*ids)

    def crash(self, *ids: int) -> None:
        self.clock += 1
        for i in ids:
            self.states.append(NodeState(self.clock, i, "", "", 0))
        super().crash(*ids)

    def send(self, i: int, messages: Iterable[tuple[int, Message]]) -> None:
        for other, message in messages:
            if (i, other) in self.session:
                self._departures[i, other, id(message)].append(self.clock)
            super().send(i, [(other, message)])

    def deliver_next(self, source: int, target: int) -> bool:
        queue = self.queues[source, target]
        head = queue[0] if queue else None
        received = head is not None and self.session.get((target, source)) == head[0]
        moved = super().deliver_next(source, target)
        if moved and head is not None:
            self._add_arrow(source, target, head[1], received=received)
        return moved

    def log_lost(self, source: int, target: int, message: Message) -> None:
        super().log_lost(source, target, message)
        self._add_arrow(source, target, message, received=False)

    def _add_arrow(self, source: int, target: int, message: Message, *, received: bool) -> None:
        sent = min(self._departures[source, target, id(message)].popleft(), self.clock)
        if not isinstance(message, Ping):
            self.clock += 1
            self.arrows.append(Arrow(source, target, message, sent, self.clock if received else None))

    def log_events(self, i: int, events: Iterable[Event]) -> None:
        for event in events:
            self._add_event(i, event.name, event.fields)
            super().log_events(i, [event])
            if event.name in ("role", "phase"):
                self._add_state(i, event.fields)

    def _add_state(self, i: int, fields: dict[str, Any]) -> None:
        """Record the node's state after a `role` or `phase` event, unless it is the same as before."""
        before = next(state for state in reversed(self.states) if state.node == i)
        peer = self.peer(i)
        now = NodeState(self.clock, i, peer.role.name, peer.phase.name, fields.get("epoch", before.epoch))
        if now[2:] != before[2:]:
            self.states.append(now)

    def apply(self, i: int, delivery: Deliver | Install) -> None:
        last = delivery.zxid if isinstance(delivery, Install) else delivery.first + len(delivery.txns) - 1
        first = 1 if isinstance(delivery, Install) else delivery.first
        self._add_event(i, "restored" if isinstance(delivery, Install) else "deliver", {"from": first, "to": last})
        super().apply(i, delivery)

    def _add_event(self, i: int, event: str, fields: dict[str, Any]) -> None:
        self.clock += 1
        self.events.append(NodeEvent(self.clock, i, event, fields))
