"""Liveness, after healing (LADIS 2008, section 2: recovery)."""

from zab_chaos.model.events import Milestone, Role
from zab_chaos.model.oracle.facts import Facts
from zab_chaos.model.oracle.measures import longest_unavailability, seconds
from zab_chaos.model.oracle.properties.checker import Checker


class Recovery(Checker):
    """LADIS 2008: as long as a quorum is up and connected, the service comes back and goes on.

    Verifies that after `safety-ended` all nodes converged, within `converges_within` if the scenario expects it, and
    that writes were never unavailable for longer than `unavailable_at_most`, if it expects that. Where the nodes were left
    alone after that, none looked for a leader again. Does not verify that they converged on the right history; the safety
    properties do.
    """

    name = "recovery"
    source = "LADIS 2008"
    statement = "After healing, all nodes converge within the expected time, and stay so while they are left alone."
    liveness = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._looks: list[Role] = []  # when a node looked for a leader

    def on_role(self, event: Role) -> None:
        if event.role == "LOOKING":
            self._looks.append(event)

    def at_end(self) -> None:
        if self.facts.beyond_fault_model():
            self.not_applicable = "a quorum of disks was lost"
            return
        self._unavailability()
        begin, settled = self.facts.milestones.get("safety-ended"), self.facts.settled()
        if begin is None or settled is None:
            missing = "safety-ended" if begin is None else "converged or not-converged"
            self.unknown.append(f"harness.jsonl has no `{missing}`: it is not known whether the nodes recovered")
            return
        self.checked += 1
        if settled.event == "not-converged":
            self.found.add("the nodes did not converge after everything was healed", [begin, settled])
            return
        took, bound = (settled.t - begin.t) / 1e9, self._bound("converges_within")
        if bound is not None and took > bound:
            self.found.add(
                f"the nodes converged {took:.3f} s after everything was healed; {bound:g} s were expected",
                [begin, settled],
            )
        if (alone := self.facts.milestones.get("left-alone")) is not None:
            self._stay(settled, alone)

    def _stay(self, converged: Milestone, alone: Milestone) -> None:
        """Whoever has a leader keeps it while nothing happens."""
        self.checked += 1
        left = [event for event in self._looks if converged.t < event.t < alone.t]
        for event in left:
            after = (event.t - converged.t) / 1e9
            self.found.add(
                f"node {event.node} looked for a leader again {after:.3f} s after the nodes had converged, and nothing had "
                "happened to them",
                [converged, event],
            )

    def _unavailability(self) -> None:
        bound = self._bound("unavailable_at_most")
        if bound is None:
            return
        self.checked += 1
        longest = longest_unavailability(self.facts)
        if longest > bound:
            self.found.add(f"no write succeeded for {longest:.3f} s; at most {bound:g} s were expected", [])

    def _bound(self, name: str) -> float | None:
        value = self.facts.run.expect.get(name)
        if value is None:
            return None
        try:
            return seconds(value)
        except ValueError as error:
            self.unknown.append(f"run.json, expect.{name}: {error}")
            return None
