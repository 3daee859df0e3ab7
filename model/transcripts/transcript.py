"""A transcript: a file that says what is done, and line for line what the protocol does then.

It is a paragraph; `nodes N [setting=value ...]`; then numbered steps, each a command (a method of `Lockstep`) with its indented
lines below it, and remarks between them that begin with `#`. `1->2 NEWEPOCH e=2` has arrived, `1-x2 NEWEPOCH e=2` is lost,
`2: accepted_epoch 2` happened at node 2.
"""

import re
from pathlib import Path
from typing import TypeVar

from zab_chaos.model.transcripts.lockstep import Lockstep

FOLDER = Path(__file__).resolve().parent
W = TypeVar("W", bound=Lockstep)
STEP = re.compile(r"(\d+)\. (.+)")
NUMBERS = ("start", "crash", "wipe", "promise", "isolate", "stick", "unstick", "snapshot", "tick", "show")
COMMANDS = ("begin", *NUMBERS, "heal", "hold", "release", "submit", "refuses", "quietly COMMAND")


def perform(world: Lockstep, command: str) -> None:
    """One step. Raises ValueError with what is allowed."""
    name, *words = command.split()
    if name in NUMBERS:
        getattr(world, name)(*map(int, words))
    elif name == "quietly":
        world.quietly(lambda: perform(world, " ".join(words)))
    elif name in ("begin", "heal") and not words:
        getattr(world, name)()
    elif name == "release":
        world.release(*words)
    elif name == "hold":
        pairs = [tuple(map(int, pair.split("->"))) for pair in words[1:]]
        world.hold(words[0], *((a, b) for a, b in pairs))
    elif name in ("submit", "refuses"):
        getattr(world, name)(int(words[0]), *words[1:])
    else:
        raise ValueError(f"{command!r} is no command; there are {', '.join(COMMANDS)}")


def world_of(line: str, kind: type[W]) -> W:
    """`nodes 3 counter_max=3`."""
    words = line.split()
    settings = dict(word.split("=") for word in words[2:])
    return kind(int(words[1]), **{name: int(value) for name, value in settings.items()})


def performed(text: str) -> str:
    """The file as it should be: the same steps, with what happens now."""
    return play(text, Lockstep)[1]


def play(text: str, kind: type[W]) -> tuple[W, str]:
    """Do what a file says: the ensemble afterwards, and the file as it should be. Raises ValueError, Disagreement."""
    world: W | None = None
    done: list[str] = []
    steps = 0
    for number, line in enumerate(text.splitlines(), 1):
        if world is None:
            done.append(line)
            if line.startswith("nodes "):
                world = world_of(line, kind)
            continue
        match = STEP.fullmatch(line)
        if match is not None:
            steps += 1
            if int(match[1]) != steps:
                raise ValueError(f"line {number}: step {steps} comes here")
            done += ["", line] if done[-1] and not done[-1].startswith("#") else [line]
            world.begins(line)
            perform(world, match[2])
            done += [f"   {told}" for told in world.lines]
            world.lines.clear()
        elif line.startswith("#"):
            done += ["", line] if done[-1] and not done[-1].startswith("#") else [line]
        elif line and not line.startswith("   "):
            raise ValueError(f"line {number}: {line!r} is neither step, remark nor transcript")
    if world is None:
        raise ValueError("no line `nodes N`")
    world.check()
    return world, "\n".join(done).rstrip() + "\n"
