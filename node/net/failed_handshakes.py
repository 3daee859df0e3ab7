"""Counts who calls at a listening socket without the key of its purpose."""

from typing import Any

import zmq

from zab_chaos.node.events import Refused
from zab_chaos.node.net.monitor import Monitor
from zab_chaos.node.refusal_counter import RefusalCounter

# Only a protocol error says that a stranger called: a cut link, too, makes handshakes that just end.
_FAILED = zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH


class FailedHandshakes(Monitor):
    """The failed handshakes at one socket. `purpose`: which of the run's keys opens it."""

    def __init__(self, context: zmq.Context[Any], watched: zmq.Socket[Any], purpose: str) -> None:
        super().__init__(context, watched, _FAILED)
        self._why = f"the handshake failed: whoever called does not hold the run's key for {purpose}"

    def refused(self, refusals: RefusalCounter) -> list[Refused]:
        """Count those since the last call; what is to be reported at once."""
        reports = [refusals.add("stranger", self._why, None) for _ in self.read()]
        return [report for report in reports if report is not None]
