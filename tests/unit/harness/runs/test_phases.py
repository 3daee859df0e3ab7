"""The lines that a run shows while its faults are injected and healed."""

import json
import signal
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.scenario import FaultStep, parse
from zab_chaos.faults.scheduler import Scheduler
from zab_chaos.harness.backends.simulator.backend import SimBackend, SimDeployment
from zab_chaos.harness.backends.simulator.ensemble import SimCluster
from zab_chaos.harness.backends.simulator.workload import SimLoad
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.harness.machine.interrupt import Interrupt, Stopped
from zab_chaos.harness.report.progress import Display
from zab_chaos.harness.runs import phases
from zab_chaos.harness.runs.options import RunOptions
from zab_chaos.harness.runs.run import end_and_judge, run
from zab_chaos.harness.workload.open_loop import Counters
from zab_chaos.model.oracle.oracle import judge
from zab_chaos.model.verdict import Outcome, Verdict

pytestmark = pytest.mark.slow

SCENARIO = """
[scenario]
name = "words"
nodes = 3
duration = 1

[[fault]]
at = 0.2
do = "wait"
target = "all"
state = "serves"

[[fault]]
at = 0.3
do = "pause"
target = "node-1"
for = 0.2
"""


class Kept(Display):
    """Keeps what is shown."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, words: str) -> None:
        self.said.append(words)


def test_an_interrupted_run_says_so_once_and_may_end_its_nodes_before_the_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    stop = SimLoad.stop

    def interrupted(deployment: SimDeployment) -> None:
        signal.raise_signal(signal.SIGINT)

    def stopped(load: SimLoad, grace: float) -> Counters:
        done.append("stop")
        return stop(load, grace)

    monkeypatch.setattr(SimDeployment, "on_established", interrupted)
    monkeypatch.setattr(SimDeployment, "on_interrupted", lambda _: done.append("interrupted"))
    monkeypatch.setattr(SimLoad, "stop", stopped)
    ran = run(parse(SCENARIO), RunOptions(seed=1, results=tmp_path, command="again", on="sim"), Kept())
    assert (ran.interrupted, ran.folder.read_run()["outcome"]) == (True, "interrupted")
    assert done == ["interrupted", "stop"]
    assert [line["event"] for line in ran.folder.lines("harness.jsonl")].count("interrupted") == 1


@pytest.mark.parametrize("judged_in_time", [True, False])
def test_an_interrupted_run_has_an_outcome_and_a_verdict_also_if_its_grace_ends_while_the_outcome_is_recorded(
    judged_in_time: bool,
) -> None:
    recorded: list[str] = []

    def end() -> tuple[str, str]:
        raise Stopped

    def record(outcome: str, trouble: str) -> None:
        recorded.append(outcome)
        if len(recorded) == 1:
            raise Stopped

    def judged() -> Verdict:
        if not judged_in_time:
            raise Stopped
        return Verdict(verdict=Outcome.UNKNOWN, exit=2, properties=[], reasons=["judged"], metrics={})

    verdict = end_and_judge(Interrupt(), end, record, judged)
    assert recorded == ["interrupted", "interrupted"]
    assert verdict.verdict is Outcome.UNKNOWN
    assert (verdict.reasons == ["judged"]) is judged_in_time


def test_a_wait_is_shown_when_it_begins_and_when_it_is_over(tmp_path: Path) -> None:
    screen = Kept()
    run(parse(SCENARIO), RunOptions(seed=1, results=tmp_path, command="again", on="sim"), screen)
    assert [line.split(" s  ")[1] for line in screen.said] == [
        "wait: until nodes 1, 2 and 3 serve",
        "wait is over: nodes 1, 2 and 3 serve",
        "pause: node 1 paused",
        "pause healed: node 1 paused",
    ]


def test_a_seed_without_faults_says_so(tmp_path: Path) -> None:
    drawn = SCENARIO.split("[[fault]]")[0] + "[nemesis]\nevery = [0.9, 200]\nfaults = { pause = 1 }\n"
    screen = Kept()
    run(parse(drawn), RunOptions(seed=1, results=tmp_path, command="again", on="sim"), screen)
    assert screen.said == ["the nemesis has drawn no fault for this seed"]


def test_a_run_whose_keys_cannot_be_created_says_what_the_last_answer_was(tmp_path: Path) -> None:
    scenario = parse(SCENARIO + "\n[limits]\nrequest_bytes = 100\n")
    ran = run(scenario, RunOptions(seed=1, results=tmp_path, command="again", on="sim"), Kept())
    assert (
        "the workload's keys could not be created within 60 s; the last answer was: too large: "
        in ran.verdict.reasons[0]
    )


def test_a_start_that_is_never_complete_names_the_nodes_that_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def complete(deployment: SimDeployment) -> bool:
        deployment.cluster.kill(2)  # it was alive when all had been started
        deployment.cluster.kill(3)
        return deployment.formed()

    monkeypatch.setattr(SimDeployment, "complete", complete)
    ran = run(parse(SCENARIO), RunOptions(seed=1, results=tmp_path, command="again", on="sim"), Kept())
    assert (
        "no leader was established within 30 s of the start; node-2 ended, its last line: node-2 ended with exit code -9; "
        "node-3 ended, its last line: " in ran.verdict.reasons[0]
    )


def test_a_node_that_does_not_live_through_the_start_is_named_with_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_all = SimCluster.start_all

    def start_and_kill(cluster: SimCluster, nodes: Sequence[int]) -> None:
        start_all(cluster, nodes)
        cluster.kill(2)

    monkeypatch.setattr(SimCluster, "start_all", start_and_kill)
    code, reason = ending(tmp_path, SCENARIO)
    assert code == 3
    assert reason.startswith("the harness failed: node-2 (SIGKILL) ended during the start:")


def ending(results: Path, text: str) -> tuple[int, str]:
    """Run a scenario and return the exit code, and the first reason for it."""
    verdict = run(parse(text), RunOptions(seed=1, results=results, command="again", on="sim"), Kept()).verdict
    return verdict.exit, verdict.reasons[0]


def test_the_error_of_a_background_thread_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(_: SimDeployment) -> None:
        raise HarnessError("the thread that watches the nodes failed")

    monkeypatch.setattr(SimDeployment, "check", check)
    assert ending(tmp_path, SCENARIO) == (3, "the harness failed: the thread that watches the nodes failed")


def test_a_background_thread_that_fails_while_the_nodes_end_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that records how nodes ended looks once more then."""
    ended, leave = [], SimDeployment.__exit__

    def leave_and_note(deployment: SimDeployment, *error: Any) -> None:
        leave(deployment, *error)
        ended.append(deployment)

    def check(_: SimDeployment) -> None:
        if ended:
            raise HarnessError("the thread that watches the nodes failed")

    monkeypatch.setattr(SimDeployment, "__exit__", leave_and_note)
    monkeypatch.setattr(SimDeployment, "check", check)
    assert ending(tmp_path, SCENARIO) == (3, "the harness failed: the thread that watches the nodes failed")


def test_a_schedule_whose_faults_do_not_begin_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without its faults must not pass."""
    monkeypatch.setattr(Scheduler, "due", lambda *_: None)
    text = '[scenario]\nname = "late"\nduration = 1\n[workload]\nrate = 5\n[[fault]]\nat = 0.2\ndo = "crash"\ntarget = "one"\n'
    assert ending(tmp_path, text) == (
        3,
        "the harness failed: the schedule is 20 s late: `crash` was due at 0.2 s, and has not begun",
    )


@pytest.mark.parametrize(
    ("seconds", "lasted"),
    [
        (0.3, 0.3),
        (9, 0.6),  # it would have been healed at the end, and is
    ],
)
def test_a_late_fault_lasts_as_long_as_was_planned(
    seconds: float, lasted: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = SimCluster.start_all

    def start_slowly(cluster: SimCluster, nodes: Sequence[int]) -> None:
        start(cluster, nodes)
        cluster._world.run_for(5_000_000_000)

    monkeypatch.setattr(SimCluster, "start_all", start_slowly)
    head = SCENARIO.split("[[fault]]")[0] + '[[fault]]\nat = 0.1\ndo = "crash"\ntarget = "node-1"\nfor = 0.1\n'
    text = f'{head}[[fault]]\nat = 0.4\ndo = "pause"\ntarget = "node-2"\nfor = {seconds}\n'
    ran = run(parse(text), RunOptions(seed=1, results=tmp_path, command="again", on="sim"), Kept())
    begun, *times = (line["t"] for line in ran.folder.lines("faults.jsonl") if line["id"] == 2)
    (ended,) = times
    assert ended - begun == pytest.approx(lasted * 1e9, abs=2 * phases.STEP * 1e9)


def test_the_operations_that_the_end_of_the_load_makes_unknown_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = SimLoad.stop

    def stop_with_one_outstanding(load: SimLoad, grace: float) -> Counters:
        stop(load, grace)
        load._loop._counts["unknown"] = 1
        return load.counters

    monkeypatch.setattr(SimLoad, "stop", stop_with_one_outstanding)
    ran = run(parse(SCENARIO), RunOptions(seed=1, results=tmp_path, command="again", on="sim"), Kept())
    found = [json.loads(line) for line in ran.folder.file("harness.jsonl").read_text().splitlines()]
    assert [line["unknown"] for line in found if line["event"] == "workload-stopped"] == [1]


def test_a_fault_of_the_schedule_that_is_left_out_makes_the_run_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else would show that the run had a fault less than its scenario, neither at once nor later."""
    start = Scheduler._start
    monkeypatch.setattr(Scheduler, "_start", lambda it, step, now: step.do == "wait" or start(it, step, now))
    ran = run(parse(SCENARIO), RunOptions(seed=1, results=tmp_path, command="again", on="sim"), Kept())
    for verdict in (ran.verdict, judge(ran.folder.path)):
        assert verdict.verdict is Outcome.UNKNOWN
        assert "faults.jsonl lacks a fault of the schedule: `wait`" in verdict.reasons[0]


@pytest.mark.parametrize(("held", "reported"), [(None, []), ("node-2: 1 sessions", ["node-2: 1 sessions"])])
def test_nodes_that_hold_something_of_their_clients_are_found_without_a_quiet_time(
    held: str | None, reported: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is none on real processes."""
    monkeypatch.setattr(phases, "leftovers", lambda answers: held)
    monkeypatch.setattr(SimDeployment, "quiet_seconds", property(lambda self: 0.0, lambda self, seconds: None))
    ran = run(parse(SCENARIO), RunOptions(seed=1, results=tmp_path, command="again", on="sim"), Kept())
    found = [json.loads(line) for line in ran.folder.file("harness.jsonl").read_text().splitlines()]
    assert [line["why"] for line in found if line.get("event") == "left-alone"] == reported
    assert ("recovery" in ran.verdict.violated) == bool(reported)


def test_the_time_that_the_harness_needs_to_see_that_the_nodes_have_converged_is_not_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds of keys are read through each node of a foreign system, which takes long if a read does."""

    looks = iter(["a leader has just changed", None])

    def look(deployment: SimDeployment) -> str | None:
        deployment.host.sleep(25)
        return next(looks)

    monkeypatch.setattr(SimDeployment, "disagreement", look)
    ran = run(parse(SCENARIO), RunOptions(seed=1, results=tmp_path, command="again", on="sim"), Kept())
    assert ran.verdict.violated == []


def test_nodes_that_differ_are_not_read_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at three servers whose trees differ takes half a minute, and one at a server that does not answer a quarter."""
    looks: list[float] = []

    def look(deployment: SimDeployment) -> str:
        deployment.host.sleep(30)
        looks.append(deployment.host.now())
        return "different"

    monkeypatch.setattr(SimDeployment, "disagreement", look)
    scenario = parse(f"{SCENARIO}\n[expect]\nconverges_within = 60\n")
    ran = run(scenario, RunOptions(seed=1, results=tmp_path, command="again", on="sim"), Kept())
    assert ran.verdict.violated == ["recovery"]
    assert 2 < len(looks) <= 4


def test_nodes_that_do_not_agree_for_long_have_not_converged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(deployment: SimDeployment) -> str:
        deployment.host.sleep(3)
        return "different"

    monkeypatch.setattr(SimDeployment, "disagreement", look)
    ran = run(parse(SCENARIO), RunOptions(seed=1, results=tmp_path, command="again", on="sim"), Kept())
    assert ran.verdict.violated == ["recovery"]


def test_an_explored_seed_draws_what_the_simulator_can_do_as_a_run_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise `zab run --on sim` would not repeat what `zab explore` has found."""
    reduced: list[Collection[Ability]] = []

    def reduced_to(step: FaultStep, abilities: Collection[Ability]) -> FaultStep:
        reduced.append(abilities)
        return step

    monkeypatch.setattr(phases, "reduced_to", reduced_to)
    scenario = parse(SCENARIO.partition("[[fault]]")[0] + "[nemesis]\nevery = [0.2, 0.3]\nfaults = { crash = 1 }\n")
    assert simulate(scenario, 1, None).verdict.verdict == "PASS"
    assert set(reduced) == {SimBackend.abilities}


def test_what_the_end_of_the_load_takes_too_long_is_not_the_time_of_the_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients of ZooKeeper wait until their abandoned sessions have expired."""
    stop = SimLoad.stop

    def wait_long(load: SimLoad, grace: float) -> Counters:
        counters = stop(load, grace)
        load._world.run_until(lambda: False, 30_000_000_000)
        return counters

    monkeypatch.setattr(SimLoad, "stop", wait_long)
    scenario = parse(SCENARIO + "\n[expect]\nconverges_within = 10\n")
    ran = run(scenario, RunOptions(seed=1, results=tmp_path, command="again", on="sim"), Kept())
    assert ran.verdict.exit == 0, ran.verdict.reasons
