"""Prints plain lines and tables on the terminal, without cutting anything off."""

from collections.abc import Collection, Sequence

from rich.console import Console
from rich.measure import Measurement, measure_renderables
from rich.table import Table
from rich.text import Text

LINE_MAX = 100_000  # columns; longer than any line of a table
GAP = 2  # columns between those of a table


def say(console: Console, words: str | Text, style: str = "") -> None:
    """Print a line as it is: brackets are not markup, and the terminal wraps long lines. `style` is for a str."""
    console.print(Text(words, style) if isinstance(words, str) else words, soft_wrap=True)


def wrapping_table(
    *columns: str,
    right: Collection[str] = (),
    dim: Collection[str] = (),
    title: str | None = None,
    show_header: bool = True,
) -> Table:
    """Return a table without borders, for `show_table`. `right`: the columns that are aligned there; `dim`: those in grey."""
    table = Table(
        box=None, pad_edge=False, show_header=show_header, title=title, title_justify="left", title_style="bold"
    )
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", style="dim" if column in dim else "")
    return table


def show_table(console: Console, table: Table) -> None:
    """Print a table without borders. On a terminal, its widest columns wrap between words; elsewhere nothing is wrapped.

    Brackets are not markup. A word, for example a path, is never broken: rather, the table is wider than the terminal.
    """
    boundless = console.options.update(width=LINE_MAX, markup=False)
    ranges = [measure_renderables(console, boundless, [one.header, *one.cells]) for one in table.columns]
    space = console.width if console.is_terminal else LINE_MAX
    gaps = GAP * (len(ranges) - 1)
    widths = _column_widths(ranges, space - gaps)
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width
    table.width = sum(widths) + gaps
    with console.capture() as captured:
        console.print(table, markup=False, highlight=False, crop=False)
    say(console, Text.from_ansi("\n".join(line.rstrip() for line in captured.get().splitlines())))


def _column_widths(ranges: Sequence[Measurement], space: int) -> list[int]:
    """Return the columns' widths: their largest ones, from which the widest columns give way to fit into the space."""
    widths = [one.maximum for one in ranges]
    while sum(widths) > space:
        wrapped = [index for index, one in enumerate(ranges) if widths[index] > one.minimum]
        if not wrapped:
            break
        widths[max(wrapped, key=widths.__getitem__)] -= 1
    return widths
