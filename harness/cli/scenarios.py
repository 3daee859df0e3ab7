"""`zab scenarios`: list the shipped scenarios, or run them and compare their verdicts with the expected ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from zab_chaos.faults.scenario import Scenario, ScenarioError, load
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.fitting import fitted, mistakes
from zab_chaos.harness.cli.output import console_for, indented, print_json
from zab_chaos.harness.errors import BadInput, Exit, Interrupted, check_names
from zab_chaos.harness.machine.interrupt import Stopped
from zab_chaos.harness.report.console import say
from zab_chaos.harness.runs import catalogue
from zab_chaos.harness.runs.options import options_for
from zab_chaos.harness.runs.run import run_quietly


@dataclass(frozen=True, slots=True)
class CheckedScenario:
    """The exit codes of a scenario's runs, and the folders of the runs that did not end as expected."""

    name: str
    expected: int
    exits: list[int]
    unexpected: list[Path]

    @property
    def holds(self) -> bool:
        return not self.unexpected


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
            f"  {facts['nodes']} nodes, {facts['duration']:g} s, {', '.join(facts['faults']) or 'no faults'}", "dim"
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
    kinds = scenario.nemesis.faults if scenario.nemesis else dict.fromkeys(step.do for step in scenario.faults)
    return {
        "name": name,
        "about": scenario.about,
        "nodes": scenario.nodes,
        "duration": scenario.duration,
        "faults": list(kinds),
        "expects": scenario.expect.verdict,
        "exit": scenario.expect.exit,
        "file": scenario.file,
    }


def check(only: list[str], *, on: str = "processes", times: int, results: Path, json: bool) -> int:
    """Run each scenario that the backend supports. Raises BadInput.

    Exit codes: 0 all end as expected; 1 one does not; 2 the user stopped the check.
    """
    backend = registry.find(on)
    console = console_for(json=json)
    checked: list[CheckedScenario] = []
    chosen, interrupted = chosen_scenarios(only), False
    try:
        for name, scenario in chosen.items():
            wrong = mistakes(backend, scenario)
            if scenario.ticket is not None:
                wrong = ["it shows a bug of Apache ZooKeeper, and `zab zookeeper check` runs it"]
            if wrong:
                say(console, f"{name}: not run, {'; '.join(wrong)}", "dim")
                continue
            checked.append(_check_one(name, fitted(backend, scenario), on, times, results))
            _print_checked(checked[-1], console)
    except (Stopped, Interrupted):
        interrupted = True
    good = sum(one.holds for one in checked)
    if checked or not interrupted:
        say(console, f"\n{good} of {len(checked)} scenarios end as expected.")
    if interrupted:
        say(console, f"interrupted: {len(checked)} of {len(chosen)} scenarios were run")
    if json:
        print_json([{"name": c.name, "expected": c.expected, "exits": c.exits, "holds": c.holds} for c in checked])
    if good < len(checked):
        return Exit.VIOLATION
    return Exit.UNKNOWN if interrupted else Exit.PASS


def _print_checked(checked: CheckedScenario, console: Console) -> None:
    """Print one line for a scenario that is done, and the folders of its unexpected runs."""
    mark = Text("as expected", "green") if checked.holds else Text("NOT AS EXPECTED", "bold red")
    say(console, Text(f"{checked.name}: exit {_counts(checked.exits)}, ").append_text(mark))
    for folder in checked.unexpected:
        say(console, f"  {folder}")


def _check_one(name: str, scenario: Scenario, on: str, times: int, results: Path) -> CheckedScenario:
    checked = CheckedScenario(name, scenario.expect.exit, [], [])
    for number in range(times):
        options = options_for(name, scenario, on=on, seed=scenario.seed + number, results=results)
        ran = run_quietly(scenario, options)
        checked.exits.append(ran.verdict.exit)
        if not scenario.expect.met(ran.verdict.exit, ran.verdict.violated):
            checked.unexpected.append(ran.folder.path)
    return checked


def _counts(exits: list[int]) -> str:
    """Format exit codes with their counts: `0`, or `0 (9 of 10), 2 (1 of 10)`."""
    if len(set(exits)) == 1:
        return str(exits[0])
    return ", ".join(f"{code} ({exits.count(code)} of {len(exits)})" for code in sorted(set(exits)))
