"""Clock faults: a node's clock runs at another rate, or jumps. Zab's safety does not depend on clocks."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.cluster import Cluster
from zab_chaos.faults.kind import Confirmation, Fault, Key, Kind, Momentary, consecutive_answers
from zab_chaos.faults.process import (
    command_all,
    command_if_up,
    command_unless_paused,
    confirm_answers,
    ended_by,
    node_names,
)
from zab_chaos.faults.rules import integer, number

NANO = 1_000_000_000
SendCommand = Callable[[Cluster, int, str, Mapping[str, Any]], dict[str, Any] | None]
# Nanoseconds by which a measured time may be off: two readings of each clock are rounded, and the rate is at most 2.
ROUNDING = 4


class _Reading(NamedTuple):
    """A node's answer, and two times of the host between which it was given, in nanoseconds."""

    answer: dict[str, Any]
    earliest: int
    latest: int


class ClockRate(Fault):
    """A clock that runs faster or slower, also in the next lives; healed by rate 1. Of two on one node the later one counts.

    The clock readings in the node's two answers must show the rate.
    """

    def inject(self) -> None:
        self.begun: dict[int, _Reading] = {}
        self.lifted: dict[int, _Reading] = {}
        self.pids: dict[int, int | None] = {}
        self._begin(self.nodes)

    def on_healed(self, other: Fault) -> None:
        """Set the rate again where it has been lost. The clocks are read from then on."""
        self._begin(ended_by(other, self, self.pids))

    def _begin(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            self.begun.pop(node, None)
            self._set_rate(command_unless_paused, node, self.params["rate"], self.begun)
            if node in self.begun:
                self.pids[node] = self.cluster.pid(node)

    def _set_rate(self, send: SendCommand, node: int, rate: float, readings: dict[int, _Reading]) -> None:
        """Set a node's clock rate, and keep the first reading. Do nothing if the node can't take commands any more."""
        asked = self._now()
        answer = send(self.cluster, node, "clock-rate", {"rate": rate})
        if answer is not None:
            readings.setdefault(node, _Reading(answer, asked, self._now()))

    def _now(self) -> int:
        return round(self.context.host.now() * NANO)

    def injected(self) -> Confirmation:
        return confirm_answers(self.context, self.nodes, {node: reading.answer for node, reading in self.begun.items()})

    def heal(self) -> None:
        for node in self.nodes:
            if self.cluster.alive(node):
                self._set_rate(command_if_up, node, 1.0, self.lifted)

    def recovered(self) -> Confirmation:
        passed = {node: self._passed(node) for node in self.lifted if self._comparable(node)}
        shown = all(self._rate_was_in_effect(**times) for times in passed.values())
        evidence = {"healed": list(self.lifted), "passed": {str(node): times for node, times in passed.items()}}
        return Confirmation(shown, evidence)

    def _comparable(self, node: int) -> bool:
        return node in self.begun and consecutive_answers(self.begun[node].answer, self.lifted[node].answer)

    def _passed(self, node: int) -> dict[str, int]:
        """Return the nanoseconds between the two answers: by the node's clock, and at least and at most by the host's."""
        begun, lifted = self.begun[node], self.lifted[node]
        return {
            "shown": lifted.answer["clock_ns"] - begun.answer["clock_ns"],
            "least": lifted.earliest - begun.latest,
            "most": lifted.latest - begun.earliest,
        }

    def _rate_was_in_effect(self, shown: int, least: int, most: int) -> bool:
        rate: float = self.params["rate"]
        return rate * least - ROUNDING <= shown <= rate * most + ROUNDING

    def describe(self) -> str:
        return f"{node_names(self.nodes)}: clock at {self.params['rate']:g}x"


class ClockJump(Momentary):
    """A clock that jumps forward once, which all timeouts of the node see as silence. The clock readings must show it."""

    def inject(self) -> None:
        self.answers = command_all(self.cluster, self.nodes, "clock-jump", {"ms": self.params["ms"]})

    def injected(self) -> Confirmation:
        answered = confirm_answers(self.context, self.nodes, self.answers)
        return Confirmation(answered.confirmed and all(map(self._jumped, self.answers.values())), answered.evidence)

    def _jumped(self, answer: dict[str, Any]) -> bool:
        """Return whether the node's clock readings before and after show the jump; True if the answer has no reading."""
        if "clock_ns" not in answer:
            return True
        return bool(answer["clock_ns"] - answer["before_ns"] >= self.params["ms"] * 1_000_000)

    def describe(self) -> str:
        return f"{node_names(self.nodes)}: clock jumped {self.params['ms']} ms"


KINDS = (
    Kind(
        name="clock-rate",
        doc="make the node's clock run faster or slower, also after a restart",
        make=ClockRate,
        needs=frozenset({Ability.CLOCKS}),
        keys=(Key(name="rate", rule=number(0.5, 2.0, "times real time"), doc="the speed; 2 is twice as fast"),),
        impairs=False,
        draw=lambda random: {"rate": random.choice((0.5, 0.75, 1.25, 1.5, 2.0))},
    ),
    Kind(
        name="clock-jump",
        doc="make the node's clock jump forward once",
        make=ClockJump,
        needs=frozenset({Ability.CLOCKS}),
        keys=(Key(name="ms", rule=integer(1, 600_000, "milliseconds"), doc="how far"),),
        heals=False,
        impairs=False,
        draw=lambda random: {"ms": random.randrange(50, 2000)},
    ),
)
