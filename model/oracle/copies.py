"""What a run's folder tells more than once, or in an order: if that does not fit, somebody has changed something."""

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from zab_chaos.model.events import Boot, Line, Milestone, packed
from zab_chaos.model.oracle.evidence import show, span
from zab_chaos.model.oracle.facts import Facts
from zab_chaos.model.oracle.spans import FOREVER

Disagreement = tuple[str, Sequence[Line]]  # words, and the lines that show it
FAITHFUL = "faithful"  # the name of the disk that loses what was not synced


def disagreements(facts: Facts) -> Iterator[Disagreement]:
    """Everything that does not fit, in a run of nodes with traces of their own."""
    for life in facts.lives.values():
        if life.boot is not None:
            yield from _settings(life.boot, facts)
    yield from _in_time(facts)
    yield from _asked(facts)
    yield from _seed(facts)
    yield from _first_leader(facts)
    yield from _converged(facts)


def _settings(boot: Boot, facts: Facts) -> Iterator[Disagreement]:
    run = facts.run
    faithful = run.disk == FAITHFUL if run.disk is not UNSET else UNSET
    for name, told, known in (
        ("nodes", boot.nodes, run.nodes),
        ("defect", boot.defect, run.defect),
        ("faithful", boot.faithful, faithful),
    ):
        if known is not UNSET and told != known and (told is not None or name == "defect"):
            words = f"node {boot.node}, life {boot.life}, started with {name} = {told}, and run.json says {known}"
            yield words, [boot]


def _in_time(facts: Facts) -> Iterator[Disagreement]:
    """The nodes lived, and the faults came, while the run went on."""
    started, stopped = facts.milestones.get("started"), facts.milestones.get("stopped")
    begin, end = started.t if started is not None else 0, stopped.t if stopped is not None else FOREVER
    lines: list[Line] = [*facts.injects, *facts.heals, *(life.last for life in facts.lives.values())]
    lines += [life.boot for life in facts.lives.values() if life.boot is not None]
    for line in lines:
        if not begin <= line.t <= end:
            yield f"{line.file}:{line.line} is not of the time between `started` and `stopped`", [line]


def _asked(facts: Facts) -> Iterator[Disagreement]:
    """Clients asked nodes of this ensemble."""
    known = {None, *range(1, facts.run.nodes + 1)}
    for invoke in (request.invoke for request in facts.requests.values()):
        if invoke.node not in known:
            yield f"ops.jsonl:{invoke.line} asks node {invoke.node} of {facts.run.nodes}", [invoke]


def _seed(facts: Facts) -> Iterator[Disagreement]:
    started, seed = facts.milestones.get("started"), facts.run.seed
    if started is not None and started.seed is not None and seed is not UNSET and started.seed != seed:
        yield f"the run started with the seed {started.seed}, and run.json says {seed}", [started]


def _first_leader(facts: Facts) -> Iterator[Disagreement]:
    told = facts.milestones.get("established")
    if told is None or told.leader is None or told.epoch is None:
        return
    if not any((it.node, it.epoch) == (told.leader, told.epoch) for it in facts.established):
        yield f"no trace shows that node {told.leader} was established for epoch {told.epoch}", [told]


def _converged(facts: Facts) -> Iterator[Disagreement]:
    """Where the nodes came together is where they were at some time after the faults; a late write may have come behind it."""
    since, told = facts.milestones.get("safety-ended"), facts.milestones.get("converged")
    if told is None or told.zxid is None:
        return
    first, last = _last(since, facts) if since is not None else 0, _last(told, facts)
    if not first <= packed(told.zxid) <= last:
        words = f"the nodes converged at {show(told.zxid)}, but what they had delivered ended at {span(first, last)}"
        yield words, [told]


def _last(at: Milestone, facts: Facts) -> int:
    length = facts.ledger.length_at(at.t)
    return facts.ledger.zxids[length - 1] if length else 0
