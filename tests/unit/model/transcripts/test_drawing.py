"""The drawing of a transcript has everything that its text has, and `zab show` writes it."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.unit.harness.report.html.test_diagram import unpack
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.report.html.diagram import STEP_KINDS
from zab_chaos.harness.report.html.transcript_page import transcript_page
from zab_chaos.model.transcripts.drawing import DrawnEnsemble
from zab_chaos.model.transcripts.transcript import FOLDER, play

FILES = sorted(FOLDER.glob("*.txt"))


def drawn(name: str) -> DrawnEnsemble:
    return play((FOLDER / f"{name}.txt").read_text(encoding="utf-8"), DrawnEnsemble)[0]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_drawing_changes_nothing_and_draws_every_message_of_the_transcript(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    ensemble, told = play(text, DrawnEnsemble)
    assert told == text
    lines = re.findall(r"^   (\d)-([>x])(\d) (\S+)", text, re.MULTILINE)
    arrows = [(str(one.source), str(one.target), type(one.message).__struct_config__.tag) for one in ensemble.arrows]
    assert arrows == [(source, target, name) for source, _, target, name in lines]
    assert sum(one.received is None for one in ensemble.arrows) >= sum(sign == "x" for _, sign, _, _ in lines)
    assert all(one.received is None or one.sent < one.received for one in ensemble.arrows)


def test_no_two_events_happen_at_the_same_moment() -> None:
    ensemble = drawn("discovery")
    moments = sorted([one.at for one in ensemble.events] + [one.received or 0 for one in ensemble.arrows])
    assert all(before < after for before, after in pairwise(moments))


def test_the_states_show_a_crash_and_a_return() -> None:
    states = [state for state in drawn("ladis-figure-4").states if state.node == 3]
    roles = [state.role for state in states]
    assert "" in roles
    assert roles[-1] == "FOLLOWING"
    assert [state.epoch for state in states[roles.index("") + 1 :]] == [1, 1, 2, 2]  # f.p survives on the disk


def test_the_epoch_of_a_state_is_the_promised_one() -> None:
    """Node 1 was in epoch 1, and has promised epoch 7 while it was down."""
    states = [state for state in drawn("promise-above-the-leaders-epoch").states if state.node == 1]
    down = next(place for place, state in enumerate(states) if not state.role)
    assert {state.epoch for state in states[down + 1 :]} == {7, 8}


def test_nodes_that_crash_at_once_are_down_until_they_start() -> None:
    """None of them sees the others go, and looks for a leader before it goes itself."""
    ensemble = drawn("amnesiac")
    began = next(clock for clock, step in ensemble.steps if "quietly start 3" in step)
    states = [state for state in ensemble.states if state.node == 3]
    down = next(place for place, state in enumerate(states) if not state.role)
    assert states[down + 1].at >= began


def test_the_page_has_the_states_of_each_node_one_after_the_other_and_what_was_truncated() -> None:
    ensemble = drawn("ladis-figure-4")
    script = re.search('id="data">(.*?)</script>', transcript_page("figure 4", "", ensemble))
    assert script is not None
    data = json.loads(script[1])
    for node in ensemble.members:
        states = [state for state in ensemble.states if state.node == node]
        ends = [*(state.at for state in states[1:]), ensemble.clock + 1]
        expected = [
            (state.at, end, state.role, state.phase, state.epoch)
            for state, end in zip(states, ends, strict=True)
            if end > state.at
        ]
        lane = [one for one in data["lanes"] if one["node"] == node]
        assert [
            (one["begin"] // 10**6, one["end"] // 10**6, one["role"], one["phase"], one["epoch"]) for one in lane
        ] == expected
    columns, _ = unpack(data["diagram"]["packed"])
    kinds, many = (columns[f"step.{name}"] for name in ("kind", "many"))
    truncations = [event.fields for event in ensemble.events if event.event == "truncate"]
    assert truncations
    assert [number for kind, number in zip(kinds, many, strict=True) if STEP_KINDS[int(kind)] == "truncate"] == [
        fields["last"][1] - fields["keep"][1] - 1 for fields in truncations
    ]


def test_zab_show_lists_all_transcripts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show"]) == 0
    listed = capsys.readouterr().out
    assert all(file.stem in listed for file in FILES)
    assert main(["show", "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert about["discovery"].startswith("DSN 2011, phase 1: discovery")


def test_zab_show_writes_one_file_and_prints_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["show", "broadcast"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/broadcast.html\n"
    text = (tmp_path / "broadcast.html").read_text(encoding="utf-8")
    assert "3-&gt;1 PROPOSE e=1 1:1..1:2" in text
    assert not re.search(r"https?:|//[a-z]|@import|url\(|fetch\(|XMLHttp|import\(", text)
    assert main(["show", "broadcast", "--out", str(tmp_path / "other.html"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["drawing"] == str(tmp_path / "other.html")


def test_zab_show_reports_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "dicovery"]) == 4
    assert "Did you mean discovery?" in capsys.readouterr().err
    assert main(["show", "discovery", "--out", str(tmp_path)]) == 4
    assert "is a folder" in capsys.readouterr().err
