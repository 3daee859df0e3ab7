"""Lives of real processes. A small script takes the place of the node."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.harness.backends.processes.life import (
    ProcessLife,
    environment,
    is_process_stopped,
    launch,
    node_command,
    spawn,
)
from zab_chaos.harness.machine.waiting import wait_until

OBEYS = "import os, sys; print('up', flush=True); sys.stdin.read(); os._exit(0)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)


@pytest.fixture
def lives() -> Iterator[list[ProcessLife]]:
    made: list[ProcessLife] = []
    yield made
    for life in made:
        life.kill()


def run(lives: list[ProcessLife], script: str, tmp_path: Path) -> ProcessLife:
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    lives.append(ProcessLife(1, 1, process, tmp_path / "log"))
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"up\n"
    return lives[-1]


def test_a_killed_process_is_gone_when_kill_returns(lives: list[ProcessLife], tmp_path: Path) -> None:
    life = run(lives, OBEYS, tmp_path)
    assert life.kill() == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(life.pid, 0)
    assert life.kill() == -signal.SIGKILL  # again is harmless


def test_pause_is_confirmed_by_the_kernel_and_a_paused_process_can_be_killed(
    lives: list[ProcessLife], tmp_path: Path
) -> None:
    life = run(lives, OBEYS, tmp_path)
    life.pause()
    assert life.stopped
    assert life.alive
    life.resume()
    assert not life.stopped
    life.pause()
    assert life.kill() == -signal.SIGKILL


HAS_CHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session={own_session})
print(child.pid, flush=True)
child.wait()
"""


def end_at_sigterm(life: ProcessLife) -> int:
    return life.end(10)


@pytest.mark.parametrize(
    ("end", "own_session"),
    [(ProcessLife.kill, False), (end_at_sigterm, False), (ProcessLife.kill, True), (end_at_sigterm, True)],
)
def test_what_a_node_has_started_is_paused_and_ends_with_it(
    lives: list[ProcessLife], tmp_path: Path, end: Callable[[ProcessLife], int], own_session: bool
) -> None:
    """Also with a script that does not `exec` the node, a node that forks to write a snapshot, or one like PostgreSQL, each of
    whose processes has a session of its own."""
    script = HAS_CHILD.format(own_session=own_session)
    process = launch(1, [sys.executable, "-c", script], tmp_path / "log", tmp_path, dict(os.environ))
    lives.append(life := ProcessLife(1, 1, process, tmp_path / "log"))
    assert wait_until(lambda: life.last_words() != "", 20)
    child = psutil.Process(int(life.last_words()))
    life.pause()
    assert is_process_stopped(child.pid)
    life.resume()
    assert wait_until(lambda: not is_process_stopped(child.pid), 20)
    assert end(life) < 0
    assert wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, 20)


GOES_TO_THE_BACKGROUND = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
"""


def test_what_a_node_leaves_when_it_ends_by_itself_is_killed(lives: list[ProcessLife], tmp_path: Path) -> None:
    """Otherwise it would keep the node's port and files, and outlive the run."""
    process = launch(1, [sys.executable, "-c", GOES_TO_THE_BACKGROUND], tmp_path / "log", tmp_path, dict(os.environ))
    lives.append(life := ProcessLife(1, 1, process, tmp_path / "log"))
    assert life.wait(20) == 0
    child = int(life.last_words())
    assert wait_until(
        lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE, 20
    )


def test_a_dead_process_cannot_be_paused(lives: list[ProcessLife], tmp_path: Path) -> None:
    life = run(lives, OBEYS, tmp_path)
    life.kill()
    with pytest.raises(ClusterError, match=f"pid {life.pid}"):
        life.pause()


def test_a_paused_process_ends_by_itself_when_asked(lives: list[ProcessLife], tmp_path: Path) -> None:
    life = run(lives, "import signal; signal.signal(signal.SIGTERM, lambda *a: None);" + OBEYS, tmp_path)
    life.pause()
    assert life.end(60) == 0
    assert not life.alive


def test_a_node_is_asked_to_end_before_its_stdin_closes(
    lives: list[ProcessLife], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = run(lives, STUBBORN, tmp_path)
    stdin = life.process.stdin
    assert stdin is not None
    open_when_asked: list[bool] = []
    monkeypatch.setattr(life, "signal", lambda number: open_when_asked.append(not stdin.closed))
    life.ask_to_end()
    assert open_when_asked == [True]
    assert stdin.closed
    monkeypatch.undo()


def test_a_process_that_does_not_end_is_killed(lives: list[ProcessLife], tmp_path: Path) -> None:
    assert run(lives, STUBBORN, tmp_path).end(0.05) == -signal.SIGKILL


def test_only_in_its_first_life_may_a_node_have_an_empty_disk() -> None:
    assert node_command("python", "c.json", 1, None)[1:] == [
        "-m", "zab_chaos.node", "--config", "c.json", "--life", "1", "--bootstrap",
    ]  # fmt: skip
    assert node_command("python", "c.json", 2, "after-sync:TXN")[5:] == ["--life", "2", "--crash-at", "after-sync:TXN"]


def test_nodes_are_not_spawned_from_another_thread(tmp_path: Path) -> None:
    caught: list[BaseException] = []

    def attempt() -> None:
        try:
            spawn(1, 1, tmp_path / "config" / "node-1.json", tmp_path / "log", None)
        except ClusterError as error:
            caught.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    assert "main thread" in str(caught[0])


def test_a_nodes_process_has_a_session_and_a_log_of_its_own(tmp_path: Path) -> None:
    """A closed terminal hangs up on its session, and only the harness shall end nodes."""
    log = tmp_path / "log"
    own = "import os; print(os.getsid(0) == os.getpid(), os.getcwd(), flush=True)"
    with launch(1, [sys.executable, "-c", own], log, tmp_path, environment()) as process:
        assert process.wait(30) == 0
    assert log.read_text() == f"True {tmp_path}\n"
    assert log.stat().st_mode & 0o077 == 0


def test_a_program_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="node 1 cannot be started: No such file or directory"):
        launch(1, [str(tmp_path / "none")], tmp_path / "log", tmp_path, environment())
