"""The clients' protocol: MessagePack frames with one message each; a message holds many requests or answers.

A client sends HELLO with its number, the last zxid it has seen, and its fence, and gets WELCOME. Then it sends REQUESTS, not
earlier: what the node has delivered before WELCOME must be older than anything that the client does elsewhere later. It
gets ANSWERS in the same order. If a node does not accept something, it answers REJECTED with the reason and forgets the
client, which may begin again with HELLO. BYE ends the session.
"""

from collections.abc import Callable
from typing import Annotated, final

import msgspec

from zab_chaos.node.core.messages import Wire
from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.tree.outcomes import Outcome
from zab_chaos.node.tree.requests import Request

VERSION = 2
# A stopped process or a lost machine leaves its connections open. Heartbeats reveal that, on both sides.
HEARTBEAT_MS = 500
SILENCE_MS = 2000
BATCH_BYTES = 2**18  # a message with several requests has no more

REFUSED = "does not serve this client"  # a client's words for REJECTED
BROKE = "the connection broke"  # a client's words for a connection that ended
NO_ANSWER = "no answer within"  # a client's words for requests that it has waited for too long
CLIENT_CLOSED = "the client was closed"  # a client's words for requests that it has not waited for
UNREAD = "it does not read its answers"  # why a node forgets a client without a word: there is no room for one
FORGOTTEN = "requests came before HELLO, or after this node had forgotten the client"  # a reason to reject

Unsigned = Annotated[int, msgspec.Meta(ge=0)]  # a u64: MessagePack has no larger integer


@final
class Hello(Wire, frozen=True, tag="HELLO", forbid_unknown_fields=False):
    """A client's first message.

    `client` is a u64 that the client chose. `seen` is the last zxid it knows of: it is shown nothing older. `fence` is the
    highest seq of its writes whose outcome it does not know, 0 if there is none: when the node serves its next request,
    each of them has taken effect or never will.

    Fields of later versions are accepted, so that a newer client can be told which version this node speaks.
    """

    version: int
    client: Unsigned
    seen: Annotated[Zxid, msgspec.Meta(ge=0)]
    fence: Unsigned = 0


@final
class Requests(Wire, frozen=True, tag="REQUESTS"):
    """Requests as (seq, request), with ascending seq. The client chooses them, and the answers repeat them."""

    items: list[tuple[Unsigned, Request]]


@final
class Bye(Wire, frozen=True, tag="BYE"):
    """The client leaves; its open requests need no answer."""


class Welcome(Wire, frozen=True, tag="WELCOME"):
    """The node has accepted the client; it may send requests."""


class Answers(Wire, frozen=True, tag="ANSWERS"):
    """Answers as (seq, outcome), in the order of the requests."""

    items: list[tuple[int, Outcome]]


class Rejected(Wire, frozen=True, tag="REJECTED"):
    """The node has forgotten this client. `why` is for people."""

    why: str


FromClient = Hello | Requests | Bye
FromNode = Welcome | Answers | Rejected

encode = msgspec.msgpack.Encoder().encode
# These raise msgspec.DecodeError, which says what is wrong and where.
decode_from_client: Callable[[bytes], FromClient] = msgspec.msgpack.Decoder(FromClient).decode
decode_from_node: Callable[[bytes], FromNode] = msgspec.msgpack.Decoder(FromNode).decode
