"""What became of a request. Three types, so that nobody can take one for another; above all not Unknown for Failed."""

from typing import final

from zab_chaos.node.core.messages import Wire
from zab_chaos.node.core.zxid import ZERO, Zxid
from zab_chaos.node.tree.txns import Change, CheckTxn, CreateTxn, FenceTxn, MultiTxn, SetTxn


class Stat(Wire, frozen=True, gc=False):
    """One step's result in a Multi: the path (complete, also of a sequential create) and version; None if deleted."""

    path: str
    version: int | None


@final
class Ok(Wire, frozen=True, tag="ok"):
    """It was done.

    `zxid`: of a write, its transaction's; of a read, the last one delivered at the node when it was executed.
    `version`: of the znode afterwards; None where there is none (deleted; `exists` of a missing one).
    `path`: of a create, the complete path. `data`, `children`: what a read asked for. `steps`: of a Multi.
    """

    zxid: Zxid
    version: int | None = None
    path: str | None = None
    data: bytes | None = None
    children: list[str] | None = None
    steps: list[Stat] | None = None


@final
class Failed(Wire, frozen=True, tag="failed", gc=False):
    """Certainly without effect. `error` is one of `zab_chaos.node.tree.refusal.ERRORS`, `words` explain it.

    `zxid`: the last transaction that the refusal may rest on, so that a later read does not show an older state.
    """

    error: str
    words: str
    zxid: Zxid = ZERO


@final
class Unknown(Wire, frozen=True, tag="unknown", gc=False):
    """It may have taken effect, may yet, or never will; `why` nobody can tell."""

    why: str


Outcome = Ok | Failed | Unknown


def outcome_of(zxid: Zxid, change: Change | MultiTxn | FenceTxn) -> Ok:
    """The outcome for the client of a delivered transaction: it is all in the transaction."""
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
