import io

import pytest
from rich.console import Console

from zab_chaos.harness.report.progress import Lines, Panel, Quiet, RunStatus, display


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
