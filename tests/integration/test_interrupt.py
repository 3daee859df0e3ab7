"""Ctrl-C, SIGTERM and SIGHUP: the effect of the first and of the second signal, in one process and on a whole command."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import psutil
import pytest

from zab_chaos.harness.explore.workers import LocalWorkers, in_order
from zab_chaos.harness.machine import interrupt as interrupts
from zab_chaos.harness.machine.interrupt import SIGNALS, Forced, Interrupt, Stopped, deferred_signals, stoppable
from zab_chaos.harness.machine.waiting import wait_until

ROOT = Path(__file__).parents[2]
WAIT_SECONDS_MAX = 60.0  # generous, for a busy machine


@pytest.fixture(autouse=True)
def hung_up() -> Iterator[None]:
    """Restore SIGHUP: if the tests run under nohup(1), it is ignored, and our commands would respect that."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def any_time_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count a signal that comes again as a second one, however soon it comes."""
    monkeypatch.setattr(interrupts, "SAME_SECONDS", 0.0)


@pytest.mark.usefixtures("any_time_later")
@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_asks_and_the_second_forces(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interrupt() as interrupt:
        assert not interrupt.requested.is_set()
        signal.raise_signal(number)
        assert interrupt.requested.is_set()
        assert not interrupt.forced
        with pytest.raises(Forced):
            signal.raise_signal(number)
        assert interrupt.forced
    assert signal.getsignal(number) is before


@pytest.mark.usefixtures("any_time_later")
@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_stops_and_the_second_forces(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stoppable():
        with pytest.raises(Stopped):
            signal.raise_signal(number)
        with pytest.raises(Forced):
            signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_the_second_signal_forces_also_after_the_block_that_was_asked() -> None:
    with stoppable():
        with Interrupt() as interrupt:
            signal.raise_signal(signal.SIGINT)
        assert interrupt.requested.is_set()
        with pytest.raises(Forced):
            signal.raise_signal(signal.SIGTERM)


def test_a_signal_that_is_sent_twice_at_once_is_one_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """timeout(1) sends SIGTERM to the command, and to its own process group, in which the command is."""
    monkeypatch.setattr(interrupts, "SAME_SECONDS", WAIT_SECONDS_MAX)
    with stoppable():
        with Interrupt() as interrupt:
            for _ in range(2):
                signal.raise_signal(signal.SIGTERM)
            assert interrupt.requested.is_set()
            assert not interrupt.forced
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Forced):
            signal.raise_signal(signal.SIGINT)


def test_a_block_that_was_asked_and_still_waits_is_stopped() -> None:
    before = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[1]
    with Interrupt(grace=0.01) as interrupt:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(Stopped):
            time.sleep(WAIT_SECONDS_MAX)
        assert not interrupt.forced
    assert (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[1]) == before


def test_a_block_may_be_stopped_only_at_its_end() -> None:
    with Interrupt(grace=0.01):
        with Interrupt.deferred_grace():
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.05)
        with pytest.raises(Stopped):
            time.sleep(WAIT_SECONDS_MAX)


def test_nothing_is_stopped_after_the_second_signal() -> None:
    """Killing the processes may take longer than the grace period."""
    before = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[1]
    with Interrupt(grace=WAIT_SECONDS_MAX) as interrupt:
        signal.raise_signal(signal.SIGINT)
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        with pytest.raises(Forced):
            signal.raise_signal(signal.SIGTERM)
        assert interrupt.forced
        assert (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[1]) == before


def test_without_a_signal_nothing_is_stopped() -> None:
    with Interrupt(grace=0.001) as interrupt:
        interrupt.restart_grace()
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0 or signal.getitimer(signal.ITIMER_REAL)[0] > 1


def test_a_signal_that_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stoppable(), Interrupt() as interrupt:
            signal.raise_signal(signal.SIGHUP)
            assert not interrupt.requested.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)


# ---- whole commands ----


class Command:
    """A running `zab` command with these arguments."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "zab_chaos.harness", *words], cwd=ROOT, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def workers(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number: signal.Signals) -> tuple[int, str, str]:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=WAIT_SECONDS_MAX)
        return self.process.returncode, out, err


@pytest.fixture
def zab() -> Iterator[Callable[..., Command]]:
    begun: list[Command] = []

    def begin(*words: str) -> Command:
        begun.append(Command(*words))
        return begun[-1]

    yield begin
    for one in begun:
        one.process.kill()
        one.process.communicate()


def test_a_signal_waits_while_it_is_held_back() -> None:
    seen = []

    def interrupted() -> None:
        with stoppable():
            with deferred_signals():
                os.kill(os.getpid(), signal.SIGTERM)
                seen.append("through")
            seen.append("never")

    with pytest.raises(Stopped):
        interrupted()
    assert seen == ["through"]


LONG = '[scenario]\nname = "long"\nabout = "So long that nobody waits for it."\nduration = 40000\n'


@pytest.fixture
def exploring(zab: Callable[..., Command], tmp_path: Path) -> Command:
    """An exploration with two workers, whose seeds take so long that none of them ends."""
    (tmp_path / "long.toml").write_text(LONG)
    words = ["explore", str(tmp_path / "long.toml"), "--seeds", "1..9", "--jobs", "2", "--results", str(tmp_path / "r")]
    command = zab(*words)
    assert wait_until(lambda: len(command.workers()) == 2, WAIT_SECONDS_MAX)
    return command


@pytest.mark.parametrize("number", SIGNALS)
def test_an_exploration_ends_without_waiting_for_its_seeds(exploring: Command, number: signal.Signals) -> None:
    workers = exploring.workers()
    code, out, err = exploring.end(number)
    assert (code, err) == (2, "")
    assert "0/9 seeds" in out
    assert "interrupted" in out
    assert psutil.wait_procs(workers, WAIT_SECONDS_MAX)[1] == []


def test_workers_die_with_an_exploration_that_is_killed(exploring: Command) -> None:
    workers = exploring.workers()
    exploring.process.kill()
    assert psutil.wait_procs(workers, WAIT_SECONDS_MAX)[1] == []


def test_with_one_job_the_current_seed_is_dropped(zab: Callable[..., Command], tmp_path: Path) -> None:
    (tmp_path / "long.toml").write_text(LONG)
    command = zab("explore", str(tmp_path / "long.toml"), "--jobs", "1", "--results", str(tmp_path / "r"))
    assert wait_until(lambda: psutil.Process(command.process.pid).cpu_times().user > 2, WAIT_SECONDS_MAX)
    code, out, err = command.end(signal.SIGINT)
    assert (code, err) == (2, "")
    assert "0/100 seeds" in out


def test_an_exploration_of_real_nodes_ends_during_the_current_run(zab: Callable[..., Command], tmp_path: Path) -> None:
    (tmp_path / "long.toml").write_text(LONG)
    results = tmp_path / "r"
    command = zab("explore", str(tmp_path / "long.toml"), "--on", "processes", "--results", str(results))

    def loaded() -> bool:
        return any("workload-started" in path.read_text() for path in results.glob("long/2*/harness.jsonl"))

    assert wait_until(loaded, WAIT_SECONDS_MAX)
    nodes = command.workers()
    code, out, err = command.end(signal.SIGINT)
    assert (code, err) == (2, "")
    assert "0/100 seeds" in out
    assert "interrupted; the last run is" in out
    assert psutil.wait_procs(nodes, WAIT_SECONDS_MAX)[1] == []


@pytest.mark.parametrize("number", SIGNALS)
def test_runs_at_the_same_time_end_in_order(
    zab: Callable[..., Command], tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "long.toml").write_text(LONG)
    results = tmp_path / "r"
    words = ["--on", "processes", "--jobs", "2", "--results", str(results)]
    command = zab("explore", str(tmp_path / "long.toml"), *words)

    def loaded() -> int:
        return sum("workload-started" in path.read_text() for path in results.glob("long/2*/harness.jsonl"))

    assert wait_until(lambda: loaded() == 2, WAIT_SECONDS_MAX)
    started = psutil.Process(command.process.pid).children(recursive=True)
    code, out, err = command.end(number)
    assert (code, err) == (2, "")
    assert "0/100 seeds" in out
    assert psutil.wait_procs(started, WAIT_SECONDS_MAX)[1] == []
    outcomes = [json.loads(path.read_text())["outcome"] for path in results.glob("long/2*/run.json")]
    assert outcomes == ["interrupted", "interrupted"]


@pytest.mark.parametrize("module", ["difflib", "typer"])
def test_an_interrupt_during_the_imports_is_one_line_and_no_traceback(module: str, tmp_path: Path) -> None:
    """The import of `difflib` is among the first ones, that of `typer` takes longest; a fake module sends the signal here."""
    # Shells start background jobs with SIGINT ignored, which processes pass on.
    handler = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    (tmp_path / f"{module}.py").write_text(f"import os, signal\n{handler}\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = subprocess.run(
        [sys.executable, "-m", "zab_chaos.harness", "doctor"], cwd=ROOT, text=True, capture_output=True,
        timeout=WAIT_SECONDS_MAX, env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "Error: interrupted\n")


def test_ctrl_c_while_python_exits_shows_no_traceback() -> None:
    code = (
        "import atexit, signal, sys; atexit.register(signal.raise_signal, signal.SIGINT); "
        "from zab_chaos.harness.cli.entry import main; sys.argv = ['zab', '--version']; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {code}"],
        cwd=ROOT, text=True, capture_output=True, timeout=WAIT_SECONDS_MAX,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_python_ends_without_looking_for_garbage() -> None:
    code = (
        "import gc, sys; from zab_chaos.harness.cli.entry import main; sys.argv = ['zab', '--version']; main(); "
        "sys.exit(gc.get_freeze_count() == 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True).returncode == 0


def test_a_closed_terminal_is_not_an_error(tmp_path: Path) -> None:
    """A terminal that closes sends SIGHUP to the command in its foreground, and later output of the command fails."""
    (tmp_path / "long.toml").write_text(LONG)
    leader, follower = os.openpty()
    code = (
        "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(1, termios.TIOCSCTTY, 0); "
        "from zab_chaos.harness.cli.entry import main; place = sys.argv.pop(1); sys.argv.pop(0); code = main(); "
        "open(place, 'w').write(str(int(code)))"
    )
    words = ["zab", "run", str(tmp_path / "long.toml"), "--on", "sim", "--results", str(tmp_path / "r")]
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "code"), *words],
        cwd=ROOT, stdin=follower, stdout=follower, stderr=follower,
    )  # fmt: skip
    os.close(follower)
    try:
        assert wait_until(lambda: (tmp_path / "r" / "latest").exists(), WAIT_SECONDS_MAX)
        os.close(leader)
        process.wait(WAIT_SECONDS_MAX)
    finally:
        process.kill()
        process.wait()
    assert (tmp_path / "code").read_text() == "2"


def square(number: int) -> int:
    return number * number


def test_results_of_workers_are_in_order_and_the_workers_end() -> None:
    others = psutil.Process().children()
    with LocalWorkers(2) as workers:
        answers = workers.results(square, range(6))
        assert next(answers) == 0
        made = [one for one in psutil.Process().children() if one not in others]
        assert len(made) == 2
        assert list(answers) == [1, 4, 9, 16, 25]
    assert [one for one in made if one.is_running() and one.status() != psutil.STATUS_ZOMBIE] == []


def test_work_is_begun_while_an_earlier_item_takes_long() -> None:
    """At most two items are unfinished, and at most four wait for the result of the first one."""
    futures: list[Future[int]] = []
    ends = {1: [1], 2: [2], 3: [3, 0], 5: [5, 4]}  # by item: those that are done as soon as it is submitted

    def submit(item: int) -> Future[int]:
        futures.append(Future())
        assert sum(not one.done() for one in futures) <= 2
        for done in ends.get(item, ()):
            futures[done].set_result(done)
        return futures[-1]

    answers = in_order(submit, range(6), ahead=4, busy=2)
    assert [next(answers) for _ in range(4)] == [0, 1, 2, 3]
    assert len(futures) == 4
    assert list(answers) == [4, 5]


def ends_when_asked(folder: Path) -> None:
    """Work that ends in order once it is interrupted, and leaves a file to show it."""
    with Interrupt() as interrupt:
        (folder / "begun").touch()
        interrupt.requested.wait(WAIT_SECONDS_MAX)
    (folder / "ended").touch()


def waits_for(folder: Path) -> None:
    assert wait_until((folder / "begun").exists, WAIT_SECONDS_MAX)


@pytest.mark.parametrize("how", ["nobody wants more", "an error"])
def test_work_in_progress_ends_in_order_with_the_pool(tmp_path: Path, how: str) -> None:
    """Also while another worker has nothing to do, and ignores the signal."""
    with contextlib.suppress(KeyError), LocalWorkers(2, interrupts=True) as workers:
        answers = workers.results(_do, [(waits_for, tmp_path), (ends_when_asked, tmp_path)])
        assert next(answers) is None
        if how == "an error":
            raise KeyError
    assert (tmp_path / "ended").exists()


def _do(item: tuple[Callable[[Path], None], Path]) -> None:
    work, folder = item
    work(folder)


def never_ends(folder: Path) -> None:
    with Interrupt():
        (folder / "begun").touch()
        while True:
            signal.pause()


def test_work_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab_chaos.harness.explore.workers.END_SECONDS", 0.01)
    others = psutil.Process().children()
    with LocalWorkers(2, interrupts=True) as workers:
        assert next(workers.results(_do, [(waits_for, tmp_path), (never_ends, tmp_path)])) is None
        made = [one for one in psutil.Process().children() if one not in others]
        assert len(made) == 2
    assert [one for one in made if one.is_running() and one.status() != psutil.STATUS_ZOMBIE] == []
