"""The harness's heartbeat: each node in a container is asked for its status every second, and so knows that it is not alone.

A node that hears nothing for `SILENCE_MS` ends by itself (`zab_chaos.node.watchdog`): nothing else would end it if the
harness died.
"""

import contextlib
from collections.abc import Callable, Mapping

from zab_chaos.harness.machine.background import BackgroundThread
from zab_chaos.node.net.control import ControlClient, ControlError
from zab_chaos.node.net.keys import Keys

SILENCE_MS = 15_000  # after the harness's death all nodes are gone in half a minute, clean-up of theirs included
EVERY_SECONDS = 1.0
ANSWER_SECONDS = 0.5  # a frozen node does not answer, and need not


class Heartbeat(BackgroundThread):
    """Runs beside everything else, from a thread of its own, while it is entered."""

    def __init__(self, addresses: Mapping[int, str], keys: Keys, alive: Callable[[int], bool]) -> None:
        """`addresses`: the control ports, host:port by node."""
        super().__init__("pulse")
        self._clients = {node: ControlClient(address, keys) for node, address in addresses.items()}
        self._alive = alive

    def _run(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            for node, client in self._clients.items():
                if self._alive(node):
                    with contextlib.suppress(ControlError):
                        client.call("status", ANSWER_SECONDS)
        for client in self._clients.values():
            client.close()
