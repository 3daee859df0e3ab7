"""The checkers of the experiment itself: the faults took effect, and the records are complete."""

from itertools import pairwise
from signal import SIGKILL
from typing import Any

from zab_chaos.model.events import TRACES, Boot, Heal, Inject, Milestone
from zab_chaos.model.oracle.cross_checks import disagreements
from zab_chaos.model.oracle.evidence import node_names
from zab_chaos.model.oracle.facts import STOPS, Life, cut_link_counters, ended_processes, evidence_of, tampering
from zab_chaos.model.oracle.fault_evidence import contradictions
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.verdict import Judgement


class FaultTookEffect(Checker):
    """A fault that did not happen proves nothing about the nodes that survived it.

    Verifies:

    - The injection of every fault is on record and was confirmed, and so, in a run that finished, was its healing.
    - Nothing but the harness changed the links, as far as the comparison before each healing and at the end shows it, nor the
      disk of a server that was down, as far as the harness reads disks. Damage that a fault did to such a disk is still there
      at the next start.
    - Every process that was to be killed has an exit status, and wrote nothing after the fault was healed, nor after
      the next life of its node had begun. A node that was paused delivered nothing for a quarter of that time, and
      was not awake before it was healed, unless another fault had hit it. A disk
      that a fault took is not found again. No node answered a request that was sent when its process had ended.
    - No frame crossed a cut link: the counters of its receiver, or of its proxies, are equal at injection and at healing.
    - No node ended by itself, except with a disk that a fault let fail. (A failed check of its own and a disk that it refuses
      as damaged are judged by sanity and disk.)
    - All records agree on nodes, links and processes (`zab_chaos.model.oracle.fault_evidence`), also on faults inside nodes
      and on crash points: each was armed, whether or not it had to be reached.

    Does not verify that unsynced bytes are gone after a power cut: the disk's own tests do.
    """

    name = "fault took effect"
    source = "zab-chaos"
    statement = "Every killed process is gone, no frame crosses a cut link, and every fault is confirmed."
    rests_on_absence = False
    if_broken = Judgement.UNKNOWN

    def on_inject(self, event: Inject) -> None:
        self.checked += 1
        if not event.confirmed:
            self.findings.add(f"fault {event.id} ({event.do}) was not confirmed{_why(event)}", [event])
        for node, shown in ended_processes(event).items():
            self.checked += 1
            if shown["exit"] is None:
                self.findings.add(f"fault {event.id} ({event.do}): node {node} has no exit status", [event])
        self._check_cut_links(event)

    def on_heal(self, event: Heal) -> None:
        self.checked += 1
        changes = tampering(event)
        for words in changes:
            self.findings.add(f"somebody else changed the links: {words}", [event])
        if event.id == 0 and not changes:
            failed = "; ".join(f"{where}: {error}" for where, error in evidence_of(event).items())
            self.findings.add(f"the final healing failed: {failed}", [event])
        elif not event.confirmed and not changes:
            inject = next((it for it in self.facts.injects if it.id == event.id), None)
            self.findings.add(f"{_not_healed(event, inject)}{_why(event)}", [event])
        self._check_cut_links(event)

    def at_end(self) -> None:
        for event, boot in self.facts.zombies:
            self.findings.add(
                f"node {event.node}, life {event.life}, went on after life {boot.life} began", [boot, event]
            )
        for each in self.facts.nodes.values():
            boots = each.boots
            for old, new in pairwise(boots[:1] + boots):
                self._check_disk(old, new)
        for key, started in self.facts.releases.items():
            life = self.facts.lives.get(key)
            self._check_release(started, life.boot if life is not None else None)
        for words, lines in contradictions(self.facts):
            self.findings.add(words, lines)
        heals = {heal.id: heal for heal in self.facts.heals}
        processes: dict[tuple[int, Any], list[Life]] = {}  # by node and pid, which may be that of several lives
        for (node, _), life in self.facts.lives.items():
            if life.boot is not None and life.boot.pid is not None:
                processes.setdefault((node, life.boot.pid), []).append(life)
        for inject in self.facts.injects:
            heal = heals.get(inject.id)
            if heal is None and inject.confirmed and self.facts.run.outcome == "finished":
                self.findings.add(f"nothing says that fault {inject.id} ({inject.do}) was healed", [inject])
            if heal is not None:  # a crash point is reached between the two, so either can have the evidence
                for node, shown in {**ended_processes(heal), **ended_processes(inject)}.items():
                    self._check_killed(inject, heal, processes.get((node, shown.get("pid")), []))

    def _check_disk(self, old: Boot, new: Boot) -> None:
        """Check that faults alone changed what the life before `new` had left on its disk. `old`: the boot before, if any."""
        if new.as_left is False and not (self.facts.disk_damaged(old, new) or self.facts.power_cut(old, new)):
            words = f"somebody else changed the disk of node {new.node} before its life {new.life}"
            self.findings.add(f"{words}: the life before had left something else there", [new])
        damages = self.facts.file_damages(old, new)
        if new.as_left and damages:
            words = f"a fault damaged the disk of node {new.node}, and its life {new.life} started with what there was before"
            self.findings.add(words, [old, *damages, new])
        takers = self.facts.disk_takers(old, new)
        if self.facts.run.evidence == TRACES and takers and not new.found_nothing:
            words = f"a fault took the disk of node {new.node}, and its life {new.life} started with what was there"
            self.findings.add(words, [old, *takers, new])

    def _check_release(self, started: Milestone, boot: Boot | None) -> None:
        """Compare the version with which a life was started with what the node itself says. A build has no such name."""
        said, version = boot.release if boot is not None else None, started.release or ""
        if version[:1].isdigit() and said is not None and not said.startswith(version):
            words = f"node {started.node}, life {started.life}, was started with release {version}, and says that it is {said}"
            self.findings.add(words, [started, boot])

    def _check_killed(self, inject: Inject, heal: Heal, lives: list[Life]) -> None:
        for life in lives:
            boot = life.boot
            if boot is not None and boot.t <= inject.t and life.last.t > heal.t:
                self.findings.add(
                    f"fault {inject.id} ({inject.do}): node {boot.node}, life {boot.life} (process {boot.pid}), was to be "
                    f"killed, but went on",
                    [inject, life.last],
                )

    def _check_cut_links(self, event: Inject | Heal) -> None:
        for link in cut_link_counters(event):
            before, after = link.get("at_inject"), link.get("at_heal")
            if before is None or after is None:
                continue
            self.checked += 1
            if before != after:
                passed = "bytes passed its proxies" if "sent" in link else "its receiver took frames"
                self.findings.add(
                    f"fault {event.id}: the link from node {link.get('from')} to node {link.get('to')} was cut, but "
                    f"{passed} meanwhile ({before} before, {after} after)",
                    [event],
                )


def _not_healed(event: Heal, inject: Inject | None) -> str:
    """Return in words that the end of a fault was not confirmed. `inject`: its beginning, if that is known."""
    if inject is not None and inject.do == "wait":
        within, state = (inject.params.get(name) for name in ("within", "state"))
        return (
            f"fault {event.id} (wait): within {within} s, {node_names(inject.nodes)} did not reach the state {state!r}"
        )
    kind = f" ({inject.do})" if inject is not None else ""
    return f"the healing of fault {event.id}{kind} was not confirmed"


def _why(event: Inject | Heal) -> str:
    evidence = evidence_of(event)
    if error := evidence.get("error"):
        return f": {error}"
    missed = [node for node, shown in evidence.items() if isinstance(shown, dict) and shown.get("reached") is False]
    if missed:
        return f": its point was not reached on {', '.join(f'node {node}' for node in missed)}"
    ended = ended_processes(event)
    killed = [node for node, shown in ended.items() if shown["exit"] == -SIGKILL]
    if killed and isinstance(event, Inject) and event.do in STOPS:
        return f": asked to end, {node_names(killed)} did not, and had to be killed"
    ends = [f"node {node} with {shown['exit']}" for node, shown in ended.items() if shown["exit"]]
    expected = ", where 0 was expected" if isinstance(event, Inject) and event.do in STOPS else ""
    return f"; exit status: {', '.join(ends)}{expected}" if ends else ""


class TraceIntegrity(Checker):
    """A judge can only judge what the records show.

    Verifies:

    - Every line can be read, and the events of each life are numbered without gaps from `boot` on.
    - No life is missing, nor a fault of a written schedule. A last line is incomplete only if its process was killed.
    - The files agree on the facts that several of them have: the settings of the nodes, the seed, the workload's
      counts, the first leader, and where the run converged.
    - Everything lies between the start and the end of the run.

    Does not verify that nodes trace the truth, nor records that no property needs (votes, counters of work).
    """

    name = "trace integrity"
    source = "zab-chaos"
    statement = "Every event is present and readable. Only a killed process leaves an incomplete last line."
    rests_on_absence = False
    if_broken = Judgement.UNKNOWN

    def at_end(self) -> None:
        self.checked = len(self.facts.lives) or len(self.facts.requests)
        for damage in self.facts.damages:
            self.findings.add(str(damage), [])
        if self.facts.run.evidence == TRACES:
            for words, lines in disagreements(self.facts):
                self.findings.add(words, lines)
