"""`zab up`, `zab client` and `zab inject`: an ensemble that is used and broken by hand with the commands of a user."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from zab_chaos.harness.cli.app import main
from zab_chaos.harness.live.address_file import AddressFile, running_ensembles
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.node.net import keys

pytestmark = [pytest.mark.processes, pytest.mark.toxiproxy]

PATIENCE = 120.0
PROMPT = b"node-1>"  # the space after it may be sent as a cursor movement


@dataclass
class Up:
    """A process of `zab up`."""

    process: subprocess.Popen[str]
    results: Path
    ensemble: AddressFile

    def say(self, *words: str) -> int:
        """Run a command on this ensemble and return its exit code."""
        return main([words[0], "--results", str(self.results), *words[1:]])


def end(up: Up) -> tuple[int, str]:
    """Press Ctrl-C. Return the exit code and the output. Check that no process is left."""
    family = psutil.Process(up.process.pid).children(recursive=True)
    up.process.send_signal(signal.SIGINT)
    said, _ = up.process.communicate(timeout=PATIENCE)
    assert wait_until(lambda: not [child for child in family if child.is_running()], PATIENCE)
    return up.process.returncode, said


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    process = subprocess.Popen(
        [sys.executable, "-m", "zab_chaos.harness", "up", "--results", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert wait_until(lambda: bool(running_ensembles(tmp_path)) or process.poll() is not None, PATIENCE)
        assert process.poll() is None, process.communicate()
        yield Up(process, tmp_path, running_ensembles(tmp_path)[0])
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=PATIENCE)


def test_an_ensemble_is_used_broken_healed_ended_and_judged(up: Up, capsys: pytest.CaptureFixture[str]) -> None:
    first = up.ensemble.nodes[1]
    assert up.say("client", first, "create", "/a", "hello") == 0
    assert up.say("client", "2", "get", "/a") == 0
    assert "hello\nversion 0" in capsys.readouterr().out
    assert up.say("client", "2", "set", "/a", "x", "--version", "7") == 1
    assert "failed, bad version" in capsys.readouterr().out
    assert up.say("client", "--json", "3", "multi", "create /a/b 1", "check /a --version 0") == 0
    assert '"outcome": "ok"' in capsys.readouterr().out

    assert up.say("inject", "crash", "target=node-1") == 0
    assert up.say("client", "--timeout", "2", first, "get", "/a") == 3
    assert "node 1 is down: the connection was refused" in capsys.readouterr().err
    assert up.say("client", "2", "create", "/while-one-is-down") == 0
    assert up.say("inject") == 0
    assert "active" in capsys.readouterr().out
    assert up.say("inject", "heal") == 0

    code, said = end(up)
    assert code == 0, said
    assert re.search(r"^PASS", said, re.MULTILINE), said
    assert "node 1 killed" in said
    assert f"zab client --results {up.results} {first} create /a hello" in said.replace("\n", "")
    assert f"connect       {','.join(up.ensemble.nodes.values())}\n" in said
    assert running_ensembles(up.results) == []
    assert main(["verify", "--quiet", up.ensemble.folder]) == 0
    assert not any(path.exists() for path in keys.files_in(Path(up.ensemble.folder) / "config"))


def test_mistakes_are_reported_before_anything_is_done(up: Up, capsys: pytest.CaptureFixture[str]) -> None:
    assert up.say("inject", "partition", "shape=isolat", "target=nobody", "for=x") == 4
    told = capsys.readouterr().err
    assert all(words in told for words in ("Did you mean isolate", "'nobody' is no target", "'x' is not a number"))
    assert up.say("client", "9", "ls", "/") == 4
    assert "there is no node 9; the nodes are 1, 2, 3" in capsys.readouterr().err
    assert up.say("client", "127.0.0.1:9", "ls", "/") == 4
    assert up.ensemble.nodes[2] in capsys.readouterr().err
    assert up.say("client", "1", "lss", "/") == 4
    assert "Did you mean ls" in capsys.readouterr().err


class Terminal:
    """A terminal in which a child process runs. Output is read in order; input is typed after the expected output."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._seen = b""

    def until(self, words: bytes) -> None:
        """Read the output up to these words."""
        end = time.monotonic() + PATIENCE
        while words not in self._seen:
            readable, _, _ = select.select([self._descriptor], [], [], max(0.0, end - time.monotonic()))
            assert readable, f"{words!r} did not come; seen: {self._seen!r}"
            shown = os.read(self._descriptor, 65536)
            for _ in range(shown.count(b"\x1b[6n")):  # a request for the position of the cursor, which terminals answer
                os.write(self._descriptor, b"\x1b[1;1R")
            self._seen += shown
        self._seen = self._seen.partition(words)[2]

    def type(self, keys: bytes) -> None:
        os.write(self._descriptor, keys)


def test_the_shell_has_completion_answers_and_history(up: Up, tmp_path: Path) -> None:
    """In a real terminal: typed text, the tab key, and Ctrl-D, which has an effect only at a prompt."""
    child, descriptor = pty.fork()
    if child == 0:  # pragma: no cover
        os.environ |= {"HOME": str(tmp_path), "TERM": "xterm"}
        words = ["-m", "zab_chaos.harness", "client", "--results", str(up.results), "1"]
        os.execv(sys.executable, [sys.executable, *words])
    try:
        terminal = Terminal(descriptor)
        terminal.until(PROMPT)
        for keys, shown in (
            (b"create /apple red\r", b"/apple version 0"),
            (b"get /app\t", b"le"),
            (b"\r", b"version 0, zxid"),
            (b"nonsense\r", b"there is no request"),
        ):
            terminal.type(keys)
            terminal.until(shown)
            if keys.endswith(b"\r"):
                terminal.until(PROMPT)
        terminal.type(b"\x04")
        ended: list[int] = []

        def gone() -> bool:
            pid, status = os.waitpid(child, os.WNOHANG)
            ended.extend([os.waitstatus_to_exitcode(status)] if pid else [])
            return bool(pid)

        assert wait_until(gone, PATIENCE)
        assert ended == [0]
        child = 0
        assert "get /apple" in (tmp_path / ".zab_history").read_text()
    finally:
        os.close(descriptor)
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
