"""The stepper of `zab replay` in a real terminal. The tests read the screen that a person would see."""

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyte
import pytest

from tests.unit.harness.report.test_steps import run
from zab_chaos.harness.cli.app import main

__all__ = ["run"]  # the same simulated run
ROWS, COLUMNS = 40, 110
PATIENCE = 30.0
RIGHT, LEFT, END, HOME, PAGE_DOWN = b"\x1b[C", b"\x1b[D", b"\x1b[F", b"\x1b[H", b"\x1b[6~"


class Screen:
    """A terminal in which a command runs."""

    def __init__(self, words: list[str], columns: int = COLUMNS) -> None:
        self.child, self._descriptor = pty.fork()
        if self.child == 0:  # pragma: no cover
            os.environ["TERM"] = "xterm-256color"
            os.execv(sys.executable, [sys.executable, "-m", "zab_chaos.harness", *words])
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
        self._screen = pyte.Screen(columns, ROWS)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self._screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def until(self, shown: Callable[["Screen"], object]) -> None:
        """Read the command's output until `shown` returns True."""
        end = time.monotonic() + PATIENCE
        while not shown(self):
            readable, _, _ = select.select([self._descriptor], [], [], max(0.0, end - time.monotonic()))
            assert readable, f"it did not come; on the screen is\n{self.text}"
            seen = os.read(self._descriptor, 65536)
            for _ in range(seen.count(b"\x1b[6n")):  # a request for the position of the cursor, which terminals answer
                os.write(self._descriptor, b"\x1b[1;1R")
            self._stream.feed(seen)

    def at(self, step: int) -> None:
        self.until(lambda screen: screen.step == step)

    @property
    def step(self) -> int:
        found = re.search(r"step ([\d,]+) of", self.lines[0])
        return int(found[1].replace(",", "")) if found else 0

    def type(self, keys: bytes) -> None:
        os.write(self._descriptor, keys)

    def close(self) -> int:
        """Quit the stepper and return the exit code."""
        self.type(b"q")
        try:
            while os.read(self._descriptor, 65536):
                pass
        except OSError:
            pass  # the terminal's other end is closed
        os.close(self._descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])


@pytest.fixture
def screen(run: Path) -> Iterator[Screen]:
    screen = Screen(["replay", str(run)])
    screen.at(1)
    yield screen
    assert screen.close() == 0


def test_a_step_forward_and_back_shows_the_same(screen: Screen) -> None:
    screen.until(lambda screen: "q: quit" in screen.text)  # the keys are drawn last
    assert "small  PASS" in screen.lines[0]
    assert all(f"node {node}" in screen.text for node in (1, 2, 3))
    assert "f.p (accepted epoch)" in screen.text
    first = screen.text
    screen.type(RIGHT)
    screen.at(2)
    screen.type(b" " + PAGE_DOWN)
    screen.at(103)
    screen.type(LEFT)
    screen.at(102)
    screen.type(HOME)
    screen.at(1)
    screen.until(lambda screen: screen.text == first)
    screen.type(END)
    screen.until(lambda screen: "the process ends here" in screen.lines[1])
    last = screen.step
    screen.type(RIGHT + b"m")
    screen.until(lambda screen: "there is no later step with a message" in screen.text)
    assert screen.step == last


def test_a_narrow_terminal_shows_all_keys(run: Path) -> None:
    screen = Screen(["replay", str(run)], columns=60)
    screen.until(lambda screen: "q: quit" in screen.text)
    assert "1 of 3 nodes" in screen.text or "2 of 3 nodes" in screen.text
    assert screen.close() == 0


def test_keys_go_to_messages_and_events_and_changes_are_marked(screen: Screen) -> None:
    screen.type(b"2")
    screen.until(lambda screen: re.match(r"node 2 \(life 1\)  from \d: VOTE", screen.lines[1]))
    screen.until(lambda screen: "node 2 *" in screen.text and re.search(r"role .*\* FOLLOWING in DISC", screen.text))
    screen.type(b"gPROPOSE\r")
    screen.until(lambda screen: ": PROPOSE e=1 1:1" in screen.lines[1])
    screen.until(lambda screen: re.search(r"history .*\* 0:0 1:\d+; \d+ transactions", screen.text))
    found = screen.step
    screen.type(b"n")
    screen.until(lambda screen: screen.step > found and "PROPOSE" in screen.lines[1])
    screen.type(b"N")
    screen.at(found)
    screen.type(b"gtrace/node-1-1.jsonl:1\r")
    screen.until(lambda screen: "node 1 boots its life 1" in screen.lines[1])
    screen.type(b"e")
    screen.until(lambda screen: any(re.match(r"  \d+: node \d", line) for line in screen.lines[2:6]))
    screen.type(b"g1:3\r")
    screen.until(lambda screen: re.search(r"PROPOSE e=1 1:[123]", screen.lines[1]))
    screen.type(b"g9.9\r")
    screen.until(lambda screen: "there is no later step with the words '9.9'" in screen.text)
    screen.type(b"g0.35 s\r")
    screen.until(lambda screen: re.search(r" 0\.3[5-9]\d+ s", screen.lines[0]))
    screen.until(lambda screen: re.search(r"role .*down", screen.text))  # the leader, which crashed at 0.3 s


@pytest.mark.parametrize("place", [b"9" * 4400, b"9" * 400 + b" s", b"1:" + b"9" * 4400])
def test_a_number_that_cannot_be_parsed_is_no_step(screen: Screen, place: bytes) -> None:
    screen.type(b"g" + place + b"\r")
    screen.until(lambda screen: "there is no such step: the text has more than 100 characters" in screen.text)
    assert screen.step == 1


def test_without_a_terminal_or_with_a_node_the_comparison_is_printed(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(run)]) == 0
    assert capsys.readouterr().out.rstrip().endswith("EQUAL")
    screen = Screen(["replay", str(run), "--no-step"])
    screen.until(lambda screen: "EQUAL" in screen.lines)
    assert screen.close() == 0
    assert main(["replay", str(run), "--step", "--node", "1", "--until", "x"]) == 4
    told = capsys.readouterr().err
    assert "--step shows all nodes" in told


def test_without_the_extra_of_the_stepper_a_terminal_is_told_what_is_missing(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [one for one in sys.modules if one.startswith(("prompt_toolkit", "zab_chaos.harness.cli.stepper"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    monkeypatch.setattr("zab_chaos.harness.cli.replay._on_terminal", lambda: True)
    assert main(["replay", str(run)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "needs prompt_toolkit, which is not installed: pip install 'zab-chaos[shell]'" in told
    assert told.endswith("EQUAL")
    assert main(["replay", str(run), "--step"]) == 4
    assert "pip install 'zab-chaos[shell]'" in capsys.readouterr().err
