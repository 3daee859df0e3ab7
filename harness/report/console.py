"""The terminal: plain lines, and tables that cut nothing off."""

from rich.console import Console
from rich.table import Table
from rich.text import Text


def say(console: Console, words: str | Text, style: str = "") -> None:
    """Print a plain line: brackets are not markup, and only the terminal wraps. `style`: of words that have none."""
    console.print(Text(words, style) if isinstance(words, str) else words, soft_wrap=True)


def wrapping_table(*columns: str, title: str | None = None) -> Table:
    """A table without lines, whose columns wrap what is too long for them: what identifies a row is never cut off."""
    table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
