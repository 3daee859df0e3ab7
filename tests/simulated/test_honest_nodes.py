"""Faults and settings that the swarm does not draw: honest nodes survive them, and are not accused of what a fault did."""

import pytest

from zab_chaos.faults.scenario import parse
from zab_chaos.harness.explore.simulate import simulate

SMALL_FILES = "snapshot_bytes = 100000\nsegment_bytes = 1000"


HEAD = '[scenario]\nname = "odd"\nduration = 3\nrecord = false\n[workload]\nrate = 50\n'
SHORT = '[scenario]\nname = "odd"\nnodes = 4\nduration = 0.5\nrecord = false\n[workload]\nrate = 40\nburst = 20\n'


def run_with(
    *, head: str = HEAD, limits: str = "", fault: str = "", rest: str = "", seed: int = 1
) -> tuple[str, list[str]]:
    """Run nodes with a fault; return the verdict with its reasons."""
    at = 1.5 if head is HEAD else 0.201
    faults = f"[[fault]]\nat = {at}\n{fault}\n" if fault else ""
    scenario = parse(f"{head}[limits]\n{limits}\n{faults}{rest}")
    verdict = simulate(scenario, seed, None).verdict
    return str(verdict.verdict), verdict.reasons


def test_a_disk_without_any_file_is_a_lost_disk() -> None:
    fault = 'do = "remove-file"\ntarget = "node-1"\nfile = "log"\nfor = 0.5'
    assert run_with(fault=fault) == ("PASS", [])


def test_the_nodes_of_a_quorum_without_any_file_have_lost_their_disks() -> None:
    fault = 'do = "remove-file"\ntarget = "majority"\nfile = "any"\nwhich = "all"\nfor = 0.5'
    verdict, reasons = run_with(fault=fault)
    assert verdict == "BEYOND-FAULT-MODEL", reasons


@pytest.mark.parametrize(
    ("do", "which"), [("corrupt", None), ("truncate-file", None), ("remove-file", "newest"), ("remove-file", "older")]
)
def test_a_node_that_refuses_a_damaged_disk_is_not_accused(do: str, which: str | None) -> None:
    fault = f'do = "{do}"\ntarget = "node-1"\nfile = "log"\nfor = 0.5' + (f'\nwhich = "{which}"' if which else "")
    verdict, reasons = run_with(limits=SMALL_FILES if which else "", fault=fault)
    assert verdict == "UNKNOWN", reasons
    assert f"node 1 refuses its disk, which fault 1 ({do}) has damaged" in reasons[-1]


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_quorum_that_loses_the_ends_of_its_logs_does_not_go_on_without_them(seed: int) -> None:
    fault = 'do = "remove-file"\ntarget = "majority"\nfile = "log"\nfor = 0.5'
    verdict, reasons = run_with(limits=SMALL_FILES, fault=fault, seed=seed)
    assert verdict == "UNKNOWN", reasons
    assert len([one for one in reasons if "refuses its disk, which fault 1 (remove-file) has damaged" in one]) == 2


def test_a_node_is_given_a_command_after_its_longest_sync() -> None:
    fault = 'do = "slow-disk"\ntarget = ["node-1", "node-2"]\nms = 10000\nfor = 0.2'
    assert run_with(fault=fault) == ("PASS", [])


@pytest.mark.parametrize("seed", [2, 6])
def test_nodes_may_leave_their_leader_if_a_heartbeat_must_not_be_late(seed: int) -> None:
    assert run_with(rest="[timing]\nheartbeat_ms = 20\ntimeout_ms = 40\n", seed=seed) == ("PASS", [])


def test_silence_counts_from_the_arrival_of_what_was_on_its_way_when_all_was_healed() -> None:
    mix = 'mix = { "set" = 2, "get" = 1, "numbered" = 1, "sequential" = 1 }\n'
    fault = 'do = "stall"\ntarget = "follower"\nfor = 2\ndirection = "in"'
    assert run_with(head=SHORT + mix, limits="queue_frames = 1", fault=fault, seed=2040) == ("PASS", [])


def test_transactions_from_before_the_run_may_have_had_another_limit() -> None:
    disks = "".join(
        f"[[disk]]\nnode = {node}\naccepted_epoch = 1\ncurrent_epoch = 1\nlog = [[1, 1], [1, 2], [1, 3]]\n"
        for node in (1, 2, 3)
    )
    assert run_with(limits="counter_max = 2", rest=disks) == ("PASS", [])
