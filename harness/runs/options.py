"""What a run is told: a scenario, and what the command line or a test says beside it."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from zab_chaos.faults.defects import DEFECTS
from zab_chaos.faults.registry import impossible
from zab_chaos.faults.scenario import Scenario, ScenarioError, load
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.runs import catalogue

WORLDS = ("processes", "sim", "lockstep", "containers")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the user wants of a run beside the scenario. `command` repeats it; `defect` is (name, NodeConfig.defect)."""

    seed: int
    results: Path
    command: str
    defect: tuple[str, str] | None = None
    record: bool = True
    keep_data: bool = False
    on: str = "processes"


def read(name: str, *, on: str, nodes: int | None, defect: str | None) -> Scenario:
    """The scenario, with the number of nodes and the defect that were asked for. Raises BadInput: all mistakes."""
    known_world(on)
    path = catalogue.find(name)
    try:
        scenario = load(path, nodes)
    except ScenarioError as error:
        raise BadInput(str(error)) from None
    wrong = impossible(scenario, on)
    if wrong:
        raise BadInput("\n".join(f"{path}: {words}" for words in wrong))
    wanted = defect if defect is not None else scenario.defect
    if wanted is not None and wanted not in DEFECTS:
        raise BadInput(f"no defect is called {wanted!r}. {catalogue.did_you_mean(wanted, DEFECTS)}")
    return replace(scenario, defect=wanted)


def known_world(on: str) -> None:
    """Raises BadInput if there is no such world."""
    if on not in WORLDS:
        raise BadInput(f"--on {on}: there is no such world. {catalogue.did_you_mean(on, WORLDS)}")


def options_for(
    name: str, scenario: Scenario, *, seed: int | None, results: Path, record: bool | None = None,
    keep_data: bool = False, nodes: int | None = None, on: str = "processes",
) -> RunOptions:  # fmt: skip
    """What the run is told beside the scenario, and the command that repeats it."""
    seed = scenario.seed if seed is None else seed
    command = ["zab", "run", name, *(["--on", on] if on != "processes" else []), "--seed", str(seed)]
    if nodes is not None:
        command += ["--nodes", str(nodes)]
    if scenario.defect is not None:
        command += ["--defect", scenario.defect]
    if record is not None:
        command.append("--record" if record else "--no-record")
    return RunOptions(
        seed=seed,
        results=results,
        command=shlex.join(command),
        defect=(scenario.defect, DEFECTS[scenario.defect].path) if scenario.defect is not None else None,
        record=scenario.record if record is None else record,
        keep_data=keep_data,
        on=on,
    )
