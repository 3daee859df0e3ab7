"""The base class of faults, and the description of a kind of fault: its keys, its needs, its effects."""

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
DEAD_WORDS = ("one", "minority", "majority", "all")  # who is down has no role


class TargetState(Enum):
    """What state a target must be in for the fault to make sense."""

    UP = "up"  # running and not paused
    ALIVE = "running"  # running, paused or not
    DOWN = "down"
    PAUSED = "paused"
    ANY = "in any state"


class HealOrder(IntEnum):
    """Healing everything goes in this order: nodes that come back must find links and awake peers."""

    NETWORK = 0
    PAUSE = 1
    INSIDE = 2  # disks and clocks of running nodes
    DOWN = 3


class FaultError(Exception):
    """The fault could not be injected or healed; the text says why."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Whether the processes themselves showed the effect, and how (JSON values, for faults.jsonl)."""

    confirmed: bool
    evidence: dict[str, Any]


@dataclass(slots=True)
class FaultContext:
    """The objects that a fault acts on. `patience`: seconds that it may wait for the processes to show an effect.

    `explained`: whether another fault that is or was there at the same time explains that the node's process ended with this
    exit status. `record_exits`: let all active faults see which nodes have ended, before one of these is started again.
    `drawn`: the schedule is; by chance other faults may take all nodes from this one in the moment in which it is injected.
    """

    cluster: Cluster
    network: Network | None
    random: Random = field(default_factory=Random)
    patience: float = 10.0
    host: Host = THIS_HOST
    exit_explained: Callable[[int, int], bool] = lambda node, status: False
    record_exits: Callable[[], None] = lambda: None
    drawn: bool = False

    @property
    def links(self) -> Network:
        """The network. Raises FaultError when the run has none."""
        if self.network is None:
            raise FaultError("this run has no toxiproxy, so no link can be broken")
        return self.network


class Fault(ABC):
    """One injected fault. `heal` may be called at any time after `inject` was begun, also twice, and undoes what is
    there."""

    expected_exits: tuple[int, ...] = ()  # exit statuses with which its targets may end because of it
    pairs: Pairs = ()  # the links it touches
    refused_disks: Sequence[int] = ()  # nodes that refuse their disks now that it has healed, and are to get new ones
    to_wipe: Sequence[int] = ()  # nodes that have died of it, and whose disks are to be lost with them

    def __init__(self, context: FaultContext, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        self.context = context
        self.cluster = context.cluster
        self.nodes = tuple(nodes)
        self.params = params

    @abstractmethod
    def inject(self) -> None:
        """Inject the fault. Raises ClusterError, NetworkError or FaultError."""

    @abstractmethod
    def heal(self) -> None:
        """Heal the fault."""

    @abstractmethod
    def injected(self) -> Confirmation:
        """What the processes showed of the injection."""

    @abstractmethod
    def recovered(self) -> Confirmation:
        """What the processes showed of the healing, and of the effect in the meantime."""

    @abstractmethod
    def describe(self) -> str:
        """In words, for people: `node 2 is paused`."""

    def confirm(self, after_heal: bool = False) -> Confirmation:
        """What the processes showed of the latest step."""
        return self.recovered() if after_heal else self.injected()

    def watch(self, now: float) -> float | None:
        """Update a fault that goes on by itself. Return when to call again (same clock as `now`)."""
        return None

    def on_killed(self, nodes: Sequence[int]) -> None:
        """Note that another fault has just killed these nodes."""
        return

    def record_exits(self) -> None:
        """Record which of its nodes have ended, before a restart hides it."""
        return

    def took_effect(self) -> bool:
        """Whether it has taken effect; other faults may wait for this."""
        return True

    def is_over(self) -> bool:
        """True when there is nothing left to heal: it was over at once, or a restart or a resume has undone it."""
        return False


def consecutive_answers(begun: Mapping[str, Any], lifted: Mapping[str, Any]) -> bool:
    """Whether nothing but this fault lies between the answers of a node (or its disk) that began and that lifted it: no new
    life, and no other fault of the kind. Answers that don't say so show nothing."""
    return "told" in begun and (lifted.get("life"), lifted.get("told")) == (begun["life"], begun["told"] + 1)


class Momentary(Fault):
    """Base of what is over as soon as it is done: there is nothing to heal."""

    def heal(self) -> None:
        """Nothing is broken."""

    def is_over(self) -> bool:
        return True

    def recovered(self) -> Confirmation:
        return Confirmation(True, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One of a fault's own keys."""

    name: str
    rule: Rule
    doc: str
    default: Any = REQUIRED
    needs: Ability | None = None  # what a value takes for which `needs_if` is true
    needs_if: Callable[[Mapping[str, Any]], bool] | None = (
        None  # from the params; None: any other value than the default
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of fault: its grammar, what it needs, what it leaves behind, and how to make one."""

    name: str
    doc: str
    make: Callable[[FaultContext, Sequence[int], Mapping[str, Any]], Fault]
    keys: tuple[Key, ...] = ()
    target_words: tuple[str, ...] = ALIVE_WORDS  # target words allowed beside node-1, node-2, ... and lists
    default_target: Callable[[Mapping[str, Any]], str | None] | None = None  # from the params; None: must be written
    target_state: TargetState = TargetState.UP
    leaves: str | None = None  # the state the targets are in afterwards: down, paused, up, maybe-down; None: unchanged
    heals: bool = True  # may have `for`, and is healed at the end
    heal_order: HealOrder = HealOrder.INSIDE
    needs: frozenset[Ability] = frozenset()  # what a backend must have for it
    blocks_schedule: bool = False  # what comes later in the schedule waits until it has taken effect
    impairs: bool = True  # takes a node, or its links, away from the quorum (the nemesis' budget)
    check: Callable[[Mapping[str, Any], Any, int], list[str]] | None = None  # (params, target, nodes) -> mistakes
    draw: Callable[[Random], dict[str, Any]] | None = None  # the nemesis' parameters; None: not for the nemesis

    def key(self, name: str) -> Key | None:
        return next((key for key in self.keys if key.name == name), None)
