"""Where a command's words go: with --json the answer is alone on stdout."""

import json as json_module
import os
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from zab_chaos.harness.errors import HarnessError


class Screen(Console):
    """A console whose reader may go away: a run goes on to its end all the same, and its exit code counts."""

    def on_broken_pipe(self) -> None:
        """rich, like typer, would end the process with exit code 1 here, which is a verdict of ours."""
        self.quiet = True
        _talk_to_nobody()


def print_json(answer: Any) -> None:
    try:
        json_module.dump(answer, sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _talk_to_nobody()


def _talk_to_nobody() -> None:
    """What is still buffered must not complain when the process ends."""
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def console_for(*, json: bool) -> Console:
    """Where people read: stderr when a program reads stdout."""
    return Screen(stderr=json)


def tell(answer: dict[str, Any], out: Path | None, *, json: bool) -> None:
    """The answer, as a file and on stdout. Raises HarnessError."""
    if out is not None:
        try:
            out.write_text(json_module.dumps(answer, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise HarnessError(f"{out} cannot be written: {error.strerror}. Choose another with --out.") from error
    if json:
        print_json(answer)
