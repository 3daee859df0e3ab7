"""Makes a run as `zab analyze` returns it, without Spark."""

from typing import Any

from zab_chaos.pipeline.judging import JudgedRun


def analysed(name: str, seed: int, **metrics: Any) -> JudgedRun:
    """Return a run that passed, with two crashes of the leader: recovered after `seed` tenths of a second, and never."""
    fault = {"id": 1, "do": "crash", "role": "leader", "nodes": [1], "was": ["LEADING BROADCAST"], "stood_still": 0.2}
    numbers = {
        "faults": [fault | {"seconds": 0.1 * seed}, fault | {"seconds": None}], "longest_unavailability_s": 0.2 * seed,
        "catch_up": [{"kind": "snapshot", "times": 1, "transactions": 3, "cut": 0, "bytes": 2**20, "seconds": 0.1}],
        "acked_per_second": 100.0 + seed,
    }  # fmt: skip
    item = {"name": "integrity", "verdict": "PASS"}
    facts = {
        "scenario": name, "defect": None, "command": f"zab run {name} --seed {seed}", "expect": "{}", "nodes": 3, "seed": seed,
    }  # fmt: skip
    said = {"verdict": "PASS", "exit": 0, "properties": [item], "reasons": [], "metrics": numbers | metrics}
    return JudgedRun(seed, f"/results/{name}/{seed}", facts, said, [])
