"""`zab scenarios`: list the shipped scenarios, or run them and compare their verdicts with the expected ones."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from zab_chaos.faults.scenario import Scenario, ScenarioError, load
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.fitting import fitted, mistakes
from zab_chaos.harness.cli.checks import Checks
from zab_chaos.harness.cli.output import console_for, indented, print_json
from zab_chaos.harness.errors import BadInput, Exit, check_names
from zab_chaos.harness.explore.trials import Ending, Trial
from zab_chaos.harness.explore.workers import run_workers
from zab_chaos.harness.report.console import say
from zab_chaos.harness.runs import catalogue
from zab_chaos.harness.runs.options import options_for
from zab_chaos.harness.runs.run import run_quietly
from zab_chaos.model.verdict import ended_as_expected
from zab_chaos.pipeline.naming import plural


def chosen_scenarios(only: list[str]) -> dict[str, Scenario]:
    """Return the named scenarios, or all shipped ones except those of the defects. Raises BadInput."""
    known = catalogue.shipped()
    check_names("scenario", only, known)
    chosen = only or [name for name in known if not name.startswith("defects/")]
    try:
        return {name: load(known[name]) for name in chosen}
    except ScenarioError as error:
        raise BadInput(str(error)) from None


def show(only: list[str], *, json: bool) -> int:
    """List the named scenarios, or all of them. Raises BadInput."""
    scenarios = chosen_scenarios(only)
    if json:
        print_json([_facts(name, scenario) for name, scenario in scenarios.items()])
        return Exit.PASS
    console = console_for(json=json)
    for name, scenario in scenarios.items():
        facts = _facts(name, scenario)
        title = Text(name, "bold")
        title.append(
            f"  {plural(facts['nodes'], 'node')}, {facts['duration']:g} s, {', '.join(facts['faults']) or 'no faults'}",
            "dim",
        )
        if facts["expects"] != "PASS":
            title.append(f"  expects {facts['expects']}", "yellow")
        if scenario.ticket is not None:
            title.append(f"  {scenario.ticket.id}, seen on {', '.join(scenario.ticket.fails)}", "yellow")
        console.print(title, highlight=False)
        console.print(indented(scenario.about), highlight=False)
    say(console, "\nRun one with: zab run NAME; your own with: zab run FILE")
    return Exit.PASS


def _facts(name: str, scenario: Scenario) -> dict[str, Any]:
    return {
        "name": name,
        "about": scenario.about,
        "nodes": scenario.nodes,
        "duration": scenario.duration,
        "faults": scenario.kinds,
        "expects": scenario.expect.verdict,
        "exit": scenario.expect.exit,
        "file": scenario.file,
    }


def check(only: list[str], *, on: str, times: int, jobs: int, results: Path, json: bool) -> int:
    """Run each scenario that the backend supports, `jobs` at a time. Raises BadInput.

    Exit codes: 0 all end as expected; 1 one does not; 2 none could be run, or the user stopped the check.
    """
    console, chosen = console_for(json=json), chosen_scenarios(only)
    runnable = _runnable(chosen, on, console)
    with run_workers(jobs) as workers:
        trials = workers.results(partial(_check_one, on, times, results), runnable)
        checks = Checks(trials, _words, console)
    checked = checks.done
    if checked or checks.complete:
        say(console, f"\n{sum(one.holds for one in checked)} of {len(checked)} scenarios end as expected.")
    if not checks.complete:
        say(console, f"interrupted: {len(checked)} of {len(chosen)} scenarios were run")
    if json:
        facts = {one.name: {"exits": [run.exit for run in one.endings], "holds": one.holds} for one in checked}
        print_json([{"name": name, "expected": chosen[name].expect.exit} | it for name, it in facts.items()])
    return checks.exit


def _runnable(chosen: dict[str, Scenario], on: str, console: Console) -> Iterator[tuple[str, Scenario]]:
    """Yield each scenario that the backend supports, fitted to it, and say why the others are not run."""
    backend = registry.find(on)
    for name, scenario in chosen.items():
        wrong = mistakes(backend, scenario)
        if scenario.ticket is not None:
            wrong = ["it shows a bug of Apache ZooKeeper, and `zab zookeeper check` runs it"]
        if wrong:
            say(console, f"{name}: not run, {'; '.join(wrong)}", "dim")
        else:
            yield name, fitted(backend, scenario)


def _check_one(on: str, times: int, results: Path, chosen: tuple[str, Scenario]) -> Trial:
    name, scenario = chosen
    checked = Trial(name, partial(_as_expected, asdict(scenario.expect)))
    for seed in range(scenario.seed, scenario.seed + times):
        ran = run_quietly(scenario, options_for(name, scenario, on=on, seed=seed, results=results))
        checked.add(ran.verdict, ran.folder.path)
    return checked


def _as_expected(expect: dict[str, Any], run: Ending) -> bool:
    return ended_as_expected(expect, run.verdict, run.violated)


def _words(checked: Trial) -> str:
    """Format the exit codes with their counts: `exit 0, as expected`, or `exit 0 (9 of 10), 2 (1 of 10), NOT AS EXPECTED`."""
    exits = Counter(one.exit for one in checked.endings)
    counts = (
        f"{code} ({count} of {checked.runs})" if len(exits) > 1 else f"{code}" for code, count in sorted(exits.items())
    )
    return f"exit {', '.join(counts)}, {'as expected' if checked.holds else 'NOT AS EXPECTED'}"
