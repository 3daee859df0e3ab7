"""The judge: it checks Zab's properties event by event, in process or from a run's folder.

`Oracle` receives trace events ordered by (t, node, life, n), and operations, faults and milestones in their own order; the
kinds may be interleaved in any way. `finish` returns the verdict. Safety is judged over the whole run, liveness only after
healing. The work is linear in the number of events: the zxids show Zab's order, so no search is needed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from zab_chaos.model import events as ev
from zab_chaos.model import manifest, runfiles
from zab_chaos.model.events import HISTORY, RAFT_RECORDS, TRACES
from zab_chaos.model.garbage import seldom_collected
from zab_chaos.model.oracle.evidence import node_names, zxid_range
from zab_chaos.model.oracle.facts import CRASH_STATE, HARNESS_FAILED, WRITES, Damage, Facts
from zab_chaos.model.oracle.measures import metrics
from zab_chaos.model.oracle.planned_faults import missing_faults
from zab_chaos.model.oracle.properties import ALL, BY_EVIDENCE, why_not
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.verdict import Judgement, Outcome, Property, Verdict, outcome_of, worst

_NO_HANDLERS: tuple[()] = ()
DUMP = "dump.bin"
SETTLED = frozenset({"converged", "not-converged"})  # a run has one of them at most
UNIQUE_MILESTONES = SETTLED | frozenset(
    {
        "started",
        "clocks",
        "established",
        "workload-started",
        "workload-stopped",
        "safety-ended",
        "last-question",
        "left-alone",
        "stopped",
    }
)
MIN_ACKED = 1  # least number of acknowledged writes to judge a run


class Oracle:
    """Collects the facts of one run and judges it. Add everything, then call `finish` once. `violated` works at any time."""

    def __init__(self, evidence: str = TRACES) -> None:
        """`evidence` is that of `zab_chaos.model.events.Run`."""
        self.facts = Facts(counters_go_on=evidence == RAFT_RECORDS)
        self._evidence = evidence
        self._traced = evidence != HISTORY
        self.checkers: list[Checker] = [kind(self.facts) for kind in BY_EVIDENCE[evidence]]
        self._handlers: dict[str, list[Callable[..., None]]] = {}
        for checker in self.checkers:
            for name in dir(type(checker)):  # `dir` of the object would make access to its attributes slow
                if name.startswith("on_"):
                    self._handlers.setdefault(name[3:], []).append(getattr(checker, name))
        # Most events of a trace are of a few kinds: their handlers are looked up once.
        self._on_deliver = self._handlers.get("deliver", [])
        self._on_new_delivery = self._handlers.get("new_delivery", [])
        self._on_accept = self._handlers.get("accept", [])
        self._on_broadcast = self._handlers.get("broadcast", [])
        self._by_type: dict[type, Callable[[Any], None]] = {
            **dict.fromkeys(ev.JUDGED_EVENTS.values(), self._apply),
            ev.UnjudgedEvent: _ignore,
            ev.Deliver: self._deliver,
            ev.Broadcast: self._broadcast,
            ev.Accept: self._accept,
        }

    # ---- adding records ----

    def add_event(self, event: ev.Event) -> None:
        """Add one trace event."""
        if self.facts.register(event):
            self._by_type[type(event)](event)

    def add_operation(self, operation: ev.Invoke | ev.Complete) -> None:
        if type(operation) is ev.Invoke:
            self.facts.invoke(operation)
            return
        request = self.facts.complete(operation)
        if request is not None:
            self._notify("complete", operation, request)

    def add_session_line(self, line: ev.SessionEvent) -> None:
        """Add one line of sessions.jsonl."""
        self.facts.session_lines.append(line)
        self._notify(str(line.__struct_config__.tag), line)

    def add_znode(self, znode: ev.FinalZnode) -> None:
        """Add one line of tree.jsonl."""
        self.facts.tree.append(znode)

    def add_fault(self, fault: ev.Inject | ev.Heal) -> None:
        if isinstance(fault, ev.Inject):
            self.facts.inject(fault)
            self._notify("inject", fault)
        else:
            self.facts.heal(fault)
            self._notify("heal", fault)

    def add_milestone(self, milestone: ev.Milestone) -> None:
        if milestone.event in self.facts.milestones and milestone.event in UNIQUE_MILESTONES:
            self.facts.note_damage(milestone, f"has `{milestone.event}` a second time")
        if milestone.event in SETTLED and (earlier := self.facts.settled()) and earlier.event != milestone.event:
            self.facts.note_damage(milestone, f"has `{milestone.event}` besides `{earlier.event}`")
        self.facts.milestones[milestone.event] = milestone
        if milestone.event == CRASH_STATE:
            self.facts.crash_states.append(milestone)
        if milestone.event == "ended" and milestone.node is not None and milestone.life is not None:
            self.facts.ended[milestone.node, milestone.life] = milestone
        if milestone.event == "release" and milestone.node is not None and milestone.life is not None:
            self.facts.releases[milestone.node, milestone.life] = milestone
        if milestone.event == "disk" and milestone.node is not None:
            self.facts.initial_disks[milestone.node] = milestone
        for event in milestone.broadcasts_before_start():
            self.facts.broadcasts.add(event, ev.packed(event.delivered))
            self.facts.before_start.update((client, seq) for client, seq, _ in event.txns)

    def add_damage(self, damage: Damage) -> None:
        """Add a place where the records do not show what happened."""
        self.facts.damages.append(damage)

    # ---- update the facts first, then call the checkers ----

    def _deliver(self, event: ev.Deliver) -> None:
        if not event.digests:
            return
        delivery = self.facts.deliver(event)
        for handler in self._on_deliver:
            handler(delivery)
        if delivery.first != delivery.before + 1:
            self._notify("nonconsecutive_delivery", delivery)
        if not delivery.all_known:
            for handler in self._on_new_delivery:
                handler(delivery)
        if delivery.conflict is not None:
            self._notify("delivery_conflict", delivery, delivery.conflict)

    def _broadcast(self, event: ev.Broadcast) -> None:
        if event.digests:
            broadcast = self.facts.broadcast(event)
            for handler in self._on_broadcast:
                handler(broadcast)

    def _accept(self, event: ev.Accept) -> None:
        before = self.facts.accept(event)
        if before is not None:
            self._notify("nonconsecutive_accept", event, before)
        for handler in self._on_accept:
            handler(event)

    def _apply(self, event: ev.JudgedEvent) -> None:
        self.facts.update(event)
        self._notify(str(event.__struct_config__.tag), event)

    # ---- the verdict ----

    @property
    def violated(self) -> list[str]:
        """Return the names of the properties that are known to be violated so far."""
        return [checker.name for checker in self.checkers if checker.judgement() is Judgement.VIOLATION]

    def finish(self, run: ev.Run) -> Verdict:
        """Judge the run, after everything was added."""
        facts = self.facts
        facts.run = run
        facts.untraced = self._traced and not facts.lives
        facts.damages = [it for it in facts.damages if not (it.excusable and it.node and facts.was_killed(it.node))]
        facts.damages += [*self._missing_faults(), *self._missing_lines(), *self._missing_traces()]
        if run.foreign:
            facts.damages += self._silent_nodes()
        silent = [number for number in range(1, run.nodes + 1) if number not in facts.nodes and self._traced]
        facts.damages += [Damage("trace", 0, f"has no file of node {number}") for number in silent]
        strangers = sorted({number for number, _ in facts.lives if not 1 <= number <= run.nodes})
        facts.damages += [Damage("trace", 0, f"has a file of node {number} of {run.nodes}") for number in strangers]
        unanswered = facts.unanswered()
        facts.outcomes["unknown"] += len(unanswered)
        facts.write_outcomes["unknown"] += sum(it.op in WRITES for it in unanswered)
        if run.foreign:
            facts.leave_out_final_writes()
        for checker in self.checkers:
            checker.at_end()
        return self._conclude([*(checker.property() for checker in self.checkers), *self._unjudged_properties()])

    def _unjudged_properties(self) -> list[Property]:
        """Return the properties that this run has no evidence for, as NOT-APPLICABLE."""
        judged = {checker.name for checker in self.checkers}
        return [
            Property(
                name=kind.name, source=kind.source, statement=kind.statement, verdict=Judgement.NOT_APPLICABLE, checked=0,
                why=why_not(self._evidence, kind.name),
            )
            for kind in ALL
            if kind.name not in judged
        ]  # fmt: skip

    def _missing_faults(self) -> list[Damage]:
        """Return damage for each fault of the schedule that faults.jsonl lacks although the run has finished.

        Of older runs only the number of faults is known, from the manifest.
        """
        facts = self.facts
        if facts.run.outcome != "finished":
            return []
        begun, done, due = facts.milestones.get("workload-started"), len(facts.injects), facts.faults_due
        missing = missing_faults(facts.run.schedule, facts.injects, begun.t if begun is not None else 0)
        words = [f"lacks a fault of the schedule: {planned}" for planned in reversed([*missing])]
        words += [f"has {done} of the {due} faults that were due"] if done < due else []
        return [Damage("faults.jsonl", 0, why) for why in words]

    def _missing_lines(self) -> list[Damage]:
        """Return damage for each file that has fewer operations or lines than the workload counted."""
        facts = self.facts
        nothing = ev.Milestone(t=0, event="")
        load = facts.milestones.get("workload-stopped", nothing)
        sessions = facts.milestones.get("sessions-stopped", nothing)
        known = (
            ("ops.jsonl", "operations", len(facts.requests), load.invoked),
            ("ops.jsonl", "successful ones", facts.outcomes["ok"], load.ok),
            ("ops.jsonl", "failed ones", facts.outcomes["failed"], load.failed),
            ("ops.jsonl", "unknown ones", facts.outcomes["unknown"], load.unknown),
            ("sessions.jsonl", "lines", len(facts.session_lines), sessions.told),
        )
        return [
            Damage(file, 0, f"has {number} of the {counted} {what} that the workload counted")
            for file, what, number, counted in known
            if counted is not None and number < counted
        ]

    def _missing_traces(self) -> list[Damage]:
        """Return damage for each life without a trace from which another node accepted frames."""
        return [
            Damage(
                ev.trace_name(event.peer, event.incarnation),
                0,
                f"is missing: node {event.node} took frames of that life",
            )
            for (peer, life), event in sorted(self.facts.frames_from.items())
            if (peer, life) not in self.facts.lives
        ]

    def _silent_nodes(self) -> list[Damage]:
        """Return damage for each node of a foreign system that has recorded nothing in any life, although others have."""
        lives = list(self.facts.lives.items())
        speaking = {node for (node, _), life in lives if not life.is_silent}
        return [
            Damage(
                ev.trace_name(node, life),
                0,
                f"shows nothing but the start: node {node} has recorded nothing in any life",
            )
            for (node, life), _ in lives
            if speaking and node not in speaking
        ]

    def _conclude(self, properties: list[Property]) -> Verdict:
        facts = self.facts
        unfinished = self._unfinished()
        unknown = self._too_little_to_judge()
        unknown += dict.fromkeys(why for checker in self.checkers for why in checker.unknown)  # without duplicates
        beyond = self._beyond_reasons() if facts.beyond_fault_model() else []
        outcomes = [outcome_of(item) for item in properties]
        outcomes += [Outcome.UNKNOWN] if unfinished or unknown else []
        outcomes += [Outcome.BEYOND_FAULT_MODEL] if beyond else []
        found = self._violation_reasons(properties)
        violated = [words for judgement, words in found if judgement is Judgement.VIOLATION]
        uncertain = [words for judgement, words in found if judgement is not Judgement.VIOLATION]
        reasons = [*violated, *unfinished, *uncertain, *unknown, *beyond]
        if facts.run.outcome.startswith(HARNESS_FAILED):
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

    def _unfinished(self) -> list[str]:
        """Return the reason why the run did not go to its end, if that was no failure of the harness."""
        outcome = self.facts.run.outcome
        if outcome == "finished" or outcome.startswith(HARNESS_FAILED):
            return []
        if outcome == "unfinished":
            return ["the run has not finished: it still goes on, or its harness was killed"]
        return [f"the run did not finish: {outcome}"]

    def _too_little_to_judge(self) -> list[str]:
        """Return the reasons why too little happened to judge the run."""
        facts, found = self.facts, []
        least = facts.run.expect.get("min_acked", MIN_ACKED)
        acked = facts.write_outcomes["ok"]
        if type(least) is not int:
            found.append(f"run.json, expect.min_acked: {least!r} is no number of writes")
        elif acked < least:
            found.append(
                f"{acked} writes were acknowledged; at least {least} {'is' if least == 1 else 'are'} needed to judge"
            )
        if self._traced and not len(facts.history):
            written = any(facts.write_outcomes.values())
            nothing = "no node has recorded a `deliver`" if facts.run.foreign else "nothing was delivered"
            nothing = "the record is incomplete: it has no trace of any node" if facts.untraced else nothing
            found.append(nothing if written else "nothing was written, so nothing could be judged")
        return found

    def _beyond_reasons(self) -> list[str]:
        """Describe the loss of a quorum of disks, and the acknowledged writes that were lost with it."""
        facts = self.facts
        lost = facts.disks_lost()
        held = max((node.disk.log.last for node in facts.nodes.values() if not node.disk.amnesiac), default=0)
        gone = [write.zxid for write in facts.acked if write.zxid > held]
        words = [
            f"the disks of {node_names(lost)} are lost: {len(facts.voters) - len(lost)} of {len(facts.voters)} nodes remain, a "
            f"quorum is {facts.quorum()}; the nodes refused to form rather than invent history"
        ]
        if gone:
            words.append(
                f"{len(gone)} acknowledged writes, {zxid_range(min(gone), max(gone))}, are lost with the disks"
            )
        return words

    def _violation_reasons(self, properties: list[Property]) -> list[tuple[Judgement, str]]:
        """Return one sentence for each property that does not hold, or may not."""
        found = []
        for item in properties:
            if item.violations:
                number = len(item.violations) + item.more
                certain = "is violated" if item.verdict is Judgement.VIOLATION else "is not certain"
                more = f" (and {number - 1} more)" if number > 1 else ""
                found.append((item.verdict, f"{item.name} {certain}: {item.violations[0].words}{more}"))
        return found

    def _notify(self, name: str, *what: object) -> None:
        for handler in self._handlers.get(name, _NO_HANDLERS):
            handler(*what)


def _ignore(_event: ev.UnjudgedEvent) -> None:
    """Do nothing: no property needs the event."""


@seldom_collected()
def judge(folder: Path, *, stored: bool = True, on_read: runfiles.OnRead = runfiles.unheard) -> Verdict:
    """Judge the run in `folder` (results/README.md). `stored` is False for a run that has just ended and has no manifest yet.

    A wrong folder does not raise. Without a readable run.json the verdict is HARNESS-ERROR. With unreadable lines, or if the
    folder differs from its manifest, it is UNKNOWN at best.
    """
    try:
        run = runfiles.read_run(folder)
    except runfiles.NotARun as error:
        return Verdict(
            verdict=Outcome.HARNESS_ERROR,
            exit=Outcome.HARNESS_ERROR.exit_code,
            properties=[],
            reasons=[str(error)],
            metrics={},
        )
    oracle = Oracle(run.evidence)
    if stored:
        _check_manifest(oracle, folder, run)
    reader = runfiles.RunReader(folder, oracle.add_damage, on_read)
    for milestone in reader.lines("harness.jsonl"):  # first: they show what was on the disks before the start
        oracle.add_milestone(milestone)
    for event in reader.events():
        oracle.add_event(event)
    for operation in reader.lines("ops.jsonl"):
        oracle.add_operation(operation)
    for line in reader.lines("sessions.jsonl"):
        oracle.add_session_line(line)
    for znode in reader.lines("tree.jsonl"):
        oracle.add_znode(znode)
    for fault in reader.lines("faults.jsonl"):
        oracle.add_fault(fault)
    return oracle.finish(run)


def _check_manifest(oracle: Oracle, folder: Path, run: ev.Run) -> None:
    sealed, damages = manifest.check(folder)
    for damage in damages:
        oracle.add_damage(damage)
    if sealed is None:
        return
    dump = sealed.files.get(DUMP)
    if run.dump is not None and (dump is None or dump.sha256 != run.dump):
        oracle.add_damage(Damage(DUMP, 0, "is not the one that run.json names"))
    oracle.facts.faults_due = sealed.faults_due or 0
