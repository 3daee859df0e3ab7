"""Cross-checks of the evidence of faults against all other records of nodes, links and processes.

A contradiction does not show that a protocol failed: if two records can't both be true, neither is evidence of anything.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

from zab_chaos.model.events import LOGS, TRACES, Boot, Event, Exit, Fault, Heal, Inject, Line, Milestone, NodeFault
from zab_chaos.model.oracle.evidence import ending, node_names
from zab_chaos.model.oracle.facts import (
    DISK_FAULTS,
    KILLS,
    STOPS,
    Facts,
    Life,
    Node,
    cut_link_counters,
    ended_processes,
    evidence_of,
    in_time,
)
from zab_chaos.model.oracle.spans import FOREVER, SECOND
from zab_chaos.node.exit_codes import SANITY
from zab_chaos.node.store.errors import CORRUPT_EXIT, DISK_EXIT

Contradiction = tuple[str, Sequence[Line | None]]  # words, and the lines that show it
GROUPS = ("up", "ended", "answers")  # evidence by node may be nested below these keys
# Evidence that must not be false, or must be nothing at all, if a fault or its healing was confirmed.
TRUE_IF_CONFIRMED, NOTHING_IF_CONFIRMED = ("quiet", "up"), ("leaked", "still on", "error")
# A milestone that is missing if something else than the harness, such as docker-compose, starts and ends the processes.
WORKLOAD = "workload-stopped"
CONTAINERS = "containers"  # the backend
# Faults that kill processes at once, unless they only arm a crash point.
KILLED_AT_ONCE = (KILLS | STOPS) - {"crash-at", "restart"}
LATEST = 2 * SECOND  # after the time of a fault's line, or of its healing, within which it has ended its processes
WRITES_WITHIN = SECOND  # within which a process that runs writes a line to its trace (`work`)
PAUSE = "pause"
# Faults that a node is commanded to simulate. It traces each command before it obeys.
COMMANDED = frozenset({"disk-full", "disk-error", "slow-disk", "clock-rate", "clock-jump"})
AT_POINT = "crash-at"  # what a node traces of all faults at crash points, and the parameter that arms one
POINT_KEYS = ("point", AT_POINT)  # the params of a fault that are crash points
DISK_FAILURES = frozenset({"disk-full", "disk-error", "fail-at"})  # the faults that end a node with DISK_EXIT
JUDGED_EXITS = frozenset({SANITY, CORRUPT_EXIT})  # other properties judge them


def contradictions(facts: Facts) -> Iterator[Contradiction]:
    """Find all contradictions between the records of faults and of processes."""
    heals = {heal.id: heal for heal in facts.heals}
    processes = _Processes(facts)
    for inject in facts.injects:
        heal = heals.get(inject.id)
        yield from _check_targets(inject, facts.run.nodes)
        for line in (inject, heal) if heal is not None else (inject,):
            yield from _check_evidence(inject, line)
            yield from processes.check_alive(inject, heal, line)
            yield from processes.check_exits(inject, line)
        if heal is not None and heal.confirmed:
            yield from _check_awake(facts, inject, heal)
        if facts.run.evidence == TRACES and inject.confirmed and heal is not None and heal.confirmed:
            yield from _check_effect(facts, inject, heal)
    yield from processes.unexplained_ends()
    if not facts.run.foreign:
        yield from _check_own_faults(facts, heals)
    if facts.run.evidence == TRACES:
        yield from _answers_of_the_dead(facts)


def ended_by_themselves(facts: Facts) -> list[Milestone]:
    """Return the harness's records of processes that ended although no fault had asked for it, of nodes that do not record
    their ends. A disk that is damaged or fails is a reason to end."""
    return [
        ended
        for (node, _), ended in sorted(facts.ended.items())
        if not (ended.armed or ended.code == CORRUPT_EXIT)
        and not any(
            it.do in DISK_FAILURES and node in it.nodes for it in facts.faults_during(ended.t - LATEST, ended.t)
        )
    ]


def _answers_of_the_dead(facts: Facts) -> Iterator[Contradiction]:
    """Find the requests that were sent and answered while no process of the node ran."""
    dead = {number: [*_dead(facts, node)] for number, node in facts.nodes.items()}
    for request in facts.requests.values():
        invoke, answer = request.invoke, request.complete
        if answer is None or answer.zxid is None:
            continue
        spans = dead.get(answer.node or 0, [])
        place = bisect_left(spans, invoke.t, key=lambda span: span[1]) - 1
        if place >= 0 and answer.t < spans[place][2]:
            last = spans[place][0]
            yield f"node {answer.node} answered when its life {last.life} had ended", [last, invoke, answer]


def _dead(facts: Facts, node: Node) -> Iterator[tuple[Event, int, int]]:
    """Find the times (since, until) in which a node was certainly dead, ascending, each with the last event before."""
    boots = [boot.t for boot in node.boots]
    for life, begun, until in zip(node.lives, boots, [*boots[1:], FOREVER], strict=False):
        ends = [end.t for end in (life.exit, facts.ended.get((node.id, life.last.life))) if end is not None]
        for inject in in_time(facts.injects, begun, until):
            if _kills_at_once(inject) and node.id in inject.nodes and inject.confirmed:
                within = inject.params.get("within_ms")
                killed = inject.t + LATEST + 1_000_000 * (within if isinstance(within, int) else 0)
                ends.append(max(killed, life.last.t + WRITES_WITHIN))
        if ends and (since := max(life.last.t, min(ends))) < until:
            yield life.last, since, until


def _kills_at_once(inject: Inject) -> bool:
    return inject.do in KILLED_AT_ONCE and inject.params.get(AT_POINT) is None


def _check_own_faults(facts: Facts, heals: Mapping[int | str, Heal]) -> Iterator[Contradiction]:
    """Check that the faults inside the nodes, as their own traces have them, are those that the harness has injected."""
    for event in facts.node_faults:
        judged = (event.do in COMMANDED or event.do == AT_POINT) and event.state != "lifted"
        begun = in_time(facts.injects, 0, event.t) if judged else ()
        if judged and not any(_is_cause(inject, facts.span_of(inject)[1], event) for inject in reversed(begun)):
            yield f"node {event.node} had a fault {event.do}, and no fault was to hit it", [event]
    yield from _check_armed(facts)
    for inject in facts.injects:
        end = facts.span_of(inject)[1]
        own = [it for it in in_time(facts.node_faults, inject.t, end) if it.node in inject.nodes]
        if inject.id in heals:
            yield from _check_reached(inject, heals[inject.id], own)
            yield from _check_was_armed(facts, inject, heals[inject.id], own)
        if inject.do in COMMANDED and inject.confirmed:
            yield from _check_commanded(facts, inject, end, [it for it in own if it.do == inject.do])


def _check_armed(facts: Facts) -> Iterator[Contradiction]:
    """Check that no node has armed a point more often than faults asked it to: each point that is armed has its own effect."""
    armed: dict[tuple[int, str], list[NodeFault]] = {}
    for event in facts.node_faults:
        if (event.do, event.state) == (AT_POINT, "armed"):
            armed.setdefault((event.node, event.detail), []).append(event)
    asked = Counter(
        (node, str(it.params.get(name))) for it in facts.injects for node in {*it.nodes} for name in POINT_KEYS
    )
    for (node, point), events in armed.items():
        if 0 < (times := asked[node, point]) < len(events):
            yield f"node {node} armed the point {point} {len(events)} times, and faults asked for {times}", events


def _is_cause(inject: Inject, end: int, event: NodeFault) -> bool:
    """Return whether an earlier fault, which was active until `end`, explains what a node traced. A point may be armed too
    late. So may a command be executed which the node has not answered: it was paused, and has it when it goes on."""
    if event.node not in inject.nodes:
        return False
    if event.do in COMMANDED:
        return event.do == inject.do and (event.t <= end or event.node not in dict(by_node(inject)))
    return event.detail in [inject.params.get(name) for name in POINT_KEYS]


def _check_reached(inject: Inject, heal: Heal, own: Sequence[NodeFault]) -> Iterator[Contradiction]:
    """Check that enough nodes have traced that they reached the points of a confirmed fault.

    An exit status can't show which of a node's points it has reached.
    """
    needed = {"all": len(inject.nodes), "one": 1}.get(str(inject.params.get("enough")), 0)
    for point in [inject.params[name] for name in POINT_KEYS if inject.params.get(name) is not None]:
        reached = {it.node for it in own if it.state == "fired" and it.detail == point}
        if heal.confirmed and len(reached) < needed:
            who = node_names(sorted(reached))
            yield f"fault {inject.id} ({inject.do}) is confirmed, but by the traces {who} reached {point}", [heal]


def _check_was_armed(facts: Facts, inject: Inject, heal: Heal, own: Sequence[NodeFault]) -> Iterator[Contradiction]:
    """Check that each node has traced that it armed the point of a confirmed fault, unless it did not live on, or another fault
    hit it meanwhile.

    With `enough` none the fault is confirmed although no node has reached the point; but each must have been able to.
    """
    point = inject.params.get("point")
    if point is None or not heal.confirmed or facts.run.evidence != TRACES:
        return
    for node in sorted({*inject.nodes} - {it.node for it in own if it.detail == point}):
        life = facts.nodes[node].life_at(inject.t)
        lived_on = life is not None and life.last.t > heal.t
        if lived_on and not _is_touched_meanwhile(facts, inject, heal, [node]):
            who = f"fault {inject.id} ({inject.do}) is confirmed, and the trace of node {node}"
            yield f"{who} does not have that it armed {point}", [inject, heal]


def _check_commanded(facts: Facts, inject: Inject, end: int, own: Sequence[NodeFault]) -> Iterator[Contradiction]:
    """Check that each node that answered a command has traced it and, if it ran on, that the fault was lifted."""
    who = f"fault {inject.id} ({inject.do})"
    for node, answer in by_node(inject):
        key = node, answer.get("life", 0)
        normal = inject.params.get("rate") == 1  # what a node traces as the end of another rate
        began = [it for it in own if (it.node, it.life) == key and (it.state != "lifted" or normal)]
        life = facts.lives.get(key)
        if life is None:
            continue  # not the node, but the file system under its disk has answered
        if not began:
            yield f"{who} is confirmed, and the trace of node {node} does not have it", [inject]
        elif (
            inject.do != "clock-jump"
            and life.last.t > end
            and not any((it.node, it.life) == key and it.state == "lifted" for it in own)
        ):
            yield f"{who} was healed, and the trace of node {node} does not have that", [inject, began[0]]


def by_node(fault: Fault) -> Iterator[tuple[int, dict[str, Any]]]:
    """Find the entries of a fault's evidence about single nodes."""
    found = evidence_of(fault)
    for part in (found, *(found.get(group) for group in GROUPS)):
        for node, shown in part.items() if isinstance(part, dict) else ():
            if str(node).isdigit():
                yield int(node), shown if isinstance(shown, dict) else {}


def _check_effect(facts: Facts, inject: Inject, heal: Heal) -> Iterator[Contradiction]:
    """Check that no process went on that was killed, and that none delivered anything while it was paused."""
    who = f"fault {inject.id} ({inject.do})"
    if _kills_at_once(inject):
        for node in inject.nodes:
            life = facts.nodes[node].life_at(inject.t)
            if life is not None and life.last.t > heal.t:
                yield f"{who}: node {node}, life {life.last.life}, was to be killed, but went on", [inject, life.last]
    elif inject.do == PAUSE and not _is_touched_meanwhile(facts, inject, heal, inject.nodes):
        for number in inject.nodes:
            times = facts.nodes[number].delivered_times
            within = times[bisect_right(times, inject.t) : bisect_left(times, heal.t)]
            silent = max(later - earlier for earlier, later in pairwise([inject.t, *within, heal.t]))
            # A process is stopped some time after the one and woken up some time before the other: containers take their time.
            if silent < (heal.t - inject.t) / 4:
                yield f"{who}: node {number} went on delivering while it was paused", [inject, heal]


def _check_awake(facts: Facts, inject: Inject, heal: Heal) -> Iterator[Contradiction]:
    """Check that no node that a fault had paused was awake before it was healed, unless another fault may have woken it."""
    awake = evidence_of(heal).get("awake")
    for node in awake if isinstance(awake, list) else ():
        if not _is_touched_meanwhile(facts, inject, heal, [node]):
            words = f"fault {inject.id} ({inject.do}): node {node} was awake before it was healed, and no fault had woken it"
            yield words, [inject, heal]


def _is_touched_meanwhile(facts: Facts, inject: Inject, heal: Heal, hit: Sequence[int]) -> bool:
    """Return whether another fault that hit one of these nodes began or ended while this one was active: it may have woken
    them."""
    others = (
        it for it in facts.faults_during(inject.t, heal.t) if it.id != inject.id and not {*hit}.isdisjoint(it.nodes)
    )
    return any(inject.t <= t <= heal.t for it in others for t in facts.span_of(it))


def _check_targets(inject: Inject, nodes: int) -> Iterator[Contradiction]:
    """Check that the fault's nodes, and those of its links, belong to the ensemble."""
    unknown = {*inject.nodes, *(node for pair in inject.pairs or () for node in pair)} - set(range(1, nodes + 1))
    if unknown:
        yield f"fault {inject.id} ({inject.do}) hit {node_names(sorted(unknown))} of {nodes}", [inject]


def _check_evidence(inject: Inject, line: Inject | Heal) -> Iterator[Contradiction]:
    """Check that the evidence of a fault is about the nodes and links that it hit."""
    who = f"the evidence of fault {inject.id} ({inject.do}) is of"
    evidence = evidence_of(line)
    denied = [f"not {name}" for name in TRUE_IF_CONFIRMED if evidence.get(name) is False]
    denied += [f"{name}: {evidence[name]}" for name in NOTHING_IF_CONFIRMED if evidence.get(name)]
    if line.confirmed and denied:
        yield f"fault {inject.id} ({inject.do}) is confirmed, but its evidence says that it is {denied[0]}", [line]
    others = {node for node, _ in by_node(line)} - set(inject.nodes)
    if others:
        yield f"{who} {node_names(sorted(others))}, and it hit {node_names(inject.nodes)}", [inject, line]
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
    """The process of one life. `until` is the time at which the next life of its node began."""

    boot: Boot
    life: Life
    until: int


class _Processes:
    """The processes that the traces name, by (node, pid).

    They are not known if the traces name none, and in containers, where a process has another pid for itself than for the
    harness.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        # By process: the first line that shows its end, and the exit status.
        self._dead: dict[tuple[int, Any], tuple[Line, Any]] = {}
        self._without_boot = {node for (node, _), life in facts.lives.items() if life.boot is None}
        lives = sorted(facts.lives.items(), reverse=True)
        self._processes: dict[tuple[int, Any], _Process] = {}
        next_boot: dict[int, int] = {}
        for (node, _), life in lives:
            if life.boot is not None:
                if life.boot.pid is not None:
                    self._processes[node, life.boot.pid] = _Process(life.boot, life, next_boot.get(node, FOREVER))
                next_boot[node] = life.boot.t
        self._known = bool(self._processes) and facts.run.backend != CONTAINERS

    def check_alive(self, inject: Inject, heal: Heal | None, line: Inject | Heal) -> Iterator[Contradiction]:
        """Check that each process in the evidence ran while the fault was active."""
        end = heal.t if heal is not None else FOREVER
        for node, shown in by_node(line) if self._known else ():
            pid = shown.get("pid")
            if pid is None:
                continue
            process = self._processes.get((node, pid))
            who = f"the evidence of fault {inject.id} ({inject.do}) names process {pid} of node {node}"
            if process is None and node not in self._without_boot:
                yield f"{who}, which had none of that number", [inject, line]
            elif process is not None and not (process.boot.t <= end and inject.t <= process.until):
                yield f"{who}, which did not run while the fault was there", [inject, line, process.boot]

    def check_exits(self, inject: Inject, line: Inject | Heal) -> Iterator[Contradiction]:
        """Check that all records agree on the exit status of each process that the fault ended."""
        for node, shown in ended_processes(line).items() if self._known else ():
            process = self._processes.get((node, shown.get("pid")))
            if process is None or shown["exit"] is None:
                continue
            earlier, status = self._dead.setdefault((node, shown["pid"]), (line, shown["exit"]))
            who = f"fault {inject.id} ({inject.do}) shows that process {shown['pid']} of node {node} ended with {shown['exit']}"
            if status != shown["exit"]:
                yield f"{who}, and it had ended with {status} before", [earlier, line]
            yield from self._check_own_records(who, line, process, shown["exit"])

    def _check_own_records(self, who: str, line: Line, process: _Process, status: Any) -> Iterator[Contradiction]:
        """Compare an exit status with what the harness and the process itself recorded."""
        ended = self._facts.ended.get((process.boot.node, process.boot.life))
        exit_ = process.life.exit
        if ended is not None and ended.code != status:
            yield f"{who}, but it had ended with {ended.code}", [line, ended]
        if self._facts.run.evidence != TRACES or not isinstance(status, int) or status < 0:
            return
        if exit_ is None:
            yield f"{who}, but its trace has no exit", [line, process.life.last]
        elif exit_.code != status:
            yield f"{who}, but its trace ends with {exit_.code}", [line, exit_]

    def unexplained_ends(self) -> Iterator[Contradiction]:
        """Find the lives that ended, with or without an exit, although no fault ended them, and those that went on after their
        exit."""
        facts = self._facts
        if facts.run.foreign or facts.run.outcome != "finished":
            return
        if WORKLOAD not in facts.milestones or facts.ended_by_force:
            return
        if facts.run.evidence == LOGS:  # these say nothing of how a server ended
            yield from self._ends_of_servers()
            return
        for (node, number), life in facts.lives.items():
            if life.exit is not None and life.last is not life.exit:
                yield f"node {node}, life {number}, went on after its exit", [life.exit, life.last]
            ended = facts.ended.get((node, number))
            if life.boot is None or (ended is not None and ended.armed is not False):
                continue
            if life.exit is not None:
                if self._ended_by_itself(life.boot, life.exit, ended):
                    words = f"node {node}, life {number}, ended with {life.exit.code}, and no fault made it: {life.exit.why}"
                    yield words, [life.exit, ended]
                continue
            if not ((node, life.boot.pid) in self._dead if self._known else facts.was_killed(node)):
                code = f" (it ended with {ended.code})" if ended is not None else ""
                yield f"node {node}, life {number}, has no exit, and nothing killed it{code}", [life.last, ended]

    def _ends_of_servers(self) -> Iterator[Contradiction]:
        """Find the ends of servers that neither damage of a disk nor a crash point explains, which may have been armed later
        than at the start."""
        for end in ended_by_themselves(self._facts):
            damages = (it for it in in_time(self._facts.injects, 0, end.t) if it.do in DISK_FAULTS)
            active = self._facts.faults_during(end.t - LATEST, end.t)
            crashes = (it for it in active if it.do == AT_POINT or it.params.get(AT_POINT) is not None)
            if not any(end.node in it.nodes for it in chain(damages, crashes)):
                yield f"{ending(end.node, end.code)}, and not because of a fault", [end]

    def _ended_by_itself(self, boot: Boot, exit_: Exit, ended: Milestone | None) -> bool:
        """Return whether a node ended for a reason that is neither a fault nor judged elsewhere.

        `ended`: the harness's record of it if the harness had not asked for it.
        """
        if exit_.code in JUDGED_EXITS or (exit_.code == 0 and ended is None):
            return False
        return exit_.code != DISK_EXIT or not any(
            inject.do in DISK_FAILURES
            and exit_.node in inject.nodes
            and boot.t <= self._facts.span_of(inject)[1]
            and exit_.t <= self._facts.span_of(inject)[1] + LATEST
            for inject in in_time(self._facts.injects, 0, exit_.t)
        )
