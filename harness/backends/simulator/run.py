"""A run in the simulated world: the same walk, scheduler, faults and judge as on processes, in virtual time.

Everything that is random is drawn from the seed, and no file says when or where it was made: the same scenario, seed and
commit leave the same bytes.
"""

import gc
import hashlib
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.faults.host import Host
from zab_chaos.faults.network import Network, NetworkError
from zab_chaos.faults.scenario import Scenario
from zab_chaos.faults.scheduler import Scheduler
from zab_chaos.harness.backends.simulator.ensemble import SimCluster, SimHost, SimNetwork
from zab_chaos.harness.backends.simulator.records import Records
from zab_chaos.harness.backends.simulator.workload import SimLoad
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine import environment
from zab_chaos.harness.machine.interrupt import GRACE, Forced, Interrupt, Stopped
from zab_chaos.harness.report.progress import Display, Quiet
from zab_chaos.harness.results import run_folder
from zab_chaos.harness.results.final_state import with_state
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs.judgement import with_replay
from zab_chaos.harness.runs.options import RunOptions
from zab_chaos.harness.runs.run import Ran, judge_within
from zab_chaos.harness.runs.walk import INTERRUPTED, Walk
from zab_chaos.harness.workload.operations import load_of
from zab_chaos.model import events as ev
from zab_chaos.model.coverage import Book
from zab_chaos.model.dump import dump_of
from zab_chaos.model.verdict import Verdict
from zab_chaos.model.world.machine import MakeNode, SimNode, build
from zab_chaos.model.world.world import BEGINNING, Plan, World
from zab_chaos.node.components import parts_with

COLLECT_AFTER = 50_000  # objects: some megabytes
SEGMENT_BYTES = 2**18  # of a log segment at most: what a simulated start reads, and the more often a segment begins


class SimGround:
    """Implements `zab_chaos.harness.runs.walk.Ground`: a world with its machines, all of them down.

    `plan`: to be built otherwise; `make_node`: of other machines.
    """

    def __init__(
        self, scenario: Scenario, seed: int, defect: str | None, folder: RunFolder | None, record: bool,
        plan: Plan | None = None, make_node: MakeNode = SimNode,
    ) -> None:  # fmt: skip
        self.world = World(seed)
        self.records = Records(self.world, folder.path if folder is not None else None, record)
        net, self.machines = build(self.world, plan or plan_of(scenario, defect), self.records, make_node)
        self._scenario = scenario
        self._cluster: SimCluster = SimCluster(self.world, self.machines, scenario.faithful)
        self._network = SimNetwork(net)
        self._host = SimHost(self.world, self.machines)

    @property
    def cluster(self) -> SimCluster:
        return self._cluster

    @property
    def network(self) -> Network:
        return self._network

    @property
    def host(self) -> Host:
        return self._host

    @property
    def fault_log(self) -> Any:
        return self.records.fault

    def workload(self, seed: int) -> SimLoad:
        machines = [self.machines[node] for node in sorted(self.machines)]
        return SimLoad(self.world, machines, self.records, load_of(self._scenario), seed)

    def judge(self, outcome: str) -> Verdict:
        expect = self._scenario.expected(exact=True)
        verdict = self.records.oracle.finish(ev.Run(nodes=self._scenario.nodes, outcome=outcome, expect=expect))
        return with_state(verdict, expect, self.records.state)

    def close(self) -> None:
        """Write what is not written yet."""
        self.records.close()

    @property
    def seconds(self) -> float:
        """How much time has passed in it."""
        return (self.world.now - BEGINNING) / 1e9


def plan_of(scenario: Scenario, defect: str | None) -> Plan:
    """The parts that the nodes are built of. `defect`: as NodeConfig.defect has it."""
    parts, name = parts_with(defect)
    limits = scenario.limits
    return Plan(
        nodes=scenario.nodes,
        timing=scenario.timing,
        limits=msgspec.structs.replace(limits, segment_bytes=min(limits.segment_bytes, SEGMENT_BYTES)),
        faithful=scenario.faithful,
        defect=name,
        peer_type=parts.peer,
        store_type=parts.store,
        channels=parts.channels,
        layers=parts,
    )


@dataclass(slots=True)
class _Onlooker:
    """Nobody looks at a simulated run from another thread."""

    phase: str = "starting"
    begun: float | None = None
    scheduler: Scheduler | None = None
    workload: Any = None

    def active(self) -> list[str]:
        """The kinds of fault that are there now."""
        return sorted({run.step.do for run in self.scheduler.active}) if self.scheduler is not None else []


def live(
    scenario: Scenario, seed: int, ground: SimGround, display: Display, interrupt: Interrupt, book: Book | None = None
) -> tuple[str, str]:
    """The whole run; its outcome (results/README.md, run.json) and, if the harness failed, where."""
    records, onlooker = ground.records, _Onlooker()
    if book is not None:
        book.faults = onlooker.active
    records.milestone("started", seed=seed)
    trouble = ""
    try:
        outcome = Walk(scenario, seed, records, display, ground, onlooker, interrupt).whole()
    except (HarnessError, ClusterError, NetworkError) as error:
        outcome, trouble = f"harness-error: {error}", traceback.format_exc()
    except Exception as error:
        outcome, trouble = f"harness-error: {type(error).__name__}: {error}", traceback.format_exc()
    late = ground.cluster.close()
    if late:
        records.milestone("leftovers", nodes=late)
    records.milestone("stopped")
    return outcome, trouble


def open_sim(scenario: Scenario, wish: RunOptions, folder: RunFolder) -> SimGround:
    return SimGround(scenario, wish.seed, wish.defect[1] if wish.defect else None, folder, wish.record)


def run_sim(
    scenario: Scenario, wish: RunOptions, display: Display,
    open_ground: Callable[[Scenario, RunOptions, RunFolder], SimGround] = open_sim,
) -> Ran:  # fmt: skip
    """`zab_chaos.harness.runs.run.run` in the simulated world. Raises HarnessError if no results folder could be made."""
    folder = run_folder.create(wish.results, scenario.name, wish.seed)
    with run_folder.private():
        return _run(scenario, wish, display, folder, open_ground)


def _run(
    scenario: Scenario, wish: RunOptions, display: Display, folder: RunFolder,
    open_ground: Callable[[Scenario, RunOptions, RunFolder], SimGround],
) -> Ran:  # fmt: skip
    folder.file("scenario.toml").write_text(scenario.source, encoding="utf-8")
    facts = facts_of(scenario, wish)
    folder.write_run(facts)
    with Interrupt(GRACE) as interrupt:
        ground = open_ground(scenario, wish, folder)
        try:
            facts["outcome"], trouble = live(scenario, wish.seed, ground, display, interrupt)
        except Stopped:
            facts["outcome"], trouble = INTERRUPTED, ""
        except Forced:
            facts["outcome"], trouble = INTERRUPTED, ""
            raise
        finally:
            ground.close()
            folder.write_run(facts)
        if trouble:
            folder.file("log", "harness.log").write_text(trouble, encoding="utf-8")
        verdict = judge_within(interrupt, lambda: _judged(ground, folder, facts))
    if not interrupt.asked.is_set():
        ground.cluster.export_disks(folder.file("data"))
        facts["dump"] = _write_dump(folder, scenario.nodes)
    folder.write_run(facts)
    folder.store(verdict, keep_data=wish.keep_data, faults_due=scenario.faults_due)
    return Ran(folder, verdict, interrupt.asked.is_set())


def _judged(ground: SimGround, folder: RunFolder, facts: dict[str, Any]) -> Verdict:
    """Of an interrupted run, what can be said without the replay."""
    verdict = ground.judge(facts["outcome"])
    return verdict if facts["outcome"] == INTERRUPTED else with_replay(verdict, folder.path)


def _write_dump(folder: RunFolder, nodes: int) -> str:
    """Write the canonical dump; its sha256."""
    content = dump_of(folder.path, nodes)
    folder.file("dump.bin").write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def facts_of(scenario: Scenario, wish: RunOptions) -> dict[str, Any]:
    """run.json. It says neither when nor on which machine: nothing depends on either."""
    return {
        "run": f"{scenario.name}-{wish.seed}",
        "scenario": scenario.name,
        "seed": wish.seed,
        "nodes": scenario.nodes,
        "backend": wish.on,
        "defect": wish.defect[0] if wish.defect else None,
        "disk": scenario.disk,
        "record": wish.record,
        "versions": environment.versions(None),
        "commit": environment.commit(),
        "machine": None,
        "command": wish.command,
        "started": None,
        "ended": None,
        "outcome": "unfinished",
        "expect": scenario.expected(exact=True),
        "dump": None,
    }


@dataclass(frozen=True, slots=True)
class Simulated:
    """A run of which only the judgement is kept. `trouble`: where the harness failed; `seconds`: of virtual time;
    `invoked`: operations of the clients; `events`: lines of the nodes' traces."""

    verdict: Verdict
    outcome: str
    trouble: str
    seconds: float
    invoked: int
    events: int


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    """A run keeps most of what it makes, for the judge, and makes few cycles: to look for garbage after every 700 objects,
    as Python does, is a tenth of all work and finds next to nothing."""
    usual = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def simulate(
    scenario: Scenario, seed: int, defect: str | None, plan: Plan | None = None, book: Book | None = None
) -> Simulated:
    """A run without a folder, for many seeds. `defect` as NodeConfig.defect has it; `plan` and `book`: see coverage."""
    ground = SimGround(scenario, seed, defect, None, record=False, plan=plan)
    with _seldom_collecting():
        outcome, trouble = live(scenario, seed, ground, Quiet(), Interrupt(), book)
    invoked, events = ground.records.invoked, ground.records.events
    return Simulated(ground.judge(outcome), outcome, trouble, ground.seconds, invoked, events)
