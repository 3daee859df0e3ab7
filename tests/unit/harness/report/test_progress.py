import io
import re
from itertools import count
from pathlib import Path

import pytest
from rich.console import Console

from zab_chaos.harness.report.html.run_data import read_run_data
from zab_chaos.harness.report.progress import Lines, Panel, Quiet, RunStatus, Steps, display


def moment(**changes: object) -> RunStatus:
    facts = {
        "phase": "faults", "elapsed": 12.4, "duration": 30.0, "leader": 2, "epoch": 3, "ok": 1200, "failed": 1,
        "unknown": 3, "rate": 198.2, "latency_ms": 4.12, "nodes": {1: "following", 2: "leading", 3: "paused"},
        "faults": ["pause node-3"], "upcoming": "crash leader at 15 s",
    }  # fmt: skip
    return RunStatus(**(facts | changes))  # type: ignore[arg-type]


def test_the_status_line_has_all_fields() -> None:
    assert moment().line() == (
        "12/30s faults | leader node-2 epoch 3 | 1200 ok 1 failed 3 unknown | 198/s 4.1 ms | now: pause node-3 | "
        "next: crash leader at 15 s"
    )
    assert RunStatus(phase="electing", elapsed=0, duration=5).line() == "0/5s electing | no leader"


def test_at_most_one_status_line_per_second_and_no_repeats() -> None:
    out = io.StringIO()
    time = [0.0]
    lines = Lines(Console(file=out), clock=lambda: time[0])
    for at, elapsed in ((0.0, 0), (0.5, 1), (0.9, 2), (1.0, 3), (3.0, 3)):
        time[0] = at
        lines.update(RunStatus(phase="load", elapsed=elapsed, duration=9))
    assert [line.split("/")[0] for line in out.getvalue().splitlines()] == ["0", "3"]


def test_events_are_printed_at_once_and_without_markup() -> None:
    out = io.StringIO()
    lines = Lines(Console(file=out, width=20))
    lines.say("node-1 ended [by itself] with exit code 74")
    lines.say("node-2 ended")
    assert out.getvalue() == "node-1 ended [by itself] with exit code 74\nnode-2 ended\n"


def test_the_panel_fits_80_columns_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # rich shows no panel on a terminal that is `dumb`
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system=None)
    with Panel(console) as panel:
        panel.say("seed 7")
        panel.update(moment())
        panel._live.refresh()
    text = out.getvalue()
    for words in ("seed 7", "leader node-2 epoch 3", "3 paused", "pause node-3", "crash leader at 15 s", "1200 ok"):
        assert words in text
    assert max(len(line) for line in text.splitlines()) <= 80 + 20  # cursor movements count as characters


def test_the_display_suits_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")  # as an editor has it that runs commands
    assert isinstance(display(Console(file=io.StringIO(), force_terminal=True), quiet=False), Lines)
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(display(Console(file=io.StringIO()), quiet=False), Lines)
    assert isinstance(display(Console(file=io.StringIO(), force_terminal=True), quiet=False), Panel)
    quiet = display(Console(file=io.StringIO(), force_terminal=True), quiet=True)
    assert type(quiet) is Quiet


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a run with a trace of 3 MB and a recording of 5 MB."""
    for name, size in (("trace/node-1-1.jsonl", 2_900_000), ("ops.jsonl", 100_000), ("record/node-1-1.bin", 5_000_000)):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        with file.open("wb") as written:
            written.truncate(size)
    return tmp_path


def test_a_long_step_prints_a_line_each_ten_seconds_and_a_short_one_none(folder: Path) -> None:
    out, time = io.StringIO(), [0.0]
    steps = Steps(Lines(Console(file=out), clock=lambda: time[0]), clock=lambda: time[0])
    for begin, seconds in ((steps.judging, 29), (steps.judging, 3), (steps.replaying, 12)):
        read = begin(folder)
        for _ in range(seconds):
            time[0] += 1.0
            read(100_000)
    assert out.getvalue().splitlines() == [
        "judging: 1 of 3 MB", "judging: 2 of 3 MB", "replaying the nodes: 1 of 5 MB",
    ]  # fmt: skip


def test_the_panel_shows_a_step_with_a_bar(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out, time = io.StringIO(), [0.0]
    console = Console(file=out, width=80, force_terminal=True, color_system=None)
    with Panel(console) as panel:
        read = Steps(panel, clock=lambda: time[0]).replaying(folder)
        time[0] = 1.0
        read(2_500_000)
        panel._live.refresh()
    assert re.search(r"replaying the nodes: 2 of 5 MB +━{20}(?!━)", out.getvalue())


def test_a_report_tells_the_bytes_that_it_reads(folder: Path) -> None:
    """The lines are read twice: for the tables and charts, and for the messages."""
    (folder / "ops.jsonl").write_bytes(b"?\n")
    (folder / "trace" / "node-1-1.jsonl").write_bytes((b"?" * 999 + b"\n") * 3000)
    (folder / "record" / "node-1-1.bin").write_bytes(b"")
    out, time = io.StringIO(), count()
    steps = Steps(Lines(Console(file=out), clock=lambda: next(time)), clock=lambda: next(time))
    read_run_data(folder, steps=steps)
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("reading the traces: 0 of 3 MB")
    assert [line for line in lines if line == "reading the traces: 3 of 3 MB"] == ["reading the traces: 3 of 3 MB"] * 2
