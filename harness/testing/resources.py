"""What a fixture gives to a test: a running ensemble or a finished run. It is judged when the test is over.

The report of a failed test shows it; the folder of a test that passed is removed.
"""

import contextlib
import os
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from zab_chaos.harness.live import Ensemble
from zab_chaos.harness.machine.interrupt import Forced
from zab_chaos.harness.report import summary
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs.options import options_for, read_scenario
from zab_chaos.harness.runs.run import run_shown
from zab_chaos.harness.testing.settings import FixtureOptions
from zab_chaos.model.verdict import Outcome, Property, Verdict, expected_ending


@dataclass(frozen=True, slots=True, kw_only=True)
class ZabRun:
    """The finished run of a scenario: the value of the fixture `zab_run`."""

    scenario: str
    seed: int
    on: str
    folder: Path
    verdict: Verdict

    def property(self, name: str) -> Property:
        """Return the judgement of one property. Raises KeyError."""
        return self.verdict.property(name)


@dataclass(slots=True, kw_only=True)
class JudgedFixture:
    """An ensemble or a run that a fixture has made, with what is needed to judge it and to report on it.

    `fixture`: the name of the fixture. `node`: the test that it was made for or, for a wider scope, the class, module or
    session. `again`: the command that repeats the test. `end` ends it and returns its verdict; `abandon` ends it at once,
    because of an interrupt. `faults_so_far` describes the faults for a report before there is a verdict.
    """

    fixture: str
    node: pytest.Item | pytest.Collector
    folder: RunFolder
    seed: int
    on: str
    again: str
    expect: str
    allow_unknown: bool
    end: Callable[[], Verdict]
    abandon: Callable[[BaseException], None]
    faults_so_far: Callable[[], list[str]]
    verdict: Verdict | None = None
    finished: bool = False  # `finish` has compared the verdict with the expected one
    failed: bool = False  # a test that used it has failed, or its verdict is not as expected
    given_up: bool = False
    reported_in: set[str] = field(default_factory=set)  # ids of the tests whose reports show it

    def finish(self, *, only_violations: bool = False) -> str | None:
        """End and judge it. Return the message of a failure; None if the verdict is as expected.

        `only_violations`: no other verdict is a failure, because the test was skipped or did not run.
        """
        if self.given_up:
            return None
        self.verdict, self.finished = self.end(), True
        if self._is_as_expected(self.verdict) or (only_violations and self.verdict.verdict is not Outcome.VIOLATION):
            return None
        self.failed = True
        expected = "" if self.expect == Outcome.PASS else f" (expected: {self.expect})"
        return f"zab: {self.verdict.verdict}{expected}, seed {self.seed}, on {self.on}\n\n{self.describe()}"

    def _is_as_expected(self, verdict: Verdict) -> bool:
        return verdict.verdict == self.expect or (verdict.verdict is Outcome.UNKNOWN and self.allow_unknown)

    def describe(self) -> str:
        """Return the section on this ensemble or run for the report of a failed test."""
        if self.verdict is not None:
            return summary.full_text(self.folder, self.verdict, self.again)
        faults = self.faults_so_far()
        lines = [f"not judged yet; seed {self.seed}, on {self.on}", *(["Faults", *faults] if faults else [])]
        return "\n".join([*lines, f"results  {self.folder.path}", f"repeat   {self.again}"])

    def give_up(self) -> None:
        """End it at once because the session ends, and keep its folder. The test neither passes nor fails by its verdict."""
        if not self.finished and not self.given_up:
            self.given_up = self.failed = True
            with contextlib.suppress(Forced):  # a further interrupt: its nodes are killed, and it is not judged
                self.abandon(KeyboardInterrupt())

    def remove_folder_if_passed(self) -> None:
        """Remove the folder, unless something failed."""
        if not self.failed:
            shutil.rmtree(self.folder.path, ignore_errors=True)

    def used_by(self, item: pytest.Item) -> bool:
        """Return True if the test uses this fixture value."""
        if self.node is item:
            return True  # also if the test asked for the fixture while it ran, with request.getfixturevalue
        return self.node in item.listchain() and self.fixture in getattr(item, "fixturenames", ())


def repeat_command(config: pytest.Config, node: pytest.Item | pytest.Collector, seed: int) -> str:
    """Return the command that runs this test again with this seed."""
    path, *names = node.nodeid.split("::")
    place = os.path.relpath(config.rootpath / path, config.invocation_params.dir)
    command = ["pytest", "::".join([place, *names])]
    for option in ("on", "zookeeper"):
        if config.getoption(f"zab_{option}") is not None:
            command += [f"--zab-{option}", config.getoption(f"zab_{option}")]
    if config.getoption("zab_seeds") is not None:
        command += ["--zab-seeds", str(seed)]
    if config.getoption("zab_record") is not None:
        command += ["--zab-record", config.getoption("zab_record")]
    return shlex.join(command)


def start_ensemble(
    requested: FixtureOptions, fixture: str, node: pytest.Item | pytest.Collector, results: Path, name: str,
    on_interrupted: Callable[[RunFolder], None],
) -> tuple[JudgedFixture, Ensemble]:  # fmt: skip
    """Start an ensemble. Return it, and the object that will judge it. Raises BadInput, HarnessError, Unfinished.

    `on_interrupted` is called with its folder if the session ends meanwhile.
    """
    seed = int(requested.options.get("seed", 1))
    again = repeat_command(node.config, node, seed)
    cluster = Ensemble(**(requested.options | {"seed": seed}), name=name, results=results, command=again)
    try:
        cluster.__enter__()
    except BaseException as error:
        if not isinstance(error, Exception) and cluster.folder is not None:
            on_interrupted(cluster.folder)
        raise
    assert cluster.folder is not None
    judged = JudgedFixture(
        fixture=fixture, node=node, folder=cluster.folder, seed=seed, on=cluster.on, again=again,
        expect=requested.expect or Outcome.PASS, allow_unknown=requested.allow_unknown,
        end=partial(_finish, cluster), abandon=cluster.abandon,
        faults_so_far=lambda: [f"{fault.step.at:9.3f} s  {fault.describe()}" for fault in cluster.faults],
    )  # fmt: skip
    return judged, cluster


def _finish(cluster: Ensemble) -> Verdict:
    """End the ensemble, judge it, and return the verdict. Raises KeyboardInterrupt if a signal has cut that short."""
    try:
        with cluster.interrupt:
            verdict = cluster.finish()
    except Forced:
        raise KeyboardInterrupt from None
    if cluster.interrupt.requested.is_set():
        raise KeyboardInterrupt
    return verdict


def _scenario_of(name: str, root: Path) -> str:
    """Return the path of a file in the tests' root folder, as seen from here; any other name as it is."""
    file = root / name
    return os.path.relpath(file) if file.is_file() else name


def run_scenario(
    requested: FixtureOptions, fixture: str, node: pytest.Item | pytest.Collector, results: Path,
    on_interrupted: Callable[[RunFolder], None],
) -> tuple[JudgedFixture, ZabRun]:  # fmt: skip
    """Run a scenario to its end. Return the run, and the object that judges it.

    Raises BadInput, HarnessError. If the user stops the run, it calls `on_interrupted` with the folder and raises
    KeyboardInterrupt.
    """
    options = dict(requested.options)
    name, on = _scenario_of(str(options["scenario"]), node.config.rootpath), str(options.get("on", "processes"))
    scenario = read_scenario(name, on=on, nodes=options.get("nodes"), defect=options.get("defect"))
    run_options = options_for(
        name, scenario, seed=options.get("seed"), results=results, record=options.get("record"),
        nodes=options.get("nodes"), on=on, release=options.get("zookeeper"),
    )  # fmt: skip
    try:
        ran = run_shown(scenario, run_options, Console(quiet=True), quiet=True)
    except Forced:
        raise KeyboardInterrupt from None
    if ran.interrupted:
        on_interrupted(ran.folder)
        raise KeyboardInterrupt
    expected = expected_ending(ran.folder.read_run()["expect"], ran.verdict.verdict, ran.verdict.violated)
    judged = JudgedFixture(
        fixture=fixture, node=node, folder=ran.folder, seed=run_options.seed, on=on, again=run_options.command,
        expect=requested.expect or expected, allow_unknown=requested.allow_unknown,
        end=lambda: ran.verdict, abandon=lambda error: None, faults_so_far=list, verdict=ran.verdict,
    )  # fmt: skip
    return judged, ZabRun(scenario=name, seed=run_options.seed, on=on, folder=ran.folder.path, verdict=ran.verdict)
