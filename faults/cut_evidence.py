"""Confirms cut links by the frame counters of the receivers."""

from collections.abc import Iterable
from typing import Any

from zab_chaos.faults.cluster import Cluster
from zab_chaos.faults.host import Host

QUIET = 0.15  # seconds without a frame; longer than a heartbeat, which every link that is up carries
STEP = 0.03


class FrameWitness:
    """Reads how many frames each receiver has taken from each sender, when the cut has settled and before it is
    healed. A receiver that sleeps when the links are cut is first read when it is awake again."""

    def __init__(self, cluster: Cluster, pairs: Iterable[tuple[int, int]], host: Host) -> None:
        self.cluster = cluster
        self.host = host
        self.pairs = sorted(pairs)
        self._processes: dict[int, int | None] = {}  # by receiver, when the cut had settled
        self._at_inject: dict[tuple[int, int], int] = {}
        self._asleep: set[int] = set()  # receivers that could not be asked when the cut had settled, nor since
        self._woken: dict[int, tuple[dict[int, int], float]] = {}  # what they say since, and since when they say it

    def settle(self, seconds: float) -> bool:
        """Wait until no counter has moved for a while: what was under way when the link was cut may still arrive.

        False if frames kept coming for `seconds`. The counters read last are the reference.
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
        self._processes = {target: self.cluster.pid(target) for _, target in self.pairs}
        self._at_inject = self._by_pair(reference)
        self._asleep = self._processes.keys() - reference.keys()
        return self.host.now() - since >= QUIET

    def watch(self) -> bool:
        """Read those that slept, once they have taken what had come before the cut. True while there are such."""
        now = self.host.now()
        for receiver, counts in self._read(self._asleep).items():
            before, since = self._woken.setdefault(receiver, (counts, now))
            if counts != before:
                self._woken[receiver] = counts, now
            elif now - since >= QUIET:
                self._at_inject |= self._by_pair({receiver: counts})
                self._asleep.discard(receiver)
        return bool(self._asleep)

    def wait(self, seconds: float) -> None:
        """Wait for those that have only just woken up to have taken what had come before the cut."""
        deadline = self.host.now() + seconds
        while self.host.now() < deadline and any(map(self._awake, self._asleep)):
            self.watch()
            self.host.sleep(STEP)

    def links(self) -> list[dict[str, Any]]:
        """`{"from", "to", "at_inject", "at_heal"}` for each link whose receiver can be asked now.

        A receiver that started during the cut began to count at 0. One that could not be asked before is left out.
        """
        at_heal = self._by_pair(self._read())
        found = []
        for pair in self.pairs:
            if pair not in at_heal:
                continue
            reborn = self.cluster.pid(pair[1]) != self._processes.get(pair[1])
            at_inject = 0 if reborn else self._at_inject.get(pair)
            if at_inject is not None:
                found.append({"from": pair[0], "to": pair[1], "at_inject": at_inject, "at_heal": at_heal[pair]})
        return found

    def no_receiver_up(self) -> bool:
        """Whether no receiver can take a frame now: each of them is down or paused."""
        return not any(self._awake(target) for _, target in self.pairs)

    def _awake(self, node: int) -> bool:
        return self.cluster.alive(node) and not self.cluster.paused(node)

    def _read(self, receivers: Iterable[int] | None = None) -> dict[int, dict[int, int]]:
        """Receiver to frames by sender, of those that answer."""
        answers = {}
        for receiver in sorted({target for _, target in self.pairs} if receivers is None else receivers):
            if self._awake(receiver):
                status = self.cluster.status(receiver, timeout=1.0)
                if status is not None:
                    cut = {source for source, target in self.pairs if target == receiver}
                    answers[receiver] = {source: count for source, count in status.frames.items() if source in cut}
        return answers

    def _by_pair(self, answers: dict[int, dict[int, int]]) -> dict[tuple[int, int], int]:
        return {pair: answers[pair[1]].get(pair[0], 0) for pair in self.pairs if pair[1] in answers}


def frames_crossed(links: Iterable[dict[str, Any]]) -> bool:
    """Whether some receiver has taken frames over a link of `FrameWitness.links` while it was cut."""
    return any(link["at_inject"] != link["at_heal"] for link in links)
