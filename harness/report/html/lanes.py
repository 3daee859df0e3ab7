"""The lanes of the nodes: each node's state over time, as segments without gaps from its first trace line on."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from zab_chaos.harness.report.html.lifetimes import TracedLife

SAME_CHANGE = 100_000  # nanoseconds; role and phase change in two trace lines, which count as one change if this close

Change = tuple[int, dict[str, Any]]  # when (nanoseconds), and the new values of fields of LaneSegment


@dataclass(slots=True)
class LaneSegment:
    """The state of a node from `begin` to `end` (nanoseconds). `state` is `up` or `down`."""

    node: int
    life: int
    begin: int
    end: int
    state: str
    role: str = ""
    phase: str = ""
    epoch: int = 0
    leader: int | None = None
    why: str = ""
    release: str = ""  # if the run's nodes are of different ones

    def as_json(self, zero: int) -> dict[str, Any]:
        """Return the segment for the page, with times in microseconds since `zero`."""
        return asdict(self) | {"begin": (self.begin - zero) // 1000, "end": (self.end - zero) // 1000}


def lane_segments(lives: list[TracedLife], end: int) -> list[LaneSegment]:
    """Return the segments of all nodes' lanes. `end`: the end of the run."""
    found: list[LaneSegment] = []
    for index, life in enumerate(lives):
        found += _segments_up(life, end if life.end is None else life.end)
        if life.end is not None:
            following = lives[index + 1] if index + 1 < len(lives) else None
            until = following.begin if following and following.node == life.node else end
            if until > life.end:
                found.append(LaneSegment(life.node, life.number, life.end, until, "down", why=life.why))
    return found


def _segments_up(life: TracedLife, end: int) -> list[LaneSegment]:
    current = LaneSegment(life.node, life.number, life.begin, end, "up", why="started", release=life.release)
    found = [current]
    for t, changes in _state_changes(life) or _recorded_changes(life):
        begin = min(t, end)
        if begin - current.begin > SAME_CHANGE:
            current.end = begin
            current = replace(current, begin=begin, end=end, why="")
            found.append(current)
        for name, value in changes.items():
            setattr(current, name, value)
    return found


def _state_changes(life: TracedLife) -> list[Change]:
    """Return the changes of a node's state that it has traced."""
    return [
        (one.t, {"role": one.role, "leader": one.leader, "why": one.why})
        if one.event == "role"
        else (one.t, {"phase": one.phase, "epoch": one.epoch})
        for one in life.events
        if one.event in ("role", "phase")
    ]


def _recorded_changes(life: TracedLife) -> list[Change]:
    """Return the changes of the state of a foreign system's node, of which only leaders and deliveries are on record: it leads
    an epoch from when it was established, and follows one from when it delivered the first transaction of it."""
    leads = [(one.t, one.epoch, "LEADING") for one in life.events if one.event == "established"]
    delivers = {epoch: (t, epoch, "FOLLOWING") for t, epoch, _ in reversed(list(life.delivered))}
    changes: list[Change] = []
    newest = 0
    for t, epoch, role in sorted([*leads, *delivers.values()]):
        if epoch > newest:
            changes.append((t, {"role": role, "phase": "BROADCAST", "epoch": epoch}))
            newest = epoch
    return changes
