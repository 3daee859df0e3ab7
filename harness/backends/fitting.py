"""A scenario held against what a backend can do: what it asks for in vain, and how its defaults are fitted."""

import tomllib
from collections.abc import Iterator
from dataclasses import replace

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.crash_point_rule import DrawnPoint
from zab_chaos.faults.filesystem.mount import missing_requirement
from zab_chaos.faults.registry import KINDS, missing_abilities
from zab_chaos.faults.scenario import FaultStep, Nemesis, Scenario
from zab_chaos.harness.backends.backend import Backend
from zab_chaos.harness.backends.registry import ours
from zab_chaos.model.events import TRACES
from zab_chaos.model.oracle.properties import judged_by
from zab_chaos.node.crash_points import POINTS


def mistakes(backend: Backend, scenario: Scenario) -> list[str]:
    """What of this scenario the backend can't do, and why; empty if it can do all.

    What the scenario does not say itself is no mistake: `fitted` replaces it.
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
    """In words, with those of ours that can."""
    able = [other.name for other in ours() if need in other.abilities]
    there = f"; it can be done on {', '.join(able)}" if able else ""
    return f"{what} can't be done on {backend.name}{there} ({backend.name} has no {need.value})"


def fitted(backend: Backend, scenario: Scenario) -> Scenario:
    """The scenario with those of its defaults replaced that the backend can't do."""
    has = backend.abilities
    mix = {name: weight for name, weight in scenario.workload.mix.items() if name in backend.operations}
    return replace(
        scenario,
        disk=backend.disk(scenario),
        record=scenario.record and Ability.RECORDING in has,
        nemesis=_drawn(backend, scenario.nemesis),
        workload=scenario.workload if len(mix) == len(scenario.workload.mix) else replace(scenario.workload, mix=mix),
    )


def without_unsupported_faults(backend: Backend, drawn: Scenario) -> Scenario:
    """A drawn scenario without the faults that the backend can't do: nobody asked for them."""
    nemesis = drawn.nemesis
    if nemesis is None:
        return fitted(backend, drawn)
    faults = {name: weight for name, weight in nemesis.faults.items() if not any(_drawn_mistakes(backend, name))}
    drawn = fitted(backend, replace(drawn, nemesis=replace(nemesis, faults=faults)))
    return replace(drawn, source=drawn.to_toml())


def _drawn(backend: Backend, nemesis: Nemesis | None) -> Nemesis | None:
    """No point is drawn at which its nodes can't be made to end."""
    absent = [point for point in POINTS if point not in backend.points("crash")]
    if nemesis is None or not absent:
        return nemesis
    return replace(nemesis, points={**nemesis.points, **dict.fromkeys(absent, 0.0)})


def step_mistakes(backend: Backend, step: FaultStep) -> list[str]:
    """What of one fault the backend can't do."""
    lacking = [refusal(backend, what, need) for what, need in missing_abilities(step, backend.abilities)]
    return lacking or _points(backend, step)


def _points(backend: Backend, step: FaultStep) -> list[str]:
    """The points of a fault that nodes there do not have."""
    named = [step.params.get(key) for key in ("point", "crash-at")]
    known = backend.points(_action(step.do))
    there = ", ".join(known) or "none"
    return [
        f"{step.do} can't be done at {one} on {backend.name}; points there: {there}"
        for one in named
        if one is not None and not isinstance(one, DrawnPoint) and str(one).partition("#")[0] not in known
    ]


def _action(kind: str) -> str:
    """What happens at the point of a fault of this kind."""
    return kind.removesuffix("-at") if kind.endswith("-at") else "crash"


def _faults(backend: Backend, scenario: Scenario) -> Iterator[str]:
    for step in scenario.faults:
        yield from step_mistakes(backend, step)
    for name in scenario.nemesis.faults if scenario.nemesis is not None else ():
        yield from _drawn_mistakes(backend, name)


def _drawn_mistakes(backend: Backend, name: str) -> Iterator[str]:
    """Of a kind of fault that the nemesis may draw."""
    for need in sorted(KINDS[name].needs - backend.abilities, key=lambda one: one.name):
        yield refusal(backend, name, need)
    if name.endswith("-at") and Ability.CRASH_POINTS in backend.abilities and not backend.points(_action(name)):
        yield f"{name} can't be done on {backend.name}, whose nodes have no points for it"


def _tables(backend: Backend, scenario: Scenario) -> Iterator[str]:
    said = tomllib.loads(scenario.source)
    head = said.get("scenario", {})
    for what, asked, need in (
        ('disk = "faithful"', head.get("disk") == "faithful", Ability.UNSYNCED),
        ('disk = "fuse"', scenario.disk == "fuse", Ability.FILE_SYSTEM),
        ("record = true", head.get("record") is True, Ability.RECORDING),
        ("[[disk]]", bool(scenario.disks), Ability.FIRST_DISKS),
        ("[timing]", "timing" in said, Ability.TUNING),
        ("[limits]", "limits" in said, Ability.TUNING),
        ("[workload] sessions", scenario.workload.sessions > 0, Ability.SESSIONS),
        ("[workload] visits", scenario.workload.visits > 0, Ability.NEW_SESSIONS),
        ("[[operation]] anew", any(one.anew for one in scenario.operations), Ability.NEW_SESSIONS),
        ("[expect] state", bool(scenario.expect.state), Ability.FINAL_STATE),
    ):
        if asked and need not in backend.abilities:
            yield refusal(backend, what, need)
    asked_for = [*said.get("workload", {}).get("mix", ()), *(one.do for one in scenario.operations)]
    for name in dict.fromkeys(asked_for):
        if name not in backend.operations:
            yield f"{name} can't be asked for on {backend.name}; its clients know {', '.join(sorted(backend.operations))}"


def _machine(backend: Backend, scenario: Scenario) -> Iterator[str]:
    """What this machine lacks for a disk of ours."""
    lack = missing_requirement() if backend.disk(scenario) == "fuse" else None
    if lack is not None:
        why = "disk faults" if scenario.disk != "fuse" else 'disk = "fuse"'
        yield f"{why} on {backend.name} need a file system of our own, over FUSE, and {lack[0]}: {lack[1]}"


def _expectations(backend: Backend, scenario: Scenario) -> Iterator[str]:
    """A run can only be expected to violate what it is judged by."""
    expected = scenario.expect.violates
    judged = judged_by(backend.evidence)
    if expected is not None and backend.evidence != TRACES and expected not in judged:
        yield f"[expect] violates = {expected!r} can't be judged on {backend.name}; what can is {', '.join(judged)}"
    if scenario.expect.answered_within is not None and backend.evidence != TRACES:
        yield f"[expect] answered_within can't be judged on {backend.name}: when its nodes have a request is not known"
    if scenario.defect is not None and scenario.defect not in backend.defects:
        known = ", ".join(sorted(backend.defects)) or "none"
        yield f"the defect {scenario.defect!r} can't be built into the nodes on {backend.name}; known there: {known}"
