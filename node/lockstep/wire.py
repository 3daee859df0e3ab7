"""What the harness and a node in lockstep say to each other: a request, an answer, a request, ...

The process begins with an Answer of its own: it is there. From then on it does nothing but what a request asks, and says in
the answer what that asks of the world: in order, since the world draws a delay for each frame and a time for each sync. It
stops (`StopPoint`) where the disk writes, at a point where it is to be paused or to die, and at the end of what was asked.
Frames travel as `zab_chaos.node.channel.frame` packs them; the numbers of their session are the world's.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import msgspec

from zab_chaos.node.channel.runs import ChannelRun
from zab_chaos.node.core.messages import Wire
from zab_chaos.node.events import ClientEvent, LinkDown, LinkUp, Refused
from zab_chaos.node.tree.outcomes import Outcome


class Timestamps(Wire, frozen=True):
    """`host`: the world's time, ns; `node`: this node's clock, ns; `stamp`: the latest that was written down anywhere."""

    host: int
    node: int
    stamp: int


# ---- requests ----


class Frame(Wire, frozen=True, tag="frame"):
    """For a round: in the place of what it holds, `zab_chaos.node.events.Received`."""

    peer: int
    data: bytes


class Boot(Wire, frozen=True, tag="boot"):
    """Recover from the disk. `pid`: what the world calls this life's process; the real one would differ each time."""

    when: Timestamps
    pid: int


class Start(Wire, frozen=True, tag="start"):
    when: Timestamps


class Round(Wire, frozen=True, tag="round"):
    when: Timestamps
    links: list[Frame | LinkUp | LinkDown | Refused]
    clients: list[ClientEvent]


class GoOn(Wire, frozen=True, tag="go-on"):
    """After a StopPoint.SYNCING or StopPoint.PAUSED."""

    when: Timestamps


class Due(Wire, frozen=True, tag="due"):
    """Do what an earlier command asked for by now."""

    when: Timestamps


class Command(Wire, frozen=True, tag="command"):
    """`frames`: taken so far, by peer."""

    when: Timestamps
    name: str
    arguments: dict[str, Any]
    frames: dict[int, int]


class Channels(Wire, frozen=True, tag="channels"):
    """Runs of frames that ended."""

    when: Timestamps
    runs: list[ChannelRun]


class Close(Wire, frozen=True, tag="close"):
    """End: SIGTERM came, or a command said so."""

    when: Timestamps
    runs: list[ChannelRun]
    why: str


Request = Boot | Start | Round | GoOn | Due | Command | Channels | Close


# ---- what is asked of the world ----


class Send(Wire, frozen=True, tag="send"):
    peer: int
    frame: bytes


class Reset(Wire, frozen=True, tag="reset"):
    peer: int
    why: str


class Answers(Wire, frozen=True, tag="answers"):
    client: int
    items: list[tuple[int, Outcome]]


class Drop(Wire, frozen=True, tag="drop"):
    client: int
    why: str


class Spend(Wire, frozen=True, tag="spend"):
    """A sync for which no time has passed yet, on a disk that is `slow_ms` slower."""

    slow_ms: float


class Rate(Wire, frozen=True, tag="rate"):
    rate: float


class Jump(Wire, frozen=True, tag="jump"):
    nanoseconds: int


class Settle(Wire, frozen=True, tag="settle"):
    """What was sent before has left the process."""


class Stop(Wire, frozen=True, tag="stop"):
    """The life is to end after this round."""

    why: str


Effect = Send | Reset | Answers | Drop | Spend | Rate | Jump | Settle | Stop


class StopPoint(IntEnum):
    OVER = 0  # what was asked is done
    SYNCING = 1  # the disk writes now; GoOn when it has
    PAUSED = 2  # a point at which it is to be stopped; GoOn when it runs again
    DEAD = 3  # a point at which it is to be killed; it waits for that
    ENDED = 4  # it ends by its own decision, with `code`


class NodeStatus(Wire, frozen=True):
    """When the node wants its clock looked at, in its own time (None: no need); and what the world must know of it."""

    in_broadcast: bool = False
    wakes_at: int = 0
    patience: int | None = None
    command: int | None = None
    pausing: bool = False


class Answer(Wire, frozen=True):
    """`stamp`: the latest that this node has written down. `slow_ms`: the disk's, for StopPoint.SYNCING. `reply`: a command's;
    `refused`: why it was not taken. `code`: the exit code, for StopPoint.ENDED."""

    stop: StopPoint
    effects: list[Effect] = msgspec.field(default_factory=list)
    stamp: int = 0
    status: NodeStatus = NodeStatus()
    slow_ms: float = 0.0
    reply: dict[str, Any] | None = None
    refused: str | None = None
    code: int = 0


# Both raise msgspec.DecodeError.
decode_request: Callable[[bytes], Request] = msgspec.msgpack.Decoder(Request).decode
decode_answer: Callable[[bytes], Answer] = msgspec.msgpack.Decoder(Answer).decode
