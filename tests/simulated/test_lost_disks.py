"""Promises of a lost disk: the oracle finds leaders that count the node, or readmit it, without asking the other members."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.node.core.test_lost_disks import ConfirmsOnPaper
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.simulator.backend import plan_of
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.node.core.broadcast import Broadcasting
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
    done = simulate(scenario, 1, None, replace(plan_of(scenario, None), peer_type=peer))
    assert done.outcome == "finished"
    assert done.verdict.violated == violated, done.verdict.reasons
