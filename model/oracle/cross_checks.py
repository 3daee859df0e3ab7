"""Cross-checks between the files of a run's folder. If two records of the same fact differ, a file was changed afterwards."""

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from zab_chaos.model.events import Boot, Line, Milestone, packed
from zab_chaos.model.oracle.evidence import node_names, show, zxid_range
from zab_chaos.model.oracle.facts import Facts
from zab_chaos.model.oracle.spans import FOREVER

Disagreement = tuple[str, Sequence[Line]]  # words, and the lines that show it
FAITHFUL = "faithful"  # the name of the disk that loses what was not synced


def disagreements(facts: Facts) -> Iterator[Disagreement]:
    """Find all disagreements in a run whose nodes have their own traces."""
    for life in facts.lives.values():
        if life.boot is not None:
            yield from _settings(life.boot, facts)
    yield from _times(facts)
    yield from _requested_nodes(facts)
    yield from _seed(facts)
    yield from _first_leader(facts)
    yield from _converged(facts)


def _settings(boot: Boot, facts: Facts) -> Iterator[Disagreement]:
    run = facts.run
    faithful = run.disk == FAITHFUL if run.disk is not UNSET else UNSET
    for name, traced, known in (
        ("nodes", boot.nodes, run.nodes),
        ("defect", boot.defect, run.defect),
        ("faithful", boot.faithful, faithful),
    ):
        if known is not UNSET and traced != known and (traced is not None or name == "defect"):
            words = f"node {boot.node}, life {boot.life}, started with {name} = {traced}, and run.json says {known}"
            yield words, [boot]


def _times(facts: Facts) -> Iterator[Disagreement]:
    """Check that the lives and the faults lie between the start and the end of the run."""
    started, stopped = facts.milestones.get("started"), facts.milestones.get("stopped")
    begin, end = started.t if started is not None else 0, stopped.t if stopped is not None else FOREVER
    lines: list[Line] = [*facts.injects, *facts.heals, *(life.last for life in facts.lives.values())]
    lines += [life.boot for life in facts.lives.values() if life.boot is not None]
    for line in lines:
        if not begin <= line.t <= end:
            yield f"{line.file}:{line.line} is outside the time between `started` and `stopped`", [line]


def _requested_nodes(facts: Facts) -> Iterator[Disagreement]:
    """Check that clients sent requests to nodes of this ensemble only."""
    known = {None, *range(1, facts.run.nodes + 1)}
    for invoke in (request.invoke for request in facts.requests.values()):
        if invoke.node not in known:
            yield f"ops.jsonl:{invoke.line} asks node {invoke.node} of {facts.run.nodes}", [invoke]


def _seed(facts: Facts) -> Iterator[Disagreement]:
    started, seed = facts.milestones.get("started"), facts.run.seed
    if started is not None and started.seed is not None and seed is not UNSET and started.seed != seed:
        yield f"the run started with the seed {started.seed}, and run.json says {seed}", [started]


def _first_leader(facts: Facts) -> Iterator[Disagreement]:
    first = facts.milestones.get("established")
    if first is None or first.leader is None or first.epoch is None:
        return
    if not any((it.node, it.epoch) == (first.leader, first.epoch) for it in facts.established):
        yield f"no trace shows that node {first.leader} was established for epoch {first.epoch}", [first]


def _converged(facts: Facts) -> Iterator[Disagreement]:
    """Check that all nodes were up when they converged, and that the zxid at which they did is one that they had delivered up
    to after the last fault. A late write may follow it."""
    since, converged = facts.milestones.get("safety-ended"), facts.milestones.get("converged")
    if converged is None or converged.zxid is None:
        return
    first, last = _last_delivered(since, facts) if since is not None else 0, _last_delivered(converged, facts)
    ended_later = {it.id for it in facts.nodes.values() if it.exit is not None and it.exit.t > converged.t}
    up = {node.id for node in facts.up_at_end()} | ended_later
    if down := sorted(set(range(1, facts.run.nodes + 1)) - up):
        yield f"the nodes converged, and {node_names(down)} had ended before", [converged]
    at = packed(converged.zxid)
    if not first <= at <= last and facts.history.forked_delivery(at) is None:
        words = f"the nodes converged at {show(converged.zxid)}, but what they had delivered ended at {zxid_range(first, last)}"
        yield words, [converged]


def _last_delivered(at: Milestone, facts: Facts) -> int:
    length = facts.history.length_at(at.t)
    return facts.history.zxids[length - 1] if length else 0
