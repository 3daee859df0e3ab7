"""Exploration guided by coverage: what was seldom reached is drawn more often in the next batch of seeds.

What a seed draws then depends on the batches before it, so the seed alone does not repeat a run. Each batch's weights are
therefore kept in a file; with that file the seed draws the same again. The same range of seeds always gives the same weights.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from zab_chaos.faults.grammar import DRAWABLE
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.explore.exploration import SeedResult, Task, explore_with
from zab_chaos.harness.explore.swarm import EVEN, Weights
from zab_chaos.harness.explore.workers import WorkerPool
from zab_chaos.harness.machine import files
from zab_chaos.model.coverage import NO_FAULT, POINTS_TO_REACH, Combination
from zab_chaos.node.crash_points import POINTS

BATCH = 100  # seeds with the same weights
SHARPNESS = (
    4  # exponent of a fault's weight: without it weights hardly differ, since the counts differ by a few percent
)
WEIGHT_MAX = 10.0
WEIGHT_MIN = 0.2
WEIGHTS_FILE = (
    "--weights needs a file that `zab explore --guided` has stored, such as results/swarm/long-mix-weights-101.json."
)


class Guide:
    """Counts what the seeds have reached, and computes the weights for the next draw."""

    def __init__(self) -> None:
        self.seeds = 0
        self.hits: Counter[str] = Counter()  # by crash point: the number of seeds that reached it
        self.under: dict[str, set[Combination]] = {}  # by fault: the combinations that were reached while it was active

    def learn(self, found: SeedResult) -> None:
        """Count what one more seed has reached."""
        self.seeds += 1
        self.hits.update({what for _, _, what, _ in found.reached} & set(POINTS_TO_REACH))
        for role, phase, what, fault in found.reached:
            self.under.setdefault(fault, set()).add((role, phase, what, NO_FAULT))

    def weights(self) -> Weights:
        """Return the weights for the next batch.

        The fewer seeds have reached a crash point, the more weight it gets; the fewer combinations were reached under a fault,
        the more weight it gets.
        """
        if not self.seeds:
            return EVEN
        everything = len(set[Combination]().union(*self.under.values()))
        counts = {kind: len(self.under.get(kind, ())) for kind in DRAWABLE}
        points = {point: self.seeds / (2 * self.hits[point] + 1) for point in POINTS_TO_REACH}
        faults = {kind: ((everything + 1) / (counts[kind] + 1)) ** SHARPNESS for kind in DRAWABLE}
        return Weights(_clamped(faults), _clamped(points))


def explore_guided(
    workers: WorkerPool, task: Task, seeds: Sequence[int], on_batch: Callable[[int, Weights], Path | None]
) -> Iterator[tuple[Task, SeedResult]]:
    """Run the seeds in batches; yield each result with the task (the weights) that it was drawn with.

    `on_batch` is called with the first seed and the weights of each batch. It returns the file in which it has stored them.
    """
    guide = Guide()
    for start in range(0, len(seeds), BATCH):
        weights = guide.weights()
        used = replace(task, coverage=True, weights=weights, weights_file=on_batch(seeds[start], weights))
        for found in explore_with(workers, used, seeds[start : start + BATCH]):
            guide.learn(found)
            yield used, found


def keep_weights(weights: Weights, path: Path) -> Path:
    """Write weights to a JSON file, for `zab explore --weights`. Return its path: a file with other weights stays."""
    return files.write_new(path, json.dumps(asdict(weights), indent=1, sort_keys=True) + "\n")


def read_weights(path: Path) -> Weights:
    """Read weights that a --guided exploration stored. Raises BadInput."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return Weights(_numbers(content["faults"], DRAWABLE), _numbers(content["points"], POINTS))
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}. {WEIGHTS_FILE}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise BadInput(f"{path} does not contain weights. {WEIGHTS_FILE}") from None


def _numbers(values: Mapping[str, float], known: Sequence[str]) -> dict[str, float]:
    if not set(values) <= set(known) or not all(0 < float(value) <= WEIGHT_MAX for value in values.values()):
        raise ValueError
    return {name: float(value) for name, value in values.items()}


def _clamped(weights: Mapping[str, float]) -> dict[str, float]:
    return {name: round(min(WEIGHT_MAX, max(WEIGHT_MIN, weight)), 3) for name, weight in sorted(weights.items())}
