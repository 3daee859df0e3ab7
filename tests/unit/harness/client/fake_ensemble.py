"""A fake ensemble for client tests: real ports, sessions and trees in threads, with a shared list instead of Zab."""

import threading
from collections.abc import Callable
from typing import Any

import zmq

from zab_chaos.node.clients.sessions import ClientSessions
from zab_chaos.node.core.zxid import ZERO, Zxid, zxid
from zab_chaos.node.events import ClientGone, ClientRequests, ClientUp
from zab_chaos.node.net.clients import ClientPort
from zab_chaos.node.net.keys import Keys
from zab_chaos.node.tree.primary import Primary
from zab_chaos.node.tree.refusal import Refusal
from zab_chaos.node.tree.tree import Tree
from zab_chaos.node.tree.txns import Origin


class FakeNode:
    """One node: `stop` closes its port at once, as a crash would. `delivering` off: it hears of no commit any more.

    `passing` off: what its clients write does not get to the leader.
    """

    def __init__(self, ensemble: "FakeEnsemble", node: int) -> None:
        self.tree = Tree()
        self.delivering = True
        self.passing = True
        self.leaderless = False
        self._ensemble = ensemble
        self._node = node
        self._sessions = ClientSessions(node, 1, self.tree)
        self._sessions.join(ZERO)
        self._port = ClientPort(ensemble.context, "127.0.0.1:0", ensemble.keys)
        self.address = self._port.address
        self._delivered = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"node-{node}")
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of requests that the node has not answered."""
        return self._sessions.waiting

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        poller = zmq.Poller()
        self._port.register(poller)
        while not self._stopping.is_set():
            poller.poll(2)
            self._take()
            with self._ensemble.lock:
                self._lead()
                self._deliver()
            for client, answers in self._sessions.answers():
                self._port.connections.send(client, answers)
        self._port.close()

    def _take(self) -> None:
        for event in self._port.receive():
            if isinstance(event, ClientUp):
                self._sessions.hello(event.client, event.seen, event.fence)
            elif isinstance(event, ClientRequests):
                self._ensemble.witness(event)
                why = self._sessions.receive(event.client, event.items)
                if why is not None:
                    self._port.connections.drop(event.client, why)
                    self._sessions.gone(event.client)
            elif isinstance(event, ClientGone):
                self._sessions.gone(event.client)

    def _lead(self) -> None:
        if self.leaderless:
            self._sessions.leader_lost()
            return
        if not self.passing:
            return
        ensemble = self._ensemble
        for client, seq, since, request in self._sessions.writes():
            last = zxid(1, len(ensemble.log))
            prepared = ensemble.primary.prepare(request, Origin(self._node, 1, client, seq), since, Zxid(last + 1))
            if isinstance(prepared, Refusal):
                self._sessions.refused_by_leader(client, seq, prepared.error, prepared.words, last)
            else:
                ensemble.log.append(prepared)
                ensemble.tree.apply(zxid(1, len(ensemble.log)), prepared)
                ensemble.primary.delivered(prepared)

    def _deliver(self) -> None:
        if self.delivering:
            self._sessions.deliver(zxid(1, self._delivered + 1), self._ensemble.log[self._delivered :])
            self._delivered = len(self._ensemble.log)


class FakeEnsemble:
    """Nodes 1 .. n, with one shared order of transactions."""

    def __init__(self, nodes: int) -> None:
        self.context: zmq.Context[Any] = zmq.Context()
        self.keys = Keys(*zmq.curve_keypair())
        self.lock = threading.Lock()
        self.tree = Tree()
        self.primary = Primary(self.tree)
        self.log: list[bytes] = []
        self.witness: Callable[[ClientRequests], None] = lambda event: None  # sees requests when they arrive
        self.nodes = {node: FakeNode(self, node) for node in range(1, nodes + 1)}

    @property
    def addresses(self) -> dict[int, str]:
        return {number: node.address for number, node in self.nodes.items()}

    def close(self) -> None:
        for node in self.nodes.values():
            node.stop()
        self.context.term()
