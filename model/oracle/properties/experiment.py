"""Whether the experiment itself can be believed: the faults took effect, and the traces are whole."""

from typing import Any

from zab_chaos.model.events import TRACES, Heal, Inject
from zab_chaos.model.oracle.cross_checks import disagreements
from zab_chaos.model.oracle.facts import cut_link_counters, ended_processes, tampering
from zab_chaos.model.oracle.fault_evidence import contradictions
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.verdict import Judgement


class FaultTookEffect(Checker):
    """A fault that did not happen proves nothing about those who survived it.

    Verifies that every fault's injection and, in a run that finished, its healing is on record and was confirmed; that
    nobody but the harness changed the links, as far as a comparison before each healing and at the end shows it; that every
    process which was to be killed has an exit status, wrote nothing after the fault was healed, and nothing after its
    node's next life had begun; that no frame crossed a cut link (the receiver's counters are equal at injection and at
    healing); and that all records agree on nodes, links and processes (`zab_chaos.model.oracle.fault_evidence`). Does not
    verify that unsynced bytes are gone after a power cut: that is the disk's own test.
    """

    name = "fault took effect"
    source = "zab-chaos"
    statement = "Every killed process is gone, no frame crosses a cut link, and every fault is confirmed."
    rests_on_absence = False
    if_broken = Judgement.UNKNOWN

    def on_inject(self, event: Inject) -> None:
        self.checked += 1
        if not event.confirmed:
            self.findings.add(f"fault {event.id} ({event.do}) was not confirmed", [event])
        for node, shown in ended_processes(event).items():
            self.checked += 1
            if shown["exit"] is None:
                self.findings.add(f"fault {event.id} ({event.do}): node {node} has no exit status", [event])
        self._links(event)

    def on_heal(self, event: Heal) -> None:
        self.checked += 1
        strange = tampering(event)
        for words in strange:
            self.findings.add(f"somebody else changed the links: {words}", [event])
        if not event.confirmed and not strange:
            self.findings.add(f"the healing of fault {event.id} was not confirmed", [event])
        self._links(event)

    def at_end(self) -> None:
        for event, boot in self.facts.zombies:
            self.findings.add(
                f"node {event.node}, life {event.life}, went on after life {boot.life} began", [boot, event]
            )
        for words, lines in contradictions(self.facts):
            self.findings.add(words, lines)
        heals = {heal.id: heal for heal in self.facts.heals}
        for inject in self.facts.injects:
            heal = heals.get(inject.id)
            if heal is None and self.facts.run.outcome == "finished":
                self.findings.add(f"nothing says that fault {inject.id} ({inject.do}) was healed", [inject])
            if heal is not None:  # a crash point is reached between the two, so either may have the evidence
                for node, shown in {**ended_processes(heal), **ended_processes(inject)}.items():
                    self._gone(inject, heal, node, shown)

    def _gone(self, inject: Inject, heal: Heal, node: int, shown: dict[str, Any]) -> None:
        for (owner, number), life in self.facts.lives.items():
            if owner != node or life.boot is None or life.boot.pid is None or life.boot.pid != shown.get("pid"):
                continue
            if life.boot.t <= inject.t and life.last.t > heal.t:
                self.findings.add(
                    f"fault {inject.id} ({inject.do}): node {node}, life {number} (process {life.boot.pid}), was to be "
                    f"ended_processes, but went on",
                    [inject, life.last],
                )

    def _links(self, event: Inject | Heal) -> None:
        for link in cut_link_counters(event):
            before, after = link.get("at_inject"), link.get("at_heal")
            if before is None or after is None:
                continue
            self.checked += 1
            if before != after:
                self.findings.add(
                    f"fault {event.id}: the link from node {link.get('from')} to node {link.get('to')} was cut, but its "
                    f"receiver took frames meanwhile ({before} before, {after} after)",
                    [event],
                )


class TraceIntegrity(Checker):
    """A judge can only say what the records say.

    Verifies that every line can be read, that each life's events are numbered without gaps from `boot` on, that no life is
    missing, that an incomplete last line stands only where a process was ended_processes, and that the files agree on what
    they all tell: the nodes' settings, the seed, what the workload counted, who led first and where the run converged; and
    that all lies between the run's start and its end. Does not verify that nodes write the truth, nor what no property
    looks at (votes, counters of work).
    """

    name = "trace integrity"
    source = "zab-chaos"
    statement = "Every event is present and readable. Only a killed process leaves an incomplete last line."
    if_broken = Judgement.UNKNOWN

    def at_end(self) -> None:
        self.checked = len(self.facts.lives) or len(self.facts.requests)
        for damage in self.facts.damages:
            self.findings.add(str(damage), [])
        if self.facts.run.evidence == TRACES:
            for words, lines in disagreements(self.facts):
                self.findings.add(words, lines)
