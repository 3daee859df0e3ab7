"""The protocol's transcripts: `tests/testdata/*.txt` says what is done, and line for line what the protocol does then.

A file is a paragraph; `nodes N [setting=value ...]`; then numbered steps, each a command (a method of `Lockstep`) with its
indented lines below it, and remarks between them that begin with `#`. `pytest --rewrite` writes the indented lines anew; who
changes the protocol reviews them as a diff. `1->2 NEWEPOCH e=2` has arrived, `1-x2 NEWEPOCH e=2` is lost, `2: accepted_epoch 2`
happened at node 2.
"""

import difflib
import re
from contextlib import suppress
from pathlib import Path

import pytest

from tests.unit.transcripts.lockstep import Disagreement, Lockstep
from zab_chaos.faults.defects import (
    AckBeforeSync,
    AckLeaderBeforeSync,
    AmnesiacVotes,
    CommitWithoutQuorum,
    NoTruncate,
    PromiseNotDurable,
)
from zab_chaos.node.core.peer import Peer

FOLDER = Path(__file__).resolve().parents[2] / "testdata"
FILES = sorted(FOLDER.glob("*.txt"))
PHASES = (
    ("f.1.1", "l.1.1", "f.1.2", "l.1.2"),
    ("l.2.1", "f.2.1", "l.2.2", "f.2.2"),
    ("l.3.1", "l.3.2", "f.3.1", "f.3.2", "f.3.3", "l.3.3", "l.3.4"),
)
STEP = re.compile(r"(\d+)\. (.+)")
NUMBERS = ("start", "crash", "wipe", "promise", "isolate", "stick", "unstick", "snapshot", "tick", "show")
COMMANDS = ("begin", *NUMBERS, "heal", "hold", "release", "submit", "refuses", "quietly COMMAND")


def perform(world: Lockstep, command: str) -> None:
    """One step. Raises ValueError with what is allowed."""
    name, *words = command.split()
    if name in NUMBERS:
        getattr(world, name)(*map(int, words))
    elif name == "quietly":
        perform(world, " ".join(words))
        world.lines.clear()
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


def world_of(line: str) -> Lockstep:
    """`nodes 3 counter_max=3`."""
    words = line.split()
    settings = dict(word.split("=") for word in words[2:])
    return Lockstep(int(words[1]), **{name: int(value) for name, value in settings.items()})


def performed(text: str) -> str:
    """The file as it should be: the same steps, with what happens now."""
    world: Lockstep | None = None
    done: list[str] = []
    steps = 0
    for number, line in enumerate(text.splitlines(), 1):
        if world is None:
            done.append(line)
            if line.startswith("nodes "):
                world = world_of(line)
            continue
        match = STEP.fullmatch(line)
        if match is not None:
            steps += 1
            assert int(match[1]) == steps, f"line {number}: step {steps} comes here"
            done += ["", line] if done[-1] and not done[-1].startswith("#") else [line]
            perform(world, match[2])
            done += [f"   {told}" for told in world.lines]
            world.lines.clear()
        elif line.startswith("#"):
            done += ["", line] if done[-1] and not done[-1].startswith("#") else [line]
        else:
            assert not line or line.startswith("   "), f"line {number}: {line!r} is neither step, remark nor transcript"
    assert world is not None, "no line `nodes N`"
    world.check()
    return "\n".join(done).rstrip() + "\n"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_protocol_does_what_its_transcript_says(file: Path, request: pytest.FixtureRequest) -> None:
    text = file.read_text(encoding="utf-8")
    now = performed(text)
    if request.config.getoption("--rewrite"):
        file.write_text(now, encoding="utf-8")
    elif now != text:
        changes = difflib.unified_diff(
            text.splitlines(), now.splitlines(), f"{file.name}, as written", "now", lineterm=""
        )
        pytest.fail(
            "\n".join([*changes, "", "If that is meant: pytest --rewrite, and review the diff."]), pytrace=False
        )


def test_every_step_of_the_paper_has_its_transcript() -> None:
    names = {file.stem for file in FILES}
    assert {f"dsn-{step}" for steps in PHASES for step in steps} <= names
    assert {"ladis-figure-2", "ladis-figure-3", "ladis-figure-4"} <= names


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_transcript_begins_with_what_it_shows(file: Path) -> None:
    paragraph = file.read_text(encoding="utf-8").split("\n\n")[0]
    assert len(paragraph) > 80
    assert paragraph.endswith(".")
    assert not paragraph.startswith("nodes")


@pytest.mark.parametrize(
    ("bug", "name"),
    [
        (AckBeforeSync, "dsn-f.3.2"),
        (AckLeaderBeforeSync, "dsn-f.2.1"),
        (PromiseNotDurable, "dsn-f.1.2"),
        (CommitWithoutQuorum, "dsn-l.3.2"),
        (NoTruncate, "ladis-figure-4"),
        (AmnesiacVotes, "amnesiac"),
    ],
)
def test_a_known_bug_changes_the_transcript_of_its_step(
    bug: type[Peer], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    monkeypatch.setattr(Lockstep, "peer_type", bug)
    with suppress(Disagreement):
        assert performed(text) != text


def test_an_unknown_command_names_those_that_are() -> None:
    with pytest.raises(ValueError, match="'crsh 1' is no command; there are begin, start"):
        performed("nodes 3\n\n1. crsh 1\n")
