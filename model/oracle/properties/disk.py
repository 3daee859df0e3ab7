"""What was durable is there at the next boot, and nothing else is."""

from collections.abc import Sequence

from zab_chaos.model.events import Accept, Boot, CurrentEpoch, Line, Truncate, ZxidPair, packed
from zab_chaos.model.oracle.disks import BootComparison
from zab_chaos.model.oracle.evidence import show
from zab_chaos.model.oracle.facts import CRASH_STATE, Facts
from zab_chaos.model.oracle.properties.checker import Checker


class DiskContents(Checker):
    """zab-chaos: a node may rely on what it has made durable, and on nothing that it has not.

    Verifies, for every boot of a node that has lived before, against what its traces said was durable: f.p, f.a and the
    log's end are not lower, unless a fault took this node's disk or cut its files between the two starts; a flipped bit
    excuses nothing, except with nodes that are not ours (a log may also end earlier where the boot shows that a later
    epoch was joined, but never before what this node had delivered on this disk). What is there beyond that must have been
    on its way: an epoch that its leader had promised, a transaction that its primary had broadcast. Within a life, what is
    accepted continues the log where it ends (an epoch, where its primary's history ended), and a truncation and a joined
    epoch name that end. The log has nothing of an epoch later than f.a: an initial history is durable with its epoch, or
    not at all (step f.2.1). A start on an empty disk (`fresh` or `amnesiac`) needs a fault that took the disk; nothing
    else excuses it. In the simulator also what a disk could have held (`crash-state`). Does not verify the first boot of a
    node, nor the bytes that were recovered: the deliveries show them.
    """

    name = "disk"
    source = "zab-chaos"
    statement = (
        "A restarted node finds all that was durable and nothing that was never written. Only faults lose disks."
    )

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._new_disks: list[BootComparison] = []
        self._suspects: list[tuple[BootComparison, str, Sequence[Line | None]]] = []

    def on_boot(self, event: Boot, _known: bool) -> None:
        found = self.facts.nodes[event.node].boot_comparison
        if found is None:
            return
        self.checked += 1
        if found.new_disk:
            self._new_disks.append(found)
            return
        self._epochs(found)
        self._log(found)

    def on_nonconsecutive_accept(self, event: Accept, before: int) -> None:
        if event.first > 1 or not self._precedes(before, event.epoch):
            words = f"node {event.node} accepted {show(event.zxid)}, which does not continue its log: that ended at"
            self.findings.add(f"{words} {show(before)}", [event])

    def _precedes(self, last: int, epoch: int) -> bool:
        """Whether a primary of the epoch, as far as one is known, had delivered up to there when it began."""
        primaries = self.facts.broadcasts.epochs.get(epoch)
        return not primaries or any(packed(it.events[0].delivered) == last for it in primaries)

    def on_truncate(self, event: Truncate) -> None:
        self._ends(event, "truncated its log from", event.last, self.facts.nodes[event.node].disk.truncated_from)

    def on_current_epoch(self, event: CurrentEpoch) -> None:
        who = f"joined epoch {event.epoch} with a history up to"
        self._ends(event, who, event.last_zxid, self.facts.nodes[event.node].disk.log.last)

    def _ends(self, event: Truncate | CurrentEpoch, did: str, said: ZxidPair, last: int) -> None:
        """What it says of the end of its log must be what its events have made of it."""
        self.checked += 1
        if packed(said) != last:
            self.findings.add(f"node {event.node} {did} {show(said)}, but its log ended at {show(last)}", [event])

    def at_end(self) -> None:
        for found in self._new_disks:
            boot, before = found.boot, found.before
            if not self.facts.disk_lost(before, boot):
                self.findings.add(
                    f"node {boot.node} started on an empty disk ({boot.disk}), and no fault had taken the one that it had",
                    [before, boot],
                )
        wrong = self.facts.milestones.get(CRASH_STATE)
        if wrong is not None:
            self.findings.add(f"node {wrong.node} in its life {wrong.life}: {wrong.why}", [wrong])
        for found, words, lines in self._suspects:
            if not self.facts.disk_damaged(found.before, found.boot):
                self.findings.add(words, lines)

    def _epochs(self, found: BootComparison) -> None:
        boot, who = found.boot, f"node {found.boot.node}"
        for name, held, now, line in (
            ("f.p", found.accepted_epoch, boot.accepted_epoch, found.accepted_in),
            ("f.a", found.current_epoch, boot.current_epoch, found.current_in),
        ):
            if now < held:
                words = f"{who} started with {name} = {now}, but its disk had held {name} = {held}"
                self._suspects.append((found, words, [line, boot]))
            elif now > held and not self._proposed(now, found):
                self.findings.add(
                    f"{who} started with {name} = {now}, but its disk had held {name} = {held}, and no leader had "
                    f"proposed epoch {now}",
                    [line, boot],
                )

    def _proposed(self, epoch: int, found: BootComparison) -> bool:
        """Whether somebody was to lead this epoch; the node itself may have died before it could say so."""
        return found.own_epoch or any(epoch == known for known, _ in self.facts.self_promises)

    def _log(self, found: BootComparison) -> None:
        boot, last = found.boot, packed(found.boot.last_zxid)
        who = f"node {boot.node} started with a log that ends at {show(last)}, but"
        if last >> 32 > boot.current_epoch:
            words = f"{who} f.a = {boot.current_epoch}: it holds some of the history of an epoch that it had not joined"
            self._suspects.append((found, words, [found.current_in, boot]))
        if last < found.highest_delivered:
            words = f"{who} on this disk it had delivered up to {show(found.highest_delivered)}"
            self._suspects.append((found, words, [found.highest_delivery, boot]))
        elif last < found.last and boot.current_epoch == found.current_epoch:
            words = f"{who} its disk had held the log up to {show(found.last)}"
            self._suspects.append((found, words, [found.last_in, boot]))
        elif last > found.last and not self.facts.broadcasts.has(last):
            self.findings.add(f"{who} nobody had broadcast that", [found.last_in, boot])
