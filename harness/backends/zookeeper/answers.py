"""Translates our requests to ZooKeeper's, and ZooKeeper's answers and errors to our outcomes. No I/O.

Failed is only for requests that ZooKeeper certainly did not carry out: it refused them because of the state of the tree, or as
malformed. After any other error the request may have taken effect, so its outcome is Unknown.
"""

from collections.abc import Sequence
from typing import Any

from zab_chaos.harness.extras import extra
from zab_chaos.node.core.zxid import ZERO, Zxid
from zab_chaos.node.tree import refusal
from zab_chaos.node.tree import requests as ours
from zab_chaos.node.tree.outcomes import Failed, Ok, Outcome, Stat, Unknown

with extra("zookeeper", "a client of ZooKeeper"):
    from kazoo import exceptions as kazoo
    from kazoo.protocol import serialization as theirs
    from kazoo.protocol.states import ZnodeStat
    from kazoo.security import OPEN_ACL_UNSAFE

SEQUENTIAL = 2  # flag of a create request

REFUSALS: dict[type[BaseException], str] = {
    kazoo.NoNodeError: refusal.NO_NODE,
    kazoo.NodeExistsError: refusal.NODE_EXISTS,
    kazoo.NotEmptyError: refusal.NOT_EMPTY,
    kazoo.BadVersionError: refusal.BAD_VERSION,
    kazoo.BadArgumentsError: refusal.BAD_REQUEST,
    kazoo.NoChildrenForEphemeralsError: refusal.BAD_REQUEST,
}


def to_kazoo(request: ours.Request) -> Any:
    """Return kazoo's form of a request. A single check becomes a multi with one step: ZooKeeper has no other form."""
    if isinstance(request, ours.Multi):
        return theirs.Transaction([_step(step) for step in request.steps])
    if isinstance(request, ours.Check):
        return theirs.Transaction([_step(request)])
    if isinstance(request, ours.Get):
        return theirs.GetData(request.path, None)
    if isinstance(request, ours.Exists):
        return theirs.Exists(request.path, None)
    if isinstance(request, ours.Children):
        return theirs.GetChildren2(request.path, None)
    return _step(request)


def from_result(request: ours.Request, result: Any, zxid: Zxid) -> Outcome:
    """Return the outcome that an answer means. `zxid` is the one in its header, the server's last."""
    if isinstance(request, ours.Multi | ours.Check):
        return _from_multi(request, result, zxid)
    if isinstance(request, ours.Create):
        return Ok(zxid, 0, str(result))
    if isinstance(request, ours.Set):
        return Ok(_write_zxid(zxid, [result]), result.version)
    if isinstance(request, ours.Delete):
        return Ok(zxid)
    if isinstance(request, ours.Exists):
        return Ok(zxid, result.version if result is not None else None)
    content, stat = result
    if isinstance(request, ours.Get):
        return Ok(zxid, stat.version, data=content)
    return Ok(zxid, stat.version, children=list(content))


def from_error(request: ours.Request, error: BaseException, zxid: Zxid) -> Outcome:
    """Return the outcome that an exception means. `zxid` is the server's last one when it refused."""
    name = REFUSALS.get(type(error))
    if name is None:
        return Unknown(f"{type(error).__name__} {error}".strip())
    if name == refusal.NO_NODE and isinstance(request, ours.Create):
        name = refusal.NO_PARENT
    return Failed(name, type(error).__name__, zxid)


def _step(step: ours.Step) -> Any:
    if isinstance(step, ours.Create):
        return theirs.Create(step.path, step.data, OPEN_ACL_UNSAFE, SEQUENTIAL if step.sequential else 0)
    if isinstance(step, ours.Set):
        return theirs.SetData(step.path, step.data, step.version)
    if isinstance(step, ours.Delete):
        return theirs.Delete(step.path, step.version)
    return theirs.CheckVersion(step.path, step.version)


def _from_multi(request: ours.Multi | ours.Check, results: Sequence[Any], zxid: Zxid) -> Outcome:
    """Return the outcome of a multi. If it was refused, the first error that is no rollback is the reason: the steps before it
    are rolled back, those after it not tried."""
    steps = request.steps if isinstance(request, ours.Multi) else [request]
    for step, result in zip(steps, results, strict=False):
        if isinstance(result, Exception) and not isinstance(result, kazoo.RolledBackError):
            return from_error(step, result, zxid)
    if len(results) != len(steps) or any(isinstance(result, Exception) for result in results):
        return Unknown(f"{len(results)} answers to {len(steps)} steps, and none says why")
    stats = [_stat(step, result) for step, result in zip(steps, results, strict=True)]
    at = _write_zxid(zxid, results)
    return Ok(at, steps=stats) if isinstance(request, ours.Multi) else Ok(at, stats[0].version)


def _write_zxid(zxid: Zxid, results: Sequence[Any]) -> Zxid:
    """Return a write's zxid; ZERO if the answer's header and a stat in it have different ones."""
    return zxid if all(result.mzxid == zxid for result in results if isinstance(result, ZnodeStat)) else ZERO


def _stat(step: ours.Step, result: Any) -> Stat:
    if isinstance(step, ours.Create):
        return Stat(str(result), 0)
    if isinstance(result, ZnodeStat):
        return Stat(step.path, result.version)
    known = isinstance(step, ours.Check) and step.version != ours.ANY  # the answer to a check has no version
    return Stat(step.path, step.version if known and isinstance(step, ours.Check) else None)
