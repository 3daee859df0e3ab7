"""What happens outside: what the links and the clients' port tell the server."""

from dataclasses import dataclass
from typing import Any

from node.core.zxid import Zxid
from node.tree.requests import Request


@dataclass(frozen=True, slots=True)
class LinkUp:
    """A new iteration of the channel with `peer` has begun; messages flow both ways."""

    peer: int
    session: int


@dataclass(frozen=True, slots=True)
class LinkDown:
    """The iteration is over: nothing of it will be received any more, and nothing can be sent in it."""

    peer: int
    session: int
    why: str


@dataclass(frozen=True, slots=True)
class Received:
    """One frame's messages, in order, of the iteration that the last LinkUp opened."""

    peer: int
    messages: list[Any]


@dataclass(frozen=True, slots=True)
class Refused:
    """Something was not let in: `count` times since the last report of its kind; `why` is the latest reason.

    `what` is `frame` (then `peer` is the node it claims to be from, if that is one of ours), `stranger` (a handshake
    without the run's key) or `request` (on the control port).
    """

    what: str
    why: str
    peer: int | None
    count: int


LinkEvent = LinkUp | LinkDown | Received | Refused


@dataclass(frozen=True, slots=True)
class ClientUp:
    """A client said HELLO. If its number is known from another connection, that one is over."""

    client: int
    seen: Zxid


@dataclass(frozen=True, slots=True)
class ClientRequests:
    """A client's requests, in order."""

    client: int
    items: list[tuple[int, Request]]


@dataclass(frozen=True, slots=True)
class ClientGone:
    """A client left, or was dropped."""

    client: int
    why: str


ClientEvent = ClientUp | ClientRequests | ClientGone | Refused
