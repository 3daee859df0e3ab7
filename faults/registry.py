"""All kinds of fault by name, and which abilities of a backend they need."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from zab_chaos.faults import (
    at_rest,
    clock,
    containers,
    crash_at,
    disk,
    links,
    membership,
    partition,
    process,
    wait_step,
)
from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.kind import REQUIRED, Key, Kind
from zab_chaos.faults.scenario import FaultStep, Scenario
from zab_chaos.faults.targets import words_of

KINDS: dict[str, Kind] = {
    kind.name: kind
    for module in (process, wait_step, crash_at, disk, at_rest, partition, links, clock, containers, membership)
    for kind in module.KINDS
}
LED = ("leader", "follower")  # the targets that need a leader


def missing_abilities(step: FaultStep, abilities: Collection[Ability]) -> list[tuple[str, Ability]]:
    """Return the parts of a fault that can't be done with these abilities, each with the ability that it needs."""
    kind = KINDS[step.do]
    missing = [(kind.name, need) for need in sorted(kind.needs, key=lambda one: one.name) if need not in abilities]
    keys = [
        (f"{kind.name} with {key.name} = {step.params[key.name]}", key.needs)
        for key in _keys_that_need(kind, step.params)
    ]
    missing += [(what, need) for what, need in keys if need is not None and need not in abilities]
    if Ability.LEADER not in abilities:
        missing += [(f"target = {word}", Ability.LEADER) for word in words_of(step.target) if word in LED]
    return missing


def concerns_links(kind: str) -> bool:
    """Return whether this kind of fault concerns links, of which an ensemble of one node has none."""
    return Ability.LINKS in KINDS[kind].needs


def required_abilities(scenario: Scenario) -> frozenset[Ability]:
    """Return the abilities that the scenario's kinds of fault need, whatever the values of their keys."""
    return frozenset(need for kind in scenario.kinds for need in KINDS[kind].needs)


def reduced_to(step: FaultStep, abilities: Collection[Ability]) -> FaultStep:
    """Return a drawn fault in which keys and a target that can't be done with these abilities are replaced by defaults."""
    keys = {
        key.name: key.default
        for key in _keys_that_need(KINDS[step.do], step.params)
        if key.default is not REQUIRED and key.needs not in (None, *abilities)
    }
    if "crash-at" in keys:
        keys["enough"] = "all"
    target = "one" if step.target in LED and Ability.LEADER not in abilities else step.target
    return replace(step, target=target, params={**step.params, **keys})


def _keys_that_need(kind: Kind, params: Mapping[str, Any]) -> list[Key]:
    """Return the keys whose values may need an ability."""
    return [key for key in kind.keys if _needs_ability(key, params)]


def _needs_ability(key: Key, params: Mapping[str, Any]) -> bool:
    """Return whether the key's value needs an ability: by its `needs_if`, else if it is not the default."""
    return key.needs_if(params) if key.needs_if is not None else params.get(key.name) != key.default


def describe_kinds() -> str:
    """Return a Markdown table of all kinds of fault: what each does, its keys with defaults, its targets."""
    lines = ["| do | what it does | its keys | target |", "|---|---|---|---|"]
    for kind in KINDS.values():
        keys = "; ".join(
            f"`{key.name}` ({'required' if key.default is REQUIRED else f'default {_default_text(key.default)}'}): {key.doc}, "
            f"{key.rule.allowed}"
            for key in kind.keys
        )
        lines.append(f"| `{kind.name}` | {kind.doc} | {keys or '–'} | {', '.join(kind.target_words)}, node-N, lists |")
    return "\n".join(lines)


def _default_text(default: object) -> str:
    return "none" if default is None else str(default).lower() if isinstance(default, bool) else str(default)
