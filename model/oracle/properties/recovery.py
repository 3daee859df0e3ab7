"""The checker of liveness after healing (LADIS 2008, section 2: recovery)."""

from zab_chaos.model.events import Exit, Link, Milestone, Role, Vote
from zab_chaos.model.oracle.evidence import ending
from zab_chaos.model.oracle.facts import WRITES, Facts
from zab_chaos.model.oracle.measures import longest_pause
from zab_chaos.model.oracle.properties.checker import Checker


class Recovery(Checker):
    """LADIS 2008: as long as a quorum is up and connected, the service comes back and goes on.

    Verifies that all nodes converged after `safety-ended`, within `converges_within` if the scenario expects it, and that
    writes were never unavailable for longer than `unavailable_at_most`, if it expects that. If the nodes were left alone
    afterwards, none left an established leader, and they held nothing of the clients, which were gone. A run in which a node
    refuses a damaged disk to the end is not judged. Does not verify that the nodes converged on the right history; the safety
    properties do.
    """

    name = "recovery"
    source = "LADIS 2008"
    statement = "After healing, all nodes converge within the expected time, and stay so while they are left alone."
    liveness = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._left: list[Role] = []  # nodes that left an established leader
        # By node: its last role, its last vote, and the last event of its sessions with other nodes.
        self._last: dict[int, dict[type, Role | Vote | Link]] = {}

    def _remember(self, event: Link | Vote | Role) -> None:
        self._last.setdefault(event.node, {})[type(event)] = event

    on_link = on_vote = _remember

    def on_role(self, event: Role) -> None:
        self._remember(event)
        if event.role == "LOOKING" and self.facts.nodes[event.node].phase == "BROADCAST":
            self._left.append(event)

    def at_end(self) -> None:
        if self.facts.beyond_fault_model():
            self.not_applicable = "a quorum of disks was lost"
            return
        self._check_unavailability()
        begin, settled = self.facts.milestones.get("safety-ended"), self.facts.settled()
        if begin is None or settled is None:
            self.unknown.append(self.facts.why_unsettled())
            return
        self.checked += 1
        refused = self.facts.refused_disks()
        if settled.event == "not-converged" and refused:
            self.unknown += [
                f"node {node} refuses its disk, which fault {inject.id} ({inject.do}) has damaged and nothing has replaced: "
                f"it is not known whether the nodes would have recovered"
                for node, inject in refused.items()
            ]
            return
        if settled.event == "not-converged":
            why = f": {settled.why}" if settled.why else ""
            ended = self._ended_since(begin)
            codes = "".join(f"; {ending(it.node, it.code)}" for it in ended)
            self.findings.add(
                f"the nodes did not converge after everything was healed{why}{codes}",
                [*self._stuck(), begin, *ended, settled, *self._unforced_exits()],
            )
            return
        took, bound = self.facts.convergence_seconds(), self.expected("converges_within")
        if bound is not None and took is not None and took > bound:
            self.findings.add(
                f"the nodes converged {took:.3f} s after everything was healed; {bound:g} s were expected",
                [begin, settled],
            )
        self._check_left_alone()

    def _stuck(self) -> list[Role | Vote | Link]:
        """Return what each node did last that is not in broadcast: its role, its vote, and its sessions with other nodes."""
        stuck = [node.id for node in self.facts.up_at_end() if node.phase != "BROADCAST"]
        return sorted(
            (event for node in stuck for event in self._last.get(node, {}).values()), key=lambda event: event.t
        )

    def _unforced_exits(self) -> list[Exit]:
        """Return the exits of the nodes that ended by themselves and were not started again."""
        up = self.facts.up_at_end()
        return [node.exit for node in self.facts.nodes.values() if node.exit is not None and node not in up]

    def _ended_since(self, begin: Milestone) -> list[Milestone]:
        """Return the ends by themselves of nodes that leave no traces, since everything was healed: the last of each node."""
        if not self.facts.run.foreign:
            return []
        return list({ended.node: ended for ended in self.facts.ended.values() if ended.t > begin.t}.values())

    def _check_left_alone(self) -> None:
        """Check that every node keeps its leader while the nodes are left alone, and is at rest in the end."""
        alone = self.facts.milestones.get("left-alone")
        if alone is None or alone.seconds is None:
            return
        self.checked += 1
        begin = alone.t - int(alone.seconds * 1e9)
        if alone.why:
            self.findings.add(f"the nodes were not at rest, though all clients were gone: {alone.why}", [alone])
        for event in self._left:
            if begin < event.t < alone.t:
                after = (event.t - begin) / 1e9
                self.findings.add(f"node {event.node} left its leader, {after:.3f} s after all was quiet", [event])

    def _check_unavailability(self) -> None:
        bound = self.expected("unavailable_at_most")
        if bound is None:
            return
        self.checked += 1
        begin, end = longest_pause(self.facts)
        longest = (end - begin) / 1e9
        if longest > bound:
            answers = (request.complete for request in self.facts.requests.values() if request.invoke.op in WRITES)
            around = [answer for answer in answers if answer is not None and answer.t in (begin, end)]
            self.findings.add(f"no write was served for {longest:.3f} s; at most {bound:g} s were expected", around)
