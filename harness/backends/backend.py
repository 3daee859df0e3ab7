"""What a backend is: a kind of ensemble that scenarios are run on. docs/backends.md explains how to bring your own.

A `Backend` says what it can do, and opens a `Deployment` for each run: the ensemble, its links, its clients and its records.
Everything else is the same for all of them (`zab_chaos.harness.runs`).
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.cluster import Cluster
from zab_chaos.faults.host import THIS_HOST, Host
from zab_chaos.faults.network import Network
from zab_chaos.faults.scenario import OPERATIONS, Scenario
from zab_chaos.faults.scheduler import Scheduler
from zab_chaos.harness.backends import ensemble_state
from zab_chaos.harness.backends.outcome_counts import OutcomeCounts
from zab_chaos.harness.client.session import Line
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.report.progress import Display
from zab_chaos.harness.results.final_state import StateByNode, judge_records
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.workload.open_loop import Counters
from zab_chaos.model.events import TRACES
from zab_chaos.model.verdict import Verdict
from zab_chaos.node.crash_points import FAIL_STEPS, POINTS


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the user wants of a run beside the scenario. `command` repeats it; `defect` is (name, what the backend knows it
    by), for our own nodes NodeConfig.defect."""

    seed: int
    results: Path
    command: str
    defect: tuple[str, str] | None = None
    record: bool = True
    keep_data: bool = False
    on: str = "processes"
    release: str | None = None  # of the nodes, where the backend has several (`Backend.release`); None: its default

    @property
    def defect_path(self) -> str | None:
        """What the backend knows the defect by."""
        return self.defect[1] if self.defect is not None else None


class RunCluster(Cluster, Protocol):
    """A cluster that can say what a node said before it ended."""

    def last_words(self, node: int) -> str: ...


class Load(Protocol):
    """A workload: see `zab_chaos.harness.workload.thread.Workload`."""

    @property
    def counters(self) -> Counters: ...
    def start(self) -> None: ...
    def wait_begun(self, timeout: float) -> bool: ...
    @property
    def answered(self) -> frozenset[str]: ...
    def took_effect(self, faults: Mapping[str, Sequence[int]]) -> None: ...
    def read_state(self, paths: Sequence[str]) -> StateByNode: ...
    def stop(self, grace: float = ...) -> Counters: ...


class MilestoneLog(Protocol):
    """Where a run's milestones go."""

    def milestone(self, event: str, **fields: Any) -> None: ...


class Monitor(Protocol):
    """Whom the run tells how far it is: see `zab_chaos.harness.backends.processes.monitor.RunMonitor`."""

    phase: str
    begun: float | None
    scheduler: Scheduler | None
    workload: Any


@dataclass(slots=True)
class NoMonitor:
    """The monitor of a run that nobody looks at from another thread."""

    phase: str = "starting"
    begun: float | None = None
    scheduler: Scheduler | None = None
    workload: Any = None


class Deployment(AbstractContextManager["Deployment"], ABC):
    """The ensemble of one run, with its links, clients and records. Entered, all but the nodes is up; left, none of it.

    Left with `Stopped` or `Forced`, the nodes are killed at once; else they are asked to end. `records`: there from the
    beginning; the other attributes once it is entered.
    """

    cluster: RunCluster
    network: Network | None = None
    host: Host = THIS_HOST
    monitor: Monitor
    records: MilestoneLog
    outcomes: OutcomeCounts  # of hand-held clients

    @property
    @abstractmethod
    def fault_log(self) -> Any:
        """See `zab_chaos.faults.scheduler.Scheduler`."""

    @abstractmethod
    def workload(self, seed: int) -> Load:
        """The scenario's load."""

    @abstractmethod
    def line(self, number: int, node: int, timeout: float) -> Line:
        """A new hand-held client's, which begins at `node`; after `timeout` seconds an operation is unknown."""

    @abstractmethod
    def judge(self, outcome: str) -> Verdict:
        """The verdict on what is recorded, without a replay. Once it was left."""

    patience: float = 10.0  # seconds that a fault may take to show its effect
    settle_seconds: float = 0.0  # seconds in which nodes that have converged notice what was broken before
    quiet_seconds: float = 0.0  # and for which they are left alone after that, to see whether they stay together

    def on_not_converged(self) -> None:
        """The nodes have not come together, and are about to be ended: what can be said of them only while they run."""
        return

    @property
    def addresses(self) -> dict[int, str]:
        """Where each node takes clients, `host:port`; empty where nobody else can connect."""
        return {}

    @property
    def hosts(self) -> str | None:
        """Where ZooKeeper's own clients connect, `host:port,host:port`; None if they can't."""
        return None

    @property
    def versions(self) -> dict[str, str | None]:
        """Of what was used beside our own code, for run.json."""
        return {}

    def formed(self) -> bool:
        """Whether the ensemble serves: a leader is established."""
        return self.cluster.leader() is not None

    def complete(self) -> bool:
        """Whether a new ensemble has everybody that it needs before it is used."""
        return self.formed()

    def on_established(self) -> None:
        """Called once: the ensemble serves for the first time, and nobody has used it yet."""

    def disagreement(self) -> str | None:
        """Why the ensemble has not come together, in words; None when it has."""
        return ensemble_state.disagreement(ensemble_state.statuses(self.cluster), self.cluster.nodes)

    def check(self) -> None:
        """Raise what went wrong beside the walk."""

    def finish(self) -> None:
        """Write what is not written yet: nothing happens any more."""

    def keep_artifacts(self) -> dict[str, Any]:
        """Leave in the folder what is made of a run that is over; what run.json says of that."""
        return {}


class FolderDeployment(Deployment):
    """A deployment whose records are the files of the run's folder, written as things happen."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.records = folder
        self.outcomes = OutcomeCounts()

    @property
    def fault_log(self) -> Path:
        return self.folder.file("faults.jsonl")

    def judge(self, outcome: str) -> Verdict:
        return judge_records(self.folder.path, stored=False)


class Backend(ABC):
    """One kind of ensemble. Found by its name: an entry point of the group `zab_chaos.backends`, or one of ours."""

    name: ClassVar[str]
    abilities: ClassVar[frozenset[Ability]]
    operations: ClassVar[frozenset[str]] = frozenset(OPERATIONS)  # what its clients can ask for
    evidence: ClassVar[str] = TRACES  # what its runs are judged by, see `zab_chaos.model.events.Run`
    exact: ClassVar[bool] = False  # only the ensemble itself takes time, and nothing depends on the machine

    @property
    def defects(self) -> Mapping[str, str]:
        """The known bugs that its nodes can be built with: by name, what it knows them by."""
        return {}

    def check(self) -> None:
        """Raise HarnessError if this machine lacks what it needs. Makes nothing."""
        return

    def release(self, named: str) -> str:
        """What RunOptions.release takes, for a release that the user asked for. Raises BadInput."""
        raise BadInput(f"the nodes on {self.name} have no releases to choose from; {named} was asked for")

    def disk(self, scenario: Scenario) -> str:
        """The disk that the scenario's nodes get, as [scenario] disk has it."""
        return scenario.disk if Ability.UNSYNCED in self.abilities else "ordinary"

    def points(self, action: str) -> Collection[str]:
        """At which points (without a count) a node can be made to `crash`, `pause` or `fail`."""
        return [point for point in POINTS if action != "fail" or point.split(":")[0] in FAIL_STEPS]

    def mistakes(self, scenario: Scenario) -> list[str]:
        """What of the scenario can't be done for reasons beyond `abilities` and `operations`, in words."""
        return []

    def salvage(self, folder: RunFolder) -> str | None:
        """Make what evidence can be made of the folder of a run whose harness was killed; what was done, in words. None:
        nothing had to be done, or can be. Raises BadInput if the run is still in progress."""
        return None

    @abstractmethod
    def open(self, scenario: Scenario, options: RunOptions, folder: RunFolder, display: Display) -> Deployment:
        """The deployment of one run; not entered yet."""
