"""A cluster of one server that does nothing: its process sleeps, and its disk is what a test writes there."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from zab_chaos.harness.backends.processes.life import ProcessLife
from zab_chaos.harness.backends.zookeeper.ensemble import ZooKeeperCluster
from zab_chaos.harness.backends.zookeeper.releases import Release
from zab_chaos.harness.backends.zookeeper.server import Plan, Ports, ZooKeeperServer
from zab_chaos.harness.results.run_folder import RunFolder

LOG = Path(__file__).parents[4] / "testdata" / "zookeeper" / "3.9.4" / "log.100000001"
LAST = 1 << 32 | 11  # zxid of its last transaction


def write_log(data: Path) -> None:
    """Write the log of a real server to the disk of a server."""
    (data / "version-2").mkdir(parents=True, exist_ok=True)
    (data / "version-2" / LOG.name).write_bytes(LOG.read_bytes())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The disk of the server."""
    return tmp_path / "data" / "node-1"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ZooKeeperCluster]:
    def spawn(server: ZooKeeperServer, _: Release, life: int, crash_at: str | None, log: Path) -> ProcessLife:
        process = subprocess.Popen(["sh", "-c", "read end && exit $end"], stdin=subprocess.PIPE)
        return ProcessLife(server.node, life, process, log)

    monkeypatch.setattr(ZooKeeperServer, "spawn", spawn)
    monkeypatch.setattr(ZooKeeperCluster, "_await_answers", lambda *_: None)
    for name in ("config", "trace"):
        (tmp_path / name).mkdir()
    plan = Plan(release=Release("3.9.5", (), tmp_path), java="java", ports={1: Ports(1, 2, 3, 4)})
    made = ZooKeeperCluster(RunFolder(tmp_path), plan)
    made.start(1)
    yield made
    made.close(ask=False)
