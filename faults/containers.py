"""Faults for containers only: disconnecting a node from its network, and limiting its CPU time."""

from collections.abc import Mapping, Sequence
from typing import Any

from zab_chaos.faults import shapes
from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.cluster import Contained
from zab_chaos.faults.cut_evidence import LinkWitness, was_crossed
from zab_chaos.faults.kind import Confirmation, Fault, FaultContext, FaultError, HealOrder, Key, Kind
from zab_chaos.faults.process import node_names
from zab_chaos.faults.rules import number

STEP = 0.1  # seconds between two readings of the kernel's counter


class InContainers(Fault):
    """Base of faults that need containers. Raises FaultError if the nodes are in none.

    A scenario is refused before anything starts; this error is for faults that are injected by hand.
    """

    def __init__(self, context: FaultContext, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        super().__init__(context, nodes, params)
        if not isinstance(context.cluster, Contained):
            raise FaultError("this fault needs nodes in containers: --on containers")
        self.containers: Contained = context.cluster


class NetDisconnect(InContainers):
    """A pulled cable: the node keeps the harness's network only; the interface and address for other nodes are gone.

    toxiproxy can't do this: through a proxy there is always an open connection to something. Confirmed like a partition,
    by the receivers' frame counters.
    """

    def __init__(self, context: FaultContext, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        super().__init__(context, nodes, params)
        self.pairs = shapes.touching(context.cluster.nodes, nodes, "both")
        self.witness = LinkWitness(context.cluster, self.pairs, context.host)
        self.quiet = False
        self.links: list[dict[str, Any]] = []

    def inject(self) -> None:
        for node in self.nodes:
            self.containers.unplug(node)
        self.quiet = self.witness.settle(self.context.patience)

    def injected(self) -> Confirmation:
        off = [node for node in self.nodes if not self.containers.plugged_in(node)]
        return Confirmation(self.quiet and len(off) == len(self.nodes), {"off the network": off, "quiet": self.quiet})

    def heal(self) -> None:
        self.links = self.witness.links()  # before the first frame can arrive again
        for node in self.nodes:
            self.containers.plug_in(node)

    def recovered(self) -> Confirmation:
        silent = bool(self.links) and not was_crossed(self.links)
        on = [node for node in self.nodes if self.cluster.alive(node) and self.containers.plugged_in(node)]
        return Confirmation(silent and on == [n for n in self.nodes if self.cluster.alive(n)], {"links": self.links})

    def describe(self) -> str:
        return f"{node_names(self.nodes)} off the network"


class CpuLimit(InContainers):
    """A limit of CPU time: the kernel lets the node run for only a part of each tenth of a second. A restart removes it.

    Confirmed by the kernel's count of the periods in which the node wanted more than it got: a limit that is never reached
    is no fault. At the healing the kernel must still have the limit, and then have it no more.
    """

    def inject(self) -> None:
        self.pids = {node: self.cluster.pid(node) for node in self.nodes}
        self.before = {node: self.containers.throttled(node) for node in self.nodes}
        for node in self.nodes:
            self.containers.limit_cpu(node, self.params["cores"])

    def injected(self) -> Confirmation:
        deadline = self.context.host.now() + self.context.patience
        throttled = self._throttled()
        while min(throttled.values()) == 0 and self.context.host.now() < deadline:
            self.context.host.sleep(STEP)
            throttled = self._throttled()
        evidence = {str(node): {"throttled": periods} for node, periods in throttled.items()}
        return Confirmation(min(throttled.values()) > 0, evidence)

    def heal(self) -> None:
        self.healed = [node for node in self.nodes if self.cluster.alive(node)]
        self.lost = [
            node for node in self.healed if not self._limited(node) and self.cluster.pid(node) == self.pids[node]
        ]
        for node in self.healed:
            self.containers.limit_cpu(node, None)

    def recovered(self) -> Confirmation:
        still = [node for node in self.healed if self._limited(node)]
        evidence = {"healed": self.healed, "not limited any more": self.lost, "still limited": still}
        return Confirmation(not self.lost and not still, evidence)

    def _limited(self, node: int) -> bool:
        return self.cluster.alive(node) and self.containers.cpu_limited(node)

    def describe(self) -> str:
        return f"{node_names(self.nodes)}: {self.params['cores']:g} cores"

    def _throttled(self) -> dict[int, int]:
        """Return by node the number of periods in which it was throttled since the injection."""
        return {node: self.containers.throttled(node) - self.before[node] for node in self.nodes}


NEEDS_CONTAINERS = frozenset({Ability.CONTAINERS})

KINDS = (
    Kind(
        name="net-disconnect",
        doc="disconnect the container from its network: interface, addresses and connections are gone (only on containers)",
        make=NetDisconnect,
        heal_order=HealOrder.NETWORK,
        needs=NEEDS_CONTAINERS,
    ),
    Kind(
        name="cpu-limit",
        doc="limit the CPU time of the container (only on containers)",
        make=CpuLimit,
        keys=(Key(name="cores", rule=number(0.01, 64, "cores"), doc="the limit; 0.1 is a tenth of one core"),),
        impairs=False,
        needs=NEEDS_CONTAINERS,
    ),
)
