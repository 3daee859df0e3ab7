"""The ticket matrix: checks that each known bug of ZooKeeper shows on the releases that have it, and on no other release.

A ticket is a scenario with a table [ticket] (`zab_chaos.faults.scenario.Ticket`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zab_chaos.faults.scenario import Scenario, Ticket
from zab_chaos.harness.backends.zookeeper.releases import numbers
from zab_chaos.harness.errors import BadInput, Exit, did_you_mean
from zab_chaos.harness.explore.trials import Ending, Trial
from zab_chaos.harness.runs import catalogue
from zab_chaos.harness.runs.options import load_scenario, options_for, scenario_for
from zab_chaos.harness.runs.run import run_quietly

FOLDER = "zookeeper/"
REPEATS_MAX = 2  # how many more runs there are for those that could not be judged


class ReleaseRuns(Trial):
    """The runs of one ticket's scenario on one release that could be judged.

    `shows`: True if the release must show the bug at least once, False if all runs must be clean. The bug shows if every
    property is violated that the ticket names. `unjudged`: for each other run, why it could not be judged. `folders`: of all.
    """

    def __init__(self, ticket: Ticket, release: str, shows: bool) -> None:
        self.release, self.shows = release, shows
        self.unjudged: list[str] = []
        self.folders: list[str] = []
        self._bug = set(ticket.violates)
        name = f"{ticket.id} on {release}, which {'must' if shows else 'must not'} show it"
        super().__init__(name, self._shown if shows else self._clean, once=shows)

    def _shown(self, run: Ending) -> bool:
        return self._bug <= set(run.violated)

    def _clean(self, run: Ending) -> bool:
        return not run.violated

    @property
    def count(self) -> str:
        """The number of runs that are as the ticket states, such as `1/3 shown` or `5/5 clean`."""
        return f"{self.good}/{self.runs} {'shown' if self.shows else 'clean'}"

    @property
    def unexpected(self) -> list[str]:
        return [] if self.holds else self.folders[-1:]

    def facts(self) -> dict[str, Any]:
        """Return the runs for JSON."""
        return {
            "release": self.release, "shows": self.shows, "runs": self.runs, "shown": sum(map(self._shown, self.endings)),
            "clean": sum(map(self._clean, self.endings)), "as_stated": self.holds,
            "seen": [one.violated for one in self.endings], "unjudged": self.unjudged, "folders": self.folders,
        }  # fmt: skip


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
    def holds(self) -> bool:
        """True if the runs on every release agree with the ticket."""
        return all(one.holds for one in self.tried)

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
            "as_stated": self.holds,
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
    wanted = [catalogue.without_project(name).removeprefix(FOLDER) for name in names]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise BadInput("\n".join(f"there is no ticket {name!r}. {did_you_mean(name, known)}" for name in unknown))
    return [known[name] for name in dict.fromkeys(wanted or known)]


def _row(name: str) -> TicketResult | None:
    scenario = load_scenario(name, nodes=None)
    return TicketResult(name, scenario) if scenario.ticket is not None else None


def require_runnable(rows: Iterable[TicketResult]) -> None:
    """Raise BadInput with everything that the scenarios of these rows need and this machine lacks."""
    lacking: dict[str, None] = {}
    for row in rows:
        try:
            _on_zookeeper(row)
        except BadInput as error:
            lacking |= dict.fromkeys(str(error).splitlines())
    if lacking:
        raise BadInput("\n".join(lacking))


def _on_zookeeper(row: TicketResult) -> Scenario:
    return scenario_for(row.name, row.scenario, on="zookeeper", defect=None)


def attempts(row: TicketResult, releases: Sequence[str] = ()) -> Iterator[ReleaseRuns]:
    """Yield what to try of a ticket: each release that it names, or only those of them that are in `releases`."""
    for shows, named in ((True, row.ticket.fails), (False, row.ticket.passes)):
        for release in named:
            if not releases or release in releases:
                yield ReleaseRuns(row.ticket, release, shows)


def attempts_on(row: TicketResult, build: str, version: str) -> Iterator[ReleaseRuns]:
    """Yield what to try of a ticket on a build of this version: it must be as the newest release that the ticket names, of
    those up to this version. Nothing if there is none."""
    named = {
        release: shows for shows, some in ((True, row.ticket.fails), (False, row.ticket.passes)) for release in some
    }
    earlier = [release for release in named if numbers(release) <= numbers(version)]
    if earlier:
        yield ReleaseRuns(row.ticket, build, named[max(earlier, key=numbers)])


def try_release(row: TicketResult, tried: ReleaseRuns, results: Path, times: int | None = None) -> ReleaseRuns:
    """Run the ticket's scenario on a release. Return `tried` with the runs.

    It is run exactly `times` times. If that is None, it is run as often as the ticket says, but where the bug must show only
    until it does. Runs that can't be judged are repeated up to REPEATS_MAX times. Raises BadInput, HarnessError, Interrupted.
    """
    scenario = _on_zookeeper(row)
    options = options_for(row.name, scenario, seed=None, results=results, on="zookeeper", release=tried.release)
    most = row.ticket.runs if times is None else times
    while (
        tried.runs < most and len(tried.unjudged) <= REPEATS_MAX and not (times is None and tried.shows and tried.good)
    ):
        ran = run_quietly(scenario, options)
        tried.folders.append(str(ran.folder.path))
        if ran.verdict.exit in (Exit.PASS, Exit.VIOLATION):
            tried.add(ran.verdict, ran.folder.path)
        else:
            tried.unjudged.append("; ".join(ran.verdict.reasons))
    return tried
