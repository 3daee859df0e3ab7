"""What happens outside: what the links and the clients' port tell the server.

All but frames travels as it is to a node in lockstep (`zab_chaos.node.lockstep.wire`).
"""

from typing import Any

import msgspec

from zab_chaos.node.core.messages import Wire
from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.tree.requests import Request


class LinkUp(Wire, frozen=True, tag="up"):
    """A new iteration of the channel with `peer` has begun; messages flow both ways."""

    peer: int
    session: int


class LinkDown(Wire, frozen=True, tag="down"):
    """The iteration is over: nothing of it will be received any more, and nothing can be sent in it."""

    peer: int
    session: int
    why: str


class Received(msgspec.Struct, frozen=True):
    """One frame's messages, in order, of the iteration that the last LinkUp opened."""

    peer: int
    messages: list[Any]


class Refused(Wire, frozen=True, tag="refused"):
    """Something was not let in: `count` times since the last report of its kind; `why` is the latest reason.

    `what` is `frame` (then `peer` is the node it claims to be from, if that is one of ours), `client` (what a client
    sent), `stranger` (a handshake without the key of the port) or `request` (on the control port).
    """

    what: str
    why: str
    peer: int | None
    count: int


LinkEvent = LinkUp | LinkDown | Received | Refused


class ClientUp(Wire, frozen=True, tag="arrived"):
    """A client said HELLO. If its number is known from another connection, that one is over."""

    client: int
    seen: Zxid
    fence: int = 0


class ClientRequests(Wire, frozen=True, tag="requests"):
    """A client's requests, in order."""

    client: int
    items: list[tuple[int, Request]]


class ClientGone(Wire, frozen=True, tag="gone"):
    """A client left, or was dropped."""

    client: int
    why: str


ClientEvent = ClientUp | ClientRequests | ClientGone | Refused
