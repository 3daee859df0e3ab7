"""The clients' protocol: MessagePack frames, one message each, many requests or answers in one message.

A client says HELLO with its number, the last zxid it has seen and its fence, and is told WELCOME; then REQUESTS go one way and
ANSWERS the other, in the same order. Whatever a node does not accept is answered REJECTED, with words, and that client
is forgotten: it may begin again with HELLO. BYE ends politely.
"""

from typing import Annotated, final

import msgspec

from zab_chaos.node.core.messages import Wire
from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.tree.forwarding import Answer, Forward
from zab_chaos.node.tree.outcomes import Failed, Ok, Outcome, Stat, Unknown
from zab_chaos.node.tree.requests import Request

VERSION = 2
# A stopped process, or a machine that is gone, leaves its connections open: heartbeats show it, on both sides.
HEARTBEAT_MS = 500
SILENCE_MS = 2000

Unsigned = Annotated[int, msgspec.Meta(ge=0)]  # a u64: MessagePack has no larger integer


@final
class Hello(Wire, frozen=True, tag="HELLO", forbid_unknown_fields=False):
    """`client` is a u64 that the client chose; `seen` the last zxid it knows of: it is shown nothing older.

    `fence`: the highest seq of this client's writes whose outcome it does not know; 0 if there is none. By the time at which
    the node serves its next request, each of them has taken effect, or never will.

    Fields of later versions are let through, so that a newer client can be told which version is spoken here.
    """

    version: int
    client: Unsigned
    seen: Annotated[Zxid, msgspec.Meta(ge=0)]
    fence: Unsigned = 0


@final
class Requests(Wire, frozen=True, tag="REQUESTS"):
    """(seq, request), with ascending seq. The client chooses them; they come back with the answers."""

    items: list[tuple[Unsigned, Request]]


@final
class Bye(Wire, frozen=True, tag="BYE"):
    """The client is done; what it still waits for need not be answered."""


class Welcome(Wire, frozen=True, tag="WELCOME"):
    """The node has taken the client up; it may send requests."""


class Answers(Wire, frozen=True, tag="ANSWERS"):
    """(seq, outcome), in the order of the requests."""

    items: list[tuple[int, Outcome]]


class Rejected(Wire, frozen=True, tag="REJECTED"):
    """The node has forgotten this client. `why` is for people."""

    why: str


FromClient = Hello | Requests | Bye
FromNode = Welcome | Answers | Rejected

encode = msgspec.msgpack.Encoder().encode
_from_client: msgspec.msgpack.Decoder[FromClient] = msgspec.msgpack.Decoder(FromClient)
_from_node: msgspec.msgpack.Decoder[FromNode] = msgspec.msgpack.Decoder(FromNode)


def decode_from_client(data: bytes) -> FromClient:
    """Raises msgspec.DecodeError, whose words say what is wrong and where."""
    return _from_client.decode(data)


def decode_from_node(data: bytes) -> FromNode:
    """Raises msgspec.DecodeError."""
    return _from_node.decode(data)


__all__ = [
    "HEARTBEAT_MS",
    "SILENCE_MS",
    "VERSION",
    "Answer",
    "Answers",
    "Bye",
    "Failed",
    "Forward",
    "FromClient",
    "FromNode",
    "Hello",
    "Ok",
    "Outcome",
    "Rejected",
    "Requests",
    "Stat",
    "Unknown",
    "Welcome",
    "decode_from_client",
    "decode_from_node",
    "encode",
]
