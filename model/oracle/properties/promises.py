"""The checker of what an epoch is based on: who promised it to whom, with which history (DSN 2011, steps f.1.2, f.2.1,
l.2.2)."""

from zab_chaos.model.events import AcceptedEpoch, Boot, Confirmed, Established, Line, Member, Phase, Vote, packed
from zab_chaos.model.oracle.disks import DiskHistory, EpochPromise, JoinedEpoch
from zab_chaos.model.oracle.evidence import node_names, show
from zab_chaos.model.oracle.facts import BY_NODES, Facts
from zab_chaos.model.oracle.properties.checker import Checker


class Promises(Checker):
    """DSN 2011, phases 1 and 2: a follower accepts one leader an epoch, and a quorum of them makes the leader.

    Verifies, by what the followers themselves traced:

    - A node promises an epoch at most once, to one leader, over all its lives on one disk. The leader of an epoch
      promised it before any other node.
    - When a leader is established, it and each node of its quorum had promised it this epoch and had made it their
      current one, with a log that really ended where the leader says that its history ends. They were not amnesiac, and
      they are a quorum.
    - That history ends where the best one, by (f.a, last zxid), of some quorum that promised ended then (step l.1.2).
    - When the leader chose the history, there had been an instant at which a quorum had promised it the epoch, each in
      a life that confirmed this later (docs/protocol.md, lost disks).
    - A node that starts on an empty disk, and had something on a disk that it lost, is amnesiac until it has joined
      an epoch, which then a quorum of others has confirmed. Until then it votes for no node.
    - When it is a member again, the leader of that epoch was established, and a quorum of others had promised the
      epoch, none of them a later one before the node had joined it. Each of them except the leader had confirmed since
      then that it follows it.

    Does not verify that histories are equal (agreement does, once they are delivered), nor promises that a life was killed
    before it could trace.
    """

    name = "promises"
    source = "DSN 2011"
    statement = (
        "A node promises an epoch once, to one leader. A leader is established by a quorum of members that promised and "
        "joined, with the best history among theirs. A node that has lost its disk takes no part until it is a member again."
    )
    judged_from = BY_NODES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._quorums: list[tuple[Established | Member, set[int]]] = []
        self._confirmations: dict[tuple[int, int], list[Confirmed]] = {}  # by (node, epoch)
        # Each choice of a history, with the number of promises that were held at one instant and confirmed later.
        self._choices: list[tuple[Phase, int]] = []
        self._chosen: set[tuple[int, int, int]] = set()  # who made them: (node, life, epoch)
        self._unconfirmed: list[tuple[str, list[Line]]] = []
        # Boots as a member without a traced readmission, with the number of others that had confirmed it.
        self._untraced_members: list[tuple[Boot, JoinedEpoch, int]] = []

    # ---- boots ----

    def on_boot(self, event: Boot) -> None:
        node = self.facts.nodes[event.node]
        if node.boot_comparison is None or event.disk == "amnesiac":
            return
        if not node.boot_comparison.new_disk and node.boot_comparison.amnesiac:
            self._check_untraced_member(event, node.disk.joined.get(event.current_epoch))
        if node.boot_comparison.new_disk and (node.boot_comparison.amnesiac or not node.former_disks[-1].empty):
            self.findings.add(
                f"node {event.node} started on an empty disk as a new member ({event.disk}), although it had promised and "
                "held something on a disk that it lost",
                [node.boot_comparison.before, event],
            )

    def _check_untraced_member(self, boot: Boot, joined: JoinedEpoch | None) -> None:
        """Check that a node that was amnesiac may start as a member: it was killed before it could trace its readmission."""
        if joined is None:
            who = f"node {boot.node} started as a member ({boot.disk})"
            self.findings.add(f"{who}, although it had joined no epoch since it lost its disk", [boot])
            return
        confirmed = [node for node in self.facts.nodes if node != boot.node and self._counts(node, joined)]
        self._untraced_members.append((boot, joined, len(confirmed)))

    def on_vote(self, event: Vote) -> None:
        if event.leader is not None and self.facts.nodes[event.node].disk.amnesiac:
            words = f"node {event.node} voted for node {event.leader}, although it had lost its disk and was no member again"
            self.findings.add(words, [self.facts.nodes[event.node].boot, event])

    # ---- promises ----

    def on_accepted_epoch(self, event: AcceptedEpoch) -> None:
        self.checked += 1
        node = self.facts.nodes[event.node]
        given = node.disk.promises[event.epoch]
        who = f"node {event.node} promised epoch {event.epoch} to node {event.leader}"
        if len(given) > 1:
            first = given[0].event
            self.findings.add(
                f"{who}, which it had promised to node {first.leader} before", [first, event], {event.node}
            )
        elif node.boot is not None and node.boot.accepted_epoch == event.epoch:
            words = f"{who}, which its disk held as promised when it started"
            self.findings.add(words, [node.boot, event], {event.node})
        if (event.epoch, event.leader) not in self.facts.self_promises:
            self.findings.add(f"{who}, which had not promised it itself", [event])

    # ---- the choice of a history ----

    def on_confirmed(self, event: Confirmed) -> None:
        self._confirmations.setdefault((event.node, event.epoch), []).append(event)

    def on_phase(self, event: Phase) -> None:
        """Note that a leader chose a history: it enters synchronization."""
        if event.phase == "SYNCHRONIZATION" and self.facts.nodes[event.node].role == "LEADING":
            self.checked += 1
            self._choices.append((event, self._simultaneous_promises(event)))
            self._chosen.add((event.node, event.life, event.epoch))

    def _simultaneous_promises(self, choice: Phase) -> int:
        """Return the highest number of nodes, the leader included, that held a promise of the epoch at one instant and
        confirmed it later."""
        spans = [span for node in self.facts.nodes if (span := self._promise_span(node, choice)) is not None]
        return 1 + max((sum(first <= t <= last for first, last in spans) for t, _ in spans), default=0)

    def _promise_span(self, node: int, choice: Phase) -> tuple[int, int] | None:
        """Return the time (start, end) in which a follower certainly kept its promise to the leader, None if it is not
        known."""
        given = [
            it.event
            for disk in self.facts.nodes[node].disks
            for it in disk.promises.get(choice.epoch, ())
            if it.event.leader == choice.node and not it.amnesiac
        ]
        confirmed = [it for it in self._confirmations.get((node, choice.epoch), ()) if it.leader == choice.node]
        return next(((it.t, last.t) for it in given for last in confirmed[-1:] if it.life == last.life), None)

    # ---- established leaders ----

    def on_established(self, event: Established) -> None:
        self.checked += 1
        if (event.node, event.life, event.epoch) not in self._chosen:
            words = f"node {event.node} was established for epoch {event.epoch}, for which it had chosen no history"
            self.findings.add(words, [event])
        self._quorums.append((event, set(event.quorum)))
        for node in sorted({*event.quorum, event.node}):
            why = self._missing_ack(node, event)
            if why is not None:
                self.findings.add(
                    f"node {event.node} was established for epoch {event.epoch} with {node_names(sorted(event.quorum))}, but "
                    f"node {node} {why[0]}",
                    [why[1], event],
                )

    def _missing_ack(self, node: int, event: Established) -> tuple[str, Line | None] | None:
        """Return why this node can't have sent its ACK-LD, and the line that shows it; None if it can."""
        found: tuple[str, Line | None] = "had not promised that epoch", None
        for disk in self.facts.nodes[node].disks:
            for promised in disk.promises.get(event.epoch, ()):
                if promised.event.leader != event.node:
                    found = f"had promised that epoch to node {promised.event.leader}", promised.event
                    continue
                if node == event.node and promised.event.life != event.life:
                    found = "had promised that epoch to itself in an earlier life", promised.event
                    continue
                why = _unfit(promised, disk.joined.get(event.epoch), packed(event.last_zxid))
                if why is None:
                    return None
                found = why
        return found

    def _better_history(self, event: Established) -> EpochPromise | None:
        """Return the best promise, if the history that the leader chose was not the best one of any quorum that promised.

        Only promises to this leader matter. It need not have counted all of them, but fewer promises only mean fewer
        quorums. So its choice is right if it is right for some quorum of all promises.
        """
        given = [self._promises_to(node, event) for node in range(1, self.facts.run.nodes + 1)]
        least = sorted(min(it.history for it in promises) for promises in given if promises)
        if len(least) < self.facts.quorum():
            return None  # reported already: a missing ACK-LD, or no quorum
        last = packed(event.last_zxid)
        chosen = max((it.history for promises in given for it in promises if it.history[1] == last), default=(0, -1))
        if least[self.facts.quorum() - 1] <= chosen:
            return None
        return max((it for promises in given for it in promises), key=lambda it: it.history)

    def _promises_to(self, node: int, event: Established) -> list[EpochPromise]:
        """Return this node's promises to the established leader, on any of its disks, made while it was not amnesiac."""
        disks = self.facts.nodes[node].disks if node in self.facts.nodes else []
        return [
            it
            for disk in disks
            for it in disk.promises.get(event.epoch, ())
            if it.event.leader == event.node and not it.amnesiac and it.event.t <= event.t
        ]

    # ---- readmitted members ----

    def on_member(self, event: Member) -> None:
        self.checked += 1
        self._quorums.append((event, set(event.quorum) - {event.node}))
        who = f"node {event.node} became a member in epoch {event.epoch}"
        if not any(it.epoch == event.epoch for it in self.facts.established):
            self.findings.add(f"{who}, for which no leader had been established", [event])
        joined = self.facts.nodes[event.node].disk.joined.get(event.epoch)
        if joined is None or joined.event.life != event.life:
            self.findings.add(f"{who}, which it had not joined in this life", [event])
            return
        for node in sorted(set(event.quorum) - {event.node}):
            if not any(self._could_confirm(disk, joined) for disk in self.facts.nodes[node].disks):
                self.findings.add(
                    f"{who} with node {node}, which did not follow that epoch then", [joined.event, event]
                )
            elif not self._counts(node, joined):
                words = f"{who} with node {node}, which has not confirmed since then that it follows that epoch"
                self._unconfirmed.append((words, [joined.event, event]))

    def _could_confirm(self, disk: DiskHistory, joined: JoinedEpoch) -> bool:
        """Return whether the node of this disk was a member that could still confirm, after `joined`, that it follows the
        epoch.

        A node that was amnesiac when it promised the epoch is a member from its readmission on. The next boot shows a
        promise that a life was killed before it could trace. A disk that was replaced before `joined` could not confirm
        anything any more.
        """
        if disk.successor is not None and disk.successor.t < joined.event.t:
            return False
        epoch = joined.event.epoch
        found = disk.unreported_promises.get(epoch)
        member = (
            epoch in disk.readmissions
            or (found is not None and found.disk != "amnesiac")
            or any(not it.amnesiac for it in disk.promises.get(epoch, []))
        )
        later: list[Line] = [it.event for number, given in disk.promises.items() if number > epoch for it in given]
        later += [boot for number, boot in disk.unreported_promises.items() if number > epoch]
        return member and all(line.t > joined.event.t for line in later)

    def _counts(self, node: int, joined: JoinedEpoch) -> bool:
        """Return whether this node leads the epoch, or has confirmed it since another one joined it."""
        if (joined.event.epoch, node) in self.facts.self_promises:
            return True
        confirmed = self._confirmations.get((node, joined.event.epoch), ())
        return any(it.t > joined.event.t for it in confirmed)

    # ---- quorums ----

    def at_end(self) -> None:
        self._check_confirmations()
        self._check_quorums()

    def _check_confirmations(self) -> None:
        for words, lines in self._unconfirmed:
            self.findings.add(words, lines)
        for boot, joined, number in self._untraced_members:
            if number < self.facts.quorum():
                self.findings.add(
                    f"node {boot.node} started as a member ({boot.disk}), although only {number} others had confirmed epoch "
                    f"{joined.event.epoch} since it joined that without its disk",
                    [joined.event, boot],
                )
        for choice, promises in self._choices:
            if promises < self.facts.quorum():
                self.findings.add(
                    f"node {choice.node} chose the history of epoch {choice.epoch}, and at no time had a quorum promised that "
                    f"epoch and confirmed it later: at most {promises} of the {self.facts.quorum()} needed had",
                    [choice],
                )

    def _check_quorums(self) -> None:
        for event, nodes in self._quorums:
            if len(nodes) < self.facts.quorum():
                what = "was established" if isinstance(event, Established) else "became a member"
                who = node_names(sorted(nodes)) if nodes else "nobody"
                self.findings.add(f"node {event.node} {what} in epoch {event.epoch} with {who}, no quorum", [event])
            elif isinstance(event, Established) and (better := self._better_history(event)) is not None:
                epoch, last = better.history
                self.findings.add(
                    f"node {event.node} was established for epoch {event.epoch} with a history up to "
                    f"{show(packed(event.last_zxid))}, although every quorum that had promised it had a better one: node "
                    f"{better.event.node} had joined epoch {epoch}, with a history up to {show(last)}",
                    [better.event, event],
                )


def _unfit(promised: EpochPromise, joined: JoinedEpoch | None, last: int) -> tuple[str, Line | None] | None:
    if promised.amnesiac:
        return "was amnesiac when it promised", promised.event
    if joined is None:
        return "had not made that epoch its current one", promised.event
    if packed(joined.event.last_zxid) != last:
        return f"had joined it with a history up to {show(joined.event.last_zxid)}", joined.event
    if joined.last != last:
        return f"had a log on disk that ended at {show(joined.last)} when it joined", joined.event
    return None
