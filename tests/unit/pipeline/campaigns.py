"""Campaigns of simulated runs as per-run numbers, kept in campaigns.jsonl.

`python -m tests.unit.pipeline.campaigns` records them anew.
Three campaigns of one scenario: `usual`; `slow`, whose nodes wait twice as long for a silent leader; `faulty`, whose nodes
acknowledge before they sync, as a regression that nobody has named.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from zab_chaos.pipeline.judging import JudgedRun

FILE = Path(__file__).with_suffix(".jsonl")
SEEDS = {"usual": range(1, 49), "slow": range(101, 117), "faulty": range(201, 225)}
SCENARIO = """
[scenario]
name = "outage"
about = "The leader is cut off under load, then everybody loses power."
nodes = 3
duration = 4.5
record = false

[workload]
rate = 60
keys = 4

[timing]
timeout_ms = {timeout}

[[fault]]
at = 0.5
do = "partition"
target = "leader"
for = 2.5

[[fault]]
at = 3.5
do = "power-cut"
target = "all"
for = 0.3
"""


def recorded(campaign: str) -> list[JudgedRun]:
    """The runs of a campaign, as an analysis has them."""
    rows = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    return [_judged(row) for row in rows if row["campaign"] == campaign]


def _judged(row: dict[str, Any]) -> JudgedRun:
    path, command = f"/{row['campaign']}/{row['seed']}", f"zab run outage --seed {row['seed']}"
    facts = {"scenario": "outage", "defect": None, "nodes": 3, "seed": row["seed"], "command": command, "expect": None}
    said = {
        "verdict": row["verdict"],
        "exit": 0,
        "properties": [],
        "reasons": row["reasons"],
        "metrics": row["metrics"],
    }
    return JudgedRun(row["seed"], path, facts, said, [])


def _simulate(place: Path) -> None:
    from zab_chaos.harness.cli.app import main

    for campaign, seeds in SEEDS.items():
        scenario = place / f"{campaign}.toml"
        scenario.write_text(SCENARIO.format(timeout=1600 if campaign == "slow" else 800), encoding="utf-8")
        defect = ["--defect", "ack-before-sync"] if campaign == "faulty" else []
        for seed in seeds:
            main(
                [
                    "run",
                    str(scenario),
                    "--on",
                    "sim",
                    "--seed",
                    str(seed),
                    "--results",
                    str(place / campaign),
                    "-q",
                    *defect,
                ]
            )


def _record() -> None:
    from zab_chaos.pipeline.campaign import NUMBERS

    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        _simulate(place)
        command = [sys.executable, "-m", "zab_chaos.harness", "analyze", *(str(place / campaign) for campaign in SEEDS)]
        subprocess.run([*command, "--out", str(place / "out")], check=False)  # its exit code is the worst verdict's
        with FILE.open("w", encoding="utf-8") as file:
            for line in (place / "out" / "verdicts.jsonl").read_text(encoding="utf-8").splitlines():
                said = json.loads(line)
                path, metrics = Path(said["path"]), said["metrics"]
                kept = {it.name: _rounded(metrics.get(it.name)) for it in NUMBERS if it.name != "recovery_s"}
                kept["faults"] = [{"seconds": _rounded(fault["seconds"])} for fault in metrics["faults"]]
                row = {"campaign": path.relative_to(place).parts[0], "seed": int(path.name.rpartition("-")[2])}
                row |= {"verdict": said["verdict"], "reasons": said["reasons"][:1], "metrics": kept}
                file.write(json.dumps(row) + "\n")


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


if __name__ == "__main__":
    _record()
