"""A scenario: the ensemble, the load, the faults and the expectations. Read from TOML by `zab_chaos.faults.grammar`."""

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from zab_chaos.faults.targets import Target
from zab_chaos.node.config import Limits, Timing

BAD_PATH = "bad-path"
OPERATIONS = (
    "create", "sequential", "set", "cas", "delete", "check", "multi", "get", "exists", "children", BAD_PATH,
)  # fmt: skip
SETTLE_SECONDS = 20.0  # how long what awaits a fault waits for it
EXITS = {"PASS": 0, "VIOLATION": 1, "UNKNOWN": 2, "HARNESS-ERROR": 3, "BEYOND-FAULT-MODEL": 5}


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake in a file: its place, what is wrong, what is allowed, and a suggestion."""

    line: int
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
    """A scenario that can't be run. `mistakes` holds all of them, in the order of their lines."""

    def __init__(self, file: str, mistakes: list[Mistake]) -> None:
        self.file = file
        self.mistakes = sorted(mistakes, key=lambda mistake: mistake.line)
        count = f"{len(mistakes)} mistakes" if len(mistakes) > 1 else "1 mistake"
        lines = [f"{file}:{mistake.line}: {mistake}" for mistake in self.mistakes]
        super().__init__("\n".join([f"{count} in {file}", *lines]))


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultStep:
    """One fault of a schedule. `at`: seconds after the workload started; `lasts`: seconds until it is healed, or
    None; `until`: instead, healed when the later fault of that name has taken effect."""

    at: float
    do: str
    target: Target | None
    lasts: float | None = None
    until: str | None = None
    name: str | None = None  # `as`: what later faults may call the nodes that this one hits
    awaits: str | None = None  # put off until the fault of that name has taken effect, or the operation was answered
    params: Mapping[str, Any] = field(default_factory=dict)


MIX = {"set": 0.6, "cas": 0.1, "create": 0.02, "sequential": 0.02, "delete": 0.04, "multi": 0.06, "get": 0.16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The load, an open loop: an operation is due at its time whether or not the last one was answered."""

    clients: int = 4
    rate: float = 300.0  # operations a second, all clients together
    keys: int = 8
    payload_bytes: int = 128
    mix: Mapping[str, float] = field(default_factory=lambda: dict(MIX))  # weights
    max_outstanding: int = 64  # a client's
    burst: int = 1  # operations that a client has at once
    moves: float = 0.0  # how often a second some client goes to another node
    visits: float = 0.0  # how often a second some client ends its session, and comes again as one that knows nothing
    timeout: float = 10.0  # seconds after which a client gives an operation up, and its node
    sessions: int = 0  # clients beside them that live in sessions, with ephemeral znodes and watches


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation. `at`: seconds after the workload started; `client` counts from 1, `key` (the znode, as the workload's
    keys are numbered) from 0. `version` that the znode must have, `value` that is written: drawn if None. `node`: the
    client goes there first; where it is the name of a fault, to the (first) node that it hit, and waits until it is connected.
    `awaits`: put off until the fault of that name has taken effect. A Struct: a load makes one for each request."""

    at: float
    do: str = "set"
    client: int = 1
    key: int = 0
    version: int | None = None
    value: str | None = None
    node: int | str | None = None
    awaits: str | None = None
    anew: bool = False  # the client ends its session before, and begins another one
    name: str | None = None  # `as`: what faults that await its answer call it

    @property
    def needs(self) -> frozenset[str]:
        """The faults that must have taken effect before it is sent."""
        return frozenset(name for name in (self.awaits, self.node) if isinstance(name, str))


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The initial content of a node's disk, as if the ensemble had run before. `log`: zxids as (epoch,
    counter), ascending; the transaction of a zxid is the same on all disks."""

    node: int
    accepted_epoch: int = 0
    current_epoch: int = 0
    log: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Nemesis:
    """Faults drawn from the seed (see `zab_chaos.faults.nemesis` for the rules of drawing)."""

    every: tuple[float, float] = (2.0, 5.0)  # seconds from one fault to the next
    faults: Mapping[str, float] = field(default_factory=dict)  # weights by kind
    heal_after: tuple[float, float] = (1.0, 5.0)  # seconds that a fault lasts
    keep_quorum: bool = True
    points: Mapping[str, float] = field(default_factory=dict)  # weights of crash points; 1 for what is not in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """The expectations of a run. Times in seconds; None: not judged. `violates`: the property that a run must break.
    `state`: by path, what all nodes hold at the end: one of these values (None: there is no such znode)."""

    verdict: str = "PASS"
    exit: int = 0
    violates: str | None = None
    converges_within: float = 20.0
    unavailable_at_most: float | None = None
    progress_within: float | None = None  # None: derived, see `Scenario.expected`
    answered_within: float | None = None  # likewise
    min_acked: int = 1
    state: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)

    def met(self, exit_code: int, violated: Collection[str]) -> bool:
        """Whether a run with this exit code and these violated properties meets the expectations."""
        return exit_code == self.exit and (self.violates is None or self.violates in violated)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeper:
    """For runs on Apache ZooKeeper. `release`: which; `settings`: lines of the servers' configuration, by name; `java`:
    system properties of their Java. Where the disks can lose something, `names`: when names are durable
    (`zab_chaos.faults.filesystem.volume.Names`); `synced`: everything is, when the load begins."""

    release: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    java: Mapping[str, str] = field(default_factory=dict)
    names: Literal["folder", "journal"] = "journal"
    synced: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A known bug of released versions that the scenario shows: `id` in its tracker; the properties that a run on the
    releases in `fails` `violates`, once in so many `runs` at least; a run on those in `passes` violates nothing."""

    id: str
    violates: tuple[str, ...]
    fails: tuple[str, ...]
    passes: tuple[str, ...] = ()
    runs: int = 1
    note: str = ""  # what else is to be known, as that no release is without it


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A checked scenario. `source` is the file's text as it was read, `file` its name."""

    name: str
    about: str = ""
    nodes: int = 3
    seed: int = 1
    duration: float = 10.0  # seconds of workload with faults; healing and convergence come after it
    record: bool = True
    disk: str = "faithful"
    crash_states: bool = False  # the simulator tries power cuts on copies of the disks
    defect: str | None = None
    workload: Workload = Workload()
    operations: tuple[Operation, ...] = ()  # by time; if there are any, they are all that is asked for
    disks: tuple[Disk, ...] = ()  # those that are not empty at the start
    timing: Timing = field(default_factory=Timing)
    limits: Limits = field(default_factory=Limits)
    faults: tuple[FaultStep, ...] = ()
    nemesis: Nemesis | None = None
    expect: Expect = Expect()
    zookeeper: ZooKeeper = ZooKeeper()
    ticket: Ticket | None = None
    source: str = field(default="", compare=False, repr=False)
    file: str = field(default="", compare=False)

    @property
    def faithful(self) -> bool:
        """Whether what a node has not synced is lost with its process."""
        return self.disk != "ordinary"

    def schedule(self, seed: int | None = None) -> list[FaultStep]:
        """The faults by time. The same seed gives the same schedule; without a nemesis every seed does."""
        if self.nemesis is None:
            return sorted(self.faults, key=lambda step: step.at)
        from zab_chaos.faults.nemesis import draw

        return draw(self.nemesis, self.nodes, self.duration, self.seed if seed is None else seed, self.faithful)

    def expected(self, *, exact: bool) -> dict[str, Any]:
        """`expect` as run.json has it. `exact`: in a world in which only the ensemble itself takes time."""
        expect = dataclasses.asdict(self.expect)
        if expect["progress_within"] is None:
            patience = 5 * self.timing.timeout_ms / 1000
            expect["progress_within"] = patience if exact else max(15.0, patience)
        if expect["answered_within"] is None and exact:  # elsewhere a client may be late to hear of its answer
            expect["answered_within"] = expect["progress_within"]
        expect["counter_max"] = self.limits.counter_max
        return expect

    @property
    def faults_due(self) -> int:
        """How many faults a run must have seen: those of a written schedule; what a nemesis has drawn may be put off."""
        return len(self.faults) if self.nemesis is None else 0

    def to_toml(self) -> str:
        """The scenario as a file again; reading that gives an equal scenario."""
        from zab_chaos.faults.toml_writing import write

        return write(self)


def load(path: Path | str, nodes: int | None = None, disk: str | None = None) -> Scenario:
    """Read and check a scenario file. `nodes` and `disk` override the file's. Raises ScenarioError with all mistakes."""
    file = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
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
    """The fields that differ from the defaults, which a file has to contain."""
    return {
        field.name: getattr(struct, field.name)
        for field in msgspec.structs.fields(struct)
        if getattr(struct, field.name) != field.default
    }
