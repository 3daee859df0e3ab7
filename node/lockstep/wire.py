"""The protocol between the harness and a node in lockstep: a request, an answer, a request, ...

The process begins with an Answer, which tells that it is there. From then on it only does what a request asks. The answer
lists the effects on the simulated world, in order, since the simulator draws a delay for each frame and a time for each
sync. The process stops (`StopPoint`) where the disk writes, at a point where it is to be paused or killed, and at the end
of the request. Frames are packed as in `zab_chaos.node.channel.frame`; the simulator assigns their session and sequence
numbers.
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
    """The times of a request, in ns.

    `host`: the simulator's time. `node`: this node's clock. `stamp`: the latest time stamp written to any file.
    """

    host: int
    node: int
    stamp: int


# ---- requests ----


class Frame(Wire, frozen=True, tag="frame"):
    """A frame in a round, in place of `zab_chaos.node.events.Received`."""

    peer: int
    data: bytes


class BootRequest(Wire, frozen=True, tag="boot"):
    """Recover from the disk.

    `pid`: the simulator's number for this process; the real one would differ in each run.
    """

    when: Timestamps
    pid: int


class StartRequest(Wire, frozen=True, tag="start"):
    when: Timestamps


class RoundRequest(Wire, frozen=True, tag="round"):
    when: Timestamps
    links: list[Frame | LinkUp | LinkDown | Refused]
    clients: list[ClientEvent]


class GoOnRequest(Wire, frozen=True, tag="go-on"):
    """Continue after StopPoint.SYNCING or StopPoint.PAUSED."""

    when: Timestamps


class DueRequest(Wire, frozen=True, tag="due"):
    """Execute what earlier commands scheduled and is due now."""

    when: Timestamps


class CommandRequest(Wire, frozen=True, tag="command"):
    """Execute a command of the control port. `frames`: by peer, the number of frames received so far."""

    when: Timestamps
    name: str
    arguments: dict[str, Any]
    frames: dict[int, int]


class ChannelsRequest(Wire, frozen=True, tag="channels"):
    """Trace the runs of frames that have ended."""

    when: Timestamps
    runs: list[ChannelRun]


class CloseRequest(Wire, frozen=True, tag="close"):
    """End the life: SIGTERM came, or a command asked for it."""

    when: Timestamps
    runs: list[ChannelRun]
    why: str


LockstepRequest = (
    BootRequest
    | StartRequest
    | RoundRequest
    | GoOnRequest
    | DueRequest
    | CommandRequest
    | ChannelsRequest
    | CloseRequest
)


# ---- effects on the simulated world ----


class SendEffect(Wire, frozen=True, tag="send"):
    peer: int
    frame: bytes


class ResetEffect(Wire, frozen=True, tag="reset"):
    peer: int
    why: str


class AnswersEffect(Wire, frozen=True, tag="answers"):
    client: int
    items: list[tuple[int, Outcome]]


class DropEffect(Wire, frozen=True, tag="drop"):
    client: int
    why: str


class SpendEffect(Wire, frozen=True, tag="spend"):
    """A sync whose time has not passed yet, on a disk whose syncs take `slow_ms` longer."""

    slow_ms: float


class RateEffect(Wire, frozen=True, tag="rate"):
    rate: float


class JumpEffect(Wire, frozen=True, tag="jump"):
    nanoseconds: int


class SettleEffect(Wire, frozen=True, tag="settle"):
    """Everything sent before has left the process."""


class StopEffect(Wire, frozen=True, tag="stop"):
    """The life is to end after this round."""

    why: str


LockstepEffect = (
    SendEffect
    | ResetEffect
    | AnswersEffect
    | DropEffect
    | SpendEffect
    | RateEffect
    | JumpEffect
    | SettleEffect
    | StopEffect
)


class StopPoint(IntEnum):
    """Where the process has stopped."""

    OVER = 0  # at the end of the request
    SYNCING = 1  # the disk is writing; GoOn follows when it is done
    PAUSED = 2  # at a point where the process is to be stopped; GoOn follows when it runs again
    DEAD = 3  # at a point where the process is to be killed; it waits for that
    ENDED = 4  # at its end, by its own decision, with `code`


class NodeStatus(Wire, frozen=True):
    """The state of the node that the simulator needs.

    `wakes_at`, `patience` and `command` are the times, by the node's clock, at which the core, the application and the
    commands have something to do; None: never.
    """

    in_broadcast: bool = False
    wakes_at: int = 0
    patience: int | None = None
    command: int | None = None
    pausing: bool = False


class LockstepAnswer(Wire, frozen=True):
    """What the request did. `stamp`: the latest time stamp that this node has written.

    `slow_ms`: the disk's, for StopPoint.SYNCING. `reply`: the answer to a command; `refused`: why it was not executed.
    `code`: the exit code, for StopPoint.ENDED.
    """

    stop: StopPoint
    effects: list[LockstepEffect] = msgspec.field(default_factory=list)
    stamp: int = 0
    status: NodeStatus = NodeStatus()
    slow_ms: float = 0.0
    reply: dict[str, Any] | None = None
    refused: str | None = None
    code: int = 0


# Both raise msgspec.DecodeError.
decode_request: Callable[[bytes], LockstepRequest] = msgspec.msgpack.Decoder(LockstepRequest).decode
decode_answer: Callable[[bytes], LockstepAnswer] = msgspec.msgpack.Decoder(LockstepAnswer).decode
