"""The events that the links and the client port report to the server.

In lockstep they are sent to the node's process unchanged, except frames (`zab_chaos.node.lockstep.wire`).
"""

from typing import Any

import msgspec

from zab_chaos.node.core.messages import Wire
from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.tree.requests import Request

# How `LinkDown.why` begins if a frame is to blame: one that could not be sent, or one that arrived.
FRAME_TOO_LARGE = "a frame to send has"
BAD_FRAME = "a bad frame"


class LinkUp(Wire, frozen=True, tag="up"):
    """A new iteration of the channel with `peer` has begun; messages flow both ways."""

    peer: int
    session: int


class LinkDown(Wire, frozen=True, tag="down"):
    """The iteration has ended: nothing more of it will be received, and nothing can be sent in it."""

    peer: int
    session: int
    why: str


class Received(msgspec.Struct, frozen=True):
    """The messages of one frame, in order, in the iteration that the last LinkUp opened. A part of a frame brings none."""

    peer: int
    messages: list[Any]


class Refused(Wire, frozen=True, tag="refused"):
    """Something was refused, `count` times since the last report of its kind; `why` is the latest reason.

    `what` is `frame` (`peer` is then the node that it claims to be from, if it is one of the ensemble), `client` (a
    client's message), `stranger` (a handshake without the key of the port) or `request` (on the control port).
    """

    what: str
    why: str
    peer: int | None
    count: int


LinkEvent = LinkUp | LinkDown | Received | Refused


class ClientUp(Wire, frozen=True, tag="arrived"):
    """A client sent HELLO. If its number is known from another connection, that one has ended."""

    client: int
    seen: Zxid
    fence: int = 0


class ClientRequests(Wire, frozen=True, tag="requests"):
    """Requests of a client, in order."""

    client: int
    items: list[tuple[int, Request]]


class ClientGone(Wire, frozen=True, tag="gone"):
    """A client left or was dropped."""

    client: int
    why: str


ClientEvent = ClientUp | ClientRequests | ClientGone | Refused
