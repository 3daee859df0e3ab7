"""The checker that each request takes effect once, as its client was told (LADIS 2008, section 1)."""

from collections.abc import Collection, Sequence

from zab_chaos.model.events import LOGS, TRACE_FOLDER, TRACES, Broadcast, Complete, Effect, Invoke, Line
from zab_chaos.model.oracle.evidence import show
from zab_chaos.model.oracle.facts import ORDERED, RECORDS, WRITES, Request
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.oracle.znodes import RequestedStep, is_sequential_name


class ExactlyOnce(Checker):
    """LADIS 2008: the transaction of a request is delivered at most once, and the answer tells what it did.

    Verifies, by the content that `broadcast` records for the delivered transactions:

    - No request (client, seq) has two transactions, and a failed one has none, whatever its error.
    - A client had requested each transaction before, with these operations, paths and values. The same holds for
      transactions that were proposed and not delivered.
    - A fence has the seq of a request that its client had sent before, so there was something to keep out.
    - No client was told the outcome of a request twice.
    - A successful write took effect at exactly the zxid, path and version that its client was told, and the node that
      answered had delivered it by then.

    Delivering the same zxid again is legal, and an unknown write may or may not take effect. Does not verify conditions and
    versions against the state (values and versions does), requests of clients that connected to a node and kept no record,
    nor which life of a node had delivered before it answered.
    """

    name = "exactly once"
    source = "LADIS 2008"
    statement = (
        "A request takes effect at most once, a failed one never, and a successful one exactly as its client was told."
    )
    rests_on_absence = False  # `_report_absence` handles the findings that do

    def at_end(self) -> None:
        effects = self.facts.effects
        if (zxid := effects.first_unknown()) is not None:
            self.unknown.append(f"exactly once can't be judged: no record has the content of {show(zxid)}")
        first, requests = effects.first_effects, self.facts.requests
        for told, again in self.facts.told_again:
            words = f"client {again.client}, seq {again.seq}, was told {again.outcome!r}, and {told.outcome!r} before"
            self._report_absence(words, [told, again])
        self._connected = {client for _, client in self.facts.connections}  # clients that some node knew
        for zxid, txn, broadcast in zip(self.facts.history.zxids, effects.txns, effects.broadcasts, strict=True):
            if txn is None:
                continue
            self.checked += 1
            key = (txn[0], txn[1])
            request = requests.get(key)
            if zxid in effects.fences:
                if txn[0] in self.facts.last_seq:
                    self._check_fence(zxid, key, request)
            elif first[key] != zxid:
                self._report_second_effect(key, zxid, request)
            elif request is not None:
                self._check_effect(request, zxid, txn[2], broadcast)
            elif self._never_requested(key):
                words = f"{show(zxid)} is the effect of client {txn[0]}, seq {txn[1]}, which nobody asked for"
                self._report_absence(words, [broadcast])
        self._check_undelivered()
        for key, request in requests.items():
            complete = request.complete
            if key not in first and complete is not None and complete.outcome == "ok" and request.invoke.op in ORDERED:
                self._check_acknowledged(request, complete, None)

    def _check_fence(self, zxid: int, key: tuple[int, int], request: Request | None) -> None:
        """Check a fence: it may only keep out a write that its client had sent, and earlier ones."""
        fence = self.facts.effects.broadcast(zxid)
        if request is None or (fence is not None and fence.t < request.invoke.t):
            words = f"{show(zxid)} is a fence of client {key[0]} at seq {key[1]}, which the client had not sent yet"
            self._report_absence(words, [fence, request.invoke if request is not None else None])

    def _check_undelivered(self) -> None:
        """Check that clients had also requested what was broadcast and never delivered. With ZooKeeper's servers, where
        only a log shows such a transaction, it is not certain whose it was."""
        traced = self.facts.run.evidence == TRACES
        for broadcast, (client, seq, steps) in self.facts.effects.undelivered_proposals():
            request = self.facts.requests.get((client, seq))
            if request is None:
                if traced and self._never_requested((client, seq)):
                    words = f"a write of client {client}, seq {seq}, was proposed, which nobody asked for"
                    self._report_absence(words, [broadcast])
            elif not _matches(request.invoke.requested_steps, steps):
                words = (
                    f"{_request_name(request)} was proposed with other operations, paths or values than were asked for"
                )
                self.findings.add(words, [request.invoke, broadcast])
            elif self._too_soon(request, broadcast):
                self.findings.add(
                    f"{_request_name(request)} was proposed before it was asked for", [broadcast, request.invoke]
                )

    def _never_requested(self, key: tuple[int, int]) -> bool:
        """Return whether the records would have this request, and do not."""
        client = key[0]
        return key not in self.facts.before_start and (client in self.facts.last_seq or client not in self._connected)

    def _too_soon(self, request: Request, broadcast: Broadcast | None) -> bool:
        """Return whether it was broadcast before its client sent it. The times of ZooKeeper's logs are not exact enough for
        this."""
        traced = self.facts.run.evidence == TRACES
        return traced and broadcast is not None and broadcast.t < request.invoke.t

    def _report_second_effect(self, key: tuple[int, int], zxid: int, request: Request | None) -> None:
        effects = self.facts.effects
        before = effects.first_effects[key]
        self.findings.add(
            f"the request of client {key[0]}, seq {key[1]}, took effect at {show(before)}, and again at {show(zxid)}",
            [request.invoke if request is not None else None, effects.broadcast(before), effects.broadcast(zxid)],
        )

    def _check_effect(self, request: Request, zxid: int, steps: Sequence[Effect], broadcast: Broadcast | None) -> None:
        """Check the first effect of a request against what its client requested and was told."""
        invoke, complete = request.invoke, request.complete
        wrong = None
        if not _matches(invoke.requested_steps, steps):
            wrong = "with other operations, paths or values than were asked for"
        elif self._too_soon(request, broadcast):
            wrong = "before it was asked for"
        elif complete is None or complete.outcome == "unknown":
            return
        elif complete.outcome == "failed":
            wrong = f"although its client was told that it failed ({complete.error})"
        elif not _was_told(invoke, complete, steps, silent=self.facts.run.evidence == LOGS):
            wrong = "with another path or version than its client was told"
        else:
            self._check_acknowledged(request, complete, zxid)
        if wrong is not None:
            done = ", ".join(" ".join(str(part) for part in step if part is not None) for step in steps)
            self.findings.add(
                f"{_request_name(request)} took effect at {show(zxid)} ({done}) {wrong}",
                [invoke, broadcast, complete],
            )

    def _check_acknowledged(self, request: Request, complete: Complete, effect: int | None) -> None:
        """Check that an acknowledged write names the zxid of its transaction (`effect`), and that the node had delivered it."""
        acked = request.zxid
        if not acked:  # no transaction has the zxid 0:0
            self.findings.add(f"{_request_name(request)} was acknowledged without a zxid", [request.invoke, complete])
            return
        node = self.facts.nodes.get(complete.node or 0)
        if node is None or not node.had_delivered(acked, complete.t):
            words = f"{_request_name(request)} was acknowledged at {show(acked)} before node {complete.node} had delivered that"
            self._report_absence(words, [request.invoke, complete], {TRACE_FOLDER, "ops.jsonl"}, {complete.node or 0})
        if effect == acked:
            return
        index = self.facts.history.index(acked)
        if index is None:
            known = request.invoke.op not in WRITES  # durability reports a write that no node has delivered
        else:
            known = self.facts.effects.txns[index] is not None
        if known:
            where = "took no effect" if effect is None else f"took effect at {show(effect)}"
            lost = effect is None and index is None
            report = self._report_absence if lost else self.findings.add
            report(
                f"{_request_name(request)} was acknowledged at {show(acked)}, but it {where}",
                [request.invoke, self.facts.effects.broadcast(acked), complete],
            )

    def _report_absence(
        self,
        words: str,
        lines: Sequence[Line | None],
        files: Collection[str] = RECORDS,
        nodes: Collection[int] | None = None,
    ) -> None:
        """Report something that is missing from these files, of the traces from those of these nodes. If they are damaged, this
        proves nothing."""
        if not self.facts.damaged(files, nodes):
            self.findings.add(words, lines)
        elif not self.unknown:
            self.unknown.append(f"exactly once is not certain: {words}")


def _request_name(request: Request) -> str:
    invoke = request.invoke
    return f"the {invoke.op} of client {invoke.client}, seq {invoke.seq},"


def _matches(asked: Sequence[RequestedStep], steps: Sequence[Effect]) -> bool:
    if len(asked) == len(steps) == 1:  # the usual case
        return _matches_step(asked[0], steps[0])
    return len(asked) == len(steps) and all(_matches_step(one, step) for one, step in zip(asked, steps, strict=True))


def _matches_step(asked: RequestedStep, step: Effect) -> bool:
    op, path, _version, value = step
    return (
        op == asked.op
        and value == asked.value
        and (is_sequential_name(path, asked.path) if asked.sequential else path == asked.path)
    )


def _was_told(invoke: Invoke, complete: Complete, steps: Sequence[Effect], *, silent: bool) -> bool:
    """Return whether the answer has the paths and versions of the transaction's steps. `silent`: a check of any version may
    get no version in the answer, as with ZooKeeper's servers."""
    answered = complete.steps or () if invoke.op == "multi" else [(complete.path, complete.version)]
    if len(answered) != len(steps):
        return False
    if steps and complete.version != steps[-1][2] and not silent:  # a multi's is that of its last step
        return False
    for asked, (path, version), step in zip(invoke.requested_steps, answered, steps, strict=True):
        omitted = silent and step[0] == "check" and asked.version is None and version is None
        if version != step[2] and not omitted:
            return False
        if path != step[1] and (invoke.op == "multi" or step[0] == "create"):
            return False
    return True
