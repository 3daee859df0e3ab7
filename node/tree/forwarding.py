"""The two messages that the application's layer sends between nodes, on the links, beside Zab's own.

They need a link's order: an ANSWER leaves before the COMMIT of any transaction that was prepared after it, so that the
origin knows of a refusal before it delivers what the same client asked for next.
"""

from zab_chaos.node.core.messages import Wire
from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.tree.requests import ForwardedRequest


class Forward(Wire, frozen=True, tag="FORWARD"):
    """Any node to the leader: writes of its clients, in order, as (client, seq, request). `life` is the sender's.

    Among them its own fences, whose seq is the highest number that they close off.
    """

    life: int
    writes: list[tuple[int, int, ForwardedRequest]]


class Answer(Wire, frozen=True, tag="ANSWER"):
    """The leader back to the origin: refused writes, as (client, seq, error, words, after), in the order of the writes.

    `after` is the zxid of the last transaction that was outstanding when the condition was judged. The origin answers
    its client once it has delivered that: the client must be able to see the state that refused it. `life` is the
    origin's, as its FORWARD said.
    """

    life: int
    refusals: list[tuple[int, int, str, str, Zxid]]
