"""Tables on terminals of any width: words that a user may copy are never broken."""

import io

import pytest
from rich.console import Console
from rich.table import Table

from zab_chaos.harness.report.console import show_table, wrapping_table

PATH = "results/power-outage/20261125T084907Z-1"
SENTENCE = "It was cut off from all other nodes for a while."


@pytest.fixture
def table() -> Table:
    made = wrapping_table("scenario", "run", "why")
    made.add_row("power-outage", PATH, SENTENCE)
    made.add_row("x", "y", "z")
    return made


def printed(table: Table, columns: int, *, terminal: bool) -> list[str]:
    out = io.StringIO()
    show_table(Console(file=out, width=columns, force_terminal=terminal, color_system=None), table)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("columns", [80, 100])
def test_on_a_terminal_the_sentences_give_way(table: Table, columns: int) -> None:
    lines = printed(table, columns, terminal=True)
    assert max(map(len, lines)) <= columns
    assert lines[1].startswith(f"power-outage  {PATH}  It was cut ")
    assert " ".join(" ".join(line[55:] for line in lines[1:-1]).split()) == SENTENCE


def test_a_table_of_long_words_is_wider_than_the_terminal(table: Table) -> None:
    lines = printed(table, 30, terminal=True)
    assert lines[1].startswith(f"power-outage  {PATH}  It")


def test_elsewhere_nothing_is_wrapped(table: Table) -> None:
    assert printed(table, 30, terminal=False) == [
        f"scenario      run{' ' * (len(PATH) - 3)}  why",
        f"power-outage  {PATH}  {SENTENCE}",
        f"x             y{' ' * (len(PATH) - 1)}  z",
    ]


def test_a_title_is_above_the_columns() -> None:
    made = wrapping_table("a", title="Things")
    made.add_row("something long")
    assert printed(made, 80, terminal=False) == ["Things", "a", "something long"]
