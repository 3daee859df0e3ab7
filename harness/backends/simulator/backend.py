"""The backend `sim`: the nodes' own code in virtual time, with the same faults, records and judgement as on processes.

Everything random is drawn from the seed, and no file says when or where it was made: the same scenario, seed and commit
leave the same bytes.
"""

import hashlib
from types import TracebackType
from typing import Any, Self

import msgspec

from zab_chaos.faults.abilities import NOT_OURS, Ability
from zab_chaos.faults.scenario import TIGHT_MS, Scenario
from zab_chaos.harness.backends.backend import Deployment, Monitor, RunOptions
from zab_chaos.harness.backends.outcome_counts import OutcomeCounts
from zab_chaos.harness.backends.processes.backend import ZabBackend
from zab_chaos.harness.backends.simulator.ensemble import SimCluster, SimHost, SimNetwork
from zab_chaos.harness.backends.simulator.line import SimLine
from zab_chaos.harness.backends.simulator.records import SimRecords
from zab_chaos.harness.backends.simulator.workload import SimLoad
from zab_chaos.harness.machine.interrupt import Forced, Stopped
from zab_chaos.harness.report.progress import Display
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.workload.operations import load_parameters
from zab_chaos.model import events as ev
from zab_chaos.model.dump import dump_of
from zab_chaos.model.verdict import Verdict
from zab_chaos.model.world.crash_states import CrashTestedNode
from zab_chaos.model.world.machine import MakeNode, SimNode, build
from zab_chaos.model.world.standstill import watched
from zab_chaos.model.world.world import BEGINNING, SimPlan, World
from zab_chaos.node.components import components_with

QUESTION_BOUNDS = 2  # how many times `answered_within` a client's last question may take: it may have to find a node
SEGMENT_BYTES = 2**18  # limit for a log segment: a simulated start reads less, and more segments begin


class SimDeployment(Deployment):
    """A deployment in a simulated world. Until the nodes are started, all of its machines are down.

    `folder`: the run's folder, or None to write no files. `plan`: replaces the parts that the nodes are built of.
    `make_node`: creates machines of another class.
    """

    cluster: SimCluster
    records: SimRecords

    def __init__(
        self, scenario: Scenario, seed: int, defect: str | None, folder: RunFolder | None, record: bool,
        plan: SimPlan | None = None, make_node: MakeNode | None = None,
    ) -> None:  # fmt: skip
        self.world = World(seed, scenario.erratic_network)
        self.folder = folder
        self.records = SimRecords(self.world, folder.path if folder is not None else None, record)
        make_node = make_node or (CrashTestedNode if scenario.crash_states and scenario.faithful else SimNode)
        net, self.machines = build(self.world, plan or plan_of(scenario, defect), self.records, make_node)
        self.cluster = SimCluster(self.world, self.machines, scenario.faithful)
        self.network = SimNetwork(net)
        self.host = SimHost(self.world, self.machines)
        self.monitor = Monitor()
        self._watch = watched(self.world)
        self.outcomes = OutcomeCounts()
        self._scenario = scenario
        self._load: SimLoad | None = None
        timing = scenario.timing
        # What was sent before all was healed may still be on its way, and silence counts from its arrival.
        self.settle_seconds = (timing.timeout_ms + TIGHT_MS) / 1000
        # Else a lost or late frame may make a node leave its leader at any time.
        if self.world.chance.conditions.loss == 0 and not scenario.tight:
            # Longer than every timeout of a node.
            self.quiet_seconds = (timing.sync_timeout_ms + timing.timeout_ms) / 1000

    def __enter__(self) -> Self:
        self._watch.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            late = self.cluster.close(ask=kind is None or not issubclass(kind, Forced | Stopped))
        finally:
            self._watch.__exit__(None, None, None)
        if late:
            self.records.milestone("leftovers", nodes=late)

    @property
    def fault_log(self) -> Any:
        return self.records.fault

    def workload(self, seed: int) -> SimLoad:
        self._load = SimLoad(self.world, self._ordered(), self.records, load_parameters(self._scenario), seed)
        return self._load

    def on_healed(self) -> None:
        self.world.chance.calm()
        if self._load is not None:
            self._load.end_stalls()

    def on_recovered(self) -> None:
        """Let each client of the load ask a last question: all must be served again in time."""
        if self._load is not None:
            expect = self._scenario.expected(exact=True)
            seconds = QUESTION_BOUNDS * (expect["answered_within"] or expect["progress_within"])
            self.records.milestone("last-question", seconds=seconds)
            self._load.ask_last(seconds)

    def line(self, number: int, node: int, timeout: float) -> SimLine:
        return SimLine(self.world, self._ordered(), self.records, self.outcomes, number, node, timeout)

    def finish(self) -> None:
        self.records.close()

    def judge(self, outcome: str) -> Verdict:
        """Return the verdict of the oracle, which has got all records as they were made; no file is read."""
        expect = self._scenario.expected(exact=True)
        schedule = msgspec.json.decode(msgspec.json.encode(self._scenario.planned), type=list[ev.PlannedFault])
        run = ev.Run(nodes=self._scenario.nodes, outcome=outcome, expect=expect, schedule=schedule)
        return self.records.judge(run)

    def keep_artifacts(self) -> dict[str, Any]:
        """Write the nodes' disks and the canonical dump of them, and return the dump's SHA-256 for run.json."""
        assert self.folder is not None
        self.cluster.export_disks(self.folder.file("data"))
        content = dump_of(self.folder.path, self._scenario.nodes)
        self.folder.file("dump.bin").write_bytes(content)
        return {"dump": hashlib.sha256(content).hexdigest()}

    @property
    def seconds(self) -> float:
        """The virtual time that has passed."""
        return (self.world.now - BEGINNING) / 1e9

    def _ordered(self) -> list[SimNode]:
        return [self.machines[node] for node in sorted(self.machines)]


class SimBackend(ZabBackend):
    """The simulator as a backend."""

    name = "sim"
    abilities = frozenset(Ability) - {Ability.CONTAINERS, Ability.FILE_SYSTEM, *NOT_OURS}
    exact = True

    def open(self, scenario: Scenario, options: RunOptions, folder: RunFolder, display: Display) -> Deployment:
        return SimDeployment(scenario, options.seed, options.defect_path, folder, options.record)


def plan_of(scenario: Scenario, defect: str | None) -> SimPlan:
    """Return the plan for the world's nodes. `defect`: the value of NodeConfig.defect."""
    parts, name = components_with(defect)
    limits = scenario.limits
    return SimPlan(
        nodes=scenario.nodes,
        timing=scenario.timing,
        limits=msgspec.structs.replace(limits, segment_bytes=min(limits.segment_bytes, SEGMENT_BYTES)),
        faithful=scenario.faithful,
        defect=name,
        parts=parts,
    )
