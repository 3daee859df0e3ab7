"""The example backend (examples/backend): found by its name, run under faults, judged from its clients' history."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.mounted import possible
from zab_chaos.faults import process_tree
from zab_chaos.harness.backends.system.deployment import RUN_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "backend"

pytestmark = [pytest.mark.processes, pytest.mark.toxiproxy]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return installed(tmp_path, EXAMPLE, "examplekv = examplekv:ExampleKV")


@pytest.fixture
def variant(environment: dict[str, str], tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Return `variant(source)`, which installs a backend `Variant` in a module of its own, and returns the environment."""

    def install(source: str) -> dict[str, str]:
        site = tmp_path / "site"
        site.joinpath("variant.py").write_text(source)
        points = site / "example-1.0.dist-info" / "entry_points.txt"
        points.write_text("[zab_chaos.backends]\nvariant = variant:Variant\n")
        return environment

    return install


def installed(folder: Path, example: Path, entry_point: str) -> dict[str, str]:
    """Return an environment in which an example seems installed: it has the entry point that `pip install` would leave."""
    info = folder / "site" / "example-1.0.dist-info"
    info.mkdir(parents=True)
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: example\nVersion: 1.0\n")
    info.joinpath("entry_points.txt").write_text(f"[zab_chaos.backends]\n{entry_point}\n")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (info.parent, example, ROOT)))}


def shortened(example: Path, name: str, folder: Path, *, faults: int, seconds: int) -> str:
    """Return the path of a scenario of an example with only its first faults."""
    steps, _, expect = (example / "scenarios" / f"{name}.toml").read_text().partition("[expect]")
    kept = "[[fault]]".join(steps.split("[[fault]]")[: faults + 1])
    expect = re.sub("min_acked = .*", "min_acked = 20", expect)
    scenario = folder / f"{name}.toml"
    scenario.write_text(re.sub("duration = .*", f"duration = {seconds}", kept) + f"[expect]{expect}")
    return str(scenario)


def zab(environment: dict[str, str], folder: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    """Run a `zab` command, and return its exit code, its JSON output and its stderr."""
    command = [sys.executable, "-m", "zab_chaos.harness", *words, "--results", str(folder / "results"), "--json"]
    ended = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120)
    return ended.returncode, json.loads(ended.stdout) if ended.stdout else {}, ended.stderr


def judgements(answer: dict[str, Any]) -> dict[str, str]:
    return {item["name"]: item["verdict"] for item in answer["properties"]}


def test_it_passes_with_crashes_pauses_and_partitions(environment: dict[str, str], tmp_path: Path) -> None:
    words = ["run", str(EXAMPLE / "scenarios" / "hard-times.toml"), "--on", "examplekv"]
    code, answer, _ = zab(environment, tmp_path, *words)
    assert (code, answer["verdict"]) == (0, "PASS"), answer["reasons"]
    found = judgements(answer)
    judged = {"linearizable keys", "durability", "recovery", "progress", "fault took effect", "trace integrity"}
    assert {name for name, verdict in found.items() if verdict == "PASS"} == judged
    rest = [item for item in answer["properties"] if item["name"] not in judged | {"isolation", "expected state"}]
    assert all(item["verdict"] == "NOT-APPLICABLE" and "traces" in item["why"] for item in rest)
    assert [fault["do"] for fault in answer["metrics"]["faults"]] == ["crash", "pause", "partition", "crash"]
    assert answer["run"]["evidence"] == "history"
    assert zab(environment, tmp_path, "verify", "latest")[1]["runs"][0]["properties"] == answer["properties"]


@pytest.mark.parametrize(("scenario", "bug"), [("cut-off", "early-ack"), ("slow-links", "no-write-back")])
def test_its_known_bugs_are_found(environment: dict[str, str], tmp_path: Path, scenario: str, bug: str) -> None:
    words = ["run", str(EXAMPLE / "scenarios" / f"{scenario}.toml"), "--on", "examplekv", "--defect", bug]
    code, answer, _ = zab(environment, tmp_path, *words)
    assert (code, answer["verdict"]) == (1, "VIOLATION"), answer["reasons"]
    assert judgements(answer)["linearizable keys"] == "VIOLATION"


@pytest.mark.fuse
@pytest.mark.parametrize(("bug", "ends"), [([], (0, "PASS")), (["--defect", "no-fsync"], (1, "VIOLATION"))])
def test_a_power_cut_loses_unsynced_writes(
    environment: dict[str, str], tmp_path: Path, bug: list[str], ends: tuple[int, str]
) -> None:
    possible()
    words = ["run", str(EXAMPLE / "scenarios" / "outage.toml"), "--on", "examplekv", *bug]
    code, answer, _ = zab(environment, tmp_path, *words)
    assert (code, answer["verdict"]) == ends, answer["reasons"]
    assert [fault["do"] for fault in answer["metrics"]["faults"]] == ["power-cut", "power-cut"]
    assert judgements(answer)["fault took effect"] == "PASS"
    assert judgements(answer)["linearizable keys"] == ends[1]


def test_a_node_whose_log_is_damaged_refuses_it_and_gets_an_empty_disk(
    environment: dict[str, str], tmp_path: Path
) -> None:
    words = ["run", str(EXAMPLE / "scenarios" / "bit-rot.toml"), "--on", "examplekv"]
    code, answer, _ = zab(environment, tmp_path, *words)
    assert (code, answer["verdict"]) == (0, "PASS"), answer["reasons"]
    assert [fault["do"] for fault in answer["metrics"]["faults"]] == ["crash", "corrupt", "restart", "wipe", "restart"]


def test_a_rolling_upgrade_passes_and_a_downgrade_to_a_release_that_can_not_read_the_logs_does_not(
    environment: dict[str, str], tmp_path: Path
) -> None:
    words = ["run", str(EXAMPLE / "scenarios" / "upgrade.toml"), "--on", "examplekv"]
    code, answer, _ = zab(environment, tmp_path, *words)
    assert (code, answer["verdict"]) == (0, "PASS"), answer["reasons"]
    assert answer["run"]["releases"] == {"old": "1", "new": "2"}
    lines = [json.loads(line) for line in Path(answer["folder"], "harness.jsonl").read_text().splitlines()]
    told = [(line["node"], line["life"], line["release"]) for line in lines if line["event"] == "release"]
    first, later = [(node, 1, "1") for node in (1, 2, 3)], [(1, 2, "2"), (2, 2, "2"), (1, 3, "2"), (3, 2, "2")]
    assert (sorted(told[:3]), told[3:]) == (first, later)
    code, answer, _ = zab(environment, tmp_path, *words, "--from", "2", "--to", "1")
    assert (code, answer["verdict"]) == (1, "VIOLATION")
    assert judgements(answer)["recovery"] == "VIOLATION"
    assert "--from 2 --to 1" in answer["run"]["command"]
    code, _, said = zab(environment, tmp_path, *words, "--from", "3", "--to", "4")
    assert code == 4
    assert "no release '3'" in said
    assert "no release '4'" in said


CUT_LOGS = """
[scenario]
name = "cut-logs"
about = "The logs of all nodes are cut while they are down: nothing of what was confirmed is left."
nodes = 3
duration = 4
[workload]
clients = 3
rate = 60
keys = 12 # most are read before they are written again
payload_bytes = 32
mix = { set = 1, get = 3 }
[[fault]]
at = 2
do = "truncate-file"
target = "all"
bytes = 1000000
for = 0.5
"""


def test_what_all_nodes_lose_with_their_files_is_missed(environment: dict[str, str], tmp_path: Path) -> None:
    tmp_path.joinpath("cut-logs.toml").write_text(CUT_LOGS)
    code, answer, _ = zab(environment, tmp_path, "run", "cut-logs.toml", "--on", "examplekv")
    assert (code, answer["verdict"]) == (1, "VIOLATION"), answer["reasons"]
    assert judgements(answer)["linearizable keys"] == "VIOLATION"
    assert judgements(answer)["fault took effect"] == "PASS"


ONE_ADDRESS = """
import examplekv

class Variant(examplekv.ExampleKV):
    name = "variant"
    one_address = True

    def command(self, place, defect):
        assert all(place.address != address for address in place.peers.values())
        return super().command(place, defect)
"""

# Node 3 knows where the others listen, and connects to them there.
AROUND = """
from dataclasses import replace
import examplekv

class Variant(examplekv.ExampleKV):
    name = "variant"
    listen = {}

    def command(self, place, defect):
        self.listen[place.node] = place.listen
        around = {peer: self.listen[peer] for peer in place.peers} if place.node == 3 else place.peers
        return super().command(replace(place, peers=around), defect)
"""

DEAF = """
import examplekv
from zab_chaos.harness.backends.processes import process_cluster

process_cluster.STOP_SECONDS = 1.0
IGNORES_SIGTERM = '''
import asyncio, runpy, signal, sys
asyncio.SelectorEventLoop.add_signal_handler = lambda *_: signal.signal(signal.SIGTERM, signal.SIG_IGN)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
'''

class Variant(examplekv.ExampleKV):
    name = "variant"

    def command(self, place, defect):
        python, *script = super().command(place, defect)
        return [python, "-c", IGNORES_SIGTERM, *script]
"""

# It ends when the server has a session of its own, and the server goes on in the background.
DAEMON = """
import sys
import examplekv

LEAVES = "import subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True)"

class Variant(examplekv.ExampleKV):
    name = "variant"

    def command(self, place, defect):
        return [sys.executable, "-c", LEAVES, *super().command(place, defect)]
"""

# A client reads what nobody has written and later, by a mistake of the backend, returns something that is no outcome.
WRONG_TWICE = """
import examplekv
from itertools import count
from zab_chaos.harness.backends.system import Get, done

class LyingClient(examplekv.KVClient):
    reads = count()

    def ask(self, request):
        number = next(self.reads) if isinstance(request, Get) else 0
        return {50: done(b"nobody wrote this"), 100: "something"}.get(number) or super().ask(request)

class Variant(examplekv.ExampleKV):
    name = "variant"

    def client(self, place, timeout):
        return LyingClient(place.client, timeout)
"""

UNCUT = """
import examplekv
from zab_chaos.faults.two_way_network import TwoWayNetwork

TwoWayNetwork.cut = lambda *_, **__: None

class Variant(examplekv.ExampleKV):
    name = "variant"
"""

CUTS = """
[scenario]
name = "cuts"
nodes = 3
duration = 7

[workload]
clients = 3
rate = 60
keys = 2
mix = { set = 1, get = 1 }

[[fault]]
at = 1
do = "partition"
shape = "one-way"
target = "node-1"
for = 1

[[fault]]
at = 3
do = "partition"
how = "disable"
target = "node-2"
for = 1

[[fault]]
at = 5
do = "crash"
target = "node-3"
for = 0.5

[expect]
min_acked = 50
"""


ONE_CUT = """
[scenario]
name = "one-cut"
nodes = 3
duration = 4

[workload]
clients = 3
rate = 60
keys = 2
mix = { set = 1, get = 1 }

[[fault]]
at = 1
do = "partition"
target = "node-3"
for = 1
"""


def zab_run(environment: dict[str, str], folder: Path, scenario: str) -> tuple[int, dict[str, Any], str]:
    """Run a scenario on the installed variant, and return what `zab` returns."""
    path = folder / "cuts.toml"
    path.write_text(scenario)
    return zab(environment, folder, "run", str(path), "--on", "variant")


def run_variant(environment: dict[str, str], folder: Path, scenario: str) -> dict[str, Any]:
    """Do that, and return the verdict, which is PASS or UNKNOWN."""
    code, answer, said = zab_run(environment, folder, scenario)
    assert code == {"PASS": 0, "UNKNOWN": 2}[answer["verdict"]], (answer.get("reasons"), said)
    return answer


def test_a_mistake_of_the_backend_does_not_hide_a_violation_before_it(
    variant: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    code, answer, said = zab_run(variant(WRONG_TWICE), tmp_path, CUTS)
    assert (code, answer["verdict"]) == (3, "HARNESS-ERROR")
    assert "must be done(...), Failed(...) or Unknown(...), not 'something'" in answer["reasons"][0]
    assert [name for name, verdict in judgements(answer).items() if verdict == "VIOLATION"] == ["linearizable keys"]
    assert "linearizable keys (" in said
    assert "HARNESS-ERROR  (exit 3)  what was recorded until then violates linearizable keys" in said


def test_a_server_that_goes_to_the_background_does_not_outlive_the_run(
    variant: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    code, answer, said = zab_run(variant(DAEMON), tmp_path, ONE_CUT)
    assert (code, answer["verdict"]) == (3, "HARNESS-ERROR")
    assert "the command must stay in the foreground" in answer["reasons"][0]
    assert re.search(r"killed what the nodes had left behind: \d+, \d+, \d+", said), said
    assert process_tree.with_variable(RUN_VARIABLE, answer["folder"]) == set()


def test_nodes_that_tell_each_other_their_addresses_can_be_cut_off(
    variant: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    answer = run_variant(variant(ONE_ADDRESS), tmp_path, CUTS)
    assert answer["verdict"] == "PASS", answer["reasons"]
    assert judgements(answer)["fault took effect"] == "PASS"


def test_a_node_that_goes_around_its_proxies_is_found_out(
    variant: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    answer = run_variant(variant(AROUND), tmp_path, ONE_CUT)
    assert judgements(answer)["fault took effect"] == "UNKNOWN"
    words = [found["words"] for one in answer["properties"] for found in one["violations"]]
    assert any("and node 3 have a connection past the proxies" in each or "node 3 and node" in each for each in words)


@pytest.mark.parametrize(
    ("source", "test", "words"),
    [
        (AROUND, "cut_off", "have a connection past the proxies"),
        (DEAF, "stopped", "at SIGTERM, or the backend's `stop_signal`, a node must end by itself"),
    ],
)
def test_the_conformance_suite_finds_a_mistake(
    variant: Callable[[str], dict[str, str]], tmp_path: Path, source: str, test: str, words: str
) -> None:
    suite = ["--pyargs", "zab_chaos.harness.testing.conformance", "--zab-on", "variant", "-k", test]
    command = [sys.executable, "-m", "pytest", *suite, "-p", "no:cacheprovider"]
    ended = subprocess.run(command, env=variant(source), cwd=tmp_path, capture_output=True, text=True, timeout=170)
    assert ended.returncode == 1, ended.stdout
    assert words in ended.stdout


def test_a_proxy_that_does_not_cut_is_found_out(variant: Callable[[str], dict[str, str]], tmp_path: Path) -> None:
    answer = run_variant(variant(UNCUT), tmp_path, ONE_CUT)
    assert judgements(answer)["fault took effect"] == "UNKNOWN"
    words = [found["words"] for one in answer["properties"] for found in one["violations"]]
    assert any("was cut, but bytes passed its proxies meanwhile" in each for each in words)


def test_a_scenario_that_it_does_not_support_is_refused_before_anything_starts(
    environment: dict[str, str], tmp_path: Path
) -> None:
    code, _, said = zab(environment, tmp_path, "run", "power-outage", "--on", "examplekv")
    assert code == 4
    assert "target = leader can't be done on examplekv; it can be done on processes, sim, lockstep, containers" in said
    assert "examplekv has no way to name the leader" in said
    assert not tmp_path.joinpath("results").exists()


TESTED = """
import pytest

@pytest.mark.zab(on="examplekv")
def test_the_nodes_come_back(zab_cluster):
    zab_cluster.crash("one")
    zab_cluster.restart("one")
    assert zab_cluster.until_established() == 0
    with zab_cluster.client() as client:
        client.set("/a", b"1")

@pytest.mark.zab(on="examplekv")
def test_nothing_is_written(zab_cluster):
    zab_cluster.crash("one")
"""


def test_a_system_without_leaders_has_an_ensemble_in_tests(environment: dict[str, str], tmp_path: Path) -> None:
    """It is established without one. And only what the test writes is enough to judge, not what is written at the end."""
    tmp_path.joinpath("test_it.py").write_text(TESTED)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=170)
    assert ended.returncode == 1, ended.stdout
    assert "1 failed, 1 passed" in ended.stdout, ended.stdout
    assert "0 writes were acknowledged; at least 1 is needed to judge" in ended.stdout


def test_it_passes_the_conformance_suite(environment: dict[str, str], tmp_path: Path) -> None:
    words = [
        "--pyargs",
        "zab_chaos.harness.testing.conformance",
        "--zab-on",
        "examplekv",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    command = [sys.executable, "-m", "pytest", *words]
    ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=170)
    assert ended.returncode == 0, ended.stdout
    assert "13 passed, 1 skipped" in ended.stdout  # it has no leader
