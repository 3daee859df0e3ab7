"""The end of a Spark session: of one whose JVM has ended, and by an interrupt."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from zab_chaos.harness.machine.interrupt import Stopped
from zab_chaos.pipeline.session import session


class Gone:
    """A session that worked once, and whose JVM has been killed since."""

    sparkContext = SimpleNamespace(setLogLevel=lambda level: None, defaultParallelism=2)  # noqa: N815 - Spark's name
    conf = SimpleNamespace(set=lambda key, value: None)

    def stop(self) -> None:
        raise ConnectionRefusedError(111, "Connection refused")


@pytest.fixture(autouse=True)
def gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda _: Gone())


@pytest.fixture(autouse=True)
def children(monkeypatch: pytest.MonkeyPatch) -> list[psutil.Process]:
    """Replace this process's children, among which an interrupt looks for the JVM."""
    processes: list[psutil.Process] = []
    monkeypatch.setattr(psutil.Process, "children", lambda *_, **__: processes)
    return processes


def asked(error: BaseException | None) -> Any:
    with session():
        if error is not None:
            raise error


def test_an_interrupt_stays_an_interrupt() -> None:
    with pytest.raises(Stopped):
        asked(Stopped())


def test_a_failed_stop_is_an_error_only_if_there_was_no_other() -> None:
    with pytest.raises(ConnectionRefusedError):
        asked(None)
    with pytest.raises(ValueError, match="the question"):
        asked(ValueError("the question"))


def test_an_interrupt_kills_the_jvm_also_if_another_child_ends_at_the_same_moment(
    children: list[psutil.Process],
) -> None:
    jvm = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)", "spark"])
    gone = subprocess.Popen([sys.executable, "-c", ""])
    children += [psutil.Process(gone.pid), psutil.Process(jvm.pid)]
    try:
        while children[0].status() != psutil.STATUS_ZOMBIE:  # nobody has waited for it
            pass
        with pytest.raises(Stopped):
            asked(Stopped())
        assert not psutil.pid_exists(jvm.pid)
    finally:
        jvm.kill()
        jvm.wait()
        gone.wait()


def test_an_error_does_not_kill_the_jvm(children: list[psutil.Process]) -> None:
    jvm = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)", "spark"])
    children.append(psutil.Process(jvm.pid))
    try:
        with pytest.raises(ValueError, match="the question"):
            asked(ValueError("the question"))
        assert jvm.poll() is None
    finally:
        jvm.kill()
        jvm.wait()


def test_ctrl_c_is_handled_by_the_command_and_not_by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: object) -> Gone:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Spark, too, installs a handler
        return Gone()

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", start)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ConnectionRefusedError), session():
        assert signal.getsignal(signal.SIGINT) is before


def test_what_a_stop_after_an_interrupt_prints_is_only_in_the_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also where the first stop fails and leaves Spark's thread for accumulators to the second."""
    stops = iter([ConnectionRefusedError(111, "Connection refused"), None])

    def stop(_: Gone) -> None:
        if error := next(stops):
            raise error
        os.write(2, b"EOFError\n")

    monkeypatch.setattr(Gone, "stop", stop)
    with pytest.raises(Stopped), session(log=tmp_path / "log"):
        raise Stopped
    assert capfd.readouterr().err == ""
    assert (tmp_path / "log").read_text() == "EOFError\n"
