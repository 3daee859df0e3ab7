"""A core's whole state, readable: what a time-travel debugger shows. Pairs of a name and what stands there, in words."""

from zab_chaos.model.replay import descriptions as words
from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.broadcast import Peer
from zab_chaos.node.core.machine import Follower
from zab_chaos.node.core.messages import Role, Vote
from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.tree.tree import Tree

State = list[tuple[str, str]]


def state(machine: Peer, tree: Tree) -> State:
    """Everything that the core would act upon, in the order in which a reader asks."""
    started = machine.iteration > 0  # before, there are neither votes nor sessions
    return [
        *_position(machine),
        *_durable(machine),
        *_history(machine),
        *(_election(machine) + _sessions(machine) + _leadership(machine) if started else []),
        ("tree", f"{len(tree.znodes)} znodes at {zx.show(tree.zxid)}, digest {dg.show(tree.digest)}"),
    ]


def _position(m: Peer) -> State:
    leader = "nobody" if m.leader is None else f"node {m.leader}"
    left = "none" if m.deadline is None else f"{words.seconds(m.deadline)} (in {words.seconds(m.deadline - m.now)})"
    return [
        ("clock", words.seconds(m.now)),
        ("role", f"{m.role.name} in {m.phase.name}; leader: {leader}; iteration {m.iteration}"),
        ("deadline", left),
    ]


def _durable(m: Peer) -> State:
    amnesiac = "; has lost its disk and counts in no quorum" if m.amnesiac else ""
    promised = f", given in this life to node {m.promised[1]}" if m.promised else ""
    return [
        ("f.p (accepted epoch)", f"{m.accepted_epoch}{promised}{amnesiac}"),
        ("f.a (current epoch)", str(m.current_epoch)),
        ("durable", f"up to {zx.show(m.durable)}; {len(m._effects)} effects wait for the disk"),
    ]


def _history(m: Peer) -> State:
    h = m.history
    snapshot = f"at {zx.show(h.snapshot[0])}, {len(h.snapshot[2])} bytes" if h.snapshot else "none"
    waiting = [words.span(b.first, len(b.txns)) for b in h.between(m.delivered, h.last)] if m.delivered in h else []
    return [
        ("history", f"{words.outline(h.shape())}; {len(h.txns)} transactions, last {zx.show(h.last)}"),
        ("snapshot", snapshot),
        ("delivered", f"up to {zx.show(m.delivered)}, digest {dg.show(m.digest)}"),
        ("committed", f"up to {zx.show(m.committed)}"),
        ("not delivered yet", " ".join(waiting) or "nothing"),
    ]


def _election(m: Peer) -> State:
    said: State = [("vote", f"{_vote(m.vote)}; highest promise heard of: {m.highest_promise}")]
    if m.role == Role.LOOKING:
        said += [(f"vote of {peer}", _vote(vote)) for peer, vote in sorted(m.tally.items())]
        said += [(f"{peer} has settled", _vote(vote)) for peer, vote in sorted(m.settled.items())]
        said += [(f"{peer} is early", f"CEPOCH f.p={it.accepted_epoch}") for peer, it in sorted(m.early.items())]
        final = (
            "no quorum agrees" if m.finalize_at is None else f"a quorum agrees; final at {words.seconds(m.finalize_at)}"
        )
        said.append(("tally", final))
    if m.without_disk:
        said.append(("without disk", " ".join(map(str, sorted(m.without_disk)))))
    return said


def _vote(vote: Vote) -> str:
    return words.message(vote).removeprefix("VOTE ")


def _sessions(m: Peer) -> State:
    heard = [f"{peer} (heard {words.seconds(m.now - m._heard[peer])} ago)" for peer in sorted(m.links)]
    return [("sessions", ", ".join(heard) or "none is open")]


def _leadership(m: Peer) -> State:
    if m.role != Role.LEADING:
        return [("joined", "yes" if m.joined else "no")] if m.role == Role.FOLLOWING else []
    proposed = "none yet" if m.epoch is None else f"{m.epoch}{'' if m.epoch_durable else ', not durable here yet'}"
    said: State = [("proposed epoch", proposed)]
    if m.fetching is not None:
        said.append(("fetching", f"the history of node {m.fetching}"))
    said += [(f"follower {peer}", _follower(follower)) for peer, follower in sorted(m.followers.items())]
    said.append(("established", f"yes, announced up to {zx.show(m.announced)}" if m.established else "no"))
    if m.established:
        in_flight = sum(len(b.txns) for b in m.history.between(max(m.committed, m.history.base), m.history.last))
        said.append(("outstanding", f"{in_flight} proposed, {len(m.gathered)} gathered; room for {m.room}"))
    return said


def _follower(f: Follower) -> str:
    ack = (
        "no ACK-E" if f.ack_epoch is None else f"ACK-E {_acked_epoch(f.ack_epoch.current_epoch, f.ack_epoch.last_zxid)}"
    )
    place = "active" if f.active else "sent NEWLEADER" if f.forwarding else "in discovery"
    amnesiac = ", amnesiac" if f.amnesiac else ""
    return f"{place}, f.p={f.accepted_epoch}, {ack}, acknowledged up to {zx.show(f.acked)}{amnesiac}"


def _acked_epoch(current_epoch: int, last: Zxid) -> str:
    return f"f.a={current_epoch} last={zx.show(last)}"
