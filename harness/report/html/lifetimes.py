"""Reads the lives (process incarnations) of the nodes from their traces: events, begin and end.

A killed process writes no last line. Its end is taken from what killed it: the injected fault, or the milestone with which
the harness recorded that the process had ended.
"""

import re
from bisect import bisect_left
from dataclasses import dataclass, field

from zab_chaos.faults.registry import KINDS
from zab_chaos.harness.report.columns import Columns
from zab_chaos.harness.results.fault_spans import FaultSpan
from zab_chaos.harness.results.source import MilestoneLine, Source, TraceLine
from zab_chaos.model.events import trace_name
from zab_chaos.model.oracle.spans import Span, difference
from zab_chaos.node.core import digest as dg

TRACE = re.compile(r"node-([1-9]\d{0,5})-([1-9]\d{0,5})\.jsonl")
BULK = {
    "broadcast",
    "accept",
    "vote",
    "client",
    "channel",
    "refused",
    "recovery",
    "work",
}  # too many, or not drawn
KILLED = "killed (SIGKILL)"
DOWN = {name for name, kind in KINDS.items() if kind.leaves == "down"}
MAYBE_DOWN = DOWN | {name for name, kind in KINDS.items() if kind.leaves == "maybe-down"}  # their healing starts nodes
# Faults that end processes at their injection or soon after it. A point that is reached has a line in the trace.
ENDING = {name for name in MAYBE_DOWN if KINDS[name].key("point") is None}


@dataclass(slots=True)
class TracedLife:
    """One life of a node, as its trace shows it. Times are in nanoseconds."""

    node: int
    number: int
    begin: int
    last: int  # time of its last trace event
    events: list[TraceLine] = field(default_factory=list)  # those that are drawn, in order
    delivered: Columns[tuple[int, int, int]] = field(default_factory=lambda: Columns(3))  # (t, epoch, last counter)
    end: int | None = None  # None: it lived until the end of the run
    why: str = ""  # why it ended
    release: str = ""  # with which it was started, if the run's nodes are of different ones

    @property
    def amnesiac_until(self) -> int | None:
        """The time until which the node was amnesiac and counted in no quorum; None if it never was."""
        if not any(event.event == "boot" and event.disk == "amnesiac" for event in self.events):
            return None
        return next((event.t for event in self.events if event.event == "member"), 2**62)


def read_lives(source: Source) -> list[TracedLife]:
    """Return every life that left a trace with at least one readable line, ordered by node and number."""
    lives = []
    for path in (source.folder / "trace").glob("node-*.jsonl"):
        match = TRACE.fullmatch(path.name)
        life = match and _read(source, int(match[1]), int(match[2]))
        if life:
            lives.append(life)
    return sorted(lives, key=lambda life: (life.node, life.number))


def _read(source: Source, node: int, number: int) -> TracedLife | None:
    life: TracedLife | None = None
    for _, line in source.lines(trace_name(node, number), TraceLine, may_be_cut=True):
        life = life or TracedLife(node, number, line.t, line.t)
        life.last = max(life.last, line.t)
        if line.event == "deliver":
            life.delivered.append((line.t, line.epoch, line.first + dg.count(line.digests) - 1))
        elif line.event not in BULK:
            life.events.append(line)
    return life


def read_ended_lives(source: Source, spans: list[FaultSpan]) -> list[TracedLife]:
    """Return what `read_lives` returns, with the end of each life. `spans`: the run's faults."""
    lives = read_lives(source)
    determine_ends(lives, spans, [line for _, line in source.lines("harness.jsonl", MilestoneLine)])
    return lives


def determine_ends(lives: list[TracedLife], spans: list[FaultSpan], milestones: list[MilestoneLine]) -> None:
    """Set `end` and `why` of each life. Must be called once, with all lives."""
    for life in lives:
        following = [one.begin for one in lives if one.node == life.node and one.number > life.number]
        limit = min(following, default=None)
        own = next((event for event in reversed(life.events) if event.event in ("exit", "abort")), None)
        if own is not None:
            life.end, life.why = life.last, f"ended itself: {own.why or own.event}"
            continue
        ends = _possible_ends(life.node, spans, milestones)
        _set_end(life, sorted(one for one in ends if one[0] > life.begin and (limit is None or one[0] <= limit)), limit)


def are_several_releases(milestones: list[MilestoneLine]) -> bool:
    return len({line.release for line in milestones if line.event == "release"}) > 1


def set_releases(lives: list[TracedLife], milestones: list[MilestoneLine]) -> None:
    """Set `release` of each life, if not all lives of the run have the same."""
    if are_several_releases(milestones):
        found = {(line.node, line.life): line.release for line in milestones if line.event == "release"}
        for life in lives:
            life.release = found.get((life.node, life.number), "")


def _set_end(life: TracedLife, ends: list[tuple[int, str]], limit: int | None) -> None:
    """Set the end of a life that was killed, if it was. `limit`: the begin of the node's next life."""
    after = bisect_left(ends, (life.last,))
    if after < len(ends):
        life.end, life.why = ends[after]
    elif ends:  # a fault is logged when it is confirmed, which may be moments before the last trace line
        life.end, life.why = life.last, ends[-1][1]
    elif limit is not None:
        life.end, life.why = life.last, KILLED
    last = life.events[-1] if life.events and life.events[-1].t == life.last else None
    if life.why == KILLED and last is not None and last.event == "fault" and last.state == "fired":
        life.end, life.why = life.last, f"killed at {last.detail} (crash-at)"


def times_up(node: int, spans: list[FaultSpan], milestones: list[MilestoneLine], begin: int, end: int) -> list[Span]:
    """Return when a node without traces was up: it is down from a fault, or from its end that was seen, to a healing."""
    own = [span for span in spans if node in span.nodes and span.confirmed]
    restarts = [span.at for span in own if span.do == "restart"]
    stops = [(span.at, [span.healed, *restarts]) for span in own if span.do in DOWN]
    healings = [*(span.healed for span in own if span.do in MAYBE_DOWN), *restarts]
    stops += [(line.t, healings) for line in milestones if line.event == "ended" and line.node == node]
    down = [(t, min((up for up in ups if up is not None and up > t), default=end)) for t, ups in stops]
    return difference([(begin, end)], down)


def _possible_ends(node: int, spans: list[FaultSpan], milestones: list[MilestoneLine]) -> list[tuple[int, str]]:
    """Return what may have ended a process of this node: (time, reason in words)."""
    faults = [(span.at, f"{span.do} (fault {span.id})") for span in spans if span.do in ENDING and node in span.nodes]
    ended = [
        (line.t, KILLED if line.code in (None, -9) else f"ended with exit code {line.code}")
        for line in milestones
        if line.event == "ended" and line.node == node
    ]
    return faults + ended
