"""The evidence of a run on ZooKeeper's servers: what their disks and log files hold, and what their clients were told."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from zab_chaos.harness.backends.zookeeper.server_log import LeaderEstablished, PointReached, TreeMismatch
from zab_chaos.harness.backends.zookeeper.txnlog import TxnLog
from zab_chaos.harness.machine.clocks import read_clocks
from zab_chaos.model.events import Complete, Invoke


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLife:
    """One life of a server, as far as it is on record. Times are monotonic nanoseconds.

    `disk_before` and `disk_after` are what its disk held when the life began and when it had ended. `code` is the exit status
    of a server that ended by itself, and `why` its reason in its own words. `tree` is the digest of the tree that the server
    showed at the end of the run.
    """

    node: int
    life: int
    began: int
    ended: int
    disk_before: TxnLog
    disk_after: TxnLog
    code: int | None = None
    why: str | None = None
    tree: str | None = None


@dataclass(frozen=True, slots=True)
class RoleSample:
    """A server's answer about itself at a time: role (as in `Status.role`), epoch, leader, and whether it served clients."""

    t: int
    node: int
    life: int
    role: str
    epoch: int
    leader: int | None
    serving: bool


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """At `t` (monotonic nanoseconds) a server sent a session an answer that cannot be right whatever the state of the tree.
    `what` it was, in words."""

    t: int
    node: int
    session: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """Everything that is on record of a run.

    `nodes` is the size of the ensemble, `sessions` the sessions that each client has had, by its number. `established`,
    `mismatches`, `versions` (by node and life) and `points` are from the servers' log files, `wrong_answers` from the clients.
    `trees_equal`: in the end all servers that could be read showed one tree, which is on record. `clock_offset` is added to
    nanoseconds of the wall clock to get monotonic ones.
    """

    nodes: int
    lives: Sequence[ServerLife]
    operations: Sequence[Invoke | Complete] = ()
    sessions: Mapping[int, Sequence[int]] = field(default_factory=dict)
    role_samples: Sequence[RoleSample] = ()
    established: Sequence[LeaderEstablished] = ()
    mismatches: Sequence[TreeMismatch] = ()
    versions: Mapping[tuple[int, int], str | None] = field(default_factory=dict)
    points: Sequence[PointReached] = ()
    wrong_answers: Sequence[WrongAnswer] = ()
    trees_equal: bool = False
    clock_offset: int = 0

    def monotonic(self, milliseconds: int) -> int:
        """Return the monotonic nanoseconds of a time on the wall clock."""
        return milliseconds * 1_000_000 + self.clock_offset

    def leaders(self) -> list[tuple[LeaderEstablished, ServerLife]]:
        """Return the leaders that were established, in the order of time."""
        lives = self.lives_by_key()
        return [(led, lives[life_key(led)]) for led in sorted(self.established, key=attrgetter("time"))]

    def lives_by_key(self) -> dict[tuple[int, int], ServerLife]:
        """Return the lives by (node, life)."""
        return {life_key(life): life for life in self.lives}


def life_key(record: ServerLife | RoleSample | LeaderEstablished | TreeMismatch | PointReached) -> tuple[int, int]:
    """Return the (node, life) that a record is about."""
    return record.node, record.life


def clock_offset(milestones: Iterable[Mapping[str, Any]]) -> int:
    """Return the nanoseconds from the wall clock to the monotonic one when the run began. A reboot resets the latter.

    A run of an older version did not record them, and is taken to be of the time since the last reboot.
    """
    recorded = [line for line in milestones if isinstance(line.get("wall"), int)]
    clocks: Mapping[str, Any] = recorded[0] if recorded else read_clocks()
    return int(clocks.get("monotonic", clocks.get("t")) - clocks["wall"])
