"""One client's session on a node: the queue of its requests without an answer (see `sessions`)."""

from collections import deque
from dataclasses import dataclass, field

import msgspec

from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.tree.outcomes import Failed, Outcome
from zab_chaos.node.tree.requests import Request


class PendingRequest(msgspec.Struct, eq=False):
    """A request in a client's queue."""

    seq: int
    request: Request
    size: int  # bytes
    is_read: bool  # a read is executed when it is at the head of the queue
    forwarded: bool = False  # of a write: it was passed to the leader
    outcome: Outcome | None = None  # None until it is known
    refusal: Failed | None = (
        None  # of a write: may be answered once its zxid is delivered here and the session is served
    )


@dataclass(slots=True, eq=False)
class ClientSession:
    """A client's queue on one node."""

    client: int
    seen: Zxid  # the last zxid that the client has seen
    since: Zxid  # the last one that the node had delivered when the session began
    fence: int  # the highest seq of its writes whose outcome is unknown to the client, or `NO_SEQ`
    held: bool = False  # it may not be served yet
    last_seq: int = -1
    queue: deque[PendingRequest] = field(default_factory=deque)
    bytes: int = 0  # size of the requests in the queue
    answer_bytes: int = 0  # size of the answers to its reads that are not sent yet
    open_writes: dict[int, PendingRequest] = field(default_factory=dict)  # its writes without an outcome, by seq
    refusals: int = 0  # number of writes with a refusal that is not their outcome yet

    @property
    def miscounted(self) -> bool:
        """Whether the session has no request in its queue, but counts some."""
        return not self.queue and bool(self.bytes or self.open_writes or self.refusals)
