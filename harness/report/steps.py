"""The steps of a recorded run: all nodes' inputs in one order, with the paper's variables of each node before and after.

A step is one input of a node's core, together with the core's answer. Each life is re-executed once
(`zab_chaos.model.replay`), and the changes of each step are kept, so that stepping forward or back needs no further execution.
Steps are ordered by the host's clock (`zab_chaos.harness.report.messages`). The stepper of `zab replay` shows them.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from zab_chaos.harness.report.html.lifetimes import read_ended_lives
from zab_chaos.harness.report.messages import LifeMessages
from zab_chaos.harness.report.sentences import describe_line
from zab_chaos.harness.results.fault_spans import read_spans
from zab_chaos.harness.results.source import Source
from zab_chaos.model.events import UNREADABLE, trace_name
from zab_chaos.model.replay import descriptions
from zab_chaos.model.replay.replay import recorded_lives
from zab_chaos.model.replay.state import describe_state
from zab_chaos.model.replay.trace import CORE_EVENTS
from zab_chaos.node.core import messages as m
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.recording import AnyEntry, Ended, ReadyTaken, SnapshotTaken, Stepped, Synced, Ticked

ALWAYS_CHANGING = frozenset({"clock", "deadline", "sessions"})  # not shown: a change of these says nothing
DOWN = {"role": "down"}

Variables = dict[str, str]  # name -> value in words
Changes = dict[str, tuple[str | None, str | None]]  # name -> (value before, value after); None: no such variable


class ShownVariable(NamedTuple):
    """The value of a variable after a step, and whether the step changed it."""

    words: str
    changed: bool


@dataclass(slots=True, kw_only=True, eq=False)
class ReplayStep:
    """One input of a node, or the end of a life (`entry` is None).

    `time` is in nanoseconds of the host's clock. `events` are the numbers of the first and the last trace event that the step
    wrote, (0, 0) if none. `sent` are (receiver, message). `dropped`: why the core dropped the message, if it did.
    """

    node: int
    life: int
    number: int
    entry: AnyEntry | None
    dropped: str | None = None
    time: int = 0
    moment: int = 0
    sent: list[tuple[int, m.Message]] = field(default_factory=list)
    changes: Changes = field(default_factory=dict)
    events: tuple[int, int] = (0, 0)

    @property
    def words(self) -> str:
        if self.entry is None:
            return "the process ends here"
        return descriptions.entry(self.entry) + descriptions.dropped(self.dropped)

    @property
    def is_message(self) -> bool:
        """Whether the input is a message of another node, except a PING."""
        return isinstance(self.entry, Stepped) and not isinstance(self.entry.message, m.Ping)


class _SteppedLife(LifeMessages):
    """The steps of one life. It observes the life's re-execution.

    Not every input is a step: a clock reading in a round that had other inputs is not, and neither is a clock reading or a
    PING without an effect.
    """

    def __init__(self, node: int, life: int) -> None:
        super().__init__(node)
        self.life = life
        self.steps: list[ReplayStep] = []
        self.names: list[str] = []
        self._variables: Variables = dict(DOWN)
        self._sending: list[tuple[int, m.Message]] = []
        self._open: ReplayStep | None = None  # the step of this round that the core has not answered yet
        self._event = 0

    def on_entry(self, entry: AnyEntry) -> None:
        # Answers of the disk come after the round's clock reading, all other inputs before it.
        moment = self.moment - isinstance(entry, Synced | SnapshotTaken)
        super().on_entry(entry)
        if not isinstance(entry, ReadyTaken | Ended) and not (isinstance(entry, Ticked) and self._open is not None):
            self._keep()
            number = self.rerun.inputs
            dropped = self.rerun.drops.get(number)
            self._open = ReplayStep(
                node=self.node, life=self.life, number=number, entry=entry, dropped=dropped, moment=moment
            )
        if self._open is not None:
            self._open.sent += self._sending
        self._sending = []
        if isinstance(entry, ReadyTaken):
            self._keep()

    def on_sent(self, messages: list[tuple[int, m.Message]]) -> None:
        super().on_sent(messages)
        self._sending = messages

    def finish(self) -> None:
        """Add the end of the process as the last step."""
        self._keep()
        changes: Changes = {name: (words, DOWN.get(name)) for name, words in self._variables.items()}
        self.steps.append(
            ReplayStep(node=self.node, life=self.life, number=0, entry=None, moment=self.moment, changes=changes)
        )

    def _keep(self) -> None:
        """Add its effects to the open step, if there is one, and keep it if it is worth showing."""
        step, event = self._open, self._matcher.event
        if step is None:
            return
        self._open = None
        now = variables(self.rerun)
        step.changes = _difference(self._variables, now)
        if event > self._event:
            step.events = (self._event + 1, event)
        if now.keys() != self._variables.keys():
            _merge(self.names, now)
        self._variables, self._event = now, event
        if _is_worth_showing(step):
            self.steps.append(step)


def _is_worth_showing(step: ReplayStep) -> bool:
    quiet = isinstance(step.entry, Ticked) or (
        isinstance(step.entry, Stepped) and isinstance(step.entry.message, m.Ping)
    )
    return not quiet or bool(step.changes or step.sent or step.events[1])


def variables(rerun: Any) -> Variables:
    """Return the paper's variables of a re-executed core, in words."""
    if not rerun.booted:
        return {}
    known = {name: words for name, words in describe_state(rerun.machine, rerun.tree) if name not in ALWAYS_CHANGING}
    return {**known, "sessions with": " ".join(map(str, sorted(rerun.machine.links))) or "nobody"}


def _merge(names: list[str], more: Iterable[str]) -> None:
    """Insert the names that are missing, each after the name that it follows in `more`."""
    at = 0
    for name in more:
        if name not in names:
            names.insert(at, name)
        at = names.index(name) + 1


def _difference(before: Variables, after: Variables) -> Changes:
    names = [name for name in (*before, *after) if before.get(name) != after.get(name)]
    return {name: (before.get(name), after.get(name)) for name in names}


class RunSteps:
    """All steps of a run, and a position among them.

    `at` is the number of steps done; 0 is before the first. `names` are the names of all variables, in the order in which
    they are shown. `gaps` says of each life, (node, life), that could not be re-executed to its end, why.
    """

    def __init__(self, folder: Path, lives: list[_SteppedLife]) -> None:
        self._folder = folder
        self._traces: dict[tuple[int, int], list[bytes]] = {}  # by (node, life)
        self.all = sorted((step for life in lives for step in life.steps), key=lambda step: step.time)
        self.nodes = sorted({life.node for life in lives})
        self.names = ["role"]
        for life in lives:
            _merge(self.names, life.names)
        self.gaps: dict[tuple[int, int], str] = {}
        self.at = 0
        self._now: dict[int, Variables] = {node: dict(DOWN) for node in self.nodes}

    @property
    def step(self) -> ReplayStep | None:
        """The last step that was done; None before the first."""
        return self.all[self.at - 1] if self.at else None

    def go(self, at: int) -> None:
        """Do or undo steps until `at` are done, or until the first or last step."""
        at = max(0, min(at, len(self.all)))
        for step in self.all[self.at : at]:
            self._change(step, after=1)
        for step in reversed(self.all[at : self.at]):
            self._change(step, after=0)
        self.at = at

    def _change(self, step: ReplayStep, after: int) -> None:
        now = self._now[step.node]
        for name, change in step.changes.items():
            if (words := change[after]) is None:
                now.pop(name, None)
            else:
                now[name] = words

    def find(self, wanted: Callable[[ReplayStep], bool], *, back: bool = False) -> bool:
        """Go to the next step (with `back`, the previous one) that is `wanted`. Return whether there is one."""
        places = range(self.at - 2, -1, -1) if back else range(self.at, len(self.all))
        found = next((place for place in places if wanted(self.all[place])), None)
        if found is not None:
            self.go(found + 1)
        return found is not None

    def at_event(self, node: int, life: int, number: int) -> bool:
        """Go to the step that wrote event `number` of this life's trace. Return whether there is one."""
        for place, step in enumerate(self.all):
            if (step.node, step.life) == (node, life) and 0 < step.events[0] <= number <= step.events[1]:
                self.go(place + 1)
                return True
        return False

    def nearest(self, t: int, life: tuple[int, int] | None = None) -> bool:
        """Go to the step nearest to the time `t`, of one (node, life) if it is given. Return whether there is one."""
        places = (at for at, step in enumerate(self.all, 1) if life in (None, (step.node, step.life)))
        found = min(places, key=lambda at: abs(self.all[at - 1].time - t), default=None)
        if found is not None:
            self.go(found)
        return found is not None

    def at_time(self, t: int) -> None:
        """Go to the first step at or after the time `t`."""
        self.go(bisect_left(self.all, t, key=lambda step: step.time) + 1)

    def variables(self, node: int) -> dict[str, ShownVariable]:
        """Return the node's variables at this position. A variable that the last step removed has an empty value."""
        changed = self.step.changes if self.step is not None and self.step.node == node else {}
        gone = {name: ShownVariable("", changed=True) for name, (_, after) in changed.items() if after is None}
        return {name: ShownVariable(words, name in changed) for name, words in self._now[node].items()} | gone

    def trace_lines(self, step: ReplayStep) -> list[str]:
        """Describe the core's events that the step wrote to the trace, each with its number."""
        lines = self._lines_of(step.node, step.life)[step.events[0] - 1 : step.events[1]] if step.events[1] else []
        file = trace_name(step.node, step.life)
        return [
            f"{line['n']}: {describe_line(file, line)}"
            for line in map(_decoded, lines)
            if line.get("event") in CORE_EVENTS
        ]

    def _lines_of(self, node: int, life: int) -> list[bytes]:
        """Return the lines of a life's trace, which is read when they are first asked for."""
        if (node, life) not in self._traces:
            self._traces[node, life] = self._folder.joinpath(trace_name(node, life)).read_bytes().splitlines()
        return self._traces[node, life]


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        return dict(msgspec.json.decode(line, type=dict[str, Any]))
    except UNREADABLE:
        return {}


def read_steps(
    folder: Path, core: type[Peer], *, own_clocks: bool, say: Callable[[str], None] = lambda words: None
) -> RunSteps:
    """Re-execute all lives and report the progress to `say`. Lives that can't be re-executed to their end are in `gaps`."""
    gaps: dict[tuple[int, int], str] = {}
    lives = []
    recorded = recorded_lives(folder)
    for done, (node, number) in enumerate(recorded, 1):
        say(f"re-executing node {node}, life {number} ({done} of {len(recorded)})")
        life = _SteppedLife(node, number)
        why = life.re_execute(folder, number, core)
        if why is not None:
            gaps[node, number] = f"node {node}, life {number}: {why}"
        life.finish()
        life.convert_times(own_clocks=own_clocks)
        for step in life.steps:
            step.time = life.time(step.moment)
        lives.append(life)
    _set_times_of_ends(folder, lives)
    found = RunSteps(folder, lives)
    found.gaps = gaps
    return found


def _set_times_of_ends(folder: Path, lives: list[_SteppedLife]) -> None:
    """Set the time of the last step of each life. A process that is killed records nothing; what has killed it is on record.
    One that was not killed lived until the end of the run."""
    source = Source(folder)
    ends = {(life.node, life.number): life.end for life in read_ended_lives(source, read_spans(source))}
    latest = max((step.time for life in lives for step in life.steps), default=0)
    for life in lives:
        end = ends.get((life.node, life.life))
        begins = [one.steps[0].time for one in lives if one.node == life.node and one.life > life.life]
        last = life.steps[-1]
        last.time = max(last.time, min([latest if end is None else end, *begins]))
