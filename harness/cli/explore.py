"""`zab explore`: many seeds in the simulated world; the smallest that fails, and the command that shows it."""

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

SHOWN = 12  # of a list of what was never reached; all of it is in the file


def explore_command(
    name: str, *, seeds: str, jobs: int | None, swarmed: bool, coverage: bool, defect: str | None, nodes: int | None,
    keep_going: bool, results: Path, out: Path | None, json: bool, quiet: bool, master: str | None = None,
    junit: Path | None = None, guided: bool = False, weights: Path | None = None,
) -> int:  # fmt: skip
    """Run the seeds, show the smallest that fails; `out`: a file for the summary. The exit code is the worst verdict that
    was not expected."""
    numbers = read_seeds(seeds)
    if guided and weights is not None:
        raise BadInput("--guided finds weights and --weights gives them; leave one of them away")
    swarmed, coverage = swarmed or guided or weights is not None, coverage or guided
    if master is not None:
        _check_master(name, master, jobs)
    console = console_for(json=json)
    if name == LAB:
        if junit is not None:
            raise BadInput(f"--junit tells of runs of a scenario, and {LAB} is none")
        many = min(jobs or environment.cores(), len(numbers))
        return explore_lab(numbers, console, out, jobs=many, keep_going=keep_going, json=json)
    scenario = read(name, on="sim", nodes=nodes, defect=defect)
    ci.prepare(junit)
    path = DEFECTS[scenario.defect].path if scenario.defect is not None else None
    given = read_weights(weights) if weights is not None else EVEN
    task = Task(scenario=scenario, defect=path, swarm=swarmed, coverage=coverage, weights=given)
    tally = ExplorationSummary(len(numbers))
    cases: list[ci.Case] = []
    told = ci.wanted(junit)
    failing: Task | None = None  # what the first that failed was run with
    tell(tally.to_dict(), out, json=False)  # whether it can be written should not be found out at the end
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
                tally.add(found)
                if told:
                    cases.append(_case(task, name, found, nodes))
                _say(used, found, console, drawn=not quiet and tally.total <= SHOWN)
                if tally.due():
                    tell(tally.to_dict(), out, json=False)
                    if not quiet:
                        console.print(tally.line(), highlight=False)
                if found.failed:
                    failing = failing or used
                    if not keep_going:
                        break
        except Stopped:
            interrupted = True
    for line in tally.summary():
        console.print(line, highlight=False, soft_wrap=True)
    for each in tally.unknown[:SHOWN]:
        console.print(f"seed {each.seed} is UNKNOWN: {'; '.join(each.reasons)}", highlight=False, soft_wrap=True)
    covered = show_coverage(scenario, tally.reached, results, console) if coverage else None
    smallest = tally.failed[0] if tally.failed else None
    again = None
    if smallest is not None and interrupted:
        again = shlex.join(_repeating(task, name, smallest.seed, nodes))
        console.print(f"\nThe smallest seed that failed is {smallest.seed}:  {again}", highlight=False, soft_wrap=True)
    elif smallest is not None:
        wish, ran = _show_failure(failing or task, name, smallest, nodes, results, console)
        again = wish.command
        shown = ci.case_of(ran.folder, ran.verdict)
        cases = [shown if case.seed == smallest.seed else case for case in cases]
    answer = {**tally.to_dict(), "command": again}
    tell(answer if covered is None else {**answer, "coverage": covered}, out, json=json)
    if interrupted:
        console.print("interrupted", highlight=False)
        tally.outcomes.add(Outcome.UNKNOWN)
    ci.publish(f"zab explore {scenario.name}", cases, junit)
    return worst(tally.outcomes).exit_code


def _keep_weights(scenario: Scenario, results: Path, console: Console, first: int, weights: Weights) -> None:
    """A batch's weights, as a file: with it, its seeds draw the same again."""
    if weights != EVEN:
        path = results / "swarm" / f"{scenario.name.replace('/', '-')}-weights-{first}.json"
        keep_weights(weights, path)
        console.print(Text(f"from seed {first} on with --weights {path}"), soft_wrap=True)


def _check_master(name: str, master: str, jobs: int | None) -> None:
    """Raises BadInput with all that is wrong with --master."""
    wrong = [] if re.fullmatch(MASTER, master) else [NO_MASTER.format(master)]
    if jobs is not None:
        wrong.append("--jobs and --master exclude each other: with --master, the cluster has as many as it has cores")
    if name == LAB:
        wrong.append(f"{LAB} runs in this process only; leave --master away")
    if wrong:
        raise BadInput("\n".join(wrong))


@contextmanager
def log_to(results: Path, name: str) -> Iterator[None]:
    """The workers' log, through the parent: what failed, with where."""
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
    """Failures; and what was drawn, of them or if asked for."""
    if found.failed:
        words = Text(f"seed {found.seed}: ").append(found.verdict, "bold red")
        console.print(
            words.append(
                f"  {', '.join(found.violated) or next(iter(found.reasons), 'which is not what is expected')}"
            ),
            soft_wrap=True,
        )
    if task.swarm and (found.failed or drawn):
        drew = swarm.in_words(task.scenario_of(found.seed))
        console.print(f"seed {found.seed} drew {drew}", highlight=False, soft_wrap=True)


def _case(task: Task, name: str, found: Explored, nodes: int | None) -> ci.Case:
    """One seed, of which there are no files."""
    words = _repeating(task, name, found.seed, nodes)
    expected = next(outcome for outcome, code in EXIT_CODES.items() if code == found.expected)
    told = "\n".join([f"verdict {found.verdict}", *found.reasons])
    return ci.Case(
        scenario=task.scenario.name, seed=found.seed, on="sim", verdict=found.verdict, expected=expected,
        violated=found.violated, told=told, again=shlex.join(words),
    )  # fmt: skip


def _repeating(task: Task, name: str, seed: int, nodes: int | None) -> list[str]:
    """The command that runs this seed again."""
    words = ["zab", "explore", name, "--seeds", str(seed), *(["--swarm"] if task.swarm else [])]
    words += ["--nodes", str(nodes)] if nodes is not None else []
    return words + (["--defect", task.scenario.defect] if task.scenario.defect is not None else [])


def _show_failure(
    task: Task, name: str, found: Explored, nodes: int | None, results: Path, console: Console
) -> tuple[RunOptions, Ran]:
    """Run the seed once more, with all its files, as the wish's command does."""
    scenario = task.scenario_of(found.seed)
    if task.swarm:
        name = str(_keep(scenario, found.seed, results))
        nodes = None
    wish = options_for(name, scenario, seed=found.seed, results=results, nodes=nodes, on="sim")
    console.print(f"\nThe smallest seed that fails is {found.seed}:", highlight=False)
    ran = run_shown(scenario, wish, console, quiet=True)
    terminal.show(ran.folder, console, brief=True)
    console.print(
        Text(f"smaller  {shlex.join(['zab', 'shrink', str(ran.folder.path)])}"), highlight=False, soft_wrap=True
    )
    return wish, ran


def _keep(scenario: Scenario, seed: int, results: Path) -> Path:
    """What was drawn, as a scenario's file."""
    path = results / "swarm" / f"{scenario.name.replace('/', '-')}-{seed}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(scenario.source, encoding="utf-8")
    return path
