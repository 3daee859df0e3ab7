"""The shared state of a judgement: everything known of a run so far. The oracle updates it, and every checker only reads it."""

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from operator import attrgetter
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from zab_chaos.model.events import (
    FINAL_CLIENTS,
    LISTS,
    TRACE_FILE,
    TRACE_FOLDER,
    TRACES,
    TRANSACTIONS,
    Abort,
    Accept,
    AcceptedEpoch,
    Boot,
    Broadcast,
    Channel,
    Client,
    Complete,
    CurrentEpoch,
    Deliver,
    DiskAfterLife,
    Established,
    Event,
    Exit,
    Fault,
    FinalZnode,
    Heal,
    Inject,
    Invoke,
    Line,
    Link,
    Member,
    Milestone,
    NodeFault,
    Phase,
    Role,
    Run,
    SessionEvent,
    Snapshot,
    Truncate,
    UnjudgedEvent,
    packed,
)
from zab_chaos.model.oracle.broadcasts import Broadcasts, PrimaryBroadcast
from zab_chaos.model.oracle.changes import Changes
from zab_chaos.model.oracle.delivered_history import DeliveredHistory, Delivery, HistoryPosition
from zab_chaos.model.oracle.disks import BootComparison, DiskHistory, compare
from zab_chaos.model.oracle.effects import Effects
from zab_chaos.model.oracle.frame_limits import every_frame_fits
from zab_chaos.model.oracle.spans import FOREVER, Span
from zab_chaos.model.oracle.znodes import STATE_ERRORS
from zab_chaos.node.core import digest as dg
from zab_chaos.node.events import FRAME_TOO_LARGE
from zab_chaos.node.store.errors import CORRUPT_EXIT
from zab_chaos.node.tree.refusal import NO_LEADER, OVERLOADED, SUPERSEDED

FILE_DAMAGES = frozenset({"corrupt", "truncate-file"})  # part of a file is changed or lost
REMOVE_FILE = "remove-file"  # whole files are lost
WIPE = "wipe"  # the whole disk is lost
HARNESS_FAILED = "harness-error"  # the outcomes of a run that the harness itself has ended begin with it
CRASH_STATE = "crash-state"  # a milestone, not a fault: a crash at some sync could have left a wrong disk
POWER_CUT = "power-cut"  # unsynced bytes are lost
WAIT = "wait"  # a step of the schedule, not a fault
FRAME_FAULTS = frozenset({"corrupt-frames", "misrouted-frames"})  # frames arrive that their receiver must refuse
GAP = re.compile(r"frame \d+ came where|frames \d+ to \d+ are missing")  # how `zab_chaos.node.channel.session` says so
# Faults of links only, which leave nodes and their clients alone.
LINK_FAULTS = FRAME_FAULTS | {
    "partition",
    "flap",
    "stall",
    "latency",
    "bandwidth",
    "slow-close",
    "reset",
    "late-frames",
}
BY_NODES = frozenset({TRACE_FOLDER, "faults.jsonl", "harness.jsonl"})  # what nodes did, and what was done to them
RECORDS = BY_NODES | {"ops.jsonl", "sessions.jsonl", "tree.jsonl"}
DESCRIPTION = frozenset({"run.json", "manifest.json"})  # without these files nothing else is certain
DISK_FAULTS = FILE_DAMAGES | {REMOVE_FILE, WIPE}
# ZooKeeper's epoch files, and the fields of `boot` that show their content.
EPOCH_FILES = {"acceptedEpoch": "accepted_epoch", "currentEpoch": "current_epoch"}
# Faults that end processes, or need them to have ended.
KILLS = frozenset({"crash", "crash-at", POWER_CUT, "restart"}) | DISK_FAULTS
STOPS = frozenset({"stop", "upgrade"})  # faults that ask processes to end
WRITES = frozenset({"create", "set", "delete", "multi", "transaction", "list-append"})
READS = frozenset({"get", "exists", "children", "multi-get", "list-read"})
NOT_SERVED = frozenset({NO_LEADER, OVERLOADED, SUPERSEDED})  # refusals without a judgement of the request
ORDERED = WRITES | {"check"}  # operations that get a transaction, and so a zxid
_L = TypeVar("_L", bound=Line)


@dataclass(slots=True)
class Life:
    """One life of a node: its start, its latest event so far, its phases, and the epochs that it joined."""

    boot: Boot | None
    last: Event
    exit: Exit | None = None
    phases: list[Phase] = field(default_factory=list)
    joined: list[CurrentEpoch] = field(default_factory=list)
    acted_before_boot: bool = False  # an event of the protocol came before `boot`
    present: bool = False  # it is the last life of its node that has booted

    @property
    def is_silent(self) -> bool:
        """Whether the life shows nothing but its start."""
        return self.last is self.boot


@dataclass(slots=True)
class Node:
    """One node: its lives (the present one last), its disks, and how far it has delivered.

    `boot_comparison` compares the boot of the present life with the disk as the life before left it. `former_disks` are the
    disks that the node lost, and copies of the present one from before it lost part of its log.
    """

    id: int
    boot: Boot | None = None
    boot_comparison: BootComparison | None = None
    lives: list[Life] = field(default_factory=list)
    position: HistoryPosition = field(default_factory=HistoryPosition)
    role: str = ""
    phase: str = ""
    exit: Exit | None = None
    disk: DiskHistory = field(default_factory=DiskHistory)
    former_disks: list[DiskHistory] = field(default_factory=list)
    # The zxids up to which the node had delivered, ascending, and when it reached each for the first time in any life.
    delivered_zxids: "array[int]" = field(default_factory=lambda: array("Q"))
    delivered_times: "array[int]" = field(default_factory=lambda: array("q"))

    def note_delivered(self, zxid: int, t: int) -> None:
        """Record that the node has delivered everything up to `zxid` at the time `t`."""
        if not self.delivered_zxids or zxid > self.delivered_zxids[-1]:
            self.delivered_zxids.append(zxid)
            self.delivered_times.append(t)

    def had_delivered(self, zxid: int, t: int) -> bool:
        """Return whether some life of the node had delivered up to `zxid` by the time `t`."""
        place = bisect_left(self.delivered_zxids, zxid)
        return place < len(self.delivered_zxids) and self.delivered_times[place] <= t

    def delivered_before(self, t: int, since: int = 0) -> int:
        """Return the zxid up to which the node's lives had delivered before the time `t`, 0 if that was before `since`."""
        place = bisect_left(self.delivered_times, t)
        return self.delivered_zxids[place - 1] if place and self.delivered_times[place - 1] >= since else 0

    def life_at(self, t: int) -> Life | None:
        """Return the life that had begun last at the time `t`, None if none had. It may be over."""
        place = bisect_right(self.lives, t, key=lambda life: life.boot.t if life.boot is not None else 0)
        return self.lives[place - 1] if place else None

    @property
    def boots(self) -> list[Boot]:
        """Return the start of each life."""
        return [life.boot for life in self.lives if life.boot is not None]

    @property
    def disks(self) -> list[DiskHistory]:
        """Return all disks that the node ever had, the present one first."""
        return [self.disk, *self.former_disks]


class Nodes(dict[int, Node]):
    """The nodes by id. A node is added when it is looked up for the first time."""

    def __missing__(self, number: int) -> Node:
        node = self[number] = Node(number)
        return node


class Request(Struct, gc=False):
    """A client's request and the answer to it, None if there is none. `zxid` is the one that the answer names or is based on
    (`zxid_of`)."""

    invoke: Invoke
    complete: Complete | None = None
    zxid: int | None = None

    @property
    def known(self) -> bool:
        """Whether its outcome is known to the client."""
        return self.complete is not None and self.complete.outcome != "unknown"


class AckedWrite(Struct, gc=False):
    """A write that was acknowledged to its client."""

    zxid: int
    invoke: Invoke
    complete: Complete


@dataclass(frozen=True, slots=True)
class Damage:
    """A place where the records do not show what happened. It is `excusable` if it is only an incomplete last line."""

    file: str
    line: int
    why: str
    node: int | None = None
    excusable: bool = False

    def concerns(self, files: Collection[str], nodes: Collection[int] | None) -> bool:
        """Return whether something may be missing from one of the files or folders, or, if it is the folder of the traces, from
        the trace of one of the nodes. None stands for all nodes."""
        trace = TRACE_FILE.fullmatch(self.file)
        if trace is not None and nodes is not None and int(trace[1]) not in nodes:
            return False
        name = self.file.partition("/")[0]
        return name in files or name in DESCRIPTION

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.why}" if self.line else f"{self.file} {self.why}"


class Facts:
    """The shared state. Traces, operations, faults and milestones are added in any order among each other."""

    # A class whose instances have this many attributes is slow without slots. The properties are cached in `__dict__`.
    __slots__ = (
        "__dict__", "acked", "before_start", "began_to_lead", "broadcasts", "connections", "counters_go_on", "crash_states",
        "damages", "deliveries", "ended", "established", "faults", "faults_due", "frames_from", "frames_too_large", "healed_at",
        "heals", "highest_established", "history", "initial_disks", "injected", "injects", "last_seq", "latencies",
        "links", "lives", "members", "milestones", "node_faults", "nodes", "outcomes", "refusals", "releases", "requests",
        "run", "self_promises", "session_lines", "told_again", "tree", "unconfirmed_heals", "untraced",
        "write_outcomes", "writes_done", "zombies",
    )  # fmt: skip

    def __init__(self, *, counters_go_on: bool = False) -> None:
        """`counters_go_on`: the first counter of an epoch follows the last one of the epoch before, as in Raft."""
        self.counters_go_on = counters_go_on
        self.history = DeliveredHistory()
        self.broadcasts = Broadcasts(counters_go_on=counters_go_on)
        self.nodes = Nodes()
        self.lives: dict[tuple[int, int], Life] = {}
        self.zombies: list[tuple[Event, Boot]] = []  # an event of a life, after the `boot` of the next one
        self.self_promises: dict[tuple[int, int], AcceptedEpoch] = {}  # by (epoch, node)
        self.established: list[Established] = []
        self.highest_established = 0  # epoch
        self.deliveries = 0  # number of transactions, summed over all nodes
        self.began_to_lead: list[Role] = []
        self.members: list[Member] = []
        self.links: list[Link] = []
        self.frames_too_large: list[Link] = []  # links that were closed because of one
        self.frames_from: dict[tuple[int, int], Channel] = {}  # by sender (node, life): the first proof of its frames
        self.connections: dict[tuple[int, int], list[Client]] = {}  # by (node, client)
        self.requests: dict[tuple[int, int], Request] = {}  # by (client, seq)
        self.told_again: list[tuple[Complete, Complete]] = []  # two outcomes of one request
        self.last_seq: dict[int, int] = {}  # by client: the seq of its latest request
        self.acked: list[AckedWrite] = []
        self.outcomes = {"ok": 0, "failed": 0, "unknown": 0}
        self.write_outcomes = {"ok": 0, "failed": 0, "unknown": 0}
        self.latencies = array("q")  # of successful operations: ns since they were due
        self.writes_done = array("q")  # times of successful writes
        self.refusals = array("q")  # times of writes refused for their content (bad version, no node, ...)
        self.faults_due = 0  # the least number of injections that must be on record; 0: see `Run.schedule`
        self.injects: list[Inject] = []  # all steps of the schedule
        self.faults: list[Inject] = []  # without those that only wait
        self.injected: set[int | str] = set()  # ids
        self.heals: list[Heal] = []
        self.node_faults: list[NodeFault] = []
        self.healed_at: dict[int | str, int] = {}  # by the number of a fault: when it was healed last
        self.unconfirmed_heals: set[int | str] = set()  # faults whose effect may last: a node may still be down
        self.session_lines: list[SessionEvent] = []  # of sessions.jsonl
        self.tree: list[FinalZnode] = []  # as all servers showed it at the end
        self.milestones: dict[str, Milestone] = {}  # the last of each name
        self.crash_states: list[Milestone] = []
        self.ended: dict[tuple[int, int], Milestone] = {}  # by (node, life): it ended by itself, seen by the harness
        self.releases: dict[tuple[int, int], Milestone] = {}  # by (node, life): with which it was started
        self.before_start: set[tuple[int, int]] = set()  # (client, seq) of the transactions on disk at the start
        self.initial_disks: dict[int, Milestone] = {}  # by node: what its disk held at the start, if it was not empty
        self.damages: list[Damage] = []
        self.untraced = False  # known at the end: no node has left a trace, although its evidence should have one
        self.run = Run(nodes=1)

    # ---- the traces ----

    def register(self, event: Event) -> bool:
        """Count an event and check its place in its life. Every event passes here first.

        Return False if the event must not be used: the next life of the node had begun, or this life has not booted yet.
        """
        life, expected = self.lives.get((event.node, event.life)), 1
        if life is None:
            life = self.lives[event.node, event.life] = Life(None, event)
        else:
            expected = life.last.n + 1
        if event.n != expected:
            self._gap(event, expected)
        life.last = event
        return (life.present and type(event) is not Boot) or self._may_act(life, event)

    def _may_act(self, life: Life, event: Event) -> bool:
        """Return whether a life that is not the present one may have this event. A life may have its `boot`."""
        if type(event) is Boot:
            if event.n != 1:
                self.damages.append(Damage(event.file, event.line or event.n, "boots in the middle of a life"))
            life.boot = event
        elif life.boot is None and not self._before_boot(life, event):
            return False
        present = self.nodes[event.node].boot
        if present is not None and event.life < present.life:
            self.zombies.append((event, present))
            return False
        return True

    def _before_boot(self, life: Life, event: Event) -> bool:
        """Return whether a life may have this event before its `boot`. A life that can't read its disk, or
        reaches a crash point meanwhile, ends without one."""
        if isinstance(event, Exit | Abort | NodeFault | UnjudgedEvent):
            return True
        if not life.acted_before_boot:
            life.acted_before_boot = True
            self.damages.append(Damage(event.file, event.line or event.n, "acts without having written `boot`"))
        return False

    def _gap(self, event: Event, expected: int) -> None:
        self.damages.append(Damage(event.file, event.line or event.n, f"has event {event.n}, {expected} was next"))

    def _boot(self, event: Boot) -> None:
        """Begin a new life."""
        node = self.nodes[event.node]
        disk, node.boot_comparison = node.disk, None
        if node.boot is not None:
            node.boot_comparison = compare(event, node.boot, disk, (node.role, node.phase) == ("LEADING", "DISCOVERY"))
            if node.boot_comparison.new_disk:
                node.former_disks.append(disk)
                for lost in node.former_disks:
                    lost.successor = lost.successor or event
                node.disk = disk = DiskHistory()
            elif packed(event.last_zxid) < disk.log.last:
                node.former_disks.append(replace(disk, log=disk.log.copy()))
        disk.boot(event)
        for life in node.lives[-1:]:
            life.present = False
        node.lives.append(self.lives[event.node, event.life])
        node.lives[-1].present = True
        node.boot, node.exit, node.role, node.phase = event, None, "", ""
        node.note_delivered(packed(event.snapshot_zxid), event.t)
        node.position = HistoryPosition()
        self.history.restore(node.position, packed(event.snapshot_zxid))

    def deliver(self, event: Deliver) -> Delivery:
        node = self.nodes[event.node]
        delivery = self.history.deliver(node.position, event)
        self.deliveries += len(delivery.digests)
        node.note_delivered(delivery.last, event.t)
        disk = node.disk
        if delivery.last >= disk.highest_delivered:
            disk.highest_delivery, disk.highest_delivered = event, delivery.last
        return delivery

    def next_counter(self, delivery: Delivery) -> int:
        """Return the counter with which the batch would continue what its node had delivered."""
        goes_on = self.counters_go_on or delivery.before >> 32 == delivery.event.epoch
        return (delivery.before & 0xFFFFFFFF) + 1 if goes_on else 1

    def broadcast(self, event: Broadcast) -> PrimaryBroadcast:
        return self.broadcasts.add(event, self.nodes[event.node].position.last)

    def accept(self, event: Accept) -> int | None:
        """Append to the log of the node's disk. Return the last zxid that the log had before if this does not continue it."""
        node, first = self.nodes[event.node], event.epoch << 32 | event.first
        if not event.digests:
            return None
        before = node.disk.log.last
        node.disk.log.append(first, dg.read_all(event.digests))
        node.disk.last_in = event
        return before if first != before + 1 else None

    def _snapshot(self, event: Snapshot) -> None:
        node, zxid = self.nodes[event.node], packed(event.zxid)
        if event.kind == "installed":
            node.disk.install(event)
        elif event.kind == "restored":
            node.note_delivered(zxid, event.t)
            self.history.restore(node.position, zxid)

    def update(self, event: Event) -> None:
        """Update the state with an event that has no method of its own."""
        node = self.nodes[event.node]
        match event:
            case Truncate():
                node.disk.truncate(event)
            case Phase():
                node.phase = event.phase
                node.lives[-1].phases.append(event)
            case Role():
                node.role = event.role
                if event.role == "LEADING":
                    self.began_to_lead.append(event)
            case AcceptedEpoch():
                node.disk.promise(event)
                if event.leader == event.node:
                    self.self_promises.setdefault((event.epoch, event.node), event)
            case CurrentEpoch():
                node.disk.join(event)
                node.lives[-1].joined.append(event)
            case Member():
                node.disk.readmit(event)
                self.members.append(event)
            case Link():
                self.links.append(event)
                if event.why.startswith(FRAME_TOO_LARGE):
                    self.frames_too_large.append(event)
            case Client():
                self.connections.setdefault((event.node, event.client), []).append(event)
            case Channel():
                self.frames_from.setdefault((event.peer, event.incarnation), event)
            case NodeFault():
                self.node_faults.append(event)
            case Exit():
                node.exit = self.lives[event.node, event.life].exit = event
            case Established():
                self.established.append(event)
                self.highest_established = max(self.highest_established, event.epoch)
            case Boot():
                self._boot(event)
            case Snapshot():
                self._snapshot(event)

    def note_damage(self, line: Line, why: str) -> None:
        """Add a line that shows that the records do not show what happened."""
        self.damages.append(Damage(line.file, line.line, why))

    # ---- the clients ----

    def invoke(self, operation: Invoke) -> None:
        """Add a request. A second one with the same seq, or a seq that goes back, is damage."""
        if operation.id in self.requests:
            self.note_damage(operation, "invokes an operation a second time")
            return
        if operation.t < operation.due:
            self.note_damage(operation, "sends a request before it was due")
        if operation.seq < self.last_seq.get(operation.client, 0):
            self.note_damage(operation, "sends a request with a lower seq than an earlier one")
        self.last_seq[operation.client] = operation.seq
        self.requests[operation.id] = Request(operation)

    def complete(self, operation: Complete) -> Request | None:
        """Add an answer. Return its request, None if no request waits for it."""
        request = self.requests.get(operation.id)
        if request is None or (request.complete is not None and request.complete.t == operation.t):
            self.note_damage(operation, "completes an operation that waits for no answer")
            return None
        write = request.invoke.op in WRITES
        for counts in (self.outcomes, self.write_outcomes) if write else (self.outcomes,):
            counts[operation.outcome] += 1
        if request.complete is not None:
            self.told_again.append((request.complete, operation))
            return None
        request.complete, invoke = operation, request.invoke
        if operation.values is not None or invoke.op in TRANSACTIONS:
            self._check_values(invoke, operation, "get", operation.values)
        if operation.lists is not None or invoke.op in LISTS:
            self._check_values(invoke, operation, "read", operation.lists)
        if operation.t < invoke.t:
            self.note_damage(operation, "answers a request before it was sent")
        request.zxid = zxid_of(operation)
        if write and operation.outcome == "failed" and was_served(operation):
            self.refusals.append(operation.t)
        if operation.outcome == "ok":
            self.latencies.append(operation.t - invoke.due)
            if write:
                self.writes_done.append(operation.t)
                if request.zxid is not None:
                    self.acked.append(AckedWrite(request.zxid, invoke, operation))
        return request

    def _check_values(self, invoke: Invoke, answer: Complete, op: str, values: Sequence[object] | None) -> None:
        """Note damage if a transaction's answer has not one of the values for each of its reads: its steps `op`."""
        reads = sum(step.op == op for step in invoke.steps or ())
        if answer.outcome == "ok" and len(values or ()) != reads:
            self.note_damage(answer, f"has {len(values or ())} values for {reads} reads of a transaction")

    def list_requests(self) -> list[Request]:
        """Return the transactions on lists, in the order of their calls."""
        found = [one for one in self.requests.values() if one.invoke.op in LISTS]
        return sorted(found, key=lambda one: one.invoke.t)

    @cached_property
    def write_waits(self) -> list[Span]:
        """Return for each write the time when it was due and the time of its answer (`FOREVER` if there is none). Use it only
        at the end of a run."""
        return [
            (one.invoke.due, one.complete.t if one.complete is not None else FOREVER)
            for one in self.requests.values()
            if one.invoke.op in WRITES
        ]

    @cached_property
    def unserved_requests(self) -> list[tuple[Invoke, Span]]:
        """Return each request that was not served, with the time in which it waited. Use it only at the end of a run.

        That is from when its client sent it to the node until the client got an answer, gave up, or turned to another node.
        """
        found = []
        # By client: the node and the time of its next request, and when it first turned to another node after that.
        next_requests: dict[int, tuple[int | None, int, int]] = {}
        for request in reversed(self.requests.values()):
            invoke, answer = request.invoke, request.complete
            node, t, left_at = next_requests.get(invoke.client, (invoke.node, 0, FOREVER))
            left_at = left_at if invoke.node == node else t
            next_requests[invoke.client] = invoke.node, invoke.t, left_at
            served = answer is not None and was_served(answer)
            if invoke.node is not None and not served:
                found.append((invoke, (invoke.t, min(left_at, answer.t) if answer else left_at)))
        return found

    # ---- the faults ----

    def inject(self, fault: Inject) -> None:
        if fault.id in self.injected:
            self.note_damage(fault, f"injects fault {fault.id} a second time")
        self.injected.add(fault.id)
        self.injects.append(fault)
        if fault.do != WAIT:
            self.faults.append(fault)

    def heal(self, fault: Heal) -> None:
        """Add a healing. Fault 0 stands for no particular fault: the harness heals everything as a last resort."""
        if fault.id and (fault.id not in self.injected or fault.id in self.healed_at):
            self.note_damage(fault, f"heals fault {fault.id}, which is not there")
        self.healed_at[fault.id] = fault.t
        if not fault.confirmed:
            self.unconfirmed_heals.add(fault.id)
        self.heals.append(fault)

    # ---- what is known at the end ----

    @cached_property
    def effects(self) -> Effects:
        """Return what each delivered transaction did. Use it only at the end of a run."""
        return Effects(self.history, self.broadcasts)

    @cached_property
    def changes(self) -> Changes:
        """Return the changes of each znode. Use it only at the end of a run."""
        return Changes(self.history, self.effects, complete="converged" in self.milestones)

    def damaged(self, files: Collection[str] = RECORDS, nodes: Collection[int] | None = None) -> bool:
        """Return whether something may be missing from these records: as for `Damage.concerns`."""
        return any(damage.concerns(files, nodes) for damage in self.damages)

    def unanswered(self) -> list[Invoke]:
        """Return the requests without an answer."""
        return [request.invoke for request in self.requests.values() if request.complete is None]

    def leave_out_final_writes(self) -> None:
        """Do not count what the harness itself wrote at the end: that says nothing of how much the load did."""
        for request in self.requests.values():
            if request.invoke.client > FINAL_CLIENTS and request.invoke.op in WRITES:
                self.write_outcomes[request.complete.outcome if request.complete is not None else "unknown"] -= 1

    @property
    def voters(self) -> range:
        """The nodes that count in quorums."""
        return range(1, self.run.nodes - self.run.observers + 1)

    def quorum(self) -> int:
        return len(self.voters) // 2 + 1

    def disks_lost(self) -> list[int]:
        """Return the voters that do not count in quorums at the end because a fault took their disk."""
        wiped = {node for inject in self.injects for node in inject.nodes if takes_disk(inject, node)}
        return sorted(id for id in wiped & self.nodes.keys() & {*self.voters} if self.nodes[id].disk.amnesiac)

    def refused_disks(self) -> dict[int, Inject]:
        """Return the nodes that refused their disks when they were last started, each with a fault that had damaged its disk
        since its last boot. They are right to stay down until they get other disks."""
        if self.run.foreign:
            return self._refused_without_traces()
        found = {}
        for node in self.nodes.values():
            if node.boot is not None and node.exit is not None and node.exit.code == CORRUPT_EXIT:
                damage = self.damage_of_disk(node.boot, node.exit)
                if damage is not None:
                    found[node.id] = damage
        return found

    def _refused_without_traces(self) -> dict[int, Inject]:
        """Return the same for nodes of which only the ends are known: since the last damage it refused its disk, and got no
        other."""
        found = {}
        for (node, _), ended in self.ended.items():
            faults = [it for it in self.injects if it.do in DISK_FAULTS and node in it.nodes]
            last = max(faults, key=lambda inject: inject.t, default=None)
            if last is not None and last.do != WIPE and ended.code == CORRUPT_EXIT and ended.t > last.t:
                found[node] = last
        return found

    def damage_of_disk(self, since: Boot, exit_: Exit) -> Inject | None:
        """Return the last fault that damaged the node's disk between a boot and an exit, None if there was none."""
        faults = (it for it in self._between(since, exit_) if it.do in DISK_FAULTS and exit_.node in it.nodes)
        return max(faults, key=lambda inject: inject.t, default=None)

    def beyond_fault_model(self) -> bool:
        """Return whether a quorum of disks was lost and no leader was established since the last of those nodes came back."""
        lost = self.disks_lost()
        if not lost or len(self.voters) - len(lost) >= self.quorum():
            return False
        since = max(boot.t for number in lost if (boot := self.nodes[number].boot) is not None)
        return all(event.t < since for event in self.established)

    def quorum_of_disks_lost_at(self) -> int:
        """Return when the disk was lost with which, in a run beyond the fault model, too few were left for a quorum."""
        losses = []
        for node in self.disks_lost():
            admitted = max((event.t for event in self.members if event.node == node), default=0)
            taken = (inject.t for inject in self.injects if inject.t > admitted and takes_disk(inject, node))
            losses.append(min(taken, default=admitted))
        return sorted(losses)[len(self.voters) - self.quorum()]

    def in_load(self, start: int, end: int) -> str:
        """Return the time span in words, in seconds since the load began."""
        zero, what = self.milestones.get("workload-started"), "the load"
        if zero is None:
            zero, what = self.milestones.get("started"), "the run"
        begin = zero.t if zero is not None else 0
        return f"{(start - begin) / 1e9:.1f} s to {(end - begin) / 1e9:.1f} s of {what}"

    def settled(self) -> Milestone | None:
        """Return the milestone that ends the liveness phase: `converged` or `not-converged`. None if there is neither."""
        return self.milestones.get("converged") or self.milestones.get("not-converged")

    def convergence_seconds(self) -> float | None:
        """Return the time from the healing until the look began that found all nodes equal; None if none did."""
        begin, settled = self.milestones.get("safety-ended"), self.milestones.get("converged")
        if settled is None or begin is None:
            return None
        return (settled.t - begin.t) / 1e9 if settled.seconds is None else settled.seconds

    def why_unsettled(self) -> str:
        """Say why it is not known whether the nodes recovered, in a run that lacks a milestone of the liveness phase."""
        if self.run.outcome == "interrupted":
            return "the run was interrupted before the nodes could recover, so recovery is not judged"
        missing = "converged or not-converged" if "safety-ended" in self.milestones else "safety-ended"
        return f"harness.jsonl has no `{missing}`: it is not known whether the nodes recovered"

    def up_at_end(self) -> list[Node]:
        """Return the correct servers (LADIS 2008): they started, and neither a fault nor they themselves ended them before
        the run was settled."""
        settled = self.settled()
        return [node for _, node in sorted(self.nodes.items()) if self._up(node, settled)]

    def _up(self, node: Node, settled: Milestone | None) -> bool:
        if node.boot is None:
            return False
        if node.exit is not None and (node.exit.code != 0 or settled is None or node.exit.t < settled.t):
            return False
        # Others than our own nodes write no `exit`; when they ended is recorded a little late.
        if self.run.evidence != TRACES and (node.id, node.boot.life) in self.ended:
            return False
        return not any(
            inject.t >= node.boot.t
            and (node.id in ended_processes(inject))
            and (settled is None or inject.t < settled.t)
            for inject in self.injects
        )

    def disk_lost(self, old: Boot, new: Boot) -> bool:
        """Return whether a fault took the node's whole disk between two of its starts."""
        return bool(self.disk_takers(old, new))

    def disk_takers(self, old: Boot, new: Boot) -> list[Inject]:
        """Return the faults that took the node's whole disk between two of its starts."""
        return [inject for inject in self._between(old, new) if takes_disk(inject, new.node)]

    def disk_damaged(self, old: Boot, new: Boot) -> bool:
        """Return whether a fault between two starts took content of the node's disk that the node need not miss.

        Our own nodes must notice all damage that leaves something: they refuse the disk, or still read what they wrote.
        """
        if self.run.evidence == TRACES:
            return self.disk_lost(old, new)
        return any(inject.do in DISK_FAULTS and new.node in inject.nodes for inject in self._between(old, new))

    def file_damages(self, old: Boot, new: Boot) -> list[Inject]:
        """Return the faults that by their evidence changed or removed files of the node's disk between two of its starts."""
        return [inject for inject in self._between(old, new) if damages_files(inject, new.node)]

    def power_cut(self, old: Boot, new: Boot | DiskAfterLife) -> bool:
        """Return whether the node lost power, and so its unsynced bytes, between two readings of its disk."""
        return any(inject.do == POWER_CUT and new.node in inject.nodes for inject in self._between(old, new))

    def damaged_fields(self, old: Boot, new: Boot) -> frozenset[str]:
        """Return which fields of `boot` faults may have changed between two starts of the node, by the files that they
        damaged or removed. Only for ZooKeeper's servers."""
        return frozenset().union(*(fields_damaged_by(inject, new.node) for inject in self._between(old, new)))

    def _between(self, old: Boot, new: Boot | DiskAfterLife | Exit) -> Sequence[Inject]:
        return in_time(self.injects, old.t, new.t)

    @property
    def links_tampered(self) -> bool:
        """Return whether something outside the run changed the links, so that not all faults of the run are known."""
        return any(tampering(heal) for heal in self.heals)

    @property
    def liveness_hindered(self) -> bool:
        """Return whether something besides the known faults may keep what must happen from happening. Use it only at the end of
        a run."""
        failed = self.run.outcome.startswith(HARNESS_FAILED)  # it may have healed nothing, and started no node again
        return failed or self.links_tampered or self.links_not_healed or self.frame_bytes_too_small

    @property
    def links_not_healed(self) -> bool:
        """Return whether links may still be cut or slow because the proxies did not confirm their healing."""
        return any(inject.pairs and inject.id in self.unconfirmed_heals for inject in self.injects)

    @cached_property
    def frame_bytes_too_small(self) -> bool:
        """Return whether nodes could not send something, perhaps because the limits are too small for what clients wrote. Use
        it only at the end of a run."""
        requests = (request.invoke for request in self.requests.values())
        return bool(self.frames_too_large) and not every_frame_fits(self.run.expect, requests)

    def fault_spans(self) -> list[Span]:
        """Return the time of each fault."""
        return [self.span_of(inject) for inject in self.faults]

    def span_of(self, inject: Inject) -> Span:
        """Return the time of a fault, from its injection until it was healed, and nothing speaks against that."""
        healed = self.healed_at.get(inject.id, FOREVER)
        return inject.t, FOREVER if inject.id in self.unconfirmed_heals else healed

    def faults_during(self, start: int, end: int) -> Iterator[Inject]:
        """Find the faults that were injected and not healed at some instant of this time. Use it only at the end of a run."""
        first, after = bisect_left(self._healed_by, start), bisect_right(self.faults, end, key=attrgetter("t"))
        yield from (fault for fault in self.faults[first:after] if self.span_of(fault)[1] >= start)

    @cached_property
    def _healed_by(self) -> list[int]:
        """For each fault, when it and all before it were healed."""
        return list(accumulate((healed for _, healed in self.fault_spans()), max))

    @property
    def ended_by_force(self) -> bool:
        """Return whether the end of the run killed processes that still ran."""
        return not self.milestones.keys().isdisjoint(("leftovers", "interrupted"))

    def was_killed(self, node: int) -> bool:
        """Return whether a fault or the end of the run killed a process of this node."""
        return self.ended_by_force or any(
            node in ended_processes(inject) or (inject.do in KILLS and node in inject.nodes) for inject in self.injects
        )


def in_time(lines: Sequence[_L], start: int, end: int) -> Sequence[_L]:
    """Return those of the lines, whose times ascend, that are in this time."""
    return lines[bisect_left(lines, start, key=attrgetter("t")) : bisect_right(lines, end, key=attrgetter("t"))]


def zxid_of(answer: Complete) -> int | None:
    """Return the zxid that an answer names, None if it names none.

    A refusal that the state decides, but that names no zxid, is based on the state before the first transaction: 0.
    """
    if answer.zxid is not None:
        return packed(answer.zxid)
    return 0 if answer.error in STATE_ERRORS else None


class Answered(Protocol):
    """A line that says how a request ended."""

    @property
    def outcome(self) -> str: ...
    @property
    def error(self) -> str | None: ...


def was_served(answer: Answered) -> bool:
    """Return whether the request succeeded or was refused for its content."""
    return answer.outcome == "ok" or (answer.outcome == "failed" and answer.error not in NOT_SERVED)


def takes_disk(inject: Inject, node: int) -> bool:
    """Return whether the evidence shows that the fault took this node's disk."""
    if inject.do not in (WIPE, REMOVE_FILE) or node not in inject.nodes:
        return False
    return evidence_about(inject, node).get("wiped") is True or (inject.do == WIPE and inject.confirmed)


def damages_files(inject: Inject, node: int) -> bool:
    """Return whether the evidence shows that the fault changed or removed files of this node's disk."""
    if inject.do not in FILE_DAMAGES | {REMOVE_FILE} or not inject.confirmed:
        return False
    shown = evidence_about(inject, node)
    return bool(shown.get("file") or shown.get("files")) and not shown.get("unchanged")


def fields_damaged_by(inject: Inject, node: int) -> frozenset[str]:
    """Return the fields of `boot` that the fault may have changed on this node: all of them if its evidence names no file."""
    if inject.do not in FILE_DAMAGES | {REMOVE_FILE} or node not in inject.nodes:
        return frozenset()
    shown = evidence_about(inject, node)
    files = shown.get("files", [shown["file"]] if "file" in shown else [*EPOCH_FILES, "log"])
    return frozenset(EPOCH_FILES.get(file, "last_zxid") for file in files)


def evidence_of(fault: Fault) -> dict[str, Any]:
    """Return the evidence of a fault by name, empty if it has another form."""
    return fault.evidence if isinstance(fault.evidence, dict) else {}


def evidence_about(fault: Fault, node: int) -> dict[str, Any]:
    """Return the evidence of a fault about one node by name, empty if there is none or it has another form."""
    shown = evidence_of(fault).get(str(node))
    return shown if isinstance(shown, dict) else {}


def ended_processes(fault: Fault) -> dict[int, dict[str, Any]]:
    """Return the processes that a fault ended according to its evidence: node -> {"pid", "exit"}."""
    return {
        int(node): shown
        for node, shown in evidence_of(fault).items()
        if str(node).isdigit() and isinstance(shown, dict) and "exit" in shown
    }


def tampering(fault: Fault) -> list[str]:
    """Describe the changes of links, made from outside the run, that a fault's evidence lists."""
    changes = evidence_of(fault).get("tampered", [])
    return [str(words) for words in changes] if isinstance(changes, list) else [str(changes)]


def cut_link_counters(fault: Fault) -> list[dict[str, Any]]:
    """Return the counters of cut links in a fault's evidence: {"from", "to", "at_inject", "at_heal"}, of frames or of bytes.

    Those of bytes, which the proxies count, also have "sent", the bytes that were sent into the proxies meanwhile.
    """
    found: list[dict[str, Any]] = []
    waiting = [fault.evidence]
    while waiting:
        item = waiting.pop(0)
        if isinstance(item, dict):
            if "at_inject" in item:
                found.append(item)
            else:
                waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return found
