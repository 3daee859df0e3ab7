"""Turns the drawn faults of a scenario into a fixed schedule, so that single faults can be left out."""

from collections.abc import Iterator
from dataclasses import replace

from zab_chaos.faults.kind import REQUIRED
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import FaultStep, Scenario
from zab_chaos.harness.results.fault_spans import FaultSpan, read_spans
from zab_chaos.harness.results.fault_timeline import origin
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.results.source import Source
from zab_chaos.model import events as ev

SHORTEST = 0.01  # seconds that a fault may last in a scenario's file


def as_drawn(scenario: Scenario, seed: int) -> Scenario:
    """The scenario with the faults that its nemesis draws from the seed; targets are still roles."""
    return replace(scenario, nemesis=None, faults=tuple(scenario.schedule(seed)), seed=seed)


def as_it_happened(scenario: Scenario, folder: RunFolder, seed: int) -> Scenario:
    """The scenario with the faults of a run: their times, the nodes that they hit, and when they were healed.

    This is for faults that a nemesis had to put off, and for those that depend on who led.
    """
    return replace(scenario, nemesis=None, faults=tuple(_steps(folder)), seed=seed)


def _steps(folder: RunFolder) -> Iterator[FaultStep]:
    zero = origin(folder)
    milestones = folder.lines("harness.jsonl", ev.Milestone)
    ended = next((line.t for line in milestones if line.event == "safety-ended"), None)
    for span in read_spans(Source(folder.path)):
        if span.nodes and span.do in KINDS:
            lasts = None
            if span.healed is not None and (ended is None or span.healed < ended) and KINDS[span.do].heals:
                lasts = max(SHORTEST, round((span.healed - span.at) / 1e9, 3))
            yield _step(span, round(max(0, span.at - zero) / 1e9, 3), lasts)


def _step(span: FaultSpan, at: float, lasts: float | None) -> FaultStep:
    """Convert a fault of a run; its target becomes the links or nodes that it hit."""
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
