"""Promises of a lost disk: the oracle finds leaders that count the node, or readmit it, without asking the other members."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.node.core.test_lost_disks import ConfirmsOnPaper
from zab_chaos.faults.scenario import Scenario, parse
from zab_chaos.harness.backends.simulator.backend import plan_of
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.node.components import Components
from zab_chaos.node.core.broadcast import Broadcasting
from zab_chaos.node.core.following import Following
from zab_chaos.node.core.peer import Peer


class AdmitsOnPaper(Broadcasting):
    def update_admissions(self, peer: int) -> None:
        if self.followers[peer].amnesiac:
            self.send_member(peer, self.members())


class AdmitsUnasked(Peer):
    """A node that lost its disk is a member again as soon as it has joined."""

    broadcasting_type = AdmitsOnPaper


@pytest.mark.parametrize(
    ("peer", "violated"), [(Peer, []), (ConfirmsOnPaper, ["promises"]), (AdmitsUnasked, ["promises"])]
)
def test_a_missing_question_to_the_members_is_found(
    peer: type[Peer], violated: list[str], shipped: Callable[[str], Scenario]
) -> None:
    scenario = shipped("disk-loss-on-joining")
    done = simulate(scenario, 1, None, replace(plan_of(scenario, None), parts=Components(peer=peer)))
    assert done.outcome == "finished"
    assert done.verdict.violated == violated, done.verdict.reasons


class ForgetsItsAdmission(Following):
    def become_member(self, epoch: int) -> None:
        if self.is_current:
            super().become_member(epoch)


class NeedsItsLeader(Peer):
    """A node that loses its leader while its disk writes its admission goes on as a node without memory."""

    following_type = ForgetsItsAdmission


# While node 2 is writing, it is sent its admission; the leader then misses node 1 and opens a new session with node 2.
ADMITTED_LATE = """
[scenario]
name = "admitted-late"
duration = 20
[workload]
rate = 100
[[fault]]
at = 1
do = "wipe"
target = "node-2"
for = 1
[[fault]]
at = 1.5
do = "partition"
shape = "isolate"
target = "node-2"
for = 1.5
[[fault]]
at = 2.3
do = "slow-disk"
target = "node-2"
ms = 300
for = 4
[[fault]]
at = 2.3
do = "crash-at"
target = "node-1"
point = "after-send:ACK-CONFIRM"
for = 17
"""


@pytest.mark.parametrize(("peer", "violated"), [(Peer, []), (NeedsItsLeader, ["progress"])])
def test_a_node_whose_admission_is_durable_completes_a_quorum(peer: type[Peer], violated: list[str]) -> None:
    scenario = parse(ADMITTED_LATE)
    done = simulate(scenario, 1, None, replace(plan_of(scenario, None), parts=Components(peer=peer)))
    assert done.outcome == "finished"
    assert done.verdict.violated == violated, done.verdict.reasons
