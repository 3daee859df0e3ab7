"""The steps of a run: their order, stepping forward and back, and the variables that each step changed."""

import json
import shutil
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from zab_chaos.harness.cli.app import main
from zab_chaos.harness.cli.stepper import Stepper
from zab_chaos.harness.report.messages import read_messages
from zab_chaos.harness.report.steps import ReplayStep, RunSteps, ShownVariable, read_steps
from zab_chaos.model.events import trace_name
from zab_chaos.model.replay.life import Rerun
from zab_chaos.model.replay.replay import recorded_lives
from zab_chaos.model.replay.state import describe_state
from zab_chaos.model.replay.trace import CORE_EVENTS
from zab_chaos.model.verdict import Evidence
from zab_chaos.node.core import messages as m
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.tables import HANDLERS_IN
from zab_chaos.node.core.zxid import ZERO
from zab_chaos.node.recording import AnyEntry, LinkClosed, LinkOpened, SnapshotTaken, Stepped, Submitted, Synced, Ticked

pytestmark = pytest.mark.slow

SCENARIO = """
[scenario]
name = "small"
nodes = 3
duration = 1
[workload]
clients = 2
rate = 30
[[fault]]
at = 0.3
do = "crash"
target = "leader"
for = 0.4
"""


def simulated(place: Path) -> Path:
    (place / "small.toml").write_text(SCENARIO)
    main(["run", str(place / "small.toml"), "--on", "sim", "--results", str(place / "results")])
    return (place / "results" / "latest").resolve()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated run in which the leader crashes and is restarted."""
    return simulated(tmp_path_factory.mktemp("simulated"))


@pytest.fixture
def steps(run: Path) -> RunSteps:
    return read_steps(run, Peer, own_clocks=True)


def shown(steps: RunSteps) -> dict[int, dict[str, str]]:
    return {node: {name: it.words for name, it in steps.variables(node).items() if it.words} for node in steps.nodes}


def test_steps_are_in_order_of_time_and_each_lifes_in_its_own(steps: RunSteps) -> None:
    assert all(one.time <= other.time for one, other in pairwise(steps.all))
    for node in steps.nodes:
        lives = [step.life for step in steps.all if step.node == node]
        assert lives == sorted(lives)
    for node, life in {(step.node, step.life) for step in steps.all}:
        own = [step for step in steps.all if (step.node, step.life) == (node, life)]
        assert own[-1].entry is None
        assert all(one.number < other.number for one, other in pairwise(own[:-1]))


def test_a_killed_life_ends_when_it_was_killed_and_the_others_at_the_end(run: Path, steps: RunSteps) -> None:
    faults = [json.loads(line) for line in (run / "faults.jsonl").read_text().splitlines()]
    (crash,) = (fault for fault in faults if fault["type"] == "inject")
    ends = {(step.node, step.life): step.time for step in steps.all if step.entry is None}
    (leader,) = crash["nodes"]
    began = min(step.time for step in steps.all if (step.node, step.life) == (leader, 2))
    assert crash["t"] <= ends.pop((leader, 1)) < began - 300_000_000  # it was down for 0.4 s
    assert min(ends.values()) > steps.all[-1].time - 100_000_000


def test_a_message_is_received_after_it_was_sent(steps: RunSteps) -> None:
    sent: dict[tuple[int, int], list[m.Message]] = {}
    for step in steps.all:
        if isinstance(step.entry, Stepped):
            assert step.entry.message in sent[step.entry.source, step.node]
        for peer, message in step.sent:
            sent.setdefault((step.node, peer), []).append(message)


def test_stepping_back_restores_the_variables(steps: RunSteps) -> None:
    places = [1, 7, len(steps.all) // 2, len(steps.all)]
    going = []
    for at in places:
        steps.go(at)
        going.append(shown(steps))
    assert len({str(one) for one in going}) == len(places)
    for at, was in reversed(list(zip(places, going, strict=True))):
        steps.go(at)
        assert shown(steps) == was
    steps.go(-5)
    assert shown(steps) == {node: {"role": "down"} for node in steps.nodes}
    steps.go(10**9)
    assert steps.at == len(steps.all)


def test_the_variables_equal_those_of_the_re_executed_core(steps: RunSteps, run: Path) -> None:
    """At the end of each life, before it is down."""
    for node, life in recorded_lives(run):
        rerun = Rerun(run, node, life, Peer)
        rerun.run()
        core = dict(describe_state(rerun.machine, rerun.tree))
        end = next(at for at, step in enumerate(steps.all) if (step.node, step.life, step.entry) == (node, life, None))
        steps.go(end)
        now = shown(steps)[node]
        assert now.pop("sessions with") == (" ".join(map(str, sorted(rerun.machine.links))) or "nobody")
        assert now == {name: core[name] for name in now}
        assert {"role", "f.p (accepted epoch)", "f.a (current epoch)", "history", "delivered"} <= now.keys()
        steps.go(end + 1)
        assert shown(steps)[node] == {"role": "down"}


def test_changed_variables_are_marked_only_at_the_steps_node(steps: RunSteps) -> None:
    """An ACK moves what the leader knows of that follower."""
    assert steps.find(lambda step: isinstance(step.entry, Stepped) and isinstance(step.entry.message, m.Ack))
    step = steps.step
    assert step is not None
    assert isinstance(step.entry, Stepped)
    changed = {name for name, it in steps.variables(step.node).items() if it.changed}
    assert f"follower {step.entry.source}" in changed
    assert "f.p (accepted epoch)" not in changed
    for node in set(steps.nodes) - {step.node}:
        assert not any(it.changed for it in steps.variables(node).values())


def test_a_removed_variable_is_shown_once_as_empty(steps: RunSteps) -> None:
    """The end of a life removes all variables."""
    assert steps.find(lambda step: step.entry is None)
    step = steps.step
    assert step is not None
    assert steps.variables(step.node)["history"] == ShownVariable("", changed=True)
    steps.go(steps.at + 1)
    assert "history" not in steps.variables(step.node)


def test_an_event_is_found_by_its_line_in_the_trace(steps: RunSteps, run: Path) -> None:
    lines = (run / "trace" / "node-2-1.jsonl").read_text().splitlines()
    number = next(at for at, line in enumerate(lines, 1) if '"event":"accepted_epoch"' in line)
    assert steps.at_event(2, 1, number)
    assert steps.step is not None
    assert any(words.startswith(f"{number}: node 2 (life 1) promised epoch") for words in steps.trace_lines(steps.step))
    assert not steps.at_event(2, 1, len(lines) + 100)
    assert not steps.at_event(2, 1, 0)  # a step that wrote nothing
    assert not steps.at_event(9, 1, 1)


def test_every_event_of_the_core_belongs_to_one_step(steps: RunSteps, run: Path) -> None:
    for node, life in recorded_lives(run):
        lines = map(json.loads, (run / trace_name(node, life)).read_text().splitlines())
        own = [step for step in steps.all if (step.node, step.life) == (node, life)]
        numbers = [int(words.split(":")[0]) for step in own for words in steps.trace_lines(step)]
        assert numbers == [line["n"] for line in lines if line["event"] in CORE_EVENTS]


def test_a_step_is_found_by_its_time(steps: RunSteps) -> None:
    for at in (0, len(steps.all) // 2):
        steps.at_time(steps.all[at].time)
        assert steps.step is not None
        assert steps.step.time == steps.all[at].time
        assert steps.at == 1 or steps.all[steps.at - 2].time < steps.step.time
    steps.at_time(steps.all[7].time + 1)
    assert steps.step is not None
    assert steps.step.time > steps.all[7].time
    steps.at_time(steps.all[-1].time + 1)
    assert steps.at == len(steps.all)


def test_finding_starts_beside_the_present_step(steps: RunSteps) -> None:
    steps.go(2)
    assert steps.find(lambda step: True)
    assert steps.at == 3
    assert steps.find(lambda step: True, back=True)
    assert steps.at == 2
    assert steps.find(lambda step: True, back=True)
    assert steps.at == 1
    assert not steps.find(lambda step: True, back=True)
    assert steps.at == 1


def test_a_ping_is_no_message_and_one_that_is_sent_is_a_step(steps: RunSteps) -> None:
    ping = m.Ping(role=m.Role.LEADING, epoch=1, delivered=ZERO, digest=0)
    assert not ReplayStep(node=1, life=1, number=1, entry=Stepped(2, ping)).is_message
    sends = [step for step in steps.all if isinstance(step.entry, Ticked) and step.sent and not step.changes]
    assert {type(message) for step in sends for _, message in step.sent} == {m.Ping}


def test_only_idle_clock_readings_and_pings_are_left_out(steps: RunSteps, run: Path) -> None:
    """The inputs are counted in the recordings themselves."""
    kinds = (LinkOpened, LinkClosed, Submitted, SnapshotTaken, Synced)
    for node, life in recorded_lives(run):
        seen, inputs = Rerun(run, node, life, Peer), list[AnyEntry]()
        seen.observer = Mock(on_entry=inputs.append)
        seen.run()
        heard = [one for one in inputs if isinstance(one, Stepped) and not isinstance(one.message, m.Ping)]
        other = [one for one in inputs if isinstance(one, kinds)]
        own = [step.entry for step in steps.all if (step.node, step.life) == (node, life)]
        assert [one for one in own if isinstance(one, Stepped) and not isinstance(one.message, m.Ping)] == heard
        assert [one for one in own if isinstance(one, kinds)] == other


def test_a_damaged_recording_is_a_gap_and_the_rest_is_read(run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(run, tmp_path / "run")
    path = folder / "record" / "node-2-1.bin"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    steps = read_steps(folder, Peer, own_clocks=True)
    assert list(steps.gaps) == [(2, 1)]
    assert steps.gaps[2, 1].startswith("node 2, life 1: the checksum")
    assert {step.node for step in steps.all} == {1, 2, 3}


def test_a_message_that_the_core_dropped_says_so_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Followers that ignore COMMIT."""
    monkeypatch.delitem(HANDLERS_IN[m.Role.FOLLOWING, m.Phase.BROADCAST], m.Commit)
    run = simulated(tmp_path)
    why = "not expected in FOLLOWING, BROADCAST"
    exchange = read_messages(run, Peer, [], own_clocks=True)
    assert exchange.drops
    assert {(drop.content.kind, drop.why) for drop in exchange.drops} == {("COMMIT", why)}
    for drop in exchange.drops:
        same = [it for it in exchange.messages if it[:3] == drop[:3]]
        assert any(max(drop.t, it.sent) == it.received for it in same)
    commits = {
        step.words.partition(" (")[2] or "none"
        for step in read_steps(run, Peer, own_clocks=True).all
        if isinstance(step.entry, Stepped) and isinstance(step.entry.message, m.Commit)
    }
    assert commits == {f"dropped: {why})"}
    assert not any(step.dropped for step in read_steps(run, Peer, own_clocks=True).all if not step.is_message)


def shown_by_v(steps: RunSteps, presses: int, *evidence: Evidence) -> ReplayStep | None:
    """Return the step to which the key goes when it is pressed that often."""
    with create_pipe_input() as keys:
        keys.send_text("v" * presses + "q")
        Stepper(steps, "", 0, list(evidence)).run(keys, DummyOutput())
    return steps.step


def test_a_line_of_the_violation_that_no_step_wrote_is_shown_at_the_nearest_step(steps: RunSteps) -> None:
    """Such as a line of the links or of a client. That of a life is shown at a step of the life."""
    own = [it for it in steps.all if (it.node, it.life) == (3, 1)]
    event = {"t": own[9].time + 1, "event": "channel"}
    in_trace = Evidence("trace/node-3-1.jsonl", 10_000, event)  # a line that no step wrote
    step = shown_by_v(steps, 1, in_trace)
    assert step is not None
    assert (step.node, step.life) == (3, 1)
    assert abs(step.time - event["t"]) == min(abs(it.time - event["t"]) for it in own)
    of_client = Evidence("ops.jsonl", 1, {"t": steps.all[-1].time + 5})
    assert shown_by_v(steps, 2, in_trace, of_client) is steps.all[-1]
    steps.go(3)
    assert (
        shown_by_v(steps, 1, Evidence("tree.jsonl", 1, {})) is steps.all[0]
    )  # without a time: the first step, as before
