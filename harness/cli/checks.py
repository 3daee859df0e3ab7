"""What `zab defects --check`, `zab scenarios --check` and `zab zookeeper check` have in common."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from rich.console import Console
from rich.text import Text

from zab_chaos.harness.cli.output import command_line, write_answer
from zab_chaos.harness.errors import Exit, Interrupted
from zab_chaos.harness.explore.kill_matrix import DefectResult
from zab_chaos.harness.explore.trials import Trial
from zab_chaos.harness.machine import environment
from zab_chaos.harness.machine.interrupt import Stopped
from zab_chaos.harness.report.console import say, show_table, wrapping_table

Cells = dict[str, str | Text]  # of one row of a table, by heading
R = TypeVar("R", bound=Trial | DefectResult)


class Checks(Generic[R]):
    """The results of many checks. Each is printed when it is done. `complete`: the user did not stop them."""

    def __init__(self, results: Iterable[R], words: Callable[[R], str], console: Console) -> None:
        self._console, self._started = console, datetime.now(UTC)
        self.done: list[R] = []
        self.complete = False
        try:
            for one in results:
                self.done.append(one)
                say(console, Text(f"{one.name}: ").append_text(marked(words(one), one.holds)))
                for place in one.unexpected:
                    say(console, f"  {place}")
            self.complete = True
        except (Stopped, Interrupted):
            pass

    @property
    def exit(self) -> Exit:
        if not all(one.holds for one in self.done):
            return Exit.VIOLATION
        return Exit.PASS if self.complete and self.done else Exit.UNKNOWN

    def write(self, table: list[Cells], facts: dict[str, Any], out: Path | None, *, json: bool) -> None:
        """Print the table, and write the facts as JSON, with the command that repeats the checks."""
        if not self.complete:
            say(self._console, "interrupted; the matrix is incomplete")
        self._console.print()
        show_matrix(table, self._console)
        answer = {
            "command": command_line(),
            "started": self._started.isoformat(timespec="seconds"),
            "commit": environment.commit(),
            "machine": environment.facts() | {"processor": environment.processor()},
            "versions": environment.versions(),
            "complete": self.complete,
        }
        write_answer(answer | facts, out, json=json)


def show_matrix(rows: list[Cells], console: Console) -> None:
    table = wrapping_table(*(rows[0] if rows else ()))
    for row in rows:
        table.add_row(*row.values())
    show_table(console, table)


def marked(words: str, good: bool) -> Text:
    return Text(words, "green" if good else "bold red")
