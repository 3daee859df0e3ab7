"""What the evidence of faults shows of nodes, links and processes, held against what else is on record of them.

Nothing here says that a protocol failed: two records that can't both be true are no evidence of anything.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from zab_chaos.model.events import TRACES, Boot, Exit, Fault, Heal, Inject, Line
from zab_chaos.model.oracle.evidence import node_names
from zab_chaos.model.oracle.facts import Facts, Life, cut_link_counters, ended_processes, evidence_of
from zab_chaos.model.oracle.spans import FOREVER

Contradiction = tuple[str, Sequence[Line | None]]  # words, and the lines that show it
GROUPS = ("up", "ended", "answers")  # what evidence has by node may be one level below
DENIALS = {"quiet": False, "up": False}  # evidence with which nothing is confirmed
BY_FORCE = frozenset({"leftovers", "interrupted"})  # milestones of a run that killed what was left
# A milestone that an ensemble lacks whose processes somebody else starts and ends, as docker-compose.
WORKLOAD = "workload-stopped"
CONTAINERS = "containers"  # the backend


def contradictions(facts: Facts) -> Iterator[Contradiction]:
    """Everything in which the records of faults and of processes contradict each other."""
    heals = {heal.id: heal for heal in facts.heals}
    processes = _Processes(facts)
    for inject in facts.injects:
        heal = heals.get(inject.id)
        yield from _hit(inject, facts.run.nodes)
        for line in (inject, heal) if heal is not None else (inject,):
            yield from _check_evidence(inject, line)
            yield from processes.lived(inject, heal, line)
            yield from processes.ended(inject, line)
    yield from processes.unexplained()


def by_node(fault: Fault) -> Iterator[tuple[int, dict[str, Any]]]:
    """What a fault's evidence shows of single nodes."""
    found = evidence_of(fault)
    for part in (found, *(found.get(group) for group in GROUPS)):
        for node, shown in part.items() if isinstance(part, dict) else ():
            if str(node).isdigit():
                yield int(node), shown if isinstance(shown, dict) else {}


def _hit(inject: Inject, nodes: int) -> Iterator[Contradiction]:
    """The nodes that it hit, and those of its links, are nodes of this ensemble."""
    strange = {*inject.nodes, *(node for pair in inject.pairs or () for node in pair)} - set(range(1, nodes + 1))
    if strange:
        yield f"fault {inject.id} ({inject.do}) hit {node_names(sorted(strange))} of {nodes}", [inject]


def _check_evidence(inject: Inject, line: Inject | Heal) -> Iterator[Contradiction]:
    """Its evidence is of the nodes and the links that it hit."""
    who = f"the evidence of fault {inject.id} ({inject.do}) is of"
    denied = [name for name, bad in DENIALS.items() if evidence_of(line).get(name) == bad]
    if line.confirmed and denied:
        yield f"fault {inject.id} ({inject.do}) is confirmed, but its evidence says that it is not {denied[0]}", [line]
    strange = {node for node, _ in by_node(line)} - set(inject.nodes)
    if strange:
        yield f"{who} {node_names(sorted(strange))}, and it hit {node_names(inject.nodes)}", [inject, line]
    if inject.pairs is None:
        return
    cut, links = {tuple(pair) for pair in inject.pairs}, evidence_of(line).get("links")
    for crossing in cut_link_counters(line):
        if (crossing.get("from"), crossing.get("to")) not in cut:
            yield f"{who} a link that it did not cut", [inject, line]
    if isinstance(links, int) and links != len(cut):
        yield f"{who} {links} links, and it hit {len(cut)}", [inject, line]


@dataclass(frozen=True, slots=True)
class _Process:
    """A life with a process of its own. `until`: when the next life of its node began."""

    boot: Boot
    life: Life
    until: int


class _Processes:
    """The processes that the traces tell of, by (node, pid). Nothing is known of them where traces name none, and in
    containers, where a process has another number for itself than for the harness."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._dead: dict[tuple[int, Any], tuple[Line, Any]] = {}  # who showed first that it ended, and how
        self._silent = {node for (node, _), life in facts.lives.items() if life.boot is None}
        lives = sorted(facts.lives.items(), reverse=True)
        self._of: dict[tuple[int, Any], _Process] = {}
        next_boot: dict[int, int] = {}
        for (node, _), life in lives:
            if life.boot is not None:
                if life.boot.pid is not None:
                    self._of[node, life.boot.pid] = _Process(life.boot, life, next_boot.get(node, FOREVER))
                next_boot[node] = life.boot.t
        self._known = bool(self._of) and facts.run.backend != CONTAINERS

    def lived(self, inject: Inject, heal: Heal | None, line: Inject | Heal) -> Iterator[Contradiction]:
        """Each process that is named was there while the fault was."""
        end = heal.t if heal is not None else FOREVER
        for node, shown in by_node(line) if self._known else ():
            pid = shown.get("pid")
            if pid is None:
                continue
            process = self._of.get((node, pid))
            who = f"the evidence of fault {inject.id} ({inject.do}) names process {pid} of node {node}"
            if process is None and node not in self._silent:
                yield f"{who}, which had none of that number", [inject, line]
            elif process is not None and not (process.boot.t <= end and inject.t <= process.until):
                yield f"{who}, which did not run while the fault was there", [inject, line, process.boot]

    def ended(self, inject: Inject, line: Inject | Heal) -> Iterator[Contradiction]:
        """A process ends once, in one way."""
        for node, shown in ended_processes(line).items() if self._known else ():
            process = self._of.get((node, shown.get("pid")))
            if process is None or shown["exit"] is None:
                continue
            earlier, status = self._dead.setdefault((node, shown["pid"]), (line, shown["exit"]))
            who = f"fault {inject.id} ({inject.do}) shows that process {shown['pid']} of node {node} ended with {shown['exit']}"
            if status != shown["exit"]:
                yield f"{who}, and it had ended with {status} before", [earlier, line]
            yield from self._otherwise(who, line, process, shown["exit"])

    def _otherwise(self, who: str, line: Line, process: _Process, status: Any) -> Iterator[Contradiction]:
        """What the harness and the process itself say of its end."""
        ended = self._facts.ended.get((process.boot.node, process.boot.life))
        told = process.life.exit
        if ended is not None and ended.code != status:
            yield f"{who}, but it had ended with {ended.code}", [line, ended]
        if self._facts.run.evidence == TRACES and isinstance(status, int) and status >= 0 and _code(told) != status:
            yield f"{who}, but its trace {_ends(told)}", [line, told or process.life.last]

    def unexplained(self) -> Iterator[Contradiction]:
        """A life that the end of the run found ended says how, unless somebody has killed it."""
        facts = self._facts
        if facts.run.evidence != TRACES or facts.run.outcome != "finished":
            return
        if WORKLOAD not in facts.milestones or BY_FORCE & facts.milestones.keys():
            return
        for (node, number), life in facts.lives.items():
            if life.exit is not None and life.last is not life.exit:
                yield f"node {node}, life {number}, went on after its exit", [life.exit, life.last]
            if life.boot is None or life.exit is not None or (node, number) in facts.ended:
                continue
            if not ((node, life.boot.pid) in self._dead if self._known else facts.was_killed(node)):
                yield f"node {node}, life {number}, has no exit, and nothing killed it", [life.last]


def _code(told: Exit | None) -> int | None:
    return told.code if told is not None else None


def _ends(told: Exit | None) -> str:
    return f"ends with {told.code}" if told is not None else "has no exit"
