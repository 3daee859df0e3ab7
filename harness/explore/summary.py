"""The results of an exploration so far, as lines for the terminal and as JSON."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zab_chaos.harness.errors import Exit
from zab_chaos.harness.explore.exploration import Explored
from zab_chaos.model.coverage import Combination
from zab_chaos.model.verdict import Outcome

SOONEST = 2.0  # seconds from one line of progress to the next, ...
RARER = 0.05  # ... and from then on this share of the time that has passed, ...
RAREST = 60.0  # ... up to this many seconds: a long exploration leaves a page to read, not a thousand


@dataclass(slots=True)
class ExplorationSummary:
    """Totals over the finished seeds. `seconds` is virtual time, if they are `simulated`."""

    total: int  # seeds asked for
    simulated: bool = True
    begun: float = field(default_factory=time.monotonic)
    printed: float = 0.0  # when a line of progress was printed
    seeds: int = 0
    seconds: float = 0.0
    verdicts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    failed: list[Explored] = field(default_factory=list)
    unknown: list[Explored] = field(default_factory=list)
    outcomes: set[Outcome] = field(default_factory=set)  # that were not expected
    reached: set[Combination] = field(default_factory=set)
    kept: int = 0  # run folders

    def add(self, one: Explored) -> None:
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
        if one.exit != one.expected:
            self.outcomes.add(Outcome(one.verdict))

    @property
    def took(self) -> float:
        return max(1e-9, time.monotonic() - self.begun)

    def due(self) -> bool:
        """Whether to print a line of progress now; the interval grows with time."""
        now = time.monotonic()
        if now - self.printed < min(RAREST, max(SOONEST, RARER * (now - self.begun))):
            return False
        self.printed = now
        return True

    def line(self) -> str:
        """A line of progress."""
        left = (self.total - self.seeds) * self.took / max(1, self.seeds)
        speed = f"{self.seeds / self.took:.1f}/s, {self.seconds / self.took:.0f} simulated s a second"
        parts = [
            f"{self.seeds}/{self.total} seeds",
            *([speed] if self.simulated else []),
            f"{len(self.failed)} failed",
            f"{len(self.unknown)} unknown",
            *([f"{_clock(left)} to go"] if self.seeds < self.total else []),
        ]
        return ", ".join(parts)

    def summary(self) -> list[str]:
        """The lines that summarize the exploration."""
        return [
            self.line(),
            f"time     {f'{self.seconds:,.0f} simulated seconds in ' if self.simulated else ''}{self.took:,.0f} s",
            f"faults   {_counted(self.faults)}",
            f"clients  {_counted(self.operations)}",
            f"verdicts {_counted(self.verdicts)}",
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "seeds": self.seeds,
            "asked": self.total,
            **({"simulated_seconds": self.seconds} if self.simulated else {}),
            "wall_seconds": self.took,
            "faults": dict(sorted(self.faults.items())),
            "operations": dict(sorted(self.operations.items())),
            "verdicts": dict(sorted(self.verdicts.items())),
            "kept": self.kept,
            "failed": [_failed(one) for one in self.failed],
            "unknown": [{"seed": one.seed, "reasons": one.reasons} for one in self.unknown],
        }


def _failed(one: Explored) -> dict[str, Any]:
    folder = str(one.folder) if one.folder is not None else None
    return {
        "seed": one.seed,
        "verdict": one.verdict,
        "violated": one.violated,
        "reasons": one.reasons,
        "folder": folder,
    }


def _counted(numbers: Mapping[str, int]) -> str:
    """`3 in all: 2 crash, 1 wipe`, the most frequent first."""
    parts = [f"{number:,} {name}" for name, number in sorted(numbers.items(), key=lambda item: (-item[1], item[0]))]
    return f"{sum(numbers.values()):,} in all: {', '.join(parts)}" if parts else "none"


def _clock(seconds: float) -> str:
    """`1:02:03`, or `2:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
