"""When a node of a foreign system that has lost its disk counts as a member again."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGTERM
from types import SimpleNamespace
from typing import Any

import pytest

from zab_chaos.harness.backends.system import Place
from zab_chaos.harness.backends.system.deployment import SystemCluster
from zab_chaos.harness.results.run_folder import RunFolder


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def wiped(folder: Path, port: int, reads: Callable[[int], bool]) -> SystemCluster:
    """Return a cluster of one node, which has lost its disk and accepts clients again."""
    (folder / "data").mkdir()
    place = Place(node=1, listen="", client=f"127.0.0.1:{port}", address="", peers={}, data=folder / "data" / "node-1")
    backend: Any = SimpleNamespace(
        data_files={}, counts_received=False, says_ready=False, start_seconds=30.0, stop_signal=SIGTERM
    )
    cluster = SystemCluster(backend, {1: place}, RunFolder(folder), None, reads)
    cluster.wipe(1)
    cluster._lives[1] = SimpleNamespace(alive=True, stopped=False, life=2)  # type: ignore[assignment]
    return cluster


def is_amnesiac(cluster: SystemCluster) -> bool:
    status = cluster.status(1)
    assert status is not None
    return status.amnesiac


def test_a_node_that_has_lost_its_disk_is_a_member_again_when_it_answers_a_read(tmp_path: Path, port: int) -> None:
    """Until then it may copy what it had confirmed: if the nemesis took the next disk, a correct system could lose data."""
    copied, asked = threading.Event(), []

    def reads(node: int) -> bool:
        asked.append(node)
        if len(asked) == 1:
            raise KeyError("the client's mistake")
        return copied.is_set()

    cluster = wiped(tmp_path, port, reads)
    end = time.monotonic() + 60
    while len(asked) < 3 and time.monotonic() < end:
        assert is_amnesiac(cluster)
    copied.set()
    while is_amnesiac(cluster):
        assert time.monotonic() < end
    assert set(asked) == {1}
    known = len(asked)
    assert not is_amnesiac(cluster)
    assert len(asked) == known


def test_nothing_waits_for_a_node_that_does_not_answer(tmp_path: Path, port: int) -> None:
    blocked, asked = threading.Event(), []

    def reads(node: int) -> bool:
        asked.append(node)
        return blocked.wait(60)

    cluster = wiped(tmp_path, port, reads)
    assert all(is_amnesiac(cluster) for _ in range(5))
    assert len(asked) <= 1
    blocked.set()
