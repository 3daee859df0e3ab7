"""All kinds of fault by name: for validation, for `zab scenarios`, for the documentation."""

from zab_chaos.faults import at_rest, clock, containers, crash_at, disk, links, partition, process
from zab_chaos.faults.kind import REQUIRED, Kind
from zab_chaos.faults.scenario import Scenario

KINDS: dict[str, Kind] = {
    kind.name: kind
    for module in (process, crash_at, disk, at_rest, partition, links, clock, containers)
    for kind in module.KINDS
}


def impossible(scenario: Scenario, backend: str) -> list[str]:
    """The faults of a scenario that the backend can't inject, each with the backends that can; empty if there are none."""
    drawn = scenario.nemesis.faults if scenario.nemesis is not None else ()
    kinds = dict.fromkeys(KINDS[name] for name in (*(step.do for step in scenario.faults), *drawn))
    return [
        f"{kind.name} can't be done on {backend}; it can be done on {', '.join(kind.only_on)}"
        for kind in kinds
        if kind.only_on and backend not in kind.only_on
    ]


def describe_kinds() -> str:
    """A Markdown table of every kind of fault: what it does, its keys with defaults, its targets."""
    lines = ["| do | what it does | its keys | target |", "|---|---|---|---|"]
    for kind in KINDS.values():
        keys = "; ".join(
            f"`{key.name}` ({'required' if key.default is REQUIRED else f'default {_word(key.default)}'}): {key.doc}, "
            f"{key.rule.allowed}"
            for key in kind.keys
        )
        lines.append(f"| `{kind.name}` | {kind.doc} | {keys or '–'} | {', '.join(kind.words)}, node-N, lists |")
    return "\n".join(lines)


def _word(default: object) -> str:
    return "none" if default is None else str(default).lower() if isinstance(default, bool) else str(default)
