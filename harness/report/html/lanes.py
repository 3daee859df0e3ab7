"""The lanes of the nodes: each node's state over time, as segments without gaps from its first trace line on."""

from dataclasses import asdict, dataclass
from typing import Any

from zab_chaos.harness.report.html.lifetimes import TracedLife

SAME_CHANGE = 100_000  # nanoseconds; role and phase change in two trace lines, which count as one change if this close


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
    current = LaneSegment(life.node, life.number, life.begin, end, "up", why="started")
    found = [current]
    for event in life.events:
        if event.event not in ("role", "phase"):
            continue
        begin = min(event.t, end)
        if begin - current.begin > SAME_CHANGE:
            current.end = begin
            current = LaneSegment(
                life.node, life.number, begin, end, "up", current.role, current.phase, current.epoch, current.leader
            )
            found.append(current)
        if event.event == "role":
            current.role, current.leader, current.why = event.role, event.leader, event.why
        else:
            current.phase, current.epoch = event.phase, event.epoch
    return found
