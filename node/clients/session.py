"""One client's session on a node: the queue of its requests without an answer (see `sessions`)."""

from collections import deque

from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.tree.outcomes import Failed, Outcome
from zab_chaos.node.tree.requests import Request
from zab_chaos.node.tree.seqs import NO_SEQ


class PendingRequest:
    """A request in a client's queue. `outcome` is None until it is known.

    `size` is in bytes. `is_read`: whether it is a read, which is executed when it is at the head of the queue. `forwarded`:
    whether the write was passed to the leader. `refusal`: of a write, which may be answered once its zxid is delivered here
    and the session is served.
    """

    __slots__ = ("forwarded", "is_read", "outcome", "refusal", "request", "seq", "size")

    def __init__(self, seq: int, request: Request, size: int, is_read: bool) -> None:
        self.seq = seq
        self.request = request
        self.size = size
        self.is_read = is_read
        self.forwarded = False
        self.outcome: Outcome | None = None
        self.refusal: Failed | None = None


class ClientSession:
    """A client's queue on one node.

    `seen`: the last zxid that the client has seen. `since`: the last one that the node had delivered when the session began.
    `held`: the session may not be served yet. `open_writes`: its writes without an outcome, by seq. `refusals`: how many
    writes have a refusal that is not their outcome yet. `fence`: the highest seq of its writes whose outcome is unknown to the
    client, or `NO_SEQ`. `answer_bytes`: the size of the answers to its reads that are not sent yet.
    """

    __slots__ = (
        "answer_bytes",
        "bytes",
        "client",
        "fence",
        "held",
        "last_seq",
        "open_writes",
        "queue",
        "refusals",
        "seen",
        "since",
    )

    def __init__(self, client: int, seen: Zxid, since: Zxid, fence: int) -> None:
        self.client = client
        self.seen = seen
        self.since = since
        self.fence = fence or NO_SEQ
        self.held = False
        self.last_seq = -1
        self.queue: deque[PendingRequest] = deque()
        self.bytes = 0
        self.answer_bytes = 0
        self.open_writes: dict[int, PendingRequest] = {}
        self.refusals = 0

    @property
    def miscounted(self) -> bool:
        """Whether the session has no request in its queue, but counts some."""
        return not self.queue and bool(self.bytes or self.open_writes or self.refusals)
