"""The protocol does what its transcripts say (`model/transcripts/*.txt`).

`pytest --rewrite` rewrites the indented lines. Whoever changes the protocol reviews them as a diff.
"""

import difflib
from contextlib import suppress
from pathlib import Path

import pytest

from zab_chaos.faults.defects import (
    AckBeforeSync,
    AckLeaderBeforeSync,
    AmnesiacVotes,
    CommitWithoutQuorum,
    NoTruncate,
    PromiseNotDurable,
)
from zab_chaos.model.transcripts.scripted_ensemble import DeliveryDisagreement, ScriptedEnsemble
from zab_chaos.model.transcripts.transcript import FOLDER, play
from zab_chaos.node.core.peer import Peer

FILES = sorted(FOLDER.glob("*.txt"))
PHASES = (
    ("f.1.1", "l.1.1", "f.1.2", "l.1.2"),
    ("l.2.1", "f.2.1", "l.2.2", "f.2.2"),
    ("l.3.1", "l.3.2", "f.3.1", "f.3.2", "f.3.3", "l.3.3", "l.3.4"),
)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_protocol_does_what_its_transcript_says(file: Path, request: pytest.FixtureRequest) -> None:
    text = file.read_text(encoding="utf-8")
    _, now = play(text, ScriptedEnsemble)
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
def test_a_transcript_begins_with_a_paragraph_on_what_it_shows(file: Path) -> None:
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
def test_a_defect_changes_the_transcript_of_its_step(
    bug: type[Peer], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    monkeypatch.setattr(ScriptedEnsemble, "peer_type", bug)
    with suppress(DeliveryDisagreement):
        assert play(text, ScriptedEnsemble)[1] != text


def test_the_error_for_an_unknown_command_lists_the_commands() -> None:
    with pytest.raises(ValueError, match="'crsh 1' is no command; there are begin, start"):
        play("nodes 3\n\n1. crsh 1\n", ScriptedEnsemble)
