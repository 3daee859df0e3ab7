"""The example for Redis with Sentinel (examples/redis): what it loses in a partition and in a power cut."""

import json
import shutil
from pathlib import Path

import pytest

from tests.integration.test_example_backend import ROOT, installed, judgements, zab
from tests.mounted import possible

EXAMPLE = ROOT / "examples" / "redis"

pytestmark = [
    pytest.mark.servers,
    pytest.mark.processes,
    pytest.mark.toxiproxy,
    pytest.mark.skipif(
        shutil.which("redis-server") is None,
        reason="there is no redis-server on the PATH (apt-get install redis-server)",
    ),
]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return installed(tmp_path, EXAMPLE, "redis = redis_chaos:Redis")


def test_a_master_that_is_cut_off_confirms_writes_that_are_lost(environment: dict[str, str], tmp_path: Path) -> None:
    """The cut takes both ports, that of the servers and that of the Sentinels: else there would be no new master."""
    words = ["run", str(EXAMPLE / "scenarios" / "split.toml"), "--on", "redis"]
    code, answer, _ = zab(environment, tmp_path, *words)
    found = judgements(answer)
    assert (code, found["durability"], found["fault took effect"]) == (1, "VIOLATION", "PASS"), answer["reasons"]
    (faults,) = tmp_path.glob("results/*/*/faults.jsonl")
    (heal,) = [line for line in map(json.loads, faults.read_text().splitlines()) if line["type"] == "heal"]
    assert len(heal["evidence"]["links"]) == 4


@pytest.mark.sample
def test_a_master_that_is_cut_off_confirms_appends_that_are_lost(environment: dict[str, str], tmp_path: Path) -> None:
    scenario = EXAMPLE / "scenarios" / "lists.toml"
    code, answer, said = zab(environment, tmp_path, "run", str(scenario), "--on", "redis")
    assert (code, judgements(answer)["isolation"]) == (1, "VIOLATION"), (answer["reasons"], said)
    (ops,) = tmp_path.glob("results/*/*/ops.jsonl")
    lines = [json.loads(line) for line in ops.read_text().splitlines()]
    assert max(len(found) for line in lines for found in line.get("lists", ())) > 5


@pytest.mark.fuse
@pytest.mark.parametrize(
    ("defect", "judged"),
    [([], "PASS"), pytest.param(["--defect", "sync-each-second"], "VIOLATION", marks=pytest.mark.sample)],
)
def test_replicas_drop_what_their_master_has_lost_in_a_power_cut(
    environment: dict[str, str], tmp_path: Path, defect: list[str], judged: str
) -> None:
    """Writes that come later may replace all that was lost, so durability need not be violated."""
    possible()
    words = ["run", str(EXAMPLE / "scenarios" / "outage.toml"), "--on", "redis", *defect]
    _, answer, said = zab(environment, tmp_path, *words)
    found = judgements(answer)
    assert answer["verdict"] == found["linearizable keys"] == judged, (answer["reasons"], said)
    assert found["fault took effect"] == "PASS"
