"""The load in the simulator: its start, its clients, and its end."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from zab_chaos.faults.scenario import FaultStep, Scenario, Workload
from zab_chaos.harness.backends.simulator import records
from zab_chaos.harness.backends.simulator.backend import SimBackend, SimDeployment
from zab_chaos.harness.backends.simulator.records import SimRecords
from zab_chaos.harness.backends.simulator.workload import SimLoad
from zab_chaos.harness.client import log, session
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs.run import execute
from zab_chaos.harness.workload.open_loop import RECREATE_NS
from zab_chaos.harness.workload.operations import load_parameters
from zab_chaos.model.world.machine import SimNode
from zab_chaos.node.config import Limits
from zab_chaos.node.tree import outcomes

pytestmark = pytest.mark.slow


def test_a_node_without_a_leader_is_not_asked_again_at_once() -> None:
    """In swarm seed 29 it asked 450,000 times for its keys, as fast as the node could refuse."""
    scenario = Scenario(name="alone", about="one of three is up", workload=Workload(clients=1, keys=4))
    deployment = SimDeployment(scenario, 1, None, None, False)
    machines: list[SimNode] = [deployment.machines[node] for node in sorted(deployment.machines)]
    machines[0].spawn()
    deployment.world.run_for(1_000_000_000)
    load = SimLoad(deployment.world, machines, deployment.records, load_parameters(scenario), 1)
    load.start()
    deployment.world.run_for(20 * RECREATE_NS)
    assert 0 < load.counters.failed <= 20 * 4
    assert not load.wait_begun(0)
    for machine in machines[1:]:
        machine.spawn()
    assert deployment.world.run_until(lambda: load.wait_begun(0), 5_000_000_000)


def test_a_stall_shows_in_the_latencies_of_all_operations_that_it_delayed() -> None:
    """Also of those that the client could not even send: two are outstanding while the node is paused, and ninety are due."""
    few = Workload(clients=1, rate=100, keys=1, mix={"set": 1.0}, max_outstanding=2)
    scenario = Scenario(name="stall", about="a node is paused", nodes=1, workload=few)
    deployment = SimDeployment(scenario, 1, None, None, False)
    machine = deployment.machines[1]
    machine.spawn()
    load = SimLoad(deployment.world, [machine], deployment.records, load_parameters(scenario), 1)
    load.start()
    assert deployment.world.run_until(lambda: load.wait_begun(0), 5_000_000_000)
    machine.pause()
    deployment.world.run_for(900_000_000)
    machine.resume()
    assert deployment.world.run_until(lambda: load.counters.owed == 0, 5_000_000_000)
    assert load.counters.p50_ms is not None
    assert load.counters.p50_ms > 300


def test_keys_are_created_on_nodes_with_a_short_queue_of_requests() -> None:
    """The load once asked for a thousand keys at a time, was refused, and asked again, until the run was given up."""
    few, limits = Workload(clients=1, keys=100), Limits(waiting=12)
    scenario = Scenario(name="narrow", about="no faults", duration=1.0, workload=few, limits=limits)
    assert simulate(scenario, 1, None).verdict.verdict == "PASS"


@pytest.mark.parametrize("timeout", [0.2, 10.0])
def test_clients_give_up_requests_that_are_not_answered_in_time(timeout: float) -> None:
    few = Workload(clients=1, rate=100, keys=1, mix={"set": 1.0}, timeout=timeout)
    paused = FaultStep(at=0.5, do="pause", target="node-1", lasts=0.4)
    scenario = Scenario(name="paused", about="a follower", duration=3.0, workload=few, faults=(paused,))
    verdict = simulate(scenario, 1, None).verdict
    assert verdict.verdict == "PASS"
    assert (verdict.metrics["unknown"] > 0) == (timeout < 1)


def test_new_clients_get_numbers_that_were_not_used_before() -> None:
    few = Workload(clients=2, rate=100, keys=1, mix={"set": 1.0, "get": 1.0}, visits=20)
    scenario = Scenario(name="visits", about="no faults", duration=3.0, workload=few)
    deployment = SimDeployment(scenario, 1, None, None, False)
    outcome, _ = execute(scenario, 1, deployment, SimBackend.abilities)
    assert deployment.judge(outcome).verdict == "PASS"
    requests = deployment.records.oracle.facts.requests
    clients = {client for client, _ in requests if client}
    assert len(clients) > 20
    assert all((client, 1) in requests for client in clients)


def test_the_lines_of_a_run_are_written_while_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were once kept in memory until the end of the run, however long it was."""
    (tmp_path / "trace").mkdir()
    monkeypatch.setattr(records, "BATCH", 50)
    monkeypatch.setattr(SimRecords, "close", lambda _self: None)
    scenario = Scenario(name="long", about="no faults", duration=3.0, workload=Workload(clients=2, rate=100, keys=4))
    deployment = SimDeployment(scenario, 1, None, RunFolder(tmp_path), False)
    execute(scenario, 1, deployment, SimBackend.abilities)
    files = [tmp_path / "ops.jsonl", *(tmp_path / "trace").iterdir()]
    written = sum(len(file.read_bytes().splitlines()) for file in files)
    assert len(files) == 1 + 3
    assert written > 0.8 * (deployment.records.events + 2 * deployment.records.invoked)
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def confident(outcome: outcomes.Outcome) -> session.Outcome:
    """Report unknown outcomes as failed, as a wrong library might."""
    read = session.read_outcome(outcome)
    return session.Failed("no leader", read.why) if isinstance(read, session.Unknown) else read


@pytest.mark.parametrize(("read", "violated"), [(session.read_outcome, []), (confident, ["exactly once"])])
def test_the_outcomes_that_the_library_reports_are_judged(
    read: Callable[[outcomes.Outcome], session.Outcome], violated: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = Workload(clients=1, rate=100, keys=1, mix={"set": 1.0}, burst=10, moves=20)
    scenario = Scenario(name="moving", about="no faults", duration=2.0, workload=few)
    monkeypatch.setattr(log, "read_outcome", read)
    verdict = simulate(scenario, 1, None).verdict
    assert verdict.metrics["acked"] > 0
    assert verdict.violated == violated


def test_requests_that_wait_when_the_load_stops_are_still_sent() -> None:
    """A client between two nodes once kept its requests until the end, and nothing was delivered."""
    moving = Workload(clients=3, rate=100, keys=1, mix={"set": 1.0}, moves=100)
    scenario = Scenario(name="moving", about="no faults", workload=moving)
    deployment = SimDeployment(scenario, 1, None, None, False)
    machines: list[SimNode] = [deployment.machines[node] for node in sorted(deployment.machines)]
    for machine in machines:
        machine.spawn()
    load = SimLoad(deployment.world, machines, deployment.records, load_parameters(scenario), 1)
    load.start()

    def between() -> bool:
        return load.wait_begun(0) and any(one.core.outstanding and not one.core.connected for one in load._clients)

    assert deployment.world.run_until(between, 10_000_000_000)
    unknown = load.counters.unknown
    assert load.stop().unknown == unknown
