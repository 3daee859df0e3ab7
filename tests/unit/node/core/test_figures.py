"""The examples of the papers, and the rules that were added for production, on a small ensemble."""

import pytest
from ensemble import Ensemble

from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.errors import NotLeading
from zab_chaos.node.core.looking import Looking
from zab_chaos.node.core.messages import Commit, Role, Vote
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.ready import EpochRecord
from zab_chaos.node.core.zxid import zxid


def led_by(n: int = 3, **settings: int) -> tuple[Ensemble, int, list[int]]:
    """An established ensemble: it, its leader, the followers."""
    world = Ensemble(n, seed=5, **settings)
    world.start()
    world.until(world.converged)
    leader = world.leader()
    assert leader is not None
    return world, leader, [i for i in world.members if i != leader]


def payloads(world: Ensemble) -> list[bytes]:
    return [data for _, data in world.ledger]


def test_ladis_figure_3_never_forget_a_delivered_message() -> None:
    """Server 1 commits and fails before any other server receives COMMIT: the others must still deliver."""
    world, leader, followers = led_by()
    world.submit(leader, b"P1", b"P2")
    world.until(lambda: len(world.servers[leader].state) == 2)
    assert all(not world.servers[i].state for i in followers), "nobody else has heard the COMMIT"
    world.crash(leader)
    world.until(lambda: all(len(world.servers[i].state) == 2 for i in followers))
    assert payloads(world) == [b"P1", b"P2"]


def test_ladis_figure_4_forget_a_skipped_message() -> None:
    """Server 1 proposes 3 to itself only and fails. When it returns, 3 is gone from its log."""
    world, leader, _ = led_by()
    world.submit(leader, b"P1", b"P2")
    world.until(world.converged)
    world.isolate(leader)
    world.submit(leader, b"P3")
    world.run(20)
    peer = world.servers[leader].peer
    assert peer is not None
    epoch = peer.current_epoch
    assert peer.journal.durable == zxid(epoch, 3)
    world.crash(leader)
    world.heal()
    world.until(lambda: world.leader() is not None)
    second = world.leader()
    assert second is not None
    world.submit(second, b"Q1")
    world.until(lambda: len(world.ledger) == 3)
    world.start(leader)
    world.until(world.converged)
    assert payloads(world) == [b"P1", b"P2", b"Q1"]
    assert any(f"truncate {{'keep': [{epoch}, 2], 'last': [{epoch}, 3]}}" in line for line in world.log)


def test_a_tail_that_a_quorum_holds_survives_its_leader() -> None:
    """An uncommitted transaction in the best log of the new quorum becomes part of its initial history."""
    world, leader, followers = led_by()
    world.crash(followers[0])
    world.submit(leader, b"tail")
    world.until(lambda: world.servers[followers[1]].peer.history.last > zx.ZERO)  # type: ignore[union-attr]
    world.run(3)
    world.crash(leader)
    world.start(followers[0])
    world.until(lambda: payloads(world) == [b"tail"])


def test_the_best_history_is_fetched_when_the_elected_leader_lacks_it() -> None:
    """A round-robin oracle is as safe as an election: the elected node need not have the best history."""

    class LowestFirst(Looking):
        @staticmethod
        def better(a: Vote, b: Vote) -> bool:
            return a.leader < b.leader

    class RoundRobin(Peer):
        looking_type = LowestFirst

    world = Ensemble(3, seed=3, peer_class=RoundRobin)
    world.start()
    world.until(world.converged)
    assert world.leader() == 1
    world.crash(1)
    world.until(lambda: world.leader() == 2)
    world.submit(2, b"a", b"b")
    world.until(lambda: len(world.ledger) == 2)
    world.start(1)
    world.crash(2)
    world.until(lambda: world.leader() == 1)
    assert payloads(world) == [b"a", b"b"]
    world.start(2)
    world.until(world.converged)


def test_an_amnesiac_node_counts_in_no_quorum_until_it_is_synchronized() -> None:
    world, leader, followers = led_by()
    a, b = followers
    world.crash(b)
    world.submit(leader, b"w")
    world.until(lambda: len(world.servers[a].state) == 1)
    # Only the leader and `a` hold w. `a` loses its disk; with b alone it must not form a quorum that forgot w.
    world.crash(leader, a)
    world.wipe(a)
    world.start(a, b)
    world.run(10_000)
    assert world.leader() is None
    world.start(leader)
    world.until(world.converged)
    assert payloads(world) == [b"w"]
    # Once a member again, it counts like any other node.
    world.crash(leader)
    world.until(lambda: world.leader() is not None)


def test_after_losing_a_quorum_of_disks_the_ensemble_refuses_to_form() -> None:
    world, leader, followers = led_by()
    world.submit(leader, b"w")
    world.until(world.converged)
    world.crash(*world.members)
    for node in followers:
        world.wipe(node)
    world.start()
    world.run(20_000)
    assert world.leader() is None
    assert all((s.peer is not None and s.peer.role == Role.LOOKING) or s.amnesiac for s in world.servers.values())


def test_an_exhausted_counter_begins_a_new_epoch() -> None:
    world, leader, _ = led_by(counter_max=3)
    world.submit(leader, b"1", b"2", b"3")
    peer = world.servers[leader].peer
    assert peer is not None
    assert peer.primary is not None
    assert peer.primary.room == 0
    epoch = peer.current_epoch
    world.until(lambda: (now := world.leader()) is not None and world.servers[now].peer.current_epoch > epoch)  # type: ignore[union-attr]
    assert len(world.ledger) == 3
    now = world.leader()
    assert now is not None
    assert world.submit(now, b"4") == zxid(epoch + 1, 1)
    world.until(lambda: len(world.ledger) == 4)


def test_room_is_limited_by_transactions_in_flight() -> None:
    world, leader, followers = led_by(outstanding=5)
    peer = world.servers[leader].peer
    assert peer is not None
    world.crash(*followers)
    world.submit(leader, *[b"x"] * 5)
    assert peer.primary is not None
    assert peer.primary.room == 0


def test_only_an_established_leader_broadcasts() -> None:
    world, _, followers = led_by()
    peer = world.servers[followers[0]].peer
    assert peer is not None
    with pytest.raises(NotLeading):
        peer.submit([b"x"])


def test_a_joiner_misses_nothing_that_is_proposed_while_it_joins() -> None:
    """ZOOKEEPER-962, 1264: the difference and the entry in the broadcast list are one step."""
    world, leader, followers = led_by()
    world.crash(followers[0])
    world.submit(leader, *[b"%d" % i for i in range(10)])
    world.start(followers[0])
    for i in range(10, 200):
        if world.leader() == leader:
            world.submit(leader, b"%d" % i)
        world.run(1)
    world.until(world.converged)
    assert payloads(world) == [b"%d" % i for i in range(200)]


def test_a_paused_leader_steps_down_and_its_epoch_ends() -> None:
    world, leader, followers = led_by()
    world.isolate(leader)
    world.submit(leader, b"lost")
    world.until(lambda: world.leader() in followers)
    peer = world.servers[leader].peer
    assert peer is not None
    world.until(lambda: not peer.primary)
    world.heal()
    world.until(world.converged)
    assert payloads(world) == []


def test_a_follower_with_a_higher_promise_forces_a_higher_epoch() -> None:
    """It promised an epoch that was never established; the established leader must choose an epoch above it."""
    world, _leader, followers = led_by()
    peer = world.servers[followers[0]].peer
    assert peer is not None
    world.crash(followers[0])
    world.servers[followers[0]].durable.append(EpochRecord(9))
    world.start(followers[0])
    world.until(world.converged)
    now = world.leader()
    assert now is not None
    assert world.servers[now].peer.current_epoch > 9  # type: ignore[union-attr]


def test_epochs_and_counters_are_compared_as_numbers() -> None:
    """Python has a single object only for each number up to 256."""
    world, _leader, followers = led_by()
    world.crash(followers[0])
    world.servers[followers[0]].durable.append(EpochRecord(1000))
    world.start(followers[0])
    world.until(world.converged)
    leader = world.leader()
    assert leader is not None
    peer = world.servers[leader].peer
    assert peer is not None
    epoch = peer.current_epoch
    assert epoch > 1000
    for i in range(1, 301):
        assert world.submit(leader, b"%d" % i) == zxid(epoch, i)
    world.until(world.converged)
    assert payloads(world) == [b"%d" % i for i in range(1, 301)]


def test_an_impossible_message_aborts_the_node_with_its_next_ready() -> None:
    world, leader, followers = led_by()
    follower = world.servers[followers[0]].peer
    assert follower is not None
    epoch = follower.current_epoch
    follower.step(leader, Commit(epoch, zxid(epoch, 9), 0))
    ready = follower.ready()
    assert ready is not None
    assert ready.abort == f"COMMIT up to {epoch}:9, beyond {zx.show(follower.history.last)}"


def test_a_follower_that_lags_beyond_the_log_gets_a_snapshot() -> None:
    world, leader, followers = led_by()
    world.snapshot_every = 5
    world.crash(followers[0])
    for i in range(40):
        world.submit(leader, b"%d" % i)
        world.run(20)
    assert world.servers[leader].peer.history.base > zx.ZERO  # type: ignore[union-attr]
    world.start(followers[0])
    world.until(world.converged)
    assert any(f"node {followers[0]}: snapshot" in line and "installed" in line for line in world.log)
