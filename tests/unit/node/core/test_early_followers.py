"""A node leads at once when a quorum has decided for it before it has decided itself."""

from zab_chaos.model.transcripts.scripted_ensemble import ScriptedEnsemble
from zab_chaos.node.core.looking import Looking
from zab_chaos.node.core.messages import Cepoch, Phase, Role, Vote
from zab_chaos.node.core.zxid import ZERO


def test_a_node_that_a_quorum_follows_leads_although_it_votes_for_another() -> None:
    net = ScriptedEnsemble(5)
    net.hold("VOTE")
    net.start(1, 2, 3, 4, 5)
    four = net.peer(4)
    four.step(5, Vote(four.round, 5, ZERO, 0, Role.LOOKING, False))
    assert isinstance(four.state, Looking)
    assert four.state.vote.leader == 5
    four.step(1, Cepoch(0, False))
    four.step(2, Cepoch(0, True))
    assert four.role == Role.LOOKING, "one without memory is nobody's quorum"
    four.step(3, Cepoch(0, False))
    assert (four.role, four.phase, four.accepted_epoch) == (Role.LEADING, Phase.DISCOVERY, 1)
