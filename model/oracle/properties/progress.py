"""The checker of liveness during the run (LADIS 2008, section 2: as long as a quorum is up and connected)."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain, product

from zab_chaos.model.events import Complete, Invoke, Link, Phase, Role, TraceEvent, Vote
from zab_chaos.model.oracle.client_conduct import ClientConduct, Misconduct
from zab_chaos.model.oracle.evidence import node_names, zxid_range
from zab_chaos.model.oracle.facts import GAP, WIPE, WRITES, Facts, Request, ended_processes, was_served
from zab_chaos.model.oracle.following import Following
from zab_chaos.model.oracle.possible_leaders import LeaderWindow, PossibleLeaders
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.oracle.service import RequestStay, ServiceTimes
from zab_chaos.model.oracle.spans import FOREVER, SECOND, Span, difference, gaps, intersection, longer, merged
from zab_chaos.node.clients.protocol import CLIENT_CLOSED, REFUSED
from zab_chaos.node.core.broadcast import EXHAUSTED

DEFAULT_BOUND = 15.0  # seconds, if run.json gives no `progress_within`
MAX_ELECTIONS = 10  # how often nodes may begin to lead before one of them is established, while some node could lead
KILLED_AT_ONCE = frozenset({"crash", "restart", WIPE})  # faults
ROUND = SECOND // 100  # one round of a node takes less; in it a session may end, and the node react to what came before
CONNECTS = SECOND // 10  # a client that is closed sooner may not have been connected yet


class Progress(Checker):
    """LADIS 2008: as long as a quorum is up and connected, the service goes on.

    A node could have led while it and enough others for a quorum lived, were members, had their links to it open on both
    sides (or reopened them at once), and no fault affected them or those links. This time starts anew with every fault that
    affects the leader of that time. Faults do not count that make a message, a sync or a clock only slightly slower.

    Verifies for every such time:

    - If a write that was sent to one of these nodes waits, something but fences is delivered for the first time (or a write is
      refused for its content) within `progress_within`. A client that is closed, or rejected by its node, within `CONNECTS`
      has not waited.
    - With or without writes, some node is an established leader within `progress_within`.
    - If it is longer than `progress_within`, nodes begin to lead at most `MAX_ELECTIONS` times before one is established.
    - If run.json says that `delays_are_bounded`, leaders are established at most `MAX_ELECTIONS` times within three times
      `progress_within`. One is not counted for each fault that begins or ends, each lost frame and each exhausted counter.
    - A member that reaches an established leader, and a quorum that follows it, follows it within `progress_within`. Within
      that time it delivers what that leader has delivered. If clients wait at it, each for a quarter of that time or longer,
      it answers one of them within that time, too, if run.json says that `links_are_reliable` or gives `answered_within`.
    - A node that was elected to follow another one joins it within `progress_within` if that one is an established leader,
      and leaves it if that one follows somebody. The two were undisturbed, with the link between them open.
    - A node that has lost its disk is a member again within `progress_within` if it reaches an established leader that could
      have led all the time.
    - An established leader gives up within `progress_within` if its open links reach too few members for a quorum.
    - A node that follows the leader answers every request within `answered_within`, if run.json gives that. So does an
      undisturbed node that has no leader (it refuses what it can't serve). The time starts anew whenever a request is
      answered that was sent earlier: an ensemble with more to do than it can serves one after the other.

    Verifies at any time:

    - If run.json says that `clients_know_all_nodes`: no client sends another write over a connection on which its writes were
      refused for `STAYS` for want of a leader. No client with something to send is without a connection for longer than
      `GREETS` times one more than there are nodes, while one of them could greet it.
    - If run.json says that `clients_are_awake`, and while the clients together sent something all the time: no client waits
      for longer than `LEAVES` for the answer of a node that was paused, or has started again, since the request was sent. No
      client's connection breaks to a node that runs on, and that no fault has affected for `LEAVES`.
    - A node that has forgotten a client says so when the client sends it something: the client does not wait until its timeout.
    - If run.json gives `noticed_within`: a session ends within that time after its peer's process is gone, if no fault affects
      the node or the link meanwhile. The end of the connection shows it. And for no longer than `ROUND` a node votes for or
      follows one that it has no session with, unless a fault affects it.
    - A leader that resigns because its counter is exhausted has delivered all that it broadcast: no write is unknown for that.

    If each client of the load asked a last question after everything was healed (`last-question`), verifies that each got an
    answer in time, to this or to an earlier request.

    Does not verify what happens while faults affect too many nodes, nor how fast single writes are. `STAYS`, `GREETS` and
    `LEAVES` are bounds of `client_conduct`.
    """

    name = "progress"
    source = "LADIS 2008"
    statement = (
        "While a quorum is up and reaches a possible leader, writes succeed within the time bound, also during the run, and "
        "whoever follows that leader leaves no request unanswered."
    )
    liveness = True
    idle = "nothing was delivered"

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._reported: list[Span] = []
        self._roles: dict[tuple[int, int], list[Role]] = {}  # by (node, life)
        self._links: dict[tuple[int, int, int], Link] = {}  # by (node, life, peer): the last change of the link
        self._choices: dict[tuple[int, int], int | None] = {}  # by (node, life): for whom it votes, or whom it follows
        # By the same, while a node has no session with the node of its choice: since when.
        self._alone: dict[tuple[int, int], TraceEvent] = {}
        # The beginning and the end of each such time that is long, with the node of its choice.
        self._lonely: list[tuple[TraceEvent, TraceEvent, int]] = []
        self._sessions: list[tuple[Link, Link]] = []  # the beginning and the end of each session that was closed

    def on_role(self, event: Role) -> None:
        self._roles.setdefault((event.node, event.life), []).append(event)
        if event.why == EXHAUSTED:
            self._check_resignation(event)
        self._choose(event, event.leader if event.role == "FOLLOWING" else None)

    def on_link(self, event: Link) -> None:
        opened = self._links.get((event.node, event.life, event.peer))
        self._links[event.node, event.life, event.peer] = event
        if self._choices.get((event.node, event.life)) == event.peer:
            self._end_alone(event)
            if event.state == "closed":
                self._alone[event.node, event.life] = event
        if event.state == "closed" and opened is not None:
            self._sessions.append((opened, event))

    def on_vote(self, event: Vote) -> None:
        self._choose(event, event.leader)

    def at_end(self) -> None:
        self._check()
        if self.facts.beyond_fault_model() and not self.findings:
            self.not_applicable = "a quorum of disks was lost"

    def _check(self) -> None:
        facts = self.facts
        self._bound = int((self.expected("progress_within") or DEFAULT_BOUND) * SECOND)
        answered = self.expected("answered_within")
        self._service = ServiceTimes(facts)
        self._check_admissions()
        if self.unknown:
            return
        self._check_last_questions()
        self._check_clients()
        self._answer_bound = int(answered * SECOND) if answered is not None else FOREVER
        self._check_followers()
        self._check_support()
        noticed = self.expected("noticed_within")
        if noticed is not None and not facts.damaged():
            self._check_ends(int(noticed * SECOND))
            self._check_choices()
        if facts.run.expect.get("delays_are_bounded"):
            self._check_changes()
        if facts.run.expect.get("links_are_reliable") or answered is not None:
            self._check_service()
        self._check_windows()

    def _check_windows(self) -> None:
        """Check the times in which some node could have led."""
        bound, served = self._bound, self._served()
        self.checked += len(served)
        idle, livelocks = list(self._idle(served, bound)), list(self._livelocks())
        delayed, leaderless = list(self._delayed_requests()), list(self._leaderless(bound))
        if not idle and not livelocks and not delayed and not leaderless:
            return
        for window in self._leader_windows:
            for start, end in self._stalls(window, idle, bound):
                self._report(window, start, end, f"{self.idle} for {(end - start) / 1e9:.1f} s, though writes waited")
            for start, end in longer(intersection(leaderless, [(window.start, window.end)]), bound):
                self._report(window, start, end, f"no leader was established for {(end - start) / 1e9:.1f} s")
            for start, end, times in livelocks:
                low, high = max(start, window.start), min(end, window.end)
                begun = bisect_right(times, high) - bisect_left(times, low)
                if high - low > bound and begun > MAX_ELECTIONS:
                    self._report(window, low, high, f"nodes began to lead {begun} times, and none was established")
        undisturbed = {node: list(self._undisturbed(node)) for node in {stay.node for _, stay in delayed}}
        for request, stay in delayed:
            self._check_delayed(request, stay, undisturbed[stay.node])

    def _choose(self, event: Role | Vote, leader: int | None) -> None:
        """Take note that a node votes for this leader now, or follows it."""
        life = event.node, event.life
        self._end_alone(event)
        self._choices[life] = leader
        link = self._links.get((*life, leader or 0))
        if link is not None and link.state == "closed":
            self._alone[life] = event

    def _end_alone(self, event: Role | Vote | Link) -> None:
        """Take note that a node has chosen anew, or has a session with the node of its choice again."""
        since = self._alone.pop((event.node, event.life), None)
        if since is not None and event.t - since.t > ROUND:
            self._lonely.append((since, event, self._choices[event.node, event.life] or 0))

    def _check_resignation(self, event: Role) -> None:
        node = self.facts.nodes[event.node]
        delivered = node.position.last
        for primary in self.facts.broadcasts.epochs.get(node.disk.current_epoch, ()):
            last = primary.epoch << 32 | len(primary.digests)
            if (primary.node, primary.life) == (event.node, event.life) and last > delivered:
                words = f"node {event.node} resigned before it had delivered {zxid_range(delivered + 1, last)}"
                self.findings.add(f"{words}: {EXHAUSTED}", [primary.events[-1], event])

    def _check_last_questions(self) -> None:
        """Check that each client was served in time after everything was healed, unless the run was interrupted or a quorum of
        disks is lost."""
        milestones = self.facts.milestones
        asked = milestones.get("last-question")
        if asked is None or asked.seconds is None or "interrupted" in milestones or self.facts.beyond_fault_model():
            return
        end = asked.t + int(asked.seconds * SECOND)
        questions: dict[int, list[Request]] = {}  # by client
        served: set[int] = set()  # clients with an answer since, be it to an earlier request
        for request in self.facts.requests.values():
            client, answer = request.invoke.client, request.complete
            if request.invoke.t > asked.t:
                questions.setdefault(client, []).append(request)
            if answer is not None and answer.outcome == "ok" and asked.t < answer.t <= end:
                served.add(client)
        self.checked += len(questions)
        for client, requests in questions.items():
            if client not in served:
                self.findings.add(
                    f"client {client} was not served in the {asked.seconds:g} s after everything was healed",
                    [*self._last_service(client), asked, requests[0].invoke, requests[-1].complete],
                )

    def _last_service(self, client: int) -> list[Invoke | Complete]:
        """Return the last answer that served this client, and its first request after that with what became of it."""
        requests = [it for it in self.facts.requests.values() if it.invoke.client == client]
        last = next((it for it in reversed(requests) if it.complete is not None and was_served(it.complete)), None)
        after = next((it for it in requests if last is None or it.invoke.seq > last.invoke.seq), None)
        found = [last.complete if last else None, after.invoke if after else None, after.complete if after else None]
        return [line for line in found if line is not None]

    def _check_clients(self) -> None:
        """Check what the client library promises."""
        facts, conduct = self.facts, ClientConduct(self.facts, self._possible)
        if facts.damaged():
            return
        if facts.run.expect.get("clients_know_all_nodes") and facts.run.nodes > 1:
            self._add(conduct.staying_without_leader(), conduct.staying_without_connection())
        self._add(conduct.waiting_where_forgotten())
        if facts.run.expect.get("clients_are_awake"):
            self._add(conduct.staying_at_silent_node(), conduct.losing_connection())

    def _add(self, *found: Iterator[Misconduct]) -> None:
        for words, lines in chain.from_iterable(found):
            self.findings.add(words, lines)

    def _check_followers(self) -> None:
        """Check that nodes join the leader that they follow, and wait for no node that follows somebody itself."""
        for node in list(self.facts.nodes):
            for role, wait in self._followings(node, until_joined=True):
                if wait[1] - wait[0] > self._bound:
                    self._check_wait(role, wait)
        following = Following(self.facts, self._service, self._possible, self._bound)
        for node, leader, (start, end) in following.left_out():
            self.findings.add(
                f"node {node} reached the leader, node {leader}, and a quorum that followed it, and did not join it for "
                f"{(end - start) / 1e9:.1f} s ({self.facts.in_load(start, end)})",
                self._course([node, leader], start, end),
            )
        for node, leader, (start, end) in following.behind():
            self.findings.add(
                f"node {node} did not deliver in time what its leader, node {leader}, had delivered: it was behind for more "
                f"than {(end - start) / 1e9:.1f} s ({self.facts.in_load(start, end)})",
                self._course([node, leader], start, end),
            )

    def _check_wait(self, role: Role, wait: Span) -> None:
        """Check the time in which a node waited for the node that it was elected to follow."""
        leader = role.leader or 0
        together = intersection([wait], self._possible.connected(role.node, leader))
        if not together:
            return
        follows = [span for _, span in self._followings(leader)]
        for times, what in ((self._service.led_by(leader), "led"), (follows, "followed another one")):
            for start, end in longer(intersection(together, times), self._bound):
                self.findings.add(
                    f"node {role.node} waited for node {leader} for {(end - start) / 1e9:.1f} s "
                    f"({self.facts.in_load(start, end)}), which {what}",
                    self._course([role.node, leader], start, end),
                )

    @cached_property
    def _changes(self) -> dict[int, list[Role | Phase]]:
        """The changes of role and phase of each node, in order of time. Most runs need none of them."""
        found: dict[int, list[Role | Phase]] = {}
        for number, node in self.facts.nodes.items():
            changes = found[number] = []
            for life in node.lives:
                changes += self._roles.get((number, life.last.life), [])
                changes += life.phases
            changes.sort(key=lambda event: (event.t, event.life, event.n))
        return found

    def _course(self, nodes: Iterable[int], start: int, end: int) -> list[Role | Phase]:
        """Return, for each node, in which role and phase it was at `start`, and what it changed to first after that and, if
        that was by `end`, first after `end`; in order of time."""
        found: list[Role | Phase] = []
        for node in nodes:
            changes = self._changes.get(node, [])  # a node that never ran has none
            before, after = (bisect_right(changes, t, key=lambda event: event.t) for t in (start, end))
            found += [changes[it] for it in sorted({before - 1, before, after}) if 0 <= it < len(changes)]
        return sorted(found, key=lambda event: (event.t, event.node, event.n))

    def _followings(self, node: int, *, until_joined: bool = False) -> Iterator[tuple[Role, Span]]:
        """Find the times in which a node followed another one; if `until_joined`, only until it was in broadcast."""
        for life in self.facts.nodes[node].lives:
            events: list[Role | Phase] = [*self._roles.get((node, life.last.life), [])]
            if until_joined:
                events += [phase for phase in life.phases if phase.phase == "BROADCAST"]
                events.sort(key=lambda event: event.n)
            for event, until in zip(events, [*(it.t for it in events[1:]), life.last.t], strict=False):
                if isinstance(event, Role) and event.role == "FOLLOWING":
                    yield event, (event.t, until)

    def _check_admissions(self) -> None:
        """Check that leaders admit nodes that have lost their disks: with too few members, one more lost disk is too many."""
        leaders = {event.node for event in self.facts.established}
        for node, leader in product(self._without_disk(), leaders):
            waited = intersection(self._possible.waiting_for_admission(node, leader), self._service.led_by(leader))
            if longer(waited, self._bound):
                for start, end in longer(intersection(waited, self._able.get(leader, [])), self._bound):
                    self.findings.add(
                        f"node {node}, which had lost its disk, was not admitted for {(end - start) / 1e9:.1f} s "
                        f"({self.facts.in_load(start, end)}), though it reached the leader, node {leader}",
                        self._course([node, leader], start, end),
                    )

    def _without_disk(self) -> Iterator[int]:
        """Find the nodes that began a life without their former disk."""
        for number, node in self.facts.nodes.items():
            if any(boot.disk == "amnesiac" for boot in node.boots):
                yield number

    def _check_ends(self, bound: int) -> None:
        """Check that nodes notice from their connections, and not from silence, that the process of a peer is gone."""
        gone = {node: sorted(self._ends_of(node)) for node in self.facts.nodes}
        for opened, closed in self._sessions:
            ends = gone.get(closed.peer, [])
            place = bisect_left(ends, closed.t) - 1
            if place < 0 or ends[place] <= opened.t or closed.t - ends[place] <= bound:
                continue
            if not self._may_go_unnoticed(opened, closed):
                self.findings.add(
                    f"node {closed.node} went on with its session for {(closed.t - ends[place]) / 1e9:.1f} s after the process "
                    f"of node {closed.peer} was gone",
                    [opened, closed],
                )

    def _check_choices(self) -> None:
        """Check that nodes vote for and follow only those that they have a session with."""
        for since, until, leader in self._lonely:
            node = since.node
            if not any(node in it.nodes for it in self.facts.faults_during(since.t, until.t)):
                words = f"node {node} chose node {leader} without a session for {(until.t - since.t) / 1e6:.0f} ms"
                self.findings.add(words, [since, until])

    def _ends_of(self, node: int) -> Iterator[int]:
        """Find when the processes of a node were gone. Some faults kill them not at once, but at a point or at a sync."""
        at_once = [it for it in self.facts.injects if it.do in KILLED_AT_ONCE and not it.params.get("keeps_cache")]
        yield from (inject.t for inject in at_once if node in ended_processes(inject))
        yield from (life.exit.t for life in self.facts.nodes[node].lives if life.exit is not None)
        yield from (boot.t for boot in self.facts.nodes[node].boots[1:])

    def _may_go_unnoticed(self, opened: Link, closed: Link) -> bool:
        """Return whether a fault may have kept a node from noticing the end of a peer's process."""
        ends = {closed.node, closed.peer}
        return any(
            closed.node in it.nodes or any(ends == {*pair} for pair in it.pairs or ())
            for it in self.facts.faults_during(opened.t, closed.t)
        )

    def _check_support(self) -> None:
        """Check that no leader goes on without a quorum."""
        leaders = {event.node for event in self.facts.established} & {event.node for event in self.facts.links}
        for node in sorted(leaders):
            for start, end in longer(
                intersection(self._service.led_by(node), self._possible.unsupported(node)), self._bound
            ):
                self.findings.add(
                    f"node {node} led for {(end - start) / 1e9:.1f} s without a link to a quorum of members "
                    f"({self.facts.in_load(start, end)})",
                    self._course([node], start, end),
                )

    def _check_changes(self) -> None:
        """Check that leaders do not give up again and again while one of them could go on leading."""
        facts = self.facts
        # What explains a change: a fault that began or ended, a lost frame, or a leader without counters.
        exhausted = [event.t for event in chain.from_iterable(self._roles.values()) if event.why == EXHAUSTED]
        lost = [event.t for event in facts.links if GAP.match(event.why)]
        causes = sorted([*exhausted, *lost, *chain.from_iterable(facts.fault_spans())])
        established: dict[frozenset[int], list[int]] = {}  # by nodes: when one of them was established
        for window in self._leader_windows if len(facts.established) > MAX_ELECTIONS else ():
            # A fault that goes on, such as resets of connections, may end the leadership of the others as often.
            nodes = window.peers | {window.node}
            if nodes not in established:
                established[nodes] = sorted(event.t for event in facts.established if event.node in nodes)
            done = established[nodes]
            for start in done[bisect_left(done, window.start) : bisect_right(done, window.end)]:
                end = min(start + 3 * self._bound, window.end)
                changes, explained = (bisect_right(it, end) - bisect_left(it, start) for it in (done, causes))
                if changes - explained > MAX_ELECTIONS:
                    words = f"one of these nodes was established as the leader {changes} times, {explained} of them for a cause"
                    self._report(window, start, end, words)
                    break

    def _check_service(self) -> None:
        """Check that no node that follows a leader leaves all its clients without an answer."""
        answers: dict[int, list[int]] = {}  # by node
        waits: dict[int, list[Span]] = {}  # by node
        for request in self.facts.requests.values():
            if request.complete is not None and was_served(request.complete):
                answers.setdefault(request.complete.node or 0, []).append(request.complete.t)
        for invoke, wait in self.facts.unserved_requests:
            span = self._connected_for(invoke, wait)
            # A client that leaves sooner could not be served.
            if span is not None and span[1] - span[0] >= self._bound // 4:
                waits.setdefault(invoke.node or 0, []).append(span)
        for node, spans in waits.items():
            waited = longer(merged(spans, self._bound // 4), self._bound)
            idle = [it for span in waited for it in gaps(span, sorted(answers.get(node, [])), self._bound)]
            for how, able in self._under_leaders(node) if idle else ():
                for start, end in longer(intersection(idle, able), self._bound):
                    words = f"node {node}, {how}, answered nobody for {(end - start) / 1e9:.1f} s"
                    self.findings.add(
                        f"{words} ({self.facts.in_load(start, end)}), though clients waited for it",
                        self._course([node], start, end),
                    )

    def _connected_for(self, invoke: Invoke, wait: Span) -> Span | None:
        """Return the time for which a request waited over one connection that was there when it was sent; None if none was."""
        events = self.facts.connections.get((invoke.node or 0, invoke.client), [])
        place = bisect_right(events, invoke.t, key=lambda event: event.t) - 1
        if place < 0 or events[place].state != "connected":
            return None
        last = self.facts.lives[events[place].node, events[place].life].last.t
        end = min([wait[1], last, *(event.t for event in events[place + 1 : place + 2])])
        return (wait[0], end) if wait[0] < end else None

    def _delayed_requests(self) -> Iterator[tuple[Request, RequestStay]]:
        """Find the requests that a node had for longer than `answered_within`."""
        for request in self.facts.requests.values():
            if request.complete is not None and request.complete.t - request.invoke.t > self._answer_bound:
                stay = self._service.stay(request)
                if stay is not None and stay.end - stay.start > self._answer_bound:
                    yield request, stay

    def _under_leaders(self, node: int) -> Iterator[tuple[str, list[Span]]]:
        """Find, for each leader that the node followed, the times in which the node could answer: the leader and enough
        others were undisturbed."""
        for leader, led in self._service.followed(node):
            spans = [
                (it.start, it.end) for it in self._leader_windows if it.node == leader and node in {leader, *it.peers}
            ]
            yield f"under the leader node {leader}", intersection(led, spans)

    def _undisturbed(self, node: int) -> Iterator[tuple[str, list[Span]]]:
        """Find also the times in which the node was undisturbed without a leader: it could refuse what it can't serve."""
        yield from self._under_leaders(node)
        yield "without a leader", difference(self._possible.connected(node, node), self._service.in_broadcast(node))

    def _check_delayed(self, request: Request, stay: RequestStay, undisturbed: list[tuple[str, list[Span]]]) -> None:
        """Report a delayed request if the node could have answered it for too long under one leader, or without one."""
        for how, spans in undisturbed:
            for span in intersection(spans, [(stay.start, stay.end)]):
                for start, end in gaps(span, self._service.answers_to_earlier(stay), self._answer_bound):
                    invoke = request.invoke
                    self.findings.add(
                        f"node {stay.node}, {how}, left client {invoke.client}, seq {invoke.seq} "
                        f"({invoke.op}), without an answer for {(end - start) / 1e9:.1f} s",
                        [invoke, *self._course([stay.node], start, end), request.complete],
                    )
                    return

    def _served(self) -> list[int]:
        """Return the times at which a client was served, ascending."""
        return sorted([*self.facts.history.growth_times(besides=self.facts.effects.fences), *self.facts.refusals])

    @cached_property
    def _possible(self) -> PossibleLeaders:
        """The times in which nodes could have led. Most runs need none of them."""
        return PossibleLeaders(self.facts, self._bound)

    @cached_property
    def _leader_windows(self) -> list[LeaderWindow]:
        return list(self._possible.windows())

    @cached_property
    def _able(self) -> dict[int, list[Span]]:
        """The times in which each node could have led, whatever other nodes it reached."""
        able: dict[int, list[Span]] = {}
        for window in self._leader_windows:
            able.setdefault(window.node, []).append((window.start, window.end))
        return able

    def _report(self, window: LeaderWindow, start: int, end: int, what: str) -> None:
        if any(low <= start and end <= high for low, high in self._reported):
            return  # reported already, for another node that could have led
        self._reported.append((start, end))
        self.findings.add(
            f"{what} ({self.facts.in_load(start, end)}); {self._who(window)}",
            self._course([window.node], start, end),
        )

    def _who(self, window: LeaderWindow) -> str:
        return f"node {window.node} could have led, it reached {node_names(sorted(window.peers))}"

    def _end_of_load(self, served: list[int]) -> int:
        """Return when the load was stopped; if that is not known, the time of the last request or answer."""
        stopped = self.facts.milestones.get("workload-stopped")
        if stopped is not None:
            return stopped.t
        return max([0, *served, *(due for due, _ in self.facts.write_waits)])

    def _idle(self, served: list[int], bound: int) -> Iterator[Span]:
        """Find the times longer than the bound in which no client was served."""
        dues = [due for due, _ in self.facts.write_waits]
        if not dues:
            return
        first, end = min(dues), self._end_of_load(served)
        yield from gaps((first, end), served, bound)

    def _stalls(self, window: LeaderWindow, idle: list[Span], bound: int) -> list[Span]:
        """Return the idle times longer than the bound in which this node could have led and writes waited for it."""
        times = intersection(idle, [(window.start, window.end)])
        if not longer(times, bound):
            return []
        nodes = {window.node, *window.peers}
        unserved = self.facts.unserved_requests
        waiting = [
            part
            for invoke, span in unserved
            if invoke.op in WRITES and invoke.node in nodes and not self._was_dropped_at_once(invoke, span)
            for part in difference(
                [(span[0], min(span[1], self._delivered_at(invoke)))], self._led_elsewhere[invoke.node]
            )
        ]
        return longer(intersection(times, merged(waiting, bound // 4)), bound)

    @cached_property
    def _led_elsewhere(self) -> dict[int, list[Span]]:
        """For each node, the times in which another node led, with a quorum that it reached, and this node did not reach it."""
        led = {leader: intersection(self._service.led_by(leader), spans) for leader, spans in self._able.items()}
        return {
            node: merged(
                span
                for leader, spans in led.items()
                if leader != node
                for span in difference(spans, self._possible.connected(node, leader))
            )
            for node in self.facts.nodes
        }

    def _delivered_at(self, invoke: Invoke) -> int:
        """Return when a write was first delivered: from then on it waits for its answer alone. `FOREVER` if it never was."""
        history = self.facts.history
        index = history.index(self.facts.effects.first_effects.get(invoke.id, 0))
        return FOREVER if index is None else history.first_delivery(index).t

    def _was_dropped_at_once(self, invoke: Invoke, span: Span) -> bool:
        """Return whether a request's client was closed, or rejected by the node, before the request could have been served."""
        answer = self.facts.requests[invoke.id].complete
        why = (answer.error if answer is not None else None) or ""
        return (why == CLIENT_CLOSED or REFUSED in why) and span[1] - span[0] < CONNECTS

    def _leaderless(self, bound: int) -> Iterator[Span]:
        """Find the times longer than the bound in which nodes were there and none was an established leader."""
        lives = self.facts.lives.values()
        there = merged((life.boot.t, life.last.t) for life in lives if life.boot is not None)
        yield from longer(difference(there, self._service.leading()), bound)

    def _livelocks(self) -> Iterator[tuple[int, int, list[int]]]:
        """Find the times (start, end) between two establishments in which nodes began to lead too often, with the time of
        each."""
        done = sorted(event.t for event in self.facts.established)
        times = sorted(event.t for event in self.facts.began_to_lead)
        for start, end in zip([0, *done], [*done, max([*times, 0])], strict=True):
            begun = times[bisect_right(times, start) : bisect_right(times, end)]
            if len(begun) > MAX_ELECTIONS:
                yield start, end, begun
