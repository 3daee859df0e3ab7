"""What became of each request (LADIS 2008, section 1: a request takes effect once, and its client is told which)."""

from collections.abc import Sequence

from zab_chaos.model.events import LOGS, TRACES, Broadcast, Complete, Effect, Invoke, Line
from zab_chaos.model.oracle.evidence import show
from zab_chaos.model.oracle.facts import ORDERED, Request
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.oracle.znodes import RequestedStep, is_sequential_name


class ExactlyOnce(Checker):
    """LADIS 2008: the transaction of a request is delivered at most once, and the answer tells what it did.

    Verifies, with what `broadcast` says of the delivered transactions: no request (client, seq) has two of them; a
    failed one has none, whichever error it was told; each was asked for by a client before, with these operations, paths
    and values, and so was each that was proposed and not delivered; a fence has the seq of what its client had asked for
    before: what is fenced off was there; and a write that succeeded took effect at exactly the zxid, path and version that
    its client was told, when the node that answered had delivered it. Delivering the same zxid again
    is legal, and so is an unknown write with or without effect. Does not verify conditions and versions against the state
    (values and versions does), requests of clients that connected to a node and kept no record, nor which life of a node
    had delivered before it answered.
    """

    name = "exactly once"
    source = "LADIS 2008"
    statement = (
        "A request takes effect at most once, a failed one never, and a successful one exactly as its client was told."
    )
    rests_on_absence = False  # where it does, `_absent` sees to it

    def at_end(self) -> None:
        effects = self.facts.effects
        if not effects.recorded:
            self.not_applicable = "the broadcasts do not say what their transactions do"
            return
        if (hole := effects.first_unknown()) is not None:
            self.unknown.append(f"exactly once can't be judged: nothing says what {show(hole)} does")
        first, requests = effects.first_effects, self.facts.requests
        self._connected = {client for _, client in self.facts.connections}  # those that some node knew
        for zxid, txn in effects.known_txns():
            self.checked += 1
            key = (txn[0], txn[1])
            request = requests.get(key)
            if zxid in effects.fences:
                if txn[0] in self.facts.last_seq and key not in self.facts.before_start:
                    self._fence(zxid, key, request)
            elif first[key] != zxid:
                self._twice(key, zxid, request)
            elif request is not None:
                self._effect(request, zxid, txn[2])
            elif self._nobodys(key):
                words = f"{show(zxid)} is the effect of client {txn[0]}, seq {txn[1]}, which nobody asked for"
                self._absent(words, [effects.broadcast(zxid)])
        self._proposed()
        for key, request in requests.items():
            complete = request.complete
            if key not in first and complete is not None and complete.outcome == "ok" and request.invoke.op in ORDERED:
                self._acknowledged(request, complete, None)

    def _fence(self, zxid: int, key: tuple[int, int], request: Request | None) -> None:
        """A fence keeps out a write that may be under way, and what came before it; no other write."""
        fence = self.facts.effects.broadcast(zxid)
        if request is None or (fence is not None and fence.t < request.invoke.t):
            words = f"{show(zxid)} is a fence of client {key[0]} at seq {key[1]}, to which the client had not come"
            self._absent(words, [fence, request.invoke if request is not None else None])

    def _proposed(self) -> None:
        """What was broadcast and never delivered took no effect, but somebody had asked for it, too. Whose it was is not
        certain where it stands in a log alone, as with ZooKeeper's servers."""
        traced = self.facts.run.evidence == TRACES
        for broadcast, (client, seq, steps) in self.facts.effects.undelivered_proposals():
            request = self.facts.requests.get((client, seq))
            if request is None:
                if traced and self._nobodys((client, seq)):
                    words = f"a write of client {client}, seq {seq}, was proposed, which nobody asked for"
                    self._absent(words, [broadcast])
            elif not _fits(request.invoke.requested_steps, steps):
                words = f"{_name(request)} was proposed with other operations, paths or values than were asked for"
                self.findings.add(words, [request.invoke, broadcast])
            elif self._too_soon(request, broadcast):
                self.findings.add(f"{_name(request)} was proposed before it was asked for", [broadcast, request.invoke])

    def _nobodys(self, key: tuple[int, int]) -> bool:
        """Whether somebody would have asked for it on record, and nobody did."""
        client = key[0]
        return key not in self.facts.before_start and (client in self.facts.last_seq or client not in self._connected)

    def _too_soon(self, request: Request, broadcast: Broadcast | None) -> bool:
        """Whether it was broadcast before its client asked for it. The times of ZooKeeper's logs are not so exact."""
        traced = self.facts.run.evidence == TRACES
        return traced and broadcast is not None and broadcast.t < request.invoke.t

    def _twice(self, key: tuple[int, int], zxid: int, request: Request | None) -> None:
        effects = self.facts.effects
        before = effects.first_effects[key]
        self.findings.add(
            f"the request of client {key[0]}, seq {key[1]}, took effect at {show(before)}, and again at {show(zxid)}",
            [request.invoke if request is not None else None, effects.broadcast(before), effects.broadcast(zxid)],
        )

    def _effect(self, request: Request, zxid: int, steps: Sequence[Effect]) -> None:
        """A request has taken effect for the first time: as it was asked for, and as its client was told?"""
        invoke, complete = request.invoke, request.complete
        wrong = None
        if not _fits(invoke.requested_steps, steps):
            wrong = "with other operations, paths or values than were asked for"
        elif self._too_soon(request, self.facts.effects.broadcast(zxid)):
            wrong = "before it was asked for"
        elif complete is None or complete.outcome == "unknown":
            return
        elif complete.outcome == "failed":
            wrong = f"although its client was told that it failed ({complete.error})"
        elif not _told(invoke, complete, steps, silent=self.facts.run.evidence == LOGS):
            wrong = "with another path or version than its client was told"
        else:
            self._acknowledged(request, complete, zxid)
        if wrong is not None:
            said = ", ".join(" ".join(str(part) for part in step if part is not None) for step in steps)
            self.findings.add(
                f"{_name(request)} took effect at {show(zxid)} ({said}) {wrong}",
                [invoke, self.facts.effects.broadcast(zxid), complete],
            )

    def _acknowledged(self, request: Request, complete: Complete, effect: int | None) -> None:
        """A write was acknowledged: at its transaction's zxid, and not before the node had delivered it?"""
        told = request.zxid
        if not told:  # 0:0 is no transaction's
            self.findings.add(f"{_name(request)} was acknowledged without a zxid", [request.invoke, complete])
            return
        node = self.facts.nodes.get(complete.node or 0)
        if node is None or not node.had_delivered(told, complete.t):
            words = f"{_name(request)} was acknowledged at {show(told)} before node {complete.node} had delivered that"
            self._absent(words, [request.invoke, complete])
        if effect == told:
            return
        index = self.facts.history.index(told)
        if index is not None and self.facts.effects.txns[index] is not None:
            where = "took no effect" if effect is None else f"took effect at {show(effect)}"
            self.findings.add(
                f"{_name(request)} was acknowledged at {show(told)}, but it {where}",
                [request.invoke, self.facts.effects.broadcast(told), complete],
            )

    def _absent(self, words: str, lines: Sequence[Line | None]) -> None:
        """A finding that rests on what is not in the records: where they are damaged, it proves nothing."""
        if not self.facts.damages:
            self.findings.add(words, lines)
        elif not self.unknown:
            self.unknown.append(f"exactly once is not certain: {words}")


def _name(request: Request) -> str:
    invoke = request.invoke
    return f"the {invoke.op} of client {invoke.client}, seq {invoke.seq},"


def _fits(asked: Sequence[RequestedStep], steps: Sequence[Effect]) -> bool:
    if len(asked) == len(steps) == 1:  # nearly always
        return _same(asked[0], steps[0])
    return len(asked) == len(steps) and all(_same(one, step) for one, step in zip(asked, steps, strict=True))


def _same(asked: RequestedStep, step: Effect) -> bool:
    op, path, _version, value = step
    return (
        op == asked.op
        and value == asked.value
        and (is_sequential_name(path, asked.path) if asked.sequential else path == asked.path)
    )


def _told(invoke: Invoke, complete: Complete, steps: Sequence[Effect], *, silent: bool) -> bool:
    """Whether a client was told the paths and versions that the steps of its transaction have. `silent`: who checked no version
    in particular may have been told none, as by ZooKeeper's servers."""
    told = complete.steps or () if invoke.op == "multi" else [(complete.path, complete.version)]
    if len(told) != len(steps):
        return False
    for asked, (path, version), step in zip(invoke.requested_steps, told, steps, strict=True):
        untold = silent and step[0] == "check" and asked.version is None and version is None
        if version != step[2] and not untold:
            return False
        if path != step[1] and (invoke.op == "multi" or step[0] == "create"):
            return False
    return True
