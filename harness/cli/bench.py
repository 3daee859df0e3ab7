"""`zab bench`: measure this machine, show the numbers and store them."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.figures import NORMAL, QUICK, Scale
from zab_chaos.harness.bench import MEASUREMENTS, measure, store
from zab_chaos.harness.cli.output import command_line, console_for, print_json
from zab_chaos.harness.errors import BadInput, Exit, check_names
from zab_chaos.harness.report.console import say, show_table, wrapping_table


def bench_command(only: list[str], *, against: str | None, quick: bool, full: bool, results: Path, json: bool) -> int:
    """Run the chosen measurements. A bad number is not a failure. Raises BadInput, HarnessError."""
    if against not in (None, "zookeeper"):
        raise BadInput(f"--against is {against!r}; the only system to measure against is zookeeper")
    names = chosen_names([*only, "against"] if against else only, full=full)
    return bench(names, QUICK if quick else NORMAL, results, command_line(), json=json)


def chosen_names(only: list[str], *, full: bool) -> list[str]:
    """Return the named measurements; without names the default ones, or all with `full`.

    Raises BadInput with all wrong names.
    """
    check_names("measurement", only, MEASUREMENTS)
    return [name for name, one in MEASUREMENTS.items() if name in only or (not only and (full or not one.full))]


def bench(names: list[str], scale: Scale, results: Path, command: str, *, json: bool) -> int:
    """Measure, show and store the report. The exit code is 3 if a measurement failed."""
    console = console_for(json=json)
    with console.status("measuring") as status:
        report = measure(names, scale, results, command, status.update)
    if not report["complete"]:
        show(report, console)
        say(console, "\ninterrupted: nothing was stored")
        if json:
            print_json(report)
        return Exit.UNKNOWN
    path = store(report, results)
    show(report, console)
    say(console, f"\nsummary  {path}")
    if path.with_suffix(".svg").exists():
        say(console, f"picture  {path.with_suffix('.svg')}")
    if json:
        print_json(report)
    measured = report["measurements"].values()
    return Exit.PASS if all(one["figures"] or one["lacking"] for one in measured) else Exit.HARNESS_ERROR


def show(report: dict[str, Any], console: Console) -> None:
    """Print a line about the machine, then a row for each figure with its lowest and highest round."""
    console.print(_machine(report), highlight=False)
    console.print()
    show_table(console, _table(report))
    for name, measured in report["measurements"].items():
        _show_problems(name, measured, console)


def _machine(report: dict[str, Any]) -> str:
    machine, load = report["machine"], report["load_before"]
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory'] / 2**30:.0f} GiB, {machine['kernel']}, "
        f"Python {report['versions']['python']}, fdatasync {machine['fdatasync_ms']:.3f} ms, "
        f"load average {load[0]:.1f} at the start"
    )


def _table(report: dict[str, Any]) -> Table:
    last = "rounds: lowest .. highest"
    table = wrapping_table("measured", "figure", "value", "unit", last, right=["value", last], dim=[last])
    for name, measured in report["measurements"].items():
        for number, figure in enumerate(measured["figures"]):
            rounds = figure["rounds"]
            span = f"{len(rounds)}: {shown(min(rounds))} .. {shown(max(rounds))}" if len(rounds) > 1 else ""
            first = name if number == 0 else ""
            table.add_row(first, figure["name"], shown(figure["value"]), figure["unit"], span)
    return table


def _show_problems(name: str, measured: dict[str, Any], console: Console) -> None:
    """Print why a measurement was skipped, and the error of each attempt that failed."""
    if measured["lacking"] is not None:
        say(console, f"{name}: skipped: {measured['lacking']}")
    for error in measured["failed"]:
        result = "measured again" if measured["figures"] else "not measured"
        say(console, f"{name}: {result}: {error}")


def shown(value: float) -> str:
    """Format a value with three significant digits, or all digits of a large one: 0.123, 1.23, 123, 12,345."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.{2 if value >= 1 else 3}f}"
