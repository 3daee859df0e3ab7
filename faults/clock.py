"""Clock faults: a node's clock runs at another rate, or jumps. Zab's safety does not depend on clocks."""

from typing import Any

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.kind import Confirmation, Fault, Key, Kind, Momentary
from zab_chaos.faults.process import named
from zab_chaos.faults.rules import number, whole


class ClockRate(Fault):
    """The node's clock runs faster or slower; healed by rate 1."""

    def inject(self) -> None:
        self.answers = {str(n): self.cluster.control(n, "clock-rate", rate=self.params["rate"]) for n in self.nodes}

    def injected(self) -> Confirmation:
        return Confirmation(len(self.answers) == len(self.nodes), {"answers": self.answers})

    def heal(self) -> None:
        self.healed = [node for node in self.nodes if self.cluster.alive(node)]  # a new life has a right clock
        for node in self.healed:
            self.cluster.control(node, "clock-rate", rate=1.0)

    def recovered(self) -> Confirmation:
        return Confirmation(True, {"healed": self.healed})

    def describe(self) -> str:
        return f"{named(self.nodes)}: clock at {self.params['rate']:g}x"


class ClockJump(Momentary):
    """The node's clock jumps forward once: all its timeouts see that much silence."""

    def inject(self) -> None:
        self.answers: dict[str, Any] = {
            str(node): self.cluster.control(node, "clock-jump", ms=self.params["ms"]) for node in self.nodes
        }

    def injected(self) -> Confirmation:
        return Confirmation(len(self.answers) == len(self.nodes), {"answers": self.answers})

    def describe(self) -> str:
        return f"{named(self.nodes)}: clock jumped {self.params['ms']} ms"


KINDS = (
    Kind(
        name="clock-rate",
        doc="make the node's clock run faster or slower",
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
        keys=(Key(name="ms", rule=whole(1, 600_000, "milliseconds"), doc="how far"),),
        heals=False,
        impairs=False,
        draw=lambda random: {"ms": random.randrange(50, 2000)},
    ),
)
