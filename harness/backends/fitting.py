"""Checks a scenario against the abilities of a backend, and fits its defaults to them."""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.crash_point_rule import DrawnPoint
from zab_chaos.faults.filesystem.mount import missing_requirement
from zab_chaos.faults.process import NEW, OLD
from zab_chaos.faults.registry import KINDS, missing_abilities
from zab_chaos.faults.scenario import LIST_MIX, LISTS, FaultStep, Nemesis, Scenario
from zab_chaos.harness.backends.backend import Backend, RunOptions
from zab_chaos.harness.backends.registry import ours
from zab_chaos.harness.backends.run_releases import release_of
from zab_chaos.harness.errors import BadInput, HarnessError, did_you_mean
from zab_chaos.harness.report.progress import Quiet
from zab_chaos.model.events import TRACES
from zab_chaos.model.oracle.fault_evidence import POINT_KEYS
from zab_chaos.model.oracle.properties import judged_by
from zab_chaos.node.config import Limits
from zab_chaos.node.crash_points import POINTS

KEYS: tuple[tuple[str, Ability, Callable[[Scenario, dict[str, Any]], object]], ...] = (
    # What a scenario may ask for apart from faults, the ability that it needs, and whether a scenario with these tables asks.
    ('disk = "faithful"', Ability.UNSYNCED, lambda _, tables: tables.get("scenario", {}).get("disk") == "faithful"),
    ('disk = "fuse"', Ability.FILE_SYSTEM, lambda scenario, _: scenario.disk == "fuse"),
    ("erratic_network = true", Ability.FRAMES, lambda scenario, _: scenario.erratic_network),
    ("observers", Ability.OBSERVERS, lambda scenario, _: scenario.observers),
    ("record = true", Ability.RECORDING, lambda _, tables: tables.get("scenario", {}).get("record") is True),
    ("[[disk]]", Ability.FIRST_DISKS, lambda scenario, _: scenario.disks),
    ("[timing]", Ability.TUNING, lambda _, tables: "timing" in tables),
    ("[limits]", Ability.TUNING, lambda _, tables: "limits" in tables),
    ("[workload] sessions", Ability.SESSIONS, lambda scenario, _: scenario.workload.sessions > 0),
    ("[workload] stalls", Ability.FRAMES, lambda scenario, _: scenario.workload.stalls > 0),
    ("[workload] visits", Ability.NEW_SESSIONS, lambda scenario, _: scenario.workload.visits > 0),
    ("[[operation]] anew", Ability.NEW_SESSIONS, lambda scenario, _: any(one.anew for one in scenario.operations)),
    ("[expect] state", Ability.FINAL_STATE, lambda scenario, _: scenario.expect.state),
)


def mistakes(backend: Backend, scenario: Scenario) -> list[str]:
    """Return what in this scenario the backend can't do, and why; empty if it can do everything.

    Only what the scenario states is a mistake. Defaults that the backend can't do are replaced by `fitted`.
    """
    return list(
        dict.fromkeys(
            [
                *_faults(backend, scenario),
                *_tables(backend, scenario),
                *_expectations(backend, scenario),
                *_machine(backend, scenario),
                *backend.mistakes(scenario),
            ]
        )
    )


def refusal(backend: Backend, what: str, need: Ability) -> str:
    """Return a message that `what` can't be done on the backend, with the names of our backends that can do it."""
    able = [other.name for other in ours() if need in other.abilities]
    return f"{_not_here(backend, what, able)} ({backend.name} has no {need.value})"


def _not_here(backend: Backend, what: str, able: Sequence[str]) -> str:
    elsewhere = f"; it can be done on {', '.join(able)}" if able else ""
    return f"{what} can't be done on {backend.name}{elsewhere}"


def fitted(backend: Backend, scenario: Scenario) -> Scenario:
    """Return the scenario with those defaults replaced that the backend can't do."""
    has = backend.abilities
    mix = {name: weight for name, weight in scenario.workload.mix.items() if name in backend.operations}
    mix = mix or {name: weight for name, weight in LIST_MIX.items() if name in backend.operations}
    return replace(
        scenario,
        disk=backend.disk(scenario),
        record=scenario.record and Ability.RECORDING in has,
        nemesis=_fitted_nemesis(backend, scenario.nemesis),
        workload=scenario.workload
        if mix.keys() == scenario.workload.mix.keys()
        else replace(scenario.workload, mix=mix),
    )


def without_unsupported(backend: Backend, drawn: Scenario) -> Scenario:
    """Return a drawn scenario without what the backend can't do. Nobody has asked for that.

    Queues to peers are not short on real sockets: a frame lies in them for as long as the machine is busy, and with room for
    one frame or two an ensemble without any fault closes its sessions all the time.
    """
    if Ability.FRAMES not in backend.abilities:
        limits = msgspec.structs.replace(drawn.limits, queue_frames=Limits().queue_frames)
        workload = replace(drawn.workload, stalls=0.0)
        drawn = replace(drawn, erratic_network=False, workload=workload, limits=limits)
    if (nemesis := drawn.nemesis) is not None:
        faults = {
            name: weight
            for name, weight in nemesis.faults.items()
            if not any(_kind_mistakes(backend, name, nemesis.points))
        }
        drawn = replace(drawn, nemesis=replace(nemesis, faults=faults))
    steps = tuple(step for step in drawn.faults if not step_mistakes(backend, step))
    drawn = fitted(backend, replace(drawn, faults=steps))
    return replace(drawn, source=drawn.to_toml())


def _fitted_nemesis(backend: Backend, nemesis: Nemesis | None) -> Nemesis | None:
    """Return the nemesis with weight 0 for the crash points that the backend's nodes do not have."""
    absent = [point for point in POINTS if point not in backend.points("crash")]
    if nemesis is None or not absent:
        return nemesis
    return replace(nemesis, points={**nemesis.points, **dict.fromkeys(absent, 0.0)})


def step_mistakes(backend: Backend, step: FaultStep) -> list[str]:
    """Return what of one fault the backend can't do, in words."""
    lacking = [refusal(backend, what, need) for what, need in missing_abilities(step, backend.abilities)]
    return lacking or [*_point_mistakes(backend, step), *_release_mistakes(backend, step)]


def _release_mistakes(backend: Backend, step: FaultStep) -> list[str]:
    """Return a message if a fault names a release that the backend's nodes can't have."""
    word = release_of(step)
    if word in (None, OLD, NEW):
        return []
    try:
        backend.release(str(word))
    except BadInput as error:
        hint = did_you_mean(str(word), (OLD, NEW), f"{OLD} and {NEW}, the releases of the run, are allowed too.")
        return [f"{step.do} with release = {word}: {error} {hint}"]
    return []


def preparation_mistakes(backend: Backend, scenario: Scenario, options: RunOptions, step: FaultStep) -> list[str]:
    """Return why nodes that run already can't have a fault with the release that it names. It is looked for, and fetched if
    need be: with a scenario file that would have been done before the start."""
    if release_of(step) is None:
        return []
    try:
        backend.prepare(replace(scenario, faults=(step,)), options, Quiet())
    except (BadInput, HarnessError) as error:
        return [f"{step.do} with release = {release_of(step)}: {error}"]
    return []


def disk_mistakes(backend: Backend, scenario: Scenario, step: FaultStep) -> list[str]:
    """Return why nodes that run already, on the scenario's disk, can't have a fault: in a scenario file it would have been
    known before the start that they need another disk."""
    needed = backend.disk(replace(scenario, faults=(step,)))
    if needed == scenario.disk:
        return []
    return [
        f"{step.do} needs a disk that can do it: start the ensemble with --disk {needed}, in Python with disk={needed!r}, in "
        f"pytest with @pytest.mark.zab(disk={needed!r})"
    ]


def _point_mistakes(backend: Backend, step: FaultStep) -> list[str]:
    """Return a message for each point of a fault that the backend's nodes do not have."""
    named = [step.params.get(key) for key in POINT_KEYS]
    known = backend.points(_action(step.do))
    wrong = [
        one
        for one in named
        if one is not None and not isinstance(one, DrawnPoint) and str(one).partition("#")[0] not in known
    ]
    if wrong and not known:
        able = [other.name for other in ours() if other.points(_action(step.do))]
        return [_not_here(backend, f"{_action(step.do)}-at", able)]
    points = ", ".join(known)
    return [f"{step.do} can't be done at {one} on {backend.name}; points there: {points}" for one in wrong]


def _action(kind: str) -> str:
    """Return what a fault of this kind does at its point: `pause`, `fail` or `crash`."""
    return kind.removesuffix("-at") if kind.endswith("-at") else "crash"


def _faults(backend: Backend, scenario: Scenario) -> Iterator[str]:
    for step in scenario.faults:
        yield from step_mistakes(backend, step)
    if (nemesis := scenario.nemesis) is not None:
        for name in nemesis.faults:
            yield from _kind_mistakes(backend, name, nemesis.points)


def _kind_mistakes(backend: Backend, name: str, weights: Mapping[str, float]) -> Iterator[str]:
    """Yield why a kind of fault that the nemesis may draw can't be done. `weights`: of crash points; 1 for points not in it."""
    for need in sorted(KINDS[name].needs - backend.abilities, key=lambda one: one.name):
        yield refusal(backend, name, need)
    if Ability.CRASH_POINTS not in backend.abilities or not any(key.name in POINT_KEYS for key in KINDS[name].keys):
        return
    known = backend.points(_action(name))
    if not known:
        yield f"{name} can't be done on {backend.name}, whose nodes have no points for it"
    elif not any(weights.get(one, 1.0) for one in known):
        allowed = ", ".join(known)
        yield f"{name} can't be drawn: [nemesis] points gives weight 0 to all its points on {backend.name}: {allowed}"


def _tables(backend: Backend, scenario: Scenario) -> Iterator[str]:
    """Yield what the scenario's tables ask for and the backend can't do, apart from faults."""
    tables = tomllib.loads(scenario.source)
    for what, need, asks in KEYS:
        if need not in backend.abilities and asks(scenario, tables):
            yield refusal(backend, what, need)
    asked_for = [*tables.get("workload", {}).get("mix", ()), *(one.do for one in scenario.operations)]
    for name in dict.fromkeys(asked_for):
        if name not in backend.operations:
            yield f"{name} can't be asked for on {backend.name}; its clients know {', '.join(sorted(backend.operations))}"
    if backend.opaque_versions and any(one.version is not None for one in scenario.operations):
        yield f"[[operation]] version can't be given on {backend.name}: its versions are not known before it has answered"


def require_disk(backend: Backend, scenario: Scenario, disk: str | None) -> None:
    """Raise BadInput if the user has asked for a disk that the scenario's nodes do not get on the backend."""
    has = backend.disk(scenario)
    if disk not in (None, has):
        raise BadInput(
            f'--disk {disk} can\'t be had on {backend.name}: for this scenario its nodes have disk = "{has}"'
        )


def _machine(backend: Backend, scenario: Scenario) -> Iterator[str]:
    """Yield what this machine lacks for a mounted file system, if the scenario's nodes need one."""
    lack = missing_requirement(extra=backend.mounts_extra) if backend.disk(scenario) == "fuse" else None
    if lack is not None:
        why, needs = ("disk faults", "need") if scenario.disk != "fuse" else ('disk = "fuse"', "needs")
        yield f"{why} on {backend.name} {needs} a file system of our own, over FUSE, and {lack[0]}: {lack[1]}"


def _expectations(backend: Backend, scenario: Scenario) -> Iterator[str]:
    """Yield the expectations that can't be judged on the backend, and a defect that it does not know."""
    expected, level = scenario.expect.violates, scenario.expect.isolation
    judged = judged_by(backend.evidence)
    if expected is not None and backend.evidence != TRACES and expected not in judged:
        yield f"[expect] violates = {expected!r} can't be judged on {backend.name}; what can is {', '.join(judged)}"
    if scenario.expect.answered_within is not None and backend.evidence != TRACES:
        yield f"[expect] answered_within can't be judged on {backend.name}: when its nodes have a request is not known"
    if level is not None and not backend.operations & {*LISTS}:
        yield (
            f"[expect] isolation = {level!r} can't be judged on {backend.name}: its clients have no transactions on lists, "
            f"which are {' and '.join(LISTS)}"
        )
    if scenario.defect is not None and scenario.defect not in backend.defects:
        known = ", ".join(sorted(backend.defects)) or "none"
        yield f"the defect {scenario.defect!r} can't be built into the nodes on {backend.name}; known there: {known}"
