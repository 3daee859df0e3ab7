"""What a test holds: an ensemble or a run. Judged when the test is over, told when it failed, removed when it passed."""

import os
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from zab_chaos.harness.errors import Interrupted
from zab_chaos.harness.live import Ensemble
from zab_chaos.harness.report import summary
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs.options import options_for, read_scenario
from zab_chaos.harness.runs.run import run_quietly
from zab_chaos.harness.testing.settings import FixtureOptions
from zab_chaos.model.verdict import Outcome, Property, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ZabRun:
    """A scenario's run that is over: what `zab_run` gives."""

    scenario: str
    seed: int
    on: str
    folder: Path
    verdict: Verdict

    def property(self, name: str) -> Property:
        """One property's judgement. Raises KeyError."""
        return self.verdict.property(name)


@dataclass(slots=True, kw_only=True)
class JudgedFixture:
    """`node`: the test, or the module or so, that it belongs to; `fixture`: under which name. `end` judges it."""

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
    so_far: Callable[[], list[str]]  # what was broken, while nothing is judged yet
    verdict: Verdict | None = None
    failed: bool = False  # a test that used it, or its verdict
    given_up: bool = False
    told: set[str] = field(default_factory=set)  # the tests in whose reports it is

    def finish(self) -> str | None:
        """Judge it. The words of a failure; None if all is as it should be."""
        if self.given_up:
            return None
        self.verdict = verdict = self.end()
        if verdict.verdict == self.expect or (verdict.verdict is Outcome.UNKNOWN and self.allow_unknown):
            return None
        self.failed = True
        expected = "" if self.expect == Outcome.PASS else f" (expected: {self.expect})"
        return f"zab: {verdict.verdict}{expected}, seed {self.seed}, on {self.on}\n\n{self.story()}"

    def story(self) -> str:
        """What is to be told in a failure's report."""
        if self.verdict is not None:
            return summary.full_text(self.folder, self.verdict, self.again)
        broken = self.so_far()
        lines = [f"not judged yet; seed {self.seed}, on {self.on}", *(["Faults", *broken] if broken else [])]
        return "\n".join([*lines, f"results  {self.folder.path}", f"again    {self.again}"])

    def give_up(self, error: BaseException) -> None:
        """There is no time to judge: end it at once, and keep what it left."""
        if self.verdict is None and not self.given_up:
            self.given_up = self.failed = True
            self.abandon(error)

    def clear(self) -> None:
        """Remove the folder of what passed."""
        if not self.failed:
            shutil.rmtree(self.folder.path, ignore_errors=True)

    def used_by(self, item: pytest.Item) -> bool:
        return self.node in item.listchain() and self.fixture in getattr(item, "fixturenames", ())


def repeat(config: pytest.Config, node: pytest.Item | pytest.Collector, seed: int) -> str:
    """The command that runs this test again, with this seed."""
    path, *names = node.nodeid.split("::")
    place = os.path.relpath(config.rootpath / path, config.invocation_params.dir)
    words = ["pytest", "::".join([place, *names])]
    for option in ("on", "zookeeper"):
        if config.getoption(f"zab_{option}") is not None:
            words += [f"--zab-{option}", config.getoption(f"zab_{option}")]
    if config.getoption("zab_seeds") is not None:
        words += ["--zab-seeds", str(seed)]
    if config.getoption("zab_record") is not None:
        words += ["--zab-record", config.getoption("zab_record")]
    return shlex.join(words)


def ensemble(
    requested: FixtureOptions, fixture: str, node: pytest.Item | pytest.Collector, results: Path, name: str
) -> tuple[JudgedFixture, Ensemble]:
    """A running ensemble, and what holds it. Raises BadInput, HarnessError, Unfinished."""
    seed = int(requested.options.get("seed", 1))
    again = repeat(node.config, node, seed)
    cluster = Ensemble(**(requested.options | {"seed": seed}), name=name, results=results, command=again)
    cluster.__enter__()
    assert cluster.folder is not None
    held = JudgedFixture(
        fixture=fixture, node=node, folder=cluster.folder, seed=seed, on=cluster.on, again=again,
        expect=requested.expect or Outcome.PASS, allow_unknown=requested.allow_unknown, end=cluster.finish,
        abandon=cluster.abandon, so_far=lambda: [f"{fault.step.at:9.3f} s  {fault.describe()}" for fault in cluster.faults],
    )  # fmt: skip
    return held, cluster


def run(
    requested: FixtureOptions, fixture: str, node: pytest.Item | pytest.Collector, results: Path
) -> tuple[JudgedFixture, ZabRun]:
    """A scenario, run to its end. Raises BadInput, HarnessError; KeyboardInterrupt when the user ended it."""
    options = dict(requested.options)
    name, on = str(options["scenario"]), str(options.get("on", "processes"))
    scenario = read_scenario(name, on=on, nodes=options.get("nodes"), defect=options.get("defect"))
    told = options_for(
        name, scenario, seed=options.get("seed"), results=results, record=options.get("record"),
        nodes=options.get("nodes"), on=on, release=options.get("zookeeper"),
    )  # fmt: skip
    try:
        ran = run_quietly(scenario, told)
    except Interrupted as error:
        raise KeyboardInterrupt(str(error)) from None
    held = JudgedFixture(
        fixture=fixture, node=node, folder=ran.folder, seed=told.seed, on=on, again=told.command,
        expect=requested.expect or scenario.expect.verdict, allow_unknown=requested.allow_unknown,
        end=lambda: ran.verdict, abandon=lambda error: None, so_far=list, verdict=ran.verdict,
    )  # fmt: skip
    return held, ZabRun(scenario=name, seed=told.seed, on=on, folder=ran.folder.path, verdict=ran.verdict)
