"""The ticket matrix: checks that each known bug of ZooKeeper shows on the releases that have it, and on no other release.

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
REPEATS_MAX = 2  # how many more runs there are for those that could not be judged


@dataclass(slots=True)
class ReleaseRuns:
    """The runs of one ticket's scenario on one release.

    `shows`: True if the release must show the bug, False if it must not. `seen`: the violated properties of each judged run.
    `unjudged`: for each other run, why it could not be judged.
    """

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
        """The number of runs in which every property was violated that the ticket names."""
        return sum(set(self.ticket.violates) <= set(violated) for violated in self.seen)

    @property
    def clean(self) -> int:
        """The number of runs in which no property was violated."""
        return sum(not violated for violated in self.seen)

    @property
    def as_stated(self) -> bool:
        """True if the runs agree with the ticket: the bug showed at least once, or every run was clean."""
        return self.runs > 0 and (self.shown > 0 if self.shows else self.clean == self.runs)

    def facts(self) -> dict[str, Any]:
        """Return the runs for JSON."""
        names = ("release", "shows", "runs", "shown", "clean", "as_stated", "seen", "unjudged", "folders")
        return {name: getattr(self, name) for name in names}


@dataclass(slots=True)
class TicketResult:
    """One row of the matrix: a ticket with its runs on each release. `name`: the name of its scenario."""

    name: str
    scenario: Scenario
    tried: list[ReleaseRuns] = field(default_factory=list)

    @property
    def ticket(self) -> Ticket:
        assert self.scenario.ticket is not None
        return self.scenario.ticket

    @property
    def as_stated(self) -> bool:
        """True if the runs on every release agree with the ticket."""
        return all(one.as_stated for one in self.tried)

    def facts(self) -> dict[str, Any]:
        """Return the row for JSON."""
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


def tickets(names: Sequence[str] = ()) -> list[TicketResult]:
    """Return the named tickets (`4643` or `ZOOKEEPER-4643`) without any runs yet; without names, all of them.

    Raises BadInput.
    """
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


def _row(name: str) -> TicketResult | None:
    scenario = read_scenario(name, on="zookeeper", nodes=None, defect=None)
    return TicketResult(name, scenario) if scenario.ticket is not None else None


def attempts(row: TicketResult, releases: Sequence[str] = ()) -> Iterator[ReleaseRuns]:
    """Yield what to try of a ticket: each release that it names, or only those of them that are in `releases`."""
    for shows, named in ((True, row.ticket.fails), (False, row.ticket.passes)):
        for release in named:
            if not releases or release in releases:
                yield ReleaseRuns(row.ticket, release, shows)


def try_release(
    row: TicketResult,
    tried: ReleaseRuns,
    results: Path,
    times: int | None = None,
    on_run: Callable[[FinishedRun], None] = lambda ran: None,
) -> None:
    """Run the ticket's scenario on a release, and add the runs to `tried`.

    It is run exactly `times` times. If that is None, it is run as often as the ticket says, but where the bug must show only
    until it does. Runs that can't be judged are repeated up to REPEATS_MAX times. `on_run` is called with each run.
    Raises BadInput, HarnessError, Interrupted.
    """
    options = options_for(row.name, row.scenario, seed=None, results=results, on="zookeeper", release=tried.release)
    most = row.ticket.runs if times is None else times
    while tried.runs < most and len(tried.unjudged) <= REPEATS_MAX:
        ran = run_quietly(row.scenario, options)
        on_run(ran)
        tried.folders.append(str(ran.folder.path))
        if ran.verdict.exit not in (Exit.PASS, Exit.VIOLATION):
            tried.unjudged.append("; ".join(ran.verdict.reasons))
            continue
        tried.seen.append(ran.verdict.violated)
        if times is None and tried.shows and tried.shown:
            return
