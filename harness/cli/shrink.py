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

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.cli.lab_flapping import LAB, shrink_lab
from zab_chaos.harness.cli.output import console_for, print_json, write_file
from zab_chaos.harness.errors import BadInput, Exit, Interrupted
from zab_chaos.harness.explore.exploration import Explored, Task, try_seed
from zab_chaos.harness.explore.workers import Workers
from zab_chaos.harness.machine import environment
from zab_chaos.harness.machine.interrupt import Stopped
from zab_chaos.harness.report.console import say
from zab_chaos.harness.runs.options import options_for
from zab_chaos.harness.runs.run import run_quietly
from zab_chaos.harness.shrink.candidates import shrink
from zab_chaos.harness.shrink.failure import Culprit, Start, facts_of, find_culprit, find_start
from zab_chaos.harness.shrink.rerun import Rerun
from zab_chaos.harness.shrink.search import Budget, Search, checked, failing_seeds, still_fails, witnesses

PERIOD = 2.0  # seconds from one line of progress to the next
TRIES = 3  # on real processes
OTHER_SEEDS = 20  # that the result is tried with
FOLDER = "shrunk/"  # before the name of what was shrunk


@dataclass(slots=True)
class _Progress:
    """Prints a line of progress every few seconds."""

    console: Console
    quiet: bool
    printed: float = field(default_factory=time.monotonic)
    words: str = ""

    def step(self, scenario: Scenario) -> None:
        load = f"{len(scenario.operations)}" if scenario.operations else f"{scenario.workload.rate:g} a second"
        faults = f"{len(scenario.faults)} fault{'' if len(scenario.faults) == 1 else 's'}"
        self.words = f"{faults}, operations: {load}, {scenario.nodes} nodes, {scenario.duration:g} s"

    def tried(self, search: Search) -> None:
        if not self.quiet and time.monotonic() - self.printed > PERIOD:
            self.printed = time.monotonic()
            say(self.console, f"{search.tries} tries: {self.words}")


def shrink_command(
    what: str, *, seed: int | None, defect: str | None, swarmed: bool, nodes: int | None, out: Path | None,
    budget: str, jobs: int | None, confirm: bool, rerun: bool, times: int, results: Path, json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Shrink a failed run or a failing seed. Raises BadInput, also for one that did not fail.

    Exit 0: shrunk; 2: it does not fail again, or the user stopped the search (the smallest so far is written).
    """
    limit = read_budget(budget)
    console = console_for(json=json)
    if what == LAB:
        unfit = {"--defect": defect is not None, "--swarm": swarmed, "--nodes": nodes is not None}
        return shrink_lab(console, seed=seed, out=out, unfit=unfit, json=json, quiet=quiet)
    culprit = find_culprit(what, results=results, seed=seed, defect=defect, swarmed=swarmed, nodes=nodes, real=rerun)
    place = _place(culprit, out)
    if culprit.on != "sim":
        return _by_running(culprit, place, limit, times, console, json=json, quiet=quiet)
    if not quiet:
        say(console, "reproducing the failure in the simulator")
    with Workers(jobs or environment.cores()) as workers:
        start = find_start(culprit, workers)
        if start is None:
            return _not_there(culprit, console, json=json)
        result = _shrink(culprit, start, workers, limit, console, quiet=quiet)
    wanted = confirm and not result.interrupted
    tried = partial(_confirm, result.scenario, start, place, results, console) if wanted else None
    return _tell(start, result, place, ["sim"], console, json=json, confirm=tried)


def _by_running(
    culprit: Culprit, place: Path, limit: Budget, times: int, console: Console, *, json: bool, quiet: bool
) -> int:
    """Shrink a run of what the simulator does not have. The runs' folders are not kept."""
    if not quiet:
        tries = "" if times == 1 else f", up to {times} times each"
        say(console, f"candidates are run on {culprit.on}, one after the other{tries}")
    with tempfile.TemporaryDirectory(prefix="zab-shrink-") as results:
        runs = Rerun(culprit=culprit, results=Path(results), times=times)
        start = runs.start()
        if start is None:
            why = f"{culprit.scenario.name} (seed {culprit.seed}) did not fail again on {culprit.on}; --times raises the tries"
            return _say_unknown(why, console, json=json)
        say(console, f"{start.scenario.name}, seed {start.scenario.seed}: {start.failure}")
        begun, before, progress = time.monotonic(), start.before, _Progress(console, quiet)
        search = Search(Workers(1), partial(runs.fails, start.failure), limit, progress.tried)
        result = _searched(search, progress, culprit, start, begun, lambda small: (runs.failing or before, None))
    release = [f"--{culprit.on}", culprit.release] if culprit.release is not None else []
    defect = ["--defect", culprit.scenario.defect] if culprit.scenario.defect is not None else []
    return _tell(start, result, place, [culprit.on, *release, *defect], console, json=json)


def _tell(
    start: Start,
    result: "_Result",
    place: Path,
    on: Sequence[str],
    console: Console,
    *,
    json: bool,
    confirm: Callable[[], dict[str, Any]] | None = None,
) -> int:
    """Write the result and say what came of it. `on`: where it fails, as for `zab run --on`; `confirm` tries it elsewhere."""
    write_file(place, result.scenario.source)
    again = shlex.join(["zab", "run", str(place), "--on", *on])
    _show(start, result, place, again, console)
    confirmed = confirm() if confirm is not None else None
    say(console, f"again    {again}")
    if json:
        print_json(_answer(start, result, place, again, confirmed))
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


def _place(culprit: Culprit, out: Path | None) -> Path:
    """The path of the result. Raises BadInput if it can't be written, before any work is done."""
    name = f"shrunk-{culprit.scenario.name.removeprefix(FOLDER).replace('/', '-')}-{culprit.seed}.toml"
    place = out or (culprit.folder.path / "shrunk.toml" if culprit.folder is not None else Path(name))
    if place.is_dir() or not place.parent.is_dir():
        what = "is a folder" if place.is_dir() else f"cannot be written: there is no folder {place.parent}"
        raise BadInput(f"--out: {place} {what}; name a file")
    return place


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """The shrunk scenario. `after`: its run; `others`: how many of OTHER_SEEDS other seeds fail with it as well. Both are
    None if the user stopped the search."""

    scenario: Scenario
    after: Explored | None
    search: Search
    stopped: bool
    others: int | None
    seconds: float

    @property
    def interrupted(self) -> bool:
        return self.after is None


def _shrink(
    culprit: Culprit, start: Start, workers: Workers, limit: Budget, console: Console, *, quiet: bool
) -> _Result:  # fmt: skip
    """Shrink in the simulator."""
    begun = time.monotonic()
    scenario, failure, defect = start.scenario, start.failure, culprit.defect
    seeds = witnesses(workers, defect, failure, scenario, scenario.seed)
    meant = "seed" if len(seeds) == 1 else "all of the seeds"
    told = f"each candidate must fail with {meant} {', '.join(map(str, seeds))}"
    say(console, f"{scenario.name}, seed {scenario.seed}: {failure}; {told}")

    def tried(small: Scenario) -> tuple[Explored, int]:
        found, _ = try_seed(Task(scenario=small, defect=defect), small.seed)
        seeds_after = range(small.seed + 1, small.seed + 1 + OTHER_SEEDS)
        return found, len(failing_seeds(workers, defect, failure, small, seeds_after))

    progress = _Progress(console, quiet)
    search = Search(workers, partial(still_fails, defect, failure, seeds), limit, progress.tried)
    return _searched(search, progress, culprit, start, begun, tried)


def _searched(
    search: Search, progress: _Progress, culprit: Culprit, start: Start, begun: float,
    tried: Callable[[Scenario], tuple[Explored, int | None]],
) -> _Result:  # fmt: skip
    """Search until nothing smaller fails, or until the user stops it. `tried`: `_Result.after` and `.others`."""
    progress.step(start.scenario)
    after: Explored | None = None
    others: int | None = None
    try:
        small = _named(shrink(search, start.scenario, progress.step), culprit, start)
        after, others = tried(small)
    except (Stopped, Interrupted):
        small = _named(search.best or start.scenario, culprit, start)
    return _Result(
        scenario=small, after=after, search=search, stopped=search.over, seconds=time.monotonic() - begun, others=others
    )


def _named(small: Scenario, culprit: Culprit, start: Start) -> Scenario:
    """The scenario with a name and an `about` that say where it comes from and what it violates."""
    origin = culprit.scenario.name.removeprefix(FOLDER)
    defect = f" with the defect {culprit.scenario.defect}" if culprit.scenario.defect is not None else ""
    about = f"Shrunk from {origin}, seed {culprit.seed}{defect}: {start.failure}."
    simulated = culprit.on == "sim"
    record, kept = simulated or small.record, culprit.scenario.defect if simulated else None
    named = checked(replace(small, name=FOLDER + origin, about=about, defect=kept, record=record, ticket=None))
    assert named is not None  # every part of it was read before
    return named


def _not_there(culprit: Culprit, console: Console, *, json: bool) -> int:
    """Report that the failure does not show in the simulator."""
    why = (
        f"{culprit.scenario.name} (seed {culprit.seed}) does not fail in the simulator, neither with its own schedule nor with "
        "that of the run. Only what fails there can be shrunk. On real processes a seed fixes the faults and the load, but "
        "not the interleaving. `zab replay` shows what the run did, step by step."
    )
    return _say_unknown(why, console, json=json)


def _say_unknown(why: str, console: Console, *, json: bool) -> int:
    say(console, f"UNKNOWN: {why}")
    if json:
        print_json({"exit": int(Exit.UNKNOWN), "file": None, "why": why})
    return Exit.UNKNOWN


def _show(start: Start, result: _Result, place: Path, again: str, console: Console) -> None:
    console.print()
    console.print(Syntax(result.scenario.source.rstrip(), "toml", background_color="default", word_wrap=True))
    console.print()
    rows = {"before": facts_of(start.scenario, start.before)}
    if result.after is not None:
        rows["after"] = facts_of(result.scenario, result.after)
    console.print(_table(rows))
    words = f"{result.search.tries} tries in {result.seconds:.0f} s"
    if result.others is not None:
        words += f"; {result.others} of {OTHER_SEEDS} other seeds fail as well"
    say(console, f"\n{words}")
    if result.interrupted:
        say(console, "interrupted: this is the smallest failing scenario so far")
    elif result.stopped:
        say(console, "The budget is used up: a larger --budget may find a smaller one.")
    if result.after is not None and set(start.before.violated) != set(result.after.violated):
        say(console, f"Violated before: {_list(start.before.violated)}; now: {_list(result.after.violated)}")
    say(console, f"file     {place}")


def _table(rows: dict[str, dict[str, Any]]) -> Table:
    """A row for each scenario, a column for each fact."""
    table = Table(box=None, pad_edge=False)
    for name in ("", *next(iter(rows.values()))):
        table.add_column(name, justify="right" if name else "left")
    for words, facts in rows.items():
        table.add_row(words, *(f"{value:g}" if isinstance(value, float) else f"{value:,}" for value in facts.values()))
    return table


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"


def _confirm(scenario: Scenario, start: Start, place: Path, results: Path, console: Console) -> dict[str, Any]:
    """Run the result on real processes, up to TRIES times, and report whether it fails there too."""
    verdicts = []
    for number in range(TRIES):
        options = options_for(str(place), scenario, seed=scenario.seed + number, results=results)
        ran = run_quietly(scenario, options)
        violated = ran.verdict.violated
        verdicts.append(str(ran.verdict.verdict))
        if ran.verdict.verdict == start.failure.verdict and start.failure.property in (None, *violated):
            say(console, Text("confirmed", "green").append(f" on real processes: {start.failure}; {ran.folder.path}"))
            return {"confirmed": True, "tries": number + 1, "run": str(ran.folder.path)}
        if ran.verdict.exit == Exit.HARNESS_ERROR:
            break
    why = (
        ran.verdict.reasons[0] if ran.verdict.exit == Exit.HARNESS_ERROR and ran.verdict.reasons
        else "delays and disk times differ on real processes, so the same interleaving may not occur"
    )  # fmt: skip
    say(console, Text("not reproduced", "yellow").append(f" on real processes ({', '.join(verdicts)}): {why}"))
    return {"confirmed": False, "tries": len(verdicts), "run": str(ran.folder.path), "why": why}


def _answer(start: Start, result: _Result, place: Path, again: str, confirmed: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "exit": int(Exit.UNKNOWN if result.interrupted else Exit.PASS),
        "file": str(place),
        "failure": {"verdict": start.failure.verdict, "property": start.failure.property},
        "before": {**facts_of(start.scenario, start.before), "violated": start.before.violated},
        "after": None
        if result.after is None
        else {**facts_of(result.scenario, result.after), "violated": result.after.violated},
        "tries": result.search.tries,
        "complete": not (result.stopped or result.interrupted),
        "other_seeds": {"tried": 0 if result.others is None else OTHER_SEEDS, "failed": result.others},
        "processes": confirmed,
        "command": again,
    }
