"""A machine in lockstep as the harness sees it: the end of its process, and its disk."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import zmq

from zab_chaos.harness.backends.lockstep.disk import FolderDisk
from zab_chaos.harness.backends.lockstep.hub import Hub, OutOfStep
from zab_chaos.harness.backends.lockstep.server import LockstepServer
from zab_chaos.model.world.server import KILLED
from zab_chaos.node.lockstep.wire import LockstepAnswer, decode_answer
from zab_chaos.node.net.keys import Keys
from zab_chaos.node.store.os_files import VOLATILE


@pytest.fixture
def hub() -> Iterator[Hub[LockstepAnswer]]:
    hub = Hub(Keys(*zmq.curve_keypair()), decode_answer)
    yield hub
    hub.close()


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        (KILLED, 0, f"ended with status 0 where the world has {KILLED}"),
        (70, 0, "ended with status 0 where the world has 70"),
        (0, None, "does not end, although it has announced it"),
    ],
)
def test_a_process_that_ends_otherwise_than_in_the_world_ends_the_run(
    hub: Hub[LockstepAnswer], code: int, status: int | None, words: str
) -> None:
    server = object.__new__(LockstepServer)
    server.hub = hub
    server.process = SimpleNamespace(  # type: ignore[assignment]
        node=1, life=2, kill=lambda: status, wait=lambda seconds: status, release=lambda: None, last_words=lambda: "log"
    )
    with pytest.raises(OutOfStep, match=f"^node 1, life 2: its process {words}\nlog$"):
        server._end_process(code)
    assert hub.broken


def test_a_sync_takes_the_drawn_time_and_the_disks_own_and_a_new_life_begins_without_both(tmp_path: Path) -> None:
    disk = FolderDisk(tmp_path, lambda: 5)
    disk.slow_ms = 2
    disk.spend(1)
    assert (disk.sync_time(), disk.owed_ns) == (2_000_005, 1_000_005)
    disk.new_life()
    assert (disk.sync_time(), disk.owed_ns) == (5, 0)


def test_a_disk_is_copied_without_what_is_not_durable_and_replaced_as_a_whole(tmp_path: Path) -> None:
    disk = FolderDisk(tmp_path / "disk", lambda: 5)
    (disk.root / VOLATILE).mkdir(parents=True)
    (disk.root / "log").write_bytes(b"1")
    disk.export_to(tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["log"]
    (disk.root / "other").touch()
    disk.import_from(tmp_path / "copy")
    assert [path.name for path in disk.root.iterdir()] == ["log"]
    (disk.root / VOLATILE).mkdir()
    disk.export_to(disk.root)
    assert [path.name for path in disk.root.iterdir()] == ["log"]
