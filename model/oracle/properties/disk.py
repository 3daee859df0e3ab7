"""The checker of what a boot finds on the disk: all that was durable, and nothing else."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from zab_chaos.model.events import (
    Accept,
    Boot,
    CurrentEpoch,
    Exit,
    Line,
    Snapshot,
    TraceEvent,
    Truncate,
    Work,
    ZxidPair,
    packed,
)
from zab_chaos.model.oracle.disks import BootComparison
from zab_chaos.model.oracle.evidence import show
from zab_chaos.model.oracle.facts import BY_NODES, Facts
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.node.store.errors import CORRUPT_EXIT

STEP = 1000  # nanoseconds; in simulated time the events of one instant differ by less


class DiskContents(Checker):
    """zab-chaos: a node may rely on what it has made durable, and on nothing else.

    Verifies for every boot of a node that has lived before, by what its traces reported as durable:

    - f.p, f.a and the end of the log are not lower, unless a fault took the node's disk between the two starts and the
      node says that it has no memory (`amnesiac`). A flipped bit excuses nothing. A log may also end earlier if the boot
      shows that a later epoch was joined, but never before what any node had delivered of it.
    - Anything beyond that must have been on its way: an epoch that its leader had promised, a transaction that its
      primary had broadcast.
    - The log has nothing of an epoch later than f.a: an initial history is durable together with its epoch, or not at
      all (step f.2.1).
    - A start on an empty disk (`fresh` or `amnesiac`) needs a fault that took the disk. Nothing else excuses it.
    - A node refuses its disk as damaged only after a fault that damaged this disk.

    Verifies within a life that accepted transactions continue the log where it ends (the first of an epoch: where the
    history of its primary ended), and that truncations and joined epochs name that end. By a node's own counters (`work`), it
    sends no more ACKs than it syncs its log, nor than it traces what it has accepted (step f.3.2), and it syncs its log if it
    traces that anything is durable; if run.json says `times_are_exact`, once for each instant at which it does. In the
    simulator it also verifies what a crash at any sync could have left on the disk (`crash-state`). A node first starts with a
    new disk, or with the one that the scenario describes. Does not verify the recovered bytes, which the deliveries show.
    """

    name = "disk"
    source = "zab-chaos"
    statement = (
        "A log grows only at its end, and is synced before each ACK. A restarted node finds all that was durable and nothing "
        "that was never written. Only faults lose disks."
    )
    judged_from = BY_NODES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._new_disks: list[BootComparison] = []
        self._suspects: list[tuple[BootComparison, str, Sequence[Line | None]]] = []
        self._first_boots: dict[int, Boot] = {}  # by node: the first boot on its present disk
        self._work: dict[int, Work] = {}  # by node: the last `work` of this life
        self._accepts: Counter[int] = Counter()  # by node: `accept` events since then, or since its boot
        # By node: since the same, the first event of each step that was durable.
        self._durable: defaultdict[int, list[TraceEvent]] = defaultdict(list)
        self._latest: dict[int, int] = {}  # by node: the time of the latest such event
        # For fewer syncs than such steps: their number, the two counts, and the first step without one between these.
        self._unsynced: list[tuple[int, Work | None, TraceEvent, Work]] = []
        self._refusals: list[tuple[Boot, Exit]] = []  # nodes that refused their disks, each with the first boot on that

    def on_boot(self, event: Boot) -> None:
        self._accepts.pop(event.node, None)
        self._work.pop(event.node, None)
        self._durable.pop(event.node, None)
        comparison = self.facts.nodes[event.node].boot_comparison
        if comparison is None or comparison.new_disk:
            self._first_boots[event.node] = event
        if comparison is None:
            return
        self.checked += 1
        if comparison.new_disk:
            self._new_disks.append(comparison)
            return
        self._check_epochs(comparison)
        self._check_log(comparison)

    def on_exit(self, event: Exit) -> None:
        first = self._first_boots.get(event.node)
        if event.code == CORRUPT_EXIT and first is not None:
            self.checked += 1
            self._refusals.append((first, event))

    def on_work(self, event: Work) -> None:
        """Check the ACKs and syncs since the counters were traced last. A node traces them when nothing waits for its disk."""
        self.checked += 1
        before = self._work.get(event.node)
        accepted, durable = self._accepts.pop(event.node, 0), self._durable.pop(event.node, [])
        self._work[event.node] = event
        syncs, acks = event.syncs, event.messages.get("ACK", 0)
        if before is not None:
            syncs, acks = syncs - before.syncs, acks - before.messages.get("ACK", 0)
        if acks > min(accepted, syncs):
            words = f"between two counts node {event.node} sent {acks} ACKs, but synced its log {syncs} times"
            traced = f"traced {accepted} times that it had accepted something"
            self.findings.add(f"{words} and {traced}", [before, event], {event.node})
        if lacking := durable[max(syncs, 0) :]:
            self._unsynced.append((syncs, before, lacking[0], event))

    def _became_durable(self, event: TraceEvent) -> None:
        """Take note of what a node traces as durable. Events of one instant are of one step, which needs one sync."""
        node, now = event.node, event.t
        if now - self._latest.get(node, 0) > STEP:
            self._durable[node].append(event)
        self._latest[node] = now

    on_accepted_epoch = on_member = _became_durable

    def _check_syncs(self) -> None:
        """Check that nodes synced their logs for what they traced as durable. On a machine the events of one step have
        different times, so there one sync may be for all."""
        exact = self.facts.run.expect.get("times_are_exact")
        for syncs, before, lacking, count in self._unsynced:
            if exact or syncs <= 0:
                words = f"between two counts node {count.node} synced its log {syncs} times"
                words += ", which is too few for what it traced as durable"
                self.findings.add(words, [before, lacking, count], {count.node})

    def on_accept(self, event: Accept) -> None:
        self._accepts[event.node] += 1
        self._became_durable(event)

    def on_snapshot(self, event: Snapshot) -> None:
        if event.kind == "installed":
            self._became_durable(event)

    def on_nonconsecutive_accept(self, event: Accept, before: int) -> None:
        if event.first > 1 or not self._precedes(before, event.epoch):
            words = f"node {event.node} accepted {show(event.zxid)}, which does not continue its log: that ended at"
            primaries = self.facts.broadcasts.epochs.get(event.epoch) if event.first == 1 else None
            begin = (
                f"; epoch {event.epoch} began after {show(packed(primaries[0].events[0].delivered))}"
                if primaries
                else ""
            )
            self.findings.add(f"{words} {show(before)}{begin}", [event], {event.node} if event.first > 1 else None)

    def _precedes(self, last: int, epoch: int) -> bool:
        """Return whether a primary of the epoch had delivered up to `last` when it began, or no primary is known."""
        primaries = self.facts.broadcasts.epochs.get(epoch)
        return not primaries or any(packed(it.events[0].delivered) == last for it in primaries)

    def on_truncate(self, event: Truncate) -> None:
        self._became_durable(event)
        self._check_end(event, "truncated its log from", event.last, self.facts.nodes[event.node].disk.truncated_from)

    def on_current_epoch(self, event: CurrentEpoch) -> None:
        self._became_durable(event)
        did = f"joined epoch {event.epoch} with a history up to"
        self._check_end(event, did, event.last_zxid, self.facts.nodes[event.node].disk.log.last)

    def _check_end(self, event: Truncate | CurrentEpoch, did: str, traced: ZxidPair, last: int) -> None:
        """Check the end of the log that an event names against `last`, the end according to the earlier events."""
        self.checked += 1
        if packed(traced) != last:
            words = f"node {event.node} {did} {show(traced)}, but its log ended at {show(last)}"
            self.findings.add(words, [event], {event.node})

    def at_end(self) -> None:
        self._check_syncs()
        for (_, number), life in sorted(self.facts.lives.items()):
            if number == 1 and life.boot is not None:
                self._check_first_boot(life.boot)
        for comparison in self._new_disks:
            boot, before = comparison.boot, comparison.before
            if not self.facts.disk_lost(before, boot):
                self.findings.add(
                    f"node {boot.node} started on an empty disk ({boot.disk}), and no fault had taken the one that it had",
                    [before, boot],
                    {boot.node},
                )
        for first, refusal in self._refusals:
            if self.facts.damage_of_disk(first, refusal) is None:
                words = f"node {refusal.node} refused its disk, which no fault had damaged: {refusal.why}"
                self.findings.add(words, [first, refusal], {refusal.node})
        for wrong in self.facts.crash_states:
            self.findings.add(f"node {wrong.node} in its life {wrong.life}: {wrong.why}", [wrong], frozenset())
        for comparison, words, lines in self._suspects:
            boot = comparison.boot
            if boot.disk != "amnesiac" or not self.facts.disk_damaged(comparison.before, boot):
                self.findings.add(words, lines, {boot.node})

    def _check_epochs(self, comparison: BootComparison) -> None:
        boot, who = comparison.boot, f"node {comparison.boot.node}"
        for name, held, now, line in (
            ("f.p", comparison.accepted_epoch, boot.accepted_epoch, comparison.accepted_in),
            ("f.a", comparison.current_epoch, boot.current_epoch, comparison.current_in),
        ):
            if now < held:
                words = f"{who} started with {name} = {now}, but its disk had held {name} = {held}"
                self._suspects.append((comparison, words, [line, boot]))
            elif now > held and not self._proposed(now, comparison):
                self.findings.add(
                    f"{who} started with {name} = {now}, but its disk had held {name} = {held}, and no leader had "
                    f"proposed epoch {now}",
                    [line, boot],
                )

    def _proposed(self, epoch: int, comparison: BootComparison) -> bool:
        """Return whether some node was to lead this epoch. The node itself may have died before it could trace that: it was to
        lead the next epoch after all that nodes had promised, or an earlier one."""
        if any(epoch == known for known, _ in self.facts.self_promises):
            return True
        disks = [disk for node in self.facts.nodes.values() for disk in node.disks]
        own = self.facts.nodes[comparison.boot.node].disk
        known = max([comparison.accepted_epoch, *(disk.accepted_epoch for disk in disks if disk is not own)])
        return comparison.own_epoch and epoch <= known + 1

    def _check_log(self, comparison: BootComparison) -> None:
        boot, last = comparison.boot, packed(comparison.boot.last_zxid)
        who = f"node {boot.node} started with a log that ends at {show(last)}, but"
        if last >> 32 > boot.current_epoch:
            words = f"{who} f.a = {boot.current_epoch}: it holds some of the history of an epoch that it had not joined"
            self._suspects.append((comparison, words, [comparison.current_in, boot]))
        if last < comparison.highest_delivered:
            words = f"{who} on this disk it had delivered up to {show(comparison.highest_delivered)}"
            self._suspects.append((comparison, words, [comparison.highest_delivery, boot]))
        elif last < comparison.last and boot.current_epoch == comparison.current_epoch:
            words = f"{who} its disk had held the log up to {show(comparison.last)}"
            self._suspects.append((comparison, words, [comparison.last_in, boot]))
        elif last < (delivered := self._delivered_upto(comparison.last)):
            words = (
                f"{who} its disk had held the log up to {show(comparison.last)}, and {show(delivered)} was delivered"
            )
            self._suspects.append((comparison, words, [comparison.last_in, boot]))
        elif last > comparison.last and not self.facts.broadcasts.has(last):
            self.findings.add(f"{who} nobody had broadcast that", [comparison.last_in, boot])

    def _delivered_upto(self, zxid: int) -> int:
        """Return the last zxid up to this one that some node has delivered, 0 if there is none."""
        history = self.facts.history
        number = history.count_below(zxid + 1)
        return history.zxids[number - 1] if number else 0

    def _check_first_boot(self, boot: Boot) -> None:
        """Check that a node first starts with the disk that it was given: a new one, or the one that the scenario describes."""
        given = self.facts.initial_disks.get(boot.node)
        if given is None:
            right = boot.disk == "fresh" and boot.found_nothing
        else:
            held = given.accepted_epoch, given.current_epoch, given.last_zxid
            right = held == (boot.accepted_epoch, boot.current_epoch, boot.last_zxid) and boot.disk != "amnesiac"
        self.checked += 1
        if not right:
            had = "new" if given is None else "written before the run"
            words = f"node {boot.node} first started with a disk ({boot.disk}) that is not the one that was {had}"
            self.findings.add(words, [given, boot])
