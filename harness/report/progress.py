"""Shows what goes on, such as a run: a live panel on a terminal, plain lines elsewhere, nothing with --quiet."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from zab_chaos.harness.report.console import say
from zab_chaos.model.runfiles import OnRead, unheard

BAR_WIDTH = 40  # columns
LINE_SECONDS = 1.0  # without a terminal: at most one line a second
ROLE_COLOURS = {"leading": "bold green", "following": "green", "looking": "yellow"}  # of other states: red


class Shown(Protocol):
    """A state that a display can show."""

    def line(self) -> str:
        """Return the state as one line."""

    def panel(self) -> Group:
        """Return the state as a panel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """The state of a run at one moment. Rates are per second, latencies in milliseconds, times in seconds of the schedule."""

    phase: str
    elapsed: float
    duration: float
    has_leaders: bool = True  # False if the nodes are those of a system that shows no roles
    leader: int | None = None
    epoch: int | None = None
    ok: int = 0
    failed: int = 0
    unknown: int = 0
    rate: float = 0.0
    latency_ms: float | None = None  # median of the last second
    nodes: dict[int, str] = field(default_factory=dict)  # id -> leading, following, looking, paused, down, ...
    faults: list[str] = field(default_factory=list)
    upcoming: str | None = None

    def line(self) -> str:
        """Format the state as one line.

        `12/30s faults | leader node-2 epoch 3 | 1200 ok 0 failed 3 unknown | 198/s 4.1 ms | now: ... | next: ...`
        """
        parts = [f"{self.elapsed:.0f}/{self.duration:.0f}s {self.phase}"]
        if self.has_leaders:
            parts.append(_leader(self))
        if self.ok or self.failed or self.unknown:
            parts += [f"{self.ok} ok {self.failed} failed {self.unknown} unknown", _speed(self)]
        if self.faults:
            parts.append("now: " + ", ".join(self.faults))
        if self.upcoming:
            parts.append("next: " + self.upcoming)
        return " | ".join(parts)

    def panel(self) -> Group:
        """Format the state as a panel: six short rows that fit 80 columns and are readable without colour."""
        rows = Table.grid(padding=(0, 2))
        rows.add_column(style="dim", no_wrap=True)
        rows.add_column()
        rows.add_row("phase", f"{self.phase}  {self.elapsed:.0f}/{self.duration:.0f} s")
        if self.has_leaders:
            rows.add_row("leader", _leader(self))
        rows.add_row("nodes", Text("  ").join(_node(node, state) for node, state in sorted(self.nodes.items())))
        rows.add_row("clients", f"{self.ok} ok  {self.failed} failed  {self.unknown} unknown   {_speed(self)}")
        rows.add_row("faults", Text(", ".join(self.faults) or "none", style="yellow" if self.faults else ""))
        rows.add_row("next", Text(self.upcoming or "-"))
        return Group(rows)


class Display:
    """Shows events and the state of something; the base class shows nothing. `update` may be called from another thread."""

    period = 1.0  # seconds between two updates
    step_period = 10.0  # seconds from the begin of a long step to the first update, and between two
    wants_updates = False  # whether `update` needs to be called

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def say(self, words: str) -> None:
        """Show an event; it stays on the screen."""

    def update(self, now: Shown) -> None:
        """Show the current state."""


class Quiet(Display):
    """Shows nothing."""


class Lines(Display):
    """Prints a line for each event, and at most one in `seconds` for the state."""

    wants_updates = True

    def __init__(
        self, console: Console, clock: Callable[[], float] = time.monotonic, seconds: float = LINE_SECONDS
    ) -> None:
        self._console = console
        self._clock = clock
        self._seconds = seconds
        self._next = float("-inf")
        self._last = ""

    def say(self, words: str) -> None:
        say(self._console, words)

    def update(self, now: Shown) -> None:
        """Print the state, unless it is unchanged or a line was printed a moment ago."""
        at = self._clock()
        words = now.line()
        if at < self._next or words == self._last:
            return
        self._next = at + self._seconds
        self._last = words
        self.say(words)


class Panel(Display):
    """A panel that is redrawn in place; events scroll above it."""

    period = 0.25
    step_period = 0.25
    wants_updates = True

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, transient=True, refresh_per_second=8)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def say(self, words: str) -> None:
        self._console.print(words, markup=False, highlight=False)

    def update(self, now: Shown) -> None:
        self._live.update(now.panel())


@dataclass(frozen=True, slots=True)
class StepStatus:
    """How far a step of a long work is: the bytes that were read, and those that have to be."""

    name: str
    done: int
    total: int

    def line(self) -> str:
        """Format the state as one line: `judging: 40 of 120 MB`."""
        return f"{self.name}: {self.done / 1e6:.0f} of {self.total / 1e6:.0f} MB"

    def panel(self) -> Group:
        """Format the state as a line with a bar."""
        row = Table.grid(padding=(0, 2))
        row.add_row(self.line(), ProgressBar(max(self.total, 1), self.done, width=BAR_WIDTH))
        return Group(row)


class Steps:
    """Shows how far the steps of a long work are: on a panel at any time, as lines only for steps that take long."""

    def __init__(self, screen: Display, clock: Callable[[], float] = time.monotonic) -> None:
        self._screen = screen
        self._clock = clock

    def judging(self, folder: Path) -> OnRead:
        """Begin to judge the run in the folder. Return the function to call with the bytes that were read."""
        return self._begin("judging", _lines_of(folder))

    def reading(self, folder: Path) -> OnRead:
        """Begin to read the run in the folder for a report, as above."""
        return self._begin("reading the traces", _lines_of(folder))

    def replaying(self, folder: Path, recordings: str = "*") -> OnRead:
        """Begin to replay the run in the folder, or some of its lives, as above."""
        return self._begin("replaying the nodes", folder.glob(f"record/{recordings}"))

    def _begin(self, name: str, files: Iterable[Path]) -> OnRead:
        if not self._screen.wants_updates:
            return unheard
        period, total, done = self._screen.step_period, sum(file.stat().st_size for file in files), 0
        due = self._clock() + period

        def read(count: int) -> None:
            nonlocal done, due
            done += count
            if (now := self._clock()) >= due:
                due = now + period
                self._screen.update(StepStatus(name, done, total))

        return read


UNSHOWN = Steps(Quiet())


def _lines_of(folder: Path) -> list[Path]:
    return [*folder.glob("trace/*"), *folder.glob("*.jsonl")]


def display(console: Console, *, quiet: bool, line_seconds: float = LINE_SECONDS) -> Display:
    """Return the display for this console: a panel if it is a terminal that can move its cursor, else lines, at
    most one in `line_seconds`."""
    if quiet:
        return Quiet()
    return Panel(console) if console.is_interactive else Lines(console, seconds=line_seconds)


def _leader(now: RunStatus) -> str:
    return "no leader" if now.leader is None else f"leader node-{now.leader} epoch {now.epoch}"


def _speed(now: RunStatus) -> str:
    latency = "" if now.latency_ms is None else f" {now.latency_ms:.1f} ms"
    return f"{now.rate:.0f}/s{latency}"


def _node(node: int, state: str) -> Text:
    return Text(f"{node} {state}", style=ROLE_COLOURS.get(state, "red"))
