"""`zab zookeeper`: list the releases of Apache ZooKeeper, fetch one, and run the ticket matrix."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.text import Text

from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.zookeeper import releases
from zab_chaos.harness.cli.checks import Cells, Checks, marked
from zab_chaos.harness.cli.explore import log_to
from zab_chaos.harness.cli.output import console_for, print_json
from zab_chaos.harness.errors import BadInput, Exit
from zab_chaos.harness.explore.tickets import (
    ReleaseRuns,
    TicketResult,
    attempts,
    attempts_on,
    require_runnable,
    tickets,
    try_release,
)
from zab_chaos.harness.explore.workers import run_workers
from zab_chaos.harness.machine.files import check_output_file
from zab_chaos.harness.report.console import say, show_table, wrapping_table

Plan = list[tuple[TicketResult, ReleaseRuns]]


def list_command(*, json: bool) -> int:
    """List the known releases, and which of them are on this machine."""
    found = [{"version": version, "here": releases.is_cached(version)} for version in releases.known()]
    if json:
        print_json(found)
        return Exit.PASS
    table = wrapping_table(show_header=False)
    for one in found:
        version = str(one["version"])
        table.add_row(version, "here" if one["here"] else Text(f"zab zookeeper fetch {version}", "dim"))
    console = console_for(json=json)
    show_table(console, table)
    say(console, "\nAny other released version can be fetched too.")
    return Exit.PASS


def fetch_command(version: str, *, json: bool) -> int:
    """Fetch a release into the cache. Raises BadInput, HarnessError."""
    if not releases.VERSION.fullmatch(version):
        raise BadInput(f"{version!r} is not a version; it needs one such as {releases.newest()}")
    console = console_for(json=json)
    with console.status(f"fetching ZooKeeper {version}") as status:
        release = releases.locate(version, lambda jar: status.update(f"fetching {jar}"))
    folder = releases.cached(version)
    size = sum(jar.stat().st_size for jar in folder.iterdir())
    say(console, f"ZooKeeper {version}: {len(release.classpath) - 1} jars, {size / 1e6:.0f} MB, in {folder}")
    if json:
        print_json({"version": version, "folder": str(folder), "bytes": size})
    return Exit.PASS


def check_command(
    names: Sequence[str], *, named: str, build: str | None, times: int | None, jobs: int, results: Path, out: Path | None,
    json: bool,
) -> int:  # fmt: skip
    """Run the ticket matrix and print it. `named`: only these releases. `build`: instead of releases, a distribution's
    folder. `jobs`: releases tried at a time. Raises BadInput, HarnessError.

    Exit codes: 0 every ticket is as it states; 1 one is not; 2 the user stopped the check.
    """
    rows = tickets(names)
    plan = _plan_for_build(rows, build) if build is not None else _plan(rows, named)
    require_runnable(row for row, _ in plan)
    check_output_file(out)
    registry.find("zookeeper").check()
    console = console_for(json=json)
    with log_to(results, "tickets"), run_workers(jobs) as workers:
        tries = workers.results(partial(_try, results, times), plan)
        checks = Checks(_results(plan, tries, console), _words, console)
    rows = [row for row in rows if row.tried]
    checks.write(list(map(cells, rows)), {"tickets": [row.facts() for row in rows]}, out, json=json)
    return checks.exit


def _plan(rows: Sequence[TicketResult], named: str) -> Plan:
    wanted = [one.strip() for one in named.split(",") if one.strip()]
    plan = [(row, tried) for row in rows for tried in attempts(row, wanted)]
    if not plan:
        raise BadInput(f"--releases {named}: no ticket names one of these. {_known_releases(rows)}")
    return plan


def _plan_for_build(rows: Sequence[TicketResult], build: str) -> Plan:
    if not Path(build).is_dir():
        raise BadInput(
            f"--zookeeper {build}: this is not the folder of an unpacked distribution; for releases use --releases"
        )
    version = releases.version_in(Path(build))
    plan = [(row, tried) for row in rows for tried in attempts_on(row, releases.resolved(build), version)]
    if not plan:
        raise BadInput(f"--zookeeper {build}: no ticket names {version} or an earlier release. {_known_releases(rows)}")
    return plan


def _try(results: Path, times: int | None, planned: tuple[TicketResult, ReleaseRuns]) -> ReleaseRuns:
    return try_release(*planned, results, times)


def _results(
    plan: Sequence[tuple[TicketResult, ReleaseRuns]], tries: Iterator[ReleaseRuns], console: Console
) -> Iterator[ReleaseRuns]:
    """Yield the releases with their runs, in order, and add them to their rows."""
    for number, (row, planned) in enumerate(plan, 1):
        name = f"{number}/{len(plan)} {planned.name}"
        with console.status(name):
            tried = next(tries)
        tried.name = name
        row.tried.append(tried)
        yield tried


def _words(tried: ReleaseRuns) -> str:
    return "\n  not judged: ".join([tried.count, *dict.fromkeys(tried.unjudged)])


def cells(row: TicketResult) -> Cells:
    """Return the row of the ticket matrix."""
    return {
        "ticket": row.ticket.id,
        "property": ", ".join(row.ticket.violates),
        "runs": str(row.ticket.runs),
        "with it": _counts([one for one in row.tried if one.shows]),
        "without it": _counts([one for one in row.tried if not one.shows]),
        "result": marked("as stated" if row.holds else "NOT AS STATED", row.holds),
    }


def _counts(tried: Sequence[ReleaseRuns]) -> Text:
    return Text("\n").join([Text(f"{one.release} ").append_text(marked(one.count, one.holds)) for one in tried])


def _known_releases(rows: Sequence[TicketResult]) -> str:
    known = dict.fromkeys(tried.release for row in rows for tried in attempts(row))
    return f"They name {', '.join(known)}."
