"""Output of the commands. With --json, only the JSON result goes to stdout and everything else to stderr."""

import json as json_module
import os
import shlex
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from zab_chaos.harness.machine.files import writing

ARGUMENTS: ContextVar[Sequence[str]] = ContextVar("ARGUMENTS")  # of the command line


class PipeSafeConsole(Console):
    """A console that survives a closed pipe: the command goes on to its end and returns its own exit code."""

    def on_broken_pipe(self) -> None:
        """Discard all further output. rich would end the process with exit code 1, which means VIOLATION here."""
        self.quiet = True
        discard(self.file)


def indented(text: str) -> Padding:
    """Return the text as an indented paragraph, wrapped to the width of the terminal."""
    return Padding(Text(" ".join(text.split())), (0, 0, 0, 2))


def print_json(answer: Any) -> None:
    """Print a JSON value on stdout."""
    print_text(json_module.dumps(answer, indent=2, ensure_ascii=False) + "\n")


def print_text(text: str) -> None:
    """Print a text on stdout. After a reader has closed the pipe, all output is discarded, and the command goes on."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)


def discard(stream: IO[str]) -> None:
    """Redirect stdout or stderr to /dev/null, so that flushing at exit does not fail."""
    with Path(os.devnull).open("w") as null:
        os.dup2(null.fileno(), stream.fileno())


def console_for(*, json: bool) -> Console:
    """Return the console for people: stdout, or stderr if stdout carries JSON."""
    return messages() if json else PipeSafeConsole()


def messages() -> Console:
    """Return the console for people of a command whose stdout carries the result."""
    return PipeSafeConsole(stderr=True)


def command_line() -> str:
    """Return the command as the user wrote it, for a shell."""
    return shlex.join(["zab", *ARGUMENTS.get()])


def write_answer(answer: dict[str, Any], out: Path | None, *, json: bool) -> None:
    """Write the answer as JSON to `out` and, with `json`, to stdout. Raises HarnessError."""
    if out is not None:
        write_file(out, json_module.dumps(answer, indent=1) + "\n")
    if json:
        print_json(answer)


def write_file(file: Path, text: str) -> None:
    """Write a text to a file that the user has named. Raises HarnessError."""
    with writing(file):
        file.write_text(text, encoding="utf-8")
