"""All kinds of fault by name: for validation, for `zab scenarios`, for the documentation."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from zab_chaos.faults import at_rest, clock, containers, crash_at, disk, links, partition, process, waiting
from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.kind import REQUIRED, Key, Kind
from zab_chaos.faults.scenario import FaultStep, Scenario

KINDS: dict[str, Kind] = {
    kind.name: kind
    for module in (process, waiting, crash_at, disk, at_rest, partition, links, clock, containers)
    for kind in module.KINDS
}


def missing_abilities(step: FaultStep, abilities: Collection[Ability]) -> list[tuple[str, Ability]]:
    """What of this fault can't be done with these abilities, and which one that would take."""
    kind = KINDS[step.do]
    lacking = [(kind.name, need) for need in sorted(kind.needs, key=lambda one: one.name) if need not in abilities]
    keys = [(f"{kind.name} with {key.name} = {step.params[key.name]}", key.needs) for key in _used(kind, step.params)]
    lacking += [(what, need) for what, need in keys if need is not None and need not in abilities]
    words = (step.target,) if isinstance(step.target, str) else step.target or ()
    if Ability.LEADER not in abilities:
        lacking += [(f"target = {word}", Ability.LEADER) for word in words if word in ("leader", "follower")]
    return lacking


def required_abilities(scenario: Scenario) -> frozenset[Ability]:
    """What all its faults take, whatever their keys say."""
    kinds = {*(step.do for step in scenario.faults), *(scenario.nemesis.faults if scenario.nemesis is not None else ())}
    return frozenset(need for kind in kinds for need in KINDS[kind].needs)


def reduced_to(step: FaultStep, abilities: Collection[Ability]) -> FaultStep:
    """A drawn fault, without those of its own keys that can't be done."""
    keys = {key.name: key.default for key in _used(KINDS[step.do], step.params) if key.needs not in (None, *abilities)}
    if "crash-at" in keys:
        keys["enough"] = "all"
    target = "one" if step.target in ("leader", "follower") and Ability.LEADER not in abilities else step.target
    return replace(step, target=target, params={**step.params, **keys})


def _used(kind: Kind, params: Mapping[str, Any]) -> list[Key]:
    """The keys whose values take an ability: as they say, or by saying something else than their default."""
    return [key for key in kind.keys if key.default is not REQUIRED and _needs_ability(key, params)]


def _needs_ability(key: Key, params: Mapping[str, Any]) -> bool:
    return key.needs_if(params) if key.needs_if is not None else params.get(key.name) != key.default


def describe_kinds() -> str:
    """A Markdown table of every kind of fault: what it does, its keys with defaults, its targets."""
    lines = ["| do | what it does | its keys | target |", "|---|---|---|---|"]
    for kind in KINDS.values():
        keys = "; ".join(
            f"`{key.name}` ({'required' if key.default is REQUIRED else f'default {_word(key.default)}'}): {key.doc}, "
            f"{key.rule.allowed}"
            for key in kind.keys
        )
        lines.append(f"| `{kind.name}` | {kind.doc} | {keys or '–'} | {', '.join(kind.target_words)}, node-N, lists |")
    return "\n".join(lines)


def _word(default: object) -> str:
    return "none" if default is None else str(default).lower() if isinstance(default, bool) else str(default)
