"""Followers that introduce themselves before the leader knows that it leads."""

from node.core.broadcast import Peer
from node.core.machine import Settings
from node.core.messages import Cepoch, NewEpoch, Role, Vote
from node.core.ready import EpochRecord, Recovered


def test_a_leader_with_early_followers_proposes_one_epoch() -> None:
    """Swarm seed 20 with a small counter: node 2's CEPOCH was early and completed a quorum; the leader chose an epoch for it,
    and at once another one for all. Node 2 had promised the first and was waiting for its history; nobody moved until the
    leader gave up, five seconds later."""
    leader = Peer(Settings(me=3, members=(1, 2, 3)), Recovered(7, 7))
    leader.start(0)
    leader.link_up(2)
    leader.step(2, Cepoch(7, False))
    leader.step(2, Vote(1, 3, 0, 7, Role.LOOKING, False))
    assert leader.role is Role.LEADING
    ready = leader.ready()
    assert [record.epoch for record in ready.records if isinstance(record, EpochRecord)] == [8]
    proposed = [message.epoch for _, message in ready.messages_after_sync if isinstance(message, NewEpoch)]
    assert proposed == [8]
