"""Says how to make a recording of a run that has none, for its replay and its report."""

import shlex
from collections.abc import Mapping
from typing import Any

EXACT = ("sim",)  # backends on which the same command repeats a run exactly
RECORDING = (*EXACT, "processes", "containers")  # backends that record; the names are those of `--on`


def how_to_record(facts: Mapping[str, Any]) -> str | None:
    """Return the command that makes the recording, in a sentence without a full stop; None if there is none.

    `facts`: the content of run.json.
    """
    command, backend = facts.get("command"), facts.get("backend")
    if facts.get("record") or not isinstance(command, str) or backend not in RECORDING:
        return None
    words = [word for word in shlex.split(command) if word not in ("--record", "--no-record")]
    does = (
        "repeats the run exactly, and records it" if backend in EXACT else "makes another run like it, and records it"
    )
    return f"{shlex.join([*words, '--record'])} {does}"
