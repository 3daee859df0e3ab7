"""One node of the lab: inputs in (a start, a message, a tick, a proposal), messages out. It has no clock and no network.

The methods follow the pseudo-code of db-19 ("How does it work?") name by name, with its weaknesses, because the dump is
compared byte for byte: a follower accepts any zxid above its last, so it does not notice a gap; a leader keeps its own
history whatever the AckEpochs say; a late AckEpoch restarts synchronization and the counter. Where the pseudo-code leaves
something open, a docstring says what was decided.
"""

from collections.abc import Callable
from typing import Any

from zab_chaos.model.lab.messages import (
    Ack,
    AckEpoch,
    AckLeader,
    Commit,
    LookForLeader,
    Message,
    NewEpoch,
    NewLeader,
    Propose,
    Role,
    Txn,
    Vote,
)
from zab_chaos.model.lab.splitmix import splitmix64
from zab_chaos.node.core.zxid import ZERO, Zxid, zxid

ELECTION_TICKS = 150  # the least election timeout, and the range of the jitter that is added
HEARTBEAT_TICKS = 50

Outgoing = list[tuple[int, Message]]  # (destination, message), in the order of sending


class LabNode:
    """One of `nodes` nodes, whose ids are 0 to nodes - 1. A quorum is nodes // 2 + 1.

    Every input has the tick `now` at which it happens, and returns the messages that it causes. The attributes are the state
    of db-19; callers only read them.
    """

    def __init__(self, node_id: int, nodes: int, seed: int) -> None:
        self.id = node_id
        self.seed = seed
        self.quorum = nodes // 2 + 1
        self.peers = [peer for peer in range(nodes) if peer != node_id]
        self.now = 0
        self._out: Outgoing = []

        self.current_epoch = 0
        self.accepted_epoch = 0
        self.history: list[Txn] = []
        self.last_committed = ZERO

        self.role = Role.LOOKING
        self.leader_id: int | None = None
        self.vote_target: tuple[Zxid, int] = (ZERO, node_id)  # (zxid, id), compared as a pair
        self.vote_view: dict[int, int] = {}  # voter -> the node that it votes for

        self.pending_new_epoch = 0
        self.epoch_acks: set[int] = set()
        self.leader_acks: set[int] = set()
        self.discovered = False  # whether NewLeader was sent in this leadership
        self.synced = False
        self.next_counter = 0
        self.ack_set: dict[Zxid, set[int]] = {}

        self.election_deadline = 0
        self.last_heartbeat_sent = 0

    def last_zxid(self) -> Zxid:
        return self.history[-1].zxid if self.history else ZERO

    def committed(self) -> list[Txn]:
        """The history up to the last committed zxid."""
        return [txn for txn in self.history if txn.zxid <= self.last_committed]

    # Inputs

    def start(self, now: int) -> Outgoing:
        self.now = now
        self._enter_looking()
        return self._sent()

    def receive(self, source: int, message: Message, now: int) -> Outgoing:
        self.now = now
        ON_MESSAGE[type(message)](self, source, message)
        return self._sent()

    def tick(self, now: int) -> Outgoing:
        """Time passes: a leader may be due for a heartbeat, anyone else for an election.

        A leader has no deadline: without a quorum it goes on leading until it meets a higher epoch.
        """
        self.now = now
        if self.role is Role.LEADING:
            if now - self.last_heartbeat_sent >= HEARTBEAT_TICKS:
                self._heartbeat()
        elif now >= self.election_deadline:
            self._enter_looking()
        return self._sent()

    def propose(self, payload: bytes, now: int) -> Outgoing:
        """Propose a client's transaction. The node must be leading and synced."""
        if self.role is not Role.LEADING or not self.synced:
            raise RuntimeError(f"node {self.id} was asked to propose, but it is no synced leader")
        self.now = now
        self.next_counter += 1
        txn = Txn(zxid(self.current_epoch, self.next_counter), payload)
        self.history.append(txn)
        self.ack_set[txn.zxid] = {self.id}
        self._broadcast(Propose(txn))
        self._try_commit(txn.zxid)  # a single node is its own quorum
        return self._sent()

    # Phase 0: election

    def _enter_looking(self) -> None:
        self.role = Role.LOOKING
        self.leader_id = None
        self._reset_election_deadline()
        self.vote_target = (self.last_zxid(), self.id)
        self.vote_view = {self.id: self.id}
        self._broadcast(LookForLeader(self.id, self.last_zxid(), self.current_epoch))
        self._broadcast(Vote(self.id, self.last_zxid(), self.current_epoch, self.id))
        self._check_election()

    def _on_look_for_leader(self, source: int, message: LookForLeader) -> None:
        """Count it as a vote of the sender for itself."""
        self._count_vote(message.src_id, message.last_zxid, message.src_id)

    def _on_vote(self, source: int, message: Vote) -> None:
        self._count_vote(message.voter_id, message.last_zxid, message.leader_id)

    def _count_vote(self, voter: int, peer_zxid: Zxid, leader_chosen: int) -> None:
        if self.role is not Role.LOOKING:
            self._answer_vote(voter)
            return
        if (peer_zxid, voter) > self.vote_target:
            self.vote_target = (peer_zxid, voter)
            self.vote_view = {self.id: voter}
            self._broadcast(Vote(self.id, self.last_zxid(), self.current_epoch, voter))
        self.vote_view[voter] = leader_chosen
        self._check_election()

    def _answer_vote(self, voter: int) -> None:
        """Answer with the present leader. A Vote does not show whether its sender is Looking, so two nodes that are not Looking
        keep answering each other. That changes nothing in either, and the lab has no rule against it.
        """
        assert self.leader_id is not None  # only Looking has none
        self._out.append((voter, Vote(self.id, self.last_zxid(), self.current_epoch, self.leader_id)))

    def _check_election(self) -> None:
        target = self.vote_target[1]
        if list(self.vote_view.values()).count(target) < self.quorum:
            return
        if target == self.id:
            self._become_leading()
        else:
            self._become_following(target)

    def _become_following(self, leader: int) -> None:
        """Follow a leader. A new follower waits a full election timeout for its leader's first message."""
        self.role = Role.FOLLOWING
        self.leader_id = leader
        self._reset_election_deadline()

    # Phases 1 and 2: discovery, synchronization

    def _become_leading(self) -> None:
        self.role = Role.LEADING
        self.leader_id = self.id
        self.last_heartbeat_sent = self.now
        self.discovered = False
        self.synced = False
        self.leader_acks = set()
        self.ack_set = {}
        self.pending_new_epoch = max(self.accepted_epoch, self.current_epoch) + 1
        self.accepted_epoch = self.pending_new_epoch
        self.epoch_acks = {self.id}
        self._broadcast(NewEpoch(self.pending_new_epoch))
        self._try_finish_discovery()

    def _on_new_epoch(self, source: int, message: NewEpoch) -> None:
        """Follow the sender, also if this node follows another leader: the published hashes require that."""
        if message.new_epoch >= self.accepted_epoch:
            if message.new_epoch > self.accepted_epoch:
                self.accepted_epoch = message.new_epoch
                self._become_following(source)
            self._out.append((source, AckEpoch(self.current_epoch, self.last_zxid())))
        self._reset_election_deadline()

    def _on_ack_epoch(self, source: int, message: AckEpoch) -> None:
        if self.role is Role.LEADING:
            self.epoch_acks.add(source)
            self._try_finish_discovery()

    def _try_finish_discovery(self) -> None:
        """Start synchronization once a quorum has answered. Each further AckEpoch starts it again."""
        if len(self.epoch_acks) < self.quorum:
            return
        self.current_epoch = self.pending_new_epoch
        self.next_counter = 0
        self.leader_acks = {self.id}
        self.discovered = True
        self._broadcast(NewLeader(self.current_epoch, tuple(self.history)))
        self._try_finish_sync()

    def _on_new_leader(self, source: int, message: NewLeader) -> None:
        if message.new_epoch >= self.accepted_epoch:
            self.accepted_epoch = message.new_epoch
            self.current_epoch = message.new_epoch
            self.history = list(message.history)
            self._become_following(source)
            self._out.append((source, AckLeader(message.new_epoch)))

    def _on_ack_leader(self, source: int, message: AckLeader) -> None:
        if self.role is Role.LEADING and message.new_epoch == self.current_epoch:
            self.leader_acks.add(source)
            self._try_finish_sync()

    def _try_finish_sync(self) -> None:
        if self.synced or len(self.leader_acks) < self.quorum:
            return
        self.synced = True
        if self.last_zxid() > self.last_committed:
            self.last_committed = self.last_zxid()
            self._broadcast(Commit(self.last_committed))

    # Phase 3: broadcast

    def _on_propose(self, source: int, message: Propose) -> None:
        txn = message.txn
        if self.role is Role.FOLLOWING and source == self.leader_id and txn.zxid > self.last_zxid():
            self.history.append(txn)
            self._reset_election_deadline()
            self._out.append((source, Ack(txn.zxid)))

    def _on_ack(self, source: int, message: Ack) -> None:
        if self.role is Role.LEADING:
            self.ack_set.setdefault(message.zxid, set()).add(source)
            self._try_commit(message.zxid)

    def _try_commit(self, upto: Zxid) -> None:
        if upto > self.last_committed and len(self.ack_set[upto]) >= self.quorum:
            self.last_committed = upto
            self._broadcast(Commit(upto))

    def _on_commit(self, source: int, message: Commit) -> None:
        if source == self.leader_id:
            self._reset_election_deadline()
        if self.last_committed < message.zxid <= self.last_zxid():
            self.last_committed = message.zxid

    # Timers and sending

    def _heartbeat(self) -> None:
        """Repeat the last message: Commit, or NewLeader before the node is synced. In discovery neither was sent."""
        self.last_heartbeat_sent = self.now
        if self.synced:
            self._broadcast(Commit(self.last_committed))
        elif self.discovered:
            self._broadcast(NewLeader(self.current_epoch, tuple(self.history)))

    def _reset_election_deadline(self) -> None:
        jitter = splitmix64(self.seed ^ self.id ^ self.now) % ELECTION_TICKS
        self.election_deadline = self.now + ELECTION_TICKS + jitter

    def _broadcast(self, message: Message) -> None:
        self._out += [(peer, message) for peer in self.peers]

    def _sent(self) -> Outgoing:
        out = self._out
        if out:
            self._out = []
        return out


ON_MESSAGE: dict[type, Callable[[LabNode, int, Any], None]] = {
    LookForLeader: LabNode._on_look_for_leader,
    Vote: LabNode._on_vote,
    NewEpoch: LabNode._on_new_epoch,
    AckEpoch: LabNode._on_ack_epoch,
    NewLeader: LabNode._on_new_leader,
    AckLeader: LabNode._on_ack_leader,
    Propose: LabNode._on_propose,
    Ack: LabNode._on_ack,
    Commit: LabNode._on_commit,
}
