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


class Start(Wire, frozen=True, tag="start"):
    now: int


class Receive(Wire, frozen=True, tag="receive"):
    source: int
    message: Message
    now: int


class Tick(Wire, frozen=True, tag="tick"):
    now: int


class Propose(Wire, frozen=True, tag="propose"):
    payload: bytes
    now: int


class GetState(Wire, frozen=True, tag="tell"):
    """Asks for the state, for the dump."""


Request = Start | Receive | Tick | Propose | GetState


class State(Wire, frozen=True):
    """The parts of db-19's state that the dump has."""

    current_epoch: int
    accepted_epoch: int
    last_committed: Zxid
    history: list[Txn]


class Answer(Wire, frozen=True):
    """The answer to a request: the messages to send, as (destination, message) in order, and the node's role.

    `state`: only in the answer to GetState.
    """

    sent: list[tuple[int, Message]] = msgspec.field(default_factory=list)
    role: Role = Role.LOOKING
    synced: bool = False
    state: State | None = None


# Both raise msgspec.DecodeError.
decode_request: Callable[[bytes], Request] = msgspec.msgpack.Decoder(Request).decode
decode_answer: Callable[[bytes], Answer] = msgspec.msgpack.Decoder(Answer).decode
