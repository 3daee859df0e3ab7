"""Describes the whole state of a core in words, as (name, value) pairs, for the stepper and `zab replay --show`."""

from zab_chaos.model.replay import descriptions as words
from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.broadcast import Broadcasting
from zab_chaos.node.core.discovery import Choosing, Elected
from zab_chaos.node.core.followers import Follower, Followers
from zab_chaos.node.core.following import Following
from zab_chaos.node.core.leading import Leading
from zab_chaos.node.core.looking import Looking
from zab_chaos.node.core.messages import Vote
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.role import RoleState
from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.tree.tree import Tree

State = list[tuple[str, str]]


def describe_state(machine: Peer, tree: Tree) -> State:
    """Return everything that the core acts on, with the most asked for first."""
    started = machine.iteration > 0  # there are no votes and sessions before the start
    return [
        *_position(machine),
        *_durable(machine),
        *_history(machine),
        *(_role(machine.state) + _elections(machine) + _sessions(machine) if started else []),
        ("tree", f"{len(tree.znodes)} znodes at {zx.show(tree.zxid)}, digest {dg.show(tree.digest)}"),
    ]


def _position(m: Peer) -> State:
    leader = "nobody" if m.leader is None else f"node {m.leader}"
    due = m.state.deadline
    left = "none" if due is None else f"{words.seconds(due)} (in {words.seconds(due - m.now)})"
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
        ("durable", f"up to {zx.show(m.journal.durable)}; {m.out.waiting} effects wait for the disk"),
    ]


def _history(m: Peer) -> State:
    h = m.history
    snapshot = f"at {zx.show(h.snapshot[0])}, {len(h.snapshot[2])} bytes" if h.snapshot else "none"
    waiting = [words.span(b.first, len(b.txns)) for b in h.between(m.delivered, h.last)] if m.delivered in h else []
    return [
        ("history", f"{words.outline(h.shape())}; {len(h.txns)} transactions, last {zx.show(h.last)}"),
        ("snapshot", snapshot),
        ("delivered", f"up to {zx.show(m.delivered)}, digest {dg.show(m.digest)}"),
        ("committed", f"up to {zx.show(m.journal.committed)}"),
        ("not delivered yet", " ".join(waiting) or "nothing"),
    ]


def _elections(m: Peer) -> State:
    """Return what a node remembers from one election to the next."""
    said: State = [("elections", f"round {m.round}; highest promise heard of: {m.highest_promise}")]
    if m.without_disk:
        said.append(("without disk", " ".join(map(str, sorted(m.without_disk)))))
    return said


def _sessions(m: Peer) -> State:
    heard = [f"{peer} (heard {words.seconds(m.now - m.contacts.last_heard[peer])} ago)" for peer in sorted(m.links)]
    return [("sessions", ", ".join(heard) or "none is open")]


def _role(state: RoleState) -> State:
    match state:
        case Looking():
            return _looking(state)
        case Following():
            return [("joined", "yes" if state.joined else "no")]
        case Elected():
            return [("proposed epoch", "none yet"), *_followers(state.followers)]
        case Leading():
            return _leading(state)
    return []


def _looking(state: Looking) -> State:
    final = state.deadline
    return [
        ("vote", _vote(state.vote)),
        *((f"vote of {peer}", _vote(vote)) for peer, vote in sorted(state.votes.items())),
        *((f"{peer} has settled", _vote(vote)) for peer, vote in sorted(state.settled.items())),
        *((f"{peer} is early", f"CEPOCH f.p={it.accepted_epoch}") for peer, it in sorted(state.early.items())),
        ("election", "no quorum agrees" if final is None else f"a quorum agrees; final at {words.seconds(final)}"),
    ]


def _vote(vote: Vote) -> str:
    return words.message(vote).removeprefix("VOTE ")


def _leading(state: Leading) -> State:
    proposed, said = str(state.epoch), _followers(state.followers)
    match state:
        case Choosing():
            proposed += "" if state.epoch_durable else ", not durable here yet"
            if state.fetching is not None:
                said.insert(0, ("fetching", f"the history of node {state.fetching}"))
            said.append(("established", "no"))
        case Broadcasting():
            committed, history = state.journal.committed, state.journal.history
            in_flight = sum(len(b.txns) for b in history.between(max(committed, history.base), history.last))
            outstanding = f"{in_flight} proposed, {len(state.unproposed)} gathered; room for {state.room}"
            said += [("established", f"yes, announced up to {zx.show(state.announced)}"), ("outstanding", outstanding)]
        case _:
            said.append(("established", "no"))
    return [("proposed epoch", proposed), *said]


def _followers(followers: Followers) -> State:
    return [(f"follower {peer}", _follower(follower)) for peer, follower in sorted(followers.items())]


def _follower(f: Follower) -> str:
    ack = (
        "no ACK-E" if f.ack_epoch is None else f"ACK-E {_acked_epoch(f.ack_epoch.current_epoch, f.ack_epoch.last_zxid)}"
    )
    place = "active" if f.active else "sent NEWLEADER" if f.forwarding else "in discovery"
    amnesiac = ", amnesiac" if f.amnesiac else ""
    return f"{place}, f.p={f.accepted_epoch}, {ack}, acknowledged up to {zx.show(f.acked)}{amnesiac}"


def _acked_epoch(current_epoch: int, last: Zxid) -> str:
    return f"f.a={current_epoch} last={zx.show(last)}"
