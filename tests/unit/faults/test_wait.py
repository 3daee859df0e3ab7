"""The step `wait`, faults and operations that await it, and faults that await operations."""

import dataclasses
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.faults.conftest import Play, Sleepers
from zab_chaos.faults.cluster import Status
from zab_chaos.faults.kind import FaultContext
from zab_chaos.faults.scenario import FaultStep, Operation, ScenarioError, Ticket, ZooKeeperSettings, parse
from zab_chaos.faults.scheduler import SETTLE_SECONDS
from zab_chaos.faults.wait_step import OF_ONE_NODE, STATES, WITHIN, Wait

HERE: dict[str, Any] = {"node": 1, "life": 1, "established": True, "delivered": (1, 2), "last_zxid": (1, 2)}
LEADS, FOLLOWS = Status(**HERE, role="LEADING"), Status(**HERE, role="FOLLOWING")
OBSERVES = dataclasses.replace(FOLLOWS, role="OBSERVING")
LOOKS = dataclasses.replace(LEADS, role="LOOKING", established=False)
AHEAD = dataclasses.replace(LEADS, last_zxid=(1, 3))
BEHIND = dataclasses.replace(FOLLOWS, last_zxid=(1, 1), delivered=(1, 1))


@pytest.mark.parametrize(
    ("state", "has", "has_not"),
    [
        ("leads", [LEADS], [FOLLOWS, OBSERVES, LOOKS, None]),
        ("follows", [FOLLOWS, OBSERVES], [LEADS, LOOKS, None]),
        ("serves", [LEADS, FOLLOWS, OBSERVES], [LOOKS, None]),
        ("looks", [LOOKS], [LEADS, FOLLOWS, None]),
        ("out", [LOOKS, None], [LEADS, FOLLOWS]),
        ("ahead", [AHEAD], [LEADS, None]),
        ("level", [LEADS, FOLLOWS], [AHEAD, BEHIND, LOOKS, None]),
    ],
)
def test_a_state_is_one_of_all_nodes(state: str, has: list[Status], has_not: list[Status | None]) -> None:
    reached = STATES[state][1]
    assert reached(dict(enumerate(has)))
    for other in has_not:
        assert not reached({0: has[0], 1: other})


def seen_of_another_system(state: str, node: int, leader: int | None) -> Wait:
    """Return a wait after one look at a node of a system that shows no roles, only a leader."""
    cluster: Any = SimpleNamespace(
        alive=lambda _: True,
        paused=lambda _: False,
        status=lambda it, _: Status(node=it, life=1),
        leader=lambda: leader,
    )
    waits = Wait(FaultContext(cluster, None), [node], {"state": state, "within": WITHIN})
    waits.watch(1.0)
    return waits


@pytest.mark.parametrize(
    ("node", "leader", "states"),
    [(1, 1, {"leads", "serves"}), (2, 1, {"follows", "serves"}), (1, None, {"out"})],
)
def test_the_leader_that_the_cluster_names_gives_nodes_their_roles(
    node: int, leader: int | None, states: set[str]
) -> None:
    known = STATES.keys() - OF_ONE_NODE
    assert {state for state in known if seen_of_another_system(state, node, leader).reached} == states


def test_what_is_not_known_of_a_node_is_no_evidence() -> None:
    confirmed = seen_of_another_system("follows", 2, 1).recovered()
    assert confirmed.evidence == {"2": {"role": "FOLLOWING", "leader": 1}}


def wait(target: str, state: str, at: float = 0.0, name: str | None = None) -> FaultStep:
    return FaultStep(at=at, do="wait", target=target, name=name, params={"state": state, "within": WITHIN})


def crash(target: str, at: float = 1.0, awaits: str | None = None) -> FaultStep:
    return FaultStep(at=at, do="crash", target=target, awaits=awaits, params={"crash-at": None, "enough": "all"})


def test_the_schedule_goes_on_when_the_state_is_reached(play: Callable[..., Play]) -> None:
    p = play(wait("node-2", "leads", name="New"), crash("node-1"))
    p.scheduler.due(100.0)
    p.scheduler.due(150.0)
    assert len(p.scheduler.records) == 1
    assert p.scheduler.effects == {}
    p.cluster.leading = 2
    p.scheduler.due(151.0)
    assert p.scheduler.effects == {"New": (2,)}
    assert [run.nodes for run in p.scheduler.records] == [[2], [1]]
    assert p.told()[:2] == [("inject", 1, True), ("heal", 1, True)]


def test_a_wait_that_times_out_is_unconfirmed_and_the_schedule_goes_on(play: Callable[..., Play]) -> None:
    p = play(wait("node-2", "leads"), crash("node-1"))
    p.scheduler.due(100.0)
    p.scheduler.due(100.1)
    p.scheduler.due(100.0 + WITHIN)
    assert len(p.scheduler.records) == 1
    p.scheduler.due(100.2 + WITHIN)
    assert p.told()[:3] == [("inject", 1, True), ("heal", 1, False), ("inject", 2, True)]


def test_a_wait_for_a_leader_that_never_comes_ends_before_the_schedule_counts_as_late(
    play: Callable[..., Play],
) -> None:
    p = play(wait("leader", "leads", at=5.0))
    p.cluster.leading = None
    p.scheduler.due(105.0)
    assert p.scheduler.records == []
    assert p.scheduler.progress_deadline == 105.0 + WITHIN
    p.scheduler.due(105.0 + WITHIN)
    assert p.told() == [("inject", 1, False)]
    assert p.scheduler.progress_deadline == 0.0


def test_a_fault_awaits_the_answer_to_an_operation(play: Callable[..., Play]) -> None:
    p = play(crash("node-1", awaits="Written"))
    p.scheduler.unanswered = {"Written"}
    p.scheduler.due(101.0)
    assert p.scheduler.records == []
    p.scheduler.unanswered.clear()
    p.scheduler.due(102.0)
    assert [run.nodes for run in p.scheduler.records] == [[1]]


def test_a_fault_is_left_out_and_not_confirmed_if_the_answer_that_it_awaits_does_not_come(
    play: Callable[..., Play],
) -> None:
    p = play(crash("node-1", awaits="Written"), crash("node-2", at=2.0))
    p.scheduler.unanswered = {"Written"}
    p.scheduler.due(101.0 + SETTLE_SECONDS)
    assert [run.nodes for run in p.scheduler.records] == [[], [2]]
    assert p.told()[0] == ("inject", 1, False)
    assert p.lines()[0]["evidence"] == {"error": "the operation 'Written', which it awaits, had no answer"}


def test_a_fault_lasts_until_a_later_one_has_taken_effect(play: Callable[..., Play]) -> None:
    p = play(
        FaultStep(at=0.0, do="pause", target="node-1", until="New"),
        wait("node-2", "leads", at=0.1, name="New"),
        crash("node-3"),
    )
    p.scheduler.due(101.0)
    p.scheduler.due(150.0)
    assert p.cluster.paused(1)
    p.cluster.leading = 2
    p.scheduler.due(151.0)
    p.scheduler.due(152.0)
    assert not p.cluster.paused(1)
    assert p.told()[2:] == [("heal", 2, True), ("inject", 3, True), ("heal", 1, True)]


@pytest.mark.parametrize(
    ("state", "nodes", "words"),
    [
        ("leads", [3], "node 3 leads"),
        ("level", [1], "node 1 is level"),
        ("serves", [1, 2], "nodes 1 and 2 serve"),
        ("down", [1, 2], "nodes 1 and 2 are down"),
    ],
)
def test_a_wait_is_described_until_its_state_is_reached_and_then(state: str, nodes: list[int], words: str) -> None:
    waits = Wait(FaultContext(SimpleNamespace(), None), nodes, {"state": state, "within": WITHIN})  # type: ignore[arg-type]
    assert waits.describe() == f"until {words}"
    waits.reached = True
    assert waits.describe() == words


def test_down_is_seen_in_the_process(sleepers: Callable[..., Sleepers]) -> None:
    cluster = sleepers(1)
    waits = Wait(FaultContext(cluster, None, Random(1)), [1], {"state": "down", "within": WITHIN})
    waits.watch(1.0)
    assert not waits.took_effect()
    cluster.kill(1)
    waits.watch(2.0)
    assert waits.took_effect()
    assert waits.recovered().confirmed


SCENARIO = """
[scenario]
name = "a"

[zookeeper]
release = "3.9.4"
settings = { snapCount = 4 }
names = "folder"
synced = false

[ticket]
id = "ZOOKEEPER-1"
violates = ["durability"]
fails = ["3.8.4"]
passes = ["3.9.4"]

[workload]
clients = 1
keys = 1

[[fault]]
at = 0
do = "wait"
target = "leader"
state = "leads"
as = "Old"

[[operation]]
at = 0
node = "Old"
as = "Written"

[[fault]]
at = 0.5
do = "pause"
target = "Old"
until = "Dead"

[[fault]]
at = 1
do = "crash"
target = "Old"
awaits = "Written"
as = "Dead"
"""


def test_a_scenario_with_waits_is_written_as_it_was_read() -> None:
    scenario = parse(SCENARIO)
    assert scenario.operations == (Operation(at=0.0, node="Old", name="Written"),)
    assert scenario.operations[0].needs == {"Old"}
    assert scenario.zookeeper == ZooKeeperSettings(
        release="3.9.4", settings={"snapCount": "4"}, names="folder", synced=False
    )
    assert [step.until for step in scenario.faults] == [None, "Dead", None]
    assert scenario.ticket == Ticket(id="ZOOKEEPER-1", violates=("durability",), fails=("3.8.4",), passes=("3.9.4",))
    assert dataclasses.replace(parse(scenario.to_toml()), source="", file="") == dataclasses.replace(
        scenario, source="", file=""
    )


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ('node = "Old"', 'node = "Odd"', "no fault is called 'Odd'"),
        ('node = "Old"', "node = 4", "4 is too much"),
        ('awaits = "Written"', 'awaits = "Writen"', "Did you mean Written"),
        ('as = "Written"', 'as = "Old"', "the name Old is already used in line 26, by .*fault.* number 1"),
        ('as = "Dead"', 'as = "Old"', "the name Old is already used in line 26, by .*fault.* number 1"),
        ('state = "leads"', 'state = "leds"', "Did you mean leads"),
        ('until = "Dead"', 'until = "Deaf"', "no later fault is called 'Deaf'.*Did you mean Dead"),
        ('until = "Dead"', 'until = "Old"', "no later fault is called 'Old'"),
        ('until = "Dead"', 'until = "Dead"\nfor = 1', "`for` says already when it heals"),
        ('state = "leads"', 'state = "leads"\nuntil = "Dead"', "wait is over at once"),
        ('names = "folder"', 'names = "folders"', "Did you mean folder"),
        ('id = "ZOOKEEPER-1"', "", "the key id is missing"),
        ('"durability"', '"durable"', "Did you mean durability"),
        ('["3.8.4"]', '"3.8.4"', "is no such list"),
        ('["3.8.4"]', "[]", "is no such list"),
        ('["3.8.4"]', '["3.8.4", "3.8.4"]', "names something twice"),
        ('release = "3.9.4"', 'release = "newest"', "a released version"),
        ("snapCount = 4", "snapCount = true", "not a table of texts"),
    ],
)
def test_a_mistake_is_reported(old: str, new: str, wrong: str) -> None:
    with pytest.raises(ScenarioError, match=wrong):
        parse(SCENARIO.replace(old, new))
