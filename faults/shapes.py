"""The shapes of a partition: which ordered pairs (i, j) are cut, so that nothing that i sends reaches j. Pure
functions."""

from collections.abc import Iterable, Sequence
from random import Random

Pairs = tuple[tuple[int, int], ...]


def between(one: Iterable[int], other: Iterable[int]) -> Pairs:
    """All links between two groups, both ways."""
    left, right = set(one), set(other)
    return tuple(sorted({(a, b) for a in left for b in right} | {(b, a) for a in left for b in right}))


def isolate(nodes: Sequence[int], group: Iterable[int]) -> Pairs:
    """`group` on one side, all other nodes on the other; links within each side work."""
    inside = set(group)
    return between(inside, set(nodes) - inside)


def halves(nodes: Sequence[int], random: Random) -> Pairs:
    """Two drawn halves; with an odd number of nodes the second is the larger one."""
    drawn = random.sample(sorted(nodes), len(nodes))
    return between(drawn[: len(nodes) // 2], drawn[len(nodes) // 2 :])


def ring(nodes: Sequence[int]) -> Pairs:
    """Each node reaches only its two neighbours in the order of the ids: every node sees a different majority
    (Jepsen)."""
    order = sorted(nodes)
    size = len(order)
    return tuple(
        sorted(
            (a, b)
            for i, a in enumerate(order)
            for k, b in enumerate(order)
            if a != b and (i - k) % size not in (1, size - 1)
        )
    )


def bridge(nodes: Sequence[int], middle: int, random: Random) -> Pairs:
    """Two drawn halves that can't reach each other, and one node that reaches, and is reached by, both (Jepsen)."""
    rest = random.sample(sorted(set(nodes) - {middle}), len(nodes) - 1)
    return between(rest[: len(rest) // 2], rest[len(rest) // 2 :])


def touching(nodes: Sequence[int], group: Iterable[int], direction: str) -> Pairs:
    """The links between the group and the rest: `out` of it, `in` to it, or `both`. One way is a one-way partition."""
    inside = set(group)
    rest = set(nodes) - inside
    out = {(a, b) for a in inside for b in rest} if direction in ("out", "both") else set()
    into = {(b, a) for a in inside for b in rest} if direction in ("in", "both") else set()
    return tuple(sorted(out | into))


def links_of(nodes: Sequence[int], group: Iterable[int], direction: str) -> Pairs:
    """All links of the group, also those between two of its nodes: what they send (`out`), what is sent to them (`in`),
    or `both`."""
    inside = set(group)
    ends = [(a, b) for a in nodes for b in nodes if a != b]
    return tuple(
        sorted((a, b) for a, b in ends if (a in inside and direction != "in") or (b in inside and direction != "out"))
    )
