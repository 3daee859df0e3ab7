"""Tables on the terminal."""

from rich.table import Table


def folding(*columns: str, title: str | None = None) -> Table:
    """A table without lines, whose columns wrap what is too long for them: what identifies a row is never cut off."""
    table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
