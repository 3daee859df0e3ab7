"""Asks servers for their roles, several times a second, from a thread of its own: they write no trace of them."""

import time

from zab_chaos.harness.backends.zookeeper.ensemble import Servers
from zab_chaos.harness.backends.zookeeper.records import Seen
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine.background import BackgroundThread

PERIOD_SECONDS = 0.2
ANSWER_SECONDS = 0.5


class Sampler(BackgroundThread):
    """`seen`: what every server said, in time; only what is new."""

    def __init__(self, servers: Servers) -> None:
        super().__init__("sampler")
        self.seen: list[Seen] = []
        self._servers = servers
        self._latest: dict[int, tuple[object, ...]] = {}
        self._error: Exception | None = None

    def check(self) -> None:
        """Raises HarnessError if it has come to grief."""
        if self._error is not None:
            raise HarnessError(f"the servers' roles can't be told: {self._error!r}") from self._error

    def _run(self) -> None:
        while not self._over.wait(PERIOD_SECONDS):
            try:
                for node in self._servers.nodes:
                    self._ask(node)
            except Exception as error:  # a thread's error must reach whoever started it
                self._error = error
                return

    def _ask(self, node: int) -> None:
        status = self._servers.role(node, ANSWER_SECONDS) if not self._servers.paused(node) else None
        if status is None:
            return
        what = status.life, status.role, status.epoch, status.leader, status.established
        if self._latest.get(node) != what:
            self._latest[node] = what
            self.seen.append(Seen(time.monotonic_ns(), node, *what))
