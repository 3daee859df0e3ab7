"""A scenario written as TOML, so that a reduced or drawn schedule can be kept, read and run again."""

import json
from collections.abc import Mapping
from typing import Any

from faults.scenario import EXITS, Scenario, overrides


def write(scenario: Scenario) -> str:
    """The file's text. Defaults of timing, limits and a fault's own keys are left out where nothing was said."""
    head: dict[str, Any] = {
        name: getattr(scenario, name)
        for name in ("name", "about", "nodes", "seed", "duration", "record", "disk", "defect")
    }
    workload = scenario.workload
    parts = [
        _table("[scenario]", head),
        _table("[workload]", {name: getattr(workload, name) for name in workload.__dataclass_fields__}),
        _table("[timing]", overrides(scenario.timing)),
        _table("[limits]", overrides(scenario.limits)),
    ]
    for step in scenario.faults:
        fault = {
            "at": step.at,
            "do": step.do,
            "target": step.target,
            "for": step.lasts,
            "as": step.name,
            "awaits": step.awaits,
            **step.params,
        }
        parts.append(_table("[[fault]]", fault))
    if scenario.nemesis is not None:
        nemesis = scenario.nemesis
        parts.append(_table("[nemesis]", {name: getattr(nemesis, name) for name in nemesis.__dataclass_fields__}))
    expect = {name: getattr(scenario.expect, name) for name in scenario.expect.__dataclass_fields__}
    if expect["exit"] == EXITS[expect["verdict"]]:
        del expect["exit"]
    parts.append(_table("[expect]", expect))
    return "\n".join(part for part in parts if part)


def _table(header: str, values: Mapping[str, Any]) -> str:
    lines = [f"{name} = {_value(value)}" for name, value in values.items() if value is not None]
    return "\n".join([header, *lines, ""]) if lines else ""


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # a JSON text is a TOML basic string
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(name)} = {_value(one)}" for name, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    return repr(value)
