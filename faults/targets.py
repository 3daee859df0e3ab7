"""Resolves the targets of faults against the ensemble's state at the time of the fault; the seed decides where there is a
choice."""

import re
from collections.abc import Collection, Mapping, Sequence
from random import Random

from zab_chaos.faults.cluster import Cluster
from zab_chaos.faults.kind import Kind, Need
from zab_chaos.faults.rules import WrongError, suggest

Target = str | tuple[str, ...]
_NODE = re.compile(r"node-([1-9][0-9]{0,8})")
NAME = re.compile(r"[A-Z][A-Za-z0-9-]*")  # what `as` calls a fault's nodes; a capital tells it from the other words


class NobodyError(Exception):
    """No node fits the target. `leader`: because there is no established leader yet; waiting may help."""

    def __init__(self, text: str, leader: bool = False) -> None:
        super().__init__(text)
        self.leader = leader


def read_target(value: object, kind: Kind, nodes: int, names: Collection[str] = ()) -> Target:
    """A target as a scenario file may write it; `names`: what earlier faults called theirs. Raises WrongError."""
    allowed = _allowed(kind, nodes, names)
    if isinstance(value, list):
        if not value:
            raise WrongError("the list of targets is empty", allowed)
        words = tuple(_word(item, kind, nodes, names, allowed) for item in value)
        if len(set(words)) < len(words):
            raise WrongError(f"{value!r} names a target twice", allowed)
        return words
    return _word(value, kind, nodes, names, allowed)


def _allowed(kind: Kind, nodes: int, names: Collection[str]) -> str:
    words = [*kind.words, f"node-1 to node-{nodes}", *sorted(names)]
    return f"{', '.join(words)}, or a list of such"


def _word(value: object, kind: Kind, nodes: int, names: Collection[str], allowed: str) -> str:
    if not isinstance(value, str):
        raise WrongError(f"{value!r} is no target", allowed)
    match = _NODE.fullmatch(value)
    if match and int(match[1]) > nodes:
        raise WrongError(f"there is no {value}: the ensemble has {nodes} nodes", allowed)
    if value == "minority" and nodes < 3:
        raise WrongError(f"an ensemble of {nodes} has no minority", allowed)
    if match or value in kind.words or value in names:
        return value
    if NAME.fullmatch(value):
        raise WrongError(f"no earlier fault calls its nodes {value} (as = {value!r})", allowed, suggest(value, names))
    if value in ("leader", "follower"):
        raise WrongError(f"{value!r} is no target of {kind.name}: who is {kind.need.value} has no role", allowed)
    known = [*kind.words, *(f"node-{node}" for node in range(1, nodes + 1))]
    raise WrongError(f"{value!r} is no target", allowed, suggest(value, known))


def static_nodes(target: Target | None, nodes: int) -> set[int] | None:
    """The nodes of a target that does not depend on the state: ids and `all`. None if it depends on the state."""
    words = (target,) if isinstance(target, str) else target or ()
    found: set[int] = set()
    for word in words:
        match = _NODE.fullmatch(word)
        if match:
            found.add(int(match[1]))
        elif word == "all":
            found.update(range(1, nodes + 1))
        else:
            return None
    return found


def size(target: Target | None, nodes: int) -> int:
    """The largest number of nodes that the target may hit."""
    words = (target,) if isinstance(target, str) else target or ()
    sizes = {"all": nodes, "majority": nodes // 2 + 1, "minority": (nodes - 1) // 2}
    return min(nodes, sum(sizes.get(word, 1) for word in words))


def candidates(cluster: Cluster, need: Need) -> list[int]:
    """The nodes that are in the state that the fault needs, ascending."""
    return [node for node in sorted(cluster.nodes) if _fits(cluster, node, need)]


def _fits(cluster: Cluster, node: int, need: Need) -> bool:
    if need is Need.ANY:
        return True
    if need in (Need.DOWN, Need.ALIVE):
        return cluster.alive(node) == (need is Need.ALIVE)
    return cluster.alive(node) and cluster.paused(node) == (need is Need.PAUSED)


def resolve(
    target: Target,
    cluster: Cluster,
    need: Need,
    random: Random,
    named: Mapping[str, Sequence[int]] | None = None,
    spared: Collection[int] = (),
) -> list[int]:
    """The nodes that are hit now, ascending. `named`: what earlier faults called theirs; `spared`: nodes that are not
    to be hit. Raises NobodyError; with `leader` set it is worth asking again."""
    pool = [node for node in candidates(cluster, need) if node not in spared]
    words = (target,) if isinstance(target, str) else target
    chosen: set[int] = set()
    for word in sorted(words, key=_freedom):  # who has no choice comes first
        if named and word in named:
            chosen.update(_resolve_name(word, named[word], need, pool))
            continue
        chosen.update(_resolve_word(word, cluster, need, [node for node in pool if node not in chosen], random))
    return sorted(chosen)


def _freedom(word: str) -> int:
    return 0 if _NODE.fullmatch(word) or NAME.fullmatch(word) else 1 if word == "leader" else 2


def _resolve_name(name: str, nodes: Sequence[int], need: Need, pool: Sequence[int]) -> Sequence[int]:
    wrong = [node for node in nodes if node not in pool]
    if wrong:
        raise NobodyError(f"{name} is node {', '.join(map(str, wrong))}, which is not {need.value}")
    return nodes


def _resolve_word(word: str, cluster: Cluster, need: Need, pool: Sequence[int], random: Random) -> Sequence[int]:
    match = _NODE.fullmatch(word)
    if match:
        if int(match[1]) not in pool:
            raise NobodyError(f"{word} is not {need.value}")
        return [int(match[1])]
    if word in ("leader", "follower"):
        leader = cluster.leader()
        if leader is None:
            raise NobodyError("there is no established leader", leader=True)
        if word == "leader":
            pool = [node for node in pool if node == leader]
        else:
            pool = [node for node in pool if node != leader]
    if not pool:
        raise NobodyError(f"no node is {need.value}" if word != "follower" else "no follower is there")
    if word == "all":
        return pool
    size_wanted = {"minority": (len(cluster.nodes) - 1) // 2, "majority": len(cluster.nodes) // 2 + 1}.get(word, 1)
    if len(pool) < size_wanted:
        raise NobodyError(f"only {len(pool)} nodes are {need.value}, and the {word} is {size_wanted}")
    return random.sample(pool, size_wanted)
