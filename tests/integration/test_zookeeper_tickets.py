"""Known bugs of ZooKeeper, on releases with and without them; and the crash points of all releases."""

import subprocess
from pathlib import Path

import pytest

from tests.integration.zookeeper import release
from tests.mounted import possible
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.zookeeper import points, releases
from zab_chaos.harness.explore.tickets import ReleaseRuns, TicketResult, attempts, tickets, try_release

pytestmark = [pytest.mark.zookeeper, pytest.mark.toxiproxy, pytest.mark.timeout(600)]

# A ticket on a release that has it and on one that has not. `make test` runs these, too.
SAMPLE = {"zookeeper/4643": ("3.8.4", "3.9.4")}
TRIED = [
    pytest.param(
        row,
        tried,
        id=f"{row.name}-{tried.release}",
        marks=[pytest.mark.sample] if tried.release in SAMPLE.get(row.name, ()) else [],
    )
    for row in tickets()
    for tried in attempts(row)
]


@pytest.mark.parametrize(("row", "tried"), TRIED)
def test_a_bug_is_found_exactly_on_the_releases_that_have_it(
    tmp_path: Path, row: TicketResult, tried: ReleaseRuns
) -> None:
    if registry.find("zookeeper").disk(row.scenario) == "fuse":
        possible()
    release(tried.release)
    try_release(row, tried, tmp_path, None if tried.shows else 1)  # the matrix runs the others as often, too
    assert tried.holds, tried.facts()


@pytest.mark.parametrize("version", releases.known())
def test_every_release_has_the_methods_of_its_crash_points(tmp_path: Path, version: str) -> None:
    """Check the rules against the classes with Byteman's own tool."""
    found = release(version)
    there = [point for point, locations in points.LOCATIONS.items() if any(it.is_in(found.numbers) for it in locations)]
    assert len(there) >= len(points.LOCATIONS) - 2
    script = tmp_path / "all.btm"
    script.write_text(
        "".join(points.rule(point, action, found.numbers) for point in there for action in points.ACTIONS)
    )
    classes = ":".join(str(path) for path in (found.byteman, *found.classpath))
    command = [releases.find_java(), "-cp", classes, "org.jboss.byteman.check.TestScript", str(script)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "no errors" in said.stdout, said.stdout + said.stderr
