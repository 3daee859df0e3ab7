"""The totals of an exploration so far, as lines for the terminal and as JSON."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zab_chaos.harness.errors import Exit
from zab_chaos.harness.explore.exploration import SeedResult
from zab_chaos.model.coverage import Combination
from zab_chaos.model.verdict import Outcome

# The interval between two lines of progress: a share of the time that has passed, within limits. A long exploration then prints
# a page, not a thousand lines.
PROGRESS_SECONDS_MIN = 2.0
PROGRESS_SHARE = 0.05
PROGRESS_SECONDS_MAX = 60.0


@dataclass(slots=True)
class ExplorationSummary:
    """Totals over the seeds that are done. `seconds`: the sum of their durations, in virtual time if they are `simulated`.

    `interrupted`: the user has stopped the exploration before it was complete.
    """

    total: int  # the number of seeds asked for
    simulated: bool = True
    begun: float = field(default_factory=time.monotonic)
    printed: float = 0.0  # the time of the last line of progress
    seeds: int = 0  # the number of seeds that are done
    seconds: float = 0.0
    verdicts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    failed: list[SeedResult] = field(default_factory=list)
    unknown: list[SeedResult] = field(default_factory=list)
    outcomes: set[Outcome] = field(default_factory=set)  # those that were not expected; VIOLATION for a PASS
    reached: set[Combination] = field(default_factory=set)
    kept: int = 0  # the number of run folders
    interrupted: bool = False

    def add(self, one: SeedResult) -> None:
        """Add the result of one seed."""
        self.seeds += 1
        self.seconds += one.seconds
        self.verdicts[one.verdict] += 1
        self.faults.update(one.faults)
        self.operations.update(one.operations)
        self.reached |= one.reached
        self.kept += one.folder is not None
        if one.failed:
            self.failed.append(one)
        elif one.exit == Exit.UNKNOWN:
            self.unknown.append(one)
        if not one.met:
            self.outcomes.add(Outcome.VIOLATION if one.verdict == Outcome.PASS else Outcome(one.verdict))

    @property
    def wall_seconds(self) -> float:
        """The time since the exploration began; never 0."""
        return max(1e-9, time.monotonic() - self.begun)

    def progress_due(self) -> bool:
        """Return True if a line of progress is to be printed now, and start the next interval."""
        now = time.monotonic()
        interval = min(PROGRESS_SECONDS_MAX, max(PROGRESS_SECONDS_MIN, PROGRESS_SHARE * (now - self.begun)))
        if now - self.printed < interval:
            return False
        self.printed = now
        return True

    def progress_line(self) -> str:
        """Return the number of seeds done and failed, the speed and the time left."""
        left = (self.total - self.seeds) * self.wall_seconds / max(1, self.seeds)
        speed = f"{self.seeds / self.wall_seconds:.1f}/s, {self.seconds / self.wall_seconds:.0f}x real time"
        parts = [
            f"{self.seeds}/{self.total} seeds",
            *([speed] if self.simulated else []),
            f"{len(self.failed)} failed",
            f"{len(self.unknown)} unknown",
            *([f"{_clock(left)} to go"] if self.seeds < self.total else []),
        ]
        return ", ".join(parts)

    def interruption(self, asked: Sequence[int]) -> str:
        """Say after how many seeds the exploration was interrupted, and of which of the seeds `asked` there is no result."""
        left = asked[self.seeds :]
        seeds = f"seed {left[0]}" if len(left) == 1 else f"seeds {left[0]} to {left[-1]}" if left else ""
        return f"interrupted after {self.seeds} of {self.total} seeds" + (f": no result of {seeds}" if left else "")

    def total_lines(self) -> list[str]:
        """Return the lines that summarize the exploration."""
        return [
            self.progress_line(),
            f"time     {f'{self.seconds:,.0f} simulated seconds in ' if self.simulated else ''}{self.wall_seconds:,.0f} s",
            f"faults   {_counted(self.faults)}",
            f"requests {_counted(self.operations)}",
            f"verdicts {_counted(self.verdicts)}",
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the totals for JSON."""
        return {
            "seeds": self.seeds,
            "asked": self.total,
            "interrupted": self.interrupted,
            **({"simulated_seconds": self.seconds} if self.simulated else {}),
            "wall_seconds": self.wall_seconds,
            "faults": dict(sorted(self.faults.items())),
            "operations": dict(sorted(self.operations.items())),
            "verdicts": dict(sorted(self.verdicts.items())),
            "kept": self.kept,
            "failed": [_failed(one) for one in self.failed],
            "unknown": [{"seed": one.seed, "reasons": one.reasons} for one in self.unknown],
        }


def _failed(one: SeedResult) -> dict[str, Any]:
    folder = str(one.folder) if one.folder is not None else None
    return {
        "seed": one.seed,
        "verdict": one.verdict,
        "violated": one.violated,
        "reasons": one.reasons,
        "folder": folder,
    }


def _counted(numbers: Mapping[str, int]) -> str:
    """Format counts as `3 in all: 2 crash, 1 wipe`, the most frequent first."""
    parts = [f"{number:,} {name}" for name, number in sorted(numbers.items(), key=lambda item: (-item[1], item[0]))]
    return f"{sum(numbers.values()):,} in all: {', '.join(parts)}" if parts else "none"


def _clock(seconds: float) -> str:
    """Format a duration as `1:02:03` or `2:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
