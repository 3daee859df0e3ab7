"""`python -m zab_chaos.harness.backends.lockstep.lab_node --parent PID`: one node of the lab in a process of its own."""

import sys

import msgspec

from zab_chaos.harness.backends.lockstep import lab_wire as wire
from zab_chaos.harness.machine.die_with_parent import die_with_parent
from zab_chaos.model.lab.messages import Role
from zab_chaos.model.lab.node import LabNode, Outgoing
from zab_chaos.node.lockstep.connection import HarnessConnection, HarnessGone
from zab_chaos.node.net.keys import Keys


def main(arguments: list[str]) -> None:
    die_with_parent(int(arguments[1]))
    given = msgspec.json.decode(sys.stdin.buffer.readline(), type=wire.Given)
    keys = Keys(given.public.encode(), given.secret.encode())
    line = HarnessConnection(f"{given.id}-1", keys, given.address, wire.decode_request, tied=True)
    node = LabNode(given.id, given.nodes, given.seed)
    answer = wire.Answer()
    try:
        while True:
            line.send(answer)
            answer = answered(node, line.receive())
    except HarnessGone:
        line.close()


def answered(node: LabNode, request: wire.Request) -> wire.Answer:
    if isinstance(request, wire.Tell):
        state = wire.State(node.current_epoch, node.accepted_epoch, node.last_committed, node.history)
        return wire.Answer([], Role(node.role), node.synced, state)
    return wire.Answer(taken(node, request), node.role, node.synced)


def taken(node: LabNode, request: wire.Start | wire.Receive | wire.Tick | wire.Propose) -> Outgoing:
    """The messages that it causes."""
    match request:
        case wire.Start():
            return node.start(request.now)
        case wire.Receive():
            return node.receive(request.source, request.message, request.now)
        case wire.Tick():
            return node.tick(request.now)
        case wire.Propose():
            return node.propose(request.payload, request.now)


if __name__ == "__main__":
    main(sys.argv[1:])
