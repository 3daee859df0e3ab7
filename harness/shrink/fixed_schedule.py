"""Turn the drawn faults of a scenario into a fixed schedule, so that shrinking can leave out single faults."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from zab_chaos.faults.kind import REQUIRED
from zab_chaos.faults.registry import KINDS, concerns_links
from zab_chaos.faults.scenario import FaultStep, Scenario
from zab_chaos.harness.results.fault_spans import FaultSpan, read_spans
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.results.source import Source
from zab_chaos.model import events as ev

LASTS_MIN = 0.01  # seconds: the shortest fault that a scenario file may have


def as_drawn(scenario: Scenario, seed: int) -> Scenario:
    """Return the scenario with the faults that its nemesis draws from the seed.

    Their targets are still roles, such as `leader`.
    """
    steps = (step for step in scenario.schedule(seed) if scenario.nodes > 1 or not concerns_links(step.do))
    return _fixed(scenario, steps, seed)


def as_it_happened(scenario: Scenario, folder: RunFolder, seed: int) -> Scenario:
    """Return the scenario with the faults as they were in a run: when they began, which nodes they hit, when they were healed.

    It differs from `as_drawn` if the nemesis had to postpone faults, or if a target depended on which node led.
    """
    return _fixed(scenario, _fault_steps(folder), seed)


def _fixed(scenario: Scenario, steps: Iterable[FaultStep], seed: int) -> Scenario:
    """Return the scenario with these faults, as a file may have them: elsewhere than on a faithful disk a drawn variant of
    `crash-at` has no effect, and may not be written."""
    faults = tuple(step if scenario.disk == "faithful" or step.do != "crash-at" else _plain(step) for step in steps)
    return replace(scenario, nemesis=None, faults=faults, seed=seed)


def _plain(step: FaultStep) -> FaultStep:
    return replace(step, params={**step.params, "variant": "plain"})


def _fault_steps(folder: RunFolder) -> Iterator[FaultStep]:
    zero = folder.origin()
    milestones = folder.lines("harness.jsonl", ev.Milestone)
    ended = next((line.t for line in milestones if line.event == "safety-ended"), None)
    for span in read_spans(Source(folder.path)):
        if span.nodes and span.do in KINDS and (span.pairs or not concerns_links(span.do)):
            lasts = None
            if span.healed is not None and (ended is None or span.healed < ended) and KINDS[span.do].heals:
                lasts = max(LASTS_MIN, round((span.healed - span.at) / 1e9, 3))
            yield _fault_step(span, round(max(0, span.at - zero) / 1e9, 3), lasts)


def _fault_step(span: FaultSpan, at: float, lasts: float | None) -> FaultStep:
    """Convert a fault of a run. Its target becomes the links or nodes that it hit."""
    keys = {key.name: key for key in KINDS[span.do].keys}
    params = {key.name: key.default for key in keys.values() if key.default is not REQUIRED} | span.params
    target: tuple[str, ...] | str | None = tuple(f"node-{node}" for node in span.nodes)
    if "pairs" in keys and span.pairs:
        params["pairs"] = tuple(sorted(span.pairs))
        target = None
        if "shape" in keys:
            params["shape"] = "pairs"
        if "direction" in keys and keys["direction"].default is not REQUIRED:
            params["direction"] = keys["direction"].default
    if target is not None and len(target) == 1:
        target = target[0]
    return FaultStep(at=at, do=span.do, target=target, lasts=lasts, params=params)
