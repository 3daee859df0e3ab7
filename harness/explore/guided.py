"""Exploration guided by coverage: what was seldom reached is drawn more often in the next batch of seeds.

A seed alone says nothing then: what it draws depends on the batches before it. So each batch's weights are kept in a file,
and with that file a seed draws the same again. The same seeds from the first one on give the same weights.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from zab_chaos.faults.grammar import DRAWABLE
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.explore.exploration import Explored, Task, explore_with
from zab_chaos.harness.explore.swarm import EVEN, Weights
from zab_chaos.harness.explore.workers import Crew
from zab_chaos.model.coverage import NO_FAULT, POINTS, Combination

BATCH = 100  # seeds with the same weights
SHARPER = 4  # what was reached under most faults differs by a few in a hundred
MOST = 10.0  # how much more often than else something is drawn
LEAST = 0.2


class Guide:
    """Counts what the seeds have reached, and computes the weights for the next draw."""

    def __init__(self) -> None:
        self.seeds = 0
        self.hits: Counter[str] = Counter()  # in how many seeds a crash point was reached
        self.under: dict[str, set[Combination]] = {}  # by fault: what was reached while it was there

    def learn(self, found: Explored) -> None:
        self.seeds += 1
        self.hits.update({what for _, _, what, _ in found.reached} & set(POINTS))
        for place in found.reached:
            self.under.setdefault(place[3], set()).add((*place[:3], NO_FAULT))

    def weights(self) -> Weights:
        """A crash point gets more weight the fewer seeds have reached it, a fault the less was reached under it."""
        if not self.seeds:
            return EVEN
        everything = len(set[Combination]().union(*self.under.values()))
        met = {kind: len(self.under.get(kind, ())) for kind in DRAWABLE}
        points = {point: self.seeds / (2 * self.hits[point] + 1) for point in POINTS}
        faults = {kind: ((everything + 1) / (met[kind] + 1)) ** SHARPER for kind in DRAWABLE}
        return Weights(_within(faults), _within(points))


def explore_guided(
    crew: Crew, task: Task, seeds: Sequence[int], on_batch: Callable[[int, Weights], None]
) -> Iterator[tuple[Task, Explored]]:
    """Yield the results of all seeds, each with its task. `on_batch` is called with each batch's first seed and weights."""
    guide = Guide()
    for start in range(0, len(seeds), BATCH):
        used = replace(task, coverage=True, weights=guide.weights())
        on_batch(seeds[start], used.weights)
        for found in explore_with(crew, used, seeds[start : start + BATCH]):
            guide.learn(found)
            yield used, found


def keep_weights(weights: Weights, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(weights), indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_weights(path: Path) -> Weights:
    """Read weights that a --guided exploration stored. Raises BadInput."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = Weights(_numbers(content["faults"], DRAWABLE), _numbers(content["points"], POINTS))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInput(f"{path} does not contain weights of `zab explore --guided`: {error!r}") from None
    return found


def _numbers(values: Mapping[str, float], known: Sequence[str]) -> dict[str, float]:
    if not set(values) <= set(known) or not all(0 < float(value) <= MOST for value in values.values()):
        raise ValueError("an unknown name, or an invalid weight")
    return {name: float(value) for name, value in values.items()}


def _within(weights: Mapping[str, float]) -> dict[str, float]:
    return {name: round(min(MOST, max(LEAST, weight)), 3) for name, weight in sorted(weights.items())}
