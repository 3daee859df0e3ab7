"""What a server has left on its disk is on record before a fault takes the disk, also when the server had ended by itself."""

import shutil
import subprocess
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from zab_chaos.harness.backends.processes.life import ProcessLife
from zab_chaos.harness.backends.zookeeper.ensemble import ZooKeeperCluster
from zab_chaos.harness.backends.zookeeper.releases import Release
from zab_chaos.harness.backends.zookeeper.server import Plan, Ports, ZooKeeperServer
from zab_chaos.harness.results.run_folder import RunFolder

EPOCH = 7


class Mounted(MagicMock):
    """A file system under the server's disk."""

    def wipe(self, node: int) -> None:
        shutil.rmtree(self.data)


@pytest.mark.parametrize("mounted", [True, False])
def test_a_disk_that_is_lost_after_its_server_refused_it_was_left_as_it_was(
    mounted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spawn(server: ZooKeeperServer, _: Release, life: int, crash_at: str | None, log: Path) -> ProcessLife:
        (server.data / "version-2").mkdir(parents=True)
        for name in ("acceptedEpoch", "currentEpoch"):
            (server.data / "version-2" / name).write_text(str(EPOCH))
        process = subprocess.Popen(["false"], stdin=subprocess.PIPE)
        process.wait()
        return ProcessLife(server.node, life, process, log, crash_at)

    monkeypatch.setattr(ZooKeeperServer, "spawn", spawn)
    (tmp_path / "config").mkdir()
    plan = Plan(release=Release("3.9.5", (), tmp_path), java="java", ports={1: Ports(1, 2, 3, 4)})
    disks = Mounted(data=tmp_path / "data" / "node-1") if mounted else None
    cluster = ZooKeeperCluster(RunFolder(tmp_path), plan, disks)
    cluster.start(1)
    assert cluster.wait_exit(1, 0.0) == 1
    cluster.wipe(1)
    (life,) = cluster.recorded_lives({})
    cluster.close(ask=False)
    assert life.disk_after.epochs == (EPOCH, EPOCH)
    assert not (tmp_path / "data" / "node-1").exists()
