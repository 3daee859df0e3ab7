"""The grammar of crash points, in the node and in scenario files."""

import pytest

from zab_chaos.faults.crash_point_rule import point
from zab_chaos.faults.rules import InvalidValueError
from zab_chaos.faults.scenario import ScenarioError
from zab_chaos.faults.scenario import parse as parse_scenario
from zab_chaos.node.crash_points import (
    CUT_ACTIONS,
    DISK_STEPS,
    FAIL_STEPS,
    STEPS,
    CrashPoint,
    CrashPoints,
    InvalidCrashPoint,
    parse,
    subjects,
)


def test_every_point_is_read_and_written_back() -> None:
    for step in STEPS:
        for what in subjects(step):
            for text in (f"{step}:{what}", f"{step}:{what}#3"):
                assert str(parse(text)) == text
                assert point().read(text, 3) == text


def test_the_count_1_may_be_left_out() -> None:
    assert parse("after-send:COMMIT#1") == parse("after-send:COMMIT") == CrashPoint("after-send", "COMMIT", 1)


@pytest.mark.parametrize(
    "text",
    ["", "COMMIT", "after-send:", ":TXN", "after-sync:ACK", "after-sync:TXN#x", "after-sync:TXN#0", 5, "a:b:c",
     "after-sync:TXN#\u0663", "after-rename:TXN"],
)  # fmt: skip
def test_an_invalid_point_is_refused(text: object) -> None:
    with pytest.raises(InvalidCrashPoint):
        parse(text)
    with pytest.raises(InvalidValueError):
        point().read(text, 3)


def test_a_similar_point_is_suggested() -> None:
    with pytest.raises(InvalidValueError, match="'after-snyc' is not a step") as raised:
        point().read("after-snyc:TXN", 3)
    assert raised.value.allowed.startswith("the steps before-write, ")
    assert raised.value.suggestion == "Did you mean after-sync?"


def test_a_disk_fails_only_at_a_write_or_a_sync() -> None:
    for step in STEPS:
        if step in FAIL_STEPS:
            assert point("fail").read(f"{step}:TRUNC", 3)
            continue
        with pytest.raises(InvalidValueError, match="no disk fails at") as raised:
            point("fail").read(f"{step}:{subjects(step)[0]}", 3)
        assert raised.value.allowed == ", ".join(FAIL_STEPS)


def test_a_point_fails_once_and_at_its_count() -> None:
    points = CrashPoints(lambda _point, _state: None)
    points.arm("before-write:TRUNC#2", "fail")
    points.hit("before-write", "TRUNC")
    points.hit("before-write", "TXN")
    with pytest.raises(OSError, match="Input/output error"):
        points.hit("before-write", "TRUNC")
    points.hit("before-write", "TRUNC")


def test_any_is_a_point_too() -> None:
    died: list[str] = []
    points = CrashPoints(lambda point, state: died.append(point) if state == "fired" else None)
    points.die = lambda: None
    points.arm("before-sync:ANY#3")
    points.arm("before-sync:EPOCH#2")
    for what in ("EPOCH", "SNAPSHOT"):
        points.hit("after-sync", what)
        points.hit("before-sync", what)
    assert died == []
    points.hit("before-sync", "EPOCH")
    assert died == ["before-sync:ANY#3", "before-sync:EPOCH#2"]
    assert points.armed == []


def test_points_of_several_faults_at_one_step_count_each_for_itself() -> None:
    did: list[str] = []
    points = CrashPoints(lambda _point, _state: None)
    points.pause, points.die = lambda: did.append("pause"), lambda: did.append("die")
    points.cut = lambda variant, seed: did.append(f"{variant} {seed}")
    points.arm("after-sync:TXN", "pause")
    points.arm("after-sync:TXN", "torn", 1)
    points.arm("after-sync:TXN", "torn", 2)
    points.arm("after-sync:TXN#2")
    assert points.disarm("after-sync:TXN", "torn")
    points.hit("after-sync", "TXN")
    assert did == ["pause", "torn 2"]
    assert points.armed == ["after-sync:TXN#2"]
    points.hit("after-sync", "TXN")
    assert did == ["pause", "torn 2", "die"]
    assert not points.disarm("after-sync:TXN#2", "crash")


def test_one_point_is_disarmed_and_the_others_stay_armed() -> None:
    told: list[tuple[str, str]] = []
    points = CrashPoints(lambda point, state: told.append((point, state)))
    points.arm("before-write:TRUNC#2", "fail")
    points.arm("before-sync:EPOCH")
    points.disarm("before-write:TRUNC#2")
    assert points.armed == ["before-sync:EPOCH"]
    points.disarm()
    assert points.armed == []
    assert told[2:] == [("before-write:TRUNC#2", "lifted"), ("before-sync:EPOCH", "lifted")]


def mistakes(fault: str) -> str:
    with pytest.raises(ScenarioError) as raised:
        parse_scenario(f'[scenario]\nname = "x"\nabout = "y"\n[[fault]]\nat = 1\n{fault}\n')
    return str(raised.value)


def test_a_mistake_names_the_steps_at_which_a_disk_can_fail() -> None:
    told = mistakes('do = "fail-at"\ntarget = "leader"\npoint = "after-sync:TRUNC"')
    assert "no disk fails at after-sync. Allowed: before-write, before-sync. Did you mean before-sync?" in told


def test_enough_needs_a_crash_point() -> None:
    told = mistakes('do = "restart"\ntarget = "all"\nenough = "one"')
    assert "enough says how many targets must reach the point of crash-at, but crash-at is not given" in told


def test_stays_readable_needs_a_failing_sync() -> None:
    told = mistakes('do = "disk-error"\ntarget = "one"\nop = "write"\nstays_readable = true')
    assert "stays_readable says what a failed sync leaves, but op is not sync" in told


def test_variants_of_a_crash_are_allowed_at_steps_of_the_disk_only() -> None:
    left: list[str] = []
    points = CrashPoints(lambda _point, _state: None)
    points.die = lambda: left.append("nothing")
    for variant in CUT_ACTIONS:
        points.arm("after-write:TRUNC", variant)
        points.hit("after-write", "TRUNC")
    points.cut = lambda variant, seed: left.append(variant)
    for variant in CUT_ACTIONS:
        points.arm("before-sync:NEWLEADER", variant)
        points.hit("before-sync", "NEWLEADER")
    assert left == ["nothing"] * len(CUT_ACTIONS) + list(CUT_ACTIONS)
    with pytest.raises(InvalidCrashPoint, match="no disk is written at after-send") as raised:
        points.arm("after-send:COMMIT", "torn")
    assert raised.value.allowed == ", ".join(DISK_STEPS)


@pytest.mark.parametrize("variant", ["torn", "reordered", "pages", "killed"])
def test_a_scenario_file_may_give_the_variant_of_a_crash_at_a_point(variant: str) -> None:
    step = '[[fault]]\nat = 1\ndo = "crash-at"\ntarget = "one"\npoint = "after-write:TXN"\n'
    (fault,) = parse_scenario(f'[scenario]\nname = "x"\n{step}variant = "{variant}"\n').faults
    assert fault.params["variant"] == variant


@pytest.mark.parametrize("disk", ["ordinary", "fuse"])
def test_variants_need_a_faithful_disk(disk: str) -> None:
    head = f'[scenario]\nname = "x"\ndisk = "{disk}"\n'
    step = '[[fault]]\nat = 1\ndo = "crash-at"\ntarget = "one"\npoint = "after-write:TXN"\nvariant = '
    with pytest.raises(ScenarioError, match="on a faithful disk only"):
        parse_scenario(f'{head}{step}"torn"\n')
    assert parse_scenario(f'{head}{step}"plain"\n').faults
