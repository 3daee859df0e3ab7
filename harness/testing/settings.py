"""What a test asks of its ensemble or its run: from the ini file, the `zab` marker, a fixture's parameter, the command line.

The later ones win: the command line is what somebody says now, about this very run.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.explore.seeds import read_seeds

ZOOKEEPER = "zookeeper"
OF_A_RUN = {"on", "zookeeper", "nodes", "seed", "seeds", "scenario", "defect", "record", "expect", "allow_unknown"}
OF_AN_ENSEMBLE = OF_A_RUN - {"scenario"} | {"disk", "timing", "limits", "min_acked", "converges_within"}
KEYS = OF_A_RUN | OF_AN_ENSEMBLE  # of the marker; `pytest --markers` and docs/ci.md say what they mean


@dataclass(frozen=True, slots=True, kw_only=True)
class FixtureOptions:
    """`options`: what was said for the ensemble or the run, by the marker's keys. `expect` None: PASS, or the scenario's."""

    options: dict[str, Any] = field(default_factory=dict)
    expect: str | None = None
    allow_unknown: bool = False


def marked(node: Any) -> dict[str, Any]:
    """What the `zab` markers around a node say, the nearest last. Raises BadInput: all mistakes."""
    told: dict[str, Any] = {}
    wrong = []
    for marker in reversed(list(node.iter_markers("zab"))):
        if marker.args:
            wrong.append(f"its keys are named, as in zab(nodes=5), and {marker.args[0]!r} is not")
        wrong += unknown(marker.kwargs)
        told |= marker.kwargs
    if "seed" in told and "seeds" in told:
        wrong.append("either seed or seeds, not both")
    if wrong:
        raise BadInput("\n".join(f"@pytest.mark.zab: {each}" for each in wrong))
    return told


def unknown(given: Iterable[str], known: Iterable[str] = KEYS) -> list[str]:
    """A sentence for each key that there is not."""
    return [f"there is no key {key!r}. Known: {', '.join(sorted(known))}" for key in given if key not in known]


def seeds_of(value: Any) -> list[int]:
    """Raises BadInput."""
    if isinstance(value, str):
        return list(read_seeds(value, "seeds"))
    numbers: list[Any]
    numbers = [value] if isinstance(value, int) else list(value) if isinstance(value, Iterable) else [None]
    if not numbers or not all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in numbers):
        raise BadInput(f"seeds is {value!r}; it needs whole numbers from 0 on, as in range(20), [3, 5] or 1..20")
    if len(set(numbers)) < len(numbers):
        raise BadInput(f"seeds is {value!r}, which names a seed twice")
    return numbers


def said(config: pytest.Config) -> dict[str, Any]:
    """What the command line says."""
    options = {name: config.getoption(f"zab_{name}") for name in ("on", "zookeeper", "seeds")}
    record = config.getoption("zab_record")
    options["record"] = None if record is None else record == "yes"
    return {key: value for key, value in options.items() if value is not None}


def written(config: pytest.Config) -> dict[str, Any]:
    """What the ini file says."""
    options = {"on": config.getini("zab_on"), "seeds": config.getini("zab_seeds")}
    told = {key: value for key, value in options.items() if value}
    return told if config.getini("zab_record") else told | {"record": False}


def with_backend(layer: Mapping[str, Any]) -> dict[str, Any]:
    """What is said in one place; where a release of ZooKeeper is named, its servers are meant. Raises BadInput."""
    if "zookeeper" not in layer:
        return dict(layer)
    on = layer.get("on", ZOOKEEPER)
    if on != ZOOKEEPER:
        raise BadInput(
            f"zookeeper={layer['zookeeper']!r} names a release of the servers of on='zookeeper', not of on={on!r}"
        )
    return {**layer, "on": ZOOKEEPER}


def seeds_wanted(config: pytest.Config, marks: Mapping[str, Any]) -> list[int] | None:
    """The seeds for each of which there is an item; None when nobody asked for several. Raises BadInput."""
    for value in (said(config).get("seeds"), marks.get("seeds")):
        if value is not None:
            return seeds_of(value)
    value = written(config).get("seeds")
    return seeds_of(value) if value is not None and "seed" not in marks else None


def merged(
    config: pytest.Config, layers: Sequence[Mapping[str, Any]], seed: int | None, allowed: set[str]
) -> FixtureOptions:
    """What holds in the end. `layers`: the marker's and the fixture's own, the strongest last. Raises BadInput."""
    keys: dict[str, Any] = {}
    for layer in (written(config), *layers, said(config)):
        keys |= with_backend(layer)
    if keys.get("on") != ZOOKEEPER:
        keys.pop("zookeeper", None)  # of another layer, and this time other nodes are wanted
    keys.pop("seeds", None)
    if seed is not None:
        keys["seed"] = seed
    wrong = unknown(keys, allowed)
    if wrong:
        raise BadInput("\n".join(wrong))
    expect, allow = keys.pop("expect", None), keys.pop("allow_unknown", False)
    return FixtureOptions(options=keys, expect=expect, allow_unknown=bool(allow))
