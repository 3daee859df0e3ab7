"""What is known of a run so far. The oracle keeps it up to date; every checker reads it and none changes it."""

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from msgspec import Struct

from zab_chaos.model.events import (
    TRACES,
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
    Established,
    Event,
    Exit,
    Fault,
    Heal,
    Inject,
    Invoke,
    Kept,
    Left,
    Link,
    Member,
    Milestone,
    Other,
    Phase,
    Role,
    Run,
    Snapshot,
    Truncate,
    packed,
)
from zab_chaos.model.oracle.broadcasts import Broadcasts, Step
from zab_chaos.model.oracle.changes import Changes
from zab_chaos.model.oracle.disks import Disk, Found, compare
from zab_chaos.model.oracle.effects import Effects
from zab_chaos.model.oracle.ledger import Delivery, Ledger, Place
from zab_chaos.model.oracle.spans import FOREVER, Span
from zab_chaos.model.oracle.znodes import OF_THE_STATE
from zab_chaos.node.tree.refusal import NO_LEADER, OVERLOADED, SUPERSEDED

FLIPS = "corrupt"  # one bit of what a disk held is another one
DAMAGES = frozenset({FLIPS, "truncate-file"})  # part of what a disk held may be gone or changed afterwards
REMOVES = "remove-file"  # whole files are gone
WIPE = "wipe"  # the disk is lost
CRASH_STATE = "crash-state"  # no fault, but a milestone: what a disk could have held at some sync is wrong
POWER_CUT = "power-cut"  # what was not synced is lost
DISK_FAULTS = DAMAGES | {WIPE}
# ZooKeeper's, and the fields of `boot` that tell of them.
EPOCH_FILES = {"acceptedEpoch": "accepted_epoch", "currentEpoch": "current_epoch"}
KILLS = frozenset({"crash", "crash-at", POWER_CUT, "restart"}) | DISK_FAULTS  # these end processes, or need them ended
WRITES = frozenset({"create", "set", "delete", "multi"})
READS = frozenset({"get", "exists", "children"})
UNSERVED = frozenset({NO_LEADER, OVERLOADED, SUPERSEDED})  # refusals that say nothing of the request
ORDERED = WRITES | {"check"}  # these get a transaction, and with it a place in the order


@dataclass(slots=True)
class Life:
    """One life of a node: its start, and the last event seen of it; its phases, and the epochs that it joined."""

    boot: Boot | None
    last: Event
    exit: Exit | None = None
    phases: list[Phase] = field(default_factory=list)
    joined: list[CurrentEpoch] = field(default_factory=list)
    acted_unborn: bool = False  # took part in something before it had written `boot`


@dataclass(slots=True)
class Node:
    """One node: its present life, its disk, and where it stands. `lost`: disks that it had, and what faults took of
    them; `found`: how this life's boot compares with the life before it; `lives`: all that have begun, this one last."""

    id: int
    boot: Boot | None = None
    found: Found | None = None
    lives: list[Life] = field(default_factory=list)
    place: Place = field(default_factory=Place)
    role: str = ""
    phase: str = ""
    exit: Exit | None = None
    disk: Disk = field(default_factory=Disk)
    lost: list[Disk] = field(default_factory=list)
    reached: "array[int]" = field(default_factory=lambda: array("Q"))  # zxids up to which it had delivered, ...
    reached_at: "array[int]" = field(default_factory=lambda: array("q"))  # ... and when, for the first time in any life

    def reach(self, zxid: int, t: int) -> None:
        """It has delivered everything up to `zxid`."""
        if not self.reached or zxid > self.reached[-1]:
            self.reached.append(zxid)
            self.reached_at.append(t)

    def had_delivered(self, zxid: int, t: int) -> bool:
        """Whether some life of it had delivered up to `zxid` by the time `t`."""
        place = bisect_left(self.reached, zxid)
        return place < len(self.reached) and self.reached_at[place] <= t

    def delivered_before(self, t: int) -> int:
        """The zxid up to which the lives of it had delivered before the time `t`; 0: nothing."""
        place = bisect_left(self.reached_at, t)
        return self.reached[place - 1] if place else 0

    @property
    def disks(self) -> list[Disk]:
        """All that it has ever had, the present one first."""
        return [self.disk, *self.lost]


class Nodes(dict[int, Node]):
    """By id. Whoever is asked for is there from then on."""

    def __missing__(self, number: int) -> Node:
        node = self[number] = Node(number)
        return node


class Request(Struct, gc=False):
    """What a client asked, and what it was told; None: it was told nothing. `zxid`: the one that an answer names, or rests on:
    see `zxid_of`."""

    invoke: Invoke
    complete: Complete | None = None
    zxid: int | None = None


class Write(Struct, gc=False):
    """A write that a client saw succeed."""

    zxid: int
    invoke: Invoke
    complete: Complete


@dataclass(frozen=True, slots=True)
class Damage:
    """A place where a file does not say what happened. `excusable`: only an incomplete last line."""

    file: str
    line: int
    why: str
    node: int | None = None
    excusable: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.why}" if self.line else f"{self.file} {self.why}"


class Facts:
    """The shared state. Traces, operations, faults and milestones may come in any order among each other."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.broadcasts = Broadcasts()
        self.nodes = Nodes()
        self.lives: dict[tuple[int, int], Life] = {}
        self.zombies: list[tuple[Event, Boot]] = []  # an event of a life after the next life had begun
        self.led: dict[tuple[int, int], AcceptedEpoch] = {}  # (epoch, node): what a node promised to itself
        self.established: list[Established] = []
        self.highest_established = 0  # epoch
        self.deliveries = 0  # transactions, each time that some node delivered one
        self.leads: list[Role] = []  # a node began to lead
        self.members: list[Member] = []
        self.links: list[Link] = []
        self.heard: dict[tuple[int, int], Channel] = {}  # by (node, life): the first that tells of frames of that life
        self.visits: dict[tuple[int, int], list[Client]] = {}  # by node and client: when it came, and when it left
        self.requests: dict[tuple[int, int], Request] = {}  # by client and seq
        self.last_seq: dict[int, int] = {}  # by client: of the request that it sent last
        self.acked: list[Write] = []
        self.outcomes = {"ok": 0, "failed": 0, "unknown": 0}
        self.write_outcomes = {"ok": 0, "failed": 0, "unknown": 0}
        self.latencies = array("q")  # of successful operations, nanoseconds from the time they were due
        self.writes_done = array("q")  # when a write succeeded
        self.refusals = array("q")  # when a write was refused for what it asked
        self.faults_due = 0  # at least so many injections must be on record
        self.injects: list[Inject] = []
        self.injected: set[int | str] = set()  # their ids
        self.heals: list[Heal] = []
        self.healed: set[int | str] = set()
        self.told = 0  # lines of sessions.jsonl
        self.tree: list[Kept] = []  # what all servers showed alike in the end
        self.milestones: dict[str, Milestone] = {}  # the last of each name
        self.ended: dict[tuple[int, int], Milestone] = {}  # by (node, life): the harness saw that it ended by itself
        self.before: set[tuple[int, int]] = set()  # whose (client, seq) transactions lay on disks before the start
        self.damages: list[Damage] = []
        self.run = Run(nodes=1)

    # ---- the traces ----

    def count(self, event: Event) -> bool:
        """Every event goes here first. False if it is of no further use: its life should have been over, or its place
        in the node's history is not known."""
        number, n = event.life, event.n
        life = self.lives.get((event.node, number))
        if life is None:
            life = self.lives[event.node, number] = Life(None, event)
            if n != 1:
                self._gap(event, 1)
        elif n != life.last.n + 1:
            self._gap(event, life.last.n + 1)
        life.last = event
        if type(event) is Boot:
            if n != 1:
                self.damages.append(Damage(event.file, event.line or n, "boots in the middle of a life"))
            life.boot = event
        elif life.boot is None and not self._before_boot(life, event):
            return False
        present = self.nodes[event.node].boot
        if present is not None and number < present.life:
            self.zombies.append((event, present))
            return False
        return True

    def _before_boot(self, life: Life, event: Event) -> bool:
        """A life that can't read its disk ends without `boot`. It may say why, but it takes part in nothing."""
        if isinstance(event, Exit | Abort | Other):
            return True
        if not life.acted_unborn:
            life.acted_unborn = True
            self.damages.append(Damage(event.file, event.line or event.n, "acts without having written `boot`"))
        return False

    def _gap(self, event: Event, expected: int) -> None:
        self.damages.append(Damage(event.file, event.line or event.n, f"has event {event.n}, {expected} was next"))

    def boot(self, event: Boot) -> bool:
        """A new life. False if its snapshot is no point of the ledger."""
        node = self.nodes[event.node]
        disk, node.found = node.disk, None
        if node.boot is not None:
            node.found = compare(event, node.boot, disk, (node.role, node.phase) == ("LEADING", "DISCOVERY"))
            if node.found.new_disk:
                node.lost.append(disk)
                for lost in node.lost:
                    lost.successor = lost.successor or event
                node.disk = disk = Disk()
            elif packed(event.last_zxid) < disk.log.last:
                node.lost.append(replace(disk, log=disk.log.copy()))
        disk.boot(event)
        node.lives.append(self.lives[event.node, event.life])
        node.boot, node.exit, node.role, node.phase = event, None, "", ""
        node.reach(packed(event.snapshot_zxid), event.t)
        node.place = Place()
        return self.ledger.restore(node.place, packed(event.snapshot_zxid))

    def deliver(self, event: Deliver) -> Delivery:
        node = self.nodes[event.node]
        delivery = self.ledger.deliver(node.place, event)
        self.deliveries += len(delivery.digests)
        node.reach(delivery.last, event.t)
        disk = node.disk
        if delivery.last >= disk.top_last:
            disk.top, disk.top_last = event, delivery.last
        return delivery

    def broadcast(self, event: Broadcast) -> Step:
        return self.broadcasts.add(event, self.nodes[event.node].place.last)

    def accept(self, event: Accept) -> int:
        """Returns where the node's log ended before."""
        disk = self.nodes[event.node].disk
        before = disk.log.last
        disk.accept(event)
        return before

    def snapshot(self, event: Snapshot) -> bool:
        """A snapshot. False if it was to replace the node's state and is no point of the ledger."""
        node, zxid = self.nodes[event.node], packed(event.zxid)
        if event.kind == "installed":
            node.disk.install(event)
        if event.kind != "restored":
            return True
        node.reach(zxid, event.t)
        return self.ledger.restore(node.place, zxid)

    def at(self, event: Event) -> None:
        """Small changes of a node's state."""
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
                    self.leads.append(event)
            case AcceptedEpoch():
                node.disk.promise(event)
                if event.leader == event.node:
                    self.led.setdefault((event.epoch, event.node), event)
            case CurrentEpoch():
                node.disk.join(event)
                node.lives[-1].joined.append(event)
            case Member():
                node.disk.admit(event)
                self.members.append(event)
            case Link():
                self.links.append(event)
            case Client():
                self.visits.setdefault((event.node, event.client), []).append(event)
            case Channel():
                self.heard.setdefault((event.peer, event.incarnation), event)
            case Exit():
                node.exit = self.lives[event.node, event.life].exit = event
            case Established():
                self.established.append(event)
                self.highest_established = max(self.highest_established, event.epoch)
            case _:
                pass

    # ---- the clients ----

    def invoke(self, operation: Invoke) -> None:
        key = (operation.client, operation.seq)
        if key in self.requests:
            self.damages.append(Damage(operation.file, operation.line, "invokes an operation a second time"))
            return
        if operation.t < operation.due:
            self.damages.append(Damage(operation.file, operation.line, "sends a request before it was due"))
        if operation.seq < self.last_seq.get(operation.client, 0):
            self.damages.append(Damage(operation.file, operation.line, "sends a request with a number that was passed"))
        self.last_seq[operation.client] = operation.seq
        self.requests[key] = Request(operation)

    def complete(self, operation: Complete) -> Invoke | None:
        """An answer. Its question, or None if there was none."""
        request = self.requests.get((operation.client, operation.seq))
        if request is None or request.complete is not None:
            self.damages.append(
                Damage(operation.file, operation.line, "completes an operation that waits for no answer")
            )
            return None
        request.complete, question = operation, request.invoke
        if operation.t < question.t:
            self.damages.append(Damage(operation.file, operation.line, "answers a request before it was sent"))
        request.zxid = zxid_of(operation)
        write = question.op in WRITES
        for counts in (self.outcomes, self.write_outcomes) if write else (self.outcomes,):
            counts[operation.outcome] += 1
        if write and operation.outcome == "failed" and _judged(operation):
            self.refusals.append(operation.t)
        if operation.outcome == "ok":
            self.latencies.append(operation.t - question.due)
            if write:
                self.writes_done.append(operation.t)
                if request.zxid is not None:
                    self.acked.append(Write(request.zxid, question, operation))
        return question

    def write_waits(self) -> list[Span]:
        """When each write was due, and when it was answered (`FOREVER`: never)."""
        return [
            (one.invoke.due, one.complete.t if one.complete is not None else FOREVER)
            for one in self.requests.values()
            if one.invoke.op in WRITES
        ]

    def waited(self) -> list[tuple[int, int, int]]:
        """The writes that were not done: the node that was asked, when that was, and when the client gave up, or went on to
        another node."""
        found = []
        next_asked: dict[int, tuple[int | None, int, int]] = {}  # by client: the node, when, and when another one was
        for request in reversed(self.requests.values()):
            question, answer = request.invoke, request.complete
            node, t, other = next_asked.get(question.client, (question.node, 0, FOREVER))
            other = other if question.node == node else t
            next_asked[question.client] = question.node, question.t, other
            done = answer is not None and _judged(answer)
            if question.op in WRITES and question.node is not None and not done:
                found.append((question.node, question.t, min(other, answer.t) if answer else other))
        return found

    # ---- the faults ----

    def inject(self, fault: Inject) -> None:
        if fault.id in self.injected:
            self.damages.append(Damage(fault.file, fault.line, f"injects fault {fault.id} a second time"))
        self.injected.add(fault.id)
        self.injects.append(fault)

    def heal(self, fault: Heal) -> None:
        """Fault 0 is none in particular: a healing of last resort."""
        if fault.id and (fault.id not in self.injected or fault.id in self.healed):
            self.damages.append(Damage(fault.file, fault.line, f"heals fault {fault.id}, which is not there"))
        self.healed.add(fault.id)
        self.heals.append(fault)

    # ---- what is known at the end ----

    @cached_property
    def effects(self) -> Effects:
        """What the delivered transactions did."""
        return Effects(self.ledger, self.broadcasts)

    @cached_property
    def changes(self) -> Changes:
        """What became of each znode."""
        return Changes(self.ledger, self.effects, whole="converged" in self.milestones)

    def unanswered(self) -> list[Invoke]:
        """The operations of which nothing was heard any more."""
        return [request.invoke for request in self.requests.values() if request.complete is None]

    def quorum(self) -> int:
        return self.run.nodes // 2 + 1

    def disks_lost(self) -> list[int]:
        """The nodes that are out of the quorums at the end because a fault took their disk."""
        wiped = {node for inject in self.injects for node in inject.nodes if takes_disk(inject, node)}
        return sorted(node.id for node in self.nodes.values() if node.disk.amnesiac and node.id in wiped)

    def beyond_fault_model(self) -> bool:
        """A quorum of disks was lost, and since the last of them came back nobody was established."""
        lost = self.disks_lost()
        if not lost or self.run.nodes - len(lost) >= self.quorum():
            return False
        since = max(boot.t for number in lost if (boot := self.nodes[number].boot) is not None)
        return all(event.t < since for event in self.established)

    def settled(self) -> Milestone | None:
        """The end of the liveness phase: `converged`, or `not-converged`."""
        return self.milestones.get("converged") or self.milestones.get("not-converged")

    def up_at_end(self) -> list[Node]:
        """The correct servers (LADIS 2008): started, not ended by a fault or by themselves before the run was settled."""
        settled = self.settled()
        return [node for _, node in sorted(self.nodes.items()) if self._up(node, settled)]

    def _up(self, node: Node, settled: Milestone | None) -> bool:
        if node.boot is None:
            return False
        if node.exit is not None and (node.exit.code != 0 or settled is None or node.exit.t < settled.t):
            return False
        return not any(
            inject.t >= node.boot.t and (node.id in killed(inject)) and (settled is None or inject.t < settled.t)
            for inject in self.injects
        )

    def disk_lost(self, old: Boot, new: Boot) -> bool:
        """Whether a fault took the whole disk of the node, between two of its starts."""
        return any(takes_disk(inject, new.node) for inject in self._between(old, new))

    def disk_damaged(self, old: Boot, new: Boot) -> bool:
        """Whether a fault took something that the node's disk held, between two of its starts, or changed it so that the
        node need not notice. A flipped bit it has to: our own nodes refuse such a disk, or read what they had written."""
        excused = DISK_FAULTS - {FLIPS} if self.run.evidence == TRACES else DISK_FAULTS
        return any(inject.do in excused and new.node in inject.nodes for inject in self._between(old, new))

    def power_cut(self, old: Boot, new: Boot | Left) -> bool:
        """Whether the power of the node was cut between two readings of its disk, and with it what was not synced."""
        return any(inject.do == POWER_CUT and new.node in inject.nodes for inject in self._between(old, new))

    def harmed(self, old: Boot, new: Boot) -> frozenset[str]:
        """What of the node's disk faults have damaged or removed between two of its starts, by the fields of `boot` that tell
        of it. Only for ZooKeeper's servers."""
        return frozenset().union(*(harmed(inject, new.node) for inject in self._between(old, new)))

    def _between(self, old: Boot, new: Boot | Left) -> list[Inject]:
        return [inject for inject in self.injects if old.t <= inject.t <= new.t]

    @property
    def tampered(self) -> bool:
        """Whether somebody else changed the links: the faults of this run are not all known."""
        return any(tampered(heal) for heal in self.heals)

    def was_killed(self, node: int) -> bool:
        """Whether some fault, or the end of the run, ended a process of this node by force."""
        forced = {"leftovers", "interrupted"} & self.milestones.keys()
        return bool(forced) or any(
            node in killed(inject) or (inject.do in KILLS and node in inject.nodes) for inject in self.injects
        )


def zxid_of(answer: Complete) -> int | None:
    """The zxid that an answer names. A refusal for a reason of the state that names none rests on a state before the first
    transaction."""
    if answer.zxid is not None:
        return packed(answer.zxid)
    return 0 if answer.error in OF_THE_STATE else None


def _judged(answer: Complete) -> bool:
    """Whether the request was done, or refused for what it asked."""
    return answer.outcome == "ok" or (answer.outcome == "failed" and answer.error not in UNSERVED)


def takes_disk(inject: Inject, node: int) -> bool:
    """Whether a fault shows that it has taken this node's disk."""
    if inject.do != WIPE or node not in inject.nodes:
        return False
    shown = evidence(inject).get(str(node))
    return inject.confirmed or (isinstance(shown, dict) and shown.get("wiped") is True)


def harmed(inject: Inject, node: int) -> frozenset[str]:
    """What a fault shows to have damaged or removed of this node's disk: fields of `boot`. All of them, if it does not show
    what it did."""
    if inject.do not in DAMAGES | {REMOVES} or node not in inject.nodes:
        return frozenset()
    shown = evidence(inject).get(str(node))
    told = shown if isinstance(shown, dict) else {}
    files = told.get("files", [told["file"]] if "file" in told else [*EPOCH_FILES, "log"])
    return frozenset(EPOCH_FILES.get(file, "last_zxid") for file in files)


def evidence(fault: Fault) -> dict[str, Any]:
    """What a fault's line shows, by name; nothing if it is of another form."""
    return fault.evidence if isinstance(fault.evidence, dict) else {}


def killed(fault: Fault) -> dict[int, dict[str, Any]]:
    """What a fault's evidence says of the processes that it ended: node -> {"pid", "exit"}."""
    return {
        int(node): shown
        for node, shown in evidence(fault).items()
        if str(node).isdigit() and isinstance(shown, dict) and "exit" in shown
    }


def tampered(fault: Fault) -> list[str]:
    """What a fault's evidence says of changes that somebody else made to the links, in words."""
    told = evidence(fault).get("tampered", [])
    return [str(words) for words in told] if isinstance(told, list) else [str(told)]


def crossings(fault: Fault) -> list[dict[str, Any]]:
    """The frame counters of cut links in a fault's evidence: {"from", "to", "at_inject", "at_heal"}."""
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
