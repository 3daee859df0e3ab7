"""One client's session on a node: its requests that are not answered yet, in their order (see `sessions`)."""

from collections import deque

from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.tree.outcomes import Failed, Outcome
from zab_chaos.node.tree.requests import Request
from zab_chaos.node.tree.seqs import NO_SEQ


class PendingRequest:
    """One request in a client's queue. `outcome` is None until it is known.

    `reads`: whether it is a read, which has its outcome when its turn comes. `refusal`: the leader's, which may be told when
    its zxid is delivered here.
    """

    __slots__ = ("forwarded", "outcome", "reads", "refusal", "request", "seq", "size")

    def __init__(self, seq: int, request: Request, size: int, reads: bool) -> None:
        self.seq = seq
        self.request = request
        self.size = size
        self.reads = reads
        self.forwarded = False
        self.outcome: Outcome | None = None
        self.refusal: Failed | None = None


class ClientSession:
    """One client's queue. `open` holds its writes without outcome by seq; `refusals` counts those refused.

    `fence`: the highest number of its writes that this node answered, or the client named, as unknown; or `NO_SEQ`.
    """

    __slots__ = ("bytes", "client", "fence", "held", "last_seq", "open", "queue", "refusals", "seen")

    def __init__(self, client: int, seen: Zxid, fence: int) -> None:
        self.client = client
        self.seen = seen
        self.fence = fence or NO_SEQ
        self.held = False
        self.last_seq = -1
        self.queue: deque[PendingRequest] = deque()
        self.bytes = 0
        self.open: dict[int, PendingRequest] = {}
        self.refusals = 0
