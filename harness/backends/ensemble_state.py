"""What can be said of an ensemble whatever it runs on: who leads, whether all agree, what is still missing."""

from collections.abc import Callable, Mapping, Sequence

from zab_chaos.faults.cluster import Cluster, Status

NO_POWER_CUT = 'a power cut needs a disk that can lose what was not synced: [scenario] disk = "faithful" or "fuse"'


def statuses(cluster: Cluster, timeout: float = 2.0) -> dict[int, Status]:
    """What each node answers now; silent nodes are left out."""
    answers = {node: cluster.status(node, timeout) for node in cluster.nodes if not cluster.paused(node)}
    return {node: answer for node, answer in answers.items() if answer is not None}


def leader_of(answers: Mapping[int, Status], nodes: int) -> int | None:
    """The established leader of the highest epoch, followed by a quorum that says so too.

    A leader that was paused or cut off still calls itself established until it hears otherwise: only the highest
    epoch counts, and a quorum must be in it.
    """
    leading = [status for status in answers.values() if status.role == "LEADING" and status.established]
    if not leading:
        return None
    newest = max(leading, key=lambda status: status.epoch)
    with_it = [s for s in answers.values() if s.established and s.epoch == newest.epoch and s.leader == newest.node]
    return newest.node if len({newest.node, *(status.node for status in with_it)}) > nodes // 2 else None


def disagreement(answers: Mapping[int, Status], nodes: Sequence[int]) -> str | None:
    """Why the ensemble has not converged, in words; None when it has.

    Converged: every node is up, a member, in the broadcast phase of one epoch under one leader, and has delivered all
    that it holds, to the same zxid, digest and tree as all others. And nothing is under way: who counts requests that nobody
    waits for any more will refuse others in the end, and a count below 0 lets too much in.
    """
    silent = [node for node in nodes if node not in answers]
    if silent:
        return f"no answer from {node_names(silent)}"
    faults: list[tuple[str, Callable[[Status], bool]]] = [
        ("still amnesiac", lambda status: status.amnesiac),
        ("not in the broadcast phase of an established leader", lambda status: not status.established),
        ("not everything delivered", lambda status: status.delivered != status.last_zxid),
        ("requests waiting", lambda status: status.waiting != 0),
        ("transactions in flight", lambda status: status.in_flight_bytes != 0),
    ]
    for words, has in faults:
        having = [node for node in nodes if has(answers[node])]
        if having:
            return f"{words}: {node_names(having)}"
    for words, value in (
        ("epochs", lambda status: status.epoch),
        ("leaders", lambda status: status.leader if status.leader is not None else status.node),
        ("zxids", lambda status: f"{status.delivered[0]}:{status.delivered[1]}"),
        ("digests", lambda status: status.digest),
        ("trees", lambda status: status.tree),
    ):
        seen = {node: value(answers[node]) for node in nodes}
        if len(set(seen.values())) > 1:
            return f"different {words}: " + ", ".join(f"node-{node} {at}" for node, at in seen.items())
    return None


def node_names(nodes: Sequence[int]) -> str:
    """`node-1, node-3`."""
    return ", ".join(f"node-{node}" for node in nodes)
