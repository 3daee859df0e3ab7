"""The checker of the state that the delivered transactions make, and of answers against it (LADIS 2008, section 1)."""

from bisect import bisect_left
from collections.abc import Sequence

from zab_chaos.model.events import LARGE_BYTES, LOGS, TRACES, Complete, Effect, Invoke, Line
from zab_chaos.model.oracle.effects import Effects
from zab_chaos.model.oracle.evidence import show
from zab_chaos.model.oracle.facts import READS, Request
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.oracle.service import ServiceTimes
from zab_chaos.model.oracle.znodes import (
    NO_NODE,
    ROOT,
    STATE_ERRORS,
    RequestedStep,
    Znode,
    Znodes,
    is_encodable,
    is_impossible,
    is_ordinary,
    is_zookeepers_own,
)
from zab_chaos.node.tree.refusal import BAD_PATH, BAD_REQUEST, ERRORS, NO_LEADER, TOO_LARGE

COUNTER = 0xFFFFFFFF  # the mask of the counter in a zxid
RESULTS = {"path": "create", "value": "get", "children": "children", "steps": "multi"}  # the operations that have them


class ValuesAndVersions(Checker):
    """LADIS 2008: transactions are prepared on the state that they are applied to, and clients are shown that state.

    Applies the delivered transactions, in their order, to an empty tree, and verifies of the transactions:

    - A znode is created once, at version 0, below an existing parent, and is not called "." or "..". Each set raises its
      version by one.
    - Whatever is set, deleted or checked exists, and has the version that was the condition. A deleted znode has no
      children.
    - A sequential name has the number of creations below its parent.
    - The steps of a multi are valid one after the other.
    - A write that was acknowledged before another one was invoked has the lower zxid, and a refusal is based on a state
      that includes all that any client had been shown before its request was invoked.

    Verifies of the answers:

    - A read, and a refusal that the state decides, is true at exactly the zxid that it names. (A refusal that names
      none is based on a state before the first transaction.) The node that answered had delivered that zxid.
    - A node that has just started answers nothing before it has joined a leader, and from then on nothing older than
      what that leader had delivered.
    - No path of letters, digits and "-._" (for a sequential znode: including its number) is refused as a bad path, no
      request with ASCII paths, valid or not, as a bad request, and no read as too large. If run.json gives the limit of bytes
      (`request_bytes`), no write within it is refused as too large, and none beyond it is acknowledged.
    - No write with an impossible path is refused because of the state.
    - A refusal has one of the errors that a node may give, a successful read a zxid, and an answer no result of another
      operation.
    - No node refuses a request for want of a leader if it was in broadcast from before the request until its answer.

    Does not verify refusals for other reasons, nor that a read is up to date (a node may be behind), nor contents beyond
    their CRC-32. It judges nothing after a transaction whose content no `broadcast` records.
    """

    name = "values and versions"
    source = "LADIS 2008"
    statement = (
        "The delivered transactions are consistent with one another. Reads and refusals are true at their zxid; those of a "
        "node that has just started are no older than what its first leader had. Writes that were acknowledged or refused "
        "keep their order in time."
    )

    def at_end(self) -> None:
        effects = self.facts.effects
        self._check_refusal_order()
        self._service = ServiceTimes(self.facts)
        self._state = Znodes()
        answers = self._answers()
        answers.append((2**64, None))
        latest: Invoke | None = None  # the last invoked write so far
        place = self._check_answers(answers, 0, 0)
        for zxid, txn in zip(self.facts.history.zxids, effects.txns, strict=True):
            if txn is None:
                self.unknown.append(
                    f"values and versions can't be judged from {show(zxid)} on: no record has its content"
                )
                return
            request = self.facts.requests.get((txn[0], txn[1]))
            if zxid not in effects.fences:
                self._check_transaction(zxid, txn[2], request)
                latest = self._check_write_order(zxid, request, latest)
            if answers[place][0] <= zxid:
                place = self._check_answers(answers, place, zxid)
        self._check_answers(answers, place, 2**64 - 1)

    # ---- transactions ----

    def _check_transaction(self, zxid: int, steps: Sequence[Effect], request: Request | None) -> None:
        self.checked += 1
        state = self._state
        asked: Sequence[RequestedStep | None] = request.invoke.requested_steps if request is not None else ()
        if len(asked) != len(steps):
            asked = [None] * len(steps)
        for step, asked_step in zip(steps, asked, strict=True):
            flaw = None if self._is_own(step[1]) else state.flaw(step, asked_step)
            if flaw is not None:
                self._report_flaw(zxid, step, request, flaw)
            state.apply(zxid, step)

    def _report_flaw(self, zxid: int, step: Effect, request: Request | None, flaw: str) -> None:
        before = self._state.by_path.get(step[1])
        self.findings.add(
            f"{show(zxid)} {flaw}",
            [
                self._effects.broadcast(before.changed_zxid)
                if before is not None and before.changed_zxid != zxid
                else None,
                request.invoke if request is not None else None,
                self._effects.broadcast(zxid),
            ],
        )

    def _check_write_order(self, zxid: int, request: Request | None, latest: Invoke | None) -> Invoke | None:
        """Check that all writes with lower zxids were invoked before this one was acknowledged. Return the last invoked
        write."""
        if request is None:
            return latest
        invoke, complete = request.invoke, request.complete
        if latest is not None and complete is not None and complete.outcome == "ok" and complete.t < latest.t:
            self.findings.add(
                f"the write of client {invoke.client}, seq {invoke.seq}, was acknowledged before that of client "
                f"{latest.client}, seq {latest.seq}, was invoked, and has the higher zxid, {show(zxid)}",
                [invoke, complete, latest, self._effects.broadcast(zxid)],
            )
        return invoke if latest is None or invoke.t > latest.t else latest

    def _check_refusal_order(self) -> None:
        """Check that a refused write was judged in a state that includes all that any client had been shown before it was
        invoked."""
        refusals = [
            (it.invoke, it.complete, it.zxid)
            for it in self.facts.requests.values()
            if it.zxid is not None and it.complete and it.complete.error in STATE_ERRORS and it.invoke.op not in READS
        ]
        if not refusals:
            return
        answers: list[tuple[int, int, Request]] = [
            (it.complete.t, self._delivered_zxid(it.zxid), it)
            for it in self.facts.requests.values()
            if it.complete
            and it.zxid is not None
            and (it.complete.outcome == "ok" or it.complete.error in STATE_ERRORS)
        ]
        answers.sort(key=lambda answer: answer[0])
        times = [t for t, _, _ in answers]
        highest: list[tuple[int, Request]] = []  # for each of them, the answer with the highest zxid so far
        for _, zxid, request in answers:
            highest.append((zxid, request) if not highest or zxid > highest[-1][0] else highest[-1])
        for invoke, complete, judged in refusals:
            before = bisect_left(times, invoke.t)
            if before and highest[before - 1][0] > judged:
                known, of = highest[before - 1]
                self.findings.add(
                    f"the write of client {invoke.client}, seq {invoke.seq}, was refused ({complete.error}) in the light of "
                    f"{show(judged)}, and {show(known)} had been shown to client {of.invoke.client} before it was invoked",
                    [of.complete, invoke, complete],
                )

    # ---- answers ----

    def _answers(self) -> list[tuple[int, Request | None]]:
        """Return the reads and the refusals that name a state, ordered by the zxid at which they must be true."""
        found: list[tuple[int, Request | None]] = []
        for request in self.facts.requests.values():
            complete = request.complete
            if complete is None or complete.outcome == "unknown":
                continue
            if self.facts.run.evidence == TRACES:
                self._check_form(request, complete)
            if complete.error is not None:
                self._check_refusal(request, complete)
            if complete.outcome == "ok" and self._is_within_limit(request.invoke) is False:
                self._report_answer(request, f"is 'ok', and the request has {request.invoke.size} bytes, too many")
            if self._names_a_state(request, complete):
                found.append((self._delivered_zxid(request.zxid or 0), request))
        found.sort(key=lambda answer: answer[0])
        return found

    def _check_form(self, request: Request, complete: Complete) -> None:
        if complete.outcome == "failed" and complete.error not in ERRORS:
            self._report_answer(request, f"is {complete.error!r}, which is no error that a node may give")
        if complete.outcome == "ok" and request.invoke.op in READS and complete.zxid is None:
            self._report_answer(request, "names no zxid")
        for name, op in RESULTS.items():
            if getattr(complete, name) is not None and op != request.invoke.op:
                self._report_answer(request, f"has {name}, the result of a {op}")

    def _check_refusal(self, request: Request, complete: Complete) -> None:
        """Check that there was a reason for a refusal, and that it was the right one."""
        if self._is_unfounded(request, complete):
            self._report_answer(request, f"is {complete.error!r}, and nothing in it is wrong")
        if complete.error == NO_LEADER and self._service.was_in_broadcast(request.invoke, complete):
            self._report_answer(request, f"is {complete.error!r}, and node {complete.node} had one all the time")
        if request.invoke.op not in READS and self._claims_a_state(request, complete):
            self._report_answer(request, f"is {complete.error!r}, and whatever the state, a path in it is wrong")

    def _names_a_state(self, request: Request, complete: Complete) -> bool:
        """Return whether it is a read, or a refusal with a zxid. ZooKeeper's servers name a zxid even if the state is not
        the reason; that one does not count. Acknowledged writes are judged elsewhere (exactly once)."""
        if complete.outcome == "ok":
            return request.invoke.op in READS
        return complete.error in STATE_ERRORS or (self.facts.run.evidence == TRACES and request.zxid is not None)

    def _is_unfounded(self, request: Request, complete: Complete) -> bool:
        """Return whether an ordinary request is refused for its form, or a read for its size. ZooKeeper has further reasons to
        refuse."""
        asked, traced = request.invoke.requested_steps, self.facts.run.evidence == TRACES
        if complete.error == TOO_LARGE:
            return traced and (request.invoke.op in READS or self._is_within_limit(request.invoke) is True)
        if complete.error == BAD_REQUEST:
            by_node = traced and complete.node is not None  # and not by the client itself
            return by_node and len(asked) > 0 and all(map(is_encodable, asked))
        return complete.error == BAD_PATH and all(map(is_ordinary, asked))

    def _is_within_limit(self, invoke: Invoke) -> bool | None:
        """Return whether a write has no more bytes than it may have; None if that is not known."""
        limit = self.facts.run.expect.get("request_bytes")
        if not isinstance(limit, int) or invoke.op in READS:
            return None
        if invoke.size is None:
            return True if limit >= LARGE_BYTES else None
        return invoke.size <= limit

    def _claims_a_state(self, request: Request, complete: Complete) -> bool:
        """Return whether a write that is impossible in every state is refused because of the state. Then a "bad path",
        which is not ordered, would also say something of a state: that nothing else was wrong. ZooKeeper's servers judge
        step by step."""
        if self.facts.run.evidence != TRACES or complete.error not in STATE_ERRORS:
            return False
        return any(is_impossible(step) for step in request.invoke.requested_steps)

    def _delivered_zxid(self, zxid: int) -> int:
        """Return the zxid of the transaction that an answer names. Before the first transaction of an epoch, ZooKeeper's
        servers name e:0, which is no transaction: they mean everything before that epoch."""
        if self.facts.run.evidence != LOGS or not zxid or zxid & COUNTER:
            return zxid
        zxids = self.facts.history.zxids
        before = bisect_left(zxids, zxid)
        return zxids[before - 1] if before else 0

    def _check_answers(self, answers: Sequence[tuple[int, Request | None]], place: int, zxid: int) -> int:
        """Check the answers, from index `place` on, up to `zxid`, which the state has reached. Return the index of the next
        one."""
        while place < len(answers) and answers[place][0] <= zxid:
            at, request = answers[place]
            place += 1
            if request is not None:
                self._check_answer(at, request, here=at == zxid)
        return place

    def _check_answer(self, zxid: int, request: Request, *, here: bool) -> None:
        self.checked += 1
        invoke, complete = request.invoke, request.complete
        assert complete is not None
        if not here:
            forked = self.facts.history.forked_delivery(zxid)
            by = (
                "no node has delivered"
                if forked is None
                else f"node {forked.node} delivered after its history had forked"
            )
            self._report_answer(request, f"names {show(zxid)}, which {by}", forked)
            return
        node = self.facts.nodes.get(complete.node or 0)
        if zxid and (node is None or not node.had_delivered(zxid, complete.t)):
            self._report_answer(request, f"names {show(zxid)}, which node {complete.node} had not delivered yet")
        elif (early := self._too_early(zxid, request.invoke, complete)) is not None:
            self._report_answer(request, early)
        elif self._is_unknown_by_logs(invoke) or (complete.outcome == "failed" and complete.error not in STATE_ERRORS):
            return
        elif invoke.op in READS:
            self._check_read(zxid, request, complete)
        elif (error := self._state.expected_error(invoke.requested_steps)) != complete.error:
            right = f"{error!r} was right" if error else "nothing was wrong with it"
            self._report_answer(request, f"is {complete.error!r}, but at {show(zxid)} {right}")

    def _is_unknown_by_logs(self, invoke: Invoke) -> bool:
        """Return whether a request asks for ZooKeeper's own znodes, which no log shows."""
        return any(self._is_own(step.path) for step in invoke.requested_steps)

    def _is_own(self, path: str) -> bool:
        """Return whether a znode is one of ZooKeeper's own."""
        return self.facts.run.evidence == LOGS and is_zookeepers_own(path)

    def _too_early(self, zxid: int, invoke: Invoke, complete: Complete) -> str | None:
        """Describe why the node that answered must not show a state as old as `zxid`, None if it may. This is known for our
        own nodes only."""
        if self.facts.run.evidence != TRACES:
            return None
        least = self._service.least(invoke, complete)
        if least is None:
            return f"names {show(zxid)}, and node {complete.node} had not joined a leader yet since its start"
        if zxid < least:
            return f"names {show(zxid)}, and when node {complete.node} started, its first leader had delivered {show(least)}"
        return None

    def _check_read(self, zxid: int, request: Request, complete: Complete) -> None:
        op, path = request.invoke.op, request.invoke.path
        znode = self._state.by_path.get(path)
        if znode is None:
            if op == "exists" and complete.error is not None:
                self._report_answer(request, f"is {complete.error!r}, although `exists` asks exactly that")
            elif complete.version is not None or (op != "exists" and complete.error != NO_NODE):
                self._report_answer(request, f"shows {path}, which does not exist at {show(zxid)}")
        elif complete.error is not None:
            self._report_answer(request, f"is {complete.error!r}, but {path} exists at {show(zxid)}")
        elif complete.version != znode.version:
            self._report_answer(
                request, f"shows {path} at version {complete.version}, but {show(zxid)} has {znode.version}"
            )
        elif op == "get" and complete.value != znode.value:
            self._report_answer(
                request, f"shows another value of {path}, version {znode.version}, than {show(zxid)} has"
            )
        elif op == "children" and not self._lists_children(path, complete, znode):
            self._report_answer(request, f"lists children of {path} that are not those at {show(zxid)}")

    def _lists_children(self, path: str, complete: Complete, znode: Znode) -> bool:
        listed = complete.children or []
        if self.facts.run.evidence == LOGS and path == ROOT:
            listed = [name for name in listed if not is_zookeepers_own(f"/{name}")]
        return len(listed) == len(znode.children) and znode.children == set(listed)

    def _report_answer(self, request: Request, words: str, cited: Line | None = None) -> None:
        invoke = request.invoke
        lines: list[Line | None] = [invoke, request.complete, cited]
        znode = self._state.by_path.get(invoke.path)
        if znode is not None and znode.changed_zxid:
            lines.insert(0, self._effects.broadcast(znode.changed_zxid))
        self.findings.add(f"the answer to client {invoke.client}, seq {invoke.seq} ({invoke.op}), {words}", lines)

    @property
    def _effects(self) -> Effects:
        return self.facts.effects
