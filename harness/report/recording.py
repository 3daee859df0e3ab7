"""The recordings of a run: the core with which they are re-executed, and how to make them."""

import shlex
from collections.abc import Mapping
from typing import Any

from zab_chaos.faults.defects import DEFECTS
from zab_chaos.node.components import components_with
from zab_chaos.node.core.peer import Peer

EXACT = ("sim",)  # backends on which the same command repeats a run exactly
RECORDING = (*EXACT, "processes", "containers")  # backends that record; the names are those of `--on`


class UnknownDefect(Exception):
    """run.json names a defect that this version does not have."""


def core_of(facts: Mapping[str, Any]) -> type[Peer]:
    """Return the core that a run's nodes were built with. `facts`: the content of run.json. Raises UnknownDefect."""
    name = facts.get("defect")
    if name is None:
        return Peer
    if name not in DEFECTS:
        raise UnknownDefect(f"its nodes were built with the defect {name!r}, which this version does not have")
    return components_with(DEFECTS[name].path)[0].peer


def core_or_reason(facts: Mapping[str, Any]) -> type[Peer] | str:
    """Return the same, or why this version does not have that core."""
    try:
        return core_of(facts)
    except UnknownDefect as error:
        return str(error)


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
