"""One node of the protocol, as its driver sees it: two ways in, `step` and `tick`, and one record out, `ready`.

The node holds one object for what it is now (`state`: looking, following or leading; see `role`). What outlives an
iteration is here.
"""

from collections.abc import Callable
from typing import Any

from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.agreement import Agreement
from zab_chaos.node.core.broadcast import Broadcasting
from zab_chaos.node.core.contacts import Contacts
from zab_chaos.node.core.digest import HASHES
from zab_chaos.node.core.discovery import Choosing, Elected
from zab_chaos.node.core.errors import NotLeading, SanityCheckFailed
from zab_chaos.node.core.followers import Follower
from zab_chaos.node.core.following import Following
from zab_chaos.node.core.history import History
from zab_chaos.node.core.journal import Journal
from zab_chaos.node.core.looking import Looking
from zab_chaos.node.core.messages import Cepoch, Message, Phase, Ping, Role, Run
from zab_chaos.node.core.outbox import Outbox
from zab_chaos.node.core.quorum import Majority
from zab_chaos.node.core.ready import NewLeaderRecord, Ready, Recovered
from zab_chaos.node.core.role import RoleState
from zab_chaos.node.core.settings import Settings
from zab_chaos.node.core.synchronization import Synchronizing
from zab_chaos.node.core.tables import EDGES, FROM_LEADER, HANDLERS_IN
from zab_chaos.node.core.zxid import Zxid

PATIENCE_HEARTBEATS = 3  # in so many every peer that can be heard has said what its digest is


class Peer:
    """The whole protocol: what a node, a simulation and a replay run. The types are what a known bug may replace."""

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
        self._pinged = -settings.heartbeat
        self.contacts = Contacts(settings.timeout)
        self.links = self.contacts.links  # the peers with an open session
        self.out = Outbox(self.links)
        # Durable (DSN 2011, Table 1), as of the records handed out.
        self.accepted_epoch = recovered.accepted_epoch
        self.current_epoch = recovered.current_epoch
        self.amnesiac = recovered.amnesiac  # it lost its disk, and is no member yet
        history = self.history_type(recovered.snapshot, HASHES[settings.digest])
        for first, txns in recovered.runs:
            history.append(Run(first, txns))
        # Volatile, and yet it outlives an iteration.
        self.agreement = Agreement(self.quorum.size, PATIENCE_HEARTBEATS * settings.heartbeat)  # on what was delivered
        self.journal = self.journal_type(history, self.out, self.agreement)
        self.promised: tuple[int, int] | None = None  # (epoch, leader): to whom this life gave its last promise
        self.highest_promise = 0  # heard of; keeps a new epoch above promises outside the quorum
        self.last_inquiry = 0  # numbers go on, so that an old answer answers nothing
        self.iteration = 0
        self.round = 0  # of votes: others compare it over iterations
        self.without_disk: frozenset[int] = frozenset()  # peers that said so: they bring no vote, whatever is decided
        # The present role. It says nothing, and is told nothing, before `start`.
        self.state: RoleState = self.looking_type(self)
        self.in_broadcast = False  # leads an established epoch, or follows one
        self._handlers: dict[type, Callable[[int, Any], None]] = {}

    # ---- what a driver looks at ----

    @property
    def role(self) -> Role:
        return self.state.role

    @property
    def phase(self) -> Phase:
        return self.state.phase

    @property
    def leader(self) -> int | None:
        """Whom this node follows; itself, if it leads."""
        return self.state.leader or None

    @property
    def primary(self) -> Broadcasting | None:
        """Where to broadcast, if this node may: it leads an established epoch."""
        return self.state.primary

    @property
    def history(self) -> History:
        return self.journal.history

    @property
    def delivered(self) -> Zxid:
        return self.journal.delivered

    @property
    def digest(self) -> int:
        """Of what is delivered."""
        return self.journal.digest

    # ---- what a driver calls ----

    def start(self, now: int) -> None:
        """Begin. Call once, before anything else."""
        self.now = now
        self.look("start")

    def link_up(self, peer: int) -> None:
        """A new session with `peer` is open in both directions."""
        self.contacts.open(peer, self.now)
        self.agreement.forget(peer)
        self.state.on_link_up(peer)

    def link_down(self, peer: int, why: str) -> None:
        """The session with `peer` is closed: what was in it is lost."""
        if peer in self.links:
            self.links.discard(peer)
            self._let(self.state.on_link_down, peer, why)

    def step(self, source: int, message: Message) -> None:
        """A message from `source`, in its session's order."""
        if source not in self.links:
            return  # of a session that this node has closed
        self.contacts.fresh.add(source)
        kind = type(message)
        handler = self._handlers.get(kind)
        if handler is None or (kind in FROM_LEADER and source != self.state.leader):
            self.state.on_stray(source, message)
            return
        try:  # as `_let` does, without its cost
            handler(source, message)
        except SanityCheckFailed as error:
            self.out.abort(str(error))

    def tick(self, now: int) -> None:
        """Time passes. Call at least a few times in each heartbeat, after what has arrived was stepped."""
        self.now = now
        contacts = self.contacts
        if contacts.fresh:
            contacts.note_fresh(now)
        if now >= contacts.silent_at:
            for peer in contacts.silent(now):
                self._let(self.reset, peer, "silent")
            contacts.look_again(now)
        if now - self._pinged >= self.settings.heartbeat:
            self._pinged = now
            self.on_heartbeat()
        self.state.on_tick()
        if self.agreement.disputed:
            self.settle_dispute()

    def wakes_at(self) -> int:
        """When `tick` will have something to do if nothing else happens before: a heartbeat, a silence, a deadline."""
        wakes = self.contacts.wakes_at(self._pinged + self.settings.heartbeat)
        deadline = self.state.deadline
        return wakes if deadline is None or deadline > wakes else deadline

    def synced(self, upto: int) -> None:
        """The first `upto` records are durable."""
        self._let(self.out.synced, upto)

    def submit(self, txns: list[bytes]) -> Zxid:
        """Broadcast transactions (abcast); the zxid of the first. Raises NotLeading. See `Broadcasting.room`."""
        primary = self.state.primary
        if primary is None:
            raise NotLeading("only the leader of an established epoch broadcasts")
        return primary.submit(txns)

    def snapshot_taken(self, zxid: Zxid, digest: int, state: bytes) -> None:
        """The driver has stored a snapshot of the delivered state at `zxid` durably."""
        self.journal.history.compact((zxid, digest, state))

    def ready(self) -> Ready | None:
        """The obligations since the last call; None if there are none."""
        try:
            self.state.on_ready()
        except SanityCheckFailed as error:
            self.out.abort(str(error))
        return self.out.take()

    def _let(self, happen: Callable[..., None], *arguments: Any) -> None:
        """Let it happen; what cannot be ends the node with the next Ready."""
        try:
            happen(*arguments)
        except SanityCheckFailed as error:
            self.out.abort(str(error))

    # ---- from role to role ----

    def look(self, why: str) -> None:
        """Phase 0, from wherever this node is: a new iteration, with new sessions to the partners of the one that is left."""
        for peer in self.state.partners():
            if self.hang_up(peer):
                self.without_disk -= {peer}  # it will say it again
        self.iteration += 1
        self.round += 1
        self.journal.committed = self.journal.delivered
        self.begin(self.looking_type(self), Phase.ELECTION, why)

    def follow(self, leader: int, early: dict[int, Cepoch]) -> None:
        """Phase 1 as a follower. `early`: who has introduced itself to this node, in vain."""
        for peer in sorted(early):
            self.hang_up(peer)
        self.begin(self.following_type(self, leader), Phase.DISCOVERY, "elected")

    def lead(self, early: dict[int, Cepoch]) -> None:
        """Phase 1 as the prospective leader. `early`: who has introduced itself to this node."""
        self.begin(self.elected_type(self, early), Phase.DISCOVERY, "elected")

    def begin(self, state: RoleState, phase: Phase, why: str | None = None) -> None:
        """Hold this object from now on. `why`: a role begins with it."""
        if why is not None:
            self.out.event("role", role=state.role.name, leader=state.leader or None, why=why)
        self.enter(state, phase)
        state.begin()

    def enter(self, state: RoleState, phase: Phase) -> None:
        """The one place where role and phase change. Raises SanityCheckFailed for an edge that the protocol does not have."""
        before = self.state.phase
        within = before is phase is Phase.DISCOVERY  # an elected leader has chosen its epoch
        if not within and (before, phase) not in EDGES:
            raise SanityCheckFailed(f"no edge leads from {before.name} to {phase.name}")
        self.state, state.phase = state, phase
        self._handlers = {kind: getattr(state, name) for kind, name in HANDLERS_IN[state.role, phase].items()}
        self.in_broadcast = phase is Phase.BROADCAST
        if not within:
            self.out.event("phase", phase=phase.name, epoch=self.accepted_epoch)

    # ---- what every role uses ----

    def history_key(self) -> tuple[int, Zxid]:
        """How good this node's history is: (current epoch, last zxid), in elections and in discovery."""
        return self.current_epoch, self.journal.history.last

    def heard_promise(self, epoch: int) -> None:
        self.highest_promise = max(self.highest_promise, epoch)

    def close_group(self, epoch: int, effect: Callable[[], None] | None = None) -> None:
        """f.a := epoch, in the same sync as the history before it. `effect` happens when they are durable."""
        last = self.journal.history.last

        def durable() -> None:
            self.journal.now_durable(last)
            if effect is not None:
                effect()

        self.current_epoch = epoch
        self.out.record(NewLeaderRecord(epoch), durable)
        self.out.event_after_sync("current_epoch", epoch=epoch, last_zxid=zx.pair(last))

    def reset(self, peer: int, why: str) -> None:
        """Close the session with `peer`, and let the role notice. A new one opens by itself."""
        if self.hang_up(peer):
            self.state.on_link_down(peer, why)

    def hang_up(self, peer: int) -> bool:
        """Close the session with `peer`; whatever was to be sent in it is dropped. False: there is none."""
        if peer not in self.links:
            return False
        self.out.close(peer)
        self.links.discard(peer)
        return True

    def on_heartbeat(self) -> None:
        self.state.on_heartbeat()
        self.out.send_all(Ping(self.state.role, self.current_epoch, self.journal.delivered, self.journal.digest))

    def check_digest(self, zxid: Zxid, digest: int, source: int) -> None:
        """Nodes that delivered the same prefix have the same digest; whoever has another one than the rest stops."""
        self.agreement.hear(source, zxid, digest, self.journal.delivered, self.journal.digest, self.now)
        if self.agreement.disputed:
            self.settle_dispute()

    def settle_dispute(self) -> None:
        """End, if this node is the one that is wrong. If its leader is, that one finds out by itself."""
        why = self.agreement.wrong(self.leader if self.role is Role.FOLLOWING else None, self.now)
        if why is not None:
            self.out.abort(why)
