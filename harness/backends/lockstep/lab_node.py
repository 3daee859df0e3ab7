"""`python -m zab_chaos.harness.backends.lockstep.lab_node --parent PID`: one node of the lab in a process of its own."""

import sys

import msgspec

from zab_chaos.harness.backends.lockstep import lab_wire as wire
from zab_chaos.harness.machine.die_with_parent import die_with_parent
from zab_chaos.model.lab.messages import Role
from zab_chaos.model.lab.node import LabNode, Outgoing
from zab_chaos.node.lockstep.connection import HarnessConnection, HarnessGone
from zab_chaos.node.net.keys import Keys


def main(argv: list[str]) -> None:
    die_with_parent(int(argv[1]))
    arguments = msgspec.json.decode(sys.stdin.buffer.readline(), type=wire.NodeArguments)
    keys = Keys(arguments.public.encode(), arguments.secret.encode())
    harness = HarnessConnection(f"{arguments.id}-1", keys, arguments.address, wire.decode_request, tied=True)
    node = LabNode(arguments.id, arguments.nodes, arguments.seed)
    answer = wire.LabAnswer()
    try:
        while True:
            harness.send(answer)
            answer = answer_to(node, harness.receive())
    except HarnessGone:
        harness.close()


def answer_to(node: LabNode, request: wire.LabRequest) -> wire.LabAnswer:
    """Execute a request on the node, and return the answer."""
    if isinstance(request, wire.LabGetState):
        state = wire.LabState(node.current_epoch, node.accepted_epoch, node.last_committed, node.history)
        return wire.LabAnswer([], Role(node.role), node.synced, state)
    return wire.LabAnswer(_apply(node, request), node.role, node.synced)


def _apply(node: LabNode, request: wire.LabStart | wire.LabReceive | wire.LabTick | wire.LabPropose) -> Outgoing:
    """Give an input to the node, and return the messages that it sends."""
    match request:
        case wire.LabStart():
            return node.start(request.now)
        case wire.LabReceive():
            return node.receive(request.source, request.message, request.now)
        case wire.LabTick():
            return node.tick(request.now)
        case wire.LabPropose():
            return node.propose(request.payload, request.now)


if __name__ == "__main__":
    main(sys.argv[1:])
