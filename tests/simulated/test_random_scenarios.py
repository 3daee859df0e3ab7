"""Random scenarios from the documented grammar: written schedules of all kinds of fault, with extreme values.

Whatever a valid scenario asks for, the harness carries it out, and honest nodes violate nothing.
"""

import itertools
import json
import re
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import OPERATIONS, Scenario, ScenarioError, parse
from zab_chaos.harness.backends.simulator.backend import SimBackend
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.model.verdict import Outcome
from zab_chaos.node.crash_points import FAIL_STEPS, POINTS

DIRECTIONS = {"direction": ["both", "in", "out"]}
POINT_KEYS = ("point", "crash-at")
# Values of the kinds' own keys. A key that is not here keeps its default; those of a kind come before those of all kinds.
VALUES: dict[str, list[Any]] = {
    "keeps_cache": [True, False],
    "enough": ["none"],
    "variant": ["plain"],
    "within_ms": [1, 3000],
    "within": [0.1, 1],
    "state": ["leads", "follows", "serves", "looks", "out", "ahead", "level", "down"],
    "op": ["write", "sync"],
    "ms": [1, 100, 10_000],
    "jitter_ms": [0, 60_000],
    "zeros": [True, False],
    "replace": [True],
    "which": ["newest", "older", "all"],
    "bytes": [1, 1_000_000],
    "down": [0.05, 1],
    "up": [0.05, 1],
    "one_in": [1, 1_000_000],
    "kb_per_s": [1, 10_000_000],
    "rate": [0.5, 1, 2],
}
OF_KIND: dict[str, dict[str, list[Any]]] = {
    "power-cut": {"variant": ["plain", "torn", "reordered", "pages"]},
    "remove-file": {"file": ["log", "snapshot", "any"]},
    "corrupt": {"file": ["log", "snapshot", "any", "record-header"]},
    "truncate-file": {"file": ["log", "snapshot", "any"]},
    "partition": {"shape": ["isolate", "one-way"], "how": ["timeout", "stall", "disable"]},
    "flap": {"how": ["timeout", "stall", "disable"], **DIRECTIONS},
} | dict.fromkeys(("stall", "latency", "bandwidth", "slow-close", "reset", "late-frames", "corrupt-frames"), DIRECTIONS)
LIMITS = {
    "snapshot_bytes": [1, 2000],
    "segment_bytes": [1, 2000],
    "outstanding": [1],
    "queue_frames": [1],
    "clients_max": [1],
}

# In half of the seeds also these, each in a third.
FURTHER: dict[str, dict[str, list[Any]]] = {
    "[scenario]": {"erratic_network": [True], "crash_states": [True], "disk": ["ordinary"]},
    "[workload]": {
        "payload_bytes": [16, 3000],
        "timeout": [0.2, 2],
        "stalls": [5],
        "max_outstanding": [1, 100],
        "clients": [1, 9],
    },
    "[limits]": {"frame_bytes": [2000, 40_000], "request_bytes": [100, 2000], "counter_max": [1, 3], "waiting": [1, 5]},
    "[timing]": {"heartbeat_ms": [10], "timeout_ms": [250, 2000], "finalize_ms": [1, 1000], "sync_timeout_ms": [500]},
}


def draw_scenario(random: Random, seed: int) -> str:
    """Return the text of a scenario. It may contain faults that contradict each other."""
    nodes, duration = random.randint(2, 5), random.choice((0.5, 1, 2))
    names = random.sample([name for name, kind in KINDS.items() if kind.needs <= SimBackend.abilities], 8)
    same_time = random.random() < 0.3
    times = [duration if same_time else round(random.uniform(0, duration), 3) for _ in range(random.randint(1, 6))]
    head = {"name": "random", "nodes": nodes, "duration": duration, "record": False, "seed": seed}
    load = {
        "rate": 40,
        "keys": random.choice((1, 8)),
        "mix": dict.fromkeys(random.sample(OPERATIONS, 4), 1) | {"set": 2},
    }
    load |= {"burst": random.choice((1, 20)), "moves": random.choice((0, 5)), "visits": random.choice((0, 5))}
    limits = {name: random.choice(values) for name, values in LIMITS.items() if random.random() < 0.3}
    tables = [("[scenario]", head), ("[workload]", load), ("[limits]", limits), ("[timing]", {})]
    further = Random(f"further {seed}")
    for header, values in tables if further.random() < 0.5 else ():
        drawn = {name: further.choice(each) for name, each in FURTHER[header].items() if further.random() < 0.3}
        values |= drawn
    tables += [("[[fault]]", _draw_fault(random, random.choice(names), at, nodes)) for at in sorted(times)]
    return "".join(_table(header, values) for header, values in tables)


def _table(header: str, values: Mapping[str, Any]) -> str:
    return "\n".join([header, *(f"{key} = {_toml(value)}" for key, value in values.items()), ""])


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f'"{name}" = {weight}' for name, weight in value.items()) + " }"
    return json.dumps(value)


def _draw_fault(random: Random, do: str, at: float, nodes: int) -> dict[str, Any]:
    kind = KINDS[do]
    words = [word for word in kind.target_words if word != "minority" or nodes > 2]
    one = [f"node-{random.randint(1, nodes)}"]
    fault = {"at": at, "do": do, "target": random.choice([*(words if do != "partition" else ["one"]), *one, one])}
    if kind.heals and random.random() < 0.8:
        fault["for"] = random.choice((0.01, 0.3, 2, 86_400))
    for key in kind.keys:
        if key.name in POINT_KEYS and (key.name == "point" or random.random() < 0.3):
            steps = FAIL_STEPS if do == "fail-at" else ()
            point = random.choice([one for one in POINTS if not steps or one.split(":")[0] in steps])
            fault[key.name] = point + random.choice(("", "#3", "#999999999"))
        elif values := OF_KIND.get(do, {}).get(key.name, VALUES.get(key.name)):
            fault[key.name] = random.choice(values)
    if "enough" in fault and not any(name in fault for name in POINT_KEYS):
        del fault["enough"]
    return fault


def valid_scenario(seed: int) -> Scenario:
    """Return the first scenario of the seed without contradicting faults. Raises ScenarioError for any other mistake."""
    for attempt in itertools.count():
        try:
            return parse(draw_scenario(Random(f"scenario {seed} {attempt}"), seed))
        except ScenarioError as error:
            if not all(
                re.search("comes back by itself|but it is|is cut with|loses unsynced bytes", it.wrong)
                for it in error.mistakes
            ):
                raise
    raise AssertionError


@pytest.mark.parametrize("seed", range(12))
def test_a_random_scenario_accuses_neither_the_nodes_nor_the_harness(seed: int) -> None:
    scenario = valid_scenario(seed)
    assert parse(scenario.to_toml()) == scenario
    done = simulate(scenario, seed, None)
    assert done.trouble == ""
    assert done.verdict.verdict not in (Outcome.VIOLATION, Outcome.HARNESS_ERROR), done.verdict.reasons
