"""The rules for a scenario's tables of initial disks (`[[disk]]`) and of the final state (`[expect.state]`)."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from zab_chaos.faults.kind import Key
from zab_chaos.faults.rules import InvalidValueError, Rule, integer, shown
from zab_chaos.faults.scenario import InitialDisk

# The properties that a run may be expected to violate. They are those of `zab_chaos.model.oracle.properties`, which `faults`
# may not import.
PROPERTIES = (
    "integrity", "total order", "agreement", "local primary order", "global primary order", "primary integrity", "prefix",
    "causal order", "reliable delivery", "one leader an epoch", "epochs", "promises", "synchronization", "disk",
    "quorum durability", "durability", "committed stays", "client order", "exactly once", "values and versions",
    "state equality", "recovery", "progress", "channels", "sanity", "replay equality", "expected state", "linearizable keys",
    "sessions", "ephemerals", "watches", "sync", "isolation",
)  # fmt: skip

# The levels of isolation that transactions on lists may promise, from the strongest. They are those of
# `zab_chaos.model.isolation`.
LEVELS = (
    "strict-serializable", "strong-session-serializable", "serializable", "strong-snapshot-isolation",
    "strong-session-snapshot-isolation", "snapshot-isolation", "read-committed",
)  # fmt: skip

MAX_EPOCH = 2**31 - 1
MAX_LOGGED = 100_000  # transactions on one disk


def znode_values() -> Rule:
    """Return the rule for the values of znodes, { path = value }: a value is a text, false (no such znode), or a list of these.

    It reads a tuple of possible values for each path; None stands for false.
    """
    allowed = '{ "/key-0" = "a value", "/key-1" = ["one", "or the other"], "/key-2" = false (no such znode) }'

    def read(value: Any, _nodes: int) -> dict[str, tuple[str | None, ...]]:
        if not isinstance(value, dict) or not value:
            raise InvalidValueError(f"{shown(value)} is not a table of znode values", allowed)
        found = {}
        for path, held in value.items():
            values = held if isinstance(held, list) else [held]
            if not path.startswith("/") or not values:
                raise InvalidValueError(f"{path!r} = {shown(held)} is not the path of a znode with its value", allowed)
            if not all(one is False or isinstance(one, str) for one in values):
                raise InvalidValueError(f"{path!r} = {shown(held)}: a value is a text, or false", allowed)
            found[path] = tuple(None if one is False else one for one in values)
        return found

    return Rule(allowed, read)


def log_zxids() -> Rule:
    """Return the rule for a log: zxids in ascending order, the counters of an epoch from 1 on without gaps."""
    allowed = "[[epoch, counter], ...], ascending, the counters of an epoch from 1 without gaps"

    def read(value: Any, _nodes: int) -> tuple[tuple[int, int], ...]:
        if not isinstance(value, list | tuple) or len(value) > MAX_LOGGED:
            raise InvalidValueError(f"{shown(value)} is no log", allowed)
        last = (0, 0)
        for one in value:
            if not isinstance(one, list) or len(one) != 2 or not all(type(part) is int for part in one):
                raise InvalidValueError(f"{shown(one)} is no zxid", allowed)
            epoch, counter = one
            follows = counter == last[1] + 1 if epoch == last[0] else epoch > last[0] and counter == 1
            if not follows or epoch > MAX_EPOCH:
                raise InvalidValueError(f"{shown(one)} does not follow {list(last)!r}", allowed)
            last = (epoch, counter)
        return tuple((one[0], one[1]) for one in value)

    return Rule(allowed, read)


DISK: tuple[Key, ...] = (
    Key(name="node", rule=integer(1, 15), doc="the node of the disk"),
    Key(name="accepted_epoch", rule=integer(0, MAX_EPOCH), doc="the last promised epoch", default=0),
    Key(name="current_epoch", rule=integer(0, MAX_EPOCH), doc="the epoch of its history", default=0),
    Key(name="log", rule=log_zxids(), doc="the transactions, [epoch, counter] each", default=()),
)


def disk_mistakes(disks: Mapping[int, InitialDisk], nodes: int) -> list[tuple[int, str, str]]:
    """Return the mistakes in the initial disks as (index of the disk, what is wrong, what is allowed). `disks`: by index."""
    found = []
    for index, disk in disks.items():
        if disk.node > nodes:
            found.append((index, f"there is no node {disk.node}", f"1 to {nodes}"))
        if disk.node in [other.node for place, other in disks.items() if place < index]:
            found.append((index, f"the disk of node {disk.node} is given twice", "once"))
        if disk.current_epoch > disk.accepted_epoch:
            wrong = f"current_epoch {disk.current_epoch} was never promised"
            found.append((index, wrong, f"at most accepted_epoch, {disk.accepted_epoch}"))
        if disk.log and disk.log[-1][0] > disk.current_epoch:
            wrong = f"a transaction of epoch {disk.log[-1][0]} is not of the epochs up to current_epoch"
            found.append((index, wrong, f"epochs up to {disk.current_epoch}"))
    return found or _contradictions(disks)


def _contradictions(disks: Mapping[int, InitialDisk]) -> list[tuple[int, str, str]]:
    """Return where two disks disagree about an epoch's initial history: an epoch has one leader, and thus one such history."""
    found = []
    ids: dict[tuple[int, int, int], int] = {}  # of histories: by the id of what is before an epoch, the epoch, its txns
    known: dict[int, tuple[int, int]] = {}  # by epoch: the node that is known to have joined it first, its history's id
    for index, disk in disks.items():
        history, joined = 0, {}
        for epoch, txns in groupby(disk.log, key=lambda zxid: zxid[0]):
            joined[epoch] = history
            history = ids.setdefault((history, epoch, len(list(txns))), len(ids) + 1)
        joined.setdefault(disk.current_epoch, history)
        for epoch, before in joined.items():
            node, expected = known.setdefault(epoch, (disk.node, before))
            if before != expected:
                wrong = (
                    f"the log before epoch {epoch} is not that of node {node}, and both nodes have joined this epoch"
                )
                found.append((index, wrong, "the same log up to there, since an epoch has one initial history"))
                break
    return found
