"""The confirmation of cut links: by the frame counters of the receivers, or by the bytes that the proxies count."""

from collections.abc import Iterable, Mapping
from typing import Any

from zab_chaos.faults.cluster import Cluster
from zab_chaos.faults.host import Host
from zab_chaos.faults.network import Network, Pair, Traffic

# Seconds without a change after which what was in flight when a link was cut counts as delivered. Whether the link is cut is
# shown by the whole time from then until it is healed, so nothing is assumed about how often nodes send.
QUIET = 0.15
STEP = 0.03  # seconds between two readings


class LinkWitness:
    """Reads what has passed cut links, once the cut has settled and again before it is healed.

    There are two counters. Our own nodes count the frames that they receive, and a foreign system's backend may name such
    counts too. The first reading of a receiver that is paused when the links are cut is put off until it runs again. The
    proxies of the foreign systems' links count bytes (`Network.traffic`). `detours`: the connections that were seen to avoid
    cut links.
    """

    def __init__(
        self, cluster: Cluster, pairs: Iterable[tuple[int, int]], host: Host, network: Network | None = None
    ) -> None:
        self.cluster = cluster
        self.host = host
        self.pairs = sorted(pairs)
        self.detours: list[str] = []
        self._network = network
        self._cut: Mapping[Pair, Traffic] = {}  # just after the links were cut
        self._settled: Mapping[Pair, Traffic] = {}  # when it had settled
        self._pids: dict[int, int | None] = {}  # process ids by receiver, when the cut had settled
        self._at_inject: dict[tuple[int, int], int] = {}
        self._unread: set[int] = set()  # receivers that have not been read since the cut had settled
        # By receiver that could not be read then: its latest counts, and since when they have not changed.
        self._late_counts: dict[int, tuple[dict[int, int], float]] = {}

    def settle(self, seconds: float) -> bool:
        """Wait until no counter has grown for a while: what was in flight when the link was cut may still arrive.

        Return False if something kept arriving for `seconds`. The last reading is the reference for `links`. Raises
        NetworkError.
        """
        deadline = self.host.now() + seconds
        self._cut = self._settled = self._traffic()
        reference, since = self._read(), self.host.now()
        while self.host.now() - since < QUIET:
            self.host.sleep(STEP)
            now, traffic = self._read(), self._traffic()
            if now != reference or self._passed(traffic) != self._passed(self._settled):
                reference, since = now, self.host.now()
            self._settled = traffic
            if self.host.now() > deadline:
                break
        self._note_detours()
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
        """Wait up to `seconds` until receivers that run again have received what was sent before the cut.

        Where the proxies count bytes, this is not needed, and a receiver may have no counts that could be read.
        """
        deadline = self.host.now() + seconds
        counted = {target for _, target in self._settled}
        while self.host.now() < deadline and any(map(self._running, self._unread - counted)):
            self.watch()
            self.host.sleep(STEP)

    def links(self) -> list[dict[str, Any]]:
        """Return `{"from", "to", "at_inject", "at_heal"}` for each link whose receiver answers now and counts frames.

        A receiver that was restarted during the cut began to count at 0. A receiver without a first reading is left out. For
        each link whose proxies count bytes there is the same with the bytes that have passed, and in addition `sent`, the bytes
        that were sent into its proxies meanwhile. Raises NetworkError.
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
        self._note_detours()
        return found + self._bytes()

    def _bytes(self) -> list[dict[str, Any]]:
        now = self._traffic()
        return [
            {
                "from": pair[0],
                "to": pair[1],
                "at_inject": self._settled[pair].passed,
                "at_heal": now[pair].passed,
                "sent": now[pair].sent - self._cut[pair].sent,
            }
            for pair in self.pairs
            if pair in now and pair in self._settled
        ]

    def _traffic(self) -> Mapping[Pair, Traffic]:
        return self._network.traffic() if self._network is not None else {}

    def _passed(self, traffic: Mapping[Pair, Traffic]) -> list[int]:
        return [traffic[pair].passed for pair in self.pairs if pair in traffic]

    def _note_detours(self) -> None:
        found = self._network.detours() if self._network is not None else {}
        self.detours += [words for pair, words in found.items() if pair in self.pairs and words not in self.detours]

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
        return {pair: answers[pair[1]][pair[0]] for pair in self.pairs if pair[0] in answers.get(pair[1], ())}


def was_crossed(links: Iterable[dict[str, Any]]) -> bool:
    """Return whether something has passed one of these links (see `LinkWitness.links`) while it was cut."""
    return any(link["at_inject"] != link["at_heal"] for link in links)


def were_used(links: Iterable[dict[str, Any]]) -> bool:
    """Return whether anything was ever sent over one of these links, before or while it was cut; True if only frames that
    arrive are counted."""
    counts = [link for link in links if "sent" in link]
    return not counts or any(link["at_inject"] or link["sent"] for link in counts)
