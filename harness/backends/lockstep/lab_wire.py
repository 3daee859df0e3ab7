"""The messages between the lab's simulator and a lab node in a process of its own."""

from collections.abc import Callable

import msgspec

from zab_chaos.model.lab.messages import Message, Role, Txn
from zab_chaos.node.core.messages import Wire
from zab_chaos.node.core.zxid import Zxid


class NodeArguments(msgspec.Struct, frozen=True):
    """The first line on the process's stdin: the node's identity, and the address and key pair for the simulator."""

    id: int
    nodes: int
    seed: int
    address: str
    public: str
    secret: str


class LabStart(Wire, frozen=True, tag="start"):
    now: int


class LabReceive(Wire, frozen=True, tag="receive"):
    source: int
    message: Message
    now: int


class LabTick(Wire, frozen=True, tag="tick"):
    now: int


class LabPropose(Wire, frozen=True, tag="propose"):
    payload: bytes
    now: int


class LabGetState(Wire, frozen=True, tag="tell"):
    """Asks for the state, for the dump."""


LabRequest = LabStart | LabReceive | LabTick | LabPropose | LabGetState


class LabState(Wire, frozen=True):
    """The parts of db-19's state that the dump has."""

    current_epoch: int
    accepted_epoch: int
    last_committed: Zxid
    history: list[Txn]


class LabAnswer(Wire, frozen=True):
    """The answer to a request: the messages to send, as (destination, message) in order, and the node's role.

    `state`: only in the answer to GetState.
    """

    sent: list[tuple[int, Message]] = msgspec.field(default_factory=list)
    role: Role = Role.LOOKING
    synced: bool = False
    state: LabState | None = None


# Both raise msgspec.DecodeError.
decode_request: Callable[[bytes], LabRequest] = msgspec.msgpack.Decoder(LabRequest).decode
decode_answer: Callable[[bytes], LabAnswer] = msgspec.msgpack.Decoder(LabAnswer).decode
