"""Samples the roles of ZooKeeper's servers, which write no trace of them, several times a second."""

import time

from zab_chaos.harness.backends.zookeeper.ensemble import ZooKeeperCluster
from zab_chaos.harness.backends.zookeeper.evidence import RoleSample
from zab_chaos.harness.machine.background import BackgroundThread

PERIOD_SECONDS = 0.2
ANSWER_SECONDS = 0.5


class RoleSampler(BackgroundThread):
    """A thread that asks every server for its role. `samples` are the answers that differ from the server's previous one, in
    the order of time."""

    in_words = "sampling the servers' roles"

    def __init__(self, servers: ZooKeeperCluster) -> None:
        super().__init__("sampler")
        self.samples: list[RoleSample] = []
        self._servers = servers
        self._latest: dict[int, tuple[object, ...]] = {}

    def _run(self) -> None:
        while not self._stop.wait(PERIOD_SECONDS):
            for node in self._servers.nodes:
                self._sample(node)

    def _sample(self, node: int) -> None:
        status = self._servers.role_status(node, ANSWER_SECONDS) if not self._servers.paused(node) else None
        if status is None:
            return
        role = status.life, status.role, status.epoch, status.leader, status.established
        if self._latest.get(node) != role:
            self._latest[node] = role
            self.samples.append(RoleSample(time.monotonic_ns(), node, *role))
