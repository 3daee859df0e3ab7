"""Exit codes, and the errors that end a command with a message instead of a traceback."""

import difflib
from collections.abc import Callable, Collection, Iterable
from enum import IntEnum
from pathlib import Path
from typing import Any


class Exit(IntEnum):
    """The exit codes of `zab` (README.md, "How to read a verdict")."""

    PASS = 0  # all properties hold
    VIOLATION = 1  # a property is violated
    UNKNOWN = 2  # too little happened for a verdict, a fault could not be confirmed, or the run was interrupted
    HARNESS_ERROR = 3  # the harness itself failed
    BAD_INPUT = 4  # bad arguments or a bad scenario
    BEYOND_FAULT_MODEL = 5  # a quorum of disks was lost, and the nodes refused to form an ensemble
    FORCED = 130  # a second Ctrl-C: stopped at once, not judged (128 + SIGINT, as in shells)


class BadInput(Exception):
    """A mistake of the user (exit code 4). The text names all mistakes at once, where they are, and what is allowed."""


def all_of(*parts: Callable[[], Any]) -> list[Any]:
    """Return what each part returns. The parts are independent: raises BadInput with the mistakes of all of them."""
    found, mistakes = list[Any](), list[str]()
    for part in parts:
        try:
            found.append(part())
        except BadInput as error:
            mistakes.append(str(error))
    if mistakes:
        raise BadInput("\n".join(dict.fromkeys(mistakes)))
    return found


class HarnessError(Exception):
    """The harness can't work on this machine (exit code 3). The text says how to fix that."""


class Interrupted(Exception):
    """The user stopped one of several runs, so the others are not started (exit code 2)."""


def did_you_mean(name: str, known: Iterable[str], hint: str = "") -> str:
    """Return a sentence with the known names that are similar to `name`.

    If none is similar, return `hint`, which says where the names are listed, or else a list of all of them.
    """
    names = sorted(known)
    stem = Path(name).stem if name.endswith(".toml") else name
    near = difflib.get_close_matches(stem, names, n=3, cutoff=0.5)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return hint or f"Known: {', '.join(names) or '(none)'}."


def check_names(what: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise BadInput, with a line for each unknown name. `what`: the kind of thing that they name, such as `scenario`."""
    unknown = [f"no {what} is called {name!r}. {did_you_mean(name, known)}" for name in names if name not in known]
    if unknown:
        raise BadInput("\n".join(unknown))
