"""Prints plain lines and tables on the terminal, without cutting anything off."""

from rich.console import Console
from rich.table import Table
from rich.text import Text


def say(console: Console, words: str | Text, style: str = "") -> None:
    """Print a line as it is: brackets are not markup, and the terminal wraps long lines. `style` is for a str."""
    console.print(Text(words, style) if isinstance(words, str) else words, soft_wrap=True)


def wrapping_table(*columns: str, title: str | None = None) -> Table:
    """Return a table without borders whose columns wrap long text, so that names and paths are never cut off."""
    table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
