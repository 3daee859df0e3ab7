"""Disk and clock faults are confirmed by the counters of disks and the readings of clocks, not by the node's answer."""

import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.faults.conftest import Sleepers
from zab_chaos.faults.cluster import ClusterError
from zab_chaos.faults.host import ThisHost
from zab_chaos.faults.kind import Fault, FaultContext
from zab_chaos.faults.registry import KINDS

SECOND = 1_000_000_000
ZEROS = dict.fromkeys(("writes", "syncs", "slowed", "full", "failed", "cuts", "lost_bytes", "lost_changes"), 0)
Make = Callable[..., Fault]


class Told:
    """The answers of node 1 to the commands of a fault, in order: one at its beginning, one at its end."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)

    def __call__(self, _node: int, _command: str, **_: Any) -> dict[str, Any]:
        return self.answers.pop(0)


class Watch(ThisHost):
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> float:
        return self.seconds


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def make(sleepers: Callable[..., Any], watch: Watch) -> Make:
    """Return `make(name, answers, **params)`, which makes a fault of node 1 with the given answers of the node."""
    cluster = sleepers(1)

    def made(do: str, answers: list[dict[str, Any]], **params: Any) -> Fault:
        cluster.control = Told(*answers)
        kind = KINDS[do]
        defaults = {key.name: key.default for key in kind.keys}
        return kind.make(FaultContext(cluster, None, host=watch), [1], defaults | params)

    return made


def own(told: int, writes: int, syncs: int, slowed: int, life: int = 1) -> dict[str, Any]:
    return {"life": life, "told": told, "writes": writes, "syncs": syncs, "slowed": slowed}


def shown(fault: Fault) -> bool:
    fault.inject()
    assert fault.injected().confirmed
    fault.heal()
    return fault.recovered().confirmed


FULL = ("disk-full", {})
FAILS_WRITES = ("disk-error", {"op": "write"})
FAILS_SYNCS = ("disk-error", {"op": "sync"})
FAILS_ONE_SYNC = ("disk-error", {"op": "sync", "once": True})
SLOW = ("slow-disk", {"ms": 5})


@pytest.mark.parametrize(
    ("kind", "writes", "syncs", "slowed", "confirmed"),
    [
        (FULL, 0, 3, 0, True),
        (FULL, 1, 0, 0, False),
        (FAILS_WRITES, 0, 3, 0, True),
        (FAILS_WRITES, 1, 0, 0, False),
        (FAILS_SYNCS, 3, 0, 0, True),
        (FAILS_SYNCS, 0, 1, 0, False),
        (SLOW, 3, 3, 3, True),
        (SLOW, 3, 0, 0, True),
        (SLOW, 3, 3, 0, False),
    ],
)
def test_a_node_s_disk_counters_confirm_a_fault(
    make: Make, kind: tuple[str, dict[str, Any]], writes: int, syncs: int, slowed: int, confirmed: bool
) -> None:
    do, params = kind
    fault = make(do, [own(4, 70, 50, 9), own(5, 70 + writes, 50 + syncs, 9 + slowed)], **params)
    assert shown(fault) is confirmed
    assert fault.recovered().evidence["disk"] == {"1": {"writes": writes, "syncs": syncs, "slowed": slowed}}


@pytest.mark.parametrize("lifted", [own(6, 99, 99, 0), own(5, 99, 99, 0, life=2), {}, {"ended": 74}])
def test_a_disk_shows_nothing_of_a_fault_that_another_one_or_a_new_life_ended(
    make: Make, lifted: dict[str, Any]
) -> None:
    fault = make("disk-full", [own(4, 70, 50, 9), lifted])
    assert shown(fault)
    assert "disk" not in fault.recovered().evidence


def test_a_disk_s_counters_are_compared_at_the_first_healing(make: Make) -> None:
    fault = make("disk-full", [own(1, 70, 50, 0), own(2, 70, 50, 0), own(3, 90, 60, 0)])
    assert shown(fault)
    fault.heal()
    assert fault.recovered().confirmed


@pytest.mark.parametrize(
    ("kind", "then", "confirmed"),
    [
        (FULL, {"writes": 72, "full": 2}, True),
        (FULL, {"writes": 73}, False),
        (FAILS_SYNCS, {"syncs": 50, "failed": 1}, True),
        (FAILS_SYNCS, {"syncs": 51}, False),
        (FAILS_SYNCS, {"syncs": 60, "failed": 1}, False),
        (FAILS_ONE_SYNC, {}, True),
        (FAILS_ONE_SYNC, {"syncs": 60, "failed": 1}, True),
        (FAILS_ONE_SYNC, {"syncs": 51}, False),
        (FAILS_ONE_SYNC, {"syncs": 60, "failed": 2}, False),
        (SLOW, {"syncs": 51, "slowed": 1}, True),
        (SLOW, {"syncs": 51}, False),
    ],
)
def test_the_counters_of_a_file_system_confirm_a_fault(
    make: Make, kind: tuple[str, dict[str, Any]], then: dict[str, int], confirmed: bool
) -> None:
    """Two writes were completed between the reading and the command. Operations after the end of the fault do not count."""
    do, params = kind
    before = ZEROS | {"writes": 70, "syncs": 50}
    begun = before | {"writes": 72}
    lifted = begun | {"writes": 90, "syncs": 90}
    fault = make(do, [{**begun, "life": 0, "told": 1}, {**lifted, "life": 0, "told": 2}], **params)
    fault.cluster.disk_state = lambda _node: before  # type: ignore[method-assign]
    fault.inject()
    fault.cluster.disk_state = lambda _node: begun | then  # type: ignore[method-assign]
    fault.heal()
    assert fault.recovered().confirmed is confirmed


def clock(told: int, seconds: float, life: int = 1) -> dict[str, Any]:
    return {"life": life, "told": told, "clock_ns": 7 * SECOND + int(seconds * SECOND)}


class Slow(Told):
    """Answers that take one second each."""

    def __init__(self, watch: Watch, *answers: dict[str, Any]) -> None:
        super().__init__(*answers)
        self.watch = watch

    def __call__(self, node: int, command: str, **arguments: Any) -> dict[str, Any]:
        self.watch.seconds += 1
        return super().__call__(node, command, **arguments)


@pytest.mark.parametrize(
    ("passed", "confirmed"),
    [(19.0, True), (18.0, True), (22.0, True), (17.9, False), (22.1, False), (10.0, False), (0.0, False)],
)
def test_clock_readings_confirm_a_rate(make: Make, watch: Watch, passed: float, confirmed: bool) -> None:
    """Between nine and eleven seconds of the host passed between the two readings, since each answer took one second."""
    fault = make("clock-rate", [], rate=2.0)
    fault.cluster.control = Slow(watch, clock(1, 0), clock(2, passed))  # type: ignore[method-assign]
    fault.inject()
    watch.seconds += 9
    fault.heal()
    assert fault.recovered().confirmed is confirmed


@pytest.mark.parametrize("lifted", [clock(3, 0), clock(2, 0, life=2), {}])
def test_a_clock_shows_nothing_of_a_rate_that_another_fault_or_a_new_life_changed(
    make: Make, watch: Watch, lifted: dict[str, Any]
) -> None:
    fault = make("clock-rate", [clock(1, 0), lifted], rate=2.0)
    fault.inject()
    watch.seconds += 9
    fault.heal()
    assert fault.recovered().confirmed


@pytest.mark.parametrize(("jumped", "confirmed"), [(4.999, False), (5.0, True), (5.1, True)])
def test_clock_readings_confirm_a_jump(make: Make, jumped: float, confirmed: bool) -> None:
    fault = make("clock-jump", [{**clock(1, jumped), "before_ns": 7 * SECOND}], ms=5000)
    fault.inject()
    assert fault.injected().confirmed is confirmed


def test_an_answer_without_counters_or_readings_is_believed(make: Make) -> None:
    jump = make("clock-jump", [{}], ms=5000)
    jump.inject()
    assert jump.injected().confirmed
    assert shown(make("disk-full", [{}, {}]))


def test_a_fault_that_a_node_does_not_acknowledge_is_not_confirmed(make: Make) -> None:
    def refuse(*_: Any, **__: Any) -> dict[str, Any]:
        raise ClusterError("no answer")

    fault = make("clock-rate", [], rate=2.0)
    fault.cluster.control = refuse  # type: ignore[method-assign]
    with pytest.raises(ClusterError):
        fault.inject()
    assert not fault.injected().confirmed


@pytest.mark.parametrize("cut", [True, False])
def test_a_power_cut_that_the_file_system_has_not_counted_is_not_confirmed(make: Make, cut: bool) -> None:
    fault = make("power-cut", [], variant="plain")
    fault.cluster.disks[1] = ZEROS
    if not cut:
        fault.cluster.cut_power = fault.cluster.kill_all
    fault.inject()
    assert fault.injected().confirmed is cut
    assert fault.injected().evidence["1"]["cuts"] == cut


@pytest.mark.parametrize("left", ["unsynced_bytes", "unsynced_changes"])
def test_a_power_cut_after_which_there_is_still_something_to_lose_is_not_confirmed(make: Make, left: str) -> None:
    fault = make("power-cut", [], variant="plain")
    fault.cluster.disks[1] = ZEROS | {left: 1}
    fault.inject()
    assert not fault.injected().confirmed


@pytest.mark.parametrize("left_on", [1, 2])
def test_a_power_cut_must_show_on_each_disk(left_on: int, sleepers: Callable[..., Any]) -> None:
    cluster = sleepers(2)
    cluster.disks = {node: ZEROS | {"unsynced_bytes": int(node == left_on)} for node in cluster.nodes}
    fault = KINDS["power-cut"].make(FaultContext(cluster, None), [1, 2], {"variant": "plain"})
    fault.inject()
    assert not fault.injected().confirmed


class Dying(Sleepers):
    """At a power cut a node is stopped before it is killed, just when it is asked whether it is paused."""

    pausing = False

    def control(self, node: int, command: str, **arguments: Any) -> dict[str, Any]:
        self.pause(node)
        return {}

    def paused(self, node: int) -> bool:
        stopped = super().paused(node)
        if stopped and not self.pausing:
            self.kill(node)
        return stopped

    def pause(self, node: int) -> None:
        self.pausing = True
        super().pause(node)
        self.pausing = False


def test_a_node_that_is_being_killed_is_not_taken_for_a_paused_one(sleepers: Callable[..., Any]) -> None:
    fault = KINDS["power-cut"].make(FaultContext(sleepers(2, Dying), None), [1, 2], {"variant": "torn", "within_ms": 0})
    fault.inject()
    assert fault.injected().confirmed
    assert [found["exit"] for found in fault.injected().evidence.values()] == [-signal.SIGKILL] * 2


@pytest.mark.parametrize("quick", [1, 2])
def test_a_disk_fault_must_show_on_each_disk(quick: int, sleepers: Callable[..., Any]) -> None:
    """Each disk makes one sync, and one disk is not slow."""
    cluster, told = sleepers(2), Counter[int]()

    def control(node: int, _command: str, **_: Any) -> dict[str, Any]:
        told[node] += 1
        return own(told[node], 0, told[node], 0 if node == quick else told[node])

    cluster.control = control
    assert not shown(KINDS["slow-disk"].make(FaultContext(cluster, None), [1, 2], {"ms": 5}))


class Answering:
    """Answers each command of each node with the number of such commands, and keeps the commands."""

    def __init__(self) -> None:
        self.told: list[tuple[int, dict[str, Any]]] = []

    def __call__(self, node: int, _command: str, **arguments: Any) -> dict[str, Any]:
        self.told.append((node, arguments))
        return own(len(self.told), 0, 0, 0) | {"clock_ns": 0}


LASTING = [("slow-disk", {"ms": 5}), ("clock-rate", {"rate": 2.0})]


@pytest.mark.parametrize(("do", "params"), LASTING)
def test_a_slow_disk_and_a_wrong_clock_outlast_their_process_and_later_ones_of_their_kind(
    do: str, params: dict[str, Any], sleepers: Callable[..., Any]
) -> None:
    cluster = sleepers(2)
    cluster.control = answering = Answering()
    first, second = (KINDS[do].make(FaultContext(cluster, None), nodes, params) for nodes in ([1, 2], [2]))
    restart = KINDS["crash"].make(FaultContext(cluster, None), [1], {})
    first.inject()
    second.inject()
    answering.told.clear()
    first.on_healed(restart)
    assert answering.told == []  # nothing has changed
    cluster.kill(1)
    first.on_healed(restart)
    assert answering.told == []  # there is nobody to tell
    cluster.start(1)
    first.on_healed(restart)
    first.on_healed(restart)
    assert answering.told == [(1, params)]
    first.on_healed(second)
    assert answering.told == [(1, params), (2, params)]
