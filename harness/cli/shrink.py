"""`zab shrink`: find the smallest scenario that still fails in the same way, and write it as a file."""

import re
import shlex
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from zab_chaos.faults.grammar import NAME_MAX
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.fitting import mistakes, without_unsupported
from zab_chaos.harness.cli.lab_flapping import LAB, shrink_lab
from zab_chaos.harness.cli.output import console_for, print_json, write_file
from zab_chaos.harness.errors import BadInput, Exit, HarnessError, Interrupted
from zab_chaos.harness.explore.exploration import SeedResult, Task, simulate_seed
from zab_chaos.harness.explore.seed_runs import SeedRuns
from zab_chaos.harness.explore.workers import LocalWorkers, run_workers
from zab_chaos.harness.machine import environment
from zab_chaos.harness.machine.files import output_file
from zab_chaos.harness.machine.interrupt import Stopped
from zab_chaos.harness.report.console import say, show_table, wrapping_table
from zab_chaos.harness.runs.options import release_words
from zab_chaos.harness.runs.run import run_quietly
from zab_chaos.harness.shrink import BUDGET
from zab_chaos.harness.shrink.candidates import shrink, smallest
from zab_chaos.harness.shrink.failure import (
    FailingCase,
    StartingPoint,
    facts_of,
    find_failing_case,
    find_starting_point,
)
from zab_chaos.harness.shrink.rerun import CandidateRuns
from zab_chaos.harness.shrink.search import (
    Budget,
    OtherSeeds,
    Search,
    Try,
    fails_with_all,
    reparsed,
    try_seeds,
    witness_seeds,
)
from zab_chaos.model.oracle.facts import CRASH_STATE
from zab_chaos.pipeline.naming import plural

PROGRESS_SECONDS = 2.0  # between two lines of progress
CONFIRM_TRIES = 3  # of the result on real processes
OTHER_SEEDS = 20  # the number of further seeds that the result is tried with
PREFIX = "shrunk/"  # of a shrunk scenario's name


@dataclass(slots=True)
class _Progress:
    """Prints a line of progress at most every PROGRESS_SECONDS; none with --quiet."""

    console: Console
    quiet: bool
    printed: float = field(default_factory=time.monotonic)  # the time of the last line
    size: str = ""  # of the smallest scenario so far

    def tell(self, words: str) -> None:
        if not self.quiet and time.monotonic() - self.printed > PROGRESS_SECONDS:
            self.printed = time.monotonic()
            say(self.console, words)

    def on_step(self, scenario: Scenario) -> None:
        load = f"{len(scenario.operations)}" if scenario.operations else f"{scenario.workload.rate:g} a second"
        faults = plural(len(scenario.faults), "fault")
        self.size = f"{faults}, operations: {load}, {plural(scenario.nodes, 'node')}, {scenario.duration:g} s"

    def on_try(self, search: Search) -> None:
        self.tell(f"{search.budget.used} tries: {self.size}")


def shrink_command(
    what: str, *, seed: int | None, defect: str | None, swarmed: bool, nodes: int | None, out: Path | None,
    budget: str, jobs: int | None, confirm: bool, rerun: bool, times: int, results: Path, json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Shrink a failed run or a failing seed, and write the result to a scenario file.

    Exit codes: 0 shrunk; 2 it does not fail again, or the user stopped the search (the smallest scenario so far is written).
    Raises BadInput, also if it did not fail in the first place.
    """
    limit = read_budget(budget)
    console = console_for(json=json)
    if what == LAB:
        excluded = {
            "--defect": defect is not None, "--swarm": swarmed, "--nodes": nodes is not None, "--rerun": rerun,
            "--jobs": jobs is not None, "--times": times != 1, "--budget": budget != BUDGET, "--no-confirm": not confirm,
        }  # fmt: skip
        return shrink_lab(console, seed=seed, out=out, excluded=excluded, json=json, quiet=quiet)
    case = find_failing_case(what, results=results, seed=seed, defect=defect, swarmed=swarmed, nodes=nodes, rerun=rerun)
    file = output_file(out or _default_file(case))
    if case.on != "sim":
        return _shrink_by_running(case, file, limit, times, jobs or 1, console, json=json, quiet=quiet)
    if not quiet:
        say(console, "reproducing the failure in the simulator")
    with LocalWorkers(jobs or environment.cores()) as workers:
        start = find_starting_point(case, workers, limit, _Progress(console, quiet).tell)
        if start is None:
            return _report_not_reproduced(case, limit, console, json=json)
        result = _shrink_in_simulator(case, start, workers, limit, console, quiet=quiet)
    to_confirm = confirm and not result.interrupted
    confirm_result = (
        partial(_confirm, result.scenario, start, file, results, console, quiet=quiet) if to_confirm else None
    )
    return _report(start, result, file, ["sim"], console, json=json, confirm=confirm_result)


def _shrink_by_running(
    case: FailingCase, file: Path, limit: Budget, times: int, jobs: int, console: Console, *, json: bool, quiet: bool
) -> int:
    """Shrink by running every candidate on the backend of the failed run. The folders of these runs are not kept."""
    if not quiet:
        at_a_time = "one after the other" if jobs == 1 else f"{jobs} at a time"
        tries = "" if times == 1 else f", up to {times} times each"
        say(console, f"candidates are run on {case.on}, {at_a_time}{tries}")
    with tempfile.TemporaryDirectory(prefix="zab-shrink-") as results, run_workers(jobs) as workers:
        runs = CandidateRuns(case=case, results=Path(results), times=times)
        start = runs.start(workers)
        if start is None:
            why = f"{case.scenario.name} (seed {case.seed}) did not fail again on {case.on}; --times raises the tries"
            return _report_unknown(why, console, json=json)
        say(console, f"{start.scenario.name}, seed {start.scenario.seed}: {start.failure}")
        begun, before, progress = time.monotonic(), start.before, _Progress(console, quiet)
        search = Search(workers, partial(runs.try_candidate, start.failure), limit, progress.on_try)
        search.remember(start.scenario, start.at)
        result = _run_search(
            search, progress, case, start, begun,
            find=lambda search: shrink(search, start.scenario, progress.on_step),
            evaluate=lambda small: (search.best_result or before, None),
        )  # fmt: skip
    release = release_words(case.on, case.release, case.to)
    defect = ["--defect", case.scenario.defect] if case.scenario.defect is not None else []
    return _report(start, result, file, [case.on, *release, *defect], console, json=json)


def _report(
    start: StartingPoint,
    result: "_Result",
    file: Path,
    on: Sequence[str],
    console: Console,
    *,
    json: bool,
    confirm: Callable[[], dict[str, Any]] | None = None,
) -> int:
    """Write the result to `file` and show it. Return the exit code.

    `on`: the arguments of `zab run --on` with which it fails. `confirm` tries it on real processes and returns the answer for
    --json.
    """
    try:
        write_file(file, result.scenario.source)
    except HarnessError:
        _show_scenario(result.scenario, console)  # the search may have taken long
        raise
    again = shlex.join(["zab", "run", str(file), "--on", *on])
    _show(start, result, file, console)
    confirmed = confirm() if confirm is not None else None
    say(console, f"repeat   {again}")
    if json:
        print_json(_answer(start, result, file, again, confirmed))
    return Exit.UNKNOWN if result.interrupted else Exit.PASS


def read_budget(text: str) -> Budget:
    """Parse a number of tries, such as `500`, or a time, such as `90s` or `5m`. Raises BadInput."""
    match = re.fullmatch(r"([1-9][0-9]{0,8})(s|m)?", text.strip())
    if match is None:
        raise BadInput(f"--budget is {text!r}; it needs a number of tries, such as 500, or a time, such as 90s or 5m")
    number, unit = int(match[1]), match[2]
    if unit is None:
        return Budget(number, None)
    return Budget(None, float(number * (60 if unit == "m" else 1)))


def _default_file(case: FailingCase) -> Path:
    if case.folder is not None:
        return case.folder.path / "shrunk.toml"
    return Path(f"shrunk-{case.scenario.name.removeprefix(PREFIX).replace('/', '-')}-{case.seed}.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """The shrunk scenario.

    `after`: the result of its run. `others`: the OTHER_SEEDS other seeds, as far as they were tried; None if seeds fix nothing.
    Both are None if the user stopped the search. `out_of_budget`: the search ended because the budget was used up.
    """

    scenario: Scenario
    after: SeedResult | None
    search: Search
    out_of_budget: bool
    others: OtherSeeds | None
    seconds: float

    @property
    def interrupted(self) -> bool:
        return self.after is None

    @property
    def seeds_left_out(self) -> int:
        """The number of other seeds that were not tried because the budget was used up."""
        return 0 if self.others is None else OTHER_SEEDS - self.others.tried


def _shrink_in_simulator(
    case: FailingCase, start: StartingPoint, workers: LocalWorkers, limit: Budget, console: Console, *, quiet: bool
) -> _Result:  # fmt: skip
    begun = time.monotonic()
    scenario, failure, defect = start.scenario, start.failure, case.defect
    progress = _Progress(console, quiet)
    say(console, f"{scenario.name}, seed {scenario.seed}: {failure}")

    def fails_with(*seeds: int) -> Try:
        return partial(fails_with_all, defect, failure, seeds, limit.deadline)

    def find(search: Search) -> Scenario:
        small = smallest(search, scenario)
        progress.on_step(small)
        times = {small.seed: search.failed_at(small)}
        times |= witness_seeds(workers, defect, failure, small, limit, progress.tell)
        which = "seed" if len(times) == 1 else "all of the seeds"
        say(console, f"each candidate must fail with {which} {', '.join(map(str, times))}")
        search.require(fails_with(*times))
        search.remember(small, max(times.values()))
        return shrink(search, small, progress.on_step)

    def evaluate(small: Scenario) -> tuple[SeedResult, OtherSeeds]:
        found = simulate_seed(Task(scenario=small, defect=defect), small.seed)
        seeds_after = range(small.seed + 1, small.seed + 1 + OTHER_SEEDS)
        return found, try_seeds(workers, defect, failure, small, seeds_after, limit, progress.tell)

    search = Search(workers, fails_with(scenario.seed), limit, progress.on_try)
    search.remember(scenario, start.at)
    return _run_search(search, progress, case, start, begun, find, evaluate)


def _run_search(
    search: Search, progress: _Progress, case: FailingCase, start: StartingPoint, begun: float,
    find: Callable[[Search], Scenario], evaluate: Callable[[Scenario], tuple[SeedResult, OtherSeeds | None]],
) -> _Result:  # fmt: skip
    """Search until nothing smaller fails, or until the user stops it.

    `find` returns the smallest scenario; `evaluate` returns `_Result.after` and `.others` for it.
    """
    progress.on_step(start.scenario)
    after: SeedResult | None = None
    others: OtherSeeds | None = None
    out_of_budget = False
    try:
        small = _with_description(find(search), case, start)
        out_of_budget = search.budget.used_up
        after, others = evaluate(small)
    except (Stopped, Interrupted):
        small = _with_description(search.best or start.scenario, case, start)
    return _Result(
        scenario=small,
        after=after,
        search=search,
        out_of_budget=out_of_budget,
        seconds=time.monotonic() - begun,
        others=others,
    )


def _with_description(small: Scenario, case: FailingCase, start: StartingPoint) -> Scenario:
    """Return the scenario with a name and an `about` that say where it comes from and what it violates.

    A violation does not depend on how many writes succeed, and so small a scenario may not reach the number of the original.
    """
    origin = case.scenario.name.removeprefix(PREFIX)
    defect = f" with the defect {case.scenario.defect}" if case.scenario.defect is not None else ""
    about = f"Shrunk from {origin}, seed {case.seed}{defect}: {start.failure}."
    simulated = case.on == "sim"
    record, kept = simulated or small.record, case.scenario.defect if simulated else None
    name = f"{PREFIX}{origin}"[:NAME_MAX].rstrip("-/")
    if start.failure.property is not None:
        small = replace(small, expect=replace(small.expect, min_acked=min(1, small.expect.min_acked)))
    named = reparsed(replace(small, name=name, about=about, defect=kept, record=record, ticket=None))
    assert named is not None  # every part of it was read before
    return named


def _report_not_reproduced(case: FailingCase, budget: Budget, console: Console, *, json: bool) -> int:
    """Report that the failure does not show in the simulator. Return the exit code of UNKNOWN."""
    if budget.used_up:
        why = "the budget was used up before a fixed schedule failed; --budget raises it"
        return _report_unknown(why, console, json=json)
    why = (
        f"{case.scenario.name} (seed {case.seed}) does not fail in the simulator, neither with its own schedule nor with "
        "that of the run. Only a failure that shows there can be shrunk. On real processes a seed fixes the faults and the "
        "load, but not the interleaving. `zab replay` shows what the run did, step by step."
    )
    return _report_unknown(why, console, json=json)


def _report_unknown(why: str, console: Console, *, json: bool) -> int:
    say(console, f"UNKNOWN: {why}")
    if json:
        print_json({"exit": int(Exit.UNKNOWN), "file": None, "why": why})
    return Exit.UNKNOWN


def _show(start: StartingPoint, result: _Result, file: Path, console: Console) -> None:
    """Print the scenario, its size before and after, and how the search ended."""
    _show_scenario(result.scenario, console)
    rows = {"before": facts_of(start.scenario, start.before)}
    if result.after is not None:
        rows["after"] = facts_of(result.scenario, result.after)
    show_table(console, _size_table(rows))
    summary = f"{result.search.budget.used} tries in {result.seconds:.0f} s"
    if result.others is not None and result.others.tried:
        summary += f"; {len(result.others.failing)} of {result.others.tried} other seeds fail as well"
    say(console, f"\n{summary}")
    if result.interrupted:
        say(console, "interrupted: this is the smallest failing scenario so far")
    elif result.out_of_budget or result.seeds_left_out:
        say(console, f"The budget is used up: {_left_out(result)}.")
    if result.after is not None and set(start.before.violated) != set(result.after.violated):
        say(console, f"Violated before: {_names(start.before.violated)}; now: {_names(result.after.violated)}")
    before, now = (
        start.failure.words_in(found) if found is not None else None for found in (start.before, result.after)
    )
    if now is not None and now != before:
        say(console, f"before   {before or start.failure}\nnow      {now}")
    say(console, f"file     {file}")


def _left_out(result: _Result) -> str:
    """Return what was not done because the budget was used up."""
    smaller = ["a larger --budget may find a smaller scenario"] if result.out_of_budget else []
    seeds = [f"{result.seeds_left_out} of {OTHER_SEEDS} other seeds were not tried"] if result.seeds_left_out else []
    return "; ".join(smaller + seeds)


def _show_scenario(scenario: Scenario, console: Console) -> None:
    console.print()
    # A wrapped line would not be TOML.
    say(console, Syntax("", "toml", background_color="default").highlight(scenario.source.rstrip()))
    console.print()


def _size_table(rows: dict[str, dict[str, Any]]) -> Table:
    """Return a table with a row for each scenario and a column for each number."""
    numbers = list(next(iter(rows.values())))
    table = wrapping_table("", *numbers, right=numbers)
    for name, facts in rows.items():
        table.add_row(name, *(f"{value:g}" if isinstance(value, float) else f"{value:,}" for value in facts.values()))
    return table


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"


def _confirm(
    scenario: Scenario, start: StartingPoint, file: Path, results: Path, console: Console, *, quiet: bool
) -> dict[str, Any]:
    """Run the result on real processes until it fails in the same way, up to CONFIRM_TRIES times.

    It is not run if it needs what only the simulator can do. Print whether it failed, and return that for the JSON answer.
    """
    processes = registry.find("processes")
    crash_states = ["only the simulator tries crash states"] if CRASH_STATE in (start.failure.milestones or ()) else []
    lacking = "; ".join([*mistakes(processes, scenario), *crash_states])
    if lacking:
        say(console, Text("not tried", "yellow").append(f" on real processes: {lacking}"))
        return {"confirmed": False, "tries": 0, "run": None, "why": lacking}
    fit = without_unsupported(processes, scenario)
    changed = fit.limits != scenario.limits  # then it is not the scenario in `file`
    runs = SeedRuns(name=str(file), results=results, on=processes.name)
    verdicts, unknown = [], ""
    for number in range(CONFIRM_TRIES):
        if not quiet:
            say(console, f"confirming on real processes, run {number + 1} of at most {CONFIRM_TRIES}")
        options = runs.options(fit, fit.seed + number, drawn=changed)
        ran = run_quietly(fit, options, console if console.is_terminal and not quiet else None)
        violated = ran.verdict.violated
        verdicts.append(f"{ran.verdict.verdict} of {_names(violated)}" if violated else str(ran.verdict.verdict))
        if ran.verdict.verdict == start.failure.verdict and start.failure.property in (None, *violated):
            say(console, Text("confirmed", "green").append(f" on real processes: {start.failure}; {ran.folder.path}"))
            return {"confirmed": True, "tries": number + 1, "run": str(ran.folder.path)}
        if ran.verdict.exit == Exit.HARNESS_ERROR:
            break
        if ran.verdict.exit == Exit.UNKNOWN:
            unknown = unknown or next(iter(ran.verdict.reasons), "")
    why = (
        ran.verdict.reasons[0] if ran.verdict.exit == Exit.HARNESS_ERROR and ran.verdict.reasons
        else f"in none of the runs {start.failure}. Delays and disk times differ there, so the same interleaving may not occur"
    )  # fmt: skip
    why += f". UNKNOWN: {unknown}" if unknown else ""
    say(console, Text("not reproduced", "yellow").append(f" on real processes ({'; '.join(verdicts)}): {why}"))
    return {"confirmed": False, "tries": len(verdicts), "run": str(ran.folder.path), "why": why}


def _answer(
    start: StartingPoint, result: _Result, file: Path, again: str, confirmed: dict[str, Any] | None
) -> dict[str, Any]:
    return {
        "exit": int(Exit.UNKNOWN if result.interrupted else Exit.PASS),
        "file": str(file),
        "failure": {"verdict": start.failure.verdict, "property": start.failure.property},
        "before": {**facts_of(start.scenario, start.before), "violated": start.before.violated},
        "after": None
        if result.after is None
        else {**facts_of(result.scenario, result.after), "violated": result.after.violated},
        "tries": result.search.budget.used,
        "complete": not (result.out_of_budget or result.interrupted),
        "other_seeds": {
            "tried": 0 if result.others is None else result.others.tried,
            "failed": None if result.others is None else len(result.others.failing),
        },
        "processes": confirmed,
        "command": again,
    }
