"""Writes a scenario as TOML, so that a shrunk or drawn schedule can be stored and run again."""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import (
    EXITS,
    Expect,
    FaultStep,
    InitialDisk,
    Nemesis,
    Operation,
    Scenario,
    Ticket,
    Workload,
    ZooKeeperSettings,
    overrides,
)

OPTIONAL = ("observers", "crash_states", "erratic_network")  # keys that are written only if they are not 0 or false


def write(scenario: Scenario) -> str:
    """Return the text of the file. Defaults of timing, limits, operations and a fault's own keys are left out."""
    head: dict[str, Any] = {
        name: getattr(scenario, name)
        for name in ("name", "about", "nodes", "seed", "duration", "record", "disk", *OPTIONAL, "defect")
    }
    head["about"] = scenario.about or None
    head |= {name: head[name] or None for name in OPTIONAL}
    workload = _fields(scenario.workload)
    for key in ("rate", "mix") if scenario.operations else ():  # they would draw further operations
        del workload[key]
    parts = [
        _table("[scenario]", head),
        _table("[workload]", workload),
        _table("[timing]", overrides(scenario.timing)),
        _table("[limits]", overrides(scenario.limits)),
    ]
    for step in scenario.faults:
        parts.append(_table("[[fault]]", _fault(step)))
    parts += [_table("[[operation]]", _operation(one)) for one in scenario.operations]
    parts += [_table("[[disk]]", _fields(one)) for one in scenario.disks]
    if scenario.nemesis is not None:
        nemesis = _fields(scenario.nemesis)
        left_out = {name for name in ("burst", "points") if nemesis[name] == getattr(Nemesis(), name)}
        parts.append(_table("[nemesis]", {name: value for name, value in nemesis.items() if name not in left_out}))
    expect = _fields(scenario.expect)
    if expect["exit"] == EXITS[expect["verdict"]]:
        del expect["exit"]
    state = {path: [False if value is None else value for value in held] for path, held in expect.pop("state").items()}
    parts.append(_table("[expect]", expect | ({"state": state} if state else {})))
    parts.append(_table("[zookeeper]", _differences(scenario.zookeeper, ZooKeeperSettings())))
    if scenario.ticket is not None:
        parts.append(_table("[ticket]", {name: value for name, value in _fields(scenario.ticket).items() if value}))
    return "\n".join(part for part in parts if part)


def _fields(table: Workload | InitialDisk | Nemesis | Expect | ZooKeeperSettings | Ticket) -> dict[str, Any]:
    """Return the fields of a table by name, in their order. Unlike `dataclasses.asdict` this copies nothing."""
    return {name: getattr(table, name) for name in table.__dataclass_fields__}


def _differences(table: ZooKeeperSettings, default: ZooKeeperSettings) -> dict[str, Any]:
    return {name: value for name, value in _fields(table).items() if value != getattr(default, name)}


def _fault(step: FaultStep) -> dict[str, Any]:
    keys = KINDS[step.do].defaults
    return {
        "at": step.at,
        "do": step.do,
        "target": step.target,
        "for": step.lasts,
        "until": step.until,
        "as": step.name,
        "awaits": step.awaits,
        **{name: value for name, value in step.params.items() if value != keys[name]},
    }


def _operation(operation: Operation) -> dict[str, Any]:
    defaults = {field.name: field.default for field in structs.fields(operation)}
    given = {name: value for name, default in defaults.items() if (value := getattr(operation, name)) != default}
    return {"as" if name == "name" else name: value for name, value in given.items()}


def _table(header: str, values: Mapping[str, Any]) -> str:
    lines = [f"{name} = {_value(value)}" for name, value in values.items() if value is not None]
    return "\n".join([header, *lines, ""]) if lines else ""


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # a JSON text is a TOML basic string
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_value(name)} = {_value(one)}" for name, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    return repr(value)
