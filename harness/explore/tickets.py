"""The matrix of tickets: each known bug of ZooKeeper is seen on the releases that have it, and not on those that have not.

A ticket is a scenario with a table [ticket] (`zab_chaos.faults.scenario.Ticket`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zab_chaos.faults.scenario import Scenario, Ticket
from zab_chaos.harness.errors import BadInput, Exit, did_you_mean
from zab_chaos.harness.runs import catalogue
from zab_chaos.harness.runs.options import options_for, read_scenario
from zab_chaos.harness.runs.run import FinishedRun, run_quietly

FOLDER = "zookeeper/"
AGAIN = 2  # a run that could not be judged is repeated, at most so often


@dataclass(slots=True)
class Tried:
    """Runs of one ticket's scenario on one release. `shows`: that the release must show the bug. `seen`: of each run that was
    judged, the violated properties; `unjudged`: why others were not."""

    ticket: Ticket
    release: str
    shows: bool
    seen: list[list[str]] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)

    @property
    def runs(self) -> int:
        return len(self.seen)

    @property
    def shown(self) -> int:
        """In how many runs every property was violated that the ticket names."""
        return sum(set(self.ticket.violates) <= set(violated) for violated in self.seen)

    @property
    def clean(self) -> int:
        """In how many runs nothing was."""
        return sum(not violated for violated in self.seen)

    @property
    def as_stated(self) -> bool:
        return self.runs > 0 and (self.shown > 0 if self.shows else self.clean == self.runs)

    def facts(self) -> dict[str, Any]:
        names = ("release", "shows", "runs", "shown", "clean", "as_stated", "seen", "unjudged", "folders")
        return {name: getattr(self, name) for name in names}


@dataclass(slots=True)
class Row:
    """One ticket, by the name of its scenario, and what was tried."""

    name: str
    scenario: Scenario
    tried: list[Tried] = field(default_factory=list)

    @property
    def ticket(self) -> Ticket:
        assert self.scenario.ticket is not None
        return self.scenario.ticket

    @property
    def as_stated(self) -> bool:
        return all(one.as_stated for one in self.tried)

    def facts(self) -> dict[str, Any]:
        return {
            "ticket": self.ticket.id,
            "scenario": self.name,
            "about": self.scenario.about,
            "violates": list(self.ticket.violates),
            "fails": list(self.ticket.fails),
            "passes": list(self.ticket.passes),
            "runs": self.ticket.runs,
            "as_stated": self.as_stated,
            "tried": [one.facts() for one in self.tried],
        }


def tickets(names: Sequence[str] = ()) -> list[Row]:
    """The named tickets, as `4643` or `ZOOKEEPER-4643`, or all that are shipped. Raises BadInput."""
    known = {
        name.removeprefix(FOLDER): row
        for name in catalogue.shipped()
        if name.startswith(FOLDER) and (row := _row(name))
    }
    wanted = [name.upper().removeprefix("ZOOKEEPER-").lower().removeprefix(FOLDER) for name in names]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise BadInput("\n".join(f"there is no ticket {name!r}. {did_you_mean(name, known)}" for name in unknown))
    return [known[name] for name in dict.fromkeys(wanted or known)]


def _row(name: str) -> Row | None:
    scenario = read_scenario(name, on="zookeeper", nodes=None, defect=None)
    return Row(name, scenario) if scenario.ticket is not None else None


def attempts(row: Row, releases: Sequence[str] = ()) -> Iterator[Tried]:
    """What is to be tried of a ticket: on each release that it names, or those of them that are wanted."""
    for shows, named in ((True, row.ticket.fails), (False, row.ticket.passes)):
        for release in named:
            if not releases or release in releases:
                yield Tried(row.ticket, release, shows)


def try_release(
    row: Row,
    tried: Tried,
    results: Path,
    times: int | None = None,
    said: Callable[[FinishedRun], None] = lambda ran: None,
) -> None:
    """Run the scenario on the release: as often as the ticket says, and where the bug must show until it does; or exactly so
    many `times`. `said` hears of each run. Raises BadInput, HarnessError, Interrupted."""
    options = options_for(row.name, row.scenario, seed=None, results=results, on="zookeeper", release=tried.release)
    most = row.ticket.runs if times is None else times
    while tried.runs < most and len(tried.unjudged) <= AGAIN:
        ran = run_quietly(row.scenario, options)
        said(ran)
        tried.folders.append(str(ran.folder.path))
        if ran.verdict.exit not in (Exit.PASS, Exit.VIOLATION):
            tried.unjudged.append("; ".join(ran.verdict.reasons))
            continue
        tried.seen.append(ran.verdict.violated)
        if times is None and tried.shows and tried.shown:
            return
