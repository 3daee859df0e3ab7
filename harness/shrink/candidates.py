"""Candidates for a simpler scenario: fewer or simpler faults, operations, nodes and settings. See `harness/shrink/search.py`.

Every step takes what still fails and goes on from there; all steps are repeated until none of them finds anything more.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from msgspec import structs

from zab_chaos.faults.kind import REQUIRED
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import Expect, FaultStep, Operation, Scenario, Workload, overrides
from zab_chaos.harness.shrink.search import Search
from zab_chaos.harness.shrink.times import earlier, rounder, shorter
from zab_chaos.harness.workload.operations import load_parameters, written_operations
from zab_chaos.model.ddmin import ddmin
from zab_chaos.node.config import Limits, Timing

T = TypeVar("T")
Simpler = Callable[[Scenario], Iterator[Scenario]]  # candidates, the most wanted first

WRITTEN_MOST = 400  # operations that are written out, to be left out one by one
WRITTEN_KEPT = 60  # operations at most in a file; a load that needs more is better described by its rate
LONGER = (
    0.0,
    2.0,
)  # seconds: a drawn load goes on after the end until every fault has taken effect, a written one does not
RATES = (1, 2, 5, 10, 20, 50, 100, 200, 500)
COUNTS = (1, 2, 3, 4, 5, 10, 20)
SMALL_PAYLOAD = 16
DOWN = ("power-cut", "wipe", "disk-full", "disk-error", "stop", "crash-at")  # kinds of which the plain form is a crash


def shrink(search: Search, scenario: Scenario, on_step: Callable[[Scenario], None]) -> Scenario:
    """Find a scenario that still fails and can't be simplified further (unless the budget is used up).

    `scenario`: one that fails, with a fixed schedule. `on_step` is called with the result of every step.
    """
    while True:
        before = scenario
        for step in STEPS:
            scenario = step(search, scenario)
            on_step(scenario)
        if scenario == before or search.over:
            return scenario


def descend(simpler: Simpler) -> Callable[[Search, Scenario], Scenario]:
    """A step that takes the first failing candidate, again and again, until none fails."""

    def go(search: Search, scenario: Scenario) -> Scenario:
        while True:
            candidates = [one for one in simpler(scenario) if one != scenario]
            found = search.first(candidates)
            if found is None:
                return scenario
            scenario = candidates[found]

    return go


# ---- faults ----


def fewer_faults(search: Search, scenario: Scenario) -> Scenario:
    """Leave out faults, and what refers to their names."""
    kept = ddmin(scenario.faults, lambda lists: search.first([with_faults(scenario, one) for one in lists]))
    return with_faults(scenario, kept)


def with_faults(scenario: Scenario, steps: Sequence[FaultStep]) -> Scenario:
    """The scenario with these faults only, without faults and waits that refer to a removed one. An operation that was
    aimed at its nodes goes to whomever its client is connected to."""
    kept: list[FaultStep] = []
    answered = {one.name for one in scenario.operations}
    for step in steps:
        names = {one.name for one in kept if one.name is not None}
        if all(word in names for word in words_of(step) if word[:1].isupper()):
            kept.append(step if step.awaits in names | answered else replace(step, awaits=None))
    named = {step.name for step in kept}
    kept = [step if step.until in named else replace(step, until=None) for step in kept]
    return replace(scenario, faults=tuple(kept), operations=tuple(_freed(one, named) for one in scenario.operations))


def _freed(operation: Operation, named: Collection[str | None]) -> Operation:
    node = operation.node if isinstance(operation.node, int) or operation.node in named else None
    return structs.replace(operation, node=node, awaits=operation.awaits if operation.awaits in named else None)


def words_of(step: FaultStep) -> tuple[str, ...]:
    """The words of a fault's target."""
    return (step.target,) if isinstance(step.target, str) else step.target or ()


def plainer_faults(scenario: Scenario) -> Iterator[Scenario]:
    """Each fault as a plain crash, with fewer targets, with default keys, without an unused name."""
    used = {word for step in scenario.faults for word in (*words_of(step), step.awaits, step.until)}
    for index, step in enumerate(scenario.faults):
        for plainer in _plainer(step, used):
            yield replace(scenario, faults=(*scenario.faults[:index], plainer, *scenario.faults[index + 1 :]))


def _plainer(step: FaultStep, used: set[str | None]) -> Iterator[FaultStep]:
    if step.do in DOWN:
        yield replace(step, do="crash", params={})
    if step.name is not None and step.name not in used:
        yield replace(step, name=None)
    if step.awaits is not None:
        yield replace(step, awaits=None)
    if step.until is not None:
        yield replace(step, until=None)
    words = words_of(step)
    for word in words if len(words) > 1 else ():
        rest = tuple(other for other in words if other != word)
        yield replace(step, target=rest[0] if len(rest) == 1 else rest)
    yield from (replace(step, params={**step.params, **change}) for change in _plainer_params(step))


def _plainer_params(step: FaultStep) -> Iterator[dict[str, Any]]:
    """Simpler values of single keys: the default, an earlier crash point, fewer links."""
    for key in KINDS[step.do].keys:
        value = step.params.get(key.name)
        if key.default is not REQUIRED and value != key.default and key.name != "pairs":
            yield {key.name: key.default}
        if key.name in ("point", "crash-at") and isinstance(value, str) and "#" in value:
            point, count = value.rsplit("#", 1)
            yield {key.name: point}
            yield from ({key.name: f"{point}#{k}"} for k in COUNTS if k < int(count))
        if key.name == "pairs" and value is not None and len(value) > 1:
            yield from ({"pairs": tuple(other for other in value if other != pair)} for pair in value)


# ---- what the clients ask for ----


def lighter_load(scenario: Scenario) -> Iterator[Scenario]:
    """A lower rate, fewer clients and keys, a smaller payload, fewer kinds of operations."""
    work = scenario.workload
    changes: list[dict[str, Any]] = [{"timeout": Workload().timeout}]
    if scenario.operations:
        changes += [{"max_outstanding": Workload().max_outstanding}]
    else:
        changes += [{"rate": float(rate)} for rate in RATES if rate < work.rate]
        changes += [{"clients": count} for count in COUNTS if count < work.clients]
        changes += [{"keys": count} for count in COUNTS if count < work.keys]
        changes += [{"max_outstanding": Workload().max_outstanding}, {"mix": {"set": 1.0}}]
        changes += [{"mix": _without(work.mix, kind)} for kind in sorted(work.mix) if len(work.mix) > 1]
    if work.payload_bytes > SMALL_PAYLOAD:
        changes.append({"payload_bytes": SMALL_PAYLOAD})
    for change in changes:
        if any(getattr(work, name) != value for name, value in change.items()):
            yield replace(scenario, workload=replace(work, **change))


def _without(values: Mapping[str, T], left_out: str) -> dict[str, T]:
    return {name: value for name, value in values.items() if name != left_out}


def fewer_operations(search: Search, scenario: Scenario) -> Scenario:
    """Replace a light load by a list of operations, and leave out as many as possible."""
    written = scenario
    if not scenario.operations:
        candidates = [_written_out(scenario, longer) for longer in LONGER]
        found = search.first([one for one in candidates if len(one.operations) <= WRITTEN_MOST])
        if found is None:
            return scenario
        written = candidates[found]
    kept = ddmin(written.operations, lambda lists: search.first([with_operations(written, one) for one in lists]))
    return with_operations(written, kept) if 0 < len(kept) <= WRITTEN_KEPT else scenario


def _written_out(scenario: Scenario, longer: float) -> Scenario:
    duration = scenario.duration + longer
    written = written_operations(load_parameters(scenario), scenario.seed, duration)
    return with_operations(replace(scenario, duration=duration), written)


def with_operations(scenario: Scenario, operations: Sequence[Operation]) -> Scenario:
    """The scenario with these operations only. An empty list would mean a drawn load, so it becomes the slowest load.
    No fault awaits the answer to one that is gone."""
    work = scenario.workload
    gone = {one.name for one in scenario.operations} - {one.name for one in operations}
    faults = tuple(step if step.awaits not in gone else replace(step, awaits=None) for step in scenario.faults)
    if operations:
        work = replace(work, rate=Workload().rate, mix=Workload().mix)
    elif scenario.operations:
        work = replace(work, rate=0.1, mix={"set": 1.0})
    return replace(scenario, operations=tuple(operations), faults=faults, workload=work)


def plainer_operations(scenario: Scenario) -> Iterator[Scenario]:
    """Operations of one client and key, all at once or one by one, and no more clients and keys than are used."""
    operations = scenario.operations
    if not operations:
        return
    clients, keys = (max(getattr(one, name) for one in operations) for name in ("client", "key"))
    if (clients, keys + 1) != (scenario.workload.clients, scenario.workload.keys):
        yield replace(scenario, workload=replace(scenario.workload, clients=clients, keys=keys + 1))
    for change in ({"client": 1}, {"key": 0}, {"do": "set"}):
        yield from _with_each(scenario, change)


def _with_each(scenario: Scenario, change: Mapping[str, Any]) -> Iterator[Scenario]:
    """Apply the change to all operations, then to one at a time."""
    operations = scenario.operations
    changed = tuple(structs.replace(one, **change) for one in operations)
    if changed == operations:
        return
    yield replace(scenario, operations=changed)
    for index, (before, after) in enumerate(zip(operations, changed, strict=True)):
        if before != after:
            yield replace(scenario, operations=(*operations[:index], after, *operations[index + 1 :]))


# ---- the ensemble and its settings ----


def fewer_nodes(scenario: Scenario) -> Iterator[Scenario]:
    """A smaller ensemble, with the ids of named nodes unchanged, or else with the lowest ids in the same order."""
    named = sorted({node for step in scenario.faults for node in _named(step)})
    for nodes in range(1, scenario.nodes):
        if not named or named[-1] <= nodes:
            yield replace(scenario, nodes=nodes)
        elif len(named) <= nodes:
            ids = {node: index + 1 for index, node in enumerate(named)}
            yield replace(scenario, nodes=nodes, faults=tuple(_renumbered(step, ids) for step in scenario.faults))


def _named(step: FaultStep) -> set[int]:
    pairs = step.params.get("pairs") or ()
    ids = [word.removeprefix("node-") for word in words_of(step) if word.startswith("node-")]
    return {node for pair in pairs for node in pair} | set(map(int, ids))


def _renumbered(step: FaultStep, ids: Mapping[int, int]) -> FaultStep:
    def renamed(word: str) -> str:
        return f"node-{ids[int(word.removeprefix('node-'))]}" if word.startswith("node-") else word

    target = step.target
    if target is not None:
        target = renamed(target) if isinstance(target, str) else tuple(map(renamed, target))
    params = dict(step.params)
    if params.get("pairs"):
        params["pairs"] = tuple(sorted((ids[source], ids[to]) for source, to in params["pairs"]))
    return replace(step, target=target, params=params)


def default_settings(scenario: Scenario) -> Iterator[Scenario]:
    """Default timing, limits and expectations: all at once, or one by one."""
    expect = scenario.expect
    plain = Expect(verdict=expect.verdict, exit=expect.exit, min_acked=min(1, expect.min_acked))
    if expect != plain:
        yield replace(scenario, expect=plain)
        yield replace(scenario, expect=replace(expect, min_acked=plain.min_acked))
    timing, limits = overrides(scenario.timing), overrides(scenario.limits)
    if timing:
        yield replace(scenario, timing=Timing())
    if limits:
        yield replace(scenario, limits=Limits())
    yield from (replace(scenario, timing=Timing(**_without(timing, name))) for name in timing)
    yield from (replace(scenario, limits=Limits(**_without(limits, name))) for name in limits)


STEPS: tuple[Callable[[Search, Scenario], Scenario], ...] = (
    descend(shorter),  # first what makes every further try cheaper
    descend(lighter_load),
    descend(default_settings),
    fewer_faults,
    descend(fewer_nodes),
    fewer_operations,
    descend(plainer_operations),
    descend(plainer_faults),
    descend(earlier),
    descend(rounder),
)
