"""Counts handshakes at a listening socket that failed because the caller lacks the key of the socket's purpose."""

from typing import Any

import zmq

from zab_chaos.node.events import Refused
from zab_chaos.node.net.monitor import Monitor
from zab_chaos.node.refusal_counter import RefusalCounter

# Only this event shows a missing key. With a cut link handshakes fail too, but without a protocol error.
_FAILED = zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL


class FailedHandshakes(Monitor):
    """The failed handshakes at one socket. `purpose`: what the required key is for."""

    def __init__(self, context: zmq.Context[Any], watched: zmq.Socket[Any], purpose: str) -> None:
        super().__init__(context, watched, _FAILED)
        self._why = f"the handshake failed: the caller does not have the run's key for {purpose}"

    def refused(self, refusals: RefusalCounter) -> list[Refused]:
        """Count the failures since the last call. Return those that are reported at once."""
        reports = [refusals.add("stranger", self._why, None) for _ in self.read()]
        return [report for report in reports if report is not None]
