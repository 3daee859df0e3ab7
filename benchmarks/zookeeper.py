"""Apache ZooKeeper's servers as a contender, with kazoo as their client.

They run without proxies, with fsync, and with the settings of ZooKeeper's own sample configuration and start script.
"""

import os
import threading
import time
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any, Self

from benchmarks.ensemble import HOST, Ensemble, settle
from benchmarks.figures import Scale
from benchmarks.load import OUTSTANDING, SETTLE_SECONDS, LoadResult, SteadyLoad, path
from zab_chaos.faults.cluster import ClusterError, Status
from zab_chaos.harness.backends.processes.life import ProcessLife, launch
from zab_chaos.harness.backends.processes.process_cluster import ProcessCluster
from zab_chaos.harness.backends.zookeeper import four_letter_words, releases
from zab_chaos.harness.backends.zookeeper.connection import silent
from zab_chaos.harness.backends.zookeeper.server import MAIN
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.extras import extra
from zab_chaos.harness.machine.die_with_parent import tied
from zab_chaos.harness.results import run_folder

with extra("zookeeper", "a client of ZooKeeper"):
    from kazoo.client import KazooClient
    from kazoo.exceptions import KazooException, NodeExistsError
    from kazoo.handlers.threading import KazooTimeoutError

HEAP = "-Xmx1000m"  # as in bin/zkServer.sh
SETTINGS = {  # the first three are those of conf/zoo_sample.cfg; the others do not affect speed
    "tickTime": "2000",
    "initLimit": "10",
    "syncLimit": "5",
    "clientPortAddress": HOST,
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "*",
}
SESSION_SECONDS = 10.0


class Servers(ProcessCluster):
    """The server processes. A four-letter word gives the role of each."""

    start_seconds = SETTLE_SECONDS

    def __init__(self, folder: run_folder.RunFolder, release: releases.Release, ports: dict[int, list[int]]):
        super().__init__(folder, sorted(ports), faithful=False)
        self._java = releases.find_java()
        self._release = release
        self._ports = ports

    def address(self, node: int) -> str:
        return f"{HOST}:{self._ports[node][0]}"

    def status(self, node: int, timeout: float = 2.0) -> Status | None:
        answer = four_letter_words.srvr(self.address(node), timeout) if self.alive(node) else None
        if answer is None:
            return None
        return Status(node=node, life=self._lives[node].life, role=answer.role, established=answer.serving)

    def leader(self) -> int | None:
        leading = [node for node in self.nodes if (it := self.status(node)) is not None and it.role == "LEADING"]
        return leading[0] if len(leading) == 1 else None

    def control(self, node: int, command: str, **arguments: Any) -> dict[str, Any]:
        raise ClusterError("a ZooKeeper server has no control port")

    def _start_life(self, node: int, number: int, crash_at: str | None, log: Path) -> ProcessLife:
        data = self._data(node)
        data.mkdir(parents=True, exist_ok=True)
        data.joinpath("myid").write_text(f"{node}\n")
        config = self._folder.file("config", f"node-{node}.cfg")
        members = {f"server.{i}": f"{HOST}:{quorum}:{election}" for i, (_, quorum, election) in self._ports.items()}
        own = {"dataDir": str(data), "clientPort": str(self._ports[node][0])}
        lines = SETTINGS | own | (members if len(members) > 1 else {})
        config.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        return ProcessLife(node, number, launch(node, self._command(config), log, data, dict(os.environ)), log)

    def _command(self, config: Path) -> list[str]:
        classpath = os.pathsep.join(map(str, self._release.classpath))
        flags = [HEAP, "-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true", "-Dzookeeper.jmx.log4j.disable=true"]
        return tied(self._java, *flags, "-cp", classpath, MAIN, str(config))


class ZooKeeper(Ensemble):
    """An ensemble of ZooKeeper's servers."""

    cluster: Servers

    def __init__(self, folder: Path, size: int, release: releases.Release) -> None:
        super().__init__(folder, size)
        self.name = f"ZooKeeper {release.version}"
        self._release = release

    def _build(self, ports: dict[int, list[int]]) -> Servers:
        return Servers(self.folder, self._release, ports)

    def settle(self) -> int:
        return settle(self.cluster, _apart)

    def first_write(self) -> bool:
        client = KazooClient(self._hosts(self.cluster.nodes[0]), timeout=SESSION_SECONDS, logger=silent)
        try:
            client.start(SETTLE_SECONDS)
            client.create("/first", b"1")
            return True
        except NodeExistsError:
            return True
        except (KazooException, KazooTimeoutError):
            return False
        finally:
            client.stop()
            client.close()

    def writer(self, node: int, outstanding: int) -> "KazooWriter":
        return KazooWriter(self._hosts(node), outstanding)

    def _hosts(self, first: int) -> str:
        return ",".join(self.cluster.address(node) for node in sorted(self.cluster.nodes, key=lambda it: it != first))


def _apart(cluster: ProcessCluster) -> str | None:
    """Return that not every server serves; they tell nothing else."""
    answers = [cluster.status(node) for node in cluster.nodes]
    serving = all(it is not None and it.established for it in answers) and cluster.leader() is not None
    return None if serving else "not every server serves"


class KazooWriter:
    """kazoo with its defaults, which keeps a number of writes outstanding. It is connected on entry."""

    def __init__(self, hosts: str, outstanding: int) -> None:
        self._client = KazooClient(hosts, timeout=SESSION_SECONDS, randomize_hosts=False, logger=silent)
        self._outstanding = outstanding

    def __enter__(self) -> Self:
        try:
            self._client.start(SETTLE_SECONDS)
        except KazooTimeoutError as error:
            raise HarnessError(f"no client could connect to ZooKeeper: {error}") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._client.stop()
        self._client.close()

    def create_keys(self, keys: int) -> None:
        for number in range(keys):
            self._client.ensure_path(path(number))

    def writes(self, count: int, keys: int, payload: int) -> LoadResult:
        """Make `count` writes of `payload` bytes to the keys in turn. Raises HarnessError."""
        data, room = b"x" * payload, threading.Semaphore(self._outstanding)
        latencies: deque[float] = deque()
        trouble: deque[BaseException] = deque()

        def done(begun: float, result: Any) -> None:
            latencies.append((time.perf_counter() - begun) * 1000)
            if result.exception is not None:
                trouble.append(result.exception)
            room.release()

        begin = time.perf_counter()
        for number in range(count):
            room.acquire()
            self._client.set_async(path(number % keys), data).rawlink(partial(done, time.perf_counter()))
        for _ in range(self._outstanding):
            room.acquire()
        if trouble:
            raise HarnessError(f"a write was not acknowledged, so this measures nothing: {trouble[0]!r}")
        return LoadResult(time.perf_counter() - begin, list(latencies))

    def steady_load(self, scale: Scale) -> "_SteadyLoad":
        return _SteadyLoad(self._client, scale)


class _SteadyLoad(SteadyLoad):
    def __init__(self, client: Any, scale: Scale) -> None:
        super().__init__(scale)
        self._client = client
        self._room = threading.Semaphore(OUTSTANDING)

    def _turn(self) -> None:
        if self._room.acquire(timeout=0.01):
            self._client.set_async(self._next_path(), self._data).rawlink(self._done)

    def _done(self, result: Any) -> None:
        self.answered += 1
        if result.exception is None:
            self._acknowledged(result.value.mzxid >> 32, time.monotonic_ns())
        else:
            time.sleep(0.001)  # while kazoo is not connected it fails at once
        self._room.release()
