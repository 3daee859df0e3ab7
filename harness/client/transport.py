"""What carries a session's requests over a connection to a node."""

from collections.abc import Callable

from zab_chaos.harness.client.client import PolledClient
from zab_chaos.harness.client.core import Operation
from zab_chaos.harness.client.log import SharedOpsFile
from zab_chaos.node.tree.outcomes import Outcome
from zab_chaos.node.tree.requests import Request

CLOSED = "this client is closed, or its ensemble is over"

Then = Callable[[Outcome], None]


class SocketLine:
    """Implements `zab_chaos.harness.client.session.Line`.

    `ops`: where its operations are written down; `own`: closed with it.
    """

    def __init__(self, client: PolledClient, ops: SharedOpsFile | None, *, own: bool = False) -> None:
        self.client = client
        self._ops = ops
        self._own = own
        self._closed = False

    @property
    def number(self) -> int:
        return self.client.number

    @property
    def node(self) -> int:
        return self.client.node

    def submit(self, request: Request, then: Then) -> None:
        self.take(request, then)
        self.client.flush()

    def take(self, request: Request, then: Then) -> None:
        """Submit without sending: whoever calls this flushes when all is there that is to travel together."""

        def known(operation: Operation, outcome: Outcome) -> None:
            if self._ops is not None:
                self._ops.complete(self.client.core, operation, outcome)
            then(outcome)

        if self._closed:
            raise ValueError(CLOSED)
        operation = self.client.submit(request, known)
        if self._ops is not None:
            self._ops.invoke(self.client.core, operation)

    def wait(self, known: Callable[[], bool], seconds: float) -> None:
        self.client.poll(seconds)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.client.close()
        if self._ops is not None and self._own:
            self._ops.close()
