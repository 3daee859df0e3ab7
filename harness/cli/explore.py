"""`zab explore`: run many seeds in the simulator, and show the smallest that fails with the command that repeats it."""

import logging
import re
import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path

import multiprocessing_logging
from rich.console import Console
from rich.text import Text

from zab_chaos.faults.defects import DEFECTS
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.cli.lab_flapping import LAB, explore_lab
from zab_chaos.harness.cli.output import console_for, tell
from zab_chaos.harness.errors import BadInput, HarnessError
from zab_chaos.harness.explore import swarm
from zab_chaos.harness.explore.coverage import show_coverage
from zab_chaos.harness.explore.exploration import AHEAD, LOG, Explored, Task, explore_with
from zab_chaos.harness.explore.guided import explore_guided, keep_weights, read_weights
from zab_chaos.harness.explore.seeds import read_seeds
from zab_chaos.harness.explore.spark_session import MASTER, NO_MASTER
from zab_chaos.harness.explore.summary import ExplorationSummary
from zab_chaos.harness.explore.swarm import EVEN, Weights
from zab_chaos.harness.explore.workers import Crew, Workers
from zab_chaos.harness.machine import environment
from zab_chaos.harness.machine.interrupt import Stopped
from zab_chaos.harness.report import ci, terminal
from zab_chaos.harness.runs.options import RunOptions, options_for, read
from zab_chaos.harness.runs.run import Ran, run_shown
from zab_chaos.model.verdict import EXIT_CODES, Outcome, worst

SHOWN = 12  # lines of a list on the terminal; the summary file has all


def explore_command(
    name: str, *, seeds: str, jobs: int | None, swarmed: bool, coverage: bool, defect: str | None, nodes: int | None,
    keep_going: bool, results: Path, out: Path | None, json: bool, quiet: bool, master: str | None = None,
    junit: Path | None = None, guided: bool = False, weights: Path | None = None,
) -> int:  # fmt: skip
    """Run the seeds and show the smallest that fails. The exit code is that of the worst unexpected verdict.

    `out`: a file for the summary.
    """
    numbers = read_seeds(seeds)
    if guided and weights is not None:
        raise BadInput("--guided computes weights and --weights reads them; use one of them")
    swarmed, coverage = swarmed or guided or weights is not None, coverage or guided
    if master is not None:
        _check_master(name, master, jobs)
    console = console_for(json=json)
    if name == LAB:
        if junit is not None:
            raise BadInput(f"--junit reports runs of a scenario, and {LAB} is not a scenario")
        many = min(jobs or environment.cores(), len(numbers))
        return explore_lab(numbers, console, out, jobs=many, keep_going=keep_going, json=json)
    scenario = read(name, on="sim", nodes=nodes, defect=defect)
    ci.prepare(junit)
    path = DEFECTS[scenario.defect].path if scenario.defect is not None else None
    given = read_weights(weights) if weights is not None else EVEN
    task = Task(scenario=scenario, defect=path, swarm=swarmed, coverage=coverage, weights=given)
    summary = ExplorationSummary(len(numbers))
    cases: list[ci.Case] = []
    reported = ci.wanted(junit)
    failing: Task | None = None  # the task of the first seed that failed
    tell(summary.to_dict(), out, json=False)  # fails now, not at the end, if the file can't be written
    if master is None:
        workers: AbstractContextManager[Crew] = Workers(min(jobs or environment.cores(), len(numbers)), AHEAD)
    else:
        workers = import_module("zab_chaos.harness.explore.spark_workers").on_spark(
            master, results / "explore-spark.log"
        )
    interrupted = False
    with log_to(results, scenario.name), workers as crew:
        answers: Iterator[tuple[Task, Explored]]
        if guided:
            answers = explore_guided(crew, task, numbers, partial(_keep_weights, scenario, results, console))
        else:
            answers = ((task, found) for found in explore_with(crew, task, numbers))
        try:
            for used, found in answers:
                summary.add(found)
                if reported:
                    cases.append(_case(task, name, found, nodes))
                _say(used, found, console, drawn=not quiet and summary.total <= SHOWN)
                if summary.due():
                    tell(summary.to_dict(), out, json=False)
                    if not quiet:
                        console.print(summary.line(), highlight=False)
                if found.failed:
                    failing = failing or used
                    if not keep_going:
                        break
        except Stopped:
            interrupted = True
    for line in summary.summary():
        console.print(line, highlight=False, soft_wrap=True)
    for each in summary.unknown[:SHOWN]:
        console.print(f"seed {each.seed} is UNKNOWN: {'; '.join(each.reasons)}", highlight=False, soft_wrap=True)
    covered = show_coverage(scenario, summary.reached, results, console) if coverage else None
    smallest = summary.failed[0] if summary.failed else None
    again = None
    if smallest is not None and interrupted:
        again = shlex.join(_repeating(task, name, smallest.seed, nodes))
        console.print(f"\nThe smallest seed that failed is {smallest.seed}:  {again}", highlight=False, soft_wrap=True)
    elif smallest is not None:
        options, ran = _show_failure(failing or task, name, smallest, nodes, results, console)
        again = options.command
        shown = ci.case_of(ran.folder, ran.verdict)
        cases = [shown if case.seed == smallest.seed else case for case in cases]
    answer = {**summary.to_dict(), "command": again}
    tell(answer if covered is None else {**answer, "coverage": covered}, out, json=json)
    if interrupted:
        console.print("interrupted", highlight=False)
        summary.outcomes.add(Outcome.UNKNOWN)
    ci.publish(f"zab explore {scenario.name}", cases, junit)
    return worst(summary.outcomes).exit_code


def _keep_weights(scenario: Scenario, results: Path, console: Console, first: int, weights: Weights) -> None:
    """Store the weights of a batch of seeds, so that `--weights` can draw those seeds again."""
    if weights != EVEN:
        path = results / "swarm" / f"{scenario.name.replace('/', '-')}-weights-{first}.json"
        keep_weights(weights, path)
        console.print(Text(f"weights from seed {first} on: --weights {path}"), soft_wrap=True)


def _check_master(name: str, master: str, jobs: int | None) -> None:
    """Check --master and what does not go with it. Raises BadInput with all mistakes."""
    wrong = [] if re.fullmatch(MASTER, master) else [NO_MASTER.format(master)]
    if jobs is not None:
        wrong.append("--jobs and --master exclude each other: with --master all cores of the cluster are used")
    if name == LAB:
        wrong.append(f"{LAB} runs on this machine only; leave out --master")
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
    try:
        yield
    finally:
        multiprocessing_logging.uninstall_mp_handler(LOG)
        LOG.removeHandler(handler)
        handler.close()


def _say(task: Task, found: Explored, console: Console, *, drawn: bool) -> None:
    """Print a failure, and what the seed drew if it failed or if `drawn`."""
    if found.failed:
        words = Text(f"seed {found.seed}: ").append(found.verdict, "bold red")
        console.print(
            words.append(f"  {', '.join(found.violated) or next(iter(found.reasons), 'not the expected verdict')}"),
            soft_wrap=True,
        )
    if task.swarm and (found.failed or drawn):
        drew = swarm.in_words(task.scenario_of(found.seed))
        console.print(f"seed {found.seed} drew {drew}", highlight=False, soft_wrap=True)


def _case(task: Task, name: str, found: Explored, nodes: int | None) -> ci.Case:
    """The JUnit case of one seed, for which no files were written."""
    words = _repeating(task, name, found.seed, nodes)
    expected = next(outcome for outcome, code in EXIT_CODES.items() if code == found.expected)
    details = "\n".join([f"verdict {found.verdict}", *found.reasons])
    return ci.Case(
        scenario=task.scenario.name, seed=found.seed, on="sim", verdict=found.verdict, expected=expected,
        violated=found.violated, details=details, again=shlex.join(words),
    )  # fmt: skip


def _repeating(task: Task, name: str, seed: int, nodes: int | None) -> list[str]:
    """The command that runs this seed again."""
    words = ["zab", "explore", name, "--seeds", str(seed), *(["--swarm"] if task.swarm else [])]
    words += ["--nodes", str(nodes)] if nodes is not None else []
    return words + (["--defect", task.scenario.defect] if task.scenario.defect is not None else [])


def _show_failure(
    task: Task, name: str, found: Explored, nodes: int | None, results: Path, console: Console
) -> tuple[RunOptions, Ran]:
    """Run the seed again with all its files, as the command that is shown does."""
    scenario = task.scenario_of(found.seed)
    if task.swarm:
        name = str(_keep(scenario, found.seed, results))
        nodes = None
    options = options_for(name, scenario, seed=found.seed, results=results, nodes=nodes, on="sim")
    console.print(f"\nThe smallest seed that fails is {found.seed}:", highlight=False)
    ran = run_shown(scenario, options, console, quiet=True)
    terminal.show(ran.folder, console, brief=True)
    console.print(
        Text(f"smaller  {shlex.join(['zab', 'shrink', str(ran.folder.path)])}"), highlight=False, soft_wrap=True
    )
    return options, ran


def _keep(scenario: Scenario, seed: int, results: Path) -> Path:
    """Write what the seed drew as a scenario file, and return its path."""
    path = results / "swarm" / f"{scenario.name.replace('/', '-')}-{seed}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(scenario.source, encoding="utf-8")
    return path
