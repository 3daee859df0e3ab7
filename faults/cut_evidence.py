"""The confirmation of cut links by the frame counters of the receivers."""

from collections.abc import Iterable
from typing import Any

from zab_chaos.faults.cluster import Cluster
from zab_chaos.faults.host import Host

# Seconds without a frame after which a link counts as quiet; longer than the interval of heartbeats, which every link carries.
QUIET = 0.15
STEP = 0.03  # seconds between two readings


class FrameWitness:
    """Reads the frame counters of the receivers of cut links, once the cut has settled and again before it is healed.

    The first reading of a receiver that is paused when the links are cut is put off until it runs again.
    """

    def __init__(self, cluster: Cluster, pairs: Iterable[tuple[int, int]], host: Host) -> None:
        self.cluster = cluster
        self.host = host
        self.pairs = sorted(pairs)
        self._pids: dict[int, int | None] = {}  # process ids by receiver, when the cut had settled
        self._at_inject: dict[tuple[int, int], int] = {}
        self._unread: set[int] = set()  # receivers that have not been read since the cut had settled
        # By receiver that could not be read then: its latest counts, and since when they have not changed.
        self._late_counts: dict[int, tuple[dict[int, int], float]] = {}

    def settle(self, seconds: float) -> bool:
        """Wait until no counter has grown for a while: frames in flight when the link was cut may still arrive.

        Return False if frames kept arriving for `seconds`. The last reading is the reference for `links`.
        """
        deadline = self.host.now() + seconds
        reference, since = self._read(), self.host.now()
        while self.host.now() - since < QUIET:
            self.host.sleep(STEP)
            now = self._read()
            if now != reference:
                reference, since = now, self.host.now()
            if self.host.now() > deadline:
                break
        self._late_counts = {}
        self._pids = {target: self.cluster.pid(target) for _, target in self.pairs}
        self._at_inject = self._by_pair(reference)
        self._unread = self._pids.keys() - reference.keys()
        return self.host.now() - since >= QUIET

    def watch(self) -> bool:
        """Read receivers that were paused, once they have received what was sent before the cut. Return whether any is left."""
        now = self.host.now()
        for receiver, counts in self._read(self._unread).items():
            before, since = self._late_counts.setdefault(receiver, (counts, now))
            if counts != before:
                self._late_counts[receiver] = counts, now
            elif now - since >= QUIET:
                self._at_inject |= self._by_pair({receiver: counts})
                self._unread.discard(receiver)
        return bool(self._unread)

    def wait(self, seconds: float) -> None:
        """Wait up to `seconds` until receivers that run again have received what was sent before the cut."""
        deadline = self.host.now() + seconds
        while self.host.now() < deadline and any(map(self._running, self._unread)):
            self.watch()
            self.host.sleep(STEP)

    def links(self) -> list[dict[str, Any]]:
        """Return `{"from", "to", "at_inject", "at_heal"}` for each link whose receiver answers now.

        A receiver that was restarted during the cut began to count at 0. A receiver without a first reading is left out.
        """
        # First, because a receiver may die after it answers.
        pids = {target: self.cluster.pid(target) for _, target in self.pairs}
        at_heal = self._by_pair(self._read())
        found = []
        for pair in self.pairs:
            if pair not in at_heal:
                continue
            restarted = pids[pair[1]] != self._pids.get(pair[1])
            at_inject = 0 if restarted else self._at_inject.get(pair)
            if at_inject is not None:
                found.append({"from": pair[0], "to": pair[1], "at_inject": at_inject, "at_heal": at_heal[pair]})
        return found

    def no_receiver_up(self) -> bool:
        """Return whether no receiver can receive a frame now: each of them is down or paused."""
        return not any(self._running(target) for _, target in self.pairs)

    def _running(self, node: int) -> bool:
        return self.cluster.alive(node) and not self.cluster.paused(node)

    def _read(self, receivers: Iterable[int] | None = None) -> dict[int, dict[int, int]]:
        """Return the frame counters of the receivers that answer: by receiver, by sender."""
        answers = {}
        for receiver in sorted({target for _, target in self.pairs} if receivers is None else receivers):
            if self._running(receiver):
                status = self.cluster.status(receiver, timeout=1.0)
                if status is not None:
                    cut = {source for source, target in self.pairs if target == receiver}
                    answers[receiver] = {source: count for source, count in status.frames.items() if source in cut}
        return answers

    def _by_pair(self, answers: dict[int, dict[int, int]]) -> dict[tuple[int, int], int]:
        return {pair: answers[pair[1]].get(pair[0], 0) for pair in self.pairs if pair[1] in answers}


def frames_crossed(links: Iterable[dict[str, Any]]) -> bool:
    """Return whether some receiver received frames over one of these links (see `FrameWitness.links`) while it was cut."""
    return any(link["at_inject"] != link["at_heal"] for link in links)
