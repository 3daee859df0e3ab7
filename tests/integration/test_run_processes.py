"""Whole runs on real processes, started with the command line as a user does."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.node.net import keys

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.processes, pytest.mark.toxiproxy]

STEADY = """
[scenario]
name = "steady"
about = "Three seconds of load."
nodes = 3
duration = 3
[workload]
rate = 100
keys = 8
"""

LONG = STEADY.replace("duration = 3", "duration = 600")

CRASH = (
    STEADY
    + """
[[fault]]
at = 0.5
do = "crash"
target = "leader"
for = 1
[[fault]]
at = 2
do = "pause"
target = "follower"
for = 0.5
"""
)


class Zab:
    """A process of `zab run` with a scenario."""

    def __init__(self, folder: Path, scenario: str, *options: str) -> None:
        self.results = folder / "results"
        file = folder / "scenario.toml"
        file.write_text(scenario)
        command = [
            sys.executable,
            "-m",
            "zab_chaos.harness",
            "run",
            str(file),
            "--results",
            str(self.results),
            *options,
        ]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def wait(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=150)
        return self.process.returncode, out, err

    @property
    def folder(self) -> Path:
        return (self.results / "latest").resolve()

    def file(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text())

    def lines(self, name: str) -> list[dict[str, Any]]:
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def reached(self, event: str) -> bool:
        """Return True if the run has reached this milestone; fail if it has ended before."""
        assert self.process.poll() is None, self.process.communicate()
        return any(line["event"] == event for line in self.lines("harness.jsonl"))

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


@pytest.fixture
def zab(tmp_path: Path) -> Iterator[Callable[..., Zab]]:
    """Return a function that starts runs. No run and none of its processes outlives the test."""
    started: list[Zab] = []

    def start(scenario: str, *options: str) -> Zab:
        started.append(Zab(tmp_path, scenario, *options))
        return started[-1]

    yield start
    for run in started:
        if run.process.poll() is None:
            run.process.kill()
        run.process.communicate()


def test_a_run_whose_toxiproxy_ends_is_no_violation(zab: Callable[..., Zab]) -> None:
    """Without links the nodes write nothing, which is not their fault. The run does not wait for what can't be healed."""
    run = zab(LONG + '[[fault]]\nat = 0.1\ndo = "partition"\ntarget = "leader"\n')
    assert wait_until(lambda: run.results.exists() and any(run.lines("faults.jsonl")), 100)
    (toxiproxy,) = (child for child in run.children() if child.name().startswith("toxiproxy"))
    toxiproxy.kill()
    code, out, _ = run.wait()
    assert code == 3, out
    assert "toxiproxy ended during the run, and all links with it: exit code -9. Its log is " in out
    assert all("has ended" in str(line["evidence"]) for line in run.lines("faults.jsonl")[1:])


def test_a_run_whose_toxiproxy_hangs_is_no_violation(zab: Callable[..., Zab]) -> None:
    """It does not answer any more, which happens when it deadlocks. The run does not ask it for each of its links."""
    run = zab(LONG + '[[fault]]\nat = 0.1\ndo = "partition"\ntarget = "leader"\nfor = 1\n')
    assert wait_until(lambda: run.results.exists() and any(run.lines("faults.jsonl")), 100)
    (toxiproxy,) = (child for child in run.children() if child.name().startswith("toxiproxy"))
    toxiproxy.suspend()
    code, out, _ = run.wait()
    assert code == 3, out
    assert "toxiproxy hangs, so links can't be cut or healed any more; run the seed again. Its log is " in out


def test_a_steady_run_passes_and_leaves_only_its_results(zab: Callable[..., Zab]) -> None:
    run = zab(STEADY, "--seed", "7")
    assert wait_until(lambda: run.results.exists() and run.reached("workload-started"), 100)
    children = run.children()
    code, out, err = run.wait()
    assert (code, err) == (0, ""), out
    assert out.startswith("seed 7")
    assert out.rstrip().splitlines()[-1].endswith("scenario.toml --seed 7")
    assert len(children) == 4  # three nodes and toxiproxy
    assert not any(child.is_running() for child in children)
    facts, verdict = run.file("run.json"), run.file("verdict.json")
    assert facts["outcome"] == "finished"
    assert facts["versions"]["toxiproxy"]
    assert verdict["verdict"] == "PASS"
    assert verdict["metrics"]["writes_acked"] > 100
    events = [line["event"] for line in run.lines("harness.jsonl")]
    assert events == [
        "started", "established", "workload-started", "safety-ended", "workload-stopped", "converged", "stopped",
    ]  # fmt: skip
    assert not (run.folder / "data").exists()
    assert not any(path.exists() for path in keys.files_in(run.folder / "config"))
    assert sorted(path.name for path in (run.folder / "trace").iterdir()) == [f"node-{n}-1.jsonl" for n in (1, 2, 3)]
    last = [run.lines(f"trace/node-{n}-1.jsonl")[-1] for n in (1, 2, 3)]
    assert [(line["event"], line["why"]) for line in last] == [("exit", "SIGTERM")] * 3
    made = [run.folder, *run.folder.rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {0o700}
    others = [path for path in made if path.is_file() and path.parent.name != "config"]
    assert {path.stat().st_mode & 0o777 for path in others} == {0o600}


def test_faults_are_injected_healed_and_recorded_and_the_output_is_json(zab: Callable[..., Zab]) -> None:
    run = zab(CRASH, "--json", "--keep-data")
    code, out, _ = run.wait()
    assert code == 0, out
    answer = json.loads(out)
    assert answer["verdict"] == "PASS"
    assert answer["folder"] == str(run.folder)
    lines = run.lines("faults.jsonl")
    assert [(line["type"], line["id"]) for line in lines] == [("inject", 1), ("heal", 1), ("inject", 2), ("heal", 2)]
    assert all(line["confirmed"] for line in lines)
    killed = lines[0]["nodes"][0]
    assert (run.folder / "trace" / f"node-{killed}-2.jsonl").exists()
    assert len(list((run.folder / "data").iterdir())) == 3
    # judged again, the stored run gets the same verdict
    again = subprocess.run(
        [sys.executable, "-m", "zab_chaos.harness", "verify", str(run.folder), "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert again.returncode == 0
    assert json.loads(again.stdout)["runs"][0]["properties"] == answer["properties"]


def test_all_processes_end_with_a_killed_harness_even_a_paused_node(zab: Callable[..., Zab]) -> None:
    run = zab(LONG + '[[fault]]\nat = 0.1\ndo = "pause"\ntarget = "follower"\n')
    assert wait_until(lambda: bool(run.results.exists() and run.lines("faults.jsonl")), 100)
    children = run.children()
    assert len(children) == 4  # three nodes and toxiproxy
    assert any(child.status() == psutil.STATUS_STOPPED for child in children)
    run.process.kill()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []


def test_a_node_that_ends_unexpectedly_is_recorded_and_the_run_goes_on(zab: Callable[..., Zab]) -> None:
    run = zab(STEADY)
    assert wait_until(lambda: run.results.exists() and run.reached("workload-started"), 100)
    (victim,) = [child for child in run.children() if any("node-2.json" in word for word in child.cmdline())]
    victim.kill()
    _, out, err = run.wait()
    assert err == ""
    assert "node-2 was killed by SIGKILL" in out
    (ended,) = [line for line in run.lines("harness.jsonl") if line["event"] == "ended"]
    assert (ended["node"], ended["life"], ended["code"], ended["armed"]) == (2, 1, -signal.SIGKILL, False)
    assert any(line["event"] == "converged" for line in run.lines("harness.jsonl"))  # it was started again at the end


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_its_results_and_is_unknown(zab: Callable[..., Zab], number: signal.Signals) -> None:
    run = zab(LONG)
    assert wait_until(lambda: run.results.exists() and run.reached("workload-started"), 100)
    children = run.children()
    run.process.send_signal(number)
    code, out, err = run.wait()
    assert (code, err) == (2, ""), out
    assert "interrupted" in out
    assert run.file("run.json")["outcome"] == "interrupted"
    assert run.file("verdict.json")["verdict"] == "UNKNOWN"
    assert run.lines("ops.jsonl")
    assert (run.folder / "data").exists()
    assert not any(child.is_running() for child in children)


def test_a_second_interrupt_ends_the_run_at_once(zab: Callable[..., Zab]) -> None:
    run = zab(LONG + '[[fault]]\nat = 0.1\ndo = "slow-disk"\ntarget = "all"\nms = 9000\n')
    assert wait_until(lambda: bool(run.results.exists() and run.lines("faults.jsonl")), 100)
    children = run.children()
    # Both come at once when it goes on: two seconds after the first signal the run would be over. A second SIGINT would
    # count as the same signal.
    for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
        run.process.send_signal(number)
    code, _, err = run.wait()
    assert code == 130, err
    assert "Traceback" not in err
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []
    assert run.file("run.json")["outcome"] == "interrupted"


def test_without_toxiproxy_the_run_fails_with_what_to_do(
    zab: Callable[..., Zab], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZAB_TOXIPROXY", "/nowhere/toxiproxy-server")
    code, out, err = zab(STEADY).wait()
    assert code == 3
    assert "ZAB_TOXIPROXY" in out
    assert "Traceback" not in out + err
