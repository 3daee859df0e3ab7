"""Functions on the statuses of an ensemble's nodes, on any backend: who leads, and whether the nodes have converged."""

from collections.abc import Callable, Mapping, Sequence

from zab_chaos.faults.cluster import Cluster, Status

NO_POWER_CUT = 'a power cut needs a disk that can lose what was not synced: [scenario] disk = "faithful" or "fuse"'


def statuses(cluster: Cluster, timeout: float = 2.0) -> dict[int, Status]:
    """Ask each node for its status. Paused nodes are not asked; nodes that do not answer are left out."""
    answers = {node: cluster.status(node, timeout) for node in cluster.nodes if not cluster.paused(node)}
    return {node: answer for node, answer in answers.items() if answer is not None}


def state_word(answer: Status | None, *, alive: bool, paused: bool) -> str:
    """Return a node's state: down, paused, silent, amnesiac, leading, following or looking; up if its system shows no roles."""
    if answer is None or not alive or paused:
        return "down" if not alive else "paused" if paused else "silent"
    return "amnesiac" if answer.amnesiac else answer.role.lower() or "up"


def leader_of(answers: Mapping[int, Status], voters: int) -> int | None:
    """Return the established leader of the highest epoch if a quorum of so many voters says that it follows; else None.

    A leader that was paused or cut off still reports itself as established until it learns otherwise. So only the highest
    epoch counts, and a quorum must be in it.
    """
    leading = [status for status in answers.values() if status.role == "LEADING" and status.established]
    if not leading:
        return None
    newest = max(leading, key=lambda status: status.epoch)
    in_it = (s for s in answers.values() if s.established and s.epoch == newest.epoch and s.leader == newest.node)
    followers = [status for status in in_it if status.role != "OBSERVING"]
    return newest.node if len({newest.node, *(status.node for status in followers)}) > voters // 2 else None


def disagreement(answers: Mapping[int, Status], nodes: Sequence[int]) -> str | None:
    """Return why the ensemble has not converged, in words; None if it has.

    Converged means: every node is up, a member, in the broadcast phase of one epoch under one leader, and has delivered its
    whole history, with the same zxid, digest and tree as all others. The counts of waiting requests and of bytes in flight
    are 0: a count that stays above 0 would in the end make the node refuse requests, one below 0 would admit too many.
    """
    silent = [node for node in nodes if node not in answers]
    if silent:
        return f"no answer from {listed_nodes(silent)}"
    faults: list[tuple[str, Callable[[Status], bool]]] = [
        ("still amnesiac", lambda status: status.amnesiac),
        ("not in the broadcast phase of an established leader", lambda status: not status.established),
        ("not everything delivered", lambda status: status.delivered != status.last_zxid),
        ("requests waiting", lambda status: status.waiting != 0),
        ("transactions in flight", lambda status: status.in_flight_bytes != 0),
    ]
    for words, holds in faults:
        affected = [node for node in nodes if holds(answers[node])]
        if affected:
            return f"{words}: {listed_nodes(affected)}"
    for words, value in (
        ("epochs", lambda status: status.epoch),
        ("leaders", lambda status: status.leader if status.leader is not None else status.node),
        ("zxids", lambda status: f"{status.delivered[0]}:{status.delivered[1]}"),
        ("digests", lambda status: status.digest),
        ("trees", lambda status: status.tree),
    ):
        seen = {node: value(answers[node]) for node in nodes}
        if len(set(seen.values())) > 1:
            return f"different {words}: " + ", ".join(f"node-{node} {one}" for node, one in seen.items())
    return None


def leftovers(answers: Mapping[int, Status]) -> str | None:
    """Return what the nodes still hold of clients and requests, in words; None if nothing. Ask when there are no clients."""
    words = [
        f"node-{node}: {number} {what}"
        for node, status in answers.items()
        for what, number in status.leftovers.items()
        if number != 0
    ]
    return ", ".join(words) or None


def listed_nodes(nodes: Sequence[int]) -> str:
    """Return the nodes' names, such as `node-1, node-3`."""
    return ", ".join(f"node-{node}" for node in nodes)
