"""The options of a test's ensemble or run.

They come from the ini file, the fixture's own defaults, the `zab` marker, the fixture's parameter and the command line. Each of
these sources overrides the ones before it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from zab_chaos.faults.seeds import SEED_MAX
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.explore.seeds import read_seeds
from zab_chaos.model.verdict import Outcome

ZOOKEEPER = "zookeeper"
RUN_KEYS = {"on", "zookeeper", "nodes", "seed", "seeds", "scenario", "defect", "record", "expect", "allow_unknown"}
ENSEMBLE_KEYS = RUN_KEYS - {"scenario"} | {"disk", "timing", "limits", "min_acked", "converges_within"}
KEYS = RUN_KEYS | ENSEMBLE_KEYS  # of the marker; `pytest --markers` and docs/ci.md explain them

# The type of each key's value, in Python and in words. What else a value must be is checked where it is used.
TEXT, NUMBER, YES_OR_NO, TABLE = (
    (str, "text"),
    (int, "a whole number"),
    (bool, "True or False"),
    (Mapping, "a dictionary"),
)
TYPES: dict[str, tuple[Any, str]] = {
    "on": TEXT, "zookeeper": (str | Path, "text"), "scenario": (str | Path, "text"), "defect": TEXT, "disk": TEXT,
    "expect": TEXT, "nodes": NUMBER, "seed": NUMBER, "min_acked": NUMBER, "converges_within": (int | float, "a number"),
    "record": YES_OR_NO, "allow_unknown": YES_OR_NO, "timing": TABLE, "limits": TABLE,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class FixtureOptions:
    """The options of one fixture in one test.

    `options`: those for the ensemble or the run, under the names of the marker's keys. `expect`: the expected verdict; None
    means PASS or, for a scenario, the one that it expects.
    """

    options: dict[str, Any] = field(default_factory=dict)
    expect: str | None = None
    allow_unknown: bool = False


def from_markers(node: Any) -> dict[str, Any]:
    """Return the options of all `zab` markers of a test; the nearest marker wins. Raises BadInput with all mistakes."""
    options: dict[str, Any] = {}
    mistakes = []
    for marker in reversed(list(node.iter_markers("zab"))):
        if marker.args:
            mistakes.append(f"name every key, as in zab(nodes=5); {marker.args[0]!r} has no name")
        mistakes += unknown_keys(marker.kwargs)
        options |= marker.kwargs
    if "seed" in options and "seeds" in options:
        mistakes.append("give either seed or seeds, not both")
    if mistakes:
        raise BadInput("\n".join(f"@pytest.mark.zab: {each}" for each in mistakes))
    return options


def of_this_test_only(node: Any) -> list[str]:
    """Return the keys of a test's own markers that only its own ensemble or run can have. Seeds apply to shared ones, too."""
    return [key for marker in node.own_markers if marker.name == "zab" for key in marker.kwargs if key != "seeds"]


def unknown_keys(given: Iterable[str], known: Iterable[str] = KEYS) -> list[str]:
    """Return an error message for each given key that does not exist, or that the other fixture has."""
    return [
        f"the key {key!r} is only for {'zab_run' if key in RUN_KEYS else 'zab_cluster'}"
        if key in KEYS
        else f"there is no key {key!r}. Known: {', '.join(sorted(known))}"
        for key in given
        if key not in known
    ]


def value_mistakes(options: Mapping[str, Any]) -> list[str]:
    """Return an error message for each value that is of the wrong type, or that is no verdict or seed."""
    mistakes = []
    for key, value in options.items():
        kind, words = TYPES.get(key, (object, ""))
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            mistakes.append(f"{key} is {value!r}; it needs {words}")
        elif key == "expect" and value not in list(Outcome):
            mistakes.append(f"expect is {value!r}; it needs a verdict: {', '.join(Outcome)}")
        elif key == "seed" and not 0 <= value <= SEED_MAX:
            mistakes.append(f"seed is {value}; it needs a whole number from 0 to {SEED_MAX}")
    return mistakes


def read_seed_list(value: Any) -> list[int]:
    """Return the seeds that a value of the key `seeds` stands for. Raises BadInput."""
    if isinstance(value, str):
        return list(read_seeds(value, "seeds"))
    if type(value) is int:
        raise BadInput(f"seeds is {value!r}; write [{value}] for one seed, or range({value}) for as many")
    numbers: list[Any] = list(value) if isinstance(value, Iterable) else [None]
    if not numbers or not all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in numbers):
        raise BadInput(f"seeds is {value!r}; it needs whole numbers from 0 on, as in range(20), [3, 5] or 1..20")
    if len(set(numbers)) < len(numbers):
        raise BadInput(f"seeds is {value!r}, which names a seed twice")
    return numbers


def from_command_line(config: pytest.Config) -> dict[str, Any]:
    """Return the options of pytest's command line."""
    options = {name: config.getoption(f"zab_{name}") for name in ("on", "zookeeper", "seeds")}
    record = config.getoption("zab_record")
    options["record"] = None if record is None else record == "yes"
    return {key: value for key, value in options.items() if value is not None}


def from_ini_file(config: pytest.Config) -> dict[str, Any]:
    """Return the options of the ini file."""
    given = {"on": config.getini("zab_on"), "seeds": config.getini("zab_seeds")}
    options = {key: value for key, value in given.items() if value}
    return options if config.getini("zab_record") else options | {"record": False}


def with_implied_backend(layer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of one source. One that names a release of ZooKeeper gets on="zookeeper". Raises BadInput."""
    if layer.get("zookeeper") is None:
        return dict(layer)
    on = layer.get("on") or ZOOKEEPER
    if on != ZOOKEEPER:
        raise BadInput(
            f"zookeeper={layer['zookeeper']!r} names a release of the servers of on='zookeeper', not of on={on!r}"
        )
    return {**layer, "on": ZOOKEEPER}


def requested_seeds(config: pytest.Config, marks: Mapping[str, Any]) -> list[int] | None:
    """Return the seeds that a test is to be run with, one test item each; None if nobody asked for any. Raises BadInput.

    `marks`: the options of the test's markers. A single `seed` there overrides the seeds of the ini file.
    """
    for value in (from_command_line(config).get("seeds"), marks.get("seeds")):
        if value is not None:
            return read_seed_list(value)
    value = from_ini_file(config).get("seeds")
    return read_seed_list(value) if value is not None and "seed" not in marks else None


def merge(
    config: pytest.Config, layers: Sequence[Mapping[str, Any]], seed: int | None, allowed: set[str]
) -> FixtureOptions:
    """Combine the options of all sources. `layers`: those of the fixture, the marker and the parameter, the strongest last.

    `seed`: that of the test item, if it has one. `allowed`: the keys that the fixture supports. Raises BadInput.
    """
    keys: dict[str, Any] = {}
    for layer in (from_ini_file(config), *layers, from_command_line(config)):
        keys |= with_implied_backend(layer)
    if keys.get("on") != ZOOKEEPER:
        keys.pop("zookeeper", None)  # a weaker source named a release, and a stronger one another backend
    keys.pop("seeds", None)
    if seed is not None:
        keys["seed"] = seed
    keys = {key: value for key, value in keys.items() if value is not None}  # None: as if the key was not given
    mistakes = [*unknown_keys(keys, allowed), *value_mistakes(keys)]
    if mistakes:
        raise BadInput("\n".join(mistakes))
    expect, allow_unknown = keys.pop("expect", None), keys.pop("allow_unknown", False)
    return FixtureOptions(options=keys, expect=expect, allow_unknown=bool(allow_unknown))
