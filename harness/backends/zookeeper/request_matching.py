"""Finds the client request that a transaction of ZooKeeper's log carries out."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from zab_chaos.harness.backends.zookeeper.evidence import RunEvidence
from zab_chaos.harness.backends.zookeeper.txnlog import CLOSE, SESSION, Step, Transaction
from zab_chaos.model.events import Complete, Invoke, packed
from zab_chaos.model.oracle.facts import ORDERED

SEQUENCE_NUMBER = re.compile(r"\d{10}$")  # at the end of a sequential znode's path
NO_CLIENT = 0  # the client of transactions that servers make by themselves

StepKeys = tuple[tuple[str, str, int | None], ...]  # op, path without a sequence number, value of each step


@dataclass(frozen=True, slots=True)
class _OpenRequest:
    """A request whose outcome is unknown, or whose client was told that it had failed (`refused`)."""

    invoke: Invoke
    refused: bool

    def has_paths_of(self, steps: Sequence[Step]) -> bool:
        """Return whether exactly the paths that the request lets end with a number have one in the steps of a transaction."""
        pairs = zip(self.invoke.requested_steps, steps, strict=True)
        return all(
            asked.path == (SEQUENCE_NUMBER.sub("", path) if asked.sequential else path)
            for asked, (_, path, *_) in pairs
        )

    def condition_holds(self, steps: Sequence[Step], versions: Mapping[str, int]) -> bool:
        """Return whether the steps of a transaction fit the versions that the request demands.

        In the log, a check and a set have the version that follows the demanded one, and a delete has none. So `versions` has
        those of the znodes before the transaction.
        """
        pairs = zip(self.invoke.requested_steps, steps, strict=True)
        return all(asked.version in (None, _version_before(step, versions, asked.version)) for asked, step in pairs)


class RequestMatcher:
    """Matches transactions to the requests in ops.jsonl.

    `history` is the one that the servers have at the end: it shows when sessions began and ended.
    """

    def __init__(self, evidence: RunEvidence, history: Sequence[Transaction]) -> None:
        self._began = {txn.client: txn.zxid for txn in reversed(history) if txn.type == SESSION}
        self._ended = {txn.client: txn.zxid for txn in history if txn.type == CLOSE}
        self._clients = {session: client for client, sessions in evidence.sessions.items() for session in sessions}
        self._client_numbers = set(evidence.sessions)
        self._acknowledged: dict[int, tuple[int, int]] = {}  # (client, seq) by the zxid that the client was told
        self._acknowledged_seqs: dict[tuple[int, StepKeys], int] = {}
        self._open: dict[tuple[int, StepKeys], list[_OpenRequest]] = {}
        self._latest_seqs: dict[int, int] = {}  # by client: the highest seq that has taken effect so far
        self._versions: dict[str, int] = {}  # of the znodes, after the transactions so far
        answers = {it.id: it for it in evidence.operations if isinstance(it, Complete)}
        for invoke in evidence.operations:
            if not isinstance(invoke, Invoke) or invoke.op not in ORDERED:
                continue
            key = invoke.id
            answer = answers.get(key)
            if answer is None or answer.outcome != "ok":
                refused = answer is not None and answer.outcome == "failed"
                self._open.setdefault((invoke.client, _keys_of(invoke)), []).append(_OpenRequest(invoke, refused))
            elif answer.zxid is not None:
                self._acknowledged[packed(answer.zxid)] = key
                self._acknowledged_seqs[invoke.client, _keys_of(invoke)] = invoke.seq

    def match(self, txn: Transaction) -> tuple[int, int]:
        """Return the (client, seq) of the request that a transaction carries out. Call it in the order of the zxids.

        A request that was sent once and is carried out twice is returned both times. A transaction that is no request of
        ops.jsonl has its session as client. Its seq, and that of one that its client has never asked for, is the zxid.
        """
        client, seq = self._match(txn)
        self._versions.update({path: version or 0 for op, path, version, _ in txn.steps if op in ("create", "set")})
        if self.is_recorded(client) and seq != txn.zxid:
            self._latest_seqs[client] = max(seq, self._latest_seqs.get(client, 0))
        return client, seq

    def _match(self, txn: Transaction) -> tuple[int, int]:
        if txn.zxid < self._began.get(txn.client, 0):  # it is older than the session, which can't have made it
            return NO_CLIENT, txn.zxid
        if txn.ephemerals or txn.zxid > self._ended.get(txn.client, txn.zxid):
            return txn.client, txn.zxid  # the clients of ops.jsonl create no ephemeral znodes
        client = self._clients.get(txn.client)
        acknowledged = self._acknowledged.get(txn.zxid)
        if acknowledged is not None and (client is None or acknowledged[0] == client):
            return acknowledged
        if client is None or not txn.steps or txn.type == CLOSE:
            return txn.client, txn.zxid
        key = client, _step_keys((op, path, value) for op, path, _, value in txn.steps)
        if self._open.get(key):
            return client, self._take_likeliest(client, self._open[key], txn.steps)
        return client, self._acknowledged_seqs.get(key, txn.zxid)

    def _take_likeliest(self, client: int, waiting: list[_OpenRequest], steps: Sequence[Step]) -> int:
        """Remove the likeliest of several equal requests from `waiting`, and return its seq.

        It is one that asked for these paths, whose condition holds, that was not refused, and that is not older than what has
        taken effect already. If no request is like that, a promise has been broken, and the oracle finds it.
        """
        latest = self._latest_seqs.get(client, 0)
        best = min(
            waiting,
            key=lambda it: (
                not it.has_paths_of(steps),
                not it.condition_holds(steps, self._versions),
                it.refused,
                it.invoke.seq <= latest,
                it.invoke.seq,
            ),
        )
        waiting.remove(best)
        return best.invoke.seq

    def is_recorded(self, client: int) -> bool:
        """Return whether this is the number of a client whose requests are in ops.jsonl."""
        return client in self._client_numbers


def _version_before(step: Step, versions: Mapping[str, int], otherwise: int | None) -> int | None:
    """Return the version that a znode had before a step, or `otherwise` if that does not follow from the log."""
    op, path, version, _ = step
    if op == "delete":
        return versions.get(path, otherwise)
    return version - 1 if version else otherwise


def _keys_of(invoke: Invoke) -> StepKeys:
    return _step_keys((step.op, step.path, step.value) for step in invoke.requested_steps)


def _step_keys(steps: Iterable[tuple[str, str, int | None]]) -> StepKeys:
    """Remove the number from the paths of znodes to create: a request for a sequential one does not have it yet."""
    return tuple((op, SEQUENCE_NUMBER.sub("", path) if op == "create" else path, value) for op, path, value in steps)
