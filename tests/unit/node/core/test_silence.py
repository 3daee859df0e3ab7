"""A peer from which nothing arrives is silent, and its session is closed. A part of a frame is something."""

from zab_chaos.node.core.messages import Ping, Role
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.ready import Recovered
from zab_chaos.node.core.settings import Settings
from zab_chaos.node.core.zxid import ZERO


def closed(peer: Peer, now: int) -> list[int]:
    """Let time pass, and return the peers whose sessions are closed."""
    peer.tick(now)
    ready = peer.ready()
    return ready.resets if ready is not None else []


def test_parts_of_a_frame_are_signs_of_life() -> None:
    settings = Settings(me=1, members=(1, 2, 3, 4))
    peer = Peer(settings, Recovered())
    peer.start(0)
    for other in (2, 3, 4):
        peer.link_up(other)
    assert closed(peer, settings.timeout) == []
    peer.heard(2)
    peer.step(3, Ping(Role.LOOKING, 0, ZERO, peer.digest))
    assert closed(peer, settings.timeout + 1) == [4]
    assert closed(peer, 2 * settings.timeout + 1) == []
    assert closed(peer, 2 * settings.timeout + 2) == [2, 3]


def test_a_part_from_a_session_that_was_closed_does_not_count() -> None:
    settings = Settings(me=1, members=(1, 2))
    peer = Peer(settings, Recovered())
    peer.start(0)
    peer.link_up(2)
    peer.link_down(2, "closed")
    peer.heard(2)
    assert closed(peer, settings.timeout + 1) == []
    assert 2 not in peer.links
