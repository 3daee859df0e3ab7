"""What faults do to the disk of a container that has ended is what the node's next life finds."""

from pathlib import Path

import pytest

from tests.unit.harness.backends.containers.conftest import Container, Resources
from zab_chaos.faults.cluster import ClusterError
from zab_chaos.harness.backends.containers.ensemble import Containers


def test_a_file_that_was_removed_from_a_disk_is_gone_in_the_next_life(
    cluster: Containers, resources: Resources
) -> None:
    cluster.start(1)
    resources.volumes["node-1"] |= {"log-00000001": b"1", "log-00000002": b"2", "snapshot-1": b"3"}
    cluster.kill(1)
    folder = Path(cluster.disk_folder(1))
    (folder / "log-00000001").unlink()
    (folder / "log-00000002").write_bytes(b"")
    cluster.start(1)
    assert resources.volumes["node-1"] == {"log-00000002": b"", "snapshot-1": b"3"}


def test_a_disk_that_has_no_fault_is_the_same_in_the_next_life(cluster: Containers, resources: Resources) -> None:
    cluster.start(1)
    disk = resources.volumes["node-1"]
    cluster.kill(1)
    cluster.start(1)
    assert resources.volumes["node-1"] is disk


def test_a_node_does_not_start_on_a_disk_that_lacks_what_the_faults_did(
    cluster: Containers, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.start(1)
    resources.volumes["node-1"]["log-00000001"] = b"1"
    cluster.kill(1)
    cluster.disk_folder(1)
    monkeypatch.setattr(Container, "put_archive", lambda *_: None)
    with pytest.raises(ClusterError, match="the disk of node-1 is not as the faults have left it"):
        cluster.start(1)


def test_a_node_does_not_start_on_a_disk_that_has_more_than_the_faults_have_left(
    cluster: Containers, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.start(1)
    resources.volumes["node-1"] |= {"log-00000001": b"1", "log-00000002": b"2"}
    cluster.kill(1)
    (Path(cluster.disk_folder(1)) / "log-00000001").unlink()
    monkeypatch.setattr(Resources, "remove_volume", lambda *_: None)
    with pytest.raises(ClusterError, match="the disk of node-1 is not as the faults have left it"):
        cluster.start(1)


def test_two_faults_damage_one_disk(cluster: Containers, resources: Resources) -> None:
    cluster.start(1)
    resources.volumes["node-1"] |= {"log-00000001": b"1", "snapshot-1": b"3"}
    cluster.kill(1)
    (Path(cluster.disk_folder(1)) / "log-00000001").unlink()
    (Path(cluster.disk_folder(1)) / "snapshot-1").write_bytes(b"")
    cluster.start(1)
    assert resources.volumes["node-1"] == {"snapshot-1": b""}


def test_a_disk_that_was_damaged_and_then_lost_is_empty(cluster: Containers, resources: Resources) -> None:
    cluster.start(1)
    resources.volumes["node-1"]["log-00000001"] = b"1"
    cluster.kill(1)
    (Path(cluster.disk_folder(1)) / "log-00000001").write_bytes(b"")
    cluster.wipe(1)
    cluster.start(1)
    assert resources.volumes["node-1"] == {}
