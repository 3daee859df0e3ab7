"""The ends of lives as the cluster and the monitor tell them. A small script takes the place of the node."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zab_chaos.faults.cluster import ClusterError, Status
from zab_chaos.harness.backends.processes import process_cluster
from zab_chaos.harness.backends.processes.life import Life, ProcessLife
from zab_chaos.harness.backends.processes.monitor import RunMonitor
from zab_chaos.harness.backends.processes.process_cluster import ProcessCluster
from zab_chaos.harness.report.progress import Quiet
from zab_chaos.harness.results.run_folder import RunFolder

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
ENDS = "print(flush=True); input(); raise SystemExit(3)"


class Scripts(ProcessCluster):
    """One node, whose process runs `script`. Node 2 is not started at first."""

    answers = True

    def __init__(self, folder: Path, script: str) -> None:
        super().__init__(RunFolder(folder), [1, 2], faithful=False)
        self.script = script

    def status(self, node: int, timeout: float = 2.0) -> Status | None:
        return Status(node=node, life=1, role="") if self.answers else None

    def control(self, node: int, command: str, **arguments: Any) -> dict[str, Any]:
        return {}

    def _start_life(self, node: int, number: int, crash_at: str | None, log: Path) -> Life:
        process = subprocess.Popen(
            [sys.executable, "-c", self.script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert process.stdout is not None
        with process.stdout:
            process.stdout.readline()
        return ProcessLife(node, number, process, log, crash_at)

    def end_by_itself(self, status: int) -> None:
        """End the process with exit status 3, or by SIGKILL."""
        life = self._lives[1]
        assert isinstance(life, ProcessLife)
        if status == 3:
            assert life.process.stdin is not None
            life.process.stdin.write(b"\n")
        else:
            life.process.kill()
        assert life.wait(10) == status


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Callable[..., Scripts]]:
    made: list[Scripts] = []

    def start(script: str = ENDS, crash_at: str | None = None) -> Scripts:
        made.append(Scripts(tmp_path, script))
        made[-1].start(1, crash_at)
        return made[-1]

    yield start
    for one in made:
        one.close(ask=False)


@pytest.mark.parametrize(
    ("crash_at", "status", "armed"),
    [(None, -9, False), ("after-sync:TXN", -9, True), ("after-sync:TXN", 3, False)],
)
def test_an_end_by_itself_is_told_once(
    cluster: Callable[..., Scripts], crash_at: str | None, status: int, armed: bool
) -> None:
    it = cluster(crash_at=crash_at)
    it.end_by_itself(status)
    assert [(end.life, end.code, end.armed) for end in it.take_unexpected_ends()] == [(1, status, armed)]
    assert it.take_unexpected_ends() == []


def test_an_end_by_a_fault_is_not_unexpected(cluster: Callable[..., Scripts]) -> None:
    it = cluster()
    assert it.kill(1) == -signal.SIGKILL
    assert it.take_unexpected_ends() == []


def test_an_end_that_was_not_told_before_the_next_life_is_told_after_it(cluster: Callable[..., Scripts]) -> None:
    it = cluster()
    it.end_by_itself(3)
    it.start(1)
    it.end_by_itself(-9)
    assert [(end.life, end.code) for end in it.take_unexpected_ends()] == [(1, 3), (2, -9)]


def test_what_cannot_be_done_to_a_node_is_refused(cluster: Callable[..., Scripts]) -> None:
    it = cluster()
    with pytest.raises(ClusterError, match=f"node 1 is to be started but is up .pid {it.pid(1)}."):
        it.start(1)
    with pytest.raises(ClusterError, match="node 1 is up; its disk can be wiped when it is down"):
        it.wipe(1)
    with pytest.raises(ClusterError, match="node-2 cannot be killed: never started"):
        it.kill_all([1, 2])
    with pytest.raises(ClusterError, match="faithful"):
        it.cut_power([1])
    for do in (it.pause, it.resume, it.stop):
        with pytest.raises(ClusterError, match="node 2 is not up"):
            do(2)
    assert it.alive(1)


def test_all_nodes_are_killed_before_one_is_waited_for(
    cluster: Callable[..., Scripts], monkeypatch: pytest.MonkeyPatch
) -> None:
    it = cluster()
    it.start(2)
    killed: list[int] = []
    send, wait = ProcessLife.signal, ProcessLife.wait

    def signal_noted(life: ProcessLife, number: signal.Signals) -> None:
        killed.append(life.node)
        send(life, number)

    def wait_for_last(life: ProcessLife, seconds: float) -> int | None:
        assert killed[:2] == [1, 2]
        return wait(life, seconds)

    monkeypatch.setattr(ProcessLife, "signal", signal_noted)
    monkeypatch.setattr(ProcessLife, "wait", wait_for_last)
    assert it.kill_all([1, 2]) == {1: -signal.SIGKILL, 2: -signal.SIGKILL}


def test_a_wiped_disk_is_gone_and_may_be_gone_before(cluster: Callable[..., Scripts]) -> None:
    it = cluster()
    it.kill(1)
    disk = Path(it.disk_folder(1))
    disk.mkdir(parents=True)
    (disk / "log-00000001").touch()
    it.wipe(1)
    assert not disk.exists()
    it.wipe(1)


def test_pauses_and_exits_are_those_of_the_process(cluster: Callable[..., Scripts]) -> None:
    it = cluster()
    it.pause(1)
    assert (it.paused(1), it.alive(1), it.wait_exit(1, 0.0)) == (True, True, None)
    it.resume(1)
    assert not it.paused(1)
    it._lives[1].signal(signal.SIGKILL)
    assert it.wait_exit(1, 30.0) == -signal.SIGKILL
    assert (it.paused(1), it.alive(1), it.pid(1)) == (False, False, None)


def test_a_node_that_does_not_answer_in_time_is_an_error_with_the_end_of_its_log(
    cluster: Callable[..., Scripts], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Scripts, "answers", False)
    monkeypatch.setattr(Scripts, "start_seconds", 0.05)
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "node-1-1.log").write_text("".join(f"line {n}\n" for n in range(9)))
    with pytest.raises(ClusterError, match=r"node 1 does not answer.*\nline 4\nline 5\nline 6\nline 7\nline 8$"):
        cluster()


@pytest.mark.parametrize(("ask", "forced"), [(True, [1]), (False, [])])
def test_closing_names_the_nodes_that_did_not_end_when_they_were_asked_to(
    cluster: Callable[..., Scripts], monkeypatch: pytest.MonkeyPatch, ask: bool, forced: list[int]
) -> None:
    monkeypatch.setattr(process_cluster, "STOP_SECONDS", 0.1)
    assert cluster(STUBBORN).close(ask) == forced


class Seldom(Quiet):
    """A display that wants no look at the nodes before the end of the run."""

    period = 600.0


def test_the_monitor_looks_once_more_when_it_is_stopped(cluster: Callable[..., Scripts], tmp_path: Path) -> None:
    it = cluster()
    with RunMonitor(it, RunFolder(tmp_path), Seldom(), 9.0):
        it.end_by_itself(3)
    (line,) = RunFolder(tmp_path).lines("harness.jsonl")
    assert {"event": "ended", "node": 1, "life": 1, "code": 3, "armed": False}.items() <= line.items()
