"""Faults that cut links: partitions of every shape, links that fail again and again, stalls."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from zab_chaos.faults import shapes
from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.cut_evidence import QUIET, LinkWitness, was_crossed, were_used
from zab_chaos.faults.kind import (
    Confirmation,
    Fault,
    FaultContext,
    FaultError,
    HealOrder,
    Key,
    Kind,
    TargetState,
)
from zab_chaos.faults.network import CUTS
from zab_chaos.faults.process import node_names
from zab_chaos.faults.rules import choice, number, pairs

SHAPES = ("isolate", "halves", "majority-minority", "ring", "bridge", "one-way", "pairs")
WITHOUT_TARGET = ("halves", "ring", "pairs")  # shapes that need no target
UNUSED = "nothing was ever sent through the proxies of these links, so nothing shows that the links were cut"
LOST = "the links were not cut any more when they were to be healed"


class Cut(Fault):
    """Base of faults that cut links. Confirmed by the counters of what passes them, which do not grow until the healing.

    If the proxies count, the nodes must also be known to use them: something was sent over one of the links at some time. It
    need not have been sent while the link was cut: then the nodes would not have noticed whether it was. In a drawn schedule a
    cut may hit links that are never used.
    """

    def __init__(self, context: FaultContext, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        super().__init__(context, nodes, params)
        self.pairs, self.how = self.links_to_cut()
        self.witness = LinkWitness(context.cluster, self.pairs, context.host, context.network)
        self.name = f"{type(self).__name__.lower()}-{context.random.getrandbits(48):012x}"
        self.quiet = False
        self.no_receiver_up = False  # at the end of the last cut
        self.links: list[dict[str, Any]] = []  # likewise
        self.error: str | None = None  # why a cut is not confirmed, whatever the counters show

    @abstractmethod
    def links_to_cut(self) -> tuple[shapes.Pairs, str]:
        """Return the links, and how they are cut (`zab_chaos.faults.network.CUTS`)."""

    def inject(self) -> None:
        require_links(self.context, self.pairs)
        self.quiet = self.cut()

    def cut(self) -> bool:
        """Cut the links, and return whether nothing arrives any more."""
        self.context.links.cut(self.pairs, self.how, self.name)
        return self.witness.settle(self.context.patience)

    def injected(self) -> Confirmation:
        return self.confirmation(self.quiet, {"how": self.how, "quiet": self.quiet})

    def watch(self, now: float) -> float | None:
        return now + QUIET if self.witness.watch() else None

    def heal(self) -> None:
        self.links = []
        try:
            self.witness.wait(self.context.patience)
            self.links = self.witness.links()  # before anything can arrive again
            self.no_receiver_up = self.witness.no_receiver_up()
            self.error = self.error or self._shows_nothing()
        finally:
            self.context.links.heal(self.pairs, self.name, release=can_release(self.context, self.pairs))

    def recovered(self) -> Confirmation:
        return self.confirmation(self.was_silent(), {"links": self.links})

    def was_silent(self) -> bool:
        """Return whether nothing arrived during the last cut, or no receiver was up."""
        return not was_crossed(self.links) and (bool(self.links) or self.no_receiver_up)

    def _shows_nothing(self) -> str | None:
        """Return in words why the counts of the cut that is about to be healed show nothing, or None."""
        broken = self.context.links.broken()
        if any(self.name not in broken.get(pair, ()) for pair in self.pairs):
            return LOST
        return None if were_used(self.links) or self.context.drawn else UNUSED

    def confirmation(self, confirmed: bool, evidence: dict[str, Any]) -> Confirmation:
        """Return the confirmation. A connection past the proxies prevents it, and what makes the counts worthless."""
        error = next(iter(self.witness.detours), self.error)
        return Confirmation(confirmed and error is None, evidence | ({"error": error} if error is not None else {}))


class Partition(Cut):
    """A partition: links are cut in one of several shapes."""

    def links_to_cut(self) -> tuple[shapes.Pairs, str]:
        pairs = cut_pairs(self.params, self.cluster.nodes, self.nodes, self.context.random, self.cluster.voters)
        return pairs, self.params["how"]

    def describe(self) -> str:
        shape = self.params["shape"]
        target = "" if shape in WITHOUT_TARGET else f" of {node_names(self.nodes)}"
        return f"{len(self.pairs)} links cut ({self.how}): {shape}{target}"


class Stall(Cut):
    """A stall: everything is held back without loss, and delivered in order after the healing."""

    def links_to_cut(self) -> tuple[shapes.Pairs, str]:
        return link_pairs(self.params, self.cluster.nodes, self.nodes), "stall"

    def describe(self) -> str:
        return f"{len(self.pairs)} links of {node_names(self.nodes)} stalled"


class Flap(Cut):
    """Links that are cut and healed in turn."""

    def __init__(self, context: FaultContext, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        super().__init__(context, nodes, params)
        self.cuts = 0
        self.silent = 0  # number of cuts in which nothing arrived, or no receiver was up
        self.leaked = 0  # number of cuts in which something arrived; what happened in the rest is not known
        self.is_cut = False
        self.next_change: float | None = None

    def links_to_cut(self) -> tuple[shapes.Pairs, str]:
        return link_pairs(self.params, self.cluster.nodes, self.nodes), self.params["how"]

    def cut(self) -> bool:
        self.is_cut = True
        self.cuts += 1
        return super().cut()

    def injected(self) -> Confirmation:
        return self.confirmation(self.quiet, {"quiet": self.quiet})

    def watch(self, now: float) -> float | None:
        """Cut or heal the links when it is time to. Return the time of the next change."""
        if self.next_change is None:
            self.next_change = now + self.params["down"]
        elif now >= self.next_change:
            if self.is_cut:
                self.heal()
            else:
                self.cut()
            self.next_change = now + (self.params["down"] if self.is_cut else self.params["up"])
        return self.next_change

    def heal(self) -> None:
        if self.is_cut:
            super().heal()
            self.is_cut = False
            self.leaked += was_crossed(self.links)
            self.silent += self.was_silent()

    def recovered(self) -> Confirmation:
        seen = {"cuts": self.cuts, "silent": self.silent, "leaked": self.leaked}
        return self.confirmation(self.silent > 0 and not self.leaked, seen)

    def describe(self) -> str:
        return f"{len(self.pairs)} links of {node_names(self.nodes)} flapping"


def cut_pairs(
    params: Mapping[str, Any],
    nodes: Sequence[int],
    target: Sequence[int],
    random: Random,
    voters: Sequence[int] | None = None,
) -> shapes.Pairs:
    """Return the links that a shape cuts for a resolved target. `voters`: the nodes of which a minority is one; None: all."""
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
            return shapes.isolate(nodes, filled_minority(voters or nodes, target, random))
        case _:
            return shapes.isolate(nodes, target)


def filled_minority(voters: Sequence[int], target: Sequence[int], random: Random) -> list[int]:
    """Return the target, filled up to a minority of the voters as large as possible."""
    rest = sorted(set(voters) - set(target))
    missing = max(0, (len(voters) - 1) // 2 - len(target))
    return sorted([*target, *random.sample(rest, missing)])


def link_pairs(params: Mapping[str, Any], nodes: Sequence[int], target: Sequence[int]) -> shapes.Pairs:
    """Return the links of a fault that is no partition: the given pairs, or the links of the target."""
    return tuple(params["pairs"]) if params["pairs"] else shapes.links_of(nodes, target, params["direction"])


def require_links(context: FaultContext, touched: shapes.Pairs) -> None:
    """Raise FaultError if a fault of a written schedule concerns no link: it would be confirmed because nothing arrives."""
    if not touched and not context.drawn:
        raise FaultError("no link is concerned: no two nodes are on different sides")


def can_release(context: FaultContext, touched: shapes.Pairs) -> bool:
    """Return whether both ends of every link are up and not paused: only then may a toxic that holds bytes be removed."""
    ends = {node for pair in touched for node in pair}
    return all(context.cluster.alive(node) and not context.cluster.paused(node) for node in ends)


def _check(params: Mapping[str, Any], target: Any, nodes: int) -> list[str]:
    """Return the mistakes that concern several keys: which keys a shape allows, and how many nodes it needs."""
    from zab_chaos.faults.targets import size, static_nodes, words_of

    shape, wrong = params["shape"], []
    least = {"ring": 4, "bridge": 3, "majority-minority": 3}.get(shape, 2)
    if nodes < least:
        wrong.append(f"the shape {shape} takes at least {least} nodes, and the ensemble has {nodes}")
    if (shape == "pairs") != (params["pairs"] is not None):
        wrong.append('shape = "pairs" and the key pairs go together: either both or none')
    if shape != "one-way" and params["direction"] == "in":
        wrong.append('the key direction goes with shape = "one-way"')
    if shape == "bridge" and target is not None and size(target, nodes) != 1:
        wrong.append("a bridge is one node")
    if shape == "majority-minority" and target is not None and size(target, nodes) > (nodes - 1) // 2:
        wrong.append(
            f"the target is put on the minority's side, and that has at most {(nodes - 1) // 2} of {nodes} nodes"
        )
    targets = static_nodes(target, nodes)
    # Two names may stand for the same nodes; all other words are disjoint.
    named = any(word[:1].isupper() for word in words_of(target))
    inside = len(targets) if targets is not None else 0 if named else size(target, nodes)
    if shape in ("isolate", "one-way") and inside == nodes > 1:
        wrong.append("with all nodes on one side nothing is cut")
    return wrong


def _default_target(params: Mapping[str, Any]) -> str | None:
    if params.get("shape") in WITHOUT_TARGET:
        return None
    return "minority" if params.get("shape") == "majority-minority" else "one"


def check_links(_params: Mapping[str, Any], _target: Any, nodes: int) -> list[str]:
    """Return the mistake that there are no links."""
    return ["there are no links in an ensemble of one node"] if nodes < 2 else []


def one_without_pairs(params: Mapping[str, Any]) -> str | None:
    """Return the default target of a fault for which pairs may be given instead."""
    return None if params.get("pairs") else "one"


def _refuses_one_way(params: Mapping[str, Any]) -> bool:
    """Return whether connections are refused in one direction only, by the shape, the direction or the pairs."""
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


def _draw_partition(random: Random) -> dict[str, Any]:
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
        default_target=_default_target,
        heal_order=HealOrder.NETWORK,
        check=_check,
        draw=_draw_partition,
    ),
    Kind(
        name="flap",
        doc="cut and heal links in turn",
        make=Flap,
        needs=frozenset({Ability.LINKS}),
        keys=(
            Key(
                name="down",
                rule=number(0.05, 600, "seconds"),
                default=0.5,
                doc="the length of each cut, at least 0.2 s, in which the nodes must fall silent",
            ),
            Key(name="up", rule=number(0.05, 600, "seconds"), default=1.0, doc="the time between two cuts"),
            HOW,
            DIRECTION,
            PAIRS,
        ),
        target_state=TargetState.ANY,
        default_target=one_without_pairs,
        heal_order=HealOrder.NETWORK,
        check=check_links,
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
        check=check_links,
        draw=lambda _random: {},
    ),
)
