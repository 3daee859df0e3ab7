"""`zab explore`: run many seeds, and show the smallest that fails with the command that repeats it."""

import logging
import multiprocessing
import re
import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path

import multiprocessing_logging
from rich.console import Console
from rich.text import Text

from zab_chaos.faults.defects import DEFECTS
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends import registry
from zab_chaos.harness.cli.ci_report import ci_report
from zab_chaos.harness.cli.lab_flapping import LAB, explore_lab, refuse_options
from zab_chaos.harness.cli.output import console_for, write_answer
from zab_chaos.harness.errors import BadInput, Interrupted
from zab_chaos.harness.explore import swarm
from zab_chaos.harness.explore.coverage import show_coverage
from zab_chaos.harness.explore.exploration import LOG, SeedResult, Task, explore_with
from zab_chaos.harness.explore.guided import explore_guided, keep_weights, read_weights
from zab_chaos.harness.explore.seed_runs import SIM, SeedRuns, read_keep
from zab_chaos.harness.explore.seeds import read_seeds
from zab_chaos.harness.explore.spark_session import BAD_MASTER, MASTER
from zab_chaos.harness.explore.summary import ExplorationSummary
from zab_chaos.harness.explore.swarm import EVEN, Weights
from zab_chaos.harness.explore.workers import AHEAD, LocalWorkers, WorkerPool, run_workers
from zab_chaos.harness.machine import environment
from zab_chaos.harness.machine.files import writing
from zab_chaos.harness.machine.interrupt import Stopped
from zab_chaos.harness.report import ci, terminal
from zab_chaos.harness.report.console import say
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs.options import (
    chosen_release,
    implied_backend,
    read_scenario,
    release_words,
    require_releases,
)
from zab_chaos.harness.runs.run import run_shown, uninterrupted
from zab_chaos.harness.shrink.failure import is_foreign
from zab_chaos.model.events import TRACES
from zab_chaos.model.verdict import Outcome, expected_ending, worst

SHOWN_MAX = 12  # lines of a list on the terminal; the summary file has all of them


@dataclass(slots=True, kw_only=True)
class _Exploration:
    """One call of the command: its options, and what was found so far."""

    runs: SeedRuns
    seeds: range
    task: Task
    guided: bool
    keep_going: bool
    out: Path | None
    quiet: bool
    console: Console
    summary: ExplorationSummary
    report: ci.Report
    failing_task: Task | None = None  # the task of the first seed that failed
    interrupted: str = ""  # the message for the user, if it was interrupted

    def run(self, workers: WorkerPool) -> None:
        """Run all seeds, or up to the first that fails, or until the user stops it."""
        try:
            for used, found in self._results(workers):
                self._add(used, found)
                if self._ends_with(found):
                    break
        except (Stopped, Interrupted) as error:
            self.interrupted = str(error) or "interrupted"
            self.summary.interrupted = True
            self.summary.outcomes.add(Outcome.UNKNOWN)
            self.report.interrupted(self.summary.interruption(self.seeds))

    def _results(self, workers: WorkerPool) -> Iterator[tuple[Task, SeedResult]]:
        if self.guided:
            on_batch = partial(_keep_weights, self.task.scenario, self.runs.results, self.console)
            return explore_guided(workers, self.task, self.seeds, on_batch)
        return ((self.task, found) for found in explore_with(workers, self.task, self.seeds))

    def _ends_with(self, found: SeedResult) -> bool:
        """Return whether the exploration ends with this seed, although others are left."""
        return found.failed and not self.keep_going

    def _add(self, used: Task, found: SeedResult) -> None:
        """Count and print the result of one seed. `used`: the task that it was run with."""
        self.summary.add(found)
        if self.report.wanted:
            self.report.cases.append(_case_of(used, self.runs, found))
        show_draw = not self.quiet and self.summary.total <= SHOWN_MAX
        _print_seed(used, found, self.console, show_draw=show_draw)
        is_last = self.summary.seeds == self.summary.total or self._ends_with(found)
        if self.summary.progress_due():
            write_answer(self.summary.to_dict(), self.out, json=False)
            if not self.quiet and not is_last:  # the totals begin with the same line
                say(self.console, self.summary.progress_line())
        if found.failed:
            self.failing_task = self.failing_task or used

    def show(self) -> None:
        """Print the totals, that a bug was not caught, the seeds that are UNKNOWN, and where the kept runs are."""
        for line in self.summary.total_lines():
            say(self.console, line)
        if self.task.scenario.defect is not None and not self.summary.verdicts[Outcome.VIOLATION]:
            say(self.console, f"the defect {self.task.scenario.defect} was not caught")
        for each in self.summary.unknown[:SHOWN_MAX]:
            say(self.console, f"seed {each.seed} is UNKNOWN: {'; '.join(each.reasons)}")
        if self.summary.kept:
            place = shlex.quote(str(self.runs.results / self.task.scenario.name))
            runs = "1 run" if self.summary.kept == 1 else f"{self.summary.kept:,} runs"
            say(self.console, f"kept     {runs}; to analyze: zab analyze {place}")

    def show_smallest(self) -> str | None:
        """Show the run of the smallest seed that failed. Return the command that repeats it; None if no seed failed."""
        if not self.summary.failed:
            return None
        smallest, task = self.summary.failed[0], self.failing_task or self.task
        again = shlex.join(_repeat_command(task, self.runs, smallest.seed))
        if self.interrupted:
            say(self.console, f"\nThe smallest seed that failed is {smallest.seed}:  {again}")
            return again
        try:
            folder = self._show_failed_run(task, smallest)
        except (Stopped, Interrupted) as error:
            self.interrupted = str(error) or "interrupted"
            return again
        verdict = folder.read_verdict()
        if verdict is not None:
            full_case = ci.case_of(folder, verdict, smallest.wall_seconds)
            cases = self.report.cases
            self.report.cases = [full_case if case.seed == smallest.seed else case for case in cases]
        return folder.read_run().get("command")

    def _show_failed_run(self, task: Task, found: SeedResult) -> RunFolder:
        """Show the run of a seed that failed. If its folder was not kept, run the seed again with all its files."""
        say(self.console, f"\nThe smallest seed that fails is {found.seed}:")
        folder = RunFolder(found.folder) if found.folder is not None else self._run_again(task, found.seed)
        terminal.show(folder, self.console, brief=True)
        say(self.console, f"smaller  {command_to_shrink(folder)}")
        return folder

    def _run_again(self, task: Task, seed: int) -> RunFolder:
        scenario = task.scenario_of(seed)
        options = self.runs.options(scenario, seed, drawn=task.swarm)
        return uninterrupted(run_shown(scenario, options, self.console, quiet=True)).folder


def command_to_shrink(folder: RunFolder) -> str:
    """Return the command that shrinks a run; with a budget if each try is a real run and not a simulated one."""
    budget = ["--budget", "20m"] if is_foreign(folder.read_run()) else []
    return shlex.join(["zab", "shrink", str(folder.path), *budget])


def explore_command(
    name: str, *, seeds: str, jobs: int | None, swarmed: bool, coverage: bool, defect: str | None, nodes: int | None,
    keep_going: bool, results: Path, out: Path | None, json: bool, quiet: bool, master: str | None, junit: Path | None,
    guided: bool, weights: Path | None, keep: str | None, on: str, zookeeper: str | None, from_: str | None = None,
    to: str | None = None,
) -> int:  # fmt: skip
    """Run the seeds and show the smallest that fails. The exit code is that of the worst unexpected verdict; 1 for a PASS.

    `out`: a file for the summary; `keep`: see `read_keep`; `zookeeper`, `from_`, `to`: releases. Raises BadInput, HarnessError.
    """
    seed_range = read_seeds(seeds)
    on = on if zookeeper is None else implied_backend("zookeeper" if on == SIM else on)
    _check_combinations(name, master=master, jobs=jobs, guided=guided, weights=weights, junit=junit, keep=keep)
    if on != SIM:
        _check_simulator_options(
            name, on, swarmed=swarmed, master=master, coverage=coverage, guided=guided, weights=weights, keep=keep
        )  # fmt: skip
    keep_below = read_keep(keep, seed_range) if keep is not None else None
    console = console_for(json=json)
    processes = min(jobs or (environment.cores() if on == SIM else 1), len(seed_range))
    if name == LAB:
        refuse_options(
            {
                "--defect": defect is not None, "--swarm": swarmed, "--nodes": nodes is not None, "--coverage": coverage,
                "--guided": guided, "--weights": weights is not None,
            }
        )  # fmt: skip
        return explore_lab(seed_range, console, out, jobs=processes, keep_going=keep_going, json=json)
    scenario = read_scenario(name, on=on, nodes=nodes, defect=defect)
    first = chosen_release(zookeeper, from_)
    require_releases(registry.find(on), first, to)
    ci.check_writable(junit)
    known_defect = DEFECTS.get(scenario.defect or "")
    one_by_one = on != SIM and processes == 1
    terminal = console if one_by_one and console.is_terminal and not quiet else None
    runs = SeedRuns(name=name, results=results, nodes=nodes, on=on, release=first, to=to, terminal=terminal)
    task = Task(
        scenario=scenario,
        defect=known_defect.path if known_defect is not None else None,
        swarm=swarmed or guided or weights is not None,
        coverage=coverage or guided,
        weights=read_weights(weights) if weights is not None else EVEN,
        weights_file=weights,
        # Executors of Spark may have another working directory.
        runs=replace(runs, results=results.absolute(), keep_below=keep_below) if keep_below is not None else runs,
    )
    with ci_report(f"zab explore {scenario.name}", junit) as report:
        exploration = _Exploration(
            runs=runs, seeds=seed_range, task=task, guided=guided, keep_going=keep_going, out=out, quiet=quiet,
            console=console, summary=ExplorationSummary(len(seed_range), simulated=on == SIM), report=report,
        )  # fmt: skip
        # If the file can't be written, this fails now and not at the end.
        write_answer(exploration.summary.to_dict(), out, json=False)
        with log_to(results, scenario.name), _worker_pool(on, master, processes, results) as workers:
            exploration.run(workers)
        return _finish(exploration, out, json=json)


def _worker_pool(on: str, master: str | None, jobs: int, results: Path) -> AbstractContextManager[WorkerPool]:
    """Return a pool of processes on this machine or, with --master, of the executors of Spark."""
    if on != SIM:
        return run_workers(jobs)
    if master is None:
        return LocalWorkers(jobs, AHEAD)
    pool: AbstractContextManager[WorkerPool] = import_module("zab_chaos.harness.explore.spark_workers").spark_workers(
        master, results / "explore-spark.log"
    )
    return pool


def _finish(exploration: _Exploration, out: Path | None, *, json: bool) -> int:
    """Show and store what was found. Return the exit code."""
    exploration.show()
    scenario, summary, console = exploration.task.scenario, exploration.summary, exploration.console
    coverage = {}
    if exploration.task.coverage:
        coverage = {"coverage": show_coverage(scenario, summary.reached, exploration.runs.results, console)}
    answer = {**summary.to_dict(), "command": exploration.show_smallest(), **coverage}
    write_answer(answer, out, json=json)
    if exploration.interrupted:
        say(console, exploration.interrupted)
    return worst(summary.outcomes).exit_code


def _keep_weights(scenario: Scenario, results: Path, console: Console, first: int, weights: Weights) -> Path | None:
    """Store the weights of a batch of seeds, so that `--weights` can draw those seeds again. Return the file."""
    if weights == EVEN:
        return None
    name = f"{scenario.name.replace('/', '-')}-weights-{first}.json"
    path = keep_weights(weights, results / "swarm" / name)
    say(console, f"weights from seed {first} on: --weights {path}")
    return path


def _check_combinations(
    name: str, *, master: str | None, jobs: int | None, guided: bool, weights: Path | None, junit: Path | None,
    keep: str | None,
) -> None:  # fmt: skip
    """Check for options that exclude each other. Raises BadInput with all mistakes."""
    mistakes = []
    if guided and weights is not None:
        mistakes.append("--guided computes weights and --weights reads them; use one of them")
    if master is not None and not re.fullmatch(MASTER, master):
        mistakes.append(BAD_MASTER.format(master))
    if master is not None and jobs is not None:
        mistakes.append("--jobs and --master exclude each other: with --master all cores of the cluster are used")
    if name == LAB and master is not None:
        mistakes.append(f"{LAB} runs on this machine only; leave out --master")
    if name == LAB and junit is not None:
        mistakes.append(f"--junit reports runs of a scenario, and {LAB} is not a scenario")
    if name == LAB and keep is not None:
        mistakes.append(f"--keep keeps runs of a scenario, and {LAB} is not a scenario")
    if mistakes:
        raise BadInput("\n".join(mistakes))


def _check_simulator_options(
    name: str, on: str, *, swarmed: bool, master: str | None, coverage: bool, guided: bool, weights: Path | None,
    keep: str | None,
) -> None:  # fmt: skip
    """Check that no option is given that only the simulator supports. Raises BadInput with all mistakes."""
    backend = registry.find(on)
    given = {"--coverage": coverage, "--guided": guided, "--weights": weights, "--master": master}
    mistakes = [
        f"{option} is for the simulator; leave it out, or leave out --on {on}" for option in given if given[option]
    ]
    if name == LAB:
        mistakes.append(f"{LAB} is a simulation of its own; leave out --on {on}")
    if keep is not None:
        mistakes.append(f"runs on {on} are always kept, because none can be repeated exactly; leave out --keep")
    if swarmed and backend.evidence != TRACES:
        mistakes.append(
            "--swarm draws for this project's own nodes only; leave it out. A scenario with a [nemesis] varies with the "
            f"seed on {on}, too"
        )
    if mistakes:
        raise BadInput("\n".join(mistakes))


@contextmanager
def log_to(results: Path, name: str) -> Iterator[None]:
    """Log the failures of the workers, with their tracebacks, to explore-NAME.log in `results`. Raises HarnessError."""
    path = results / f"explore-{name.replace('/', '-')}.log"
    with writing(results, "--results"):
        results.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(path, mode="w", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(processName)s %(message)s"))
    LOG.addHandler(handler)
    LOG.propagate = False
    multiprocessing.set_start_method("fork", force=True)  # since Python 3.14 not the default, and the handler needs it
    multiprocessing_logging.install_mp_handler(LOG)
    worker_handler = LOG.handlers[-1]  # it has replaced our handler, which was the last one
    try:
        yield
    finally:
        multiprocessing_logging.uninstall_mp_handler(LOG)
        LOG.removeHandler(handler)
        worker_handler.close()  # writes the workers' last messages and closes the file


def _print_seed(task: Task, found: SeedResult, console: Console, *, show_draw: bool) -> None:
    """Print the verdict of a seed that failed, and what a seed drew if it failed or with `show_draw`."""
    if found.failed:
        line = Text(f"seed {found.seed}: ").append(found.verdict, "bold red")
        say(
            console,
            line.append(f"  {', '.join(found.violated) or next(iter(found.reasons), 'not the expected verdict')}"),
        )
    if task.swarm and (found.failed or show_draw):
        say(console, f"seed {found.seed} drew {swarm.describe(task.scenario_of(found.seed))}")


def _case_of(task: Task, runs: SeedRuns, found: SeedResult) -> ci.Case:
    """Return the JUnit case of one seed."""
    folder = RunFolder(found.folder) if runs.on != SIM and found.folder is not None else None
    verdict = folder.read_verdict() if folder is not None else None
    if folder is not None and verdict is not None:
        return ci.case_of(folder, verdict, found.wall_seconds)
    again = shlex.join(_repeat_command(task, runs, found.seed))
    expect = asdict(task.scenario.expect)
    expected = found.verdict if found.met else expected_ending(expect, found.verdict, found.violated)
    details = "\n".join([f"verdict {found.verdict}", *found.reasons])
    return ci.Case(
        scenario=task.scenario.name, seed=found.seed, on="sim", verdict=found.verdict, expected=expected,
        violated=found.violated, headline=next(iter(found.reasons), ""), details=details, repeat_command=again,
        folder=str(found.folder) if found.folder is not None else None, seconds=found.wall_seconds,
    )  # fmt: skip


def _repeat_command(task: Task, runs: SeedRuns, seed: int) -> list[str]:
    """Return the command that runs this seed again."""
    command = ["zab", "explore", runs.name, "--seeds", str(seed)]
    if task.weights_file is not None:
        command += ["--weights", str(task.weights_file)]
    elif task.swarm:
        command.append("--swarm")
    command += ["--nodes", str(runs.nodes)] if runs.nodes is not None else []
    command += ["--on", runs.on] if runs.on != SIM else []
    command += release_words(runs.on, runs.release, runs.to)
    return command + (["--defect", task.scenario.defect] if task.scenario.defect is not None else [])
