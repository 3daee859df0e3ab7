"""The outcomes of a request. They are three types so that none, above all Unknown, can be taken for another."""

from typing import final

from zab_chaos.node.core.messages import Wire
from zab_chaos.node.core.zxid import ZERO, Zxid
from zab_chaos.node.tree.txns import Change, CheckTxn, CreateTxn, FenceTxn, MultiTxn, SetTxn


class Stat(Wire, frozen=True, gc=False):
    """The result of one step of a Multi: its path (complete, also of a sequential create) and version; None if deleted."""

    path: str
    version: int | None


@final
class Ok(Wire, frozen=True, tag="ok"):
    """The request took effect.

    `zxid`: the transaction of a write; for a read, the last one delivered at the node when it was executed. `version`: of
    the znode afterwards; None if there is none (deleted; `exists` of a missing one). `path`: the complete path of a create.
    `data`, `children`: what a read asked for. `steps`: the results of a Multi.
    """

    zxid: Zxid
    version: int | None = None
    path: str | None = None
    data: bytes | None = None
    children: list[str] | None = None
    steps: list[Stat] | None = None


@final
class Failed(Wire, frozen=True, tag="failed", gc=False):
    """The request certainly had no effect. `error` is one of `zab_chaos.node.tree.refusal.ERRORS`; `words` explain it.

    `zxid`: the last transaction that the refusal may rest on, so that a later read does not show an older state.
    """

    error: str
    words: str = ""
    zxid: Zxid = ZERO


@final
class Unknown(Wire, frozen=True, tag="unknown", gc=False):
    """The request may have taken effect, may still do so, or never will. `why`: the reason that nobody can tell."""

    why: str


Outcome = Ok | Failed | Unknown


def outcome_of(zxid: Zxid, change: Change | MultiTxn | FenceTxn) -> Ok:
    """Return the outcome of a delivered transaction for its client."""
    if isinstance(change, (SetTxn, CheckTxn)):
        return Ok(zxid, change.version)
    if isinstance(change, CreateTxn):
        return Ok(zxid, 0, change.path)
    if isinstance(change, MultiTxn):
        return Ok(zxid, steps=[_stat(each) for each in change.changes])
    return Ok(zxid)


def _stat(change: Change) -> Stat:
    if isinstance(change, CreateTxn):
        return Stat(change.path, 0)
    if isinstance(change, SetTxn | CheckTxn):
        return Stat(change.path, change.version)
    return Stat(change.path, None)


def answer_size(outcome: Ok | Failed) -> int:
    """Return the bytes of data and the characters of text that the answer to a read has."""
    if type(outcome) is Failed:
        return len(outcome.words)
    return len(outcome.data or b"") + sum(map(len, outcome.children or ()))
