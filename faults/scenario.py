"""The scenario: its ensemble, load, faults and expectations. `zab_chaos.faults.grammar` reads it from TOML."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from zab_chaos.faults.targets import Target
from zab_chaos.node.config import Limits, Timing

BAD_PATH = "bad-path"
NUMBERED = "numbered"
REPLACE = "replace"
REFUSED = "refused"
AT_ROOT = "at-root"
SELDOM = (BAD_PATH, NUMBERED, REPLACE, REFUSED, AT_ROOT)  # in the load of no scenario by default
OPERATIONS = (
    "create", "sequential", "set", "cas", "delete", "check", "multi", "get", "exists", "children", *SELDOM,
)  # fmt: skip
TRANSACTIONS = ("transaction", "multi-get")  # of several keys; only for systems started by commands
LISTS = ("list-append", "list-read")  # transactions on lists, likewise
SETTLE_SECONDS = 20.0  # how long a step or an operation waits for the fault that it awaits
# Shorter than a hitch of the network and of a disk together (`zab_chaos.model.world.chance`).
TIGHT_MS = 150
EXITS = {"PASS": 0, "VIOLATION": 1, "UNKNOWN": 2, "HARNESS-ERROR": 3, "BEYOND-FAULT-MODEL": 5}


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake in a file, or in an option: its line and place, what is wrong, what is allowed, and a suggestion."""

    line: int  # 0: of an option, which is in no file
    where: str
    wrong: str
    allowed: str = ""
    suggestion: str = ""

    def __str__(self) -> str:
        parts = [f"{self.where}: {self.wrong}." if self.where else f"{self.wrong}."]
        if self.allowed:
            parts.append(f"Allowed: {self.allowed}.")
        if self.suggestion:
            parts.append(self.suggestion)
        return " ".join(parts)


class ScenarioError(Exception):
    """A scenario can't be run. `mistakes` holds all its mistakes, in the order of their lines."""

    def __init__(self, file: str, mistakes: list[Mistake]) -> None:
        self.file = file
        self.mistakes = sorted(mistakes, key=lambda mistake: mistake.line)
        count = f"{len(mistakes)} mistakes" if len(mistakes) > 1 else "1 mistake"
        lines = [f"{file}:{mistake.line}: {mistake}" if mistake.line else str(mistake) for mistake in self.mistakes]
        place = file if self.mistakes[-1].line else "the command"
        super().__init__("\n".join([f"{count} in {place}", *lines]))


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultStep:
    """One fault of a schedule, as a `[[fault]]` table has it."""

    at: float  # seconds after the start of the workload
    do: str  # the kind of fault
    target: Target | None
    lasts: float | None = None  # `for`: seconds until it is healed
    until: str | None = None  # healed when the later fault of this name has taken effect
    name: str | None = None  # `as`: the name by which later faults may refer to the nodes that this one hits
    awaits: str | None = None  # put off until the fault of this name has taken effect, or the operation was answered
    params: Mapping[str, Any] = field(default_factory=dict)  # the kind's own keys


MIX = {"set": 0.6, "cas": 0.1, "create": 0.02, "sequential": 0.02, "delete": 0.04, "multi": 0.06, "get": 0.16}
LIST_MIX = {"list-append": 0.7, "list-read": 0.3}  # of clients that have nothing of MIX


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The load, an open loop: an operation is due at its time whether or not the last one was answered."""

    clients: int = 4
    rate: float = 300.0  # operations a second, all clients together
    keys: int = 8
    payload_bytes: int = 128
    mix: Mapping[str, float] = field(default_factory=lambda: dict(MIX))  # weights
    max_outstanding: int = 64  # a client's
    burst: int = 1  # operations that a client sends at once
    moves: float = 0.0  # rate per second at which some client connects to another node
    # Rate per second at which some client ends its session, and begins a new one that has seen nothing.
    visits: float = 0.0
    # Rate per second at which some client stands still for a while: it sends nothing and reads nothing.
    stalls: float = 0.0
    timeout: float = 10.0  # seconds after which a client gives up an operation, and leaves its node
    sessions: int = 0  # additional clients that use sessions with ephemeral znodes and watches


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of a client, as an `[[operation]]` table has it. A Struct, because a load creates one for each request."""

    at: float  # seconds after the start of the workload
    do: str = "set"
    client: int = 1  # from 1
    key: int = 0  # the znode, by the number of the workload's key, from 0
    # The version that the znode must have; None: any, or for `cas` the one that the client saw last.
    version: int | None = None
    value: str | None = None  # the value to write; None: drawn
    # The node to which the client connects first. The name of a fault: the first node that it hit, and the operation waits
    # until the client is connected.
    node: int | str | None = None
    awaits: str | None = None  # put off until the fault of this name has taken effect
    anew: bool = False  # the client ends its session first, and begins another one
    name: str | None = None  # `as`: the name by which faults await its answer

    @property
    def needs(self) -> frozenset[str]:
        """The names of the faults that must have taken effect before it is sent."""
        return frozenset(name for name in (self.awaits, self.node) if isinstance(name, str))


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialDisk:
    """The initial content of a node's disk, as if the ensemble had run before."""

    node: int
    accepted_epoch: int = 0
    current_epoch: int = 0
    log: tuple[tuple[int, int], ...] = ()  # zxids, ascending; the transaction with a zxid is the same on all disks


@dataclass(frozen=True, slots=True, kw_only=True)
class Nemesis:
    """Faults drawn from the seed (see `zab_chaos.faults.nemesis` for the rules of drawing)."""

    every: tuple[float, float] = (2.0, 5.0)  # seconds from one fault to the next, smallest and largest
    faults: Mapping[str, float] = field(default_factory=dict)  # weights by kind
    burst: int = 1  # faults that come at nearly the same time; `every` counts from the last of them
    heal_after: tuple[float, float] = (1.0, 5.0)  # seconds that a fault lasts, smallest and largest
    keep_quorum: bool = True
    points: Mapping[str, float] = field(default_factory=dict)  # weights of crash points; 1 for points not in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """The expectations of a run. Times are in seconds; None: not judged."""

    verdict: str = "PASS"
    exit: int = 0
    violates: str | None = None  # the property that the run must violate
    converges_within: float = 20.0
    unavailable_at_most: float | None = None
    progress_within: float | None = None  # None: derived, see `Scenario.expected`
    answered_within: float | None = None  # None: derived likewise
    min_acked: int = 1
    # The level by which transactions on lists are judged, as `zab_chaos.model.isolation` has it; None: the backend's.
    isolation: str | None = None
    # By path, the values of which all nodes must hold the same one at the end; None: there is no such znode.
    state: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSettings:
    """The settings of a run on Apache ZooKeeper. `names` and `synced` apply to disks that can lose unsynced bytes."""

    release: str | None = None  # that a run begins with
    to: str | None = None  # that its servers are upgraded to
    settings: Mapping[str, str] = field(default_factory=dict)  # lines of the servers' configuration, by name
    java: Mapping[str, str] = field(default_factory=dict)  # Java system properties of the servers
    # When names are durable: `zab_chaos.faults.filesystem.volume.Names`.
    names: Literal["folder", "journal"] = "journal"
    synced: bool = True  # whether everything is durable when the load begins


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A known bug of released versions that the scenario shows."""

    id: str  # in the issue tracker
    violates: tuple[str, ...]  # the properties that runs on the releases in `fails` violate
    fails: tuple[str, ...]
    passes: tuple[str, ...] = ()  # releases on which a run violates nothing
    runs: int = 1  # the violation is found at least once in so many runs
    note: str = ""  # further remarks, for example that no release is without the bug


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A checked scenario."""

    name: str
    about: str = ""
    nodes: int = 3
    observers: int = 0  # so many of the nodes, the last ones, do not vote
    seed: int = 1
    duration: float = 10.0  # seconds of workload with faults; healing and convergence come after it
    record: bool = True
    disk: str = "faithful"
    crash_states: bool = False  # whether the simulator tries power cuts on copies of the disks
    erratic_network: bool = False  # whether the simulator delays and loses messages until the faults are healed
    defect: str | None = None
    workload: Workload = Workload()
    operations: tuple[Operation, ...] = ()  # by time; if there are any, they replace the drawn load
    disks: tuple[InitialDisk, ...] = ()  # the disks that are not empty at the start
    timing: Timing = field(default_factory=Timing)
    limits: Limits = field(default_factory=Limits)
    faults: tuple[FaultStep, ...] = ()
    nemesis: Nemesis | None = None
    expect: Expect = Expect()
    zookeeper: ZooKeeperSettings = ZooKeeperSettings()
    ticket: Ticket | None = None
    source: str = field(default="", compare=False, repr=False)  # the file's text
    file: str = field(default="", compare=False)  # its name

    @property
    def voters(self) -> int:
        """The number of nodes that count in quorums: nodes 1 to `voters`."""
        return self.nodes - self.observers

    @property
    def faithful(self) -> bool:
        """Whether unsynced bytes are lost with a node's process."""
        return self.disk != "ordinary"

    @property
    def tight(self) -> bool:
        """Whether a node that is not disturbed by any fault may leave its leader, because one heartbeat comes a little late."""
        return self.timing.timeout_ms - self.timing.heartbeat_ms < TIGHT_MS

    def schedule(self, seed: int | None = None) -> list[FaultStep]:
        """Return the faults by time. The same seed gives the same schedule; without a nemesis every seed gives the same."""
        if self.nemesis is None:
            return sorted(self.faults, key=lambda step: step.at)
        from zab_chaos.faults.nemesis import draw

        return draw(self.nemesis, self.voters, self.duration, self.seed if seed is None else seed, self.faithful)

    def expected(self, *, exact: bool) -> dict[str, Any]:
        """Return `expect` in the form of run.json. `exact`: the run is in a world where only the ensemble takes time."""
        expect = dataclasses.asdict(self.expect)
        if expect["isolation"] is None:
            del expect["isolation"]
        bounded = exact and not (self.erratic_network or self.workload.stalls or self.tight)
        if expect["progress_within"] is None:
            patience = 5 * self.timing.timeout_ms / 1000
            expect["progress_within"] = patience if bounded else max(15.0, patience)
        expect["clients_are_awake"] = not self.workload.stalls
        expect["links_are_reliable"] = not exact  # some simulated networks lose frames without a fault
        expect["delays_are_bounded"] = not (exact and self.erratic_network)
        expect["times_are_exact"] = exact
        # A simulated node looks after its connections at the next heartbeat at the latest.
        expect["noticed_within"] = 0.1 + 2 * self.timing.heartbeat_ms / 1000 if exact else None
        prompt = exact and not self.workload.stalls  # whether clients read their answers at once
        if expect["answered_within"] is None and prompt:
            expect["answered_within"] = expect["progress_within"]
        if prompt:
            # Elsewhere a node forgets a client that does not read its answers in time, and a client may know one address only.
            expect["clients_are_kept"] = expect["clients_know_all_nodes"] = True
        for limit in ("counter_max", "outstanding", "frame_bytes", "snapshot_bytes", "clients_max"):
            expect[limit] = getattr(self.limits, limit)
        expect["request_bytes"] = self.limits.largest_request
        if bounded:  # elsewhere a node may drop a client that has seen what was not brought to the node in time
            expect["waiting"] = self.limits.waiting
        if self.nodes == 1 and self.nemesis is not None:
            expect["may_lose_quorum"] = True
        return expect

    @property
    def kinds(self) -> list[str]:
        """The kinds of its faults: those that the nemesis may draw, or those of the schedule by their first steps."""
        return list(self.nemesis.faults if self.nemesis is not None else dict.fromkeys(step.do for step in self.faults))

    @property
    def planned(self) -> list[dict[str, Any]]:
        """The faults that a run must inject, by time, in the form of run.json: those of a written schedule. Drawn faults may be
        left out."""
        return [
            {
                "at": step.at,
                "do": step.do,
                "target": step.target,
                **({"as": step.name} if step.name is not None else {}),
            }
            for step in (self.schedule() if self.nemesis is None else ())
        ]

    def to_toml(self) -> str:
        """Return the scenario as the text of a file; reading it gives an equal scenario."""
        from zab_chaos.faults.toml_writing import write

        return write(self)


def load(path: Path | str, nodes: int | None = None, disk: str | None = None) -> Scenario:
    """Read and check a scenario file. `nodes` and `disk` override the file's. Raises ScenarioError with all mistakes."""
    file = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # some editors begin a file with a mark
    except UnicodeDecodeError as error:
        raise ScenarioError(file, [Mistake(1, "", f"the file is not UTF-8 text (byte {error.start})")]) from None
    except OSError as error:
        raise ScenarioError(file, [Mistake(1, "", f"the file can't be read: {error.strerror}")]) from None
    return parse(text, file, nodes, disk)


def parse(text: str, file: str = "scenario", nodes: int | None = None, disk: str | None = None) -> Scenario:
    """Check a scenario's text. Raises ScenarioError with all mistakes at once."""
    from zab_chaos.faults.grammar import read

    return read(text, file, nodes, disk)


def overrides(struct: msgspec.Struct) -> dict[str, Any]:
    """Return the fields that differ from their defaults, which a file has to contain."""
    return {
        field.name: getattr(struct, field.name)
        for field in msgspec.structs.fields(struct)
        if getattr(struct, field.name) != field.default
    }
