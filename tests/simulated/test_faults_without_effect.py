"""A fault without an effect never ends in PASS: the effect confirms it, not the acknowledgement of a command."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from zab_chaos.faults import process
from zab_chaos.faults.kind import FaultContext
from zab_chaos.faults.network import Network
from zab_chaos.faults.scenario import parse
from zab_chaos.harness.backends.simulator.ensemble import SimCluster, SimProxies
from zab_chaos.harness.errors import Exit
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.model.world.disk import SimDisk
from zab_chaos.model.world.machine import SimNode
from zab_chaos.model.world.network import SimProxy
from zab_chaos.model.world.server import SimServer
from zab_chaos.node.clock import Clock
from zab_chaos.node.commands import Commands
from zab_chaos.node.crash_points import CrashPoints
from zab_chaos.node.store.disk_faults import DiskFaults

SCENARIO = """
[scenario]
name = "no-effect"
nodes = 3
duration = 4

[workload]
clients = 3
rate = 60
mix = {{ set = 1 }}

[[fault]]
at = 1
target = "follower"
{fault}
"""
LASTS = "\nfor = 1.5"


def nothing(*_: Any, **__: Any) -> None:
    """How a fault behaves that has no effect."""


def never(_: Any) -> bool:
    return False


def as_ever(disk: SimDisk) -> int:
    return disk._draw_sync()


CASES: list[tuple[str, type, str, Any]] = [
    ('do = "crash"' + LASTS, SimNode, "kill", nothing),
    ('do = "power-cut"' + LASTS, SimNode, "kill", nothing),
    ('do = "stop"' + LASTS, SimNode, "terminate", nothing),
    ('do = "pause"' + LASTS, SimServer, "pause", nothing),
    ('do = "wipe"' + LASTS, SimDisk, "wipe", nothing),
    ('do = "disk-full"' + LASTS, DiskFaults, "before_write", nothing),
    ('do = "disk-error"\nop = "write"' + LASTS, DiskFaults, "fail_if", nothing),
    ('do = "disk-error"\nop = "sync"' + LASTS, DiskFaults, "fail_if", nothing),
    ('do = "slow-disk"\nms = 80' + LASTS, SimDisk, "_draw_time", as_ever),
    ('do = "clock-rate"\nrate = 1.5' + LASTS, Clock, "rate", property(lambda _: 1.0, nothing)),
    ('do = "clock-jump"\nms = 3000', Clock, "jump", nothing),
    ('do = "crash-at"\npoint = "after-sync:TXN"' + LASTS, CrashPoints, "hit", nothing),
    ('do = "pause-at"\npoint = "before-send:ACK"' + LASTS, CrashPoints, "hit", nothing),
    ('do = "fail-at"\npoint = "before-sync:TXN"' + LASTS, CrashPoints, "hit", nothing),
    ('do = "partition"\nhow = "timeout"' + LASTS, SimProxy, "_drops", property(never)),
    ('do = "partition"\nhow = "disable"' + LASTS, SimProxy, "disable", nothing),
    ('do = "stall"' + LASTS, Network, "cut", nothing),
    ('do = "flap"' + LASTS, SimProxy, "_drops", property(never)),
]


@pytest.mark.parametrize(
    ("fault", "owner", "name", "ineffective"), CASES, ids=[fault.splitlines()[0].split('"')[1] for fault, *_ in CASES]
)
def test_a_fault_without_effect_is_unknown(
    fault: str, owner: type, name: str, ineffective: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = parse(SCENARIO.format(fault=fault))
    assert simulate(scenario, 3, None).verdict.exit == Exit.PASS
    monkeypatch.setattr(owner, name, ineffective)
    verdict = simulate(scenario, 3, None).verdict
    assert verdict.exit == Exit.UNKNOWN
    assert "not confirmed" in verdict.reasons[0]


AT_A_POINT = [
    'do = "crash-at"\npoint = "after-send:COMMIT#9999"',
    'do = "pause-at"\npoint = "after-send:COMMIT#9999"',
    'do = "fail-at"\npoint = "before-sync:TXN#9999"',
]


@pytest.mark.parametrize("fault", AT_A_POINT, ids=[fault.split('"')[1] for fault in AT_A_POINT])
def test_a_point_that_need_not_be_reached_must_be_armed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = parse(SCENARIO.format(fault=fault + '\nenough = "none"' + LASTS))
    assert simulate(scenario, 3, None).verdict.exit == Exit.PASS
    monkeypatch.setattr(Commands, "due", nothing)
    verdict = simulate(scenario, 3, None).verdict
    assert verdict.exit == Exit.UNKNOWN
    assert "node 1 was told to arm" in verdict.reasons[0]


@pytest.mark.parametrize("fault", AT_A_POINT, ids=[fault.split('"')[1] for fault in AT_A_POINT])
def test_a_point_that_is_lifted_although_it_was_not_armed_is_unknown(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Commands, "due", nothing)
    monkeypatch.setattr(Commands, "disarm", lambda *_, **__: {"armed": True, "arming": False})
    verdict = simulate(parse(SCENARIO.format(fault=fault + '\nenough = "none"' + LASTS)), 3, None).verdict
    assert verdict.exit == Exit.UNKNOWN
    assert "the trace of node 1 does not have that it armed" in verdict.reasons[0]


@pytest.mark.parametrize("fault", AT_A_POINT, ids=[fault.split('"')[1] for fault in AT_A_POINT])
def test_a_fault_that_is_healed_at_once_has_armed_its_point(fault: str) -> None:
    """The node arms it a little after its answer."""
    verdict = simulate(parse(SCENARIO.format(fault=fault + '\nenough = "none"\nfor = 0.01')), 3, None).verdict
    assert verdict.exit == Exit.PASS


ON_LINKS = [
    'do = "latency"\nms = 30',
    'do = "bandwidth"\nkb_per_s = 20',
    'do = "slow-close"\nms = 400',
    'do = "reset"\nms = 100',
    'do = "late-frames"\nms = 100',
]


@pytest.mark.parametrize("wrong", ["other link", "not healed"])
@pytest.mark.parametrize("fault", ON_LINKS, ids=[fault.split('"')[1] for fault in ON_LINKS])
def test_a_disturbance_of_another_link_or_without_an_end_is_unknown(
    fault: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there, and nodes notice it seldom: only the proxies show on which links, and until when."""
    if wrong == "other link":
        proxy = SimProxies._proxy
        monkeypatch.setattr(SimProxies, "_proxy", lambda it, name: proxy(it, name[::-1]))
    else:
        monkeypatch.setattr(SimProxy, "delete", SimProxy.disable)
    verdict = simulate(parse(SCENARIO.format(fault=fault + '\ndirection = "out"' + LASTS)), 3, None).verdict
    assert verdict.exit == Exit.UNKNOWN
    assert "somebody else changed the links" in verdict.property("fault took effect").violations[0].words


IN_THE_NODE = [
    'do = "slow-disk"\nms = 80' + LASTS,
    'do = "disk-full"' + LASTS,
    'do = "disk-error"' + LASTS,
    'do = "clock-rate"\nrate = 1.5' + LASTS,
    'do = "clock-jump"\nms = 300',
]


@pytest.mark.parametrize("fault", IN_THE_NODE, ids=[fault.splitlines()[0].split('"')[1] for fault in IN_THE_NODE])
def test_a_command_that_reaches_another_node_is_unknown(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That node obeys and answers as the right one would."""
    control = SimCluster.control
    monkeypatch.setattr(SimCluster, "control", lambda it, node, do, **more: control(it, node % 3 + 1, do, **more))
    verdict = simulate(parse(SCENARIO.format(fault=fault)), 3, None).verdict
    assert verdict.exit == Exit.UNKNOWN
    assert "fault took effect" in verdict.reasons[0]


@pytest.mark.parametrize(("fault", "healing"), [(IN_THE_NODE[0], {"ms": 0}), (IN_THE_NODE[3], {"rate": 1.0})])
def test_a_healing_that_does_not_reach_the_node_is_unknown(
    fault: str, healing: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    control = SimCluster.control

    def lose(cluster: SimCluster, node: int, command: str, **arguments: Any) -> dict[str, Any]:
        return {} if arguments == healing else control(cluster, node, command, **arguments)

    monkeypatch.setattr(SimCluster, "control", lose)
    verdict = simulate(parse(SCENARIO.format(fault=fault)), 3, None).verdict
    assert verdict.exit == Exit.UNKNOWN
    assert "was healed, and the trace of node 1 does not have that" in verdict.reasons[0]


TWO_FAULTS = """
[scenario]
name = "two-faults"
nodes = 3
duration = 4

[workload]
rate = 20

[[fault]]
at = 1
do = "{first}"
point = "{point}"
target = "node-1"

[[fault]]
at = 2
target = "node-1"
for = 0.5
{second}
"""
FIRST_HAS_NO_EFFECT = [
    ("pause-at", "before-send:FETCH", 'do = "pause"'),
    ("pause-at", "before-send:FETCH", 'do = "pause-at"\npoint = "before-sync:TXN"'),
    ("crash-at", "after-remove:SEGMENT", 'do = "crash"'),
    ("crash-at", "after-remove:SEGMENT", 'do = "crash"\ncrash-at = "before-sync:ANY#2"'),
    ("crash-at", "after-remove:SEGMENT", 'do = "power-cut"\ncrash-at = "before-sync:ANY#2"'),
    ("fail-at", "before-sync:SNAPSHOT", 'do = "crash"\ncrash-at = "before-sync:ANY#2"'),
]


@pytest.mark.parametrize(("first", "point", "second"), FIRST_HAS_NO_EFFECT)
def test_a_fault_has_no_effect_because_another_one_pauses_or_kills_its_node(
    first: str, point: str, second: str
) -> None:
    verdict = simulate(parse(TWO_FAULTS.format(first=first, point=point, second=second)), 1, None).verdict
    assert verdict.exit == Exit.UNKNOWN
    assert [it.words for it in verdict.property("fault took effect").violations] == [
        f"the healing of fault 1 ({first}) was not confirmed: its point was not reached on node 1"
    ]


def test_a_fault_has_no_effect_because_its_node_dies_at_the_point_of_another_one() -> None:
    """The exit status is the same at both points; the trace names the point."""
    second = 'do = "crash-at"\npoint = "before-sync:TXN"'
    scenario = TWO_FAULTS.format(first="crash-at", point="after-remove:SEGMENT", second=second)
    verdict = simulate(parse(scenario), 1, None).verdict
    assert verdict.exit == Exit.UNKNOWN
    assert [it.words for it in verdict.property("fault took effect").violations] == [
        "fault 1 (crash-at) is confirmed, but by the traces no node reached after-remove:SEGMENT"
    ]


def test_a_restart_that_does_not_happen_has_reached_no_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node's exit status is still that of the crash before."""
    second = 'do = "restart"\ncrash-at = "before-sync:ANY"'
    text = TWO_FAULTS.replace('point = "{point}"\n', "").replace("for = 0.5\n", "")
    scenario = parse(text.format(first="crash", second=second))
    assert simulate(scenario, 1, None).verdict.exit == Exit.PASS
    start = SimCluster.start

    def start_without_point(cluster: SimCluster, node: int, crash_at: str | None = None) -> None:
        if crash_at is None:
            start(cluster, node)

    monkeypatch.setattr(SimCluster, "start", start_without_point)
    assert simulate(scenario, 1, None).verdict.exit == Exit.UNKNOWN


def test_a_restart_that_does_not_happen_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The crash before would explain the exit status if the node had died again."""
    text = TWO_FAULTS.replace('point = "{point}"\n', "").replace("for = 0.5\n", "")
    scenario = parse(text.format(first="crash", second='do = "restart"'))
    assert simulate(scenario, 1, None).verdict.exit == Exit.PASS
    start, skipped = process.start_down_nodes, []

    def skip_first(context: FaultContext, nodes: Iterable[int], crash_at: str | None = None) -> None:
        if skipped:
            start(context, nodes, crash_at)
        skipped.append(nodes)

    monkeypatch.setattr(process, "start_down_nodes", skip_first)
    verdict = simulate(scenario, 1, None).verdict
    assert verdict.exit == Exit.UNKNOWN
    assert "fault 2 (restart) was not confirmed" in verdict.reasons[0]


def test_a_point_that_is_reached_after_another_pause_is_reached() -> None:
    scenario = TWO_FAULTS.format(first="pause-at", point="before-sync:TXN#20", second='do = "pause"')
    assert simulate(parse(scenario), 1, None).verdict.exit == Exit.PASS


def test_two_faults_have_their_points_at_one_step_of_one_node() -> None:
    second = 'do = "pause-at"\npoint = "after-sync:TXN#3"'
    scenario = TWO_FAULTS.format(first="crash-at", point="after-sync:TXN#30", second=second)
    assert simulate(parse(scenario), 1, None).verdict.exit == Exit.PASS


def test_a_partition_that_cuts_no_link_is_unknown() -> None:
    """The named nodes are all nodes, which only shows when they are resolved."""
    text = """
[scenario]
name = "all-on-one-side"
duration = 3

[[fault]]
at = 1
do = "slow-disk"
ms = 1
target = ["minority", "majority"]
as = "All"

[[fault]]
at = 2
do = "partition"
target = "All"
"""
    verdict = simulate(parse(text), 1, None).verdict
    assert verdict.exit == Exit.UNKNOWN
    assert "no link is concerned: no two nodes are on different sides" in verdict.reasons[0]


WITHOUT_A_QUORUM = """
[scenario]
name = "no-leader"
nodes = 3
duration = 4

[[fault]]
at = 0.5
do = "crash"
target = ["node-1", "node-2"]

[[fault]]
at = 2
do = "wait"
target = "leader"
state = "leads"
within = 40
"""


def test_a_wait_for_a_leader_that_cannot_be_is_unknown_and_says_so() -> None:
    verdict = simulate(parse(WITHOUT_A_QUORUM), 1, None).verdict
    assert verdict.exit == Exit.UNKNOWN
    assert [it.words for it in verdict.property("fault took effect").violations] == [
        "fault 2 (wait) was not confirmed: there is no established leader"
    ]
