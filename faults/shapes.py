"""The shapes of partitions, as pure functions. Each returns the ordered pairs (i, j) that are cut: nothing that i sends
reaches j."""

from collections.abc import Iterable, Sequence
from random import Random

Pairs = tuple[tuple[int, int], ...]


def between(one: Iterable[int], other: Iterable[int]) -> Pairs:
    """Cut all links between two groups, both ways."""
    left, right = set(one), set(other)
    return tuple(sorted({(a, b) for a in left for b in right} | {(b, a) for a in left for b in right}))


def isolate(nodes: Sequence[int], group: Iterable[int]) -> Pairs:
    """Cut a group off from all other nodes. Links within each side work."""
    inside = set(group)
    return between(inside, set(nodes) - inside)


def halves(nodes: Sequence[int], random: Random) -> Pairs:
    """Cut the nodes into two drawn halves; with an odd number of nodes the second one is larger."""
    drawn = random.sample(sorted(nodes), len(nodes))
    return between(drawn[: len(nodes) // 2], drawn[len(nodes) // 2 :])


def ring(nodes: Sequence[int]) -> Pairs:
    """Cut each node off from all but its two neighbours in the order of the ids: every node sees a different majority
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
    """Cut two drawn halves off from each other; one node, the middle, keeps its links with both (Jepsen)."""
    rest = random.sample(sorted(set(nodes) - {middle}), len(nodes) - 1)
    return between(rest[: len(rest) // 2], rest[len(rest) // 2 :])


def touching(nodes: Sequence[int], group: Iterable[int], direction: str) -> Pairs:
    """Cut the links between a group and the rest: `out` of it, `in` to it, or `both`. The first two are one-way partitions."""
    inside = set(group)
    rest = set(nodes) - inside
    out = {(a, b) for a in inside for b in rest} if direction in ("out", "both") else set()
    into = {(b, a) for a in inside for b in rest} if direction in ("in", "both") else set()
    return tuple(sorted(out | into))


def links_of(nodes: Sequence[int], group: Iterable[int], direction: str) -> Pairs:
    """Return all links of a group, also those between two of its nodes: what they send (`out`), what is sent to them
    (`in`), or `both`."""
    inside = set(group)
    ends = [(a, b) for a in nodes for b in nodes if a != b]
    return tuple(
        sorted((a, b) for a, b in ends if (a in inside and direction != "in") or (b in inside and direction != "out"))
    )
