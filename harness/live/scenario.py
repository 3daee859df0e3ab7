"""Converts between a running ensemble and a scenario: arguments are checked like a file, and faults can be run again."""

from dataclasses import replace
from typing import Any

from zab_chaos.faults.grammar import build
from zab_chaos.faults.scenario import Scenario, ScenarioError
from zab_chaos.faults.scheduler import FaultRecord
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.backend import Backend
from zab_chaos.harness.backends.fitting import fitted
from zab_chaos.harness.client.hidden_frames import hidden_for
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.runs.options import require_known_defect

__tracebackhide__ = hidden_for(BadInput)


def scenario_text(scenario: Scenario, records: list[FaultRecord]) -> str:
    """Return a scenario file with the faults that were injected by hand, at their times, and a load instead of the
    operations."""
    steps = []
    for record in records:
        lasts = (
            record.step.lasts if record.lasted is None or not record.kind.heals else max(0.01, round(record.lasted, 3))
        )
        steps.append(replace(record.step, at=round(record.step.at, 3), lasts=lasts))
    ends = [step.at + (step.lasts or 0.0) for step in steps]
    with_faults = replace(scenario, faults=tuple(steps), duration=round(max(1.0, *ends, 0.0) + 1.0, 3))
    return (
        "# Written after an ensemble was used by hand: these are its faults, at their times. The operations are in\n"
        "# ops.jsonl; run as a scenario, it gets the load below instead.\n\n" + with_faults.to_toml()
    )


def build_scenario(tables: dict[str, Any], on: str, defect: str | None) -> tuple[Backend, Scenario]:
    """Return the backend, and the scenario of these tables, fitted to it. Raises BadInput with all mistakes at once."""
    wrong = []
    try:
        backend = registry.find(on)
    except BadInput as error:
        wrong.append(str(error))
        backend = registry.find("processes")  # to find the other mistakes, too
    try:
        require_known_defect(backend, defect)
    except BadInput as error:
        wrong.append(str(error))
    try:
        scenario = replace(build(tables, "ensemble"), defect=defect)
    except ScenarioError as error:
        wrong += [str(mistake) for mistake in error.mistakes]
    if wrong:
        raise BadInput("\n".join(wrong))
    return backend, fitted(backend, scenario)
