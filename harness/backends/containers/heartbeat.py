"""The harness's heartbeat for nodes in containers: a status request to each node every second.

A node that gets no request for `SILENCE_MS` ends by itself (`zab_chaos.node.watchdog`). Nothing else would end it if the
harness died.
"""

import contextlib
from collections.abc import Callable, Mapping

from zab_chaos.harness.machine.background import BackgroundThread
from zab_chaos.node.net.control import ControlClient, ControlError
from zab_chaos.node.net.keys import Keys

SILENCE_MS = 15_000  # so all nodes have ended and cleaned up within half a minute of the harness's death
EVERY_SECONDS = 1.0
ANSWER_SECONDS = 0.5  # short, because a frozen node does not answer


class Heartbeat(BackgroundThread):
    """A thread that sends the heartbeat to all living nodes while it is entered.

    `addresses` has the control port of each node, as host:port.
    """

    in_words = "the heartbeat of the nodes"

    def __init__(self, addresses: Mapping[int, str], keys: Keys, alive: Callable[[int], bool]) -> None:
        super().__init__("pulse")
        self._clients = {node: ControlClient(address, keys) for node, address in addresses.items()}
        self._alive = alive

    def _run(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            for node, client in self._clients.items():
                if self._alive(node):
                    with contextlib.suppress(ControlError):
                        client.call("status", ANSWER_SECONDS)
        for client in self._clients.values():
            client.close()
