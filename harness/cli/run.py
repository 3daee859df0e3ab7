"""`zab run`: one scenario, judged and shown."""

import shlex
import time
from dataclasses import replace
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from zab_chaos.faults.defects import DEFECTS
from zab_chaos.faults.registry import impossible
from zab_chaos.faults.scenario import Scenario, ScenarioError, load
from zab_chaos.harness.backends.lockstep.compare import Difference, first_difference
from zab_chaos.harness.cli.output import console_for, print_json
from zab_chaos.harness.errors import BadInput, Exit, Interrupted
from zab_chaos.harness.report import ci, terminal
from zab_chaos.harness.report.progress import display
from zab_chaos.harness.runs import catalogue
from zab_chaos.harness.runs.run import Ran, RunOptions, run

WORLDS = ("processes", "sim", "lockstep", "containers")


def run_command(
    name: str, *, on: str, seed: int | None, nodes: int | None, defect: str | None, results: Path, record: bool | None,
    keep_data: bool, json: bool, quiet: bool, compare: bool = False, junit: Path | None = None,
) -> int:  # fmt: skip
    """Check everything that was said, run, show. The exit code is the verdict's. Raises BadInput.

    `compare`: with the simulated run, byte for byte; a difference is exit 1.
    """
    scenario = read(name, on=on, nodes=nodes, defect=defect)
    ci.prepare(junit)
    if compare and on != "lockstep":
        raise BadInput("--compare holds a run in lockstep against the simulated one: it goes with --on lockstep only")
    wish = wish_for(
        name, scenario, on=on, seed=seed, results=results, record=record, keep_data=keep_data or compare, nodes=nodes
    )
    console = console_for(json=json)
    simulated = one(scenario, replace(wish, on="sim"), console, quiet=True) if compare else None
    begun = time.monotonic()
    ran = one(scenario, wish, console, quiet=quiet)
    seconds = time.monotonic() - begun
    terminal.show(ran.folder, console, brief=quiet)
    answer = {"folder": str(ran.folder.path), "run": ran.folder.read_run(), **msgspec.to_builtins(ran.verdict)}
    equal = True
    if simulated is not None and not (simulated.interrupted or ran.interrupted):
        difference = first_difference(simulated.folder.path, ran.folder.path)
        equal = difference is None
        _show_comparison(simulated.folder.path, difference, console)
        answer["compared"] = {"with": str(simulated.folder.path), "difference": msgspec.to_builtins(difference)}
    if json:
        print_json(answer)
    ci.publish(f"zab run {scenario.name}", [ci.case_of(ran.folder, ran.verdict, seconds)], junit)
    return ran.verdict.exit if equal else Exit.VIOLATION


def _show_comparison(simulated: Path, difference: Difference | None, console: Console) -> None:
    words = f"sim      {simulated}\n"
    if difference is None:
        console.print(Text(words).append("EQUAL", "green").append(": byte for byte what the simulator does"))
    else:
        console.print(Text(words).append("DIFFERENT", "bold red").append(f": {difference}"), soft_wrap=True)


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


def wish_for(
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


def one(scenario: Scenario, wish: RunOptions, console: Console, *, quiet: bool) -> Ran:
    """One run, shown while it goes on. The seed comes first: whatever happens then, it is known how to repeat it."""
    with display(console, quiet=quiet) as screen:
        defect = f", defect {scenario.defect}" if scenario.defect else ""
        screen.say(f"seed {wish.seed}: {scenario.name}, {scenario.nodes} nodes{defect}")
        if wish.on == "sim":
            from zab_chaos.harness.backends.simulator.run import run_sim

            return run_sim(scenario, wish, screen)
        if wish.on == "lockstep":
            from zab_chaos.harness.backends.lockstep.run import run_lockstep

            return run_lockstep(scenario, wish, screen)
        return run(scenario, wish, screen)


def unseen(scenario: Scenario, wish: RunOptions) -> Ran:
    """One run of many, shown by whoever wants it. Raises Interrupted when the user ends it: the rest is not begun."""
    ran = one(scenario, wish, Console(quiet=True), quiet=True)
    if ran.interrupted:
        raise Interrupted(f"interrupted; the last run is {ran.folder.path}")
    return ran
