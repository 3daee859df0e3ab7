"""A real standalone cluster, a master and two workers as processes: what it finds equals what `local[2]` and `--jobs` find."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.corpus.build import CASES, write
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.machine.waiting import wait_until

pyspark = pytest.importorskip("pyspark")
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java"),
]
ROOT = Path(__file__).resolve().parents[2]
SOME = ("agreement-fork", "durability-*", "trace-unreadable-line", "epochs-*")
SHORT = """
[scenario]
name = "short"
about = "Everybody loses power once."
nodes = 3
duration = 1.2
[workload]
rate = 100
[[fault]]
at = 0.5
do = "power-cut"
target = "all"
for = 0.5
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A master and two workers with a core each, on free ports. Gives the environment in which `zab` reaches it, and its URL.

    The executors' Python knows the packages that are installed here, and none of ours: those it has to be sent.
    """
    home = tmp_path_factory.mktemp("cluster")
    python = home / "python"
    site = Path(str(pyspark.__file__)).parents[1]
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{site}" exec {sys.executable} -S "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    env = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(python),
        "SPARK_WORKER_DIR": str(home / "w"),
    }
    env |= {"PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1"}
    with ExitStack() as stack:

        def begin(name: str, *arguments: str, until: str) -> str:
            """Start a part of the cluster; the line of its log that says that it is there."""
            log = home / f"{name}.log"
            spark_class = Path(str(pyspark.__file__)).parent / "bin" / "spark-class"
            kind = f"org.apache.spark.deploy.{name.split('-')[0].lower()}.{name.split('-')[0]}"
            with log.open("wb") as file:
                process = subprocess.Popen(
                    [str(spark_class), kind, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments],
                    env=env, stdout=file, stderr=file, cwd=home,
                )  # fmt: skip
            stack.callback(_end, process)

            def said() -> bool:
                return process.poll() is not None or re.search(until, log.read_text()) is not None

            assert wait_until(said, 120), log.read_text()
            found = re.search(until, log.read_text())
            assert found is not None, log.read_text()
            return found[0]

        url = begin("Master", until=r"spark://127\.0\.0\.1:\d+")
        for number in (1, 2):
            begin(f"Worker-{number}", "--cores", "1", "--memory", "1g", url, until="Successfully registered")
        yield {**env, "URL": url}
    assert [
        child.name() for child in psutil.Process().children(recursive=True) if "spark.deploy" in _words(child)
    ] == []


def _end(process: subprocess.Popen[bytes]) -> None:
    """A part of the cluster, and the executors that it may have left."""
    everybody = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    for one in everybody:
        one.terminate()
    process.wait(30)
    psutil.wait_procs(everybody[:-1], 30)


def _words(process: psutil.Process) -> str:
    return " ".join(process.cmdline())


def zab(*arguments: str | Path, env: dict[str, str]) -> tuple[int, Any]:
    """`zab` with --json in a process of its own; its exit code and answer."""
    command = [sys.executable, "-m", "zab_chaos.harness", *map(str, arguments), "--json"]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=800, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def rounded(answer: Any) -> Any:
    """Without the last digits: in what order executors add up a mean is chance."""
    if isinstance(answer, dict):
        return {name: rounded(value) for name, value in answer.items()}
    if isinstance(answer, list):
        return [rounded(value) for value in answer]
    return float(f"{answer:.9g}") if isinstance(answer, float) else answer


def test_a_cluster_judges_as_one_machine_does(cluster: dict[str, str], tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for case in CASES:
        if any(fnmatch(case.name, pattern) for pattern in SOME):
            write(case, runs)
    scenario = tmp_path / "short.toml"
    scenario.write_text(SHORT)
    assert main(["run", str(scenario), "--on", "sim", "--results", str(runs), "-q"]) == 0
    (runs / "latest").unlink(missing_ok=True)
    answers = {}
    for master in ("local[2]", cluster["URL"]):
        out = tmp_path / master.partition(":")[0]
        said = zab("analyze", runs, "--master", master, "--memory", "1g", "--replay", "--out", out, env=cluster)
        lines = (out / "verdicts.jsonl").read_text().splitlines()
        judged = sorted(map(json.loads, lines), key=lambda it: str(it["path"]))
        answers[master] = rounded([*said, judged])
    here, there = answers.values()
    assert here == there
    assert here[0] == 1
    replayed = [it["properties"][-1] for it in here[2] if "short" in it["path"]]
    assert [(it["name"], it["verdict"]) for it in replayed] == [("replay equality", "PASS")]


def test_a_cluster_explores_as_processes_do(cluster: dict[str, str], tmp_path: Path) -> None:
    scenario = tmp_path / "short.toml"
    scenario.write_text(SHORT.replace("rate", "# rate"))
    asked = ["explore", scenario, "--seeds", "1..6", "--defect", "promise-not-durable", "--keep-going", "--coverage"]
    answers = []
    for way in (["--jobs", "2"], ["--master", cluster["URL"]]):
        results = tmp_path / way[0].strip("-")
        code, said = zab(*asked, *way, "--results", results, "-q", env=cluster)
        said["command"] = said["command"].replace(str(results), "")
        del said["wall_seconds"], said["coverage"]["file"]  # the only things that say how and where
        answers.append((code, said, (results / "coverage-short.json").read_text()))
    here, there = answers
    assert here == there
    assert here[0] == 1
    assert len(here[1]["failed"]) > 1


def test_what_the_executors_lack_is_named(cluster: dict[str, str], tmp_path: Path) -> None:
    """A Python without our dependencies: one message with the command, and exit 3."""
    bare = tmp_path / "python"
    spark = Path(str(pyspark.__file__)).parents[1]
    hide = tmp_path / "hide"
    hide.mkdir()
    (hide / "zmq.py").write_text("raise ImportError('hidden')\n")
    bare.write_text(f'#!/bin/sh\nPYTHONPATH="{hide}:$PYTHONPATH:{spark}" exec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    scenario = tmp_path / "short.toml"
    scenario.write_text(SHORT)
    command = [
        sys.executable,
        "-m",
        "zab_chaos.harness",
        "explore",
        str(scenario),
        "--seeds",
        "1..2",
        "--results",
        str(tmp_path),
    ]
    env = {**cluster, "PYSPARK_PYTHON": str(bare)}
    done = subprocess.run(
        [*command, "--master", cluster["URL"]],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 3
    assert "lacks packages. Install them there: pip install pyzmq" in done.stderr
    assert "Traceback" not in done.stderr
