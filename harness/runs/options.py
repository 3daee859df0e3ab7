"""Builds the inputs of a run: the scenario for a backend, and the options from a command line or a test."""

import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.scenario import Scenario, ScenarioError, load
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.backend import Backend, RunOptions
from zab_chaos.harness.backends.fitting import fitted, mistakes, refusal
from zab_chaos.harness.errors import BadInput, all_of, check_names
from zab_chaos.harness.runs import catalogue

__all__ = [
    "RunOptions",
    "chosen_release",
    "implied_backend",
    "load_scenario",
    "options_for",
    "read_scenario",
    "require_releases",
    "scenario_for",
]


def implied_backend(on: str) -> str:
    """Return the backend that --zookeeper implies. Raises BadInput if `on` names another one than the default."""
    if on not in ("zookeeper", "processes"):
        raise BadInput(f"--zookeeper names a release of the servers of --on zookeeper, and --on {on} was asked for")
    return "zookeeper"


def chosen_release(zookeeper: str | None, from_: str | None) -> str | None:
    """Return the release that a run begins with, as --zookeeper or --from has it. Raises BadInput if both are given."""
    if zookeeper is not None and from_ is not None:
        raise BadInput(f"--zookeeper {zookeeper} and --from {from_} name the same release: give one of them")
    return zookeeper if zookeeper is not None else from_


def read_scenario(name: str, *, on: str, nodes: int | None, defect: str | None) -> Scenario:
    """Read a scenario for a backend, with this number of nodes and this defect. Raises BadInput with all mistakes."""
    return scenario_for(name, load_scenario(name, nodes=nodes), on=on, defect=defect)


def load_scenario(name: str, *, nodes: int | None, disk: str | None = None) -> Scenario:
    """Read a scenario without checking it against a backend. Raises BadInput with all mistakes."""
    try:
        return load(catalogue.find(name), nodes, disk)
    except ScenarioError as error:
        raise BadInput(str(error)) from None


def scenario_for(name: str, scenario: Scenario, *, on: str, defect: str | None) -> Scenario:
    """Return the scenario fitted to a backend, with the defect. Raises BadInput with everything the backend can't do.

    `name`: what the scenario was found by, for the messages.
    """
    backend = registry.find(on)
    require_known_defect(backend, defect)
    if defect is not None:
        scenario = replace(scenario, defect=defect)
    wrong = mistakes(backend, scenario)
    if wrong:
        raise BadInput("\n".join(f"{catalogue.find(name)}: {words}" for words in wrong))
    return fitted(backend, scenario)


def require_known_defect(backend: Backend, name: str | None) -> None:
    """Raise BadInput unless the backend's nodes can be built with the defect; None is no defect."""
    if name is None or name in backend.defects:
        return
    if able := [other.name for other in registry.ours() if name in other.defects]:
        known = f"it can be built into those on {', '.join(able)}"
        raise BadInput(f"the defect {name!r} can't be built into the nodes on {backend.name}; {known}")
    check_names("defect", [name], backend.defects)


def options_for(
    name: str, scenario: Scenario, *, seed: int | None, results: Path, record: bool | None = None,
    keep_data: bool = False, nodes: int | None = None, on: str = "processes", release: str | None = None,
    disk: str | None = None, to: str | None = None,
) -> RunOptions:  # fmt: skip
    """Return the options of a run, with the command that repeats it. Raises BadInput.

    `seed`, `record`: override the scenario's. `release`: the nodes' release; `to`: the one that they are upgraded to. `nodes`,
    `disk`: as they were given to `load_scenario`, for the command only.
    """
    backend = registry.find(on)
    if record and Ability.RECORDING not in backend.abilities:
        raise BadInput(refusal(backend, "--record", Ability.RECORDING))
    seed = scenario.seed if seed is None else seed
    command = ["zab", "run", name, *(["--on", on] if on != "processes" else []), "--seed", str(seed)]
    if nodes is not None:
        command += ["--nodes", str(nodes)]
    if disk is not None:
        command += ["--disk", disk]
    release, to = require_releases(backend, release, to)
    command += release_words(on, release, to)
    if scenario.defect is not None:
        command += ["--defect", scenario.defect]
    if record is not None:
        command.append("--record" if record else "--no-record")
    return RunOptions(
        seed=seed,
        results=results,
        command=shlex.join(command),
        defect=defect_option(backend, scenario.defect),
        record=scenario.record if record is None else record,
        keep_data=keep_data,
        on=on,
        release=release,
        to=to,
    )


def require_releases(backend: Backend, *named: str | None) -> list[str | None]:
    """Return the backend's values for the releases that the user named. Raises BadInput with all mistakes."""
    return all_of(*(partial(backend.release, one) if one is not None else lambda: None for one in named))


def release_words(on: str, release: str | None, to: str | None) -> list[str]:
    """Return the words of a command line that choose these releases on a backend."""
    begins = [f"--{on}" if on == "zookeeper" else "--from", release] if release is not None else []
    return [*begins, *(["--to", to] if to is not None else [])]


def defect_option(backend: Backend, name: str | None) -> tuple[str, str] | None:
    """Return the value of RunOptions.defect for the defect of this name."""
    return (name, backend.defects[name]) if name is not None else None
