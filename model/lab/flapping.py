"""What the lab's protocol does not survive: links that are cut and heal.

A follower takes any zxid above its last. So: 1. the leader proposes 1:1 while its link to a follower is cut; 2. the
link heals; 3. the leader proposes 1:2, the follower appends it and acknowledges, without ever having had 1:1; 4. the
Commit of 1:2 makes both commit histories of which neither is a prefix of the other. Agreement (DSN 2011, section III)
does not hold. The protocol that the nodes run refuses the gap instead (closes the session, synchronizes again).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random

from zab_chaos.model.lab.arguments import Cut, LabArguments, Link
from zab_chaos.model.lab.messages import Txn, shown
from zab_chaos.model.lab.simulator import LabSimulator, Node

FLAPPING_PROPERTY = "agreement"  # its name among the oracle's properties
FLAPPING_ROUNDS = 4000
FLAPPING_PROPOSALS = 60
STRETCH_TICKS = (20, 200)  # how long links stay cut, and how long they stay whole


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixViolation:
    """Two nodes that committed different transactions at the same place (from 0) of their histories."""

    first_node: int
    second_node: int
    position: int
    first: Txn
    second: Txn

    def __str__(self) -> str:
        return (
            f"{FLAPPING_PROPERTY}: node {shown(self.first_node)} and node {shown(self.second_node)} committed different "
            f"transactions at position {self.position}: {self.first} and {self.second}"
        )


def find_prefix_violation(nodes: Sequence[Node]) -> PrefixViolation | None:
    """The first pair of nodes of which neither's committed history is a prefix of the other's, or None."""
    committed = [(node.id, node.committed()) for node in nodes]
    for (first_node, ours), (second_node, theirs) in combinations(committed, 2):
        for position, (first, second) in enumerate(zip(ours, theirs, strict=False)):
            if first != second:
                return PrefixViolation(
                    first_node=first_node, second_node=second_node, position=position, first=first, second=second
                )
    return None


def lab_flapping(seed: int) -> LabArguments:
    """A run of 3 or 5 nodes with cuts that come and go, drawn from `seed`."""
    chance = Random(seed)
    nodes = chance.choice([3, 5])
    return LabArguments(
        seed=seed,
        nodes=nodes,
        rounds=FLAPPING_ROUNDS,
        proposals=FLAPPING_PROPOSALS,
        schedule=tuple(_draw_schedule(chance, nodes)),
    )


def _draw_schedule(chance: Random, nodes: int) -> Iterable[Cut]:
    now = chance.randint(*STRETCH_TICKS)
    while now < FLAPPING_ROUNDS:
        yield now, _draw_links(chance, nodes)
        now += chance.randint(*STRETCH_TICKS)
        yield now, frozenset()
        now += chance.randint(*STRETCH_TICKS)


def _draw_links(chance: Random, nodes: int) -> frozenset[Link]:
    """Either two sides that don't hear each other, or each direction of each link for itself with chance 0.3."""
    links = [(source, to) for source in range(nodes) for to in range(nodes) if source != to]
    if chance.random() < 0.5:
        side = [chance.random() < 0.5 for _ in range(nodes)]
        return frozenset(link for link in links if side[link[0]] != side[link[1]])
    return frozenset(link for link in links if chance.random() < 0.3)


def judge_flapping(arguments: LabArguments) -> PrefixViolation | None:
    """Run once, and judge the end; None: it violates nothing."""
    simulator = LabSimulator(arguments)
    simulator.run()
    return find_prefix_violation(simulator.nodes)
