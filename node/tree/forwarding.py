"""The two messages of the application layer. They use the same links as Zab's messages.

They need a link's order: an ANSWER leaves before the COMMIT of any transaction that was prepared after it. So the origin
knows of a refusal before it delivers what the same client requested next.
"""

from zab_chaos.node.core.messages import Wire
from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.tree.requests import ForwardedRequest


class Forward(Wire, frozen=True, tag="FORWARD"):
    """From any node to the leader: writes of its clients, in order, as (client, seq, since, request). `life` is the sender's.

    They include the node's fences, whose seq is the highest number that they fence off. `since` is the last zxid that the
    node had delivered when the client's session began, before the client knew that it had.
    """

    life: int
    writes: list[tuple[int, int, Zxid, ForwardedRequest]]


class Answer(Wire, frozen=True, tag="ANSWER"):
    """From the leader to the origin: refused writes, as (client, seq, error, words, after), in the order of the writes.

    `after` is the zxid of the last transaction that was outstanding when the condition was judged. The origin answers its
    client once it has delivered that zxid: the client must be able to see the state that the refusal rests on. `life` is
    the origin's, as its FORWARD said.
    """

    life: int
    refusals: list[tuple[int, int, str, str, Zxid]]
