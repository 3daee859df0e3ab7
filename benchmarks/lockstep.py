"""Compares the bytes of lockstep runs with those of the simulator, for several scenarios and seeds.

    python -m benchmarks.lockstep power-outage leader-crash --seeds 1..20 [--rate 40] [--folder DIR]

Each seed is run in the simulator and in lockstep, and the two folders are compared; equal ones are removed. `--rate` replaces
the scenario's operations per second: the faults stay the same, and the runs are shorter. Exit code 1 if anything differs.
"""

import argparse
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from zab_chaos.faults.scenario import Scenario, load
from zab_chaos.harness.backends.lockstep.compare import first_difference
from zab_chaos.harness.report.progress import Quiet
from zab_chaos.harness.runs import catalogue
from zab_chaos.harness.runs.options import options_for
from zab_chaos.harness.runs.run import run


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("scenarios", nargs="+", choices=sorted(catalogue.shipped()), metavar="SCENARIO")
    parser.add_argument("--seeds", default="1..20", metavar="A..B")
    parser.add_argument("--rate", type=float)
    parser.add_argument("--folder", type=Path, help="folder for the runs; a new temporary one if not given")
    return parser.parse_args()


def scenario_of(name: str, rate: float | None) -> Scenario:
    scenario = load(catalogue.shipped()[name])
    return scenario if rate is None else replace(scenario, workload=replace(scenario.workload, rate=rate))


def compare(name: str, scenario: Scenario, seed: int, folder: Path) -> bool:
    """Run one seed both ways and print the result. Return whether the runs are equal."""
    options = options_for(name, scenario, seed=seed, results=folder, keep_data=True, on="sim")
    simulated = run(scenario, options, Quiet())
    begun = time.monotonic()
    ran = run(scenario, replace(options, on="lockstep"), Quiet())
    took = time.monotonic() - begun
    if simulated.interrupted or ran.interrupted:
        sys.exit(f"{name} {seed}: interrupted; there is no result")
    difference = first_difference(simulated.folder.path, ran.folder.path)
    words = "equal" if difference is None else f"DIFFERENT: {difference}"
    _say(f"{name} {seed}: {ran.verdict.verdict}, {took:.1f} s: {words}")
    if difference is None:
        for each in (simulated, ran):
            shutil.rmtree(each.folder.path)
    return difference is None


def main() -> int:
    options = arguments()
    least, most = map(int, options.seeds.split(".."))
    folder = options.folder or Path(tempfile.mkdtemp(prefix="zab-lockstep-"))
    failed = runs = 0
    for name in options.scenarios:
        scenario = scenario_of(name, options.rate)
        for seed in range(least, most + 1):
            runs += 1
            failed += not compare(name, scenario, seed, folder)
    _say(
        f"{runs} runs of {len(options.scenarios)} scenarios, {failed} different" + (f": see {folder}" if failed else "")
    )
    if not failed and options.folder is None:
        shutil.rmtree(folder)
    return 1 if failed else 0


def _say(words: str) -> None:
    print(words, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
