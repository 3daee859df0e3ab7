"""The db-19 lab with one OS process for each node: the simulator decides when messages are delivered."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import msgspec
import zmq

from zab_chaos.harness.backends.lockstep import lab_wire as wire
from zab_chaos.harness.backends.lockstep.hub import Hub
from zab_chaos.harness.backends.processes.life import environment
from zab_chaos.harness.errors import HarnessError
from zab_chaos.model.lab import ArrivalObserver, LabArguments, LabSimulator, Message, Role, Txn
from zab_chaos.model.lab.node import Outgoing
from zab_chaos.node.core.zxid import ZERO, Zxid
from zab_chaos.node.net.keys import Keys

END_SECONDS = 10.0  # limit for a process to end by itself


class RemoteLabNode:
    """Implements `zab_chaos.model.lab.simulator.LabNodeInterface` with a process.

    Use it from the main thread: the process dies with the thread that started it.
    """

    life = 1

    def __init__(self, hub: Hub[wire.LabAnswer], keys: Keys, node_id: int, nodes: int, seed: int) -> None:
        self.id = self.node = node_id
        self.role = Role.LOOKING
        self.synced = False
        self._hub = hub
        self._state: wire.LabState | None = None
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "zab_chaos.harness.backends.lockstep.lab_node", "--parent", str(os.getpid())],
                stdin=subprocess.PIPE, env=environment(), start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise HarnessError(f"node {node_id} cannot be started: {error.strerror or error}") from error
        arguments = wire.NodeArguments(node_id, nodes, seed, hub.address, keys.public.decode(), keys.secret.decode())
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(arguments) + b"\n")
        self._process.stdin.flush()
        self._connected = False

    @property
    def code(self) -> int | None:
        return self._process.poll()

    def last_words(self) -> str:
        return ""  # the process writes to our stderr

    # ---- inputs ----

    def start(self, now: int) -> Outgoing:
        return self._ask(wire.LabStart(now)).sent

    def receive(self, source: int, message: Message, now: int) -> Outgoing:
        return self._ask(wire.LabReceive(source, message, now)).sent

    def tick(self, now: int) -> Outgoing:
        return self._ask(wire.LabTick(now)).sent

    def propose(self, payload: bytes, now: int) -> Outgoing:
        return self._ask(wire.LabPropose(payload, now)).sent

    def _ask(self, request: wire.LabRequest) -> wire.LabAnswer:
        if not self._connected:
            self._hub.receive(self)  # the first message shows that the process is connected
            self._connected = True
        answer = self._hub.ask(self, request)
        self.role, self.synced, self._state = answer.role, answer.synced, answer.state
        return answer

    # ---- state, for the dump ----

    @property
    def state(self) -> wire.LabState:
        state = self._state or self._ask(wire.LabGetState()).state
        assert state is not None
        return state

    @property
    def current_epoch(self) -> int:
        return self.state.current_epoch

    @property
    def accepted_epoch(self) -> int:
        return self.state.accepted_epoch

    @property
    def last_committed(self) -> Zxid:
        return self.state.last_committed

    @property
    def history(self) -> list[Txn]:
        return self.state.history

    def last_zxid(self) -> Zxid:
        return self.history[-1].zxid if self.history else ZERO

    def committed(self) -> list[Txn]:
        return [txn for txn in self.history if txn.zxid <= self.last_committed]

    def close(self) -> None:
        """End the process by closing its stdin; kill it if it does not end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def lab_in_lockstep(arguments: LabArguments, observe: ArrivalObserver | None = None) -> Iterator[LabSimulator]:
    """Yield a simulator of the lab whose nodes are processes, which end with the block. Raises HarnessError."""
    keys = Keys(*zmq.curve_keypair())
    with ExitStack() as stack:
        hub = Hub(keys, wire.decode_answer)
        stack.callback(hub.close)

        def make(node_id: int, nodes: int, seed: int) -> RemoteLabNode:
            node = RemoteLabNode(hub, keys, node_id, nodes, seed)
            stack.callback(node.close)
            return node

        yield LabSimulator(arguments, observe, make)
