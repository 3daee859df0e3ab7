"""The line of a session over a real connection, or through a client of a foreign system."""

import os
import threading
from collections.abc import Callable
from typing import Protocol

from zab_chaos.harness.client import core
from zab_chaos.harness.client.core import Operation, RecordedClient
from zab_chaos.harness.client.log import SharedOpsFile
from zab_chaos.node.tree.outcomes import Outcome
from zab_chaos.node.tree.requests import Request

CLOSED = "this client is closed, or its ensemble has ended"
FORKED = "this client was opened by the process that forked this one, and only works there: open another one here"

Then = Callable[[Outcome], None]


class LineClient(RecordedClient, Protocol):
    """A client that belongs to one thread, such as `zab_chaos.harness.client.client.PolledClient`, whose methods these are."""

    @property
    def outstanding(self) -> int: ...
    @property
    def connected(self) -> bool: ...
    def submit(self, request: Request, then: core.Then) -> Operation: ...
    def flush(self) -> None: ...
    def poll(self, timeout: float = ...) -> None: ...
    def close(self) -> None: ...


class SocketLine:
    """Implements `zab_chaos.harness.client.session.Line` with a client on real connections.

    It belongs to one thread, and any thread may close it: an ensemble that ends closes all of its clients.

    `ops`: the file that records its operations, or None; `owns_ops`: whether the file is closed with the line.
    """

    def __init__(self, client: LineClient, ops: SharedOpsFile | None, *, owns_ops: bool = False) -> None:
        self.client = client
        self._ops = ops
        self._owns_ops = owns_ops
        self._closed = False
        self._lock = threading.RLock()  # of the client's sockets, which two threads must not use at once
        self._process = os.getpid()  # a fork has no threads of ZeroMQ: it would wait for ever, whatever the timeout

    @property
    def number(self) -> int:
        return self.client.number

    @property
    def node(self) -> int:
        return self.client.node

    def submit(self, request: Request, then: Then) -> None:
        with self._lock:
            self.enqueue(request, then)
            self.client.flush()

    def enqueue(self, request: Request, then: Then) -> None:
        """Submit without sending. The caller flushes the client once all requests are submitted that shall go together."""

        def known(operation: Operation, outcome: Outcome) -> None:
            if self._ops is not None:
                self._ops.complete(self.client, operation, outcome)
            then(outcome)

        with self._lock:
            if self._closed:
                raise ValueError(CLOSED)
            self._check_process()
            operation = self.client.submit(request, known)
            if self._ops is not None:
                self._ops.invoke(self.client, operation)

    def wait(self, known: Callable[[], bool], seconds: float) -> None:
        self._check_process()
        with self._lock:
            if not self._closed:
                self.client.poll(seconds)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise ValueError(FORKED)

    def close(self) -> None:
        if self._closed or os.getpid() != self._process:
            return
        self._closed = True  # before it has the lock: a thread that polls again and again would hardly let it go
        with self._lock:
            self.client.close()
            if self._ops is not None and self._owns_ops:
                self._ops.close()
