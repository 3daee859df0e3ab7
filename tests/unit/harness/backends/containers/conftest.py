"""An ensemble of containers without an engine: each container has a disk, a cable, and an end."""

import io
import tarfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zab_chaos.harness.backends.containers.ensemble import Containers
from zab_chaos.harness.backends.containers.resources import DATA
from zab_chaos.harness.backends.processes.ensemble import ClusterPlan, NodeAddresses
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.node.net import keys
from zab_chaos.node.net.control import ControlClient

Disk = dict[str, bytes]


class Container:
    """A container on a volume. As in a real one, files that are copied in are added to those that are there."""

    def __init__(self, disk: Disk) -> None:
        self.attrs: dict[str, Any] = {"State": {"Pid": 1}, "NetworkSettings": {"Networks": {}}}
        self.disk = disk
        self.networks: set[str] = set()
        self._ended = threading.Event()

    def reload(self) -> None:
        """As a real container's, the attributes are those of the last look."""
        self.attrs["NetworkSettings"]["Networks"] = dict.fromkeys(self.networks)

    def wait(self, timeout: float | None) -> dict[str, int]:
        self._ended.wait()
        return {"StatusCode": 137}

    def kill(self, signal: str) -> None:
        self._ended.set()

    def remove(self, force: bool) -> None:
        self._ended.set()

    def put_archive(self, path: str, data: bytes) -> None:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            files = {it.name: archive.extractfile(it) for it in archive}
        self.disk.update({name: file.read() for name, file in files.items() if file is not None})

    def get_archive(self, path: str) -> tuple[Iterable[bytes], None]:
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as archive:
            for name, content in self.disk.items():
                member = tarfile.TarInfo(f"{DATA.strip('/')}/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        return [data.getvalue()], None


class Resources:
    """Volumes, and a new container for each life."""

    make: type[Container] = Container

    def __init__(self) -> None:
        self.volumes: dict[str, Disk] = {}
        self.links = SimpleNamespace(name="links")

    def create(self, name: str, command: Any, log: Path, ports: Any, *, disk: str) -> Container:
        return self.make(self.volumes.setdefault(disk, {}))

    def connect(self, container: Container, name: str) -> None:
        container.networks.add(self.links.name)

    def disconnect(self, container: Container, name: str) -> None:
        container.networks.discard(self.links.name)

    def start(self, container: Container, name: str) -> None:
        container.reload()

    def remove_volume(self, name: str) -> None:
        self.volumes.pop(name, None)


@pytest.fixture
def resources() -> Resources:
    return Resources()


@pytest.fixture
def cluster(tmp_path: Path, resources: Resources, monkeypatch: pytest.MonkeyPatch) -> Iterator[Containers]:
    monkeypatch.setattr(ControlClient, "call", lambda *_, **__: {"node": 1, "life": 1})
    (tmp_path / "config").mkdir()
    plan = ClusterPlan(
        cluster="c",
        addresses={1: NodeAddresses(*(f"127.0.0.1:1000{port}" for port in range(3)))},
        links={},
        keys=keys.create_files(tmp_path / "config"),
        record=False,
    )
    cluster = Containers(RunFolder(tmp_path), plan, resources)  # type: ignore[arg-type]
    yield cluster
    cluster.close(ask=False)
