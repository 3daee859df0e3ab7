"""The protocol core of one node: inputs through `step` and `tick`, one output record through `ready`.

`state` is the object of the node's present role: looking, following or leading (see `role`). `Peer` holds what outlives an
iteration.
"""

from collections.abc import Callable
from typing import Any

from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.broadcast import Broadcasting
from zab_chaos.node.core.contacts import Contacts
from zab_chaos.node.core.digest import HASHES
from zab_chaos.node.core.digest_check import DigestCheck
from zab_chaos.node.core.discovery import Choosing, Elected
from zab_chaos.node.core.errors import NotLeading, SanityCheckFailed
from zab_chaos.node.core.followers import Follower
from zab_chaos.node.core.following import Following
from zab_chaos.node.core.history import History
from zab_chaos.node.core.journal import Journal
from zab_chaos.node.core.looking import Looking
from zab_chaos.node.core.messages import Cepoch, Message, Phase, Ping, Role, TxnRun
from zab_chaos.node.core.outbox import Outbox
from zab_chaos.node.core.quorum import Majority
from zab_chaos.node.core.ready import NewLeaderRecord, Ready, Recovered
from zab_chaos.node.core.role import RoleState
from zab_chaos.node.core.settings import Settings
from zab_chaos.node.core.synchronization import Synchronizing
from zab_chaos.node.core.tables import EDGES, FROM_LEADER, HANDLERS_IN
from zab_chaos.node.core.zxid import Zxid

PATIENCE_HEARTBEATS = 3  # by then every reachable peer has sent its digest


class Peer:
    """The whole protocol of one node, as a node, the simulator and the replay run it. A defect may replace the types."""

    history_type: type[History] = History
    journal_type: type[Journal] = Journal
    follower_type: type[Follower] = Follower
    looking_type: type[Looking] = Looking
    following_type: type[Following] = Following
    elected_type: type[Elected] = Elected
    choosing_type: type[Choosing] = Choosing
    synchronizing_type: type[Synchronizing] = Synchronizing
    broadcasting_type: type[Broadcasting] = Broadcasting

    def __init__(self, settings: Settings, recovered: Recovered) -> None:
        self.settings = settings
        self.me = settings.me
        self.quorum = Majority(settings.members)
        self.now = 0
        self._next_ping = 0
        self.contacts = Contacts(settings.timeout)
        self.links = self.contacts.links  # the peers with an open session
        self.out = Outbox(self.links)
        # Durable state (DSN 2011, Table 1), including records that are not synced yet.
        self.accepted_epoch = recovered.accepted_epoch
        self.current_epoch = recovered.current_epoch
        self.amnesiac = recovered.amnesiac  # this node lost its disk and is not a member yet
        history = self.history_type(recovered.snapshot, HASHES[settings.digest])
        for first, txns in recovered.runs:
            history.append(TxnRun(first, txns))
        # Volatile state that outlives an iteration.
        self.digest_check = DigestCheck(self.quorum.size, PATIENCE_HEARTBEATS * settings.heartbeat)
        self.journal = self.journal_type(history, self.out, self.digest_check)
        self.promised: tuple[int, int] | None = None  # (epoch, leader) of the last promise in this life
        self.highest_promise = 0  # the highest one heard of; keeps a new epoch above promises outside the quorum
        self.last_inquiry = 0  # never reset, so that a late answer matches no newer inquiry
        self.iteration = 0
        self.round = 0  # of votes; peers compare it across iterations
        self.without_disk: frozenset[int] = frozenset()  # peers that reported a lost disk: they do not vote
        # The present role. It sends and receives nothing before `start`.
        self.state: RoleState = self.looking_type(self)
        self.in_broadcast = False  # this node leads an established epoch, or follows its leader
        self.primary: Broadcasting | None = None  # the role object, if this node leads an established epoch
        self._handlers: dict[type, Callable[[int, Any], None]] = {}

    # ---- what the driver reads ----

    @property
    def role(self) -> Role:
        return self.state.role

    @property
    def phase(self) -> Phase:
        return self.state.phase

    @property
    def leader(self) -> int | None:
        """The node that this one follows (itself if it leads), or None."""
        return self.state.leader or None

    @property
    def history(self) -> History:
        return self.journal.history

    @property
    def delivered(self) -> Zxid:
        return self.journal.delivered

    @property
    def digest(self) -> int:
        """The running digest of what is delivered."""
        return self.journal.digest

    # ---- what the driver calls ----

    def start(self, now: int) -> None:
        """Start the first election. Call once, before anything else."""
        self.now = now
        self.start_election("start")

    def link_up(self, peer: int) -> None:
        """Take note that a new session with `peer` is open in both directions."""
        self.contacts.open(peer, self.now)
        self.digest_check.forget(peer)
        self.state.on_link_up(peer)

    def link_down(self, peer: int, why: str) -> None:
        """Take note that the session with `peer` is closed and everything in it is lost."""
        if peer in self.links:
            self.links.discard(peer)
            self._guarded(self.state.on_link_down, peer, why)

    def heard(self, source: int) -> None:
        """Take note that a part of a frame has arrived from `source`: it is not silent."""
        if source in self.links:
            self.contacts.heard_since_tick.add(source)

    def step(self, source: int, message: Message) -> None:
        """Process a message from `source`, in the order of its session."""
        if source not in self.links:
            self.note_drop(source, message)  # from a session that this node has closed
            return
        self.contacts.heard_since_tick.add(source)
        kind = type(message)
        handler = self._handlers.get(kind)
        if handler is None or (kind in FROM_LEADER and source != self.state.leader):
            self.state.on_stray(source, message)
            return
        try:  # the same as `_guarded`, without the cost of the call
            handler(source, message)
        except SanityCheckFailed as error:
            self.out.abort(str(error))

    def tick(self, now: int) -> None:
        """Let time pass. Call a few times in each heartbeat at least, after the messages that have arrived were stepped."""
        self.now = now
        contacts = self.contacts
        if contacts.heard_since_tick:
            contacts.record_heard(now)
        if now >= contacts.next_check:
            for peer in contacts.silent(now):
                self._guarded(self.reset, peer, "silent")
            contacts.schedule_check(now)
        if now >= self._next_ping:
            self._next_ping = now + self.settings.heartbeat
            self.on_heartbeat()
        self.state.on_tick()
        if self.digest_check.disputed:
            self.settle_dispute()

    def wakes_at(self) -> int:
        """Return when `tick` will next have something to do: a heartbeat, a silent peer or a deadline."""
        wakes = self.contacts.wakes_at(self._next_ping)
        deadline = self.state.deadline
        return wakes if deadline is None or deadline > wakes else deadline

    def synced(self, upto: int) -> None:
        """Take note that the first `upto` records are durable."""
        self.out.synced(upto)

    def note_drop(self, source: int, message: Message) -> None:
        """Called when a message is dropped. A replay replaces this."""

    def submit(self, txns: list[bytes]) -> Zxid:
        """Broadcast transactions (abcast), and return the first one's zxid. Raises NotLeading. See `Broadcasting.room`."""
        if self.primary is None:
            raise NotLeading("only the leader of an established epoch broadcasts")
        return self.primary.submit(txns)

    def snapshot_taken(self, zxid: Zxid, digest: int, state: bytes) -> None:
        """Take note that the driver has durably stored a snapshot of the delivered state at `zxid`."""
        self.journal.history.compact((zxid, digest, state))

    def ready(self) -> Ready | None:
        """Return the obligations since the last call, or None if there are none."""
        try:
            self.state.on_ready()
        except SanityCheckFailed as error:
            self.out.abort(str(error))
        return self.out.take()

    def _guarded(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call `function`. If a sanity check fails, the next Ready ends the node."""
        try:
            function(*arguments)
        except SanityCheckFailed as error:
            self.out.abort(str(error))

    # ---- changes of role ----

    def start_election(self, why: str) -> None:
        """Return to phase 0: begin a new iteration, with new sessions to the partners of the one that ends."""
        for peer in self.state.partners():
            if self.close_session(peer):
                self.without_disk -= {peer}  # it will report it again
        self.iteration += 1
        self.round += 1
        self.journal.committed = self.journal.delivered
        self.become(self.looking_type(self), Phase.ELECTION, why)

    def follow(self, leader: int, early: dict[int, Cepoch]) -> None:
        """Begin phase 1 as a follower. The nodes in `early` followed this one in vain; their sessions are closed."""
        for peer in sorted(early):
            self.close_session(peer)
        self.become(self.following_type(self, leader), Phase.DISCOVERY, "elected")

    def lead(self, early: dict[int, Cepoch]) -> None:
        """Begin phase 1 as the prospective leader. `early`: the CEPOCHs that have come already."""
        self.become(self.elected_type(self, early), Phase.DISCOVERY, "elected")

    def become(self, state: RoleState, phase: Phase, why: str | None = None) -> None:
        """Make `state` the present role object and begin it. `why` is given when a role begins, and traced."""
        if why is not None:
            self.out.event("role", role=state.role.name, leader=state.leader or None, why=why)
        self.enter(state, phase)
        state.begin()

    def enter(self, state: RoleState, phase: Phase) -> None:
        """Change role and phase; nothing else changes them.

        Raises SanityCheckFailed for an edge that the protocol does not have.
        """
        before = self.state.phase
        within = before is phase is Phase.DISCOVERY  # the elected leader has chosen its epoch; the phase stays
        if not within and (before, phase) not in EDGES:
            raise SanityCheckFailed(f"no edge leads from {before.name} to {phase.name}")
        self.state, state.phase = state, phase
        self._handlers = {kind: getattr(state, name) for kind, name in HANDLERS_IN[state.role, phase].items()}
        self.in_broadcast = phase is Phase.BROADCAST
        self.primary = state.primary
        if not within:
            self.out.event("phase", phase=phase.name, epoch=self.accepted_epoch)

    # ---- used by every role ----

    def history_key(self) -> tuple[int, Zxid]:
        """Return (current epoch, last zxid), by which elections and discovery compare histories."""
        return self.current_epoch, self.journal.history.last

    def note_promise(self, epoch: int) -> None:
        self.highest_promise = max(self.highest_promise, epoch)

    def set_current_epoch(self, epoch: int, effect: Callable[[], None] | None = None) -> None:
        """Set f.a to `epoch`, in the same sync as the history before it. This closes the group of records.

        `effect` runs when they are durable.
        """
        last = self.journal.history.last

        def durable() -> None:
            self.journal.mark_durable(last)
            if effect is not None:
                effect()

        self.current_epoch = epoch
        self.out.record(NewLeaderRecord(epoch), durable)
        self.out.event_after_sync("current_epoch", epoch=epoch, last_zxid=zx.pair(last))

    def reset(self, peer: int, why: str) -> None:
        """Close the session with `peer`, and let the role react. A new session opens by itself."""
        if self.close_session(peer):
            self.state.on_link_down(peer, why)

    def close_session(self, peer: int) -> bool:
        """Close the session with `peer` and drop the messages that were to be sent in it.

        Return False if there is none.
        """
        if peer not in self.links:
            return False
        self.out.close(peer)
        self.links.discard(peer)
        return True

    def on_heartbeat(self) -> None:
        self.state.on_heartbeat()
        self.out.send_all(Ping(self.state.role, self.current_epoch, self.journal.delivered, self.journal.digest))

    def check_digest(self, zxid: Zxid, digest: int, source: int) -> None:
        """Compare the digest that `source` reports with this node's.

        Nodes that delivered the same prefix have the same digest. A node that differs from the others stops.
        """
        self.digest_check.compare(source, zxid, digest, self.journal.delivered, self.journal.digest, self.now)
        if self.digest_check.disputed:
            self.settle_dispute()

    def settle_dispute(self) -> None:
        """Abort if this node is the one that is wrong. A leader that is wrong finds out by itself."""
        why = self.digest_check.reason_to_abort(self.leader if self.role is Role.FOLLOWING else None, self.now)
        if why is not None:
            self.out.abort(why)
