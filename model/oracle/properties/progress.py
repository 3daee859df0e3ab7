"""Liveness in the middle of a run (LADIS 2008, section 2: as long as a quorum is up and connected)."""

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from zab_chaos.model.oracle.evidence import node_names
from zab_chaos.model.oracle.facts import Facts, Request
from zab_chaos.model.oracle.possible_leaders import LeaderWindow, PossibleLeaders
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.oracle.service import RequestStay, ServiceTimes
from zab_chaos.model.oracle.spans import FOREVER, Span, difference, intersection, merged

WITHIN = 15.0  # seconds, where run.json says nothing
ELECTIONS = 10  # how often nodes that could have a leader may begin to lead before one of them is established
SECOND = 1_000_000_000


class Progress(Checker):
    """LADIS 2008: as long as a quorum is up and connected, the service goes on.

    Verifies that nothing is delivered for the first time (and no write is refused for what it asks) for longer than
    `progress_within` only where nobody could have led, or nobody wanted to write. A node could have led while it and
    enough others for a quorum lived, were members, had their links to it open on both sides (or reopened them at once), and
    no fault was at them or at those links; the time counts from when all that began, and from every fault that touched
    the leader of the time. A write that was sent to one of them must have been waiting meanwhile. In a time as long, whether
    anybody writes or not, some node must be an established leader, nodes may begin to lead at most `ELECTIONS` times before one
    is, and whoever follows the leader that there is has no request for longer than `answered_within`, if run.json gives that.
    Does not verify what happens while faults are at too many nodes, nor how fast single writes are.
    """

    name = "progress"
    source = "LADIS 2008"
    statement = (
        "While a quorum is up and reaches a possible leader, writes succeed within the time bound, also during the run, and "
        "whoever follows that leader leaves no request unanswered."
    )
    liveness = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._told: list[Span] = []

    def at_end(self) -> None:
        facts = self.facts
        if facts.beyond_fault_model():
            self.not_applicable = "a quorum of disks was lost"
            return
        bound = int((self.expected("progress_within") or WITHIN) * SECOND)
        answered = self.expected("answered_within")
        if self.unknown:
            return
        self._patience = int(answered * SECOND) if answered is not None else FOREVER
        self._service = ServiceTimes(facts)
        served = self._served()
        self.checked = len(served)
        idle, livelocks = list(self._idle(served, bound)), list(self._livelocks())
        waited, leaderless = list(self._waited()), list(self._leaderless(bound))
        if not idle and not livelocks and not waited and not leaderless:
            return
        windows = list(self._windows(bound))
        for window in windows:
            for start, end in self._stalls(window, idle, bound):
                self._report(
                    window, start, end, f"nothing was delivered for {(end - start) / 1e9:.1f} s, though writes waited"
                )
            for start, end in intersection(leaderless, [(window.start, window.end)]):
                if end - start > bound:
                    self._report(window, start, end, f"no leader was established for {(end - start) / 1e9:.1f} s")
            for start, end, times in livelocks:
                low, high = max(start, window.start), min(end, window.end)
                begun = bisect_right(times, high) - bisect_left(times, low)
                if high - low > bound and begun > ELECTIONS:
                    self._report(window, low, high, f"nodes began to lead {begun} times, and none was established")
        could = {node: list(self._calm(node, windows)) for node in {stay.node for _, stay in waited}}
        for request, stay in waited:
            self._left_waiting(request, stay, could[stay.node])

    def _waited(self) -> Iterator[tuple[Request, RequestStay]]:
        """The requests that a node had for longer than they should take."""
        for request in self.facts.requests.values():
            if request.complete is not None and request.complete.t - request.invoke.t > self._patience:
                stay = self._service.had(request)
                if stay is not None and stay.end - stay.start > self._patience:
                    yield request, stay

    def _calm(self, node: int, windows: list[LeaderWindow]) -> Iterator[tuple[int, list[Span]]]:
        """When a node could answer, by the leader that it followed then: that one and enough others were well."""
        for leader, led in self._service.led(node):
            calm = [(it.start, it.end) for it in windows if it.node == leader and node in {leader, *it.peers}]
            yield leader, intersection(led, calm)

    def _left_waiting(self, request: Request, stay: RequestStay, could: list[tuple[int, list[Span]]]) -> None:
        """Whether the node could have answered all the time."""
        for leader, calm in could:
            for start, end in intersection(calm, [(stay.start, stay.end)]):
                if end - start > self._patience:
                    invoke = request.invoke
                    self.findings.add(
                        f"node {stay.node}, under the leader node {leader}, left client {invoke.client}, seq {invoke.seq} "
                        f"({invoke.op}), without an answer for {(end - start) / 1e9:.1f} s",
                        [invoke, request.complete],
                    )
                    return

    def _served(self) -> list[int]:
        """When somebody was served."""
        return sorted([*self.facts.history.growth_times(), *self.facts.refusals])

    def _windows(self, bound: int) -> Iterator[LeaderWindow]:
        """When somebody could have led."""
        return PossibleLeaders(self.facts, bound // 5).windows()

    def _report(self, window: LeaderWindow, start: int, end: int, what: str) -> None:
        if any(low <= start and end <= high for low, high in self._told):
            return  # another node could have led in the same time
        self._told.append((start, end))
        zero = self.facts.milestones.get("workload-started")
        since = (
            f"{(start - zero.t) / 1e9:.1f} s to {(end - zero.t) / 1e9:.1f} s of the load"
            if zero
            else f"{start} to {end}"
        )
        self.findings.add(f"{what} ({since}); {self._who(window)}", [])

    def _who(self, window: LeaderWindow) -> str:
        return f"node {window.node} could have led, it reached {node_names(sorted(window.peers))}"

    def _idle(self, served: list[int], bound: int) -> Iterator[Span]:
        """When nothing was served for longer than the bound."""
        dues = [due for due, _ in self.facts.write_waits()]
        if not dues:
            return
        stopped = self.facts.milestones.get("workload-stopped")
        end = stopped.t if stopped is not None else max(*dues, *served, 0)
        first = min(dues)
        times = [first, *(t for t in served if first < t < end), end]
        yield from ((a, b) for a, b in itertools.pairwise(times) if b - a > bound)

    def _stalls(self, window: LeaderWindow, idle: list[Span], bound: int) -> list[Span]:
        """The idle times that last longer than the bound while this node could have led and writes waited for it."""
        times = intersection(idle, [(window.start, window.end)])
        if not any(end - start > bound for start, end in times):
            return []
        nodes = {window.node, *window.peers}
        waiting = [(asked, t) for node, asked, t in self.facts.unserved_writes() if node in nodes]
        return [(a, b) for a, b in intersection(times, merged(waiting, bound // 4)) if b - a > bound]

    def _leaderless(self, bound: int) -> Iterator[Span]:
        """When nobody was an established leader for longer than the bound."""
        yield from (span for span in difference([(0, FOREVER)], self._service.leading()) if span[1] - span[0] > bound)

    def _livelocks(self) -> Iterator[tuple[int, int, list[int]]]:
        """Between two establishments: the times at which nodes began to lead, if they are too many."""
        done = sorted(event.t for event in self.facts.established)
        times = sorted(event.t for event in self.facts.began_to_lead)
        for start, end in zip([0, *done], [*done, max([*times, 0])], strict=True):
            begun = times[bisect_right(times, start) : bisect_right(times, end)]
            if len(begun) > ELECTIONS:
                yield start, end, begun
