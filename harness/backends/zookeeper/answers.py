"""Our requests as ZooKeeper's, and what ZooKeeper answers as our outcomes; pure, but for kazoo's types.

Only what ZooKeeper certainly did not do is Failed: what it refuses for the state of the tree, or for what was asked.
Anything else that is no answer leaves it open whether the request took effect: Unknown.
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

SEQUENTIAL = 2  # the flag of a create

REFUSALS: dict[type[BaseException], str] = {
    kazoo.NoNodeError: refusal.NO_NODE,
    kazoo.NodeExistsError: refusal.NODE_EXISTS,
    kazoo.NotEmptyError: refusal.NOT_EMPTY,
    kazoo.BadVersionError: refusal.BAD_VERSION,
    kazoo.BadArgumentsError: refusal.BAD_REQUEST,
    kazoo.NoChildrenForEphemeralsError: refusal.BAD_REQUEST,
}


def asked(request: ours.Request) -> Any:
    """The request in ZooKeeper's protocol. A check alone is a multi of one step, as there is no other."""
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


def answered(request: ours.Request, result: Any, zxid: Zxid) -> Outcome:
    """What an answer means. `zxid`: the one in its header, the server's last."""
    if isinstance(request, ours.Multi | ours.Check):
        return _together(request, result, zxid)
    if isinstance(request, ours.Create):
        return Ok(zxid, 0, str(result))
    if isinstance(request, ours.Set):
        return Ok(_agreed(zxid, [result]), result.version)
    if isinstance(request, ours.Delete):
        return Ok(zxid)
    if isinstance(request, ours.Exists):
        return Ok(zxid, result.version if result is not None else None)
    content, stat = result
    if isinstance(request, ours.Get):
        return Ok(zxid, stat.version, data=content)
    return Ok(zxid, stat.version, children=list(content))


def refused(request: ours.Request, error: BaseException, zxid: Zxid) -> Outcome:
    """What an exception means. `zxid`: the server's last when it refused."""
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


def _together(request: ours.Multi | ours.Check, results: Sequence[Any], zxid: Zxid) -> Outcome:
    """Of a multi that was refused, the first step says why: those before it are rolled back, those after it not tried."""
    steps = request.steps if isinstance(request, ours.Multi) else [request]
    for step, result in zip(steps, results, strict=False):
        if isinstance(result, Exception) and not isinstance(result, kazoo.RolledBackError):
            return refused(step, result, zxid)
    if len(results) != len(steps) or any(isinstance(result, Exception) for result in results):
        return Unknown(f"{len(results)} answers to {len(steps)} steps, and none says why")
    told = [_stat(step, result) for step, result in zip(steps, results, strict=True)]
    at = _agreed(zxid, results)
    return Ok(at, steps=told) if isinstance(request, ours.Multi) else Ok(at, told[0].version)


def _agreed(zxid: Zxid, results: Sequence[Any]) -> Zxid:
    """A write's zxid; none if the header and the stat of what it set name two."""
    return zxid if all(result.mzxid == zxid for result in results if isinstance(result, ZnodeStat)) else ZERO


def _stat(step: ours.Step, result: Any) -> Stat:
    if isinstance(step, ours.Create):
        return Stat(str(result), 0)
    if isinstance(result, ZnodeStat):
        return Stat(step.path, result.version)
    known = isinstance(step, ours.Check) and step.version != ours.ANY  # a check does not say what it has found
    return Stat(step.path, step.version if known and isinstance(step, ours.Check) else None)
