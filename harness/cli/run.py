"""`zab run`: run one scenario, judge it and show the result."""

import time
from dataclasses import replace
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.fitting import require_disk
from zab_chaos.harness.backends.lockstep.compare import FileDifference, first_difference
from zab_chaos.harness.cli.ci_report import ci_report
from zab_chaos.harness.cli.output import console_for, print_json
from zab_chaos.harness.errors import BadInput, Exit, all_of
from zab_chaos.harness.report import ci, terminal
from zab_chaos.harness.report.console import say
from zab_chaos.harness.runs.options import (
    RunOptions,
    chosen_release,
    implied_backend,
    load_scenario,
    options_for,
    require_known_defect,
    scenario_for,
)
from zab_chaos.harness.runs.run import run_shown
from zab_chaos.model.verdict import Outcome


def run_command(
    name: str, *, on: str, seed: int | None, nodes: int | None, defect: str | None, results: Path, record: bool | None,
    keep_data: bool, json: bool, quiet: bool, compare: bool, junit: Path | None, zookeeper: str | None, disk: str | None,
    from_: str | None = None, to: str | None = None,
) -> int:  # fmt: skip
    """Check the options, run the scenario and show the result. Raises BadInput.

    `compare`: also run it in the simulator and compare all bytes. `zookeeper`, `from_`, `to`: releases. The exit code is that
    of the verdict, or 1 if the comparison shows a difference.
    """
    scenario, _, _ = all_of(
        lambda: load_scenario(name, nodes=nodes, disk=disk),
        # On processes it is checked below: the scenario or --zookeeper may imply another backend.
        lambda: require_known_defect(registry.find(on), defect if on != "processes" else None),
        lambda: ci.check_writable(junit),
    )
    if zookeeper is not None or (on == "processes" and scenario.zookeeper.release is not None):
        on = implied_backend(on)
    scenario = scenario_for(name, scenario, on=on, defect=defect)
    require_disk(registry.find(on), scenario, disk)
    if compare and on != "lockstep":
        raise BadInput("--compare compares a lockstep run with the simulated one; it needs --on lockstep")
    options = options_for(
        name,
        scenario,
        on=on,
        seed=seed,
        results=results,
        record=record,
        keep_data=keep_data or compare,
        nodes=nodes,
        release=chosen_release(zookeeper, from_),
        to=to,
        disk=disk,
    )
    with ci_report(f"zab run {scenario.name}", junit) as report:
        return _run(scenario, options, report, compare=compare, json=json, quiet=quiet)


def _run(scenario: Scenario, options: RunOptions, report: ci.Report, *, compare: bool, json: bool, quiet: bool) -> int:
    console = console_for(json=json)
    simulated = run_shown(scenario, replace(options, on="sim"), console, quiet=True) if compare else None
    begun = time.monotonic()
    if simulated is not None and simulated.interrupted:
        ran = simulated
    else:
        ran = run_shown(scenario, options, console, quiet=quiet)
    seconds = time.monotonic() - begun
    terminal.show(ran.folder, console, brief=quiet)
    answer = {"folder": str(ran.folder.path), "run": ran.folder.read_run(), **msgspec.to_builtins(ran.verdict)}
    equal = True
    if simulated is not None and not ran.interrupted:
        difference = first_difference(simulated.folder.path, ran.folder.path)
        equal = difference is None
        if not equal:
            report.error = ci.CommandError(Outcome.VIOLATION, f"the run differs from the simulated one: {difference}")
        _show_comparison(simulated.folder.path, difference, console)
        answer["compared"] = {"with": str(simulated.folder.path), "difference": msgspec.to_builtins(difference)}
    if json:
        print_json(answer)
    if report.wanted:
        report.cases.append(ci.case_of(ran.folder, ran.verdict, seconds))
    return ran.verdict.exit if equal else Exit.VIOLATION


def _show_comparison(simulated: Path, difference: FileDifference | None, console: Console) -> None:
    line = f"sim      {simulated}\n"
    if difference is None:
        say(console, Text(line).append("EQUAL", "green").append(": the same bytes as in the simulator"))
    else:
        say(console, Text(line).append("DIFFERENT", "bold red").append(f": {difference}"))
