"""The checkers for systems of which only the clients' history is known."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain

from zab_chaos.model.events import FINAL_CLIENTS, LISTS, TRANSACTIONS, Complete, Invoke
from zab_chaos.model.oracle.evidence import ending, node_names
from zab_chaos.model.oracle.facts import READS, WRITES, Request, was_served
from zab_chaos.model.oracle.linearization import EFFORT, Call, GaveUp, Transaction, first_unexplained
from zab_chaos.model.oracle.list_history import acknowledged, appends, reads_of, request_name
from zab_chaos.model.oracle.possible_leaders import LeaderWindow
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.oracle.properties.progress import Progress
from zab_chaos.model.oracle.spans import FOREVER, SECOND, Span, gaps, intersection, longer, merged
from zab_chaos.model.oracle.transactions import by_step, connected, unexplained_together
from zab_chaos.model.oracle.unaffected import unaffected
from zab_chaos.model.oracle.version_names import Contradiction, resolved
from zab_chaos.node.tree.refusal import NO_NODE

SINGLE = frozenset({"get", "set", "create", "delete", "exists", "check"})  # operations of one key
# A part of the service: "key" or "node", its name, and "reads" or "writes"; or "all", a kind of operation, and nothing.
_Part = tuple[str, str, str]


class LinearizableKeys(Checker):
    """Herlihy and Wing 1990: each operation seems to take effect at one instant between its call and its return.

    Verifies for each key by itself that some order of its operations explains every answer; and for keys that transactions
    connect that some order explains all answers, in which each transaction has one place. An operation with an unknown
    outcome may take effect at any time after its call, or never; a failed one never does. A refusal counts if it says that
    a key exists, does not exist, or has another version. If run.json says `opaque_versions`, a version does not count the
    writes of a key, but belongs to exactly one of them. If it says `blind_deletes`, a delete succeeds whether or not there is
    such a key. If it says `stale_reads`, a read may show an earlier state, but
    none before what its session has seen or written. Does not verify other operations of several keys (a multi, children),
    nor the keys of a multi. A key with too many possibilities is UNKNOWN.
    """

    name = "linearizable keys"
    source = "Herlihy and Wing 1990"
    statement = (
        "Each operation on a key, and each transaction, takes effect at one instant between its call and its return, if it "
        "does at all."
    )

    def at_end(self) -> None:
        others = {request.invoke.op for request in self.facts.requests.values()} - SINGLE - TRANSACTIONS - LISTS
        if others:
            self.unknown.append(f"{', '.join(sorted(others))}: operations of several keys can't be judged key by key")
        self._sessions = sessions(self.facts.requests.values()) if self.facts.run.expect.get("stale_reads") else {}
        keys = dict(sorted(by_key(self.facts.requests.values())))
        explained = {path: calls for path, requests in keys.items() if (calls := self._judge_key(path, requests))}
        for paths in connected(self.facts.requests.values()):
            self._judge_together({path: explained[path] for path in paths if path in explained}, keys)

    def _judge_key(self, path: str, requests: list[Request]) -> list[Call] | None:
        """Judge the operations of one key. Return them if some order explains them."""
        self.checked += len(requests)
        blind = bool(self.facts.run.expect.get("blind_deletes"))
        calls = [
            Call(one.invoke, one.complete, session=self._sessions.get(one.invoke.id), blind=blind) for one in requests
        ]
        try:
            calls = resolved(calls) if self.facts.run.expect.get("opaque_versions") else calls
            wrong = first_unexplained(calls)
        except Contradiction as contradiction:
            self._report_unexplained(path, _request_of(contradiction.call, requests), requests)
            return None
        except GaveUp as error:
            writes = _writes(requests)
            outdated = next((one for one in requests if _found(one) and _replaced(one, writes)), None)
            if outdated is not None and not self._sessions:
                self._report_unexplained(path, outdated, requests)
            else:
                self.unknown.append(f"{self.name}: {path} was given up: {error}")
            return None
        if wrong is None:
            return calls
        found = None
        if not self.findings.full:
            with suppress(GaveUp):
                found = unexplained_together({path: calls}, EFFORT)
        if found is not None:
            self._report_together(*found, {path: requests})
        else:
            self._report_unexplained(path, _request_of(wrong, requests), requests)
        return None

    def _judge_together(self, calls: dict[str, list[Call]], keys: dict[str, list[Request]]) -> None:
        """Judge keys that transactions connect, and that are explained one by one. `keys`: the requests of all keys."""
        try:
            found = unexplained_together(calls)
        except GaveUp as error:
            self.unknown.append(f"{self.name}: {', '.join(calls)}, which transactions connect, were given up: {error}")
            return
        if found is not None:
            self._report_together(*found, keys)

    def _report_together(
        self, paths: list[str], answered: list[Transaction], more: int, keys: dict[str, list[Request]]
    ) -> None:
        """Report answers that contradict each other, and cite the writes that they show. `more`: the number of further
        answers that are needed. `keys`: the requests of all keys."""
        *others, asked = [self.facts.requests[one.invoke.id] for one in answered]
        reads = [call for one in answered for _, call in one.steps if call.invoke.op == "get"]
        writers = [_writer(read.answer, keys[read.invoke.path]) for read in reads]
        beside = _beside(others, more)
        if more and len(paths) == 1:
            requests = keys[paths[0]]
            call = next((call for _, call in answered[-1].steps if call.invoke.op == "get"), answered[-1].steps[0][1])
            self._report_unexplained(paths[0], _request_of(call, requests), requests, beside, others)
            return
        words = f"{', '.join(paths)}: no order of the operations explains the answer to {_said(asked)}{beside}"
        shown = [
            f"{read.invoke.path} as {request_name(writer)} wrote it{_refusal(writer)}"
            if writer
            else f"no {read.invoke.path}"
            for read, writer in zip(reads, writers, strict=True)
            if read.invoke.id == asked.invoke.id
        ]
        if shown:
            words += f"; it shows {', '.join(shown)}"
        words += self._outdated(asked, keys[paths[0]])
        self._cite(words, [*filter(None, writers), *others, asked])

    def _outdated(self, read: Request, requests: list[Request]) -> str:
        """Return a note for a read that shows a write which was not refused, but replaced."""
        judged = read.invoke.op == "get" and not self._sessions
        replaced = _replaced(read, _writes(requests)) if judged else None
        return ", which is outdated" if replaced is not None and replaced[0] is not None else ""

    def _cite(self, words: str, cited: list[Request]) -> None:
        """Report a violation with the calls and answers of requests; of a transaction, all steps."""
        whole = [self.facts.requests[name] for name in dict.fromkeys(one.invoke.id for one in cited)]
        self.findings.add(words, [event for one in whole for event in (one.invoke, one.complete)])

    def _report_unexplained(
        self, path: str, asked: Request, requests: list[Request], beside: str = "", others: Sequence[Request] = ()
    ) -> None:
        """Report an answer that no order explains. Cite the write whose value it shows, and the last write and read before
        it. `beside`: the words for the answers `others`."""
        invoke, answer = asked.invoke, asked.complete
        assert answer is not None
        before = [one for one in requests if acknowledged(one) and _returned(one) < invoke.t]
        writer = _writer(answer, requests) if invoke.op == "get" else None
        written = max((one for one in before if one.invoke.op not in READS), key=_returned, default=None)
        seen = [one for one in before if one.invoke.op == "get" and _value(one) != answer.value]
        read = max(seen, key=_returned, default=None)
        whole = self.facts.requests[asked.invoke.id]
        words = f"{path}: no order of the operations explains the answer to {_said(whole)}{beside}"
        words += self._outdated(asked, requests)
        cited = list(others)
        for one, role in (
            (writer, "it shows the write of"),
            (written, "the last write before it was that of"),
            (read, "another value had been read by"),
        ):
            if one is not None and one.invoke.id not in [other.invoke.id for other in cited]:
                words += f"; {role} {_said(self.facts.requests[one.invoke.id])}{_refusal(one)}"
                cited.append(one)
        self._cite(words, [*cited, asked])


class ReadableInTheEnd(Checker):
    """LADIS 2008: a write that a client saw succeed is never forgotten.

    Verifies for the last read of a key after all acknowledged writes of the load have returned, and for the last one after the
    writes of the harness that follow: it does not show a value that an acknowledged write must have replaced. Verifies for the
    last read of a list by the harness, if the nodes have converged, that it shows each append that was acknowledged before.
    Does not verify keys and lists that were not read after that, nor the keys of a multi. If the nodes did not converge, and
    such a key was not read after the load or there are lists, the property is UNKNOWN.
    """

    name = "durability"
    source = "LADIS 2008"
    statement = "Every write that a client saw succeed can be read in the end, unless a later one has replaced it."

    def at_end(self) -> None:
        stopped = self.facts.milestones.get("workload-stopped")
        load_end = stopped.t if stopped is not None else FOREVER  # then the harness reads keys, and writes some of them
        unread = []
        for path, requests in sorted(by_key(self.facts.requests.values())):
            reads = [one for one in requests if _found(one)]
            acked = [one for one in _writes(requests) if acknowledged(one)]
            self._check_key(path, requests, acked, reads, load_end)
            if acked and not any(one.invoke.t >= load_end for one in reads):
                unread.append(path)
        unread += self._check_lists()
        if unread and "converged" not in self.facts.milestones and not self.facts.beyond_fault_model():
            more = f" (and {len(unread) - 1} more)" if len(unread) > 1 else ""
            self.unknown.append(f"durability is unknown: no node told what {unread[0]}{more} holds in the end")

    def _check_lists(self) -> list[str]:
        """Check the harness's last read of each list. If the nodes did not converge, return the lists with acked appends:
        a node that is behind may have answered, as most levels of isolation allow."""
        requests = self.facts.list_requests()
        acked: dict[str, list[tuple[int, Request]]] = {}
        for request in filter(acknowledged, requests):
            for path, element in appends(request):
                acked.setdefault(path, []).append((element, request))
        if "converged" not in self.facts.milestones:
            return sorted(acked)
        final = (request for request in requests if request.invoke.client > FINAL_CLIENTS)
        for path, read in {read.path: read for request in final for read in reads_of(request)}.items():
            self.checked += 1
            before = [one for one in acked.get(path, ()) if _returned(one[1]) < read.request.invoke.t]
            lost = [one for one in before if one[0] not in read.elements]
            if lost:
                self._report_lost_appends(path, read.request, lost)
        return []

    def _report_lost_appends(self, path: str, read: Request, lost: list[tuple[int, Request]]) -> None:
        element, write = lost[-1]
        more = f" (and {len(lost) - 1} others)" if len(lost) > 1 else ""
        self.findings.add(
            f"{path}: the append of {element} of {request_name(write)}{more} was acknowledged, but the later read of "
            f"{request_name(read)} does not show it",
            [write.invoke, write.complete, read.invoke, read.complete],
        )

    def _check_key(
        self, path: str, requests: list[Request], acked: list[Request], reads: list[Request], load_end: int
    ) -> None:
        """Check the last reads of one key. `acked`: those of the writes that were acknowledged."""
        writes = _writes(requests)
        in_load = max((_returned(one) for one in acked if one.invoke.t < load_end), default=0)
        written_again = min((one.invoke.t for one in writes if one.invoke.t >= load_end), default=FOREVER)
        in_all = max(map(_returned, acked), default=0)
        for group in (
            [one for one in reads if in_load < one.invoke.t and one.complete and one.complete.t < written_again],
            [one for one in reads if max(in_all, written_again) < one.invoke.t],
        ):
            self.checked += len(group)
            if group and (replaced := _replaced(group[-1], writes)) is not None:
                self._report(path, group[-1], *replaced, requests)
                break

    def _report(
        self, path: str, read: Request, shown: Request | None, lost: list[Request], requests: list[Request]
    ) -> None:
        write, reader = (request_name(one) for one in (lost[-1], read))
        result = "finds no such key" if _value(read) is None else "shows data that no client wrote"
        writer = shown or _writer(read.complete, requests)
        if writer is not None:
            result = f"shows the {'older ' if shown else ''}write of {request_name(writer)}{_refusal(writer)}"
        more = f" (and {len(lost) - 1} before it)" if len(lost) > 1 else ""
        self.findings.add(
            f"{path}: the write of {write}{more} was acknowledged, but the later read of {reader} {result}",
            [writer.complete if writer else None, lost[-1].invoke, lost[-1].complete, read.invoke, read.complete],
        )


class ServiceProgress(Progress):
    """LADIS 2008: as long as a quorum is up and connected, the service goes on.

    Verifies for the times in which no fault is active, and, if run.json says `serves_with_majority`, also while faults have
    taken nodes and links away and a majority of the nodes is left, connected with each other:

    - If a write that was sent to one of the nodes that are left waits, some write succeeds (or is refused for its content)
      within `progress_within`.

    Verifies for the times in which no fault is active:

    - If writes of a key wait, one of them does; likewise reads of a key.
    - If operations of one kind wait, such as transactions or sets on condition of a version, one of them does.
    - If reads wait at a node, one of them does within `progress_within` or `converges_within`, whichever is longer. Writes
      may be refused by all nodes but a leader.
    - A node whose process ended by itself, which no fault starts again, is not gone for longer than that.

    Requests that come one after the other, at most a quarter of the bound apart, wait together. Does not verify the times of
    faults that slow nodes or links down, or that are aimed at a majority.
    """

    statement = (
        "While no fault is active, writes and reads of each key, operations of each kind, and reads at each node succeed "
        "within the time bound, also during the run, and no node that ended by itself stays away. If the system promises it, "
        "writes succeed during faults, too, while a connected majority is left."
    )
    idle = "no write was answered"

    def at_end(self) -> None:
        super().at_end()
        if not self.findings and not self.unknown and self.not_applicable is None:
            self._check_parts()

    def _check_parts(self) -> None:
        """Check each part of the service: the writes of a key, the reads of a key, each kind of operation, and each node."""
        bound = self._bound
        joined = max(bound, int((self.expected("converges_within") or 0) * SECOND))
        quiet = [(window.start, window.end) for window in self._leader_windows if self._is_quiet(window)]
        stopped = self._end_of_load(self._served())
        self._check_ended(quiet, stopped, joined)
        waiting: dict[_Part, list[Span]] = {}
        for invoke, (start, end) in self.facts.unserved_requests:
            for part in _parts(invoke):
                waiting.setdefault(part, []).append((start, end if end != FOREVER else max(start, stopped)))
        for part, spans in sorted(waiting.items()):
            most = joined if part[0] == "node" else bound
            long = longer(intersection(merged(spans, most // 4), quiet), most)
            for start, end in self._unserved(part, long, most):
                what = f"{part[0]} {part[1]}: none of its {part[2]}" if part[2] else f"no {part[1]}"
                self.findings.add(
                    f"{what} was answered for {(end - start) / 1e9:.1f} s, though some waited "
                    f"({self.facts.in_load(start, end)}); no fault was there",
                    [],
                )

    def _check_ended(self, quiet: list[Span], stopped: int, bound: int) -> None:
        """Check that no node is gone for long because its process ended by itself. If it refuses a damaged disk, it may."""
        refused = self.facts.refused_disks()
        for (node, _), ended in self.facts.ended.items():
            if ended.armed or node in refused:
                continue
            gone = (ended.t, min(stopped, self._heard_of(node, ended.t)))
            for start, end in longer(intersection([gone], quiet), bound):
                self.findings.add(
                    f"{ending(node, ended.code)}, and was gone for {(end - start) / 1e9:.1f} s "
                    f"without a fault ({self.facts.in_load(start, end)})",
                    [ended],
                )

    def _heard_of(self, node: int, t: int) -> int:
        """Return when a node may have been up again after this time: it answered, or a fault other than one of links, which
        may have started it, began or was healed."""
        answers = (it.complete for it in self.facts.requests.values() if it.invoke.node == node)
        heard = (it.t for it in answers if it is not None and it.t > t and was_served(it))
        faults = zip(self.facts.faults, self.facts.fault_spans(), strict=True)
        changes = chain.from_iterable(span for it, span in faults if node in it.nodes and not it.pairs)
        return min(chain(heard, (change for change in changes if change > t)), default=FOREVER)

    def _unserved(self, part: _Part, spans: list[Span], bound: int) -> Iterator[Span]:
        """Find the times in these spans, longer than the bound, between two requests of the part that were served."""
        if not spans:
            return
        served = sorted(
            request.complete.t
            for request in self.facts.requests.values()
            if request.complete is not None and was_served(request.complete) and part in _parts(request.invoke)
        )
        for span in spans:
            yield from gaps(span, served, bound)

    def _served(self) -> list[int]:
        return sorted([*self.facts.writes_done, *self.facts.refusals])

    @cached_property
    def _leader_windows(self) -> list[LeaderWindow]:
        facts = self.facts
        until = facts.quorum_of_disks_lost_at() if facts.beyond_fault_model() else FOREVER
        majority, voters = facts.run.expect.get("serves_with_majority"), {*facts.voters}
        return [
            LeaderWindow(min(nodes), nodes - {min(nodes)}, start, min(end, until))
            for (start, end), nodes in unaffected(facts)
            if (len(nodes & voters) >= facts.quorum() if majority else len(nodes) == facts.run.nodes) and start < until
        ]

    @property
    def _led_elsewhere(self) -> dict[int, list[Span]]:
        """Return no times: it is not known which nodes reach a leader."""
        return {node: [] for node in range(1, self.facts.run.nodes + 1)}

    def _leaderless(self, bound: int) -> Iterator[Span]:
        """Return nothing: clients do not know who leads."""
        return iter(())

    def _is_quiet(self, window: LeaderWindow) -> bool:
        """Return whether no fault was active: all nodes are left."""
        return len(window.peers) == self.facts.run.nodes - 1

    def _who(self, window: LeaderWindow) -> str:
        if self._is_quiet(window):
            return "no fault was there"
        return f"no fault affected {node_names([window.node, *sorted(window.peers)])}, a majority"


def _parts(invoke: Invoke) -> list[_Part]:
    """Return the parts of the service that a request belongs to."""
    reads = invoke.op in READS
    kind = "cas" if invoke.op == "set" and invoke.version is not None else invoke.op
    parts: list[_Part] = [("all", kind, "")]
    if invoke.op in SINGLE:
        parts.append(("key", invoke.path, "reads" if reads else "writes"))
    return [*parts, ("node", str(invoke.node), "reads")] if reads else parts


def by_key(requests: Iterable[Request]) -> list[tuple[str, list[Request]]]:
    """Return each key's operations and the steps of transactions, ordered by the time of their call, without the keys of
    multis."""
    keys: dict[str, list[Request]] = {}
    shared: set[str] = set()
    for request in chain.from_iterable(map(by_step, requests)):
        path = _path(request)
        if request.invoke.op in SINGLE and path is not None:
            keys.setdefault(path, []).append(request)
        shared.update(step.path for step in request.invoke.steps or ())
        shared.update(made for made, _ in (request.complete and request.complete.steps) or ())
    keys = {path: found for path, found in keys.items() if path not in shared}
    for found in keys.values():
        found.sort(key=lambda request: request.invoke.t)
    return list(keys.items())


def sessions(requests: Iterable[Request]) -> dict[tuple[int, int], int]:
    """Return the number of the session of each request, by client and seq. A client begins a new one when it goes to another
    node, and after an answer that makes it reconnect."""
    found: dict[tuple[int, int], int] = {}
    last: Request | None = None
    for request in sorted(requests, key=lambda request: request.invoke.id):
        goes_on = last is not None and last.complete is not None and was_served(last.complete)
        same = last is not None and (last.invoke.client, last.invoke.node) == (
            request.invoke.client,
            request.invoke.node,
        )
        before = found[last.invoke.id] if last is not None else 0
        found[request.invoke.id] = before if goes_on and same else before + 1
        last = request
    return found


def _path(request: Request) -> str | None:
    """Return the key of a request. For a sequential create this is the created key, None if it is not known."""
    if not request.invoke.sequential:
        return request.invoke.path
    return request.complete.path if request.complete is not None else None


def _request_of(call: Call, requests: list[Request]) -> Request:
    name = call.invoke.id, call.invoke.op
    return next(one for one in requests if (one.invoke.id, one.invoke.op) == name)


def _writer(answer: Complete | None, requests: list[Request]) -> Request | None:
    """Return the write whose value the answer to a read shows."""
    value = answer.value if answer is not None else None
    return next((one for one in requests if value is not None and one.invoke.value == value), None)


def _writes(requests: Iterable[Request]) -> list[Request]:
    """Return the writes that may have taken effect."""
    return [
        it for it in requests if it.invoke.op in WRITES and (it.complete is None or it.complete.outcome != "failed")
    ]


def _returned(request: Request) -> int:
    """Return the time at which the effect of a request was certain, `FOREVER` if it was not acknowledged."""
    return request.complete.t if request.complete is not None and acknowledged(request) else FOREVER


def _found(request: Request) -> bool:
    """Return whether a read shows the key's value, or that there is no such key."""
    answer = request.complete
    return request.invoke.op == "get" and answer is not None and (answer.outcome == "ok" or answer.error == NO_NODE)


def _replaced(read: Request, writes: list[Request]) -> tuple[Request | None, list[Request]] | None:
    """Return the write whose value a read shows, if any, and the acknowledged ones that must have replaced it before: they were
    called after it had returned. None if there are none."""
    if not acknowledged(read) and any(one.invoke.op == "delete" for one in writes):
        return None
    wrote = [one for one in writes if acknowledged(read) and one.invoke.value == _value(read)]
    shown = max(wrote, key=_returned, default=None)
    since = _returned(shown) if shown is not None else -1  # before everything
    if shown is None:  # what may have been deleted is not lost
        deletes = [one for one in writes if one.invoke.op == "delete" and one.invoke.t < _returned(read)]
        since = max(map(_returned, deletes), default=since)
    later = [one for one in writes if one.invoke.op != "delete" and since < one.invoke.t]
    replaced = [one for one in later if _returned(one) < read.invoke.t]
    return (shown, replaced) if replaced else None


def _value(request: Request) -> int | None:
    return request.complete.value if request.complete is not None else None


def _refusal(request: Request) -> str:
    refused = request.complete is not None and request.complete.outcome == "failed"
    return ", which was refused" if refused and request.invoke.op in WRITES else ""


def _beside(others: Sequence[Request], more: int) -> str:
    """Return the words for the other answers of a contradiction. `more`: the number of those that are not named."""
    named = [*map(_said, others), *([f"{more} other answers"] if more else [])]
    to = "" if not others else "that to " if len(named) == 1 else "those to "
    return f" beside {to}{' and '.join(named)}" if named else ""


def _said(request: Request) -> str:
    """Return the name of a request, what it asked, and what the answer said of the version."""
    invoke, answer = request.invoke, request.complete
    asked = invoke.op if invoke.version is None else f"{invoke.op} on version {invoke.version}"
    told = ""
    if answer is not None and answer.outcome == "failed":
        told = f": {answer.error}"
    elif answer is not None and answer.version is not None:
        told = f": version {answer.version}"
    return f"{request_name(request)} ({asked}{told})"
