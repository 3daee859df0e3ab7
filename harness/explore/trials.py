"""Counts how the runs of a check ended."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from zab_chaos.harness.explore.exploration import SeedResult
from zab_chaos.model.verdict import Verdict

Ending = Verdict | SeedResult


@dataclass(slots=True)
class Trial:
    """Runs of one experiment. All of them should end as `expects` says; with `once`, one is enough.

    `places`: for each run, its folder or the command that repeats it.
    """

    name: str
    expects: Callable[[Ending], bool]
    once: bool = False
    endings: list[Ending] = field(default_factory=list)
    places: list[Path | str] = field(default_factory=list)

    def add(self, ending: Ending, place: Path | str) -> None:
        self.endings.append(ending)
        self.places.append(place)

    @property
    def runs(self) -> int:
        return len(self.endings)

    @property
    def good(self) -> int:
        """The number of runs that ended as expected."""
        return sum(map(self.expects, self.endings))

    @property
    def first(self) -> int | None:
        """The number, from 1, of the first run that ended as expected; None if none did."""
        return next((number for number, one in enumerate(self.endings, 1) if self.expects(one)), None)

    @property
    def holds(self) -> bool:
        return self.good >= (1 if self.once else max(1, self.runs))

    @property
    def unexpected(self) -> list[str]:
        """The places of the runs that did not end as expected, unless the others are enough."""
        pairs = zip(self.endings, self.places, strict=True)
        return [] if self.holds else [str(place) for one, place in pairs if not self.expects(one)]
