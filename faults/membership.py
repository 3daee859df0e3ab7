"""The fault of a changed membership: nodes are removed from the ensemble's members, and later added again."""

from collections.abc import Mapping, Sequence
from typing import Any

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.cluster import Reconfigurable
from zab_chaos.faults.kind import Confirmation, Fault, FaultContext, FaultError, HealOrder, Kind
from zab_chaos.faults.process import node_names


class RemoveMember(Fault):
    """Nodes that run on, and are no members any more. Confirmed by the configuration that the ensemble has committed."""

    def __init__(self, context: FaultContext, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        super().__init__(context, nodes, params)
        if not isinstance(context.cluster, Reconfigurable):
            raise FaultError("this fault needs an ensemble whose members can be changed: --on zookeeper")
        self.ensemble: Reconfigurable = context.cluster
        self.members: list[int] = []

    def inject(self) -> None:
        self.members = self.ensemble.remove_members(self.nodes, self.context.patience)

    def injected(self) -> Confirmation:
        return Confirmation(not {*self.nodes} & {*self.members}, {"members": self.members})

    def heal(self) -> None:
        self.members = self.ensemble.add_members(self.nodes, self.context.patience)

    def recovered(self) -> Confirmation:
        return Confirmation({*self.nodes} <= {*self.members}, {"members": self.members})

    def describe(self) -> str:
        return f"{node_names(self.nodes)} removed from the members"


KINDS = (
    Kind(
        name="remove-member",
        doc="remove the targets from the ensemble's members, while they run on; healed by adding them again",
        make=RemoveMember,
        heal_order=HealOrder.MEMBERS,
        needs=frozenset({Ability.MEMBERS}),
        draw=lambda random: {},
    ),
)
