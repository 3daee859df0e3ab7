"""The base class of faults (`Fault`), and the description of a kind of fault (`Kind`): its keys, its needs, its effects."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from random import Random
from typing import Any

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.cluster import Cluster
from zab_chaos.faults.host import THIS_HOST, Host
from zab_chaos.faults.network import Network
from zab_chaos.faults.rules import Rule
from zab_chaos.faults.shapes import Pairs

REQUIRED = object()

ALIVE_WORDS = ("leader", "follower", "one", "minority", "majority", "all")
DEAD_WORDS = ("one", "minority", "majority", "all")  # a node that is down has no role


class TargetState(Enum):
    """The state that a node must be in to be a target of a fault. The value completes the sentence "no node is ..."."""

    UP = "up"  # running and not paused
    ALIVE = "running"  # running, paused or not
    DOWN = "down"
    PAUSED = "paused"
    ANY = "in any state"


class HealOrder(IntEnum):
    """The order in which all faults are healed: nodes that come back must find working links and peers that are not paused."""

    NETWORK = 0
    PAUSE = 1
    INSIDE = 2  # disks and clocks of running nodes
    DOWN = 3
    MEMBERS = 4  # to become a member again a node must run


class FaultError(Exception):
    """A fault could not be injected or healed. The text says why."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Whether the processes themselves showed an effect, and the evidence for it (JSON values, for faults.jsonl)."""

    confirmed: bool
    evidence: dict[str, Any]


@dataclass(slots=True)
class FaultContext:
    """The objects that a fault acts on, and what connects it with the other faults of the run."""

    cluster: Cluster
    network: Network | None
    random: Random = field(default_factory=Random)
    patience: float = 10.0  # seconds to wait for the processes to show an effect
    host: Host = THIS_HOST
    # (node, exit status) -> whether another fault, active at the same time, explains that the process ended with that status
    exit_explained: Callable[[int, int], bool] = lambda node, status: False
    # node -> whether another active fault may pause it at any time
    pause_explained: Callable[[int], bool] = lambda node: False
    # has every active fault record which of its nodes have ended; to be called before any of them is started again
    record_exits: Callable[[], None] = lambda: None
    # The schedule is drawn: other faults may happen to take down all targets of this one at the moment of its injection.
    drawn: bool = False
    # tells the other active faults that this one has just taken its targets down; to be called before it starts them again
    tell_killed: Callable[[], None] = lambda: None

    @property
    def links(self) -> Network:
        """The network. Raises FaultError if the run has none."""
        if self.network is None:
            raise FaultError("this run has no toxiproxy, so no link can be broken")
        return self.network


class Fault(ABC):
    """Base of all faults: one fault, injected into certain nodes.

    `heal` undoes whatever has been injected. It may be called at any time after `inject` was begun, and more than once.
    """

    expected_exits: tuple[int, ...] = ()  # exit statuses with which its targets may end because of it
    pauses: bool = False  # whether it may pause its targets at any time while it is active
    pairs: Pairs = ()  # the links that it affects
    refused_disks: Sequence[int] = ()  # after the healing: nodes that refused their disks, and are to get empty ones
    to_wipe: Sequence[int] = ()  # nodes that died of this fault, and whose disks are to be lost with them

    def __init__(self, context: FaultContext, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        self.context = context
        self.cluster = context.cluster
        self.nodes = tuple(nodes)
        self.params = params

    @abstractmethod
    def inject(self) -> None:
        """Inject the fault. Raise ClusterError, NetworkError or FaultError if that fails."""

    def disarm(self) -> None:
        """Have the fault hit no further node. It is called before `heal`."""
        return

    @abstractmethod
    def heal(self) -> None:
        """Heal the fault."""

    @abstractmethod
    def injected(self) -> Confirmation:
        """Return what the processes showed of the injection."""

    @abstractmethod
    def recovered(self) -> Confirmation:
        """Return what the processes showed of the healing, and of the effect up to it."""

    @abstractmethod
    def describe(self) -> str:
        """Return the fault in words, for people: `node 2 paused`."""

    def watch(self, now: float) -> float | None:
        """Do what the fault does while it is active. Return when to call again, by the clock of `now`; None: not needed."""
        return None

    def on_killed(self, nodes: Sequence[int]) -> None:
        """Take note that another fault has just taken these nodes down."""
        return

    def on_paused(self, nodes: Sequence[int]) -> None:
        """Take note that another fault has just paused these nodes."""
        return

    def on_healed(self, other: "Fault") -> None:
        """Take note that another fault has just been healed."""
        return

    def record_exits(self) -> None:
        """Record which of the targets have ended, before a restart hides it."""
        return

    def took_effect(self) -> bool:
        """Return whether the fault has taken effect; other faults may wait for that."""
        return True

    def is_over(self) -> bool:
        """Return whether there is nothing left to heal: the fault ended at once, or a restart or a resume has undone it."""
        return False


def consecutive_answers(begun: Mapping[str, Any], lifted: Mapping[str, Any]) -> bool:
    """Return whether two answers of a node (or its disk), at the beginning and the end of a fault, belong to the same life
    with no other fault of the kind in between.

    An answer has `life` and `told`, the number of commands of this kind so far; without these nothing is known: False.
    """
    return "told" in begun and (lifted.get("life"), lifted.get("told")) == (begun["life"], begun["told"] + 1)


class Momentary(Fault):
    """Base of faults that end at once: there is nothing to heal."""

    def heal(self) -> None:
        """Do nothing."""

    def is_over(self) -> bool:
        return True

    def recovered(self) -> Confirmation:
        return Confirmation(True, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of a fault in a scenario file, beside those that every fault has."""

    name: str
    rule: Rule
    doc: str
    default: Any = REQUIRED
    needs: Ability | None = None  # the ability that a value needs if `needs_if` is true for it
    # From the params, whether their value needs it; None: every value but the default does.
    needs_if: Callable[[Mapping[str, Any]], bool] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of fault: its grammar, what it needs, what it leaves behind, and how to make one.

    Scenario files, the error messages, the nemesis and the documentation are all derived from this.
    """

    name: str
    doc: str
    make: Callable[[FaultContext, Sequence[int], Mapping[str, Any]], Fault]
    keys: tuple[Key, ...] = ()
    target_words: tuple[str, ...] = ALIVE_WORDS  # targets allowed beside node-1, node-2, ... and lists
    # From the params; it returns None where the fault has no target. None instead of it: a target must be given.
    default_target: Callable[[Mapping[str, Any]], str | None] | None = None
    target_state: TargetState = TargetState.UP  # the state that targets must be in
    leaves: str | None = None  # the state of the targets afterwards: down, paused, up, maybe-down; None: unchanged
    heals: bool = True  # may have `for` and `until`, and is healed at the end at the latest
    heal_order: HealOrder = HealOrder.INSIDE
    needs: frozenset[Ability] = frozenset()  # the abilities that a backend must have for it
    blocks_schedule: bool = False  # later steps of the schedule wait until it has taken effect
    impairs: bool = True  # takes nodes, or their links, away from the quorum: it counts against the nemesis' budget
    # (params, target, number of nodes) -> mistakes.
    check: Callable[[Mapping[str, Any], Any, int], list[str]] | None = None
    draw: Callable[[Random], dict[str, Any]] | None = None  # draws the params; None: the nemesis does not use this kind

    @property
    def defaults(self) -> dict[str, Any]:
        """The values of its keys in a step that gives none. A key without a default has REQUIRED."""
        return {key.name: key.default for key in self.keys}

    def key(self, name: str) -> Key | None:
        """Return the key of this name; None if the kind has none."""
        return next((key for key in self.keys if key.name == name), None)
