"""The command line: mistakes, help and lists. Runs are tested in tests/integration/test_run_processes.py."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from zab_chaos.harness.cli.app import complete_defect, complete_scenario, main
from zab_chaos.harness.errors import Interrupted
from zab_chaos.harness.machine.interrupt import Stopped
from zab_chaos.harness.results import run_folder
from zab_chaos.model.verdict import Outcome, Verdict

BAD = """
[scenario]
name = "bad"
about = "Three mistakes."
nodes = 3
[[fault]]
at = 1
do = "crsh"
target = "leader"
[[fault]]
at = -1
do = "crash"
target = "node-9"
"""


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """Return stderr, which must not contain a traceback. stdout must be empty."""
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rnu"], "Did you mean 'run'?"),
        (["run"], "Missing argument"),
        (["run", "steady-state", "--sede", "1"], "--seed"),
        (["run", "steady-state", "--seed", "-1"], "--seed"),
        (["run", "steady-state", "--nodes", "many"], "--nodes': 'many' is not a whole number."),
        (["run", "steady-state", "--nodes", "99"], "whole number from 1 to 15"),
        (["run", "steady-state", "--disk", "paper"], "one of faithful, ordinary, fuse"),
        (["run", "power-outage", "--disk", "ordinary"], 'disk = "faithful" or "fuse"'),
        (["run", "power-outage", "--zookeeper", "3.9.4", "--disk", "faithful"], 'its nodes have disk = "fuse"'),
        (["run", "leader-crash", "--zookeeper", "3.9.4", "--disk", "faithful"], 'its nodes have disk = "ordinary"'),
        (["run", "steady-state", "--on", "sim", "--disk", "fuse"], "it can be done on processes"),
        (["run", "steady-stat"], "Did you mean steady-state"),
        (["run", "steady-state", "--on", "processe"], "Did you mean processes"),
        (["run", "steady-state", "--defect", "ack-befor-sync"], "Did you mean ack-before-sync"),
        (
            ["run", "steady-state", "--defect", "no-force-sync"],
            "nodes on processes; it can be built into those on zookeeper",
        ),
        (
            ["run", "steady-state", "--on", "zookeeper", "--defect", "no-fence"],
            "those on processes, sim, lockstep, containers",
        ),
        (["defects", "--only", "nonsense"], "no defect is called 'nonsense'"),
        (["scenarios", "--only", "nonsense"], "no scenario is called 'nonsense'"),
        (["scenarios", "--check", "--times", "0"], "--times"),
        (["verify"], "Missing argument"),
        (["analyze", "--compare", "a"], "Try: zab analyze --help"),
        (["zookeeper", "check", "--times"], "Try: zab zookeeper check --help"),
    ],
)
def test_a_mistake_is_exit_code_4_with_a_message_on_what_is_allowed(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 4
    assert words in said(capsys)


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify", "latest"], ["replay"], ["report"], ["shrink"], ["results"], ["analyze"], ["analyze", "--compare", "a"],
        ["analyze", "a", "--out"], ["run", "steady-state", "--results"], ["inject", "crash", "--ensemble"],
    ],
)  # fmt: skip
def test_an_empty_path_is_not_the_current_folder(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, ""]) == 4
    assert "the path is empty" in said(capsys)


def test_up_refuses_a_backend_that_other_programs_cannot_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--on", "sim"]) == 4
    assert "zab up runs processes or zookeeper" in capsys.readouterr().err


def test_all_mistakes_of_a_scenario_are_reported_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(BAD)
    assert main(["run", str(file), "--results", str(tmp_path / "results")]) == 4
    told = said(capsys)
    for words in ("'crsh'", "crash", f"{file}:11", "node-9"):
        assert words in told
    assert not (tmp_path / "results").exists()


def test_a_run_that_does_not_exist_is_answered_with_a_list_of_those_that_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_folder.create(tmp_path, "steady", 3)
    run.write_run({"nodes": 3})
    assert main(["verify", "gone", "--results", str(tmp_path)]) == 4
    assert f"steady/{run.name}" in said(capsys)


def test_a_results_folder_that_cannot_be_written_is_exit_code_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert main(["run", "steady-state", "--quiet", "--results", str(file)]) == 3
    assert "--results" in said(capsys)


@pytest.mark.parametrize("error", [RuntimeError("unheard of"), FileNotFoundError(errno.ENOENT, "no such file", "a/b")])
def test_an_internal_error_is_one_line_and_its_traceback_is_in_a_file(
    error: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_results: Path) -> None:
        raise error

    monkeypatch.setattr("zab_chaos.harness.doctor.examine", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["doctor"]) == 3
    assert f"internal error: {type(error).__name__}: {error}" in said(capsys)
    (log,) = tmp_path.glob("zab-error-*.log")
    assert "Traceback" in log.read_text()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "results/x"), "the disk is full"),
        (OSError(errno.EFBIG, "File too large"), "ulimit -f"),
        (
            PermissionError(errno.EACCES, "Permission denied", "results/x"),
            "results/x cannot be used: Permission denied",
        ),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", "a/b"), "a/b cannot be used: Not a directory"),
    ],
)
def test_a_place_that_cannot_be_used_is_reported_with_a_remedy(
    error: OSError, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_results: Path) -> None:
        raise error

    monkeypatch.setattr("zab_chaos.harness.doctor.examine", fail)
    assert main(["doctor"]) == 3
    message = said(capsys)
    assert words in message
    assert "report it" not in message


def test_a_check_that_is_interrupted_at_once_says_only_that(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise Interrupted("interrupted")

    monkeypatch.setattr("zab_chaos.harness.cli.scenarios._check_one", interrupted)
    assert main(["scenarios", "--check", "--only", "leader-crash", "--on", "sim"]) == 2
    assert capsys.readouterr().out == "interrupted: 0 of 1 scenarios were run\n"


def test_a_check_counts_exit_codes_and_names_the_runs_that_ended_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = iter([(Outcome.PASS, "/runs/1"), (Outcome.UNKNOWN, "/runs/2"), (Outcome.PASS, "/runs/3")])

    def run(*_: object) -> SimpleNamespace:
        outcome, folder = next(ends)
        verdict = SimpleNamespace(verdict=outcome, exit=outcome.exit_code, violated=[])
        return SimpleNamespace(verdict=verdict, folder=SimpleNamespace(path=folder))

    monkeypatch.setattr("zab_chaos.harness.cli.scenarios.run_quietly", run)
    assert main(["scenarios", "--check", "--only", "leader-crash", "--on", "sim", "--times", "3"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "leader-crash: exit 0 (2 of 3), 2 (1 of 3), NOT AS EXPECTED", "  /runs/2", "",
        "0 of 1 scenarios end as expected.",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_check_of_several_scenarios_at_a_time_tells_them_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["leader-crash", "leader-pause"]
    words = ["--on", "sim", "--only", names[0], "--only", names[1], "--jobs", "2", "--results", str(tmp_path)]
    assert main(["scenarios", "--check", *words]) == 0
    assert capsys.readouterr().out.splitlines() == [
        *(f"{name}: exit 0, as expected" for name in names),
        "",
        "2 of 2 scenarios end as expected.",
    ]
    assert all((tmp_path / name).is_dir() for name in names)


@pytest.mark.parametrize("backend", ["sim", "processes", "zookeeper"])
def test_a_check_leaves_zookeepers_tickets_to_their_own_command(
    backend: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("zab_chaos.harness.cli.scenarios._check_one", lambda *_: 1 / 0)
    assert main(["scenarios", "--check", "--only", "zookeeper/2845", "--on", backend]) == 2
    out = " ".join(capsys.readouterr().out.split())
    assert "zookeeper/2845: not run, it shows a bug of Apache ZooKeeper, and `zab zookeeper check` runs it" in out
    assert "0 of 0 scenarios" in out


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    out = capsys.readouterr().out
    for command in ("run", "verify", "scenarios", "defects", "doctor", "bench"):
        assert command in out


def test_scenarios_and_defects_are_listed_as_text_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenarios", "--json"]) == 0
    listed = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert listed["leader-crash"]["faults"] == ["crash"]
    assert listed["disk-loss-majority"]["exit"] == 5
    assert not any(name.startswith("defects/") for name in listed)
    assert main(["defects", "--json"]) == 0
    assert "ack-before-sync" in {one["name"] for one in json.loads(capsys.readouterr().out)}
    assert main(["scenarios"]) == 0
    assert max(len(line) for line in capsys.readouterr().out.splitlines()) <= 80


def test_names_are_completed_in_the_shell() -> None:
    assert "power-outage-torn" in complete_scenario("power-")
    assert complete_scenario("nonsense") == []
    assert complete_defect("ack-before") == ["ack-before-sync"]


def test_stored_runs_are_judged_again_and_the_worst_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, broken = run_folder.create(tmp_path, "a", 1), run_folder.create(tmp_path, "b", 2)
    good.write_run({"nodes": 1, "outcome": "finished"})  # nothing happened in it: unknown
    broken.write_run({"nodes": 1, "outcome": "harness-error: out of luck"})
    assert main(["verify", str(good.path), str(broken.path), "--json", "--results", str(tmp_path)]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"] == "HARNESS-ERROR"
    assert [run["verdict"] for run in answer["runs"]] == ["UNKNOWN", "HARNESS-ERROR"]
    assert json.loads(good.file("verdict.json").read_text())["exit"] == 2
    assert main(["verify", str(good.path), "--quiet", "--results", str(tmp_path)]) == 2
    assert "UNKNOWN" in capsys.readouterr().out


def test_of_several_runs_those_that_were_not_judged_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = run_folder.create(tmp_path, "a", 1), run_folder.create(tmp_path, "b", 2)
    for folder in (first, second):
        folder.write_run({"nodes": 1, "outcome": "finished"})

    def judge(folder: Path, **_: object) -> Verdict:
        if folder == second.path:
            raise Stopped
        return Verdict(verdict=Outcome.PASS, exit=0, properties=[], reasons=[], metrics={})

    monkeypatch.setattr("zab_chaos.harness.cli.verify.judge", judge)
    assert main(["verify", str(first.path), str(second.path), "--json", "--results", str(tmp_path)]) == 2
    told = capsys.readouterr()
    answer = json.loads(told.out)
    assert (answer["verdict"], [run["verdict"] for run in answer["runs"]]) == ("UNKNOWN", ["PASS"])
    assert "interrupted: 1 of 2 runs were judged" in told.err


COMMANDS = (
    "run", "explore", "shrink", "verify", "replay", "report", "results", "show", "analyze", "up", "client", "inject",
    "scenarios", "defects", "image", "clean", "doctor", "bench", "lab", "zookeeper fetch", "zookeeper check",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_names_the_values_as_the_documentation_does(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--help"]) == 0
    told = capsys.readouterr().out
    assert not re.findall(r"--\S+ +<[a-z ]+>|\{[a-z]+\}|\d{15}", told)


@pytest.mark.slow
@pytest.mark.parametrize("words", ["scenarios", "scenarios --json", "--version", "--help", "run --help", "zookeeper"])
def test_a_closed_pipe_changes_no_exit_code(words: str) -> None:
    end, ours = os.pipe()
    os.close(end)
    with os.fdopen(ours, "w") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "zab_chaos.harness", *words.split()],
            stdout=closed, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[4],
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(("words", "result"), [("clean --json --results", '"files"'), ("report", "report.html")])
def test_a_closed_pipe_of_the_messages_leaves_the_result(words: str, result: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "harness.jsonl").write_text("damage, of which the report's messages tell")
    end, ours = os.pipe()
    os.close(end)
    with os.fdopen(ours, "w") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "zab_chaos.harness", *words.split(), str(tmp_path)],
            stdout=subprocess.PIPE, stderr=closed, text=True, cwd=Path(__file__).parents[4],
        )  # fmt: skip
    assert done.returncode == 0
    assert result in done.stdout


def test_the_list_of_faults_shows_keys_as_they_are_typed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["inject", "--list"]) == 0
    told = capsys.readouterr().out
    assert "keeps_cache=false crash-at enough=all" in told
    assert "None" not in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["heal", "9" * 20], "heal takes no argument, or the number of one fault"),
        (["heal", "9" * 5000], "heal takes no argument, or the number of one fault"),
        (["crash", "target=" + "9" * 20], "a number must fit into 64 bits"),
        (["partition", "pairs=[[1," + "9" * 20 + "]]"], "a number must fit into 64 bits"),
        (["crash", "target=\udcff"], "text must be UTF-8"),
        (["crash", "\udcff=1"], "text must be UTF-8"),
    ],
)
def test_what_no_request_can_hold_is_a_mistake(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], told: str
) -> None:
    assert main(["inject", "--results", str(tmp_path), *words]) == 4
    assert told in capsys.readouterr().err


def test_a_fault_that_can_be_sent_is_not_a_mistake(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["inject", "--results", str(tmp_path), "crash", "target=leader", f"for={2**63}"]) == 4
    assert "no ensemble is running" in capsys.readouterr().err


def test_the_timeout_of_a_client_is_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["client", "1", "get", "/", "--timeout", "nan"]) == 4
    assert "--timeout is a number of seconds" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["defects", "--check", "--only", "no-truncate"],
        ["zookeeper", "check", "4643"],
        ["explore", "lab-flapping", "--seeds", "1"],
        ["shrink", "lab-flapping", "--seed", "3"],
    ],
)
def test_a_file_that_cannot_be_written_is_reported_before_the_work(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [*words, "--out", str(tmp_path / "none" / "x")]
    results = ["--results", str(tmp_path / "r")] if "shrink" not in words and "lab-flapping" not in words else []
    assert main([*asked, *results]) == 4
    told = capsys.readouterr()
    assert told.out == ""
    assert f"--out: {tmp_path / 'none' / 'x'} cannot be written: there is no folder" in told.err


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["scenarios", "--on", "sim", "--times", "3"], "--on, --times"),
        (["defects", "--out", "matrix.json"], "--out"),
        (["defects", "--seeds", "10", "--jobs", "2"], "--seeds, --jobs"),
    ],
)
def test_an_option_that_needs_check_is_a_mistake_without_it(
    words: list[str], given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 4
    assert capsys.readouterr().err == f"Error: {given}: only with --check. Without it, zab {words[0]} runs nothing.\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["lab", "--trace", "--rounds", "50"], ["lab", "--show"], ["show"], ["show", "broadcast"]]
)
def test_a_reader_that_closes_the_pipe_does_not_change_the_exit_code(words: list[str], tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "zab_chaos.harness", *words]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path, check=False, timeout=60)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_mistakes_of_the_scenario_the_defect_and_the_backend_are_told_together(
    short: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", short, "--on", "sm", "--nodes", "99"]) == 4
    said = capsys.readouterr().err
    assert "--nodes: 99 is out of range" in said
    assert "no backend is called 'sm'. Did you mean sim?" in said
    assert main(["run", short, "--on", "sim", "--nodes", "99", "--defect", "dirty-reed"]) == 4
    said = " ".join(capsys.readouterr().err.split())
    assert "--nodes: 99 is out of range" in said
    assert "no defect is called 'dirty-reed'. Did you mean dirty-read" in said


def test_a_defect_of_another_backend_is_no_mistake_if_that_is_implied(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "steady-stat", "--zookeeper", "3.9.4", "--defect", "no-force-sync"]) == 4
    assert capsys.readouterr().err.splitlines() == [
        "Error: no scenario is called 'steady-stat'. Did you mean steady-state?"
    ]
