"""The targets of faults: read from a scenario, and resolved to nodes at the time of the fault, by the ensemble's state. Where
several nodes fit, the seed decides."""

import re
from collections.abc import Collection, Mapping, Sequence
from random import Random

from zab_chaos.faults.cluster import Cluster
from zab_chaos.faults.kind import Kind, TargetState
from zab_chaos.faults.rules import InvalidValueError, shown, suggest

Target = str | tuple[str, ...]
_NODE = re.compile(r"node-([1-9][0-9]{0,8})")
NAME = re.compile(r"[A-Z][A-Za-z0-9-]*")  # a name given with `as`; the capital distinguishes it from the other words


class NoTargetError(Exception):
    """No node fits the target. `no_leader`: because there is no established leader yet; waiting may help."""

    def __init__(self, text: str, no_leader: bool = False) -> None:
        super().__init__(text)
        self.no_leader = no_leader


def read_target(value: object, kind: Kind, nodes: int, names: Collection[str] = ()) -> Target:
    """Return a target as it is written in a scenario file. `names`: given by earlier faults. Raises InvalidValueError."""
    allowed = _allowed(kind, nodes, names)
    if isinstance(value, list):
        if not value:
            raise InvalidValueError("the list of targets is empty", allowed)
        words = tuple(_word(item, kind, nodes, names, allowed) for item in value)
        if len(set(words)) < len(words):
            raise InvalidValueError(f"{shown(value)} names a target twice", allowed)
        return words
    return _word(value, kind, nodes, names, allowed)


def _allowed(kind: Kind, nodes: int, names: Collection[str]) -> str:
    words = [*kind.target_words, f"node-1 to node-{nodes}", *sorted(names)]
    return f"{', '.join(words)}, or a list of such"


def _word(value: object, kind: Kind, nodes: int, names: Collection[str], allowed: str) -> str:
    if not isinstance(value, str):
        raise InvalidValueError(f"{shown(value)} is no target", allowed)
    match = _NODE.fullmatch(value)
    if match and int(match[1]) > nodes:
        raise InvalidValueError(
            f"there is no {value}: the ensemble has {nodes} node{'' if nodes == 1 else 's'}", allowed
        )
    if value == "minority" and nodes < 3:
        raise InvalidValueError(f"an ensemble of {nodes} has no minority", allowed)
    if match or value in kind.target_words or value in names:
        return value
    if NAME.fullmatch(value):
        raise InvalidValueError(
            f"no earlier fault calls its nodes {value} (as = {value!r})", allowed, suggest(value, names)
        )
    if value in ("leader", "follower"):
        raise InvalidValueError(
            f"{value!r} is no target of {kind.name}: a node that is {kind.target_state.value} has no role", allowed
        )
    known = [*kind.target_words, *(f"node-{node}" for node in range(1, nodes + 1))]
    raise InvalidValueError(f"{value!r} is no target", allowed, suggest(value, known))


def words_of(target: Target | None) -> tuple[str, ...]:
    """Return the words of a target, such as `leader` or `node-2`; none if a fault has no target."""
    return (target,) if isinstance(target, str) else target or ()


def static_nodes(target: Target | None, nodes: int) -> set[int] | None:
    """Return the nodes of a target that does not depend on the state: ids and `all`. None if it depends on the state."""
    found: set[int] = set()
    for word in words_of(target):
        match = _NODE.fullmatch(word)
        if match:
            found.add(int(match[1]))
        elif word == "all":
            found.update(range(1, nodes + 1))
        else:
            return None
    return found


def size(target: Target | None, nodes: int) -> int:
    """Return the largest number of nodes that the target may hit."""
    sizes = {"all": nodes, "majority": nodes // 2 + 1, "minority": (nodes - 1) // 2}
    return min(nodes, sum(sizes.get(word, 1) for word in words_of(target)))


def candidates(cluster: Cluster, target_state: TargetState) -> list[int]:
    """Return the nodes that are in the state that the fault needs, ascending."""
    return [node for node in sorted(cluster.nodes) if _fits(cluster, node, target_state)]


def _fits(cluster: Cluster, node: int, target_state: TargetState) -> bool:
    if target_state is TargetState.ANY:
        return True
    if target_state in (TargetState.DOWN, TargetState.ALIVE):
        return cluster.alive(node) == (target_state is TargetState.ALIVE)
    return cluster.alive(node) and cluster.paused(node) == (target_state is TargetState.PAUSED)


def resolve(
    target: Target,
    cluster: Cluster,
    target_state: TargetState,
    random: Random,
    named: Mapping[str, Sequence[int]] | None = None,
    spared: Collection[int] = (),
) -> list[int]:
    """Return the nodes that are hit now, ascending.

    `named`: the nodes of earlier faults, by the names given to them; `spared`: nodes that must not be hit. Raises
    NoTargetError; with `no_leader` set it is worth trying again.
    """
    pool = [node for node in candidates(cluster, target_state) if node not in spared]
    chosen: set[int] = set()
    for word in sorted(words_of(target), key=_freedom):  # words without a choice of nodes come first
        if named and word in named:
            chosen.update(_resolve_name(word, named[word], target_state, pool))
            continue
        chosen.update(_resolve_word(word, cluster, target_state, [node for node in pool if node not in chosen], random))
    return sorted(chosen)


def _freedom(word: str) -> int:
    return 0 if _NODE.fullmatch(word) or NAME.fullmatch(word) else 1 if word == "leader" else 2


def _resolve_name(name: str, nodes: Sequence[int], target_state: TargetState, pool: Sequence[int]) -> Sequence[int]:
    wrong = [node for node in nodes if node not in pool]
    if wrong:
        raise NoTargetError(f"{name} is node {', '.join(map(str, wrong))}, which is not {target_state.value}")
    return nodes


def _resolve_word(
    word: str, cluster: Cluster, target_state: TargetState, pool: Sequence[int], random: Random
) -> Sequence[int]:
    match = _NODE.fullmatch(word)
    if match:
        if int(match[1]) not in pool:
            raise NoTargetError(f"{word} is not {target_state.value}")
        return [int(match[1])]
    if word in ("leader", "follower"):
        leader = cluster.leader()
        if leader is None:
            raise NoTargetError("there is no established leader", no_leader=True)
        if word == "leader":
            pool = [node for node in pool if node == leader]
        else:
            pool = [node for node in pool if node != leader and node in cluster.voters]
    if not pool:
        raise NoTargetError(f"no node is {target_state.value}" if word != "follower" else "no follower is there")
    if word == "all":
        return pool
    sizes = {"minority": (len(cluster.voters) - 1) // 2, "majority": len(cluster.voters) // 2 + 1}
    if word in sizes:
        pool = [node for node in pool if node in cluster.voters]
    size_wanted = sizes.get(word, 1)
    if size_wanted == 0:
        raise NoTargetError(f"{len(cluster.voters)} nodes that vote have no minority")
    if len(pool) < size_wanted:
        raise NoTargetError(f"only {len(pool)} nodes are {target_state.value}, and the {word} is {size_wanted}")
    return random.sample(pool, size_wanted)
