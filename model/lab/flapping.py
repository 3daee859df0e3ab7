"""Runs of the lab with links that fail and heal, which violate total order or agreement.

A follower of the lab accepts any zxid above its last. So: 1. the leader proposes 1:1 while its link to a follower is cut;
2. the link heals; 3. the leader proposes 1:2, and the follower appends and acknowledges it, although it never received 1:1;
4. the Commit of 1:2 makes both commit histories of which neither is a prefix of the other. That violates total order (DSN
2011, section III-A). The protocol that the nodes run refuses the gap: it closes the session and synchronizes again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random

from zab_chaos.model.lab.arguments import Cut, LabArguments, Link
from zab_chaos.model.lab.messages import Txn, display_number
from zab_chaos.model.lab.simulator import LabNodeInterface, LabSimulator

FLAPPING_PROPERTIES = "total order or agreement"  # together: of two committed histories one is a prefix of the other
FLAPPING_ROUNDS = 4000
FLAPPING_PROPOSALS = 60
INTERVAL_TICKS = (20, 200)  # least and most time that links stay cut, or stay whole


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixViolation:
    """Two nodes that committed different transactions at the same position (from 0) of their histories.

    That violates total order if one of them has both transactions, else agreement (DSN 2011, section III-A).
    """

    property: str
    first_node: int
    second_node: int
    position: int
    first: Txn
    second: Txn

    def __str__(self) -> str:
        first, second = display_number(self.first_node), display_number(self.second_node)
        return (
            f"{self.property}: node {first} and node {second} committed different "
            f"transactions at position {self.position}: {self.first} and {self.second}"
        )


def find_prefix_violation(nodes: Sequence[LabNodeInterface]) -> PrefixViolation | None:
    """Return the first two nodes of whose committed histories neither is a prefix of the other, or None."""
    committed = [(node.id, node.committed()) for node in nodes]
    for (first_node, ours), (second_node, theirs) in combinations(committed, 2):
        for position, (first, second) in enumerate(zip(ours, theirs, strict=False)):
            if first != second:
                return PrefixViolation(
                    property="total order" if first in theirs or second in ours else "agreement",
                    first_node=first_node,
                    second_node=second_node,
                    position=position,
                    first=first,
                    second=second,
                )
    return None


def lab_flapping(seed: int) -> LabArguments:
    """Draw a run of 3 or 5 nodes with links that fail and heal. The same seed gives the same run."""
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
    now = chance.randint(*INTERVAL_TICKS)
    while now < FLAPPING_ROUNDS:
        yield now, _draw_links(chance, nodes)
        now += chance.randint(*INTERVAL_TICKS)
        yield now, frozenset()
        now += chance.randint(*INTERVAL_TICKS)


def _draw_links(chance: Random, nodes: int) -> frozenset[Link]:
    """Draw the links that are cut: all between two groups of nodes, or each direction of each link with probability 0.3."""
    links = [(source, to) for source in range(nodes) for to in range(nodes) if source != to]
    if chance.random() < 0.5:
        side = [chance.random() < 0.5 for _ in range(nodes)]
        return frozenset(link for link in links if side[link[0]] != side[link[1]])
    return frozenset(link for link in links if chance.random() < 0.3)


def judge_flapping(arguments: LabArguments) -> PrefixViolation | None:
    """Execute a run. Return its violation of total order or agreement, or None."""
    simulator = LabSimulator(arguments)
    simulator.run()
    return find_prefix_violation(simulator.nodes)
