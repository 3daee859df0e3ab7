"""`zab zookeeper check`: what is tried, when a ticket is as it states, and what is printed."""

import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from zab_chaos.harness.backends import fitting
from zab_chaos.harness.backends.zookeeper.backend import ZooKeeperBackend
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.cli.checks import show_matrix
from zab_chaos.harness.cli.zookeeper import cells
from zab_chaos.harness.errors import Interrupted
from zab_chaos.harness.explore import tickets

pytestmark = pytest.mark.slow

LOST = ["durability", "agreement"]
LOSS = {
    "durability",
    "agreement",
    "total order",
    "committed stays",
    "state equality",
}  # acknowledged data, lost or forked


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Fake all runs. Key: a release; value: for each of its runs in order, the violated properties, or "unknown"."""
    found: dict[str, Any] = {}

    def run(_scenario: Any, options: Any) -> Any:
        if options.release not in found:
            raise Interrupted("enough")
        violated = found[options.release].pop(0)
        exit_code, word = (2, "UNKNOWN") if violated == "unknown" else (1, "VIOLATION") if violated else (0, "PASS")
        verdict = SimpleNamespace(
            exit=exit_code, verdict=word, violated=violated if exit_code != 2 else [], reasons=["it was too slow"]
        )
        return SimpleNamespace(verdict=verdict, folder=SimpleNamespace(path=Path("/runs") / options.release))

    monkeypatch.setattr(tickets, "run_quietly", run)
    monkeypatch.setattr(ZooKeeperBackend, "check", lambda self: None)
    yield found
    assert not any(found.values()), "not every run was made"


def check(tmp_path: Path, *words: str) -> int:
    return main(["zookeeper", "check", *words, "--results", str(tmp_path)])


def test_a_ticket_is_as_stated_if_exactly_the_affected_releases_show_it(
    runs: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs |= {"3.4.10": [["state equality", "recovery"]], "3.4.14": [[]], "3.9.4": [[]]}
    assert check(tmp_path, "ZOOKEEPER-2845") == 0
    said = capsys.readouterr().out
    assert "1/3 ZOOKEEPER-2845 on 3.4.10, which must show it: 1/1 shown" in said
    assert "3/3 ZOOKEEPER-2845 on 3.9.4, which must not show it: 1/1 clean" in said
    assert "as stated" in said


def test_affected_releases_are_run_until_the_bug_shows_and_others_the_full_number_of_times(
    runs: dict[str, Any], tmp_path: Path
) -> None:
    runs |= {"3.8.4": [[], LOST], "3.9.4": [[]] * 5}
    (row,) = tickets.tickets(["4643"])
    row.scenario = replace(row.scenario, ticket=replace(row.ticket, runs=5))
    tried = list(tickets.attempts(row, ["3.8.4", "3.9.4"]))
    for one in tried:
        tickets.try_release(row, one, tmp_path)
    assert [(one.good, one.runs, one.holds) for one in tried] == [(1, 2, True), (5, 5, True)]


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """Return the folder of a build of 3.9.4."""
    folder = tmp_path / "build"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "zookeeper-3.9.4.jar").touch()
    return folder


@pytest.mark.parametrize(
    ("ticket", "violated", "expected", "code"),
    [
        ("2845", [], "which must not show it: 1/1 clean", 0),
        ("2845", LOST, "which must not show it: 0/1 clean", 1),
        ("2354-diff", ["recovery"], "which must show it: 1/1 shown", 0),
        ("lost-epoch", ["epochs"], "which must show it: 1/1 shown", 0),  # names 3.4.14 and 3.9.5
    ],
)
def test_a_build_must_be_as_the_newest_named_release_up_to_its_version(
    ticket: str, violated: list[str], expected: str, code: int, runs: dict[str, Any], tmp_path: Path, build: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    runs[str(build)] = [violated]
    assert check(tmp_path, ticket, "--zookeeper", str(build)) == code
    assert expected in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["deleted-log", "--zookeeper", "BUILD"], "no ticket names 3.9.4 or an earlier release"),
        (["--zookeeper", "BUILD", "--releases", "3.9.4"], "give one of them"),
        (["--zookeeper", "3.9.4"], "for releases use --releases"),
    ],
)
def test_a_build_that_cannot_be_checked(
    words: list[str], said: str, tmp_path: Path, build: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (build / "lib" / "zookeeper-3.9.4.jar").rename(build / "lib" / "zookeeper-3.4.2.jar")
    assert check(tmp_path, *(str(build) if word == "BUILD" else word for word in words)) == 4
    assert said.replace("3.9.4 or", "3.4.2 or") in " ".join(capsys.readouterr().err.split())


def test_several_releases_at_a_time_are_told_in_order(
    runs: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs |= {"3.4.10": [["state equality", "recovery"]], "3.4.14": [["durability"]], "3.9.4": ["unknown", []]}
    assert check(tmp_path, "2845", "--jobs", "2", "--json") == 1
    told = capsys.readouterr()
    said = [line for line in told.err.splitlines() if line[:1].isdigit() and "/3 " in line[:4]]
    assert [line.rpartition(": ")[2] for line in said] == ["1/1 shown", "0/1 clean", "1/1 clean"]
    (row,) = json.loads(told.out)["tickets"]
    assert [(one["as_stated"], one["unjudged"]) for one in row["tried"]] == [
        (True, []),
        (False, []),
        (True, ["it was too slow"]),
    ]
    runs.clear()  # the workers had copies


@pytest.mark.parametrize(
    "found",
    [
        {"3.8.4": [[]]},  # it does not show it
        {"3.8.4": [["recovery"]]},  # something else is violated
        {"3.9.4": [["durability"]]},  # it shows what it must not
        {"3.9.4": [["recovery"]]},
        {"3.8.4": ["unknown"] * 3},
    ],
)
def test_a_ticket_is_not_as_stated(
    runs: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], found: dict[str, Any]
) -> None:
    runs |= found
    assert check(tmp_path, "4643", "--releases", ",".join(found)) == 1
    said = capsys.readouterr().out
    assert "NOT AS" in said
    assert f"/runs/{next(iter(found))}" in said


def test_a_run_that_cannot_be_judged_is_repeated(
    runs: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs["3.8.4"] = ["unknown", LOST]
    assert check(tmp_path, "4643", "--releases", "3.8.4") == 0
    assert "not judged: it was too slow" in capsys.readouterr().out


def test_times_sets_the_number_of_runs(
    runs: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs |= {"3.8.4": [LOST, [], LOST], "3.9.4": [[], [], []]}
    assert check(tmp_path, "4643", "--releases", "3.8.4, 3.9.4", "--times", "3", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["command"].startswith("zab zookeeper check 4643 --releases '3.8.4, 3.9.4' --times 3 ")
    (row,) = told["tickets"]
    assert (row["ticket"], row["as_stated"], row["violates"]) == ("ZOOKEEPER-4643", True, ["durability"])
    assert [(one["release"], one["shown"], one["clean"], one["runs"]) for one in row["tried"]] == [
        ("3.8.4", 2, 1, 3),
        ("3.9.4", 0, 3, 3),
    ]


def test_what_was_done_before_an_interruption_is_shown(
    runs: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs["3.4.10"] = [["state equality"]]
    assert check(tmp_path, "2845") == 2
    said = capsys.readouterr().out
    assert "the matrix is incomplete" in said
    assert "1/1 shown" in said
    assert "NOT AS STATED" not in said


def test_a_ticket_that_is_not_as_stated_counts_even_if_the_check_is_interrupted(
    runs: dict[str, Any], tmp_path: Path
) -> None:
    runs["3.4.10"] = [[]]
    assert check(tmp_path, "2845") == 1


def test_a_check_that_is_interrupted_at_once_has_an_empty_matrix(
    runs: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tmp_path, "2845") == 2
    assert capsys.readouterr().out.strip() == "interrupted; the matrix is incomplete"


def test_the_matrix_is_not_cut_off_on_a_narrow_terminal() -> None:
    console = Console(width=60, record=True, file=io.StringIO(), force_terminal=True)
    show_matrix([cells(row) for row in tickets.tickets(["ZOOKEEPER-2845"])], console)
    shown = console.export_text()
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    assert "ZOOKEEPER-2845" in shown


def test_unknown_tickets_and_releases_are_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, "4644") == 4
    assert "no ticket '4644'. Did you mean 4643" in capsys.readouterr().err
    assert check(tmp_path, "4643", "--releases", "3.4.10") == 4
    assert "They name 3.8.0, 3.8.4, 3.9.3, 3.9.4" in capsys.readouterr().err


def test_where_nothing_can_be_mounted_only_the_tickets_that_need_it_are_refused(
    runs: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "missing_requirement", lambda **_: ("there is no /dev/fuse", "load the module fuse"))
    runs["3.9.4"] = [[]]
    assert check(tmp_path, "4643", "--releases", "3.9.4", "--times", "1") == 0
    assert check(tmp_path, "4643", "2003", "unsynced-tail") == 4
    said = capsys.readouterr().err.splitlines()
    assert [re.search(r"zookeeper/(.*)\.toml", line)[1] for line in said] == ["2003", "unsynced-tail"]  # type: ignore[index]
    assert all(line.endswith("there is no /dev/fuse: load the module fuse") for line in said)


def test_every_shipped_ticket_names_releases_whose_checksums_are_pinned() -> None:
    from zab_chaos.harness.backends.zookeeper import releases

    rows = tickets.tickets()
    assert len(rows) >= 8
    assert sum(bool(set(row.ticket.violates) & LOSS) for row in rows) >= 3
    for row in rows:
        assert {*row.ticket.fails, *row.ticket.passes} <= set(releases.known()), row.name
        assert row.scenario.zookeeper.release in row.ticket.fails, row.name
