"""Simulated links: what happens to frames when a link is cut, stalled, slowed, reset or replaced."""

from collections import deque
from typing import Any

import pytest

from zab_chaos.faults.network import Toxic
from zab_chaos.harness.backends.simulator.ensemble import SimNetwork
from zab_chaos.model.world.network import SimNet, SimPipe
from zab_chaos.model.world.world import World

MS = 1_000_000
LINK = (1, 2)
FRAME_BYTES = 70


class End:
    """A server, as far as its sockets use it."""

    def __init__(self, number: int, others: dict[int, "End"]) -> None:
        self.id = number
        self.alive = self.booted = True
        self.stopped = False
        self.inbox: deque[bytes] = deque()
        self.connection_changes: list[bool] = []
        self.others = others

    def poke(self) -> None:
        """Do nothing: the test reads the inbox."""

    def on_connection(self, _pipe: SimPipe, connected: bool) -> None:
        self.connection_changes.append(connected)

    def server_of(self, peer: int) -> "End | None":
        return self.others[peer] if self.others[peer].alive else None

    def texts(self) -> list[str]:
        return [data.rstrip().decode() for data in self.inbox]


class Bench:
    """Links between nodes 1 to 3, and a pipe from 1 to 2."""

    def __init__(self, immediate: bool = True, erratic: bool = False) -> None:
        self.world = World(5, erratic)
        self.net = SimNet(self.world, 3)
        self.network = SimNetwork(self.net)
        self.ends: dict[int, Any] = {}
        self.ends.update({number: End(number, self.ends) for number in (1, 2, 3)})
        self.net.proxies[LINK].server_at = lambda node: self.ends[node]
        self.pipe = SimPipe(self.net.proxies[LINK], self.ends[1], 10, immediate)  # type: ignore[arg-type]
        self.sent = 0

    def settle(self, milliseconds: int = 100) -> None:
        self.world.run_for(milliseconds * MS)

    def send(self, count: int = 1) -> bool:
        taken = True
        for _ in range(count):
            self.sent += 1
            taken = self.pipe.send(f"m{self.sent}".ljust(FRAME_BYTES).encode()) and taken
        return taken

    def hit(self, kind: str, one_in: int, **attributes: int) -> None:
        """Let a toxic hit one in so many frames."""
        given = tuple({"one_in": one_in, **attributes}.items())
        self.network.disturb([LINK], [Toxic(kind, "upstream", given)], kind)

    @property
    def arrived(self) -> list[str]:
        return self.ends[2].texts()


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.settle()
    assert made.ends[1].connection_changes == [True]
    return made


def test_frames_arrive_in_order(bench: Bench) -> None:
    assert bench.send(9)
    bench.settle()
    assert bench.arrived == [f"m{i}" for i in range(1, 10)]


def test_an_erratic_network_delays_frames_until_it_is_calm() -> None:
    bench, quick = Bench(erratic=True), 10
    bench.settle()
    late = 0
    while late < 3:  # a frame waits with a probability of 0.002 at least
        before = len(bench.arrived)
        assert bench.send()
        bench.settle(quick)
        late += len(bench.arrived) == before
        bench.settle(500)
    bench.send(5)
    bench.world.chance.calm()
    bench.send(5)
    bench.settle(500)
    in_order = [int(text[1:]) for text in bench.arrived]
    assert in_order == sorted(in_order)
    bench.ends[2].inbox.clear()
    for _ in range(3000):
        bench.send()
        bench.settle(quick)
    assert len(bench.arrived) == 3000


def test_a_cut_takes_frames_that_wait_in_an_erratic_network() -> None:
    bench = Bench(erratic=True)
    bench.settle()
    while bench.net.proxies[LINK].delayed_until < bench.world.now + 20 * MS:
        bench.send()
        bench.settle(1)
    bench.settle(10)
    before = len(bench.arrived)
    bench.send(5)
    bench.network.cut([LINK], "timeout")
    bench.settle(1000)
    assert len(bench.arrived) <= before + 1  # a new toxic lets the frame through that waits in front


def test_a_timeout_toxic_drops_frames_and_keeps_the_connection(bench: Bench) -> None:
    bench.network.cut([LINK], "timeout")
    assert bench.send(3)
    bench.settle(2000)
    bench.network.heal([LINK])
    assert bench.send(1)
    bench.settle()
    assert bench.arrived == ["m4"]  # frames are missing, and neither end was told
    assert bench.ends[1].connection_changes == [True]


def test_a_stall_holds_and_releases_in_order(bench: Bench) -> None:
    bench.network.cut([LINK], "stall")
    assert bench.send(3)
    bench.settle(2000)
    assert bench.arrived == []
    bench.network.heal([LINK], release=True)
    bench.send(1)
    bench.settle()
    assert bench.arrived == ["m1", "m2", "m3", "m4"]


def test_a_stall_that_is_healed_by_a_new_proxy_loses_the_held_frames(bench: Bench) -> None:
    bench.network.cut([LINK], "stall")
    bench.send(3)
    bench.settle()
    bench.network.heal([LINK])
    bench.settle(1500)
    assert bench.arrived == []
    assert bench.ends[1].connection_changes == [True, False, True]


def test_a_disabled_link_breaks_and_refuses_until_it_is_healed(bench: Bench) -> None:
    bench.send(1)
    bench.network.cut([LINK], "disable")
    bench.settle(2000)
    assert bench.arrived == []  # the frame was on its way
    assert bench.ends[1].connection_changes == [True, False]
    assert not bench.send(1)
    bench.network.heal([LINK])
    bench.settle(500)
    assert bench.ends[1].connection_changes == [True, False, True]


def test_a_cut_also_loses_frames_that_a_closed_socket_had_sent(bench: Bench) -> None:
    bench.network.cut([LINK], "stall", "first")
    bench.send(2)
    bench.pipe.close()
    bench.network.cut([LINK], "disable", "second")
    bench.network.heal([LINK], "first", release=True)
    bench.network.heal([LINK], "second")
    bench.settle(2000)
    assert bench.arrived == []


def test_latency_and_bandwidth_take_time(bench: Bench) -> None:
    bench.network.disturb([LINK], [Toxic("latency", "upstream", (("jitter", 0), ("latency", 300)))], "slow")
    bench.send(1)
    bench.settle(290)
    assert bench.arrived == []
    bench.settle(60)
    assert bench.arrived == ["m1"]
    bench.network.heal([LINK], "slow")
    bench.settle(1500)
    bench.network.disturb([LINK], [Toxic("bandwidth", "upstream", (("rate", 1),))], "thin")  # some 70 bytes take 70 ms
    bench.send(5)
    bench.settle(250)
    assert 1 < len(bench.arrived) < 6


def test_a_reset_toxic_resets_each_new_connection(bench: Bench) -> None:
    toxic = Toxic("reset_peer", "upstream", (("timeout", 100),))
    bench.network.disturb([LINK], [toxic], "reset", fresh=True)
    bench.settle(2000)
    assert bench.ends[1].connection_changes.count(False) > 5
    bench.network.heal([LINK], "reset")
    bench.settle(500)
    assert bench.ends[1].connection_changes[-1] is True


def test_the_end_of_the_peer_is_noticed_soon_but_not_through_a_cut(bench: Bench) -> None:
    bench.ends[2].alive = False
    bench.net.process_ended(bench.ends[2])  # type: ignore[arg-type]
    bench.settle(60)
    assert bench.ends[1].connection_changes == [True, False]

    other = Bench()
    other.settle()
    other.network.cut([LINK], "timeout")
    other.ends[2].alive = False
    other.net.process_ended(other.ends[2])  # type: ignore[arg-type]
    other.settle(5000)
    assert other.ends[1].connection_changes == [True]
    other.network.heal([LINK])
    other.settle()
    assert other.ends[1].connection_changes == [True, False]


def test_a_slow_close_delays_the_news_that_the_peer_has_ended(bench: Bench) -> None:
    bench.network.disturb([LINK], [Toxic("slow_close", "upstream", (("delay", 500),))], "slow")
    bench.ends[2].alive = False
    bench.net.process_ended(bench.ends[2])  # type: ignore[arg-type]
    bench.settle(490)
    assert bench.ends[1].connection_changes == [True]
    bench.settle(60)
    assert bench.ends[1].connection_changes == [True, False]


def test_send_returns_false_when_the_queue_is_full(bench: Bench) -> None:
    bench.network.cut([LINK], "stall")
    assert bench.send(10)
    assert not bench.send(3)


def test_without_immediate_frames_wait_for_the_connection() -> None:
    bench = Bench(immediate=False)
    assert bench.send(2)
    bench.settle()
    assert bench.arrived == ["m1", "m2"]


def test_frames_that_had_not_left_a_killed_sender_are_lost(bench: Bench) -> None:
    bench.send(5)
    bench.pipe.process_ended(10 * MS)
    bench.settle()
    assert bench.arrived == []


def bits_apart(one: bytes, other: bytes) -> int:
    assert len(one) == len(other)
    return (int.from_bytes(one) ^ int.from_bytes(other)).bit_count()


def test_one_bit_is_flipped_in_the_first_frame_and_then_in_some(bench: Bench) -> None:
    bench.hit("corrupt", one_in=4)
    bench.send(200)
    bench.settle()
    sent = [f"m{i}".ljust(FRAME_BYTES).encode() for i in range(1, 201)]
    apart = [bits_apart(*each) for each in zip(sent, bench.ends[2].inbox, strict=True)]
    assert apart[0] == 1
    assert set(apart) == {0, 1}
    assert bench.network.frames(LINK, "corrupt") == (200, sum(apart))
    bits = {int.from_bytes(a) ^ int.from_bytes(b) for a, b in zip(sent, bench.ends[2].inbox, strict=True)}
    assert len(bits) > sum(apart) // 2  # at different places


def test_a_late_copy_of_a_corrupt_frame_is_not_corrupt(bench: Bench) -> None:
    """The copy may arrive after the fault was healed, when a corrupt one would end a session."""
    bench.hit("corrupt", one_in=1)
    bench.hit("late", one_in=1, delay=50)
    bench.send(1)
    bench.settle()
    first, again = bench.ends[2].inbox
    assert again == b"m1".ljust(FRAME_BYTES)
    assert bits_apart(first, again) == 1


def test_the_first_frame_is_misrouted_and_then_some(bench: Bench) -> None:
    bench.hit("misroute", one_in=4)
    bench.send(200)
    bench.settle()
    astray = bench.ends[3].texts()
    assert "m1" in astray
    assert 1 < len(astray) < 200
    assert sorted([*astray, *bench.arrived]) == sorted(f"m{i}" for i in range(1, 201))
    assert bench.network.frames(LINK, "misroute") == (200, len(astray))


def test_a_misrouted_frame_is_not_delayed_on_its_way(bench: Bench) -> None:
    """It ends a session of the node that receives it, which must not happen when the fault has long been healed."""
    bench.network.disturb([LINK], [Toxic("latency", "upstream", (("jitter", 0), ("latency", 5000)))], "slow")
    bench.hit("misroute", one_in=1)
    bench.send(1)
    bench.settle(100)
    assert bench.ends[3].texts() == ["m1"]


def test_frames_are_counted_until_the_toxic_is_removed(bench: Bench) -> None:
    bench.hit("late", one_in=1, delay=50)
    bench.send(2)
    bench.settle()
    assert sorted(bench.arrived) == ["m1", "m1", "m2", "m2"]
    bench.network.heal([LINK], "late")
    bench.settle(1500)
    bench.send(1)
    bench.settle()
    assert bench.arrived.count("m3") == 1
    assert bench.network.frames(LINK, "late") == (2, 2)
