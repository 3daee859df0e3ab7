"""`zab replay`: exit codes, output, and `--show`; and the property `replay equality` in a run's verdict."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zab_chaos.harness.cli.app import main
from zab_chaos.harness.runs.judgement import judge
from zab_chaos.model import manifest
from zab_chaos.model.replay.life import ReplayStop, Rerun
from zab_chaos.model.replay.replay import replay_life
from zab_chaos.model.verdict import Judgement
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.messages import Ack, Commit, Phase, Ping, Role
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.tables import HANDLERS_IN

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[4]


def answer(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def flip(run: Path, node: int, life: int, place: int) -> None:
    path = run / "record" / f"node-{node}-{life}.bin"
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def change_run(run: Path, **facts: Any) -> None:
    path = run / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))


def test_an_equal_run_is_exit_0(original: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(original)]) == 0
    out = capsys.readouterr().out
    assert out.count("equal") == 5
    assert out.rstrip().endswith("EQUAL")


def test_a_difference_is_exit_1_with_where_and_the_last_inputs(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip(run, 2, 1, 60_000)
    assert main(["replay", str(run)]) == 1
    out = capsys.readouterr().out
    assert "node 2, life 1: the checksum of the block" in out
    assert "record/node-2-1.bin, offset 5" in out
    assert out.count(": tick ") > 3
    assert out.rstrip().endswith("DIFFERENT")
    manifest.seal(run)
    assert main(["replay", str(run), "--node", "1", "--json"]) == 0
    assert [life["node"] for life in answer(capsys)["lives"]] == [1, 1]
    assert main(["replay", str(run), "--node", "2", "--json"]) == 1
    assert answer(capsys)["lives"][0]["difference"]["file"] == "record/node-2-1.bin"


def test_another_commit_is_named_where_something_differs(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zab_chaos.harness.runs.judgement.environment.commit", lambda: "fedc321")  # also without git
    change_run(run, commit="0123abc")
    manifest.seal(run)
    assert main(["replay", str(run)]) == 0
    assert "0123abc" not in capsys.readouterr().out
    flip(run, 2, 1, 100)
    manifest.seal(run)
    assert main(["replay", str(run)]) == 1
    assert "recorded by commit 0123abc" in capsys.readouterr().out
    assert "recorded by commit 0123abc" in " ".join(judge(run).reasons)


def test_nothing_recorded_is_exit_2(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in (run / "record").iterdir():
        file.unlink()
    change_run(run, outcome="harness-error: no port is free")
    assert main(["replay", str(run), "--json"]) == 2
    why = answer(capsys)["why"]
    assert "has no recordings" in why
    assert why.endswith("harness-error: no port is free")
    change_run(run, record=False)
    assert main(["replay", str(run), "--json"]) == 2
    why = answer(capsys)["why"]
    assert "has no recordings" in why
    assert "record = false" in why
    change_run(run, command="zab run x --on sim --seed 3", backend="sim")
    assert main(["replay", str(run), "--json"]) == 2
    assert answer(capsys)["why"].endswith(
        ". zab run x --on sim --seed 3 --record repeats the run exactly, and records it"
    )
    change_run(run, defect="of-another-system")
    assert main(["replay", str(run), "--json"]) == 2
    assert "has no recordings" in answer(capsys)["why"]


def test_a_defect_that_is_not_here_is_exit_2(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change_run(run, defect="of-next-year")
    assert main(["replay", str(run)]) == 2
    assert "of-next-year" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--until", "soon"], "--until soon"),
        (["--until", "0", "--node", "2"], "--until 0"),
        (["--until", "-3", "--node", "2"], "--until -3"),
        (["--until", "3"], "node 1 life 1, 2; node 2 life 1; node 3 life 1, 2"),
        (["--show", "--node", "1"], "node 1 life 1, 2"),
        (["--node", "9"], "Recorded: node 1 life 1, 2"),
        (["--node", "2", "--life", "2"], "Recorded: "),
        (["--node", "2", "--until", "99999"], "node 2, life 1 ends before that"),
        (["--node", "2", "--until", "i99999"], "its last input i"),
        (["--node", "two"], "--node"),
        (["--step"], "--step needs a terminal"),
    ],
)
def test_a_mistake_is_reported_with_exit_4(
    original: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(original), *arguments]) == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert "Traceback" not in err


def test_two_mistakes_are_reported_at_once(original: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(original), "--node", "9", "--until", "soon"]) == 4
    err = capsys.readouterr().err
    assert "soon" in err
    assert "Recorded: " in err


def test_a_run_that_is_not_there_is_exit_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "gone", "--results", str(tmp_path)]) == 4
    assert "no run at gone" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_exit_3_and_no_verdict(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "record" / "node-2-9.bin").mkdir()
    (run / "trace" / "node-2-9.jsonl").touch()
    assert main(["replay", str(run)]) == 3
    assert "node-2-9.bin cannot be read" in capsys.readouterr().err
    assert judge(run).property("replay equality").verdict is Judgement.UNKNOWN


def test_a_trace_that_cannot_be_read_is_no_difference(run: Path) -> None:
    file = run / "trace" / "node-2-1.jsonl"
    file.unlink()
    file.symlink_to("/proc/self/mem")  # reading its first bytes is an error, for every user
    verdict = judge(run)
    assert verdict.property("replay equality").verdict is Judgement.UNKNOWN
    assert "trace/node-2-1.jsonl can't be read" in "".join(
        it.words for it in verdict.property("trace integrity").violations
    )


def test_show_until_shows_a_leader_as_it_was(original: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = map(json.loads, (original / "trace" / "node-3-1.jsonl").read_text().splitlines())
    n = next(line["n"] for line in lines if line["event"] == "broadcast")
    command = ["replay", str(original), "--node", "3", "--life", "1", "--until", str(n), "--show"]
    assert main([*command, "--json"]) == 0
    told = answer(capsys)
    assert told["event"] == n
    state = told["state"]
    assert state["role"] == "LEADING in BROADCAST; leader: node 3; iteration 1"
    assert state["f.p (accepted epoch)"].startswith("1")
    assert state["history"] == "0:0 1:2; 2 transactions, last 1:2"
    assert state["not delivered yet"] == "1:1..1:2"
    assert state["outstanding"] == "2 proposed, 0 gathered; room for 998"
    assert state["follower 1"].startswith("active")
    assert told["inputs"][-1].split(":")[0] == str(told["input"])
    assert len(told["coming"]) == 5
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "---- here ----" in out
    assert "LEADING in BROADCAST" in out


def test_show_says_which_inputs_the_core_dropped(
    original: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PING changes nothing, so a core that drops it replays the run as well."""
    monkeypatch.delitem(HANDLERS_IN[Role.FOLLOWING, Phase.BROADCAST], Ping)
    assert main(["replay", str(original), "--node", "2", "--life", "1", "--show", "--json"]) == 0
    dropped = [words for words in answer(capsys)["inputs"] if "dropped" in words]
    assert dropped
    assert all(" PING " in it and it.endswith(" (dropped: not expected in FOLLOWING, BROADCAST)") for it in dropped)


def test_every_reason_to_drop_a_message_is_told(original: Path) -> None:
    rerun = Rerun(original, 1, 1, Peer)
    rerun.run(ReplayStop(60, input=True))
    machine, here = rerun.machine, rerun.inputs
    assert (machine.role, machine.phase, machine.leader) == (Role.FOLLOWING, Phase.BROADCAST, 3)
    for source, message, why in (
        (9, Commit(1, zx.zxid(1, 1), 0), "the session with node 9 is closed"),
        (2, Commit(1, zx.zxid(1, 1), 0), "node 2 is not its leader"),
        (3, Commit(7, zx.zxid(7, 1), 0), "nothing waits for it in FOLLOWING, BROADCAST"),
        (3, Ack(1, zx.zxid(1, 1)), "not expected in FOLLOWING, BROADCAST"),
    ):
        rerun.drops.clear()
        machine.step(source, message)
        assert rerun.drops == {here: why}


def test_show_of_every_input_of_a_life_never_fails(original: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every phase and role has another kind of state."""
    seen, epochs = set(), set()
    for number in range(1, 60):
        assert main(["replay", str(original), "--node=3", "--life=2", f"--until=i{number}", "--show", "--json"]) == 0
        state = answer(capsys)["state"]
        seen.add(state["role"].split(";")[0])
        epochs.add((state["f.p (accepted epoch)"].split(",")[0], state["f.a (current epoch)"]))
    assert {"LOOKING in ELECTION", "FOLLOWING in DISCOVERY", "FOLLOWING in BROADCAST"} <= seen
    assert ("2", "1") in epochs, "it has promised epoch 2 before it adopts it"


def test_a_difference_before_until_stops_the_replay(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip(run, 2, 1, 20_000)
    assert main(["replay", str(run), "--node", "2", "--until", "i100000", "--show", "--json"]) == 1
    told = answer(capsys)
    assert told["difference"]["input"] == told["input"]
    assert told["state"] is not None


def test_replay_equality_is_a_property_of_a_recorded_runs_verdict(run: Path) -> None:
    found = judge(run).property("replay equality")
    assert (found.verdict, found.violations) == (Judgement.PASS, [])
    assert found.checked > 1000
    flip(run, 1, 1, 500)
    verdict = judge(run)
    found = verdict.property("replay equality")
    assert found.verdict is Judgement.VIOLATION
    assert verdict.exit == 1
    assert any("replay equality is violated: node 1, life 1, input" in reason for reason in verdict.reasons)
    assert found.violations[0].evidence[0].file == "record/node-1-1.bin"


def test_verify_judges_replay_equality(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip(run, 1, 1, 500)
    assert main(["verify", str(run), "--json"]) == 1
    names = [item["name"] for item in answer(capsys)["runs"][0]["properties"] if item["verdict"] == "VIOLATION"]
    assert names == ["replay equality"]


def test_a_run_without_recording_has_no_such_property(run: Path) -> None:
    change_run(run, record=False)
    assert "replay equality" not in [item.name for item in judge(run).properties]


def test_a_run_of_an_unknown_defect_is_unknown(run: Path) -> None:
    change_run(run, defect="of-next-year")
    verdict = judge(run)
    assert verdict.property("replay equality").verdict is Judgement.UNKNOWN
    assert any("of-next-year" in reason for reason in verdict.reasons)


def test_the_hash_seed_changes_nothing(original: Path) -> None:
    command = [sys.executable, "-m", "zab_chaos.harness", "replay", str(original), "--json"]
    for seed in ("1", "77"):
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["equal"]


def test_changed_files_of_a_life_make_a_difference_uncertain(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest.seal(run)
    flip(run, 1, 1, 500)
    verdict = judge(run)
    assert verdict.property("replay equality").verdict is Judgement.UNKNOWN
    assert any("not certain" in reason and "record/node-1-1.bin was changed" in reason for reason in verdict.reasons)
    assert main(["replay", str(run)]) == main(["replay", str(run), "--node=1", "--life=1", "--until=i9999"]) == 2
    assert capsys.readouterr().out.count("UNKNOWN: record/node-1-1.bin was changed") == 2


def lose_a_life(run: Path) -> None:
    """Remove all files of a life."""
    for file in (run / "trace" / "node-3-2.jsonl", run / "record" / "node-3-2.bin"):
        file.unlink()


def cut_a_life(run: Path) -> None:
    """Cut trace and recording of a life that ended by itself, as if it had been killed on the way."""
    trace, record = run / "trace" / "node-2-1.jsonl", run / "record" / "node-2-1.bin"
    record.write_bytes(record.read_bytes()[: record.stat().st_size // 4])
    too_long = replay_life(run, 2, 1).difference
    assert too_long is not None
    trace.write_bytes(b"".join(trace.read_bytes().splitlines(keepends=True)[: too_long.place - 1]))


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lose_a_life, "UNKNOWN: record/node-3-2.bin is missing"),
        (cut_a_life, "UNKNOWN: record/node-2-1.bin was changed"),
        (lambda run: change_run(run, defect="gap-accepted"), "UNKNOWN: run.json was changed"),
        (lambda run: (run / manifest.NAME).unlink(), "UNKNOWN: manifest.json is missing"),
    ],
    ids=["a life is missing", "a life is cut", "another core", "no manifest"],
)
def test_what_is_left_of_a_changed_run_is_not_equal_to_the_run(
    run: Path, edit: Callable[[Path], None], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest.seal(run)
    edit(run)
    assert main(["replay", str(run)]) == 2
    assert words in capsys.readouterr().out
    assert main(["replay", str(run), "--json"]) == 2
    assert answer(capsys)["equal"] is None


def test_a_changed_life_says_nothing_about_another_one(run: Path) -> None:
    manifest.seal(run)
    cut_a_life(run)
    assert (
        main(["replay", str(run), "--node=1"]) == main(["replay", str(run), "--node=1", "--life=1", "--until=9"]) == 0
    )
    assert main(["replay", str(run), "--node=2"]) == main(["replay", str(run), "--node=2", "--until=9"]) == 2


def test_a_difference_in_unchanged_files_is_certain(run: Path) -> None:
    flip(run, 1, 1, 500)
    manifest.seal(run)
    flip(run, 2, 1, 500)
    found = judge(run).property("replay equality")
    assert found.verdict is Judgement.VIOLATION
    assert ["changed" in one.words for one in found.violations] == [False, True]
