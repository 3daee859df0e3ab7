"""The example for etcd (examples/etcd): its servers keep what they have confirmed, and two ways to use them do not."""

import shutil
from pathlib import Path

import pytest

from tests.integration.test_example_backend import ROOT, installed, judgements, zab
from tests.mounted import possible

EXAMPLE = ROOT / "examples" / "etcd"

pytestmark = [
    pytest.mark.processes,
    pytest.mark.toxiproxy,
    pytest.mark.skipif(
        shutil.which("etcd") is None, reason="there is no etcd on the PATH (apt-get install etcd-server)"
    ),
]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return installed(tmp_path, EXAMPLE, "etcd = etcd_chaos:Etcd")


@pytest.mark.fuse
def test_it_survives_a_power_cut_of_all_nodes(environment: dict[str, str], tmp_path: Path) -> None:
    possible()
    code, answer, _ = zab(environment, tmp_path, "run", str(EXAMPLE / "scenarios" / "outage.toml"), "--on", "etcd")
    assert (code, answer["verdict"]) == (0, "PASS"), answer["reasons"]
    assert judgements(answer)["fault took effect"] == "PASS"


def test_a_serializable_read_at_a_node_that_is_cut_off_is_stale(environment: dict[str, str], tmp_path: Path) -> None:
    words = ["run", str(EXAMPLE / "scenarios" / "stale-read.toml"), "--on", "etcd", "--defect", "stale-reads"]
    code, answer, _ = zab(environment, tmp_path, *words)
    assert (code, answer["verdict"]) == (1, "VIOLATION"), answer["reasons"]
    found = judgements(answer)
    assert (found["linearizable keys"], found["fault took effect"]) == ("VIOLATION", "PASS")
