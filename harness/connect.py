"""A client of an ensemble that stands somewhere: by the addresses of its nodes and the file with its keys.

    with connect({1: "127.0.0.1:20001", 2: "127.0.0.1:20002"}, "config/keys.json") as client:
        client.create("/a", b"hello")

`connect` gives a `harness.session.Session`, for one thread; `harness.aio.connect` the same for asyncio. Both carry their
requests with `harness.client.Client`, which moves on to another node, under the same session, when its own goes away.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from harness.client import Client, Operation
from harness.ops import Book
from harness.session import Session
from node.net import keys
from node.net.keys import Keys
from node.tree.outcomes import Outcome
from node.tree.requests import Request

TIMEOUT = 10.0  # seconds after which an operation is unknown

CLOSED = "this client is closed, or its ensemble is over"

Addresses = Mapping[int, str]  # host:port, by the node's id
Then = Callable[[Outcome], None]


def connect(
    addresses: Addresses, secret: str | Path | Keys, *, node: int | None = None, timeout: float = TIMEOUT,
    record: Path | None = None,
) -> Session:  # fmt: skip
    """A session that begins at `node` (else at the first). `record`: a run's ops.jsonl, to which its operations are added.

    After `timeout` seconds an operation is unknown. Nothing is waited for here: the first operation does that. Raises
    ValueError (no such node) and node.net.keys.KeyFileError.
    """
    pair = secret if isinstance(secret, Keys) else keys.load(secret)
    client = Client(dict(addresses), pair, node, timeout=timeout)
    return Session(SocketLine(client, Book(record) if record is not None else None, own=True))


class SocketLine:
    """Implements `harness.session.Line` over ZeroMQ. `book`: where its operations are written down; `own`: closed with it."""

    def __init__(self, client: Client, book: Book | None, *, own: bool = False) -> None:
        self.client = client
        self._book = book
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
            if self._book is not None:
                self._book.complete(self.client, operation, outcome)
            then(outcome)

        if self._closed:
            raise ValueError(CLOSED)
        operation = self.client.submit(request, known)
        if self._book is not None:
            self._book.invoke(self.client, operation)

    def wait(self, known: Callable[[], bool], seconds: float) -> None:
        self.client.poll(seconds)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.client.close()
        if self._book is not None and self._own:
            self._book.close()
