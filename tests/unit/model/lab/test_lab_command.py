"""The command `zab lab`: its output and its mistakes."""

import hashlib
from pathlib import Path

import pytest
import typer

from zab_chaos.harness.cli.lab import lab
from zab_chaos.harness.errors import BadInput, Exit, HarnessError

SCENARIO_E = "--seed 42 --nodes 3 --rounds 1000 --proposals 3 --partition 0,1,0,2,1,0,2,0"
HASH_E = "5e4dbddb605e469c99fb682c00256445dcb2ed07e984f673d4296ef19719979a"


def typed(line: str) -> int:
    app = typer.Typer()
    app.command()(lab)
    return int(app(line.split(), standalone_mode=False))


def mistakes(line: str) -> list[str]:
    with pytest.raises(BadInput) as raised:
        typed(line)
    return [mistake.strip() for mistake in str(raised.value).splitlines()[1:]]


def test_stdout_is_the_hash_without_a_newline(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(SCENARIO_E) == Exit.PASS
    out, err = capsys.readouterr()
    assert (out, err) == (HASH_E, "")


def test_dump_writes_what_was_hashed(tmp_path: Path) -> None:
    typed(f"{SCENARIO_E} --dump {tmp_path / 'dump.bin'}")
    content = (tmp_path / "dump.bin").read_bytes()
    assert content.startswith(b"DSEZAB01")
    assert hashlib.sha256(content).hexdigest() == HASH_E


def test_show_prints_the_content_of_the_dump_and_the_hash_last(capsys: pytest.CaptureFixture[str]) -> None:
    typed("--seed 1 --nodes 1 --rounds 200 --proposals 2 --show")
    *lines, last = capsys.readouterr().out.split("\n")
    assert lines == [
        "node 1  Leading  current_epoch 1  accepted_epoch 1  last_zxid 1:2  last_committed 1:2  history 2",
        "    1:1 zab-0",
        "    1:2 zab-1",
    ]
    assert len(last) == 64


def test_trace_prints_a_line_for_each_message(capsys: pytest.CaptureFixture[str]) -> None:
    typed(f"{SCENARIO_E} --trace")
    *lines, last = capsys.readouterr().out.split("\n")
    assert last == HASH_E
    assert any(line.endswith("Propose        txn=[1:1 zab-0]") for line in lines)
    assert all("(lost: the link is cut)" in line for line in lines if "1->2" in line)


def test_all_arguments_have_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    typed("")
    alone = capsys.readouterr().out
    typed("--seed 1 --nodes 3 --rounds 1000 --proposals 10")
    assert capsys.readouterr().out == alone


def test_on_a_terminal_the_hash_ends_its_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    typed("")
    assert len(capsys.readouterr().out) == 65


def test_all_mistakes_are_reported_at_once() -> None:
    assert mistakes("--seed -1 --nodes x --proposals 1.5 --partition 0,b,9 --dump /no/such/folder/dump") == [
        "--nodes is 'x'; it needs a whole number",
        "--proposals is '1.5'; it needs a whole number",
        "--partition has 'b' where node ids belong (from,to,from,to,...)",
        "--partition lists pairs from,to,from,to,...; of 3 entries the last has no partner",
        "--dump: /no/such/folder/dump cannot be written: there is no folder /no/such/folder",
        "--seed is -1; allowed is 0 to 18446744073709551615",
    ]


def test_an_unknown_backend_is_reported_with_the_other_mistakes() -> None:
    found = mistakes("--seed 1 --nodes 2 --rounds x --proposals 3 --on nowhere")
    assert found == [
        "--rounds is 'x'; it needs a whole number",
        "--on is 'nowhere'; the lab runs on sim or lockstep",
    ]


def test_ids_of_an_odd_partition_are_checked_too() -> None:
    assert mistakes("--seed 1 --nodes 3 --rounds 9 --proposals 0 --partition 0,1,3") == [
        "--partition lists pairs from,to,from,to,...; of 3 entries the last has no partner",
        "--partition names node 3; with 3 nodes the ids are 0 to 2",
    ]


@pytest.mark.parametrize("option", ["--seed", "--rounds", "--proposals"])
def test_negative_numbers_are_refused(option: str) -> None:
    line = "--seed 1 --nodes 3 --rounds 9 --proposals 0".replace(f"{option} ", f"{option} -")
    line = line.replace("-0", "-1")
    assert len(mistakes(line)) == 1
    assert mistakes(line)[0].startswith(f"{option} is -")


def test_a_dump_cannot_replace_a_folder(tmp_path: Path) -> None:
    assert mistakes(f"{SCENARIO_E} --dump {tmp_path}") == [f"--dump: {tmp_path} is a folder; name a file"]


def test_an_impossible_file_name_for_the_dump_is_reported(tmp_path: Path) -> None:
    [mistake] = mistakes(f"{SCENARIO_E} --dump {tmp_path / ('d' * 300)}")
    assert mistake.endswith("cannot be written: File name too long")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the device that is always full is Linux's")
def test_a_full_disk_is_reported() -> None:
    with pytest.raises(HarnessError, match="/dev/full cannot be written: No space left"):
        typed(f"{SCENARIO_E} --dump /dev/full")
