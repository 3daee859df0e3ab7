"""The steps of shrinking: each proposes candidates, scenarios with fewer or simpler faults, operations, nodes and settings.

`harness/shrink/search.py` tries the candidates. A step goes on from a candidate that still fails. All steps are repeated until
none of them finds a simpler scenario.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

from msgspec import structs

from zab_chaos.faults.kind import REQUIRED
from zab_chaos.faults.registry import KINDS, concerns_links
from zab_chaos.faults.scenario import Expect, FaultStep, InitialDisk, Operation, Scenario, Workload, overrides
from zab_chaos.faults.targets import words_of
from zab_chaos.harness.shrink.search import Search
from zab_chaos.harness.shrink.times import DURATION_MIN, earlier, ended, just_after, rounder, shorter
from zab_chaos.harness.workload.operations import load_parameters, written_operations
from zab_chaos.model.ddmin import ddmin
from zab_chaos.model.oracle.fault_evidence import POINT_KEYS
from zab_chaos.node.config import Limits, Timing

T = TypeVar("T")
Simpler = Callable[[Scenario], Iterator[Scenario]]  # yields candidates, the best first

WRITTEN_OUT_MAX = 400  # operations: a larger load is not written out as a list
LISTED_MAX = 60  # operations in the result: a load that needs more is better described by its rate
# Seconds that are added to the duration of a load that is written out. A drawn load goes on after its end until every fault
# has taken effect; a list of operations does not.
EXTRA_SECONDS = (0.0, 2.0)
RATES = (0.1, 1, 2, 5, 10, 20, 50, 100, 200, 500)
COUNTS = (1, 2, 3, 4, 5, 10, 20)
SMALL_PAYLOAD = 16
# What only a drawn load has: the default values, and those of the slowest load.
DRAWN_ONLY: Mapping[str, Any] = {
    name: getattr(Workload(), name) for name in ("rate", "mix", "burst", "moves", "visits")
}
SLOWEST: Mapping[str, Any] = {**DRAWN_ONLY, "rate": RATES[0], "mix": {"set": 1.0}}
# A plain crash may replace these.
LIKE_CRASH = ("power-cut", "wipe", "disk-full", "disk-error", "stop", "upgrade", "crash-at")


def shrink(search: Search, scenario: Scenario, on_step: Callable[[Scenario], None]) -> Scenario:
    """Return a scenario that still fails and that no step can simplify, or the simplest so far when the budget is used up.

    `scenario` fails and has a fixed schedule. `on_step` is called with the result of every step.
    """
    scenario = until_failed(search, scenario)
    while True:
        before = scenario
        for step in STEPS:
            scenario = until_failed(search, step(search, scenario))
            on_step(scenario)
        if scenario == before or search.budget.used_up:
            return scenario


def descend(simpler: Simpler) -> Callable[[Search, Scenario], Scenario]:
    """Return a step that replaces the scenario by its first failing candidate until no candidate fails."""

    def step(search: Search, scenario: Scenario) -> Scenario:
        while True:
            candidates = [one for one in simpler(scenario) if one != scenario]
            found = search.first_failing(candidates)
            if found is None:
                return scenario
            scenario = candidates[found]

    return step


# ---- large steps that cost little ----


def smallest(search: Search, scenario: Scenario) -> Scenario:
    """Try the smallest scenarios: those without a fault, the shortest first, with the slowest load and with its own."""
    bare = with_faults(scenario, ())
    slowest = replace(
        with_operations(bare, ()), workload=replace(bare.workload, **SLOWEST, clients=1, keys=1, sessions=0)
    )
    ends = [DURATION_MIN, just_after(search.failed_at(scenario)), scenario.duration]
    shortened = (ended(base, end) for end in ends for base in (slowest, bare))
    candidates = [one for one in shortened if one is not None and one != scenario]
    found = search.first_failing(candidates)
    return scenario if found is None else candidates[found]


def until_failed(search: Search, scenario: Scenario) -> Scenario:
    """End the load just after the moment at which the scenario fails, again and again, because that moment may change."""
    while (end := just_after(search.failed_at(scenario))) < scenario.duration:
        candidate = ended(scenario, end)
        if candidate is None or search.first_failing([candidate]) is None:
            break
        scenario = candidate
    return scenario


# ---- faults ----


def fewer_faults(search: Search, scenario: Scenario) -> Scenario:
    """Leave out as many faults as possible, with everything that refers to their names."""
    kept = ddmin(scenario.faults, lambda lists: search.first_failing([with_faults(scenario, one) for one in lists]))
    return with_faults(scenario, kept)


def half_the_faults(scenario: Scenario) -> Iterator[Scenario]:
    """Yield candidates with one half of the faults, then with three quarters of them."""
    faults = scenario.faults
    for parts in (2, 4) if len(faults) > 2 else ():
        bounds = [len(faults) * part // parts for part in range(parts + 1)]
        yield from (with_faults(scenario, faults[:begin] + faults[end:]) for begin, end in pairwise(bounds))


def with_faults(scenario: Scenario, steps: Sequence[FaultStep]) -> Scenario:
    """Return the scenario with these faults only, without the faults and waits that refer to a removed fault.

    An operation that was aimed at a removed fault's nodes goes to the node that its client is connected to.
    """
    kept: list[FaultStep] = []
    answered = {one.name for one in scenario.operations}
    for step in steps:
        names = {one.name for one in kept if one.name is not None}
        if all(word in names for word in words_of(step.target) if word[:1].isupper()):
            kept.append(step if step.awaits in names | answered else replace(step, awaits=None))
    named = {step.name for step in kept}
    kept = [step if step.until in named else replace(step, until=None) for step in kept]
    operations = tuple(_without_unknown_names(one, named) for one in scenario.operations)
    return replace(scenario, faults=tuple(kept), operations=operations)


def _without_unknown_names(operation: Operation, named: Collection[str | None]) -> Operation:
    node = operation.node if isinstance(operation.node, int) or operation.node in named else None
    return structs.replace(operation, node=node, awaits=operation.awaits if operation.awaits in named else None)


def plainer_faults(scenario: Scenario) -> Iterator[Scenario]:
    """Yield candidates with one fault simplified: a plain crash, fewer targets, default keys, or no unused name."""
    used = {word for step in scenario.faults for word in (*words_of(step.target), step.awaits, step.until)}
    for index, step in enumerate(scenario.faults):
        for plainer in _plainer_fault(step, used):
            yield replace(scenario, faults=(*scenario.faults[:index], plainer, *scenario.faults[index + 1 :]))


def _plainer_fault(step: FaultStep, used: set[str | None]) -> Iterator[FaultStep]:
    if step.do in LIKE_CRASH:
        yield replace(step, do="crash", params={})
    if step.name is not None and step.name not in used:
        yield replace(step, name=None)
    if step.awaits is not None:
        yield replace(step, awaits=None)
    if step.until is not None:
        yield replace(step, until=None)
    words = words_of(step.target)
    for word in words if len(words) > 1 else ():
        rest = tuple(other for other in words if other != word)
        yield replace(step, target=rest[0] if len(rest) == 1 else rest)
    yield from (replace(step, params={**step.params, **change}) for change in _plainer_params(step))


def _plainer_params(step: FaultStep) -> Iterator[dict[str, Any]]:
    """Yield simpler values of single keys: the default, an earlier crash point, or fewer links."""
    for key in KINDS[step.do].keys:
        value = step.params.get(key.name)
        if key.default is not REQUIRED and value != key.default and key.name != "pairs":
            yield {key.name: key.default}
        if key.name in POINT_KEYS and isinstance(value, str) and "#" in value:
            point, count = value.rsplit("#", 1)
            yield {key.name: point}
            yield from ({key.name: f"{point}#{k}"} for k in COUNTS if k < int(count))
        if key.name == "pairs" and value is not None and len(value) > 1:
            yield from ({"pairs": tuple(other for other in value if other != pair)} for pair in value)


# ---- the load ----


def lighter_load(scenario: Scenario) -> Iterator[Scenario]:
    """Yield candidates with a lower rate, fewer clients or keys, a smaller payload, or only one kind of operations."""
    work = scenario.workload
    changes: list[dict[str, Any]] = [{"timeout": Workload().timeout}, {"sessions": 0}]
    if scenario.operations:
        changes += [{"max_outstanding": Workload().max_outstanding}]
    else:
        changes.insert(0, {**SLOWEST, "clients": 1, "keys": 1, "sessions": 0})
        changes += [{"rate": float(rate)} for rate in RATES if rate < work.rate]
        changes += [{name: DRAWN_ONLY[name]} for name in ("burst", "moves", "visits")]
        changes += [{"clients": count} for count in COUNTS if count < work.clients]
        changes += [{"keys": count} for count in COUNTS if count < work.keys]
        changes += [{"max_outstanding": Workload().max_outstanding}, {"mix": {"set": 1.0}}]
    if work.payload_bytes > SMALL_PAYLOAD:
        changes.append({"payload_bytes": SMALL_PAYLOAD})
    for change in changes:
        if any(getattr(work, name) != value for name, value in change.items()):
            yield replace(scenario, workload=replace(work, **change))


def fewer_kinds(scenario: Scenario) -> Iterator[Scenario]:
    """Yield candidates of a drawn load without one kind of operations."""
    work = scenario.workload
    for kind in sorted(work.mix) if len(work.mix) > 1 and not scenario.operations else ():
        yield replace(scenario, workload=replace(work, mix=_without(work.mix, kind)))


def _without(values: Mapping[str, T], left_out: str) -> dict[str, T]:
    return {name: value for name, value in values.items() if name != left_out}


def fewer_operations(search: Search, scenario: Scenario) -> Scenario:
    """Replace a light load by a list of operations, and leave out as many of them as possible.

    If none is needed, the slowest load remains.
    """
    written = scenario
    if not scenario.operations:
        if all(getattr(scenario.workload, name) == value for name, value in SLOWEST.items()):
            return scenario
        candidates = [_with_written_load(scenario, seconds) for seconds in EXTRA_SECONDS]
        found = search.first_failing([one for one in candidates if len(one.operations) <= WRITTEN_OUT_MAX])
        if found is None:
            return scenario
        written = candidates[found]
    kept = ddmin(
        written.operations, lambda lists: search.first_failing([with_operations(written, one) for one in lists])
    )
    return with_operations(written, kept) if len(kept) <= LISTED_MAX else scenario


def _with_written_load(scenario: Scenario, extra_seconds: float) -> Scenario:
    duration = scenario.duration + extra_seconds
    written = written_operations(load_parameters(scenario), scenario.seed, duration)
    return with_operations(replace(scenario, duration=duration), written)


def with_operations(scenario: Scenario, operations: Sequence[Operation]) -> Scenario:
    """Return the scenario with these operations only; no fault waits for the answer to a removed one.

    An empty list would mean a drawn load, so it becomes the slowest load instead.
    """
    work = scenario.workload
    removed = {one.name for one in scenario.operations} - {one.name for one in operations}
    faults = tuple(step if step.awaits not in removed else replace(step, awaits=None) for step in scenario.faults)
    if operations:
        work = replace(work, **DRAWN_ONLY)
    elif scenario.operations:
        work = replace(work, **SLOWEST)
    return replace(scenario, operations=tuple(operations), faults=faults, workload=work)


def plainer_operations(scenario: Scenario) -> Iterator[Scenario]:
    """Yield candidates without unused clients and keys, and with operations of one client, key or kind (all or one by one).

    The same for conditions on versions, chosen nodes and new sessions, which are left out.
    """
    operations = scenario.operations
    if not operations:
        return
    clients, keys = (max(getattr(one, name) for one in operations) for name in ("client", "key"))
    if (clients, keys + 1) != (scenario.workload.clients, scenario.workload.keys):
        yield replace(scenario, workload=replace(scenario.workload, clients=clients, keys=keys + 1))
    for change in ({"node": None}, {"anew": False}, {"version": None}, {"client": 1}, {"key": 0}, {"do": "set"}):
        yield from _with_each(scenario, change)


def _with_each(scenario: Scenario, change: Mapping[str, Any]) -> Iterator[Scenario]:
    """Yield the scenario with the change in all operations, then with the change in one operation at a time."""
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
    """Yield candidates with fewer nodes.

    Nodes that faults name keep their ids or, if these are too large, get the lowest ids in order. The disks and clients of
    removed nodes are removed or go to other nodes. A single node has no links, so the faults of links are left out with them.
    """
    named = sorted({node for step in scenario.faults for node in _named(step)})
    for nodes in range(1, scenario.nodes):
        ids = {node: node for node in range(1, nodes + 1)}
        if named and nodes < named[-1]:
            if nodes < len(named):
                continue
            ids = {node: index + 1 for index, node in enumerate(named)}
        fewer = replace(
            scenario,
            nodes=nodes,
            observers=min(scenario.observers, nodes - 1),
            faults=tuple(_renumbered(step, ids) for step in scenario.faults),
            disks=tuple(replace(disk, node=ids[disk.node]) for disk in scenario.disks if disk.node in ids),
            operations=tuple(
                structs.replace(one, node=ids.get(one.node)) if isinstance(one.node, int) else one
                for one in scenario.operations
            ),
        )
        yield fewer if nodes > 1 else with_faults(fewer, [one for one in fewer.faults if not concerns_links(one.do)])


def _named(step: FaultStep) -> set[int]:
    pairs = step.params.get("pairs") or ()
    ids = [word.removeprefix("node-") for word in words_of(step.target) if word.startswith("node-")]
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
    """Yield candidates with default timing, limits and expectations: all at once, or one by one."""
    expect = scenario.expect
    fewest = min(1, expect.min_acked)
    plain = Expect(verdict=expect.verdict, exit=expect.exit, min_acked=fewest, isolation=expect.isolation)
    if expect != plain:
        yield replace(scenario, expect=plain)
        yield replace(scenario, expect=replace(expect, min_acked=plain.min_acked))
    if scenario.crash_states:
        yield replace(scenario, crash_states=False)
    if scenario.erratic_network:
        yield replace(scenario, erratic_network=False)
    if scenario.workload.stalls:
        yield replace(scenario, workload=replace(scenario.workload, stalls=0.0))
    timing, limits = overrides(scenario.timing), overrides(scenario.limits)
    if timing:
        yield replace(scenario, timing=Timing())
    if limits:
        yield replace(scenario, limits=Limits())
    yield from (replace(scenario, timing=Timing(**_without(timing, name))) for name in timing)
    yield from (replace(scenario, limits=Limits(**_without(limits, name))) for name in limits)


def plainer_disks(scenario: Scenario) -> Iterator[Scenario]:
    """Yield candidates with empty disks at the start (all or one by one), or with a shorter log on one."""
    if scenario.disks:
        yield replace(scenario, disks=())
    for index, disk in enumerate(scenario.disks):
        before, after = scenario.disks[:index], scenario.disks[index + 1 :]
        yield replace(scenario, disks=(*before, *after))
        yield from (replace(scenario, disks=(*before, one, *after)) for one in _plainer_disk(disk))


def _plainer_disk(disk: InitialDisk) -> Iterator[InitialDisk]:
    if disk.log:
        yield replace(disk, log=())
        yield replace(disk, log=disk.log[:-1])
    if disk.accepted_epoch > disk.current_epoch:
        yield replace(disk, accepted_epoch=disk.current_epoch)


STEPS: tuple[Callable[[Search, Scenario], Scenario], ...] = (
    smallest,  # the steps that make every further try cheaper come first
    descend(half_the_faults),
    descend(fewer_nodes),
    descend(lighter_load),
    descend(shorter),
    descend(default_settings),
    fewer_faults,
    descend(fewer_nodes),
    descend(plainer_disks),
    fewer_operations,
    descend(fewer_kinds),
    descend(plainer_operations),
    descend(plainer_faults),
    descend(earlier),
    descend(rounder),
)
