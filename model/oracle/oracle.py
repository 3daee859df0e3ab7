"""The judge: Zab's properties, checked event by event, in process or from a run's folder.

`Oracle` is fed what happened: trace events in the order of (t, node, life, n), operations, faults and milestones each in
their own order, in any order among each other. `finish` says what to make of it. Safety is judged over the whole run,
liveness only after healing. Everything is linear in the events; there is no search, because Zab's order is visible in
the zxids.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from zab_chaos.model import events as ev
from zab_chaos.model import manifest, runfiles
from zab_chaos.model.events import HISTORY, TRACES
from zab_chaos.model.garbage import seldom_collected
from zab_chaos.model.oracle.evidence import span
from zab_chaos.model.oracle.facts import WRITES, Damage, Facts
from zab_chaos.model.oracle.measures import metrics
from zab_chaos.model.oracle.properties import ALL, BY_EVIDENCE, why_not
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.verdict import Judgement, Outcome, Property, Verdict, of_property, worst

_NOBODY: tuple[()] = ()
DUMP = "dump.bin"
ONCE = frozenset(
    {
        "started",
        "established",
        "workload-started",
        "workload-stopped",
        "safety-ended",
        "converged",
        "left-alone",
        "stopped",
    }
)
MIN_ACKED = 1  # a run without a single acknowledged write shows nothing


class Oracle:
    """Feed it, then `finish` it once. `violated` may be asked at any time."""

    def __init__(self, evidence: str = TRACES) -> None:
        """`evidence`: see `zab_chaos.model.events.Run`."""
        self.facts = Facts()
        self._count = self.facts.count
        self._evidence = evidence
        self._traced = evidence != HISTORY
        self.checkers: list[Checker] = [kind(self.facts) for kind in BY_EVIDENCE[evidence]]
        self._watching: dict[str, list[Callable[..., None]]] = {}
        for checker in self.checkers:
            for name in dir(checker):
                if name.startswith("on_"):
                    self._watching.setdefault(name[3:], []).append(getattr(checker, name))
        # Few kinds of event make up most of a trace: who watches them is looked up once.
        self._on_deliver = self._watching.get("deliver", [])
        self._on_news = self._watching.get("news", [])
        self._on_accept = self._watching.get("accept", [])
        self._on_broadcast = self._watching.get("broadcast", [])
        self._steps: dict[type, Callable[[Any], None]] = {
            ev.Deliver: self._deliver,
            ev.Broadcast: self._broadcast,
            ev.Accept: self._accept,
            ev.Boot: self._boot,
            ev.Snapshot: self._snapshot,
        }

    # ---- feeding: mappings, as they stand in the files ----

    def feed(self, event: Mapping[str, Any]) -> None:
        """One trace event. An event without the documented form makes the run UNKNOWN; it does not raise."""
        try:
            self.take(ev.event_from_dict(event))
        except msgspec.ValidationError as error:
            file = ev.trace_name(event.get("node", 0), event.get("life", 0))
            self.damaged(Damage(file, event.get("n", 0), f"is no event: {error}"))

    def feed_operation(self, line: Mapping[str, Any]) -> None:
        """One line of ops.jsonl."""
        self._feed(line, ev.Invoke | ev.Complete, "ops.jsonl", self.take_operation)

    def feed_fault(self, line: Mapping[str, Any]) -> None:
        """One line of faults.jsonl."""
        self._feed(line, ev.Inject | ev.Heal, "faults.jsonl", self.take_fault)

    def feed_milestone(self, line: Mapping[str, Any]) -> None:
        """One line of harness.jsonl."""
        self._feed(line, ev.Milestone, "harness.jsonl", self.take_milestone)

    # ---- feeding: typed ----

    def take(self, event: ev.Event) -> None:
        """One trace event."""
        if self._count(event):
            self._steps.get(type(event), self._other)(event)

    def take_operation(self, operation: ev.Invoke | ev.Complete) -> None:
        if type(operation) is ev.Invoke:
            self.facts.invoke(operation)
            return
        question = self.facts.complete(operation)
        if question is not None:
            self._tell("complete", operation, question)

    def take_session(self, line: ev.OfSession) -> None:
        """One line of sessions.jsonl."""
        self.facts.told += 1
        self._tell(str(line.__struct_config__.tag), line)

    def take_znode(self, znode: ev.Kept) -> None:
        """One line of tree.jsonl."""
        self.facts.tree.append(znode)

    def take_fault(self, fault: ev.Inject | ev.Heal) -> None:
        if isinstance(fault, ev.Inject):
            self.facts.inject(fault)
            self._tell("inject", fault)
        else:
            self.facts.heal(fault)
            self._tell("heal", fault)

    def take_milestone(self, milestone: ev.Milestone) -> None:
        if milestone.event in self.facts.milestones and milestone.event in ONCE:
            self.damaged(Damage(milestone.file, milestone.line, f"tells of `{milestone.event}` a second time"))
        self.facts.milestones[milestone.event] = milestone
        if milestone.event == "ended" and milestone.node is not None and milestone.life is not None:
            self.facts.ended[milestone.node, milestone.life] = milestone
        for event in milestone.before_the_start():
            self.facts.broadcasts.add(event, ev.packed(event.delivered))
            self.facts.before.update((client, seq) for client, seq, _ in event.txns)

    def damaged(self, damage: Damage) -> None:
        """A place where the records do not say what happened."""
        self.facts.damages.append(damage)

    # ---- facts first, then the checkers ----

    def _deliver(self, event: ev.Deliver) -> None:
        if not event.digests:
            return
        delivery = self.facts.deliver(event)
        for handler in self._on_deliver:
            handler(delivery)
        if delivery.first != delivery.before + 1:
            self._tell("leap", delivery)
        if not delivery.known:
            for handler in self._on_news:
                handler(delivery)
        if delivery.conflict is not None:
            self._tell("conflict", delivery)

    def _broadcast(self, event: ev.Broadcast) -> None:
        if event.digests:
            step = self.facts.broadcast(event)
            for handler in self._on_broadcast:
                handler(step)

    def _accept(self, event: ev.Accept) -> None:
        before = self.facts.accept(event)
        if event.zxid != before + 1 and event.digests:
            self._tell("jump", event, before)
        for handler in self._on_accept:
            handler(event)

    def _boot(self, event: ev.Boot) -> None:
        self._tell("boot", event, self.facts.boot(event))

    def _snapshot(self, event: ev.Snapshot) -> None:
        self._tell("snapshot", event, self.facts.snapshot(event))

    def _other(self, event: ev.Event) -> None:
        if not isinstance(event, ev.Other):
            self.facts.at(event)
            self._tell(str(event.__struct_config__.tag), event)

    # ---- the verdict ----

    @property
    def violated(self) -> list[str]:
        """The names of the properties that are known to be violated by now."""
        return [checker.name for checker in self.checkers if checker.judgement() is Judgement.VIOLATION]

    def finish(self, run: ev.Run) -> Verdict:
        """Everything was fed: judge it."""
        facts = self.facts
        facts.run = run
        facts.damages = [it for it in facts.damages if not (it.excusable and it.node and facts.was_killed(it.node))]
        facts.damages += [*self._unfaulted(), *self._uncounted(), *self._unheard()]
        silent = [number for number in range(1, run.nodes + 1) if number not in facts.nodes and self._traced]
        facts.damages += [Damage("trace", 0, f"has nothing of node {number}") for number in silent]
        unanswered = facts.unanswered()
        facts.outcomes["unknown"] += len(unanswered)
        facts.write_outcomes["unknown"] += sum(it.op in WRITES for it in unanswered)
        for checker in self.checkers:
            checker.at_end()
        return self._conclude([*(checker.property() for checker in self.checkers), *self._beyond_evidence()])

    def _beyond_evidence(self) -> list[Property]:
        """The properties that need what this run has not."""
        judged = {checker.name for checker in self.checkers}
        return [
            Property(
                name=kind.name, source=kind.source, statement=kind.statement, verdict=Judgement.NOT_APPLICABLE, checked=0,
                why=why_not(self._evidence, kind.name),
            )
            for kind in ALL
            if kind.name not in judged
        ]  # fmt: skip

    def _unfaulted(self) -> list[Damage]:
        """A schedule of which the fault log lacks something."""
        done, due = len(self.facts.injects), self.facts.faults_due
        return [Damage("faults.jsonl", 0, f"has {done} of the {due} faults that were due")] if done < due else []

    def _uncounted(self) -> list[Damage]:
        """Operations of which the workload knew more than is on record."""
        facts = self.facts
        nothing = ev.Milestone(t=0, event="")
        load = facts.milestones.get("workload-stopped", nothing)
        sessions = facts.milestones.get("sessions-stopped", nothing)
        known = (
            ("ops.jsonl", "operations", len(facts.requests), load.invoked),
            ("ops.jsonl", "successful ones", facts.outcomes["ok"], load.ok),
            ("ops.jsonl", "failed ones", facts.outcomes["failed"], load.failed),
            ("ops.jsonl", "unknown ones", facts.outcomes["unknown"], load.unknown),
            ("sessions.jsonl", "lines", facts.told, sessions.told),
        )
        return [
            Damage(file, 0, f"has {number} of the {counted} {what} that the workload counted")
            for file, what, number, counted in known
            if counted is not None and number < counted
        ]

    def _unheard(self) -> list[Damage]:
        """Lives of which others took frames, and which have left no trace."""
        return [
            Damage(
                ev.trace_name(event.peer, event.incarnation),
                0,
                f"is missing: node {event.node} took frames of that life",
            )
            for (peer, life), event in sorted(self.facts.heard.items())
            if (peer, life) not in self.facts.lives
        ]

    def _conclude(self, properties: list[Property]) -> Verdict:
        facts = self.facts
        unknown = self._too_little()
        unknown += [why for checker in self.checkers for why in checker.unknown]
        beyond = self._beyond() if facts.beyond_fault_model() else []
        outcomes = [of_property(item) for item in properties]
        outcomes += [Outcome.UNKNOWN] if unknown else []
        outcomes += [Outcome.BEYOND_FAULT_MODEL] if beyond else []
        reasons = self._words(properties) + unknown + beyond
        if facts.run.outcome.startswith("harness-error"):
            outcomes.append(Outcome.HARNESS_ERROR)
            reasons.insert(0, f"the harness failed: {facts.run.outcome.partition(':')[2].strip() or 'no reason given'}")
        outcome = worst(outcomes)
        return Verdict(
            verdict=outcome,
            exit=outcome.exit_code,
            properties=properties,
            reasons=reasons,
            metrics=metrics(facts),
        )

    def _too_little(self) -> list[str]:
        """Why so little happened that nothing can be said."""
        facts, found = self.facts, []
        if facts.run.outcome not in ("finished",) and not facts.run.outcome.startswith("harness-error"):
            found.append(f"the run did not finish: {facts.run.outcome}")
        least = facts.run.expect.get("min_acked", MIN_ACKED)
        acked = facts.write_outcomes["ok"]
        if isinstance(least, int) and acked < least:
            found.append(f"{acked} writes were acknowledged; at least {least} are needed to judge")
        if self._traced and not len(facts.ledger):
            found.append("nothing was delivered")
        return found

    def _beyond(self) -> list[str]:
        """What a quorum of lost disks means for what had been acknowledged."""
        facts = self.facts
        lost = facts.disks_lost()
        held = max((node.disk.log.last for node in facts.nodes.values() if not node.disk.amnesiac), default=0)
        gone = [write.zxid for write in facts.acked if write.zxid > held]
        words = [
            f"the disks of {_nodes(lost)} are lost: {facts.run.nodes - len(lost)} of {facts.run.nodes} nodes remain, a "
            f"quorum is {facts.quorum()}; the nodes refused to form rather than invent history"
        ]
        if gone:
            words.append(f"{len(gone)} acknowledged writes, {span(min(gone), max(gone))}, are lost with the disks")
        return words

    def _words(self, properties: list[Property]) -> list[str]:
        """One sentence for each property that does not hold."""
        found = []
        for item in properties:
            if item.violations:
                number = len(item.violations) + item.more
                certain = "is violated" if item.verdict is Judgement.VIOLATION else "is not certain"
                more = f" (and {number - 1} more)" if number > 1 else ""
                found.append(f"{item.name} {certain}: {item.violations[0].words}{more}")
        return found

    def _tell(self, name: str, *what: object) -> None:
        for handler in self._watching.get(name, _NOBODY):
            handler(*what)

    def _feed(self, line: Mapping[str, Any], kind: Any, file: str, take: Callable[[Any], None]) -> None:
        try:
            take(msgspec.convert(line, kind))
        except msgspec.ValidationError as error:
            self.damaged(Damage(file, line.get("line", 0), f"is not readable: {error}"))


@seldom_collected()
def judge(folder: Path, *, stored: bool = True) -> Verdict:
    """Judge the run in `folder` (results/README.md). Does not raise for what is wrong with the folder: without a
    readable run.json the verdict is HARNESS-ERROR, with lines that can't be read, or a folder that is not as its manifest
    says, it is UNKNOWN at best. A run that has only just ended is not `stored` yet, and has no manifest."""
    try:
        run = runfiles.read_run(folder)
    except runfiles.NoRun as error:
        return Verdict(
            verdict=Outcome.HARNESS_ERROR,
            exit=Outcome.HARNESS_ERROR.exit_code,
            properties=[],
            reasons=[str(error)],
            metrics={},
        )
    oracle = Oracle(run.evidence)
    if stored:
        _hold_against_manifest(oracle, folder, run)
    reader = runfiles.Reader(folder, oracle.damaged)
    for milestone in reader.milestones():  # first: they say what lay on the disks before the start
        oracle.take_milestone(milestone)
    for event in reader.events():
        oracle.take(event)
    for operation in reader.operations():
        oracle.take_operation(operation)
    for line in reader.sessions():
        oracle.take_session(line)
    for znode in reader.tree():
        oracle.take_znode(znode)
    for fault in reader.faults():
        oracle.take_fault(fault)
    return oracle.finish(run)


def _hold_against_manifest(oracle: Oracle, folder: Path, run: ev.Run) -> None:
    sealed, damages = manifest.check(folder)
    for damage in damages:
        oracle.damaged(damage)
    dump = sealed.files.get(DUMP) if sealed is not None else None
    if dump is not None and run.dump is not None and dump.sha256 != run.dump:
        oracle.damaged(Damage(DUMP, 0, "is not the one that run.json names"))
    if sealed is not None and run.outcome == "finished":
        oracle.facts.faults_due = sealed.faults_due


def _nodes(numbers: list[int]) -> str:
    names = [f"node {number}" for number in numbers]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
