"""Servers that show different zxids may have reached the same point."""

from zab_chaos.faults.cluster import Status
from zab_chaos.harness.backends.zookeeper.deployment import with_comparable_zxids

Zxid = tuple[int, int]


def far(*zxids: Zxid) -> list[Zxid]:
    answers = {
        node: Status(
            node=node, life=1, role="FOLLOWING", phase="BROADCAST", leader=3, epoch=2, accepted_epoch=2, last_zxid=zxid,
            delivered=zxid, digest="", tree="", established=True, amnesiac=False, frames={}, armed=[], unsynced_bytes=0,
        )
        for node, zxid in enumerate(zxids, 1)
    }  # fmt: skip
    return [status.delivered for status in with_comparable_zxids(answers).values()]


def test_a_leader_without_a_transaction_is_put_at_the_end_of_the_epochs_before() -> None:
    assert far((1, 7), (1, 7), (2, 0)) == [(1, 7)] * 3
    assert far((0, 0), (0, 0), (1, 0)) == [(0, 0)] * 3


def test_servers_that_are_behind_stay_behind() -> None:
    assert far((1, 6), (1, 7), (2, 0)) == [(1, 6), (1, 7), (1, 7)]
    assert far((1, 7), (2, 1), (2, 0)) == [(1, 7), (2, 1), (1, 7)]
    assert far((1, 7), (1, 7), (1, 8)) == [(1, 7), (1, 7), (1, 8)]
