"""`zab zookeeper`: list the releases of Apache ZooKeeper, fetch one, and run the ticket matrix."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.zookeeper import releases
from zab_chaos.harness.cli.explore import log_to
from zab_chaos.harness.cli.output import console_for, header, print_json, write_answer
from zab_chaos.harness.errors import BadInput, Exit, Interrupted
from zab_chaos.harness.explore.tickets import ReleaseRuns, TicketResult, attempts, tickets, try_release
from zab_chaos.harness.machine.interrupt import Stopped
from zab_chaos.harness.report.console import say, show_table, wrapping_table
from zab_chaos.harness.runs.run import FinishedRun


def list_command(*, json: bool) -> int:
    """List the known releases, and which of them are on this machine."""
    found = [{"version": version, "here": releases.is_cached(version)} for version in releases.known()]
    if json:
        print_json(found)
        return Exit.PASS
    table = wrapping_table(show_header=False)
    for one in found:
        table.add_row(
            str(one["version"]), "here" if one["here"] else "[dim]zab zookeeper fetch {version}[/]".format(**one)
        )
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
    console.print(
        f"ZooKeeper {version}: {len(release.classpath) - 1} jars, {size / 1e6:.0f} MB, in {folder}", highlight=False
    )
    if json:
        print_json({"version": version, "folder": str(folder), "bytes": size})
    return Exit.PASS


def check_command(
    names: Sequence[str], *, releases: str, times: int | None, results: Path, out: Path | None, json: bool
) -> int:
    """Run the ticket matrix and print it. Raises BadInput, HarnessError.

    Exit codes: 0 every ticket is as it states; 1 one is not; 2 the user stopped the check.
    """
    rows, wanted = tickets(names), [one.strip() for one in releases.split(",") if one.strip()]
    plan = [(row, tried) for row in rows for tried in attempts(row, wanted)]
    if not plan:
        raise BadInput(f"--releases {releases}: no ticket names one of these. {_known_releases(rows)}")
    registry.find("zookeeper").check()
    console, started = console_for(json=json), datetime.now(UTC)
    complete = False
    with log_to(results, "tickets"):
        try:
            for number, (row, tried) in enumerate(plan, 1):
                row.tried.append(tried)
                _try_release(row, tried, f"{number}/{len(plan)}", results, times, console)
            complete = True
        except (Stopped, Interrupted):
            say(console, "interrupted; the matrix is incomplete")
    done = [row for row in rows if row.tried]
    console.print()
    show_table(console, matrix(done))
    answer = {
        **header(_repeat_command(names, releases, times), started),
        "complete": complete,
        "tickets": [row.facts() for row in done],
    }
    write_answer(answer, out, json=json)
    if not complete:
        return Exit.UNKNOWN
    return Exit.PASS if all(row.as_stated for row in done) else Exit.VIOLATION


def _try_release(
    row: TicketResult, tried: ReleaseRuns, number: str, results: Path, times: int | None, console: Console
) -> None:
    """Try one ticket on one release, and print the result. `number`: of this try among all, such as 1/3."""
    expected = "must show it" if tried.shows else "must not show it"
    where = f"{number} {row.ticket.id} on {tried.release}"
    with console.status(f"{where}, which {expected}") as status:

        def show_run(ran: FinishedRun) -> None:
            status.update(f"{where}, which {expected}: run {tried.runs + 1} was {ran.verdict.verdict}")

        try_release(row, tried, results, times, show_run)
    line = Text(f"{where}, which {expected}: ").append_text(_count(tried))
    say(console, line)
    for why in dict.fromkeys(tried.unjudged):
        say(console, f"  not judged: {why}", "dim")
    if not tried.as_stated:
        say(console, f"  {tried.folders[-1]}")


def matrix(rows: Sequence[TicketResult]) -> Table:
    """Return the ticket matrix as a table for the terminal."""
    table = wrapping_table("ticket", "property", "runs", "with it", "without it", "result")
    for row in rows:
        table.add_row(
            row.ticket.id,
            ", ".join(row.ticket.violates),
            str(row.ticket.runs),
            _counts([one for one in row.tried if one.shows]),
            _counts([one for one in row.tried if not one.shows]),
            _result(row),
        )
    return table


def _result(row: TicketResult) -> Text:
    if row.as_stated:
        return Text("as stated", "green")
    unfinished = any(one.runs == 0 and not one.unjudged for one in row.tried)
    return Text("interrupted", "yellow") if unfinished else Text("NOT AS STATED", "bold red")


def _counts(tried: Sequence[ReleaseRuns]) -> Text:
    return Text("\n").join([Text(f"{one.release} ").append_text(_count(one)) for one in tried])


def _count(tried: ReleaseRuns) -> Text:
    """Format the number of runs that are as the ticket states, such as `1/3 shown` or `5/5 clean`."""
    good, word = (tried.shown, "shown") if tried.shows else (tried.clean, "clean")
    return Text(f"{good}/{tried.runs} {word}", "green" if tried.as_stated else "bold red")


def _known_releases(rows: Sequence[TicketResult]) -> str:
    known = dict.fromkeys(tried.release for row in rows for tried in attempts(row))
    return f"They name {', '.join(known)}."


def _repeat_command(names: Sequence[str], releases: str, times: int | None) -> str:
    """Return the command that repeats the check."""
    command = ["zab", "zookeeper", "check", *names]
    command += ["--releases", releases] if releases else []
    return shlex.join(command + (["--times", str(times)] if times is not None else []))
