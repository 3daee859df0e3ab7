"""The base class of backends for foreign systems: a command starts each node, and the clients' history is judged."""

import inspect
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import ClassVar

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.at_rest import LOG, SNAPSHOT, ZOOKEEPER_FILES
from zab_chaos.faults.scenario import LISTS, Scenario
from zab_chaos.harness.backends.attributes import COUNT, FLAG, METHOD, NAMED_TEXTS, SECONDS, STOP_SIGNAL, TEXTS
from zab_chaos.harness.backends.backend import Backend, Deployment, RunOptions
from zab_chaos.harness.backends.processes import disks
from zab_chaos.harness.backends.processes.process_cluster import START_SECONDS
from zab_chaos.harness.backends.run_releases import RunReleases
from zab_chaos.harness.backends.system.clients import Client
from zab_chaos.harness.errors import BadInput, did_you_mean
from zab_chaos.harness.report.progress import Display
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.events import HISTORY, RECORDS_OF
from zab_chaos.model.isolation import DEFAULT_LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerPort:
    """A further port at which a node listens for other nodes: `listen`, `address` and `peers` are as in `Place`."""

    listen: str
    address: str
    peers: Mapping[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The addresses and the folder of one node. Addresses are `host:port`.

    The node listens for other nodes at `listen`, and for clients at `client`. It reaches each other node at its address in
    `peers`: that is a proxy, not that node's own `listen`. `address` is where the others reach this node, if the backend has
    `one_address`: the one to advertise. `data` is the node's folder. It is kept from one life to the next and deleted by a
    wipe. A power cut loses what was not synced in it. `defect` is a value of the backend's `defects`, or None. `others`: as
    many addresses as the backend's `other_ports` says. `more_peer_ports`: as many as the backend's attribute says. `trace`:
    where the life that is being started records what it broadcasts and delivers, if the backend has `traces`. `release`:
    one of the backend's `releases`, of which the node is to be; None if it has none. `isolation`: the level by which
    transactions on lists are judged, one of `zab_chaos.model.isolation.LEVELS`.
    """

    node: int
    listen: str
    client: str
    address: str
    peers: Mapping[int, str]
    data: Path
    defect: str | None = None
    others: Sequence[str] = ()
    more_peer_ports: Sequence[PeerPort] = ()
    trace: Path | None = None
    release: str | None = None
    isolation: str = DEFAULT_LEVEL


class SystemBackend(Backend):
    """A backend for a system of your own. A subclass defines `name`, `operations`, `command` and `client`.

    Its `abilities` are PAUSE, LINKS and those of its disk. `survives_wipe` adds WIPE, `data_files` adds DISK_FILES,
    `releases` adds RELEASES, and overriding `leader` adds LEADER.

    `one_address`: the nodes tell each other their addresses, so each has one that is the same for all others. `one_port`: a
    node listens for other nodes and for clients at the same port. `more_peer_ports`: at how many further ports the nodes
    listen for each other.
    `survives_wipe`: a node can come back with an empty disk. `other_ports`: how many ports a node needs besides `listen` and
    `client`, for example to be monitored. `opaque_versions`: a version is a number or a text that belongs to one write of a
    key, and does not count the writes. `data_files`: glob patterns, within a node's data folder, of the files that faults may
    damage: those of its "log" and, if there are others, of its "snapshot"s. In each, the newest has the last name. `traces`:
    the nodes record what they broadcast and deliver, in the order of "zab" (counters begin with 1 in each epoch) or of "raft"
    (they go on). `releases`: the releases of the system that `command` can start, the oldest first. A run begins with the
    first, and its upgrades lead to the last, unless --from and --to say otherwise. `start_seconds`: how long a node may take
    after its start until it is ready. `stop_signal`: what asks a node for a clean end.
    """

    one_address: ClassVar[bool] = False
    one_port: ClassVar[bool] = False
    more_peer_ports: ClassVar[int] = 0
    survives_wipe: ClassVar[bool] = True
    other_ports: ClassVar[int] = 0
    data_files: ClassVar[Mapping[str, str]] = {}
    traces: ClassVar[str | None] = None
    releases: ClassVar[Sequence[str]] = ()
    start_seconds: ClassVar[float] = START_SECONDS
    stop_signal: ClassVar[Signals] = Signals.SIGTERM
    operations = frozenset({"get", "set"})
    forms: ClassVar = {
        **Backend.forms,
        **dict.fromkeys(("one_address", "one_port", "survives_wipe"), FLAG),
        **dict.fromkeys(("more_peer_ports", "other_ports"), COUNT),
        "data_files": NAMED_TEXTS,
        "releases": TEXTS,
        "start_seconds": SECONDS,
        "stop_signal": STOP_SIGNAL,
        "traces": (
            lambda value: value is None or value in RECORDS_OF,
            f"None or one of {', '.join(map(repr, RECORDS_OF))}",
        ),
        **dict.fromkeys(("command", "client", "set_up", "ready", "received", "leader", "environment"), METHOD),
    }

    @property
    def abilities(self) -> frozenset[Ability]:  # type: ignore[override]
        wiped = {Ability.WIPE} if self.survives_wipe else set()
        damaged = {Ability.DISK_FILES} if self.data_files else set()
        led = {Ability.LEADER} if _overrides(type(self), "leader") else set()
        released = {Ability.RELEASES} if self.releases else set()
        return frozenset({Ability.PAUSE, Ability.LINKS, *wiped, *damaged, *led, *released, *disks.ABILITIES})

    @property
    def evidence(self) -> str:  # type: ignore[override]
        return HISTORY if self.traces is None else RECORDS_OF[self.traces]

    @abstractmethod
    def command(self, place: Place, defect: str | None) -> Sequence[str]:
        """Return the command that starts the node in the foreground: the process must be the node (a script ends with `exec`).

        At `stop_signal` the process must end. `defect` is a value of `defects`, or None.
        """

    @abstractmethod
    def client(self, place: Place, timeout: float) -> Client:
        """Return a new client of this node, used by the calling thread only. Raises OSError if it can't connect."""

    def set_up(self, places: Sequence[Place]) -> None:
        """Create what the clients need, for example a table. An exception ends the run.

        It is called once, when the nodes are up and there is a leader. What they have written when it returns is durable.
        """

    def ready(self, place: Place) -> bool:
        """Return whether a node that accepts connections at its client address serves clients, as far as it can tell.

        This method is optional, for nodes that listen before. An OSError means that it does not.
        """
        return True

    @property
    def says_ready(self) -> bool:
        """Whether `ready` is overridden."""
        return _overrides(type(self), "ready")

    @property
    def counts_received(self) -> bool:
        """Whether `received` is overridden."""
        return _overrides(type(self), "received")

    def received(self, place: Place) -> Mapping[int, int]:
        """Return how many messages (or bytes) the node has received from each peer in its present life.

        This method is optional: the proxies count what passes them. A node's own counts also show what came on another way
        while a link was cut. Raises OSError if the node does not answer.
        """
        raise NotImplementedError

    def leader(self, places: Sequence[Place]) -> int | None:
        """Return the present leader, one of these nodes that are up and not paused; None if there is none."""
        return None

    def release(self, named: str) -> str:
        if self.releases and named not in self.releases:
            raise BadInput(f"{self.name} has no release {named!r}. {did_you_mean(named, self.releases)}")
        return named if self.releases else super().release(named)

    def run_releases(self, scenario: Scenario, options: RunOptions) -> RunReleases | None:
        if not self.releases:
            return None
        return RunReleases(options.release or self.releases[0], options.to or self.releases[-1])

    def disk(self, scenario: Scenario) -> str:
        return disks.disk_for(scenario)

    def mistakes(self, scenario: Scenario) -> list[str]:
        wrong = [
            f"`data_files` of {self.name} has {kind!r}: {pattern!r}; it may have 'log' and 'snapshot', each with a pattern of "
            "paths within `place.data`, such as 'wal/*.wal'"
            for kind, pattern in self.data_files.items()
            if kind not in (LOG, SNAPSHOT) or Path(pattern).is_absolute() or ".." in Path(pattern).parts
        ]
        if self.data_files and LOG not in self.data_files:
            wrong.append(f"`data_files` of {self.name} has no 'log'")
        if len(self.operations & {*LISTS}) == 1:
            wrong.append(f"`operations` of {self.name} must have all of {', '.join(map(repr, LISTS))}, or none of them")
        return wrong + [
            f"{step.do} with file = {kind} can't be done on {self.name}, whose `data_files` have no {kind}"
            for step in scenario.faults
            if self.data_files
            and (kind := step.params.get("file")) in (SNAPSHOT, *ZOOKEEPER_FILES)
            and kind not in self.data_files
        ]

    def environment(self) -> dict[str, str]:
        """Return the environment variables of the nodes."""
        return dict(os.environ)

    def open(self, scenario: Scenario, options: RunOptions, folder: RunFolder, display: Display) -> Deployment:
        from zab_chaos.harness.backends.system.deployment import SystemDeployment

        return SystemDeployment(self, scenario, options, folder, display)


def _overrides(kind: type[SystemBackend], name: str) -> bool:
    return inspect.getattr_static(kind, name) is not inspect.getattr_static(SystemBackend, name)
