"""Runs a scenario on the backend that its options name."""

from rich.console import Console

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.errors import Interrupted
from zab_chaos.harness.report.progress import display
from zab_chaos.harness.runs.options import RunOptions
from zab_chaos.harness.runs.run import Ran, run


def run_shown(scenario: Scenario, wish: RunOptions, console: Console, *, quiet: bool) -> Ran:
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


def run_quietly(scenario: Scenario, wish: RunOptions) -> Ran:
    """One run of many, shown by whoever wants it. Raises Interrupted when the user ends it: the rest is not begun."""
    ran = run_shown(scenario, wish, Console(quiet=True), quiet=True)
    if ran.interrupted:
        raise Interrupted(f"interrupted; the last run is {ran.folder.path}")
    return ran
