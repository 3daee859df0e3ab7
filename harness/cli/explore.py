"""`zab explore`: run many seeds, and show the smallest that fails with the command that repeats it."""

import logging
import re
import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path

import multiprocessing_logging
from rich.console import Console
from rich.text import Text

from zab_chaos.faults.defects import DEFECTS
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends import registry
from zab_chaos.harness.cli.lab_flapping import LAB, explore_lab
from zab_chaos.harness.cli.output import console_for, tell
from zab_chaos.harness.errors import BadInput, HarnessError, Interrupted
from zab_chaos.harness.explore import swarm
from zab_chaos.harness.explore.coverage import show_coverage
from zab_chaos.harness.explore.exploration import AHEAD, LOG, Explored, Task, explore_with
from zab_chaos.harness.explore.guided import explore_guided, keep_weights, read_weights
from zab_chaos.harness.explore.kept import SIM, Elsewhere, options_of_seed, read_keep
from zab_chaos.harness.explore.seeds import read_seeds
from zab_chaos.harness.explore.spark_session import MASTER, NO_MASTER
from zab_chaos.harness.explore.summary import ExplorationSummary
from zab_chaos.harness.explore.swarm import EVEN, Weights
from zab_chaos.harness.explore.workers import Crew, Workers
from zab_chaos.harness.machine import environment
from zab_chaos.harness.machine.interrupt import Stopped
from zab_chaos.harness.report import ci, terminal
from zab_chaos.harness.report.console import say
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs.options import implied_backend, read_scenario
from zab_chaos.harness.runs.run import run_shown
from zab_chaos.model.events import TRACES
from zab_chaos.model.verdict import EXIT_CODES, Outcome, worst

SHOWN = 12  # lines of a list on the terminal; the summary file has all


@dataclass(slots=True, kw_only=True)
class _Exploration:
    """One call of the command: what was asked for, and what was found so far."""

    name: str
    nodes: int | None
    seeds: range
    task: Task
    guided: bool
    keep_going: bool
    results: Path
    out: Path | None
    quiet: bool
    reported: bool  # whether cases are wanted
    console: Console
    summary: ExplorationSummary
    cases: list[ci.Case] = field(default_factory=list)
    failing: Task | None = None  # of the first seed that failed
    interrupted: str = ""  # in words

    def run(self, crew: Crew) -> None:
        """All seeds, or up to the first that fails, or until the user stops it."""
        try:
            for used, found in self._answers(crew):
                self._heard(used, found)
                if found.failed and not self.keep_going:
                    break
        except (Stopped, Interrupted) as error:
            self.interrupted = str(error) or "interrupted"
            self.summary.outcomes.add(Outcome.UNKNOWN)

    def _answers(self, crew: Crew) -> Iterator[tuple[Task, Explored]]:
        if self.guided:
            kept = partial(_keep_weights, self.task.scenario, self.results, self.console)
            return explore_guided(crew, self.task, self.seeds, kept)
        return ((self.task, found) for found in explore_with(crew, self.task, self.seeds))

    def _heard(self, used: Task, found: Explored) -> None:
        """One seed is done."""
        self.summary.add(found)
        if self.reported:
            self.cases.append(_case(self.task, self.name, found, self.nodes))
        _say(used, found, self.console, drawn=not self.quiet and self.summary.total <= SHOWN)
        if self.summary.due():
            tell(self.summary.to_dict(), self.out, json=False)
            if not self.quiet:
                say(self.console, self.summary.line())
        if found.failed:
            self.failing = self.failing or used

    def show(self) -> None:
        """The totals, what is UNKNOWN, and where the kept runs are."""
        for line in self.summary.summary():
            say(self.console, line)
        for each in self.summary.unknown[:SHOWN]:
            words = f"seed {each.seed} is UNKNOWN: {'; '.join(each.reasons)}"
            say(self.console, words)
        if self.summary.kept:
            place = shlex.quote(str(self.results / self.task.scenario.name))
            words = f"kept     {self.summary.kept:,} runs; analyze them with: zab analyze {place}"
            say(self.console, words)

    def show_smallest(self) -> str | None:
        """The smallest seed that failed, with all that its run left, and the command that repeats it; None if none failed."""
        if not self.summary.failed:
            return None
        smallest = self.summary.failed[0]
        if self.interrupted:
            again = shlex.join(_repeating(self.task, self.name, smallest.seed, self.nodes))
            words = f"\nThe smallest seed that failed is {smallest.seed}:  {again}"
            say(self.console, words)
            return again
        folder = self._failed_run(self.failing or self.task, smallest)
        verdict = folder.read_verdict()
        if verdict is not None:
            shown = ci.case_of(folder, verdict)
            self.cases = [shown if case.seed == smallest.seed else case for case in self.cases]
        return folder.read_run().get("command")

    def _failed_run(self, task: Task, found: Explored) -> RunFolder:
        """Show the run of a seed that failed; unless it was kept, run it again with all its files."""
        say(self.console, f"\nThe smallest seed that fails is {found.seed}:")
        folder = RunFolder(found.folder) if found.folder is not None else self._again(task, found.seed)
        terminal.show(folder, self.console, brief=True)
        smaller = shlex.join(["zab", "shrink", str(folder.path)])
        say(self.console, f"smaller  {smaller}")
        return folder

    def _again(self, task: Task, seed: int) -> RunFolder:
        scenario = task.scenario_of(seed)
        options = options_of_seed(self.name, scenario, seed, self.results, self.nodes, drawn=task.swarm)
        return run_shown(scenario, options, self.console, quiet=True).folder


def explore_command(
    name: str, *, seeds: str, jobs: int | None, swarmed: bool, coverage: bool, defect: str | None, nodes: int | None,
    keep_going: bool, results: Path, out: Path | None, json: bool, quiet: bool, master: str | None = None,
    junit: Path | None = None, guided: bool = False, weights: Path | None = None, keep: str | None = None,
    on: str = SIM, zookeeper: str | None = None,
) -> int:  # fmt: skip
    """Run the seeds and show the smallest that fails. The exit code is that of the worst unexpected verdict.

    `out`: a file for the summary; `keep`: as `read_keep` has it; `zookeeper`: a release. Raises BadInput, HarnessError.
    """
    numbers = read_seeds(seeds)
    on = on if zookeeper is None else implied_backend("zookeeper" if on == SIM else on)
    _check(name, master=master, jobs=jobs, guided=guided, weights=weights, junit=junit, keep=keep)
    if on != SIM:
        _check_elsewhere(
            name, on, swarmed=swarmed, master=master, jobs=jobs, coverage=coverage, guided=guided, weights=weights,
            keep=keep,
        )  # fmt: skip
    kept = read_keep(keep, numbers, name, nodes, results) if keep is not None else None
    console = console_for(json=json)
    many = min(jobs or environment.cores(), len(numbers)) if on == SIM else 1
    if name == LAB:
        return explore_lab(numbers, console, out, jobs=many, keep_going=keep_going, json=json)
    scenario = read_scenario(name, on=on, nodes=nodes, defect=defect)
    ci.check_writable(junit)
    known = DEFECTS.get(scenario.defect or "")
    terminal = console if console.is_terminal and not quiet else None
    backend = Elsewhere(on=on, release=zookeeper, name=name, nodes=nodes, results=results, terminal=terminal)
    task = Task(
        scenario=scenario,
        defect=known.path if known is not None else None,
        elsewhere=backend if on != SIM else None,
        swarm=swarmed or guided or weights is not None,
        coverage=coverage or guided,
        weights=read_weights(weights) if weights is not None else EVEN,
        keep=kept,
    )
    one = _Exploration(
        name=name, nodes=nodes, seeds=numbers, task=task, guided=guided, keep_going=keep_going, results=results, out=out,
        quiet=quiet, reported=ci.is_enabled(junit), console=console,
        summary=ExplorationSummary(len(numbers), simulated=on == SIM),
    )  # fmt: skip
    tell(one.summary.to_dict(), out, json=False)  # fails now, not at the end, if the file can't be written
    with log_to(results, scenario.name), _crew(master, many, results) as crew:
        one.run(crew)
    return _finish(one, out, junit, json=json)


def _crew(master: str | None, jobs: int, results: Path) -> AbstractContextManager[Crew]:
    """Processes of this machine, or the executors of a Spark cluster."""
    if master is None:
        return Workers(jobs, AHEAD)
    crew: AbstractContextManager[Crew] = import_module("zab_chaos.harness.explore.spark_workers").on_spark(
        master, results / "explore-spark.log"
    )
    return crew


def _finish(one: _Exploration, out: Path | None, junit: Path | None, *, json: bool) -> int:
    """Show and store what was found. The exit code."""
    one.show()
    scenario, summary = one.task.scenario, one.summary
    covered = show_coverage(scenario, summary.reached, one.results, one.console) if one.task.coverage else None
    answer = {**summary.to_dict(), "command": one.show_smallest()}
    tell(answer if covered is None else {**answer, "coverage": covered}, out, json=json)
    if one.interrupted:
        say(one.console, one.interrupted)
    ci.write_reports(f"zab explore {scenario.name}", one.cases, junit)
    return worst(summary.outcomes).exit_code


def _keep_weights(scenario: Scenario, results: Path, console: Console, first: int, weights: Weights) -> None:
    """Store the weights of a batch of seeds, so that `--weights` can draw those seeds again."""
    if weights != EVEN:
        path = results / "swarm" / f"{scenario.name.replace('/', '-')}-weights-{first}.json"
        keep_weights(weights, path)
        say(console, f"weights from seed {first} on: --weights {path}")


def _check(
    name: str, *, master: str | None, jobs: int | None, guided: bool, weights: Path | None, junit: Path | None,
    keep: str | None,
) -> None:  # fmt: skip
    """Check what does not go together. Raises BadInput with all mistakes."""
    wrong = []
    if guided and weights is not None:
        wrong.append("--guided computes weights and --weights reads them; use one of them")
    if master is not None and not re.fullmatch(MASTER, master):
        wrong.append(NO_MASTER.format(master))
    if master is not None and jobs is not None:
        wrong.append("--jobs and --master exclude each other: with --master all cores of the cluster are used")
    if name == LAB and master is not None:
        wrong.append(f"{LAB} runs on this machine only; leave out --master")
    if name == LAB and junit is not None:
        wrong.append(f"--junit reports runs of a scenario, and {LAB} is not a scenario")
    if name == LAB and keep is not None:
        wrong.append(f"--keep keeps runs of a scenario, and {LAB} is not a scenario")
    if wrong:
        raise BadInput("\n".join(wrong))


def _check_elsewhere(
    name: str, on: str, *, swarmed: bool, master: str | None, jobs: int | None, coverage: bool, guided: bool,
    weights: Path | None, keep: str | None,
) -> None:  # fmt: skip
    """Check what only the simulator can do. Raises BadInput with all mistakes."""
    backend = registry.find(on)
    given = {"--coverage": coverage, "--guided": guided, "--weights": weights, "--master": master}
    wrong = [
        f"{option} is for the simulator; leave it out, or leave out --on {on}" for option in given if given[option]
    ]
    if name == LAB:
        wrong.append(f"{LAB} is a simulation of its own; leave out --on {on}")
    if jobs is not None:
        wrong.append(f"runs on {on} come one after the other, for each uses the whole machine; leave out --jobs")
    if keep is not None:
        wrong.append(f"runs on {on} are always kept, for none can be repeated exactly; leave out --keep")
    if swarmed and backend.evidence != TRACES:
        wrong.append(
            f"--swarm draws for this project's own nodes; a scenario with a [nemesis] varies with the seed on {on}, too"
        )
    if wrong:
        raise BadInput("\n".join(wrong))


@contextmanager
def log_to(results: Path, name: str) -> Iterator[None]:
    """Log the failures of the workers, with their tracebacks, to a file below `results`."""
    path = results / f"explore-{name.replace('/', '-')}.log"
    try:
        results.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(path, mode="w", delay=True)
    except OSError as error:
        raise HarnessError(f"{results} cannot be written: {error.strerror}. Choose another with --results.") from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(processName)s %(message)s"))
    LOG.addHandler(handler)
    LOG.propagate = False
    multiprocessing_logging.install_mp_handler(LOG)
    of_workers = LOG.handlers[-1]  # it stands for ours, which was added last
    try:
        yield
    finally:
        multiprocessing_logging.uninstall_mp_handler(LOG)
        LOG.removeHandler(handler)
        of_workers.close()  # when it has written what the workers have said; it closes the file, too


def _say(task: Task, found: Explored, console: Console, *, drawn: bool) -> None:
    """Print a failure, and what the seed drew if it failed or if `drawn`."""
    if found.failed:
        words = Text(f"seed {found.seed}: ").append(found.verdict, "bold red")
        say(
            console,
            words.append(f"  {', '.join(found.violated) or next(iter(found.reasons), 'not the expected verdict')}"),
        )
    if task.swarm and (found.failed or drawn):
        drew = swarm.in_words(task.scenario_of(found.seed))
        say(console, f"seed {found.seed} drew {drew}")


def _case(task: Task, name: str, found: Explored, nodes: int | None) -> ci.Case:
    """The JUnit case of one seed."""
    folder = RunFolder(found.folder) if task.elsewhere is not None and found.folder is not None else None
    verdict = folder.read_verdict() if folder is not None else None
    if folder is not None and verdict is not None:
        return ci.case_of(folder, verdict)
    words = _repeating(task, name, found.seed, nodes)
    expected = next(outcome for outcome, code in EXIT_CODES.items() if code == found.expected)
    details = "\n".join([f"verdict {found.verdict}", *found.reasons])
    return ci.Case(
        scenario=task.scenario.name, seed=found.seed, on="sim", verdict=found.verdict, expected=expected,
        violated=found.violated, headline=next(iter(found.reasons), ""), details=details, again=shlex.join(words),
        folder=str(found.folder) if found.folder is not None else None,
    )  # fmt: skip


def _repeating(task: Task, name: str, seed: int, nodes: int | None) -> list[str]:
    """The command that runs this seed again."""
    words = ["zab", "explore", name, "--seeds", str(seed), *(["--swarm"] if task.swarm else [])]
    words += ["--nodes", str(nodes)] if nodes is not None else []
    if task.elsewhere is not None:
        words += ["--on", task.elsewhere.on]
        words += ["--zookeeper", task.elsewhere.release] if task.elsewhere.release is not None else []
    return words + (["--defect", task.scenario.defect] if task.scenario.defect is not None else [])
