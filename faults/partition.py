"""Partitions: cut links in every shape, once or repeatedly."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from zab_chaos.faults import shapes
from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.cut_evidence import QUIET, FrameWitness, frames_crossed
from zab_chaos.faults.kind import ALIVE_WORDS, Confirmation, Fault, FaultContext, HealOrder, Key, Kind, TargetState
from zab_chaos.faults.network import CUTS
from zab_chaos.faults.process import node_names
from zab_chaos.faults.rules import choice, number, pairs

SHAPES = ("isolate", "halves", "majority-minority", "ring", "bridge", "one-way", "pairs")
WITHOUT_TARGET = ("halves", "ring", "pairs")  # the shape says it all


class Cut(Fault):
    """Cut links. Confirmed by the receivers' frame counters: they stop, and stand still until the healing."""

    def __init__(self, context: FaultContext, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        super().__init__(context, nodes, params)
        self.pairs, self.how = self.which()
        self.witness = FrameWitness(context.cluster, self.pairs, context.host)
        self.name = (
            f"{type(self).__name__.lower()}-{context.random.getrandbits(48):012x}"  # several may lie on one link
        )
        self.quiet = False
        self.no_receiver_up = False  # who could have taken a frame, at the end
        self.links: list[dict[str, Any]] = []

    @abstractmethod
    def which(self) -> tuple[shapes.Pairs, str]:
        """The links, and how they are cut (`zab_chaos.faults.network.CUTS`)."""

    def inject(self) -> None:
        self.context.links.cut(self.pairs, self.how, self.name)
        self.quiet = self.witness.settle(self.context.patience)

    def injected(self) -> Confirmation:
        return Confirmation(self.quiet, {"how": self.how, "quiet": self.quiet})

    def watch(self, now: float) -> float | None:
        return now + QUIET if self.witness.watch() else None

    def heal(self) -> None:
        self.witness.wait(self.context.patience)
        self.links = self.witness.links()  # before the first frame can come through again
        self.no_receiver_up = self.witness.no_receiver_up()
        self.context.links.heal(self.pairs, self.name, release=can_release(self.context, self.pairs))

    def recovered(self) -> Confirmation:
        silent = not frames_crossed(self.links) and (bool(self.links) or self.no_receiver_up)
        return Confirmation(silent, {"links": self.links})


class Partition(Cut):
    """Links are cut, in one of many shapes."""

    def which(self) -> tuple[shapes.Pairs, str]:
        pairs = cut_pairs(self.params, self.cluster.nodes, self.nodes, self.context.random)
        return pairs, self.params["how"]

    def describe(self) -> str:
        shape = self.params["shape"]
        who = "" if shape in WITHOUT_TARGET else f" of {node_names(self.nodes)}"
        return f"partition: {shape}{who}, {len(self.pairs)} links cut ({self.how})"


class Stall(Cut):
    """Everything is held back without loss, and released in order when it is healed."""

    def which(self) -> tuple[shapes.Pairs, str]:
        return link_pairs(self.params, self.cluster.nodes, self.nodes), "stall"

    def describe(self) -> str:
        return f"{len(self.pairs)} links of {node_names(self.nodes)} stalled"


class Flap(Fault):
    """Cuts and heals links in turn."""

    def __init__(self, context: FaultContext, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        super().__init__(context, nodes, params)
        self.pairs = link_pairs(params, context.cluster.nodes, nodes)
        self.name = f"flap-{context.random.getrandbits(48):012x}"
        self.cuts = 0
        self.silent = 0  # how many of the cuts let nothing through, as far as anybody was there to take it
        self.leaked = 0  # how many let something through; of the rest nobody can tell
        self.cut_now = False
        self.next_turn: float | None = None

    def inject(self) -> None:
        self._cut()
        self.quiet = self.witness.settle(self.context.patience)

    def injected(self) -> Confirmation:
        return Confirmation(self.quiet, {"quiet": self.quiet})

    def watch(self, now: float) -> float | None:
        """Turn when it is time to."""
        if self.next_turn is None:
            self.next_turn = now + self.params["down"]
        elif now >= self.next_turn:
            if self.cut_now:
                self._mend()
            else:
                self._cut()
                self.witness.settle(self.context.patience)
            self.next_turn = now + (self.params["down"] if self.cut_now else self.params["up"])
        return self.next_turn

    def heal(self) -> None:
        if self.cut_now:
            self._mend()

    def recovered(self) -> Confirmation:
        seen = {"cuts": self.cuts, "silent": self.silent, "leaked": self.leaked}
        return Confirmation(self.silent > 0 and not self.leaked, seen)

    def describe(self) -> str:
        return f"{len(self.pairs)} links of {node_names(self.nodes)} flapping"

    def _cut(self) -> None:
        self.witness = FrameWitness(self.cluster, self.pairs, self.context.host)
        self.cut_now = True
        self.cuts += 1
        self.context.links.cut(self.pairs, self.params["how"], self.name)

    def _mend(self) -> None:
        self.witness.wait(self.context.patience)
        links = self.witness.links()
        if frames_crossed(links):
            self.leaked += 1
        elif links or self.witness.no_receiver_up():
            self.silent += 1
        self.context.links.heal(self.pairs, self.name, release=can_release(self.context, self.pairs))
        self.cut_now = False


def cut_pairs(params: Mapping[str, Any], nodes: Sequence[int], target: Sequence[int], random: Random) -> shapes.Pairs:
    """The links that a shape cuts for a resolved target."""
    match params["shape"]:
        case "pairs":
            return tuple(params["pairs"])
        case "halves":
            return shapes.halves(nodes, random)
        case "ring":
            return shapes.ring(nodes)
        case "bridge":
            return shapes.bridge(nodes, target[0], random)
        case "one-way":
            return shapes.touching(nodes, target, params["direction"])
        case "majority-minority":
            return shapes.isolate(nodes, filled_minority(nodes, target, random))
        case _:
            return shapes.isolate(nodes, target)


def filled_minority(nodes: Sequence[int], target: Sequence[int], random: Random) -> list[int]:
    """A minority as large as can be that holds the target."""
    rest = sorted(set(nodes) - set(target))
    missing = max(0, (len(nodes) - 1) // 2 - len(target))
    return sorted([*target, *random.sample(rest, missing)])


def link_pairs(params: Mapping[str, Any], nodes: Sequence[int], target: Sequence[int]) -> shapes.Pairs:
    """The links of a fault that disturbs rather than cuts: given, or those of the target."""
    return tuple(params["pairs"]) if params["pairs"] else shapes.links_of(nodes, target, params["direction"])


def can_release(context: FaultContext, touched: shapes.Pairs) -> bool:
    """Both ends of every link live and are awake: only then may a holding toxic be removed."""
    ends = {node for pair in touched for node in pair}
    return all(context.cluster.alive(node) and not context.cluster.paused(node) for node in ends)


def _check(params: Mapping[str, Any], target: Any, nodes: int) -> list[str]:
    """What the single keys can't see: which shape goes with which key, and how many nodes it takes."""
    from zab_chaos.faults.targets import size, static_nodes

    shape, wrong = params["shape"], []
    least = {"ring": 4, "bridge": 3, "majority-minority": 3}.get(shape, 2)
    if nodes < least:
        wrong.append(f"a {shape} partition takes at least {least} nodes, and there are {nodes}")
    if (shape == "pairs") != (params["pairs"] is not None):
        wrong.append('shape = "pairs" and the key pairs go together: either both or none')
    if shape != "one-way" and params["direction"] == "in":
        wrong.append('the key direction goes with shape = "one-way"')
    if shape == "bridge" and target is not None and size(target, nodes) != 1:
        wrong.append("a bridge is one node")
    if shape == "majority-minority" and target is not None and size(target, nodes) > (nodes - 1) // 2:
        wrong.append(f"the target is put on the minority's side, which has {(nodes - 1) // 2} nodes")
    meant = static_nodes(target, nodes)
    if shape in ("isolate", "one-way") and meant is not None and len(meant) == nodes:
        wrong.append("with all nodes on one side nothing is cut")
    return wrong


def _default_target(params: Mapping[str, Any]) -> str | None:
    if params.get("shape") in WITHOUT_TARGET:
        return None
    return "minority" if params.get("shape") == "majority-minority" else "one"


def one_without_pairs(params: Mapping[str, Any]) -> str | None:
    """The default target where pairs may be given instead."""
    return None if params.get("pairs") else "one"


def _refuses_one_way(params: Mapping[str, Any]) -> bool:
    """Whether connections are refused in one direction only, by the shape or the direction or the pairs."""
    if params["pairs"]:
        one_way = any((target, source) not in params["pairs"] for source, target in params["pairs"])
    else:
        one_way = params["shape"] == "one-way" if "shape" in params else params["direction"] != "both"
    return one_way and params["how"] == "disable"


HOW = Key(
    name="how",
    rule=choice(*CUTS),
    default="timeout",
    needs=Ability.ONE_WAY_REFUSAL,
    needs_if=_refuses_one_way,
    doc="timeout: bytes are lost, connections stay open; stall: bytes wait; disable: connections are closed and refused",
)
PAIRS = Key(name="pairs", rule=pairs(), default=None, doc='the links, "from,to,from,to"')
DIRECTION = Key(
    name="direction",
    rule=choice("both", "out", "in"),
    default="both",
    doc="affects what the target sends (out), what is sent to it (in), or both",
)


def _drawn(random: Random) -> dict[str, Any]:
    shape = random.choice(("isolate", "isolate", "one-way", "majority-minority", "bridge"))
    drawn: dict[str, Any] = {"shape": shape, "how": random.choice(("timeout", "timeout", "stall", "disable"))}
    return drawn | ({"direction": random.choice(("out", "in"))} if shape == "one-way" else {})


KINDS = (
    Kind(
        name="partition",
        doc="cut links: nothing gets through, and everything in flight is lost or waits",
        make=Partition,
        needs=frozenset({Ability.LINKS}),
        keys=(
            Key(name="shape", rule=choice(*SHAPES), default="isolate", doc="which links are cut"),
            HOW,
            PAIRS,
            Key(
                name="direction",
                rule=choice("out", "in"),
                default="out",
                doc="for one-way: whether what the target sends (out) or what is sent to it (in) is lost",
            ),
        ),
        target_state=TargetState.ANY,
        target_words=ALIVE_WORDS,
        default_target=_default_target,
        heal_order=HealOrder.NETWORK,
        check=_check,
        draw=_drawn,
    ),
    Kind(
        name="flap",
        doc="cut and heal links in turn",
        make=Flap,
        needs=frozenset({Ability.LINKS}),
        keys=(
            Key(name="down", rule=number(0.05, 600, "seconds"), default=0.5, doc="the length of each cut"),
            Key(name="up", rule=number(0.05, 600, "seconds"), default=1.0, doc="the time between two cuts"),
            HOW,
            DIRECTION,
            PAIRS,
        ),
        target_state=TargetState.ANY,
        default_target=one_without_pairs,
        heal_order=HealOrder.NETWORK,
        draw=lambda random: {"down": random.choice((0.3, 0.6, 1.2)), "up": random.choice((0.5, 1.0))},
    ),
    Kind(
        name="stall",
        doc="hold everything back without loss, and release it in order when the fault heals",
        make=Stall,
        needs=frozenset({Ability.LINKS}),
        keys=(DIRECTION, PAIRS),
        target_state=TargetState.ANY,
        default_target=one_without_pairs,
        heal_order=HealOrder.NETWORK,
        draw=lambda _random: {},
    ),
)
