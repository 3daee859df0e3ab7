"""The interface of a backend, a kind of ensemble that scenarios are run on. docs/backends.md explains how to bring your own.

A `Backend` states what it can do, and opens a `Deployment` for each run: the cluster, its links, its clients and its records.
Everything else is common to all backends (`zab_chaos.harness.runs`).
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
from zab_chaos.faults.scenario import LISTS, OPERATIONS, Scenario
from zab_chaos.faults.scheduler import Scheduler
from zab_chaos.harness.backends import ensemble_state
from zab_chaos.harness.backends.attributes import ABILITIES, FLAG, NAMED_TEXTS, OPERATION_NAMES, TEXT, Form
from zab_chaos.harness.backends.outcome_counts import OutcomeCounts
from zab_chaos.harness.backends.run_releases import RunReleases
from zab_chaos.harness.client.session import Line
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.report.progress import UNSHOWN, Display, Steps
from zab_chaos.harness.results.final_state import StateByNode
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.workload.open_loop import Counters
from zab_chaos.model.events import TRACES
from zab_chaos.model.isolation import DEFAULT_LEVEL, LEVELS
from zab_chaos.model.verdict import Verdict
from zab_chaos.node.crash_points import FAIL_STEPS, POINTS


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of a run that are not in its scenario.

    `command`: the command line that repeats the run. `defect`: (name, the backend's value for it from `Backend.defects`),
    which for our own nodes is the value of NodeConfig.defect.
    """

    seed: int
    results: Path
    command: str
    defect: tuple[str, str] | None = None
    record: bool = True
    keep_data: bool = False
    on: str = "processes"
    release: str | None = None  # the nodes' release, if the backend has several (`Backend.release`); None: its default
    to: str | None = None  # the release that nodes are upgraded to, likewise

    @property
    def defect_path(self) -> str | None:
        """The backend's value for the defect."""
        return self.defect[1] if self.defect is not None else None


class RunCluster(Cluster, Protocol):
    """A cluster that can also show the end of a node's log."""

    def last_words(self, node: int) -> str:
        """Return the last lines that the node logged, for an error message."""


class Load(Protocol):
    """The clients of a run and the operations that they send."""

    @property
    def counters(self) -> Counters:
        """The operations so far, by outcome."""

    def start(self) -> None:
        """Begin, first with the creation of the keys."""

    def wait_begun(self, timeout: float) -> bool:
        """Wait for the keys to be created; return whether they are. Raises WorkloadError."""

    @property
    def answered(self) -> frozenset[str]:
        """The names of the operations that were answered, for faults that await one."""

    def took_effect(self, faults: Mapping[str, Sequence[int]]) -> None:
        """Take note of all faults that have taken effect, with the nodes they hit, for operations that await one."""

    def read_state(self, paths: Sequence[str]) -> StateByNode:
        """Return the data of these znodes on each node. Called after `stop`."""

    def stop(self, grace: float = ...) -> Counters:
        """Send no more, wait at most `grace` seconds for outstanding operations, and return the final counters."""


class MilestoneLog(Protocol):
    """Takes the milestones of a run (harness.jsonl)."""

    def milestone(self, event: str, **fields: Any) -> None:
        """Record a milestone at the current time."""


class Monitor:
    """The run's progress, set by `zab_chaos.harness.runs.phases`; `begun` is the schedule's time zero on the run's clock."""

    phase = "starting"
    begun: float | None = None
    scheduler: Scheduler | None = None
    workload: Load | None = None


class Deployment(AbstractContextManager["Deployment"], ABC):
    """The cluster of one run, with its links, clients and records.

    After `__enter__` everything but the nodes is up; after `__exit__` nothing is. If it is left with `Stopped` or `Forced`,
    the nodes are killed at once; else they are asked to end. `records` exists from the beginning, the other attributes
    once the deployment is entered.
    """

    cluster: RunCluster
    network: Network | None = None
    host: Host = THIS_HOST
    monitor: Monitor
    records: MilestoneLog
    outcomes: OutcomeCounts  # of the clients that are used by hand
    steps: Steps = UNSHOWN  # may show how far `judge` is

    @property
    @abstractmethod
    def fault_log(self) -> Any:
        """The `log` argument of `zab_chaos.faults.scheduler.Scheduler`."""

    @abstractmethod
    def workload(self, seed: int) -> Load:
        """Return the scenario's load."""

    @abstractmethod
    def line(self, number: int, node: int, timeout: float) -> Line:
        """Return the line of a new client that is used by hand. It connects to `node` first.

        `number` names its session. An operation is unknown after `timeout` seconds.
        """

    @abstractmethod
    def judge(self, outcome: str) -> Verdict:
        """Return the verdict on the records, without a replay. Called after the deployment was left."""

    patience: float = 10.0  # seconds that a fault may take to show its effect
    settle_seconds: float = 0.0  # time in which converged nodes may still notice what was broken before
    quiet_seconds: float = 0.0  # time after that in which they are left alone, to see whether they stay together

    def on_not_converged(self) -> None:
        """Called when the nodes did not converge, before they are ended: collect evidence that needs running nodes."""
        return

    @property
    def addresses(self) -> dict[int, str]:
        """The client address of each node, `host:port`; empty if nobody else can connect."""
        return {}

    @property
    def hosts(self) -> str | None:
        """The connection string for ZooKeeper's own clients, `host:port,host:port`; None if they can't connect."""
        return None

    @property
    def versions(self) -> dict[str, str | None]:
        """The versions of other software that was used, for run.json."""
        return {}

    def formed(self) -> bool:
        """Return whether the ensemble serves: a leader is established."""
        return self.cluster.leader() is not None

    def complete(self) -> bool:
        """Return whether a new ensemble is ready to be used. A backend may need more nodes for that than a quorum."""
        return self.formed()

    def missing(self) -> str:
        """Return in words what a new ensemble that is not complete lacks."""
        return "not every node served" if self.formed() else "no leader was established"

    def on_established(self) -> None:
        """Called once, when the new ensemble is complete and before a client uses it."""

    def on_healed(self) -> None:
        """Called when all faults are healed, before the nodes have to converge."""

    def on_recovered(self) -> None:
        """Called when everything is healed and the ensemble serves again, before the load stops."""

    def on_interrupted(self) -> None:
        """Called when the user has interrupted the run, before the load stops: nodes that are ended now hold up no client."""

    def disagreement(self) -> str | None:
        """Return why the ensemble has not converged, in words; None if it has."""
        return ensemble_state.disagreement(ensemble_state.statuses(self.cluster), self.cluster.nodes)

    def check(self) -> None:
        """Raise HarnessError if something else than a node has failed: a background thread, or what is between the nodes."""

    def finish(self) -> None:
        """Write the records that are not written yet. Called once, after the last milestone."""

    def keep_artifacts(self) -> dict[str, Any]:
        """Write what is only kept of some runs to the folder, and return the fields of run.json about it."""
        return {}


class Backend(ABC):
    """One kind of ensemble, chosen with `--on NAME`. Another package's backend is an entry point in `zab_chaos.backends`."""

    name: ClassVar[str]
    abilities: ClassVar[frozenset[Ability]]
    operations: ClassVar[frozenset[str]] = frozenset(OPERATIONS)  # that its clients support
    evidence: ClassVar[str] = TRACES  # what its runs are judged by, see `zab_chaos.model.events.Run`
    serves_with_majority: ClassVar[bool] = False  # writes succeed while a majority of the nodes is up and connected
    opaque_versions: ClassVar[bool] = False  # a version does not count a key's writes, but names one of them
    blind_deletes: ClassVar[bool] = False  # a delete succeeds whether or not there is such a key
    isolation: ClassVar[str] = DEFAULT_LEVEL  # that transactions on lists promise; `[expect] isolation` overrides it
    stale_reads: ClassVar[bool] = False  # a read may show an earlier state, but in no session an older one than before
    mounts_extra: ClassVar[str] = "fuse"  # the extra that brings what a mounted disk needs
    exact: ClassVar[bool] = False  # time passes only in the ensemble itself, and nothing depends on the machine
    forms: ClassVar[Mapping[str, Form]] = {  # what its attributes must be
        **dict.fromkeys(("name", "mounts_extra"), TEXT),
        "abilities": ABILITIES,
        "operations": OPERATION_NAMES,
        "defects": NAMED_TEXTS,
        "isolation": (lambda value: value in [*LEVELS], f"one of {', '.join(map(repr, LEVELS))}"),
        **dict.fromkeys(("serves_with_majority", "opaque_versions", "blind_deletes", "stale_reads", "exact"), FLAG),
    }

    @property
    def defects(self) -> Mapping[str, str]:
        """The known bugs that its nodes can be built with: by name, the backend's own value for each."""
        return {}

    def check(self) -> None:
        """Raise HarnessError if this machine lacks what the backend needs. Create nothing."""
        return

    def prepare(self, scenario: Scenario, options: RunOptions, display: Display) -> None:
        """Fetch what the run needs and is not on this machine. Nothing of the run exists yet. Raises BadInput, HarnessError."""
        return

    def release(self, named: str) -> str:
        """Return the value of RunOptions.release for a release that the user named. Raises BadInput."""
        raise BadInput(f"the nodes on {self.name} have no releases to choose from; {named} was asked for")

    def run_releases(self, scenario: Scenario, options: RunOptions) -> RunReleases | None:
        """Return the releases of a run; None if the nodes have no releases to choose from."""
        return None

    def judged_isolation(self, scenario: Scenario) -> str | None:
        """Return the level by which transactions on lists are judged; None if the clients have none."""
        return (scenario.expect.isolation or self.isolation) if self.operations & {*LISTS} else None

    def disk(self, scenario: Scenario) -> str:
        """Return the disk that the scenario's nodes get, in the words of [scenario] disk."""
        return scenario.disk if Ability.UNSYNCED in self.abilities else "ordinary"

    def points(self, action: str) -> Collection[str]:
        """Return the points (without a count) at which a node can be made to `crash`, `pause` or `fail`."""
        return [point for point in POINTS if action != "fail" or point.split(":")[0] in FAIL_STEPS]

    def mistakes(self, scenario: Scenario) -> list[str]:
        """Return what in the scenario can't be done for other reasons than `abilities` and `operations`, in words."""
        return []

    def salvage(self, folder: RunFolder) -> str | None:
        """Complete the evidence of a run that has not finished, as far as that is possible: its harness may have been killed.

        Returns what was done, in words; None if nothing had to or could be done. Raises BadInput if the run is in progress.
        """
        return None

    @abstractmethod
    def open(self, scenario: Scenario, options: RunOptions, folder: RunFolder, display: Display) -> Deployment:
        """Return the deployment of one run, not entered yet."""
