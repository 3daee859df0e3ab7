"""Executes transcripts: files with numbered commands and, below each, line by line what the protocol does then.

A file has a paragraph; a line `nodes N [setting=value ...]`; then numbered steps, each a command (a method of
`ScriptedEnsemble`) with its indented lines below it, and between them remarks that begin with `#`. `1->2 NEWEPOCH e=2` is a
message that arrived, `1-x2 NEWEPOCH e=2` one that was lost, and `2: accepted_epoch 2` an event of node 2.
"""

import re
from pathlib import Path
from typing import TypeVar

from zab_chaos.model.transcripts.scripted_ensemble import ScriptedEnsemble

FOLDER = Path(__file__).resolve().parent
W = TypeVar("W", bound=ScriptedEnsemble)
STEP = re.compile(r"(\d+)\. (.+)")
NUMBERS = ("start", "crash", "wipe", "promise", "isolate", "stick", "unstick", "snapshot", "tick", "show")
COMMANDS = ("begin", *NUMBERS, "heal", "hold", "release", "submit", "refuses", "quietly COMMAND")


def execute_step(ensemble: ScriptedEnsemble, command: str) -> None:
    """Execute the command of one step. Raises ValueError with the known commands if it is none of them."""
    name, *words = command.split()
    if name in NUMBERS:
        getattr(ensemble, name)(*map(int, words))
    elif name == "quietly":
        ensemble.quietly(lambda: execute_step(ensemble, " ".join(words)))
    elif name in ("begin", "heal") and not words:
        getattr(ensemble, name)()
    elif name == "release":
        ensemble.release(*words)
    elif name == "hold":
        pairs = [tuple(map(int, pair.split("->"))) for pair in words[1:]]
        ensemble.hold(words[0], *((a, b) for a, b in pairs))
    elif name in ("submit", "refuses"):
        getattr(ensemble, name)(int(words[0]), *words[1:])
    else:
        raise ValueError(f"{command!r} is no command; there are {', '.join(COMMANDS)}")


def build_ensemble(line: str, kind: type[W]) -> W:
    """Build the ensemble that a line such as `nodes 3 counter_max=3` describes."""
    words = line.split()
    settings = dict(word.split("=") for word in words[2:])
    return kind(int(words[1]), **{name: int(value) for name, value in settings.items()})


def play(text: str, kind: type[W]) -> tuple[W, str]:
    """Execute a transcript. Return the ensemble as it is afterwards, and the text with the lines that it gives now.

    Raises ValueError for a mistake in the text, and DeliveryDisagreement.
    """
    ensemble: W | None = None
    done: list[str] = []
    steps = 0
    for number, line in enumerate(text.splitlines(), 1):
        if ensemble is None:
            done.append(line)
            if line.startswith("nodes "):
                ensemble = build_ensemble(line, kind)
            continue
        match = STEP.fullmatch(line)
        if match is not None:
            steps += 1
            if int(match[1]) != steps:
                raise ValueError(f"line {number}: step {steps} comes here")
            done += ["", line] if done[-1] and not done[-1].startswith("#") else [line]
            ensemble.on_step(line)
            execute_step(ensemble, match[2])
            done += [f"   {logged}" for logged in ensemble.lines]
            ensemble.lines.clear()
        elif line.startswith("#"):
            done += ["", line] if done[-1] and not done[-1].startswith("#") else [line]
        elif line and not line.startswith("   "):
            raise ValueError(f"line {number}: {line!r} is neither step, remark nor transcript")
    if ensemble is None:
        raise ValueError("no line `nodes N`")
    ensemble.check()
    return ensemble, "\n".join(done).rstrip() + "\n"
